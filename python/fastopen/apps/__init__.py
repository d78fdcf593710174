"""Features of `fastopen` in addition to running experiments, in one package each."""
