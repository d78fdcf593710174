"""A built Linux kernel (GPL-2.0) for fastopen's virtual engine. `fastopen.engines.kernels` finds it here as
data.
"""
