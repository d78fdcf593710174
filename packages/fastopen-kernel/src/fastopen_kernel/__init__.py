"""A built Linux kernel (GPL-2.0) for fastopen's virtual engine, as data for `fastopen.engines.kernels`."""
