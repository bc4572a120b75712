"""A demo application behind the gate of `npm run dev -- --gate`. It has no code for tokens and proofs.

    python3 dev/upstream.py [PORT]

It needs only the standard library of Python 3.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

ORDERS = {"7": {"item": "rope", "metres": 60}, "8": {"item": "anchor", "metres": 0}}
EVENTS = 5
PAUSE_SECONDS = 0.2


class Application(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "upstream"

    def do_GET(self):
        path = urlsplit(self.path).path
        if path == "/":
            self.answer(200, {"message": "Anyone may read this. The other paths are behind the gate."})
        elif path == "/whoami":
            self.answer(200, {"headers": self.identity()})
        elif path == "/orders":
            self.answer(200, {"of": self.caller(), "orders": ORDERS})
        elif path.startswith("/orders/"):
            order = ORDERS.get(unquote(path.removeprefix("/orders/")))
            self.answer(200 if order else 404, {"of": self.caller(), "order": order})
        elif path in ("/admin", "/recent"):
            self.answer(200, {"message": f"{self.caller()} may read {path}."})
        elif path == "/events":
            self.stream()
        else:
            self.answer(404, {"message": "The application has no such path."})

    do_HEAD = do_GET

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        self.answer(201, {"of": self.caller(), "bytes": len(self.rfile.read(length))})

    do_PUT = do_DELETE = do_PATCH = do_POST

    def caller(self):
        """The caller, from the gate. The header is always present, percent-encoded, and empty for anonymous requests."""
        return unquote(self.headers.get("X-Auth-Subject", ""))

    def identity(self):
        """All identity headers of the gate, and the credentials, which should not arrive."""
        names = [name for name in self.headers if name.lower().startswith("x-auth-") or name.lower() in ("authorization", "dpop")]
        return {name.lower(): unquote(self.headers[name]) for name in names}

    def answer(self, status, content):
        body = (json.dumps(content) + "\n").encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def stream(self):
        """Server-sent events, one after the other. They end, so that a page that reads to the end can show them."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "HEAD":
            return
        for number in range(1, EVENTS + 1):
            self.wfile.write(f"id: {number}\ndata: event {number} for {self.caller()}\n\n".encode())
            self.wfile.flush()
            time.sleep(PAUSE_SECONDS)

    def log_message(self, *_):
        """The gate writes a line for each request. A second one would say nothing more."""


class Server(ThreadingHTTPServer):
    daemon_threads = True


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 3000), Application)
    print(f"The application is at http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
