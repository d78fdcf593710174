"""Generate packaged pages: from saved bodies and a browser's log, from recordings, or from reports on TFO."""
