"""Features of `fastopen` beyond running experiments. Each package implements one of them."""
