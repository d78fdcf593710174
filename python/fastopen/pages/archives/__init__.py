"""Recordings without times (archives, mirrors) into pages: what names what decides who waits for whom."""

from fastopen.pages.archives.build import pages_of
from fastopen.pages.archives.exchange import Exchange, http_exchange
from fastopen.pages.archives.notes import ArchiveNotes

__all__ = ["ArchiveNotes", "Exchange", "http_exchange", "pages_of"]
