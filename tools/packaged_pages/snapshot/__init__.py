"""Make structural pages from a snapshot of the TFO paper's four pages (March 2013) and the browser's logs."""
