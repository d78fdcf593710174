"""Index a corpus of recorded pages: write a CSV file with a row of facts about each page."""
