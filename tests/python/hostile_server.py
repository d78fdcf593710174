"""A malicious server, from which clients must read only a limited amount of data."""

from local_server import Handler

PIECE = b"<p>" * 2**16
PAGES = {
    "/spin": b"<script>onload = () => setTimeout(() => { for (;;); }, 0)</script>",
    "/frames": b"<iframe src=/attachment></iframe><iframe src='file:///etc/passwd'></iframe>"
    b"<script>alert(1)</script>",
    "/requests": b"<script>for (let i = 0; i < 500; i++) new Image().src = '/' + i</script>",
}
HEADS = {
    "/body": b"Content-Type: text/html",
    "/drip": b"Content-Type: text/html",
    "/attachment": b"Content-Type: application/zip\r\nContent-Disposition: attachment; filename=evil",
}
REDIRECTS = {"/file": "file:///etc/passwd", "/ring": "/ring"}


class Hostile(Handler):
    """Sends an odd page, a redirect, or endless data, depending on the path. Endless data stops when the
    client closes the connection or the test is over."""

    def do_GET(self) -> None:  # noqa: N802  # the name that http.server calls
        over = self.server.closing
        try:
            if self.path in PAGES or self.path in REDIRECTS:
                body = PAGES.get(self.path, b"")
                self.send_response(200 if body else 302)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                if not body:
                    self.send_header("Location", REDIRECTS[self.path])
                self.end_headers()
                self.wfile.write(body)
                return
            self.wfile.write(b"HTTP/1.1 200 OK\r\n" + HEADS.get(self.path, b""))
            self.wfile.write(b"\r\n\r\n" if self.path in HEADS else b"")
            while not over.is_set():
                self.wfile.write({"/headers": b"X-A: a\r\n", "/drip": b"a"}.get(self.path, PIECE))
                over.wait(0.05 if self.path == "/drip" else 0)
        except OSError:
            self.close_connection = True
