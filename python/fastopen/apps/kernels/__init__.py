"""Build, list and remove kernels of the virtual engine, which loads pages in virtual time."""
