#!/usr/bin/env python3
"""Show the effect of each rule of `fastopen validate` on its errors.

    .venv/bin/python tools/replay_rules.py FILE.har...

Prints Markdown: the median, mean and worst error over all pages, and the median over the pages of each half
of the files (every other file), to show if a rule helps only one half."""

import sys
from collections.abc import Sequence
from statistics import mean

from fastopen.apps.validate.replays import ReplayValidation, validate_replays
from fastopen.common.errors import InputError, MachineError
from fastopen.pages import load_pages
from fastopen.workflows.replays import Rules, median_error_percent

VARIANTS: dict[str, Rules] = {
    "all rules": Rules(),
    "rate from windows of 20 ms": Rules(window_ms=20.0),
    "rate from windows of 100 ms": Rules(window_ms=100.0),
    "rate from windows of 200 ms": Rules(window_ms=200.0),
    "rate also of links that were not full": Rules(full_link=False),
    "no limit of rate": Rules(window_ms=None),
    "initial window of ten": Rules(initial_window=False),
    "round trips by handshakes alone": Rules(round_trips=False),
    "servers that send at once": Rules(sending=False),
    "pushed resources asked for when found": Rules(pushes=False),
    "TCP's handshakes instead of the recorded ones": Rules(handshakes=False),
    "HTTP/1.1 with every host": Rules(versions=False),
    "six connections to the hosts of HTTP/1.1": Rules(waits=False),
    "none of them": Rules(
        window_ms=None,
        initial_window=False,
        round_trips=False,
        sending=False,
        pushes=False,
        handshakes=False,
        versions=False,
    ),
}


def main(files: Sequence[str]) -> int:
    """Print the errors with each of VARIANTS. Skip pages that cannot be replayed. Return the exit status."""
    try:
        of_file = [load_pages([file]) for file in files]
        half = {one.page.name: number % 2 for number, pages in enumerate(of_file) for one in pages}
        print("| rules | median, % | first, third... file | second, fourth... | mean | worst |")
        print("|---|---:|---:|---:|---:|---:|")
        for name, rules in VARIANTS.items():
            validation = validate_replays([one for pages in of_file for one in pages], rules)
            print(f"| {name} | " + " | ".join(_figures(validation, half)) + " |", flush=True)
    except (InputError, MachineError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _figures(validation: ReplayValidation, half: dict[str, int]) -> list[str]:
    halves = [
        [one for one in validation.validated if half[one.replay.page.name] == which] for which in (0, 1)
    ]
    errors = [abs(one.error_percent) for one in validation.validated] or [0.0]
    medians = [median_error_percent(of) for of in (validation.validated, *halves)]
    return [
        *("-" if found is None else f"{found:.1f}" for found in medians),
        f"{mean(errors):.1f}",
        f"{max(errors):.1f}",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
