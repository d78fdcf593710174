"""A built kernel for fastopen's virtual engine: data, found by `fastopen.engines.kernels`. Linux, GPL-2.0."""
