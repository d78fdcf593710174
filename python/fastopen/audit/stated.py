"""What the sources of published.csv say of their pages outside of their tables: requests of a load."""

from typing import Final

# (experiment, page) to the number of requests, which no number of connections exceeds, and where it stands.
STATED_REQUESTS: Final[dict[tuple[str, str], tuple[int, str]]] = {
    ("meissner", "www.web.mit.edu"): (6, "the report counts six requests in all three tests"),
    ("meissner", "www.admission.gatech.edu"): (30, "the report says about 30 requests"),
    ("cs244-2015", "44 resources over 7 domains"): (44, "the name of the page says so"),
}
