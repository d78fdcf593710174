"""Count the data that an import left out, guessed or found odd, and describe the counts for users."""

from collections import Counter
from typing import Final

# The sentences, in the order of the output. `{n}` is the count.
SENTENCES: Final = {
    # Content of a recording
    "broken": "broken entries left out: {n}",
    "broken_records": "damaged records left out: {n}",
    "cut": "the file ends early, after its last whole entry",
    "cut_record": "the file ends within a record, and the rest is missing",
    "scheme": "entries left out, because they need no server (data:, blob:, about:, extensions): {n}",
    "no_http": "records left out, because they are not HTTP or HTTPS requests: {n}",
    "no_host": "requests left out, because their URL has no valid host or port: {n}",
    "robots": "requests for robots.txt left out, because only crawlers make them: {n}",
    "websocket": "WebSocket connections left out: {n}",
    "event_stream": "event streams left out, because they stay open: {n}",
    "failed": "requests left out, because they failed, were blocked or got no final answer: {n}",
    "unanswered": "exchanges left out, because they got no final answer: {n}",
    "cached": "entries left out, because the browser's cache answered them: {n}",
    "mocked": "entries left out, because a service worker, test script or override answered them: {n}",
    "api": "requests left out, because a test script made them, not the page: {n}",
    "internal": "redirects left out, because the browser made them without a request (HSTS): {n}",
    "cached_root": "the browser's cache answered the root document, which is kept with the size in its head",
    "not_modified": "conditional requests kept, which were answered with 304 and no body: {n}",
    "pageref": "entries of undeclared pages, assigned to the page that was loading: {n}",
    "no_pageref": "entries without pageref, assigned to the page that was loading: {n}",
    "started": "entries without a readable start, assumed to start with the entry before: {n}",
    "certificate": "certificate checks of the browser (OCSP, CRL) left out: {n}",
    "before": "entries that started before the root document, moved to its start: {n}",
    "timings": "entries without timings: {n}",
    # Sizes and headers
    "body_length": "body sizes from Content-Length, because the recording has none: {n}",
    "body_transfer": "body sizes from the size of the transfer minus the headers: {n}",
    "body_content": "body sizes from the size of the content: {n}",
    "body_ratio": "sizes of compressed bodies estimated as a third of their content: {n}",
    "body_zero": "bodies of unknown size, assumed to be empty: {n}",
    "request_headers": "requests without headers or their size, assumed to be of typical size: {n}",
    "response_headers": "responses without headers or their size, assumed to be of typical size: {n}",
    "written_out": "HTTP/2 and HTTP/3 headers, with their size as HTTP/1.1 text: {n}",
    "no_request": "responses without a recorded request, for which typical headers are assumed: {n}",
    "no_head": "responses recorded without headers, for which typical ones are assumed: {n}",
    "revisit": "responses whose body is in an earlier record: {n}",
    "revisit_lost": "responses whose body is in another archive, with the size that their headers give: {n}",
    "chunked": "chunked bodies, which are sent with a Content-Length instead: {n}",
    "short": "bodies that the recorder cut short, with the size that was recorded: {n}",
    "repacked": "bodies that the recorder decompressed, compressed again with gzip: {n}",
    "compressed": "texts that the mirror stores uncompressed, but that are served with gzip: {n}",
    "local": "files for which typical headers are assumed, because a mirror stores none: {n}",
    # Pages
    "preflight": "CORS preflights kept (the request waits for its preflight): {n}",
    "no_document": "no document was recorded; the first request stands for the page",
    "without_document": "pages left out, because the recording has no document for them: {n}",
    "navigations": "navigations within one page of the file, each imported as a page: {n}",
    "elsewhere": "recorded requests that are not part of this page: {n}",
    "choices": "resources under other names (choices of a srcset or picture, a mirror's file names): {n}",
    "encoded": "texts that could not be decompressed to find references: {n}",
    # Times
    "ahead": "the document was fetched before the page started, and was moved to the page's start",
    "page_start": "the page is recorded as started after all its requests, so its start is that of the first",
    "onload_clock": "the load event is unknown, because the recorder counts from the start of the recording",
    "onload_root": "the load event is unknown, because its time is before the end of the document",
    "onload_early": "the load event is unknown, because its time is before the first request",
    "onload": "the recording has no load event; ours waits for all elements and frames",
    "plt": "the recorded load event came {n} ms after the first request",
    "event": "processing before the load event shortened to 10 s; ms before: {n}",
    "slow": "resources that wait more than 2 s for a timer or the user, kept as recorded: {n}",
    "rtt": "hosts without a recorded connection, whose RTT was estimated from waits: {n}",
    # Initiators
    "chained": "resources that follow a redirect or a preflight: {n}",
    "redirected": "resources that follow a redirect: {n}",
    "recorded": "initiators recorded: {n}",
    "held": "of these, held back until a later script or stylesheet, which is taken as the initiator: {n}",
    "named": "initiators whose recorded text contains the resource's name: {n}",
    "referenced": "initiators that are documents or stylesheets with a reference to the resource: {n}",
    "spelled": "initiators whose text contains the resource's name: {n}",
    "inferred": "initiators inferred from times and types: {n}",
    "referer": "initiators known only from the Referer: {n}",
    "guessed": "initiators guessed from types, because nothing refers to the resource: {n}",
    "times": "the recording has no times; server think time and processing are assumed to be 0",
}
DAMAGE: Final = ("broken", "broken_records", "cut", "cut_record")


class Notes(Counter[str]):
    """Counts of data that an importer left out, guessed or changed. The keys are keys of SENTENCES."""

    def add(self, key: str, count: int = 1) -> None:
        assert key in SENTENCES, key
        self[key] += count

    def sentences(self) -> tuple[str, ...]:
        return tuple(text.format(n=self[key]) for key, text in SENTENCES.items() if self[key])
