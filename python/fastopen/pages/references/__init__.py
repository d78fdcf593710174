"""Find references from one resource to another, by parsing or by searching texts for known URLs."""

from fastopen.pages.references.spelled import UrlIndex, find_reference
