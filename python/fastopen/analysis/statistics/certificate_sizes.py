"""Compute the round trips to the first byte for each size of the certificate chain."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from fastopen.analysis.statistics.results import Results
from fastopen.experiments import ArmName, Comparison

# Smaller differences, in RTTs, are ignored: an additional flight of the server takes a whole RTT.
ALIKE_RTTS: Final = 0.01
# With fewer sizes, the table of results has a row for each size.
SIZES_MIN: Final = 8


@dataclass(frozen=True)
class SizeLevel:
    """A range of certificate chain sizes (`bytes_min` to `bytes_max`) for which the first byte of the
    response takes the same number of round trips (`rtts`)."""

    rtts: float
    bytes_min: int
    bytes_max: int


def levels(rtts_of_bytes: Mapping[int, float]) -> list[SizeLevel]:
    """Group sizes of certificate chains into ranges for which the first byte of the response takes the same
    number of round trips. `rtts_of_bytes`: the round trips for each size in bytes."""
    found: list[SizeLevel] = []
    for size, rtts in sorted(rtts_of_bytes.items()):
        if found and abs(found[-1].rtts - rtts) < ALIKE_RTTS:
            found[-1] = replace(found[-1], bytes_max=size)
        else:
            found.append(SizeLevel(rtts, size, size))
    return found


def round_trips_of_sizes(results: Results, page: str) -> dict[Comparison, dict[ArmName, dict[int, float]]]:
    """Return the number of round trips to the first byte of the page's first response, by comparison, arm and
    bytes of the certificate chain. Comparisons that differ only in these bytes share the first one's entry.
    Return {} for fewer than SIZES_MIN sizes, or if a link's rate is limited, so that bytes take time too."""
    factors = results.factors
    others = factors.besides("chain_bytes")
    rates = [way.rate_bit_per_s for one in results.experiment.networks for way in (one.down, one.up)]
    if len(others) == len(factors.varying) or any(rate is not None for rate in rates):
        return {}
    rtts: dict[Comparison, dict[ArmName, dict[int, float]]] = {}
    first: dict[tuple[str, ...], Comparison] = {}
    for comparison, of_arm in results.comparisons(page).items():
        point = factors.point(comparison)
        setting = first.setdefault(tuple(factor.text_at(point) for factor in others), comparison)
        for arm, cell in of_arm.items():
            flight = results.first_flights.get(cell.cell.index)
            if flight is not None and flight.first_byte_rtts is not None and point.setup.tls is not None:
                of_size = rtts.setdefault(setting, {}).setdefault(arm, {})
                of_size[point.setup.tls.chain_bytes] = flight.first_byte_rtts
    most = max((len(sizes) for of_arm in rtts.values() for sizes in of_arm.values()), default=0)
    return rtts if most >= SIZES_MIN else {}
