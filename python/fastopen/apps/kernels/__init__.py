"""Build, list and remove Linux kernels for the virtual engine, which loads pages in virtual time."""
