"""Run any program with TCP Fast Open, or behind an emulated link."""
