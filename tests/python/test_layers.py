"""The layers of DESIGN.md: nothing imports to its right."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "python" / "fastopen"
# Leftmost first. The ones that share a line may not import each other.
LAYERS = [
    {
        "errors",
        "resources",
        "units",
        "versions",
        "atomic",
        "closing",
        "collector",
        "csv_cells",
        "json_memory",
    },
    {"behaviours", "pydantic_errors", "clients", "user_files", "temporary"},
    {"pages", "kernels", "exec_front", "probe", "record", "why"},
    {"contract"},
    {"experiments"},
    {"engines", "replay_validation"},
    {"runs", "conform"},
    {"statistics", "audit"},
    {"workflows", "attribution", "serve_bench"},
    {"comparison"},
    {"figures"},
    {"report"},
    {"api", "browse"},
    {"cli"},
]


def layer_of(module: str) -> int:
    """Index of the layer that `fastopen.<module>...` belongs to."""
    name = module.split(".")[1]
    return next(index for index, names in enumerate(LAYERS) if name in names)


def imported_modules(source: str) -> set[str]:
    """All modules of ours that a source text imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "imports are absolute, so that this test can read them"
            names = {f"fastopen.{alias.name}" for alias in node.names}
            found |= names if node.module == "fastopen" else {node.module}
    return {name for name in found if name.startswith("fastopen.")}


def test_no_module_imports_from_a_layer_to_its_right() -> None:
    wrong: list[str] = []
    files = [path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.name != "__init__.py"]
    assert files
    for path in files:
        module = "fastopen." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for name in imported_modules(path.read_text()):
            same_package = name.split(".")[1] == module.split(".")[1]
            if not same_package and layer_of(name) >= layer_of(module):
                wrong.append(f"{module} imports {name}")
    assert wrong == []


def test_an_import_from_the_right_would_be_found() -> None:
    assert layer_of("fastopen.cli.app") > layer_of("fastopen.pages.model")
    assert imported_modules("def f():\n    from fastopen.cli import app\n") == {"fastopen.cli"}
