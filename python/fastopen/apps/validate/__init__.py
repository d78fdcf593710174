"""Compare fastopen with recorded page loads, and with itself."""
