"""Print how often 95 % intervals contain the true value: of medians, and of changes of medians.

`benches/intervals.py [SAMPLES]` simulates SAMPLES samples of each size and distribution (default 1,500, four
minutes). For comparison, the column BCa shows how often scipy's bootstrap intervals contain the median."""

import sys
import warnings
from collections.abc import Callable

import numpy as np
from scipy import stats

from fastopen.analysis.statistics import change_interval, median_interval

SIZES = (6, 7, 9, 13, 15, 30)
RNG = np.random.default_rng(5)
# A function that draws a sample of a given size, and the true median.
DISTRIBUTIONS: dict[str, tuple[Callable[[int], np.ndarray], float]] = {
    "normal": (lambda size: RNG.normal(10, 1, size), 10),
    "exponential": (lambda size: 10 + RNG.exponential(1, size), 10 + float(np.log(2))),
    "lognormal": (lambda size: 10 + RNG.lognormal(0, 1, size), 11),
    "t, 2 degrees": (lambda size: 10 + RNG.standard_t(2, size), 10),
}


def main(samples: int) -> None:
    warnings.simplefilter("ignore")  # scipy warns of samples for which BCa is not defined
    print(f"{'':14}{'size':>5}{'median':>9}{'BCa':>9}{'change':>9}")
    for name, (draw, true) in DISTRIBUTIONS.items():
        for size in SIZES:
            held = np.zeros(3)
            for _ in range(samples):
                before, after = draw(size).tolist(), draw(size).tolist()
                bca = stats.bootstrap((before,), np.median, n_resamples=999, rng=RNG).confidence_interval
                pairs = (
                    (median_interval(before), true),
                    ((bca.low, bca.high), true),
                    (change_interval(before, after, relative=False), 0),
                )
                held += [one is not None and one[0] <= value <= one[1] for one, value in pairs]
            print(f"{name:14}{size:5}" + "".join(f"{100 * one:7.1f} %" for one in held / samples), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_500)
