"""Recordings without times (archives, mirrors) into pages: what names what decides who waits for whom."""
