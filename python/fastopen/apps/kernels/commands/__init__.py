"""The commands that this app adds to `fastopen`, one module each."""
