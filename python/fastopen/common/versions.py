"""Look up versions of installed packages."""


def version_of(package: str) -> str:
    """Return the version of an installed package, such as `0.1.0`. Raises PackageNotFoundError."""
    from importlib import metadata

    return metadata.version(package)
