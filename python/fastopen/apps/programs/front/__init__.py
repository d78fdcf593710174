"""Run one command with TCP Fast Open. `fastopen exec` and `shell` replace themselves with this program.

The program takes signals one by one, which works only if no library has started a thread. Therefore it
imports almost nothing."""
