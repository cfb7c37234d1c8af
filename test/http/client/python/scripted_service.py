"""A service on a real socket that records each request and then responds as the test defines."""

import json
import threading
import time
import unittest
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List

from async_task_service_client import TaskServiceClient

BODY: Any = {"assistant_id": 1, "input": [{"type": "text", "text": "Why?"}]}
TASK = {"uuid": "u", "status": "completed", "turn": None, "error": None, "created_at": "", "completed_at": ""}


@dataclass
class Received:
    method: str
    path: str
    headers: Dict[str, str]
    body: bytes
    at: float


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "ScriptedService"

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def respond(self) -> None:
        at = time.monotonic()
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.server.read_body(self)
        received = Received(self.command, self.path, headers, body, at)
        with self.server.lock:
            self.server.received.append(received)
            number = len(self.server.received)
        self.server.script(received, self, number)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = respond

    def read_body(self) -> bytes:
        if self.headers["transfer-encoding"] != "chunked":
            return self.rfile.read(int(self.headers["content-length"] or 0))
        body = b""
        while True:
            size = int(self.rfile.readline(), 16)
            chunk = self.rfile.read(size + 2)[:-2]
            if size == 0:
                return body
            body += chunk

    def answer(self, status: int, body: object, **headers: str) -> None:
        self.send(status, json.dumps(body).encode(), content_type="application/json", **headers)

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.start(status, content_length=str(len(body)), **headers)
        self.wfile.write(body)

    def start(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def stream(self, text: str) -> None:
        """A body that ends with the connection."""
        self.start(200, content_type="text/event-stream", connection="close")
        self.wfile.write(text.encode())

    def drop(self) -> None:
        """Closes the connection without a response."""
        self.close_connection = True

    def hang(self) -> None:
        """Responds nothing until the client has gone."""
        self.connection.recv(1)
        self.drop()

    def log_message(self, *_: object) -> None:
        pass


class ScriptedService(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.lock = threading.Lock()
        self.received: List[Received] = []
        self.read_body: Callable[[Handler], bytes] = Handler.read_body
        self.script: Callable[[Received, Handler, int], object] = lambda _, handler, __: handler.answer(200, {})

    def handle_error(self, *_: object) -> None:
        pass


class ScriptedTest(unittest.TestCase):
    def setUp(self) -> None:
        self.service = ScriptedService()
        thread = threading.Thread(target=self.service.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        self.addCleanup(self.service.server_close)
        self.addCleanup(self.service.shutdown)
        self.client = TaskServiceClient(f"{self.service.url}/", "t")

    def answers(self, status: int, body: object, **headers: str) -> None:
        """The service answers each request so."""
        self.service.script = lambda _, handler, __: handler.answer(status, body, **headers)
