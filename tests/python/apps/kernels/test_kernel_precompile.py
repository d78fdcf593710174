"""Precompiled headers: the files that are compiled without them, and builds in which they fail."""

import io
import subprocess
from pathlib import Path

import pytest

from apps.kernels.fake_kernel import write_recipe, write_source
from fastopen.apps.kernels.compile import (
    CLASHING,
    FIRST,
    LIGHTLY,
    NAMES,
    PLAIN,
    lighten,
    precompile,
    prepare_names,
)
from fastopen.common.process import plain_environment
from fastopen.engines.kernel_recipe import Recipe, read_recipe

FLAGS = """\
basename_flags = -DKBUILD_BASENAME=$(call name-fix,$(basetarget))
modname_flags  = -DKBUILD_MODNAME=$(call name-fix,$(modname)) \\
    -D__KBUILD_MODNAME=$(call name-fix-token,$(modname))
"""
COMMAND = (
    "gcc -Wp,-MMD,x.d -Iinclude -include {first} -O2 -DFASTOPEN_KBUILD_BASENAME='\"x\"' -c -o x.o lib/x.c"
)
MAKEFILE = """
lib/bsearch.o:
	@echo "savedcmd_lib/bsearch.o := {command}" > lib/.bsearch.o.cmd
"""
SOURCES = {
    "kernel/softirq.c": "#define GIVE_ALL\n#include <linux/x.h>\n",
    "kernel/late.c": "#include <linux/a.h>\n#undef LATE\n#include <linux/b.h>\n",
    "lib/message.c": '#define pr_fmt(fmt) "x: " fmt\n#include <linux/x.h>\n',
    "lib/own.c": "#include <linux/x.h>\n#define OWN 1\n",
}


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> Path:
    """Return a kernel source tree with the parts of the kernel's makefiles that precompiling uses."""
    tree = write_source(tmp_path / "linux")
    command = COMMAND.format(first=FIRST)
    files = {
        **SOURCES,
        str(FIRST): "/* what this file is first in */\n",
        "scripts/Makefile.lib": FLAGS,
        "Makefile": MAKEFILE.format(command=command.replace('"', '\\"')),
    }
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    return tree


def recipe_with(headers: str, folder: Path) -> Recipe:
    write_recipe(folder)
    (folder / "headers.h").write_text(headers)
    return read_recipe(folder)


def test_each_file_gets_its_own_names_after_the_first_header(tree: Path) -> None:
    assert prepare_names(tree)
    text = (tree / "scripts/Makefile.lib").read_text()
    assert " -DKBUILD" not in text
    assert " -D__KBUILD" not in text
    assert "-DFASTOPEN_KBUILD_MODNAME=$(call name-fix,$(modname))" in text
    assert f"-include $(srctree)/{NAMES}" in text
    assert (tree / NAMES).read_text().splitlines() == [
        "#define KBUILD_BASENAME FASTOPEN_KBUILD_BASENAME",
        "#define KBUILD_MODNAME FASTOPEN_KBUILD_MODNAME",
        "#define __KBUILD_MODNAME FASTOPEN___KBUILD_MODNAME",
    ]


def test_files_that_define_something_ahead_of_a_header_read_it_themselves(tree: Path) -> None:
    prepare_names(tree)
    last = (tree / "scripts/Makefile.lib").read_text().splitlines()[-1]
    plain = " ".join(["kernel/late", "kernel/softirq", *CLASHING])
    assert last == f"modname_flags += $(if $(filter {plain},$(obj)/$(basetarget)),-D{PLAIN})"


def test_a_kernel_whose_make_differs_is_left_as_it_is(tree: Path) -> None:
    (tree / "scripts/Makefile.lib").write_text("nothing known\n")
    assert not prepare_names(tree)
    assert (tree / "scripts/Makefile.lib").read_text() == "nothing known\n"


def test_gcc_takes_the_precompiled_header_except_where_a_file_wants_none(tree: Path, tmp_path: Path) -> None:
    headers = f"#ifdef {PLAIN}\n#error plain\n#endif\nint precompiled;\n"
    log = io.BytesIO()
    with (tmp_path / "log").open("w+b") as file:
        precompile(tree, recipe_with(headers, tmp_path / "recipe"), ["make"], plain_environment(), file)
        file.seek(0)
        log.write(file.read())
    assert b"no precompiled header" not in log.getvalue(), log.getvalue()
    (tree / "user.c").write_text("int main(void) { return precompiled; }\n")
    taken = ["gcc", "-Iinclude", "-include", str(FIRST), "-O2", "-o", "user", "user.c"]
    assert subprocess.run(taken, cwd=tree, check=False).returncode == 0
    passed_over = subprocess.run([*taken, f"-D{PLAIN}"], cwd=tree, capture_output=True, check=False)
    assert b"'precompiled' undeclared" in passed_over.stderr.replace("\u2018".encode(), b"'").replace(
        "\u2019".encode(), b"'"
    )


def test_a_header_that_does_not_compile_costs_only_time(tree: Path, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+b") as log:
        precompile(tree, recipe_with("#error no\n", tmp_path / "recipe"), ["make"], plain_environment(), log)
        log.seek(0)
        assert b"no precompiled header" in log.read()
    assert not (tree / f"{FIRST}.gch").exists()


@pytest.mark.parametrize(
    ("file", "lightly"),
    [
        *(("fs/proc/base", True), ("mm/slub", True), ("net/core/filter", True), ("lib/vsprintf", True)),
        *(("net/ipv4/tcp", False), ("net/core/dev", False), ("kernel/time/hrtimer", False)),
    ],
)
def test_what_no_load_waits_for_is_compiled_lightly(tree: Path, file: str, lightly: bool) -> None:
    lighten(tree)
    folder, name = file.rsplit("/", 1)
    makefile = f"_c_flags = -O2\nobj = {folder}\nbasetarget = {name}\ninclude scripts/Makefile.lib\n"
    makefile += "all:\n\t@echo $(_c_flags)\n"
    (tree / "Makefile").write_text(makefile)
    flags = ["-O2", "-O1"] if lightly else ["-O2"]
    assert subprocess.check_output(["make", "--silent", LIGHTLY], cwd=tree, text=True).split() == flags
