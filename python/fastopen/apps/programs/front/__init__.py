"""Run one command with TCP Fast Open. `fastopen exec` and `shell` replace themselves with this program.

The program blocks signals and waits for them (sigwaitinfo(2)). A thread that a library had started before
would still receive them, so the program imports almost nothing."""
