"""Parts of `make release`: manual pages, shell completions, the kernel's wheel, checks, and checksums."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from command_documents import commands
from fastopen.common.errors import MachineError
from fastopen.engines.kernels import read_kernel, sha256_of
from fastopen.workflows.expected import KERNEL
from kernel_wheel import platform_tag, source_offer
from manual_pages import completions, manual_pages
from places import ROOT
from release import check_wheel, checksums

PAGES = dict(manual_pages("1.2.3"))


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_a_command_has_a_manual_page_with_its_options(name: str) -> None:
    command = dict(commands())[name]
    page = PAGES[f"man/man1/fastopen-{name.replace(' ', '-')}.1"].replace(r"\-", "-")
    options = [one.opts[0] for one in command.params if one.param_type_name == "option"]
    assert [option for option in options if option not in page] == []
    assert f"fastopen-{name.replace(' ', '-')} - " in page


def test_manual_pages_are_good_roff(tmp_path: Path) -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    files = []
    for place, text in PAGES.items():
        files.append(tmp_path / Path(place).name)
        files[-1].write_text(text)
    done = subprocess.run(
        [groff, "-man", "-Tutf8", "-ww", "-z", *files], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_the_shell_completes_commands(tmp_path: Path) -> None:
    texts = dict(completions())
    assert set(texts) == {
        "bash-completion/completions/fastopen",
        "zsh/site-functions/_fastopen",
        "fish/vendor_completions.d/fastopen.fish",
    }
    (tmp_path / "fastopen").write_text(
        f"#!{sys.executable}\nimport sys\nsys.argv[0] = 'fastopen'\nfrom fastopen.cli import main\nmain()\n"
    )
    (tmp_path / "fastopen").chmod(0o755)
    (tmp_path / "completion").write_text(texts["bash-completion/completions/fastopen"])
    script = (
        f". {tmp_path}/completion; COMP_WORDS=(fastopen comp); COMP_CWORD=1;"
        ' _fastopen_completion fastopen comp fastopen; echo "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "compare\n"


@pytest.mark.parametrize(
    ("symbols", "tag"),
    [
        (b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.4\0", "manylinux_2_34_x86_64"),
        (b"\0GLIBC_2.2.5\0", "manylinux_2_17_x86_64"),
    ],
)
def test_the_tag_of_the_kernels_wheel_is_that_of_the_newest_symbol(symbols: bytes, tag: str) -> None:
    assert platform_tag(symbols) == tag


def made_up_kernel(folder: Path) -> Path:
    """Return a folder like an installed kernel's. Its program is a few bytes, including a glibc version."""
    folder.mkdir()
    (folder / "linux").write_bytes(b"\x7fELF\0GLIBC_2.28\0")
    (folder / "linux").chmod(0o755)
    manifest = {
        "format": 1,
        "name": "7.3.4-aaaaaaaa",
        "version": "7.3.4",
        "source": "linux-source-7.3",
        "source_version": "7.3.4-1",
        "source_sha256": "a" * 64,
        "config_sha256": "b" * 64,
        "patches_sha256": "c" * 64,
        "compiler": "gcc 12",
        "size_bytes": (folder / "linux").stat().st_size,
        "sha256": sha256_of(folder / "linux"),
        "hz": 250,
        "arguments": [],
        "built": "2026-01-01T00:00:00+00:00",
        "build_seconds": 1,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_the_source_offer_names_the_package_its_digest_and_all_that_was_done_to_it(tmp_path: Path) -> None:
    offer = source_offer(made_up_kernel(tmp_path / "kernel") / "manifest.json", "0.1.0")
    for fact in ("linux-source-7.3", "7.3.4-1", "a" * 64, "b" * 64, "c" * 64, "gcc 12", "three years"):
        assert fact in offer


@pytest.mark.slow
def test_the_kernels_wheel_holds_a_kernel_that_can_be_read_and_what_its_licence_asks_for(
    tmp_path: Path,
) -> None:
    kernel = made_up_kernel(tmp_path / "kernel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    environment = {**os.environ, "FASTOPEN_WHEEL_KERNEL": str(kernel)}
    project = ROOT / "packages" / "fastopen-kernel"
    subprocess.run([*command, "--wheel-dir", tmp_path, project], env=environment, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-manylinux_2_28_x86_64.whl")
    place = tmp_path / "site"
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
    ]
    subprocess.run([*pip, place, wheel], check=True)
    assert read_kernel(place / "fastopen_kernel").name == "7.3.4-aaaaaaaa"
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        (metadata,) = (content.read(name).decode() for name in names if name.endswith("METADATA"))
    source = {name.removeprefix("fastopen_kernel/source/") for name in names}
    assert {
        "SOURCE.md",
        "config",
        "unused",
        "headers.h",
        "trial.c",
        "scripts/build.py",
        "scripts/kernel_recipe.py",
    } <= source
    assert any(name.startswith("patches/") for name in source)
    assert any(name.endswith("licenses/COPYING") for name in names)
    assert "License-Expression: GPL-2.0-only" in metadata


@pytest.mark.parametrize(
    ("tag", "found", "wrong"),
    [
        ("manylinux_2_17_x86_64", "manylinux_2_17_x86_64", ""),
        ("manylinux_2_17_x86_64", "manylinux_2_28_x86_64", r"needs glibc 2\.28"),
        (
            "manylinux_2_38_x86_64",
            "manylinux_2_38_x86_64",
            r"newer than 2021's; build the kernel on Debian 12",
        ),
        ("manylinux_2_17_x86_64", "linux_x86_64", "auditwheel finds no manylinux in it"),
    ],
)
def test_a_wheel_that_needs_more_than_its_tag_says_is_no_release(
    tag: str, found: str, wrong: str, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    auditwheel = tmp_path / "bin" / "auditwheel"
    auditwheel.write_text(f"#!/bin/sh\necho 'is consistent with the following platform\ntag: \"{found}\".'\n")
    auditwheel.chmod(0o755)
    wheel = tmp_path / f"fastopen-0.1.0-py3-none-{tag}.whl"
    if wrong:
        with pytest.raises(MachineError, match=wrong):
            check_wheel(tmp_path, wheel)
    else:
        check_wheel(tmp_path, wheel)


def test_sha256sum_checks_the_checksums(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "two").write_text("2")
    (tmp_path / "SHA256SUMS").write_text(checksums(tmp_path))
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=True)


def test_the_container_builds_the_kernel_of_the_expected_times() -> None:
    text = (ROOT / "Containerfile").read_text()
    package, version = KERNEL.split()
    artifact = (ROOT / "docs" / "artifact.md").read_text()
    assert f"kernel build --version {package.removeprefix('linux-source-')} " in text
    assert f"{package} {version}" in artifact
    digests = re.findall(r"KERNEL_SOURCE=([0-9a-f]{64})$", text, re.M)
    assert [one in artifact for one in digests] == [True]


@pytest.mark.parametrize("name", ["requirements.txt", "build-requirements.txt"])
def test_the_containers_python_packages_are_pinned_to_the_tested_versions(name: str) -> None:
    tested = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.M))
    pinned = re.findall(r"^([\w.-]+)==(\S+) (\\?)", (ROOT / "packages" / name).read_text(), re.M)
    assert pinned
    assert [one for one in pinned if tested.get(one[0], one[1]) != one[1] or one[2] != "\\"] == []
