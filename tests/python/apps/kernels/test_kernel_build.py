"""Building a kernel from a small fake source: the installed files, and the faults that can occur."""

import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from apps.kernels.fake_kernel import write_recipe, write_source
from fastopen.apps.kernels import build
from fastopen.apps.kernels.build import workspace
from fastopen.common.errors import InputError, MachineError
from fastopen.engines import kernels
from fastopen.engines.kernel_recipe import is_outdated, read_recipe

pytestmark = pytest.mark.slow

Build = Callable[..., build.Built]
WAITER = (
    "import sys; from pathlib import Path; from fastopen.apps.kernels.build import workspace\n"
    "with workspace(Path(sys.argv[1]), lambda: print('waiting', flush=True)): print('working')\n"
)


@pytest.fixture(name="run_build")
def _run_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Return a function that builds from a folder or tarball with the recipe of `write_recipe`."""
    recipe = read_recipe(write_recipe(tmp_path / "recipe"))
    monkeypatch.setattr(build, "read_recipe", lambda: recipe)

    def run(source: Path, force: bool = False, **options: bool) -> build.Built:
        return build.build_kernel(build.BuildRequest(source, None, force, **options), lambda *_: None)

    return run


def left_in_cache() -> list[str]:
    """Return the names of hidden files and folders in the folder of kernels. All others there are kernels."""
    return sorted(path.name for path in kernels.kernels_folder().iterdir() if path.name[0] == ".")


def test_a_build_installs_a_kernel_and_leaves_no_work(tmp_path: Path, run_build: Build) -> None:
    built = run_build(write_source(tmp_path / "linux"))
    known = built.kernel.manifest
    assert built.new
    assert known.name.startswith("7.3.4-")
    assert (known.version, known.source, known.source_version) == ("7.3.4", "linux", "7.3.4")
    assert (known.hz, known.arguments, known.compiler) == (250, ["seccomp=on"], "gcc (Test) 1.2")
    assert kernels.find() == built.kernel
    assert left_in_cache() == [".lock"]


def test_the_same_inputs_build_nothing_again_unless_forced(tmp_path: Path, run_build: Build) -> None:
    source = write_source(tmp_path / "linux")
    first = run_build(source)
    assert run_build(source) == build.Built(first.kernel, new=False)
    again = run_build(source, force=True)
    assert again.new
    assert [kernel.name for kernel in kernels.installed()] == [first.kernel.name]


def test_a_tarball_is_known_by_its_digest_and_a_folder_by_none(tmp_path: Path, run_build: Build) -> None:
    source = write_source(tmp_path / "linux")
    assert run_build(source).kernel.manifest.source_sha256 is None
    tarball = tmp_path / "linux.tar"
    with tarfile.open(tarball, "w") as archive:
        archive.add(source, "linux")
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    assert run_build(tarball).kernel.manifest.source_sha256 == digest


@pytest.mark.parametrize("kind", ["up", "absolute", "through a link", "hard link", "link instead of a file"])
def test_a_hostile_tarball_writes_nothing_outside_of_its_folder(
    tmp_path: Path, run_build: Build, kind: str
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("mine")
    tarball = tmp_path / "hostile.tar"
    with tarfile.open(tarball, "w") as archive:
        archive.add(write_source(tmp_path / "linux"), "linux")

        def add(name: str, link: str = "", of: bytes = tarfile.REGTYPE) -> None:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = of, link
            member.size = 0 if link else 4
            archive.addfile(member, None if link else io.BytesIO(b"evil"))

        if kind == "up":
            add("linux/" + "../" * 20 + f"{victim}/file")
        elif kind == "absolute":
            add(f"{victim}/file")
        elif kind == "through a link":
            add("linux/out", str(victim), tarfile.SYMTYPE)
            add("linux/out/file")
        elif kind == "hard link":
            add("linux/same", f"{victim}/file", tarfile.LNKTYPE)
            add("linux/same")
        else:
            add("linux/.config", f"{victim}/file", tarfile.SYMTYPE)
            add("linux/out", f"{victim}/new", tarfile.SYMTYPE)
    with contextlib.suppress(InputError):  # for some of these members, tar itself skips them instead
        run_build(tarball)
    assert [(path.name, path.read_text()) for path in victim.iterdir()] == [("file", "mine")]


def test_a_changed_source_is_another_kernel(tmp_path: Path, run_build: Build) -> None:
    source = write_source(tmp_path / "linux")
    run_build(source)
    (source / "main.c").write_text((source / "main.c").read_text() + "/* changed */\n")
    assert run_build(source).new
    assert len(kernels.installed()) == 2


def test_if_missing_is_content_with_what_this_recipe_built(tmp_path: Path, run_build: Build) -> None:
    first = run_build(write_source(tmp_path / "linux"))
    newer = write_source(tmp_path / "newer", version="7.4")
    assert run_build(newer, if_missing=True) == build.Built(first.kernel, new=False)
    assert run_build(newer).kernel.version == "7.4"


def test_a_recipe_that_is_edited_meanwhile_changes_neither_the_build_nor_its_manifest(
    tmp_path: Path, run_build: Build
) -> None:
    source = write_source(tmp_path / "linux")
    before = read_recipe(tmp_path / "recipe")
    digests = (before.config_sha256, before.patches_sha256)
    edit = f"echo CONFIG_NEW=y >> {before.config}; echo >> {before.patches[0]}"
    makefile = (source / "Makefile").read_text()
    (source / "Makefile").write_text(makefile.replace("@gcc", f"@{edit}; gcc"))
    known = run_build(source).kernel.manifest
    assert (known.config_sha256, known.patches_sha256) == digests
    assert is_outdated(kernels.find())


def test_a_given_folder_is_not_changed(tmp_path: Path, run_build: Build) -> None:
    source = write_source(tmp_path / "linux")
    before = {path: path.stat().st_mtime_ns for path in source.rglob("*")}
    run_build(source)
    assert {path: path.stat().st_mtime_ns for path in source.rglob("*")} == before


def test_a_folder_that_was_built_in_gives_its_sources_and_not_what_was_built(
    tmp_path: Path, run_build: Build
) -> None:
    source = write_source(tmp_path / "linux")
    sources = ["arch/um/kernel/vmlinux.lds.S", "tools/include/generated/kept.h"]
    built = ["main.o", "lib/.crc.o.cmd", ".config", "linux", "include/generated/utsrelease.h"]
    for name in [*sources, *built]:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("")
    checks = "".join(f"\n\ttest -e {name}" for name in sources)
    checks += "".join(f"\n\ttest ! -e {name}" for name in built)
    makefile = (source / "Makefile").read_text()
    (source / "Makefile").write_text(makefile.replace("allnoconfig:", f"allnoconfig:{checks}"))
    assert run_build(source).new


@pytest.mark.parametrize("ending", ["tar.gz", "tar.xz"])
def test_a_tarball_is_unpacked_without_its_unused_parts(
    tmp_path: Path, run_build: Build, ending: str
) -> None:
    source = write_source(tmp_path / "linux-7.3.4")
    path = tmp_path / f"linux-7.3.4.{ending}"
    subprocess.run(["tar", "-caf", path, "-C", tmp_path, source.name], check=True)
    assert run_build(path).kernel.manifest.source == path.name


def test_a_package_that_was_fetched_before_is_unpacked(tmp_path: Path, run_build: Build) -> None:
    source = write_source(tmp_path / "linux-source-7.3")
    package = tmp_path / "package"
    (package / "DEBIAN").mkdir(parents=True)
    (package / "usr" / "src").mkdir(parents=True)
    fields = "Package: linux-source-7.3\nVersion: 7.3.4-1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    (package / "DEBIAN" / "control").write_text(fields)
    tarball = package / "usr" / "src" / f"{source.name}.tar.xz"
    subprocess.run(["tar", "-caf", tarball, "-C", tmp_path, source.name], check=True)
    file = tmp_path / "linux-source-7.3_7.3.4-1_all.deb"
    subprocess.run(["dpkg-deb", "--build", package, file], check=True, capture_output=True)
    assert run_build(file).kernel.manifest.source == file.name


@pytest.mark.parametrize("name", ["linux.tar.xz", "linux.deb"])
def test_a_damaged_file_is_named(tmp_path: Path, run_build: Build, name: str) -> None:
    source = write_source(tmp_path / "linux")
    path = tmp_path / "linux.tar.xz"
    subprocess.run(["tar", "-caf", path, "-C", tmp_path, source.name], check=True)
    content = path.read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=rf"{name}: cannot be unpacked; .*log is .*build\.log"):
        run_build(tmp_path / name)
    assert kernels.installed() == []
    assert left_in_cache() == [".lock"]


def test_older_kernels_need_no_argument(tmp_path: Path, run_build: Build) -> None:
    source = write_source(tmp_path / "linux", version="6.12.1", seccomp="ptrace")
    assert run_build(source).kernel.manifest.arguments == []


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ({"slept": "599999999999"}, "does not keep virtual time"),
        ({"slept": "600000200000"}, "does not keep virtual time"),
        ({"counted": "240000000000"}, "processor counter is not virtual"),
        ({"counted": "600000050001"}, "processor counter is not virtual"),
        ({"random": "(int)getpid()"}, "two boots of the built kernel differ"),
        ({"end": "failed mounting /proc: no"}, "trial boot failed: .*failed mounting /proc: no"),
    ],
)
def test_a_kernel_that_fails_its_trial_is_not_installed(
    tmp_path: Path, run_build: Build, behaviour: dict[str, str], said: str
) -> None:
    source = write_source(tmp_path / "linux", **behaviour)
    with pytest.raises(MachineError, match=said):
        run_build(source)
    assert kernels.installed() == []
    assert left_in_cache() == [".lock"]


def test_a_patch_that_does_not_apply_is_named(tmp_path: Path, run_build: Build) -> None:
    source = write_source(tmp_path / "linux")
    (source / "main.c").write_text("int main(void) { return 0; }\n")
    with pytest.raises(MachineError, match=r"0001-mark\.patch does not apply"):
        run_build(source)


def test_an_option_that_the_kernel_does_not_have_is_named(tmp_path: Path, run_build: Build) -> None:
    source = write_source(tmp_path / "linux", unknown="CONFIG_64BIT")
    with pytest.raises(MachineError, match="has no CONFIG_64BIT"):
        run_build(source)


def test_a_failed_build_ends_with_its_last_words_and_keeps_the_log(tmp_path: Path, run_build: Build) -> None:
    source = write_source(tmp_path / "linux")
    (source / "main.c").write_text((source / "main.c").read_text() + "#error broken here\n")
    with pytest.raises(MachineError, match=r"failed in make: .*#error broken here.*log is .*build\.log"):
        run_build(source)
    assert "broken here" in (kernels.kernels_folder() / "build.log").read_text()


def test_a_disk_that_fills_up_is_told_as_such(tmp_path: Path, run_build: Build) -> None:
    source = write_source(tmp_path / "linux")
    makefile = (source / "Makefile").read_text()
    (source / "Makefile").write_text(
        makefile.replace("@gcc", '@echo "No space left on device" >&2; exit 1; gcc')
    )
    with pytest.raises(MachineError, match=r"the disk of .* is full"):
        run_build(source)


def test_too_little_room_is_told_before_the_build(
    tmp_path: Path, run_build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "NEEDED_BYTES", 10**18)
    with pytest.raises(MachineError, match=r"MB free and a kernel's build needs .* MB"):
        run_build(write_source(tmp_path / "linux"))


def test_missing_programs_are_named_with_their_packages(
    tmp_path: Path, run_build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_source(tmp_path / "linux")
    here = {tool: shutil.which(tool) for tool in build.TOOLS if tool not in ("flex", "bc", "xz")}
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    for tool, path in here.items():
        if path:
            (tmp_path / "bin" / tool).symlink_to(path)
    with pytest.raises(MachineError, match=r"needs .*flex, bc, xz; apt-get install .*flex bc xz-utils"):
        run_build(source)


@pytest.mark.parametrize(
    ("headers", "passes"), [("int harmless;\n", 1), ("#define main() clashes\n", 2), ("#error none\n", 1)]
)
def test_a_file_that_does_not_bear_precompiled_headers_is_compiled_without(
    tmp_path: Path, run_build: Build, headers: str, passes: int
) -> None:
    source = write_source(tmp_path / "linux")
    (tmp_path / "recipe" / "headers.h").write_text(headers)
    first = source / "include" / "linux" / "compiler-version.h"
    first.parent.mkdir(parents=True)
    first.write_text("/* first */\n")
    (source / "scripts").mkdir()
    (source / "scripts" / "Makefile.lib").write_text("x = -DKBUILD_BASENAME=x -DKBUILD_MODNAME=x\n")
    flags = "gcc -Iinclude -include include/linux/compiler-version.h"
    makefile = (source / "Makefile").read_text().replace("@gcc", f"@{flags}")
    sample = f"lib/bsearch.o:\n\t@mkdir lib; echo 'saved := {flags} -c -o x.o x.c' > lib/.bsearch.o.cmd\n"
    (source / "Makefile").write_text(makefile + sample)
    assert run_build(source).new
    log = (kernels.kernels_folder() / "build.log").read_text()
    assert log.count("  CC      main.o") == passes
    assert ("no precompiled header" in log) == ("#error" in headers)


def test_another_processor_is_refused(
    run_build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(MachineError, match=r"needs Linux on x86-64.*--engine host"):
        run_build(tmp_path)


def test_a_source_that_is_none_is_refused(tmp_path: Path, run_build: Build) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty: not a Linux source"):
        run_build(tmp_path / "empty")
    with pytest.raises(InputError, match="absent: no such file or folder"):
        run_build(tmp_path / "absent")


def test_what_a_killed_build_left_goes_with_the_next_one(tmp_path: Path, run_build: Build) -> None:
    left = kernels.kernels_folder() / ".build-killed"
    left.mkdir(parents=True)
    (left / "vmlinux").write_bytes(b"half")
    run_build(write_source(tmp_path / "linux"))
    assert not left.exists()


def test_ctrl_c_ends_the_compiler_and_leaves_nothing(tmp_path: Path) -> None:
    """Build in a separate process, and interrupt it as soon as the compiler runs."""
    source = write_source(tmp_path / "linux")
    write_recipe(tmp_path / "recipe")
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    makefile = (source / "Makefile").read_text()
    (source / "Makefile").write_text(makefile.replace("@gcc", f"@exec 3> {alive}; echo >&3; sleep 600; gcc"))
    program = (
        "import sys; from pathlib import Path; from fastopen.apps.kernels import build\n"
        "from fastopen.apps.kernels.build import BuildRequest, build_kernel\n"
        "from fastopen.engines.kernel_recipe import read_recipe\n"
        "recipe = read_recipe(Path(sys.argv[2])); build.read_recipe = lambda: recipe\n"
        "build_kernel(BuildRequest(Path(sys.argv[1])), lambda *_: None)\n"
    )
    arguments = [sys.executable, "-c", program, str(source), str(tmp_path / "recipe")]
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as process, alive.open() as compiling:
        assert compiling.readline() == "\n"
        process.send_signal(2)
        assert process.wait(timeout=30) != 0
        assert compiling.read() == "", "the compiler still holds its end"
    assert left_in_cache() == [".lock"]


def test_two_builds_at_once_take_turns(tmp_path: Path, run_build: Build) -> None:
    source = write_source(tmp_path / "linux")
    with workspace(kernels.kernels_folder(), lambda: None):
        second = subprocess.Popen(
            [sys.executable, "-c", WAITER, str(kernels.kernels_folder())], stdout=subprocess.PIPE, text=True
        )
        assert second.stdout is not None
        first = second.stdout.readline()
    assert (first, second.communicate(timeout=30)[0]) == ("waiting\n", "working\n")
    assert run_build(source).new
