"""The layers of docs/dev/design.md: no layer imports one to its right, and nothing imports an app."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT

PACKAGE = ROOT / "python" / "fastopen"
TESTS = ROOT / "tests" / "python"
APPS = sorted(path.name for path in (PACKAGE / "apps").iterdir() if (path / "__init__.py").is_file())
# The leftmost layer first. Packages in the same line must not import each other.
LAYERS = [
    {"common"},
    {"pages"},
    {"contract"},
    {"experiments"},
    {"engines"},
    {"runs"},
    {"analysis.statistics", "analysis.audit"},
    {"workflows", "analysis.attribution"},
    {"analysis.comparison"},
    {"report.figures"},
    {"report"},
    {"api"},
    {"cli"},
    {"apps"},
]


NONE = -1
"""The index that `layer_of` returns for a folder that only contains layers."""


def layer_of(module: str) -> int:
    """Return the index of the layer that `fastopen.<module>...` belongs to, or NONE."""
    parts = module.split(".")
    names = {".".join(parts[1:3]), parts[1]}
    found = [index for index, layer in enumerate(LAYERS) if names & layer]
    return min(found, default=NONE)


def package_of(module: str) -> str:
    """Return the entry of LAYERS, or the app, to which a module belongs."""
    parts = module.split(".")
    inner = ".".join(parts[1:3])
    nested = any(inner in layer for layer in LAYERS) or parts[1] == "apps"
    return inner if nested else parts[1]


def imported_modules(source: str) -> set[str]:
    """Return all modules of fastopen that a source text imports anywhere."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "imports are absolute, so that this test can read them"
            folder = (PACKAGE.parent / node.module.replace(".", "/")).is_dir()
            inner = {f"{node.module}.{alias.name}" for alias in node.names} if folder else set()
            found |= {name for name in inner if is_module(name)} or {node.module}
    return {name for name in found if name.startswith("fastopen.")}


def is_module(name: str) -> bool:
    path = PACKAGE.parent / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def modules() -> dict[str, Path]:
    files = [path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.name != "__init__.py"]
    return {"fastopen." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in files}


def test_no_module_imports_from_a_layer_to_its_right() -> None:
    wrong: list[str] = []
    for module, path in modules().items():
        own = layer_of(module)
        for name in imported_modules(path.read_text()):
            other = layer_of(name)
            elsewhere = package_of(name) != package_of(module)
            if elsewhere and NONE not in (own, other) and other >= own:
                wrong.append(f"{module} imports {name}")
    assert wrong == []


def test_an_import_from_the_right_would_be_found() -> None:
    assert layer_of("fastopen.cli.app") > layer_of("fastopen.pages.model")
    assert layer_of("fastopen.report.figures.style") < layer_of("fastopen.report.page")
    assert imported_modules("def f():\n    from fastopen.cli import app\n") == {"fastopen.cli.app"}
    assert {package_of(f"fastopen.apps.{app}.x") for app in APPS} == {f"apps.{app}" for app in APPS}


def test_every_module_belongs_to_a_layer() -> None:
    assert {module for module in modules() if layer_of(module) == NONE} == {"fastopen.analysis.__init__"}


@pytest.mark.parametrize("app", APPS)
def test_an_app_can_be_deleted(app: str, tmp_path: Path) -> None:
    """All other modules can be imported without the app's folder, and no other test needs the app."""
    # Copy bytecode too, or all is compiled again, but not the files to which other tests are writing some.
    shutil.copytree(PACKAGE, tmp_path / "fastopen", ignore=shutil.ignore_patterns("*.pyc.*"))
    shutil.rmtree(tmp_path / "fastopen" / "apps" / app)
    names = [name for name in modules() if not name.startswith(f"fastopen.apps.{app}.")]
    code = f"""
import importlib
for name in {names!r}:
    if not name.endswith("__main__"):
        importlib.import_module(name.removesuffix(".__init__"))
from fastopen.cli.discovery import Commands
print(*(one.name for one in Commands().commands.values()))
"""
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    own = {path.stem.replace("_", "-") for path in (PACKAGE / "apps" / app / "commands").glob("[!_]*.py")}
    others = {path.stem.replace("_", "-") for path in PACKAGE.glob("cli/commands/[!_]*.py")} | {
        path.stem.replace("_", "-")
        for other in APPS
        if other != app
        for path in (PACKAGE / "apps" / other / "commands").glob("[!_]*.py")
    }
    assert {*done.stdout.split()} == others
    assert own
    named = re.compile(rf"fastopen\.apps\.{app}\b|fastopen\(\s*\"(?:{'|'.join(own - others)})\"")
    elsewhere = [path for path in TESTS.rglob("*.py") if not path.is_relative_to(TESTS / "apps" / app)]
    assert [str(path) for path in elsewhere if named.search(path.read_text())] == []


def test_apps_use_of_the_command_line_what_the_design_names() -> None:
    (named,) = re.findall(
        r"of `cli` it may use (.+?)\.", (ROOT / "docs" / "dev" / "design.md").read_text(), re.S
    )
    public = {f"fastopen.cli.{name}" for name in re.findall(r"`(\w+)`", named)}
    used = {
        name
        for path in (PACKAGE / "apps").rglob("*.py")
        for name in imported_modules(path.read_text())
        if name.startswith("fastopen.cli")
    }
    assert used == public
