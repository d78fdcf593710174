"""Attribution: where the time of a load went, what TCP Fast Open could save of it, and what that means."""

from fastopen.attribution.critical_path import critical_path
from fastopen.attribution.domains import registrable_domain, third_parties
from fastopen.attribution.segments import CriticalPath, Kind, Segment

__all__ = [
    "CriticalPath",
    "Kind",
    "Segment",
    "critical_path",
    "registrable_domain",
    "third_parties",
]
