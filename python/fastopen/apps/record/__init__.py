"""Record live pages with Chromium as HAR or WACZ, with bodies, initiators, timings and addresses."""
