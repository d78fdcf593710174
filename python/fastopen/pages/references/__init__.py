"""References from one resource to another: by the structure of documents and stylesheets, and by spelling."""

from fastopen.pages.references.named import names_in
from fastopen.pages.references.spelled import NameIndex, find_reference
