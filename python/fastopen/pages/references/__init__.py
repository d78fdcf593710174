"""Find references from one resource to another, by parsing texts or by searching them for known URLs."""

from fastopen.pages.references.spelled import UrlIndex, find_reference
