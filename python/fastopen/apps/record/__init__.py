"""Record live pages with Chromium as HAR or WACZ, with bodies, initiators, timings and addresses."""

from fastopen.apps.record.browser import Recorder
from fastopen.apps.record.har import Loaded, har_of
