"""A proxy in front of an S3 server that is busy when it is to be, and counts what it passes on."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.patience import FOREVER_S

_HOPS = {"connection", "transfer-encoding", "keep-alive", "content-length"}
_BUSY = b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>'


class FaultyProxy:
    """Pass requests on to ``target`` (host, port), from a port of the loopback interface.

    While it is ``busy``, it answers 503 itself; ``faults`` counts these answers. ``put`` are the paths of what was put.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.target, self.busy = target, False
        self.faults = 0
        self.put: list[str] = []
        proxy = self

        class Handler(_Handler):
            faulty = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop it."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    faulty: FaultyProxy

    def _pass_on(self) -> None:
        body = self._body()
        proxy = self.faulty
        if self.command == "PUT":
            proxy.put.append(self.path)
        if proxy.busy:
            proxy.faults += 1
            self._answer(503, {"Content-Type": "application/xml"}, _BUSY)
            return
        upstream = http.client.HTTPConnection(*proxy.target, timeout=FOREVER_S)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOPS}
        upstream.request(self.command, self.path, body or None, {**headers, "Content-Length": str(len(body))})
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        reply_headers = {name: value for name, value in answer.getheaders() if name.lower() not in _HOPS}
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self._answer(answer.status, reply_headers, content, length)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, status: int, headers: dict[str, str], content: bytes, length: str | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
