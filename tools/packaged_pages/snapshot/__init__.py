"""The snapshot of the TFO paper's four pages of March 2013 and the browser's logs, into structural pages."""
