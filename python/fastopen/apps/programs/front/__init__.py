"""Run one command with TCP Fast Open. `fastopen exec` and `fastopen shell` execute this module (execve).

The module blocks signals and waits for them (sigwaitinfo(2)). It imports almost nothing, because a thread
that a library starts earlier would still receive these signals."""
