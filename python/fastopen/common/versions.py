"""Versions of installed packages."""


def version_of(package: str) -> str:
    """Return the version of an installed package: `fastopen` -> `0.1.0`.

    The import is local because importlib.metadata imports many modules.
    """
    from importlib import metadata

    return metadata.version(package)
