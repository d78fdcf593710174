"""The output of `fastopen page show`."""

from io import StringIO

from rich.console import Console

from fastopen.cli.commands.page import page_renderables
from fastopen.pages import load_pages


def printed(*, tree: bool = False, width: int = 100) -> str:
    target = Console(file=StringIO(), width=width, color_system=None)
    for renderable in page_renderables(load_pages(["example"])[0].page, width, tree=tree):
        target.print(renderable)
    assert isinstance(target.file, StringIO)
    return "\n".join(line.rstrip() for line in target.file.getvalue().splitlines())


def test_the_text_says_what_the_page_is_made_of() -> None:
    text = printed()
    assert "8 to 3 hosts, 1 redirect" in text
    rows = [line.split()[:7] for line in text.splitlines()]
    assert ["static.example.com", "4", "69", "kB", "1", "kB", "4"] in rows
    assert "note: a redirect, a document" in text
    assert "├──" not in text


def test_the_tree_shows_each_resource_below_its_initiator() -> None:
    text = printed(tree=True)
    assert "│   └── 6 http://static.example.com/text.woff2  font, 22 kB, +4.0 ms, think 1.0 ms" in text
