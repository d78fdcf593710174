"""The commands of `fastopen`, one module each."""
