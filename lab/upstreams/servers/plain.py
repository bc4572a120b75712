import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from answer import HEADERS, answer_to


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.read_chunked() if self.headers.get("Transfer-Encoding") else self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, is_chunked, text = answer_to(self.command, self.path, self.headers.items(), body)
        is_chunked = is_chunked and self.request_version == "HTTP/1.1"
        self.send_response_only(status)
        for name, value in HEADERS:
            self.send_header(name, value)
        has_body = self.command != "HEAD" and status not in (204, 304)
        if is_chunked and status not in (204, 304):
            self.send_header("Transfer-Encoding", "chunked")
        elif status not in (204, 304):
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if has_body and is_chunked:
            text = b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text)
        if has_body:
            self.wfile.write(text)

    def read_chunked(self):
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 512


Server(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
