"""Build, list and remove the virtual engine's kernels."""
