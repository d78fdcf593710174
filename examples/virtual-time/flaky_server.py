"""A server that answers the first FAILURES requests with 503: flaky_server.py PORT FAILURES."""

import http.server
import sys


class Flaky(http.server.BaseHTTPRequestHandler):
    """Answers with 503 until `left` failures are used up, then with 200."""

    left = int(sys.argv[2])

    def do_GET(self) -> None:
        """Answer a request."""
        Flaky.left -= 1
        body = b"here it is\n"
        self.send_response(503 if Flaky.left >= 0 else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.HTTPServer(("", int(sys.argv[1])), Flaky).serve_forever()
