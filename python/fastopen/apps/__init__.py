"""Features beside the main question, one folder each."""
