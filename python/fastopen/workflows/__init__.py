"""What the command line and the notebook do alike: run an experiment, compare kernels, validate fastopen."""
