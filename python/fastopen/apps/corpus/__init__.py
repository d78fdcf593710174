"""Index a corpus: write a CSV row of facts about each page in folders of recordings."""
