"""The messages of new commits follow CONTRIBUTING.md."""

import re
import subprocess
from typing import Final

import pytest

from places import ROOT

SINCE: Final = "a8923c9a48caf99f3b4c521e33977995e0f610a3"
"""The last commit that is not checked."""
SUBJECT_MAX: Final = 72
LINE_MAX: Final = 100
AREA: Final = re.compile(r"[a-z0-9_./-]+(?:, [a-z0-9_./-]+)*: ")
NOT_IMPERATIVE: Final = re.compile(
    r"(?!Need|Embed|Feed|Seed|Speed|Bring|String|Ping|Bus)\w+(?:ed|ing|(?<![su])s)\b", re.IGNORECASE
)


def git(*words: str) -> str:
    """Return what git prints. Skips the test with git's reason if it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", ROOT, *words], capture_output=True, text=True, check=False, timeout=60
        )
    except OSError as error:
        pytest.skip(f"no git: {error}")
    if done.returncode:
        pytest.skip(f"no history to read: {done.stderr.strip() or ' '.join(words)}")
    return done.stdout


def new_messages() -> list[str]:
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("a shallow clone has no history")
    git("merge-base", "--is-ancestor", SINCE, "HEAD")
    return git("log", "--no-merges", "-z", "--format=%h %B", f"{SINCE}..HEAD").split("\0")[:-1]


def faults(message: str) -> list[str]:
    """Return the faults of a commit's message."""
    subject, *rest = message.rstrip().split("\n")
    words = AREA.sub("", subject, count=1)
    found = {
        f"a subject of {len(subject)} characters": len(subject) > SUBJECT_MAX,
        "a subject that ends with a period": subject.endswith("."),
        "a subject without an imperative": NOT_IMPERATIVE.match(words) or not words,
        "no empty line below the subject": rest[:1] not in ([], [""]),
        "a body that is not wrapped": any(len(line) > LINE_MAX and " " in line.strip() for line in rest),
    }
    return [fault for fault, is_there in found.items() if is_there]


@pytest.mark.parametrize(
    ("message", "count"),
    [
        ("Fix HTTP/3 stall after a lost handshake packet\n\nThe timer was not armed.\n", 0),
        ("har: treat a redirect chain as one fetch", 0),
        ("Pass the address", 0),
        ("link, netns: read and write IPv6", 0),
        ("Fixes a stall.\nThe timer was not armed.", 3),
        ("Added " + "more " * 20 + "words", 2),
        ("har: reading redirects", 1),
        ("Fix it\n\n" + "a long line " * 10, 1),
        ("Name the source\n\nhttps://example.com/" + "x" * 100, 0),
    ],
)
def test_faults_are_found(message: str, count: int) -> None:
    assert len(faults(message)) == count


def test_new_commits_follow_the_style() -> None:
    found = {
        message.partition(" ")[0]: wrong
        for message in new_messages()
        if (wrong := faults(message.partition(" ")[2]))
    }
    assert found == {}
