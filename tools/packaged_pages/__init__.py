"""How the packaged pages were made: out of saved bodies with a fetch log, and out of what reports say."""
