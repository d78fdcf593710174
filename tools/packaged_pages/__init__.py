"""Make the packaged pages: from saved bodies with a fetch log, from recordings, and from reports."""
