"""Generate the packaged pages from saved bodies with a browser's log, from recordings, and from reports."""
