"""Analyse results: compute the figures of a run (`statistics`), explain its load times (`attribution`),
compare two runs (`comparison`), and check published figures (`audit`)."""
