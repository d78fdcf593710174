"""Handle requests to `fastopen browse`. Refuse those without the access token in the URL or the cookie.

Other sites cannot read the responses, because their scripts' requests lack the token. Checking the Host
header prevents DNS rebinding. Other sites cannot show the pages in a frame. Inline scripts do not run."""

import hmac
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from markupsafe import Markup
from tornado.web import HTTPError, RequestHandler

from fastopen.apps.browse.kept import Kept
from fastopen.common.errors import InputError, MachineError, one_line
from fastopen.report.templates import environment

PACKAGE: Final = "fastopen.apps.browse"
# Style attributes are allowed because Vega writes them into its drawings.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-cache, private",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
# browse.js sends this header to request a part of a page. Scripts of other sites cannot send it. A browser
# without scripts requests whole pages.
PART: Final = "X-Fastopen-Part"
TOKEN: Final = "token"  # noqa: S105  # the name of the argument
# The number of rows on one page of a long list.
ROWS: Final = 50
Row = TypeVar("Row")


@dataclass(frozen=True)
class ServerState:
    """The state that all request handlers share: the stored runs, the access token and the port."""

    kept: Kept
    token: str
    port: int

    @property
    def cookie(self) -> str:
        """Return the name of the cookie with the access token. The name contains the port, because browsers
        send a host's cookies to all ports."""
        return f"fastopen-{self.port}"

    def is_token(self, token: str | None) -> bool:
        """Return True if `token` is the server's access token. The comparison takes constant time."""
        return hmac.compare_digest((token or "").encode(), self.token.encode())


@dataclass(frozen=True)
class Selected:
    """The run or load that the user has selected for a comparison. `run` is the name of the run; empty if
    nothing is selected. `load` is the number of the load; None if the whole run is selected."""

    run: str
    load: int | None


@dataclass(frozen=True)
class Paging:
    """One page of a list that is shown in pages of ROWS rows. `number` is the page's number, from 1. `total`
    is the number of rows in the whole list."""

    number: int
    total: int

    @property
    def start(self) -> int:
        """Return the index of the page's first row in the whole list, from 0."""
        return (self.number - 1) * ROWS

    @property
    def end(self) -> int:
        """Return the index after the page's last row."""
        return min(self.start + ROWS, self.total)

    def of(self, rows: Sequence[Row]) -> Sequence[Row]:
        return rows[self.start : self.end]


Answer = Callable[..., Awaitable[None]]
"""A function that responds to a request, given the handler and the groups that the URL pattern captured."""


class Guarded(RequestHandler):
    """The request handler for all URLs. It checks that access is allowed, and then calls the function
    `answer`, which sends the response."""

    SUPPORTED_METHODS = ("GET",)

    def initialize(self, state: ServerState, answer: Answer) -> None:
        """Store the arguments in the handler. Tornado calls this before each request."""
        self.state, self.kept, self.answer = state, state.kept, answer

    async def get(self, *groups: str) -> None:
        await self.answer(self, *groups)

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        """Refuse a request if its Host header is wrong, or if the access token is neither in the URL nor in
        the cookie. If the URL has the token, set the cookie and redirect to the URL without the token."""
        if self.request.host not in (f"127.0.0.1:{self.state.port}", f"localhost:{self.state.port}"):
            raise HTTPError(403, "the Host header does not name this machine")
        given = self.get_query_argument(TOKEN, "")
        if self.state.is_token(given):
            self.set_cookie(self.state.cookie, given, httponly=True, samesite="Lax")
            names = [name for name in self.request.query_arguments if name != TOKEN]
            kept = {name: self.get_query_arguments(name) for name in names}
            # Redirect, so that the token is not in an address that people share and browsers remember.
            self.redirect(self.request.path + (f"?{urlencode(kept, doseq=True)}" if kept else ""), status=303)
        elif not self.state.is_token(self.get_cookie(self.state.cookie)):
            raise HTTPError(403, "open the address that fastopen browse printed, with its token")

    def decode_argument(self, value: Any, name: str | None = None) -> Any:
        """Decode `value`: the value of the query argument `name` or, if `name` is None, a part of the URL's
        path, such as the name of a run's folder. Return None if `value` is None."""
        # The name of a run's folder may be invalid UTF-8.
        if value is None:
            return None
        return os.fsdecode(value) if name is None else super().decode_argument(value, name)

    @property
    def is_part(self) -> bool:
        """Return True if browse.js requests a part of a page; False if a browser requests a whole page."""
        return PART in self.request.headers

    @cached_property
    def selected(self) -> Selected:
        return Selected(self.get_query_argument("selected", ""), self.number("selected_load"))

    def number(self, name: str) -> int | None:
        """Return the query argument `name` if it is a number of up to nine digits, or else None."""
        text = self.get_query_argument(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None

    def paging(self, total: int) -> Paging:
        """Return the requested page of a list with `total` rows, or the nearest page that exists."""
        return Paging(max(1, min(self.number("page") or 1, -(-total // ROWS))), total)

    def link(self, *places: object, **arguments: object) -> str:
        """Return the URL with the path segments `places` and the query `arguments`. The URL also names the
        run or load that the user has selected, unless `arguments` select another."""
        path = "/" + "/".join(quote(os.fsencode(str(place)), safe="") for place in places)
        if "selected" not in arguments and self.selected.run:
            arguments |= {"selected": self.selected.run, "selected_load": self.selected.load}
        asked = {
            name: os.fsencode(str(value)) for name, value in arguments.items() if value not in (None, "")
        }
        return f"{path}?{urlencode(asked)}" if asked else path

    def run_link(self, name: str) -> tuple[str, str]:
        """Return the text and the URL of a link to the page of the run `name`. The text is the name."""
        return name, self.link("runs", name)

    def rendered(self, template: str, **content: Any) -> Markup:
        known = environment(PACKAGE).get_template(template)
        return Markup(known.render(link=self.link, selected=self.selected, **content))  # noqa: S704  # escaped

    def send(self, content: bytes | str) -> None:
        """Finish the response with bytes or UTF-8 text. Unpaired surrogates become question marks."""
        self.finish(content.encode("utf-8", "replace") if isinstance(content, str) else content)

    def show(self, template: str, **content: Any) -> None:
        self.send(self.rendered(template, **content))

    def show_part(self, title: str, html: Markup, back: tuple[str, str]) -> None:
        """Finish the response with `html`, a part of a page. If the request is not from browse.js, wrap the
        part in a whole page with a title and a link. `back` is the link's text and URL."""
        if self.is_part:
            self.send(html)
        else:
            self.show("part.html.jinja", title=title, html=html, back=back)

    def download(self, name: str, kind: str, content: bytes | str) -> None:
        """Finish the response with a file for the browser to save. `name` is the file's name, with only
        letters, digits, dots and hyphens. `kind` is its content type."""
        self.set_header("Content-Type", kind)
        self.set_header("Content-Disposition", f'attachment; filename="{name}"')
        self.send(content)

    def write_error(self, status_code: int, **settings: Any) -> None:
        """Send an error message: as plain text if access was refused, as a note if browse.js requested a part
        of a page, otherwise as a whole page."""
        error = (settings.get("exc_info") or (None, None, None))[1]
        if isinstance(error, InputError):
            self.set_status(404 if error.message == "not a kept run" else 422)
        if isinstance(error, InputError | MachineError):
            text = str(error)
        elif isinstance(error, HTTPError):
            text = error.log_message or f"this address does not exist ({status_code})"
        else:
            text = f"a bug, {type(error).__name__}: {one_line(str(error))}"
        if status_code == 403:
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.finish(f"fastopen browse: {text}\n")
        elif self.is_part:
            self.send(Markup('<p class="warning" role="note">{}</p>').format(text))
        else:
            self.show("error.html.jinja", title="This cannot be shown", text=text)

    def log_exception(self, kind: Any, value: Any, trace: Any) -> None:
        """Log unexpected exceptions (bugs). Do not log other errors, because the response explains them."""
        if not isinstance(value, InputError | MachineError | HTTPError):
            super().log_exception(kind, value, trace)
