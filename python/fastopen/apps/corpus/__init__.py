"""Index a corpus of pages."""
