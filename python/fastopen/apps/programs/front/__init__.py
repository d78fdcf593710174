"""Runs one command with TCP Fast Open; which `fastopen exec` becomes.

A process of its own kind: it takes signals one by one, which works only where no library has started threads
before. So it imports next to nothing.
"""
