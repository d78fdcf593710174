"""Run one command with TCP Fast Open. `fastopen exec` and `fastopen shell` replace themselves by this.

This program takes signals one by one, which works only if no library has started threads before. Therefore it
imports almost nothing.
"""
