"""Where one resource names another: by the structure of documents and stylesheets, and by spelling."""

from fastopen.pages.references.name_index import NameIndex
from fastopen.pages.references.named import Named, Names, names_in
from fastopen.pages.references.spelled import Reference, find_reference

__all__ = ["NameIndex", "Named", "Names", "Reference", "find_reference", "names_in"]
