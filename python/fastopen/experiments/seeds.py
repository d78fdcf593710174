"""Derive seeds for single uses from an experiment's seed. They are the same in all versions of Python."""

import hashlib
import json


def derive_seed(seed: int, *parts: str | int) -> int:
    """Return a seed (0 to 2^63 - 1) for one use, derived from the experiment's seed."""
    digest = hashlib.sha256(json.dumps([seed, *parts]).encode()).digest()
    return int.from_bytes(digest[:8]) >> 1
