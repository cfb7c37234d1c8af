"""The HTTP server of a core."""

import http.server
import json
import socket
import socketserver
import threading
from typing import Any, Callable, Mapping, Optional, Tuple

#: Bytes: a request of 16 MiB with its earlier turns, the state and results of a resume.
_max_body = 64 * 1024 * 1024
#: Connections at a time; the service needs one for each call in flight.
_max_connections = 1024
#: Seconds without a byte.
_idle_timeout = 60

#: Answers a call: method, path, the header Authorization, and what reads the body.
Handle = Callable[[str, str, str, Callable[[], Optional[bytes]]], Tuple[int, Mapping[str, Any], Mapping[str, str]]]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _idle_timeout
    server: "Server"

    def _answer(self) -> None:
        was_read = self.headers.get("Content-Length", "0") == "0" and "Transfer-Encoding" not in self.headers

        def read() -> Optional[bytes]:
            nonlocal was_read
            body = self._body()
            was_read = body is not None
            return body

        authorization = self.headers.get("Authorization", "")
        try:
            status, body, headers = self.server.handle(self.command, self.path, authorization, read)
        except ValueError:
            status, body, headers = 400, {"message": "The request could not be read"}, {}
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        if not was_read:
            # A body that was not read must not be taken for the next request.
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

    def _body(self) -> Optional[bytes]:
        """The body; None when it is too long."""
        if "Transfer-Encoding" in self.headers and "Content-Length" in self.headers:
            raise ValueError("the length of the body is given twice")
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._chunks()
        length = int(self.headers.get("Content-Length", "0"))
        if not 0 <= length <= _max_body:
            return None
        body = self.rfile.read(length)
        if len(body) < length:
            raise ValueError("the body is not complete")
        return body

    def _chunks(self) -> Optional[bytes]:
        body = b""
        while True:
            size = int(self.rfile.readline(64).split(b";")[0], 16)
            if size < 0 or len(body) + size > _max_body:
                return None
            body += self.rfile.read(size)
            self.rfile.readline(64)
            if size == 0:
                return body

    def log_message(self, format: str, *args: Any) -> None:
        """The core logs what matters."""


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: Tuple[str, int], handle: Handle) -> None:
        self.handle = handle
        self._places = threading.BoundedSemaphore(_max_connections)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            return self.shutdown_request(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is no error of the core."""
