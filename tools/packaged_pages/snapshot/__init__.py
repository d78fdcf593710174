"""Make pages without contents from a snapshot of the TFO paper's pages (March 2013) and a browser's logs."""
