"""Recordings without times (archives, mirrors) into pages: what names what decides who waits for whom."""

from fastopen.pages.untimed.build import pages_of
from fastopen.pages.untimed.exchange import Exchange, http_exchange
from fastopen.pages.untimed.notes import Notes

__all__ = ["Exchange", "Notes", "http_exchange", "pages_of"]
