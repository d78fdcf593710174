"""Features in addition to running experiments, each in a folder."""
