"""Command modules, which `fastopen.cli.discovery` adds to the `fastopen` command line."""
