"""Look after a store of results."""
