"""Show stored runs in a web browser on this machine: list them, show a run, compare loads and runs."""
