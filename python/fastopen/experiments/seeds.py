"""Seeds of their own for each use, from the one of an experiment: by a hash, so the same for ever."""

import hashlib
import json


def derive_seed(seed: int, *parts: str | int) -> int:
    """A seed of its own (0 to 2^63 - 1) for each use, from the experiment's one."""
    digest = hashlib.sha256(json.dumps([seed, *parts]).encode()).digest()
    return int.from_bytes(digest[:8]) >> 1
