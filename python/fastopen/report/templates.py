"""Render HTML templates into pages that need no network. Jinja2 escapes all text that comes from runs."""

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fastopen.common.phrases import plural

HERE: Final = "fastopen.report"


def policy(*scripts: str) -> str:
    """Return a Content-Security-Policy that allows no network, and no inline scripts except `scripts`."""
    digests = (base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {allowed}"


def asset(name: str, package: str = HERE) -> str:
    """Return the text of the file `name` in the folder `assets/` of a Python package."""
    return (resources.files(package) / "assets" / name).read_text(encoding="utf-8")


def whole_page(template: str, *scripts: str, **content: Any) -> str:
    """Render a template of the `assets` folder as an HTML page, with `content` as its variables and with the
    style sheet. The Content-Security-Policy of the page allows only the inline scripts in `scripts`."""
    style = Markup(asset("report.css"))  # noqa: S704  # a packaged file
    return environment().get_template(template).render(style=style, policy=policy(*scripts), **content)


@cache
def environment(package: str = HERE) -> Environment:
    """Return the Jinja2 environment for the templates in `assets/` of `package`. They can include templates
    of fastopen.report. An undefined name in a template is an error."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(one, "assets") for one in (package, HERE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["plural"] = plural
    return made
