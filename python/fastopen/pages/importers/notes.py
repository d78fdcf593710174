"""Count the facts that an import left out, guessed or found odd, and turn the counts into sentences."""

from collections import Counter
from typing import Final

# The sentences, in the order of the output. `{n}` is the count.
SENTENCES: Final = {
    # Content of a recording
    "broken": "broken entries left out: {n}",
    "broken_records": "damaged records left out: {n}",
    "cut": "the file ends early: what follows its last whole entry is missing",
    "cut_record": "the file ends in the middle of a record: what follows is missing",
    "scheme": "entries left out that need no server (data:, blob:, about:, extensions and the like): {n}",
    "no_http": "records left out that are not http or https requests: {n}",
    "no_host": "requests left out whose URL has no valid host or port: {n}",
    "robots": "requests for robots.txt left out, which only crawlers make: {n}",
    "websocket": "WebSocket connections left out: {n}",
    "event_stream": "event streams left out, which stay open: {n}",
    "failed": "requests left out that failed, were blocked or got no final answer: {n}",
    "unanswered": "exchanges left out that got no final answer: {n}",
    "cached": "entries left out that the recorder's cache answered without the network: {n}",
    "internal": "redirects left out that the browser made without a request (HSTS): {n}",
    "cached_root": "the recorder's cache answered the root document; it is kept, sized by its headers",
    "not_modified": "conditional requests kept that were answered with 304 and no body: {n}",
    "pageref": "entries of undeclared pages, counted to the page loading at that time: {n}",
    "no_pageref": "entries without pageref, counted to the page loading at that time: {n}",
    "started": "entries without a readable start, taken to start with the entry before them: {n}",
    "certificate": "certificate checks of the browser left out (OCSP, CRL): {n}",
    "before": "entries that started before the root document, taken to start with it: {n}",
    "timings": "entries without timings: {n}",
    # Sizes and headers
    "body_length": "body sizes from Content-Length, because the entry has none: {n}",
    "body_transfer": "body sizes from the size of the transfer without its headers: {n}",
    "body_content": "body sizes from the size of the content: {n}",
    "body_ratio": "sizes of compressed bodies guessed as a third of their content: {n}",
    "body_zero": "bodies of unknown size taken as empty: {n}",
    "request_headers": "requests without headers or their size, taken as typical: {n}",
    "response_headers": "responses without headers or their size, taken as typical: {n}",
    "written_out": "header sizes of HTTP/2 and HTTP/3 written out as HTTP/1.1 text: {n}",
    "no_request": "responses whose request was not kept, its headers taken as typical: {n}",
    "no_head": "responses recorded without headers, taken as typical: {n}",
    "revisit": "responses whose body is an earlier record's: {n}",
    "revisit_lost": "responses whose body is in another archive, sized by their headers: {n}",
    "chunked": "bodies that came in chunks, sent here with their length instead: {n}",
    "short": "bodies cut short by the recorder, taken as long as they are: {n}",
    "compressed": "texts that the mirror holds unpacked, sized and served as gzip makes them: {n}",
    "local": "headers taken as typical, since a mirror keeps none: {n}",
    # Pages
    "preflight": "CORS preflights kept (the request waits for its preflight): {n}",
    "no_document": "no document in it: the first request stands for the page",
    "without_document": "pages of the file left out that have no document: {n}",
    "navigations": "navigations within one page of the file, each imported as a page: {n}",
    "elsewhere": "recorded requests that are not part of this page: {n}",
    "choices": "resources with other names (choices of a srcset or picture, a mirror's file names): {n}",
    "encoded": "compressed texts that could not be unpacked to look for references: {n}",
    # Times
    "ahead": "the document came before its page began, and is taken to start with it",
    "onload_clock": "the load event is unknown: the recorder counts it from the start of the recording",
    "onload_root": "the load event is unknown: in the file it comes before the end of the document",
    "onload_early": "the load event is unknown: in the file it comes before the first request",
    "onload": "the file has no time of the load event: it waits for all elements and frames",
    "plt": "the recorded load event came {n} ms after the first request, over the recorder's network",
    "event": "processing before the load event cut to 10 s from ms: {n}",
    "slow": "resources that wait more than 2 s for a timer or the user, kept as recorded: {n}",
    "rtt": "hosts without a recorded connection, RTT of the recording guessed from waits: {n}",
    # Initiators
    "chained": "resources that follow a redirect or a preflight: {n}",
    "redirected": "resources that follow a redirect: {n}",
    "recorded": "initiators recorded: {n}",
    "held": "of these, held back until a later script or stylesheet came, which stands as initiator: {n}",
    "named": "initiators found by the resource's name in a recorded text: {n}",
    "referenced": "initiators found where a document or stylesheet names the resource: {n}",
    "spelled": "initiators found by the resource's name in a text: {n}",
    "inferred": "initiators inferred from time and type: {n}",
    "referer": "initiators only from the Referer: {n}",
    "guessed": "initiators guessed by type, since nothing names the resource: {n}",
    "times": "the recording has no times: server think time and processing are 0",
}
DAMAGE: Final = ("broken", "broken_records", "cut", "cut_record")


class Notes(Counter[str]):
    """Counts of facts that an importer left out, guessed or found odd, by the keys of SENTENCES."""

    def add(self, key: str, count: int = 1) -> None:
        assert key in SENTENCES, key
        self[key] += count

    def sentences(self) -> tuple[str, ...]:
        return tuple(text.format(n=self[key]) for key, text in SENTENCES.items() if self[key])
