"""Installed kernels: selection by name, damaged kernels, and the commands that show and remove kernels."""

import hashlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fastopen.cli.app import app
from fastopen.common.errors import InputError, MachineError
from fastopen.engines import kernels
from fastopen.engines.kernel_recipe import read_recipe
from fastopen.engines.kernels import Kernel, Manifest, manifest_text


def install(name: str, built: str = "2026-11-21T12:00:00+00:00", folder: Path | None = None) -> Path:
    """Install a kernel with this name (`VERSION-DIGITS`) and a program of a few bytes. Return its folder."""
    place = (folder or kernels.kernels_folder()) / name
    place.mkdir(parents=True)
    program = f"the program of {name}".encode()
    (place / "linux").write_bytes(program)
    (place / "linux").chmod(0o755)
    manifest = Manifest(
        name=name,
        version=name.split("-")[0],
        source="linux-source",
        source_version="1",
        config_sha256="a" * 64,
        patches_sha256="b" * 64,
        compiler="gcc 1",
        size_bytes=len(program),
        sha256=hashlib.sha256(program).hexdigest(),
        hz=250,
        arguments=["seccomp=on"],
        built=built,
        build_seconds=100,
    )
    (place / "manifest.json").write_text(manifest_text(manifest))
    return place


def names() -> list[str]:
    return [kernel.name for kernel in kernels.installed()]


def invoke(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["kernel", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_the_best_kernel_is_the_newest_version_then_the_newest_build() -> None:
    install("6.12.9-aaaaaaaa")
    install("7.10.1-bbbbbbbb", "2026-01-01T00:00:00+00:00")
    install("7.10.1-cccccccc", "2026-02-01T00:00:00+00:00")
    install("7.9.30-dddddddd")
    assert names() == ["7.10.1-cccccccc", "7.10.1-bbbbbbbb", "7.9.30-dddddddd", "6.12.9-aaaaaaaa"]
    assert kernels.find().name == "7.10.1-cccccccc"


def test_a_unique_beginning_is_a_name() -> None:
    install("6.12.9-aaaaaaaa")
    install("7.3.4-bbbbbbbb")
    assert kernels.find("6").name == "6.12.9-aaaaaaaa"
    assert kernels.find("7.3.4-bbbbbbbb").version == "7.3.4"


def test_a_beginning_of_several_names_them_all() -> None:
    install("7.3.4-aaaaaaaa")
    install("7.3.4-bbbbbbbb")
    with pytest.raises(
        InputError, match=r"several kernels begin with '7\.3'; use 7\.3\.4-aaaaaaaa or 7\.3\.4-bbbbbbbb"
    ):
        kernels.find("7.3")


def test_without_a_kernel_the_error_says_how_to_get_one() -> None:
    with pytest.raises(MachineError, match=r"no kernel .* is installed; run fastopen kernel build"):
        kernels.find()
    with pytest.raises(MachineError, match="kernel '7' is not installed, nor any other"):
        kernels.find("7")


def test_the_environment_names_a_kernel_or_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("6.12.9-aaaaaaaa")
    install("7.3.4-bbbbbbbb")
    elsewhere = install("7.0.1-cccccccc", folder=tmp_path / "elsewhere")
    monkeypatch.setenv("FASTOPEN_KERNEL", "6.12")
    assert kernels.find().version == "6.12.9"
    assert kernels.find("7").version == "7.3.4", "what is asked for goes before the environment"
    for path in (elsewhere, elsewhere / "linux"):
        monkeypatch.setenv("FASTOPEN_KERNEL", str(path))
        assert kernels.find().version == "7.0.1"
    monkeypatch.setenv("FASTOPEN_KERNEL", "bogus")
    with pytest.raises(MachineError, match="'bogus' is not installed"):
        kernels.find()
    monkeypatch.setenv("FASTOPEN_KERNEL", str(tmp_path / "absent" / "linux"))
    with pytest.raises(MachineError, match=r"absent/linux: no kernel there"):
        kernels.find()


def test_a_program_whose_bytes_changed_is_refused() -> None:
    program = install("7.3.4-aaaaaaaa") / "linux"
    program.write_bytes(program.read_bytes()[::-1])
    with pytest.raises(MachineError, match=r"7\.3\.4-aaaaaaaa is damaged: .*not the program that was"):
        kernels.find()


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda place: (place / "linux").write_bytes(b"short"), "has 5 bytes instead of 29"),
        (lambda place: (place / "linux").unlink(), "is not executable"),
        (lambda place: (place / "linux").chmod(0o644), "is not executable"),
        (lambda place: (place / "manifest.json").unlink(), "cannot be read"),
        (lambda place: (place / "manifest.json").write_text("{"), "is damaged"),
        (lambda place: (place / "manifest.json").write_text('{"format": 2}'), "another version of fastopen"),
    ],
)
def test_a_damaged_kernel_is_passed_over_and_told(break_it: object, said: str) -> None:
    install("6.12.9-aaaaaaaa")
    assert callable(break_it)
    break_it(install("7.3.4-bbbbbbbb"))
    usable, damaged = kernels.find_all()
    assert [kernel.name for kernel in usable] == ["6.12.9-aaaaaaaa"]
    assert [said in fault for fault in damaged.values()] == [True]
    with pytest.raises(MachineError, match=r"7\.3\.4-bbbbbbbb is damaged"):
        kernels.find("7.3.4-bbbbbbbb")


def test_the_kernel_of_a_package_is_found_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("7.3.4-aaaaaaaa", folder=tmp_path).rename(tmp_path / "fastopen_kernel")
    (tmp_path / "fastopen_kernel" / "__init__.py").touch()
    assert names() == []
    monkeypatch.syspath_prepend(tmp_path)
    assert names() == ["7.3.4-aaaaaaaa"]
    with pytest.raises(MachineError, match="pip uninstall fastopen-kernel"):
        kernels.remove("7.3")


def test_a_removed_kernel_is_gone_and_the_others_stay() -> None:
    place = install("7.3.4-aaaaaaaa")
    install("6.12.9-bbbbbbbb")
    with pytest.raises(InputError, match="is not installed"):
        kernels.remove("")
    assert invoke("remove", "7.3") == "7.3.4-aaaaaaaa: removed\n"
    assert not place.exists()
    assert names() == ["6.12.9-bbbbbbbb"]


def test_list_shows_the_kernels_best_first_and_the_damaged_with_a_remedy() -> None:
    install("6.12.9-aaaaaaaa")
    install("7.3.4-bbbbbbbb")
    (install("7.4.0-cccccccc") / "manifest.json").unlink()
    lines = [line for line in invoke("list").splitlines() if "\N{BOX DRAWINGS LIGHT HORIZONTAL}" not in line]
    assert [line.split()[0] for line in lines[:3]] == ["kernel", "7.3.4-bbbbbbbb", "6.12.9-aaaaaaaa"]
    assert lines[3].startswith("damaged: 7.4.0-cccccccc: ")
    assert lines[4] == "  to do: fastopen kernel remove 7.4.0-cccccccc"
    document = json.loads(invoke("list", "--json"))
    assert [kernel["name"] for kernel in document["kernels"]] == ["7.3.4-bbbbbbbb", "6.12.9-aaaaaaaa"]
    assert len(document["damaged"]) == 1


def test_an_empty_list_says_what_to_do() -> None:
    assert invoke("list") == "no kernel is installed; to do: fastopen kernel build\n"


def test_info_prints_the_whole_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    place = install("7.3.4-aaaaaaaa")
    document = json.loads(invoke("info", "--json"))
    assert document["path"] == str(place / "linux")
    told = {"path", "outdated"}
    assert Manifest.model_validate_json(json.dumps({k: v for k, v in document.items() if k not in told}))
    assert "arguments" in invoke("info")
    assert capsys.readouterr().err == ""


def test_a_kernel_of_another_recipe_is_told_as_such_with_the_remedy() -> None:
    place = install("7.3.4-aaaaaaaa")
    assert json.loads(invoke("info", "--json"))["outdated"] is True
    assert "built by another version of fastopen; to do: fastopen kernel build" in invoke("info")
    recipe = read_recipe()
    known = json.loads((place / "manifest.json").read_text())
    known |= {"config_sha256": recipe.config_sha256, "patches_sha256": recipe.patches_sha256}
    (place / "manifest.json").write_text(json.dumps(known))
    assert json.loads(invoke("info", "--json"))["outdated"] is False
    assert "to do" not in invoke("info")


def test_a_kernel_is_its_program_and_manifest() -> None:
    place = install("7.3.4-aaaaaaaa")
    kernel = kernels.installed()[0]
    assert isinstance(kernel, Kernel)
    assert (kernel.path, kernel.manifest.arguments) == (place / "linux", ["seccomp=on"])


def test_what_packetdrill_said_of_a_kernel_is_kept_in_its_manifest() -> None:
    install("7.3.4-aaaaaaaa")
    kernels.note_conformance(kernels.find(), "80 of 82 scripts pass")
    assert kernels.find().manifest.conformance == "80 of 82 scripts pass"
    assert json.loads(invoke("info", "--json"))["conformance"] == "80 of 82 scripts pass"
