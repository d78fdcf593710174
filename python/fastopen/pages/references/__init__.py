"""References from one resource to another: by the structure of documents and stylesheets, and by spelling."""

from fastopen.pages.references.name_index import NameIndex
from fastopen.pages.references.named import names_in
from fastopen.pages.references.spelled import find_reference
