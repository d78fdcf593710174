"""The documentation site: the files that it is built from, and the faults that its check reports."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import site_builder as site
from places import ROOT


@pytest.fixture(name="project")
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], Path]:
    """Return a function that writes documents to a temporary project, which the site builder then reads."""

    def make(documents: dict[str, str]) -> Path:
        for name, text in documents.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path

    monkeypatch.setattr(site, "ROOT", tmp_path)
    return make


def test_everything_that_the_documents_lead_to_is_in_the_site() -> None:
    files, faults = site.gathered()
    assert faults == []
    names = {path.relative_to(ROOT).as_posix() for path in files}
    assert {
        "docs/tutorial.md",
        "docs/decisions/site.md",
        "CONTRIBUTING.md",
        "docs/images/report.png",
    } <= names


def test_a_link_to_no_file_is_named_with_its_line(project: Callable[[dict[str, str]], Path]) -> None:
    project({"docs/README.md": "# Front\n\n[a](a.md)\n", "docs/a.md": "# A\n\n`[code](c.md)`\n[b](b.md)\n"})
    assert site.gathered()[1] == ["docs/a.md:4: links to a file that the project does not have: b.md"]


def test_a_document_that_nothing_leads_to_is_named(project: Callable[[dict[str, str]], Path]) -> None:
    project({"docs/README.md": "# Front\n", "docs/decisions/alone.md": "# Alone\n"})
    assert site.gathered()[1] == ["docs/decisions/alone.md: no links lead here from docs/README.md"]


def test_sections_of_the_list_become_the_navigation() -> None:
    text = "# Front\n[apart](apart.md)\n## Learn\n| [a](a.md), [b](../b.md) | [web](https://a.test/c.md) |\n"
    (tree,) = site.navigation(text, "docs/README.md").removeprefix(text).split("\n\n```{toctree}\n")[1:]
    assert tree == ":hidden:\n:caption: Learn\n\na\n../b\n```\n"


def test_a_document_without_lists_is_left_as_it_is() -> None:
    assert site.navigation("[a](a.md)\n", "docs/cli.md") == "[a](a.md)\n"


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<a href="gone.html">', "page.html: broken link: gone.html"),
        ('<a href="other.html#gone">', "page.html: broken link: other.html#gone"),
        ('<a href="#gone">', "page.html: broken link: #gone"),
        ('<img src="gone.png">', "page.html: broken link: gone.png"),
        ('<script src="https://cdn.test/a.js">', "page.html: loads from another site: https://cdn.test/a.js"),
        ('<link href="//cdn.test/a.css">', "page.html: loads from another site: //cdn.test/a.css"),
        ('<img srcset="//cdn.test/a.png 2x">', "page.html: loads from another site: //cdn.test/a.png"),
        (
            "<style>a { src: url('https://cdn.test/f') }</style>",
            "page.html: loads from another site: https://cdn.test/f",
        ),
    ],
)
def test_a_fault_of_a_built_page_is_found(tmp_path: Path, page: str, fault: str) -> None:
    (tmp_path / "page.html").write_text(page)
    (tmp_path / "other.html").write_text('<p id="here">')
    assert site.faults_of_site(tmp_path) == [fault]


def test_a_style_sheet_that_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text(
        "@import 'https://cdn.test/b.css';\n.a { background: url(data:image/png,a) }"
    )
    assert site.faults_of_site(tmp_path) == ["a.css: loads from another site: https://cdn.test/b.css"]


def test_a_sound_page_has_no_fault(tmp_path: Path) -> None:
    sound = '<a href="https://a.test/"><a href="b%20c.html?q=1#h%C3%A9"><a href="#top"><img src="data:,">'
    (tmp_path / "page.html").write_text(sound)
    (tmp_path / "b c.html").write_text('<p id="hé">', encoding="utf-8")
    assert site.faults_of_site(tmp_path) == []


@pytest.mark.skipif(not site.PYTHON.exists(), reason="the site's tools are not installed: make docs")
@pytest.mark.slow
def test_a_heading_that_is_not_there_fails_the_build(
    tmp_path: Path, project: Callable[[dict[str, str]], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """Build a small project with the site's tools and settings. `make docs` builds the whole site."""
    configuration = {name: (ROOT / name).read_text() for name in ("docs/conf.py", "docs/site.css")}
    modules = {"python/fastopen/common/errors.py": '"""Nothing."""\n'}
    text = "# Front\n\n[there](#front)\n\n[gone](#gone)\n"
    source = project({"docs/README.md": text, **configuration, **modules})
    assert site.sphinx(source, tmp_path / "site") == 1
    warned = re.findall(r"README\.md:(\d+): WARNING", capfd.readouterr().err)
    assert warned == ["5"]


@pytest.mark.parametrize("file", ["docs/requirements.txt", "packages/requirements.txt"])
def test_what_the_site_and_the_image_are_built_with_is_pinned_by_digest(file: str) -> None:
    """Without digests, pip would install whatever a registry has under a package's name and version."""
    requirements = (ROOT / file).read_text().replace("\\\n", "")
    pinned = [line for line in requirements.splitlines() if line[:1].isalpha()]
    assert len(pinned) > 20
    assert [line for line in pinned if "==" not in line or "--hash=sha256:" not in line] == []


def test_the_image_has_the_versions_that_are_tested_together() -> None:
    """`constraints.txt` pins the tested versions; the image's list must have the same."""

    def pins(file: str) -> dict[str, str]:
        found = re.findall(r"(?m)^([A-Za-z0-9_.-]+)==([^\s;]+)", (ROOT / file).read_text())
        return {name.lower().replace("_", "-"): version for name, version in found}

    tested, image = pins("constraints.txt"), pins("packages/requirements.txt")
    assert {name: tested.get(name) for name in image} == image
