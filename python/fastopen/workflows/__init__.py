"""Run experiments, search for test conditions that reproduce published times, and validate the emulator."""
