"""Bundle the scripts that draw figures in a page: Vega, Vega-Lite and vega-embed, from vl-convert."""

from functools import cache
from pathlib import Path
from typing import Final

from fastopen.common.atomic import write_atomic
from fastopen.common.resources import cache_folder
from fastopen.common.versions import version_of
from fastopen.report.figures import VEGA_LITE

EXPOSED: Final = "window.vegaEmbed = vegaEmbed;"


@cache
def library() -> str:
    """Return one script of 0.9 MB. Bundling takes seconds, so the result is kept in the user's cache."""
    path = cache_folder("report") / f"vega-{version_of('vl-convert-python')}-{VEGA_LITE}.js"
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        script = _bundled()
        _keep(path, script)
        return script


def _bundled() -> str:
    import vl_convert as vlc

    bundle = vlc.javascript_bundle(EXPOSED, VEGA_LITE)
    return "(() => {" + bundle.replace("</script", "<\\/script") + "})();"


def _keep(path: Path, script: str) -> None:
    """Write the file atomically, because other processes may read it. On failure, do without a cache."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, script)
    except OSError:
        return
