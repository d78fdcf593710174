"""Run one command with TCP Fast Open. `fastopen exec` and `fastopen shell` execute this module (execve(2)).

The module blocks signals and waits for them (sigwaitinfo(2)). It imports few libraries, because a thread
that a library starts before the signals are blocked would still receive them."""
