"""Model, import, find and describe pages."""

from fastopen.pages.corpus import Choice, load_chosen
from fastopen.pages.library import RECORDING_SUFFIXES, load_pages, missing, packaged_pages
from fastopen.pages.model import Explanation, Page, Resource, page_json, read_page, write_page
from fastopen.pages.recording import ImportedPage
