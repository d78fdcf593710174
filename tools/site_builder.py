#!/usr/bin/env python3
"""Build the site from the documents. Run it with the Python of the environment that `make docs` creates.

    build/docs-venv/bin/python tools/site_builder.py    # into build/site; open build/site/index.html

The sections of docs/README.md become the site's navigation. docs/README.md, and all files that can be
reached from it by links, are copied to build/docs-source. Sphinx builds the site from the copies; warnings
are errors. Then the links of all pages are checked, and no page may load anything from another site. Errors
are printed with their locations; the exit status is then 1."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "build" / "docs-source"
SITE: Final = ROOT / "build" / "site"
PYTHON: Final = ROOT / "build" / "docs-venv" / "bin" / "python"
RUSTDOC: Final = ROOT / "target" / "doc"
FRONT: Final = "docs/README.md"
# Documents that list other documents, which become their subpages in the navigation.
LISTS: Final = (FRONT, "docs/decisions/README.md", "docs/measurements/README.md")
# The document of the Python API, and the objects whose docstrings are appended to it.
API: Final = "docs/api.md"
DOCSTRINGS: Final = (
    ("class", "fastopen.api.Experiment"),
    ("class", "fastopen.api.Run"),
    ("function", "fastopen.api.run"),
    ("function", "fastopen.api.open_run"),
    ("class", "fastopen.common.errors.InputError"),
    ("class", "fastopen.common.errors.MachineError"),
)
MODULES: Final = ("__init__.py", "common/__init__.py", "common/errors.py", "api/*.py")
LINK: Final = re.compile(r"\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")
CRATE: Final = re.compile(r"\]\((?:\.\./)*crates/(\w+)/src/lib\.rs\)")
# Attributes whose URL a browser loads without a click. `href` counts only in <link>.
LOADED: Final = ("src", "srcset", "poster", "data")
STYLE_LOADS: Final = re.compile(r"(?:@import\s+|url\()\s*['\"]?((?:https?:)?//[^'\")\s]+)")
REDIRECT: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>fastopen</title>
<meta http-equiv="refresh" content="0; url=docs/README.html"><a href="docs/README.html">fastopen</a></html>
"""


def prose(text: str) -> str:
    """Return Markdown text without code blocks and code spans. Line numbers stay the same."""
    fenced = re.sub(r"^```.*?^```", lambda found: re.sub(r"[^\n]", "", found[0]), text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", fenced)


def linked(path: Path) -> Iterator[tuple[int, Path]]:
    """Yield the line number and the target of each link from a document to a file."""
    for number, line in enumerate(prose(path.read_text(encoding="utf-8")).splitlines(), 1):
        for target, _ in LINK.findall(line):
            if target:
                yield number, (path.parent / target).resolve()


def gathered() -> tuple[list[Path], list[str]]:
    """Return all files that links from docs/README.md reach, and messages on bad links and unlinked files."""
    found, waiting, faults = {ROOT / FRONT}, [ROOT / FRONT], []
    while waiting:
        document = waiting.pop()
        for number, target in linked(document):
            if not target.is_file() or not target.is_relative_to(ROOT):
                place = f"{document.relative_to(ROOT)}:{number}"
                faults.append(f"{place}: links to a file that the project does not have: {target.name}")
            elif target not in found:
                found.add(target)
                waiting += [target] if target.suffix == ".md" else []
    unreached = {*ROOT.glob("docs/**/*.md")} - found
    faults += [f"{path.relative_to(ROOT)}: no links lead here from {FRONT}" for path in sorted(unreached)]
    return sorted(found), faults


def navigation(text: str, name: str) -> str:
    """Return a document's text. If `name` is in LISTS, append a hidden table of contents for each section."""
    if name not in LISTS:
        return text
    sections = re.split(r"^## (.*)$", text, flags=re.M)
    pairs = zip(sections[1::2], sections[2::2], strict=True) if len(sections) > 1 else [("", text)]
    entries = [
        (title, [target.removesuffix(".md") for target, _ in LINK.findall(body) if target.endswith(".md")])
        for title, body in pairs
    ]
    trees = [
        "\n".join(["```{toctree}", ":hidden:", *([f":caption: {title}"] if title else []), "", *names, "```"])
        for title, names in entries
    ]
    return "\n\n".join([text, *trees]) + "\n"


def docstrings() -> str:
    """Return the last section of the document of the Python API: directives that render the docstrings."""
    directives = (
        f".. autoapi{kind}:: {name}" + ("\n   :members:" if kind == "class" else "")
        for kind, name in DOCSTRINGS
    )
    return "\n## Reference\n```{eval-rst}\n" + "\n\n".join(directives) + "\n```\n"


def gather(files: list[Path]) -> None:
    """Copy the site's files to the folder that Sphinx reads, with navigation and links to rustdoc's pages."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    modules = [path for name in MODULES for path in ROOT.glob(f"python/fastopen/{name}")]
    for path in [*files, *modules, ROOT / "docs/conf.py", ROOT / "docs/site.css"]:
        name = path.relative_to(ROOT).as_posix()
        copy = SOURCE / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".md":
            shutil.copyfile(path, copy)
            continue
        text = path.read_text(encoding="utf-8") + (docstrings() if name == API else "")
        up = "../" * name.count("/")
        text = CRATE.sub(rf"](rustdoc:{up}rust/fastopen_\1/index.html)", text)
        copy.write_text(navigation(text, name), encoding="utf-8")


def sphinx(source: Path, site: Path) -> int:
    """Build the pages with Sphinx; warnings are errors. Return the exit status."""
    strict = ["--builder", "html", "--fail-on-warning", "--quiet", "--jobs", "auto"]
    state = ["--doctree-dir", str(source / ".doctrees"), "--conf-dir", str(source / "docs")]
    command = [str(PYTHON), "-m", "sphinx", *strict, *state, str(source), str(site)]
    return subprocess.run(command, check=False).returncode


class Page(HTMLParser):
    """The links of an HTML page, the URLs that it loads, and its anchors, to which other pages may link."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.names.add(value)
            if name == "href" and value and tag == "a":
                self.links.append(value)
            elif value and (name in LOADED or (name == "href" and tag == "link")):
                # A srcset is a list of URLs, each with a descriptor (HTML Standard, 4.8.4.2.1).
                self.loads += [part.split()[0] for part in value.split(", ")] if name == "srcset" else [value]


def faults_of_page(path: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Yield a message for each broken link of a page, and for each URL that it loads from another site."""
    for address in (*pages[path].links, *pages[path].loads):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            if address in pages[path].loads and parts.scheme != "data":
                yield f"loads from another site: {address}"
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        anchor = unquote(parts.fragment)
        # An empty fragment and `top` mean the top of the page (HTML Standard, 7.4.6.4).
        known = target not in pages or anchor in ("", "top") or anchor in pages[target].names
        if not target.is_file() or not known:
            yield f"broken link: {address}"


def faults_of_site(site: Path) -> list[str]:
    """Return messages about faults in a site's pages. Skip rustdoc's pages, because rustdoc checks them."""
    ours = [
        path
        for path in sorted(site.resolve().rglob("*"))
        if "rust" not in path.relative_to(site.resolve()).parts[:1]
    ]
    texts = {path: path.read_text(encoding="utf-8") for path in ours if path.suffix in (".html", ".css")}
    pages = {path: Page(text) for path, text in texts.items() if path.suffix == ".html"}
    faults = [
        (path, f"loads from another site: {address}")
        for path in texts
        for address in STYLE_LOADS.findall(texts[path])
    ]
    faults += [(path, fault) for path in pages for fault in faults_of_page(path, pages)]
    return [f"{path.relative_to(site.resolve())}: {fault}" for path, fault in faults]


def build() -> list[str]:
    """Build the site. Return messages about its faults; empty if there are none."""
    files, faults = gathered()
    if faults:
        return faults
    gather(files)
    shutil.rmtree(SITE, ignore_errors=True)
    if sphinx(SOURCE, SITE):
        return ["Sphinx printed warnings or errors, see above"]
    shutil.copytree(RUSTDOC, SITE / "rust", ignore=shutil.ignore_patterns(".lock"))
    (SITE / "index.html").write_text(REDIRECT, encoding="utf-8")
    return faults_of_site(SITE)


def main() -> int:
    """Build and check the site, and print its faults. Return the exit status."""
    faults = build()
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
