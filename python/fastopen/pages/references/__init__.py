"""Find references from one resource to another: by the syntax of documents and stylesheets, or by search."""

from fastopen.pages.references.named import names_in
from fastopen.pages.references.spelled import NameIndex, find_reference
