"""Generate the packaged pages from saved bodies with a browser's log, recordings, and reports on TFO."""
