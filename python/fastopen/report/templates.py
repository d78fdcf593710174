"""Templates of HTML that needs no network: Jinja2 escapes whatever a page brings."""

import base64
import hashlib
from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined


def policy(*scripts: str) -> str:
    """Content-Security-Policy: these scripts and no other, and no request to anywhere."""
    digests = (base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {allowed}"


def asset(name: str) -> str:
    """A file of `assets/`."""
    return (resources.files("fastopen.report") / "assets" / name).read_text(encoding="utf-8")


def environment() -> Environment:
    """Where templates are found; what is not defined is an error."""
    return Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
