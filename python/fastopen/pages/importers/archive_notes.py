"""What importers of archives, which have no times, have to say."""

from typing import ClassVar

from fastopen.pages.importers.notes import ImportNotes


class ArchiveNotes(ImportNotes):
    """Of an archive."""

    SENTENCES: ClassVar = {
        "broken": "damaged records left out: {n}",
        "cut": "the file ends in the middle of a record: what follows is missing",
        "scheme": "records left out that are no http or https requests: {n}",
        "failed": "exchanges left out that got no final answer: {n}",
        "no_request": "responses whose request was not kept, its headers taken as typical: {n}",
        "no_head": "responses recorded without headers, taken as typical: {n}",
        "revisit": "responses whose body is an earlier record's: {n}",
        "revisit_lost": "responses whose body is in another archive, sized by their headers: {n}",
        "chunked": "bodies that came in chunks, sent here with their length instead: {n}",
        "short": "bodies cut short by the recorder, taken as long as they are: {n}",
        "compressed": "texts that the mirror holds unpacked, sized and served as gzip makes them: {n}",
        "local": "headers taken as typical, since a mirror keeps none: {n}",
        "elsewhere": "what is recorded but no part of this page: {n}",
        "choices": "resources with other names (choices of a srcset or picture, a mirror's file names): {n}",
        "encoded": "compressed texts that could not be unpacked to look for references: {n}",
        "chained": "resources that follow a redirect: {n}",
        "named": "initiators found where a document or stylesheet names the resource: {n}",
        "spelled": "initiators found by the resource's name in a text: {n}",
        "referer": "initiators out of the Referer alone: {n}",
        "guessed": "initiators guessed by type, since nothing names the resource: {n}",
        "times": "the recording has no times: server think time and processing are 0",
    }
