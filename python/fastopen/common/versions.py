"""Versions of installed packages."""


def version_of(package: str) -> str:
    """The version of an installed package: `fastopen` -> `0.1.0`.

    The standard library's module for it reads many others, so it is read when it is asked for.
    """
    from importlib import metadata

    return metadata.version(package)
