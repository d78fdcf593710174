"""Run one command with TCP Fast Open. `fastopen exec` and `shell` replace themselves by this program.

It takes signals one by one, which works only if no library has started threads before. Therefore it imports
almost nothing."""
