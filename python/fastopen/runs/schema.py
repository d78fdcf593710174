"""Define the tables of a run's SQLite file, and the numbers that identify the file format.

The columns hold the data that tables and lists of results show. The full records of loads are many times
larger. They are compressed (zlib) in a separate table, so that queries on the columns need not read them."""

from typing import Final

FILE: Final = "run.sqlite"
APPLICATION_ID: Final = 0x66_6F_70_6E  # "fopn"
# Increase the version when a program that reads the old version would misread the new one.
VERSION: Final = 2

SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE pages (
    name TEXT PRIMARY KEY, position INTEGER NOT NULL, digest TEXT NOT NULL, page TEXT NOT NULL
) STRICT;
CREATE TABLE cells (
    id INTEGER PRIMARY KEY, page TEXT NOT NULL REFERENCES pages, network INTEGER NOT NULL,
    setup INTEGER NOT NULL, arm TEXT NOT NULL, engine TEXT NOT NULL
) STRICT;
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, page TEXT NOT NULL REFERENCES pages,
    network INTEGER NOT NULL, setup INTEGER NOT NULL, engine TEXT NOT NULL, repeat INTEGER NOT NULL,
    seed INTEGER NOT NULL, loads TEXT NOT NULL
) STRICT;
CREATE TABLE worlds (
    number INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES jobs, rtt_us_asked INTEGER NOT NULL,
    rtt_us_measured INTEGER NOT NULL, record_zlib BLOB NOT NULL
) STRICT;
CREATE TABLE faults (job INTEGER NOT NULL REFERENCES jobs, fault TEXT NOT NULL) STRICT;
CREATE TABLE loads (
    number INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES jobs, id TEXT NOT NULL,
    attempt INTEGER NOT NULL, cell INTEGER NOT NULL REFERENCES cells, repeat INTEGER NOT NULL,
    valid INTEGER NOT NULL, plt_ns INTEGER, requests INTEGER NOT NULL, connections INTEGER NOT NULL,
    syn_data_connections INTEGER NOT NULL, handshakes_ns INTEGER NOT NULL, retransmitted INTEGER NOT NULL,
    started_unix_ms INTEGER NOT NULL, invalid TEXT NOT NULL, UNIQUE (job, id, attempt)
) STRICT;
CREATE TABLE records (load INTEGER PRIMARY KEY REFERENCES loads, record_zlib BLOB NOT NULL) STRICT;
"""
