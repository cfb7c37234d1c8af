"""Sends one call to the service with token, timeout and retries. Each attempt has a connection of its own."""

import http.client
import io
import json
import logging
import secrets
import socket
import ssl
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Tuple, Union
from urllib.parse import urlsplit

from ._deadline import Deadline, backoff, is_transient
from .errors import (
    ApiError,
    ConnectionError,
    RateLimitError,
    TaskServiceError,
    TimeoutError,
    from_response,
    retry_after_of,
)

logger = logging.getLogger("async_task_service_client")

#: A longer `Retry-After` is ignored. Seconds.
_max_retry_after = 60


@dataclass(frozen=True)
class Retry:
    """A retry that is about to happen."""

    #: Why the attempt failed.
    error: TaskServiceError
    #: From 1.
    number: int
    #: Seconds until the retry.
    delay: float


@dataclass(frozen=True)
class Options:
    base_url: str
    token: Union[str, Callable[[], str]] = field(repr=False)  # Reports of errors have the values of variables.
    timeout: float
    max_retries: int
    on_retry: Optional[Callable[[Retry], None]]
    headers: Mapping[str, str]
    ssl_context: Optional[ssl.SSLContext]


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    body: Optional[bytes] = None
    headers: Mapping[str, str] = field(default_factory=dict)
    deadline: Deadline = field(default_factory=Deadline)
    #: Seconds for which the service may hold the response, added to the timeout.
    held_for: float = 0
    #: A body that is sent as it is read, and so only once. Seconds without progress are its timeout.
    stream: Optional[Iterable[bytes]] = None
    stream_timeout: float = 0


def json_call(method: str, path: str, body: object, **more: Any) -> Call:
    headers = {"content-type": "application/json", **more.pop("headers", {})}
    text = json.dumps(body, allow_nan=False, separators=(",", ":"))
    return Call(method, path, text.encode(), headers, **more)


def idempotent(path: str, body: object, key: Optional[str]) -> Call:
    """A POST with an `Idempotency-Key`, so that a retry is safe."""
    return json_call("POST", path, body, headers={"idempotency-key": key or secrets.token_hex(16)})


class _Reader(io.RawIOBase):
    def __init__(self, wire: "_Wire") -> None:
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._wire.limited().recv_into(buffer)


class _Wire:
    """The socket of one exchange, as `http.client` uses it. Every operation ends at the same moment."""

    def __init__(self, sock: socket.socket, timeout: float) -> None:
        self._socket = sock
        self.allow(timeout)

    def allow(self, timeout: float) -> None:
        """Starts the timeout again."""
        self._ends_at = time.monotonic() + timeout

    def limited(self) -> socket.socket:
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise socket.timeout("timed out")
        self._socket.settimeout(left)
        return self._socket

    def sendall(self, data: bytes) -> None:
        self.limited().sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self), 65536)

    def close(self) -> None:
        """`http.client` closes its socket before the body is read: `disconnect` does so afterwards."""

    def disconnect(self) -> None:
        self._socket.close()


class Exchange:
    """A response whose body is read within `allow`."""

    def __init__(self, wire: _Wire, response: http.client.HTTPResponse) -> None:
        self._wire = wire
        self._response = response
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.disconnect()

    def read(self) -> bytes:
        return self._response.read()

    def read_some(self, timeout: float) -> bytes:
        """The bytes that have arrived; empty at the end."""
        self._wire.allow(timeout)
        try:
            return self._response.read1(65536)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError("The event stream broke") from error


class _SourceFailed(Exception):
    """Reading what is uploaded failed, which is the caller's error and not one of the connection."""


def _sent(source: Iterable[bytes], wire: _Wire, timeout: float) -> Iterable[bytes]:
    chunks = iter(source)
    while True:
        try:
            chunk = next(chunks)
        except StopIteration:
            return
        except Exception as error:
            raise _SourceFailed from error
        wire.allow(timeout)
        yield chunk


class Transport:
    def __init__(self, options: Options) -> None:
        url = urlsplit(options.base_url)
        if url.scheme not in ("http", "https") or url.hostname is None:
            raise ValueError("base_url must be an http or https URL")
        if not isinstance(options.token, str) and not callable(options.token):
            raise TypeError("token must be a text or a function that returns one")
        self.options = options
        self._host = url.hostname
        self._port = url.port or (443 if url.scheme == "https" else 80)
        self._authority = url.netloc.rpartition("@")[2]
        self._prefix = url.path.rstrip("/")
        self._ssl = (options.ssl_context or ssl.create_default_context()) if url.scheme == "https" else None

    def json(self, call: Call) -> Any:
        """Returns the parsed JSON body."""
        return self._attempts(call, lambda exchange: json.loads(exchange.read()))

    def tagged(self, call: Call) -> Tuple[Any, Optional[str]]:
        """Returns the parsed JSON body and its ETag."""
        tagged: Tuple[Any, Optional[str]] = self._attempts(
            call, lambda exchange: (json.loads(exchange.read()), exchange.headers.get("etag"))
        )
        return tagged

    def send(self, call: Call) -> None:
        """Returns when the response is complete. Its body is ignored."""
        self._attempts(call, lambda exchange: exchange.read())

    def open(self, call: Call) -> Exchange:
        """Returns at the response headers. The caller reads the body and closes the exchange."""
        exchange: Exchange = self._attempts(call, None)
        return exchange

    def _attempts(self, call: Call, read: Optional[Callable[[Exchange], Any]]) -> Any:
        attempt = 0
        while True:
            try:
                return self._once(call, read, attempt > 0)
            except TaskServiceError as error:
                call.deadline.left()
                if call.stream is not None or attempt >= self.options.max_retries or not is_transient(error):
                    raise
                failure = error
            attempt += 1
            retry = Retry(failure, attempt, _delay_after(failure, attempt - 1))
            (self.options.on_retry or _warn)(retry)
            call.deadline.sleep(retry.delay)

    def _once(self, call: Call, read: Optional[Callable[[Exchange], Any]], is_repeated: bool) -> Any:
        headers = self._headers(call)
        timeout = min(call.stream_timeout or self.options.timeout + call.held_for, call.deadline.left())
        wire: Optional[_Wire] = None
        is_kept = False
        try:
            wire = self._connect(timeout)
            exchange = Exchange(wire, self._response(wire, call, headers))
            # An earlier attempt deleted it, and its response was lost.
            is_deleted = is_repeated and call.method == "DELETE" and exchange.status == 404
            if not 200 <= exchange.status < 300 and not is_deleted:
                raise from_response(exchange.status, exchange.read(), exchange.headers)
            if read is not None:
                return read(exchange)
            is_kept = True
            return exchange
        except socket.timeout as error:
            raise TimeoutError(f"No response within {timeout:g} s") from error
        except _SourceFailed as error:
            raise error.__cause__ or error from None
        except (OSError, http.client.HTTPException, json.JSONDecodeError, UnicodeDecodeError) as error:
            text = f"The service at {self.options.base_url} could not be reached or closed the connection: {error}"
            raise ConnectionError(text) from error
        finally:
            if wire is not None and not is_kept:
                wire.disconnect()

    def _headers(self, call: Call) -> Dict[str, str]:
        given = self.options.token
        token = (given if isinstance(given, str) else given()).strip()
        if not token.isascii() or not token.isprintable():
            raise ValueError("The token has characters that a header must not have")
        return {
            "host": self._authority,
            "accept": "application/json",
            **self.options.headers,
            **call.headers,
            "authorization": f"Bearer {token}",
            "connection": "close",
        }

    def _connect(self, timeout: float) -> _Wire:
        plain = socket.create_connection((self._host, self._port), timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._ssl is None:
                return _Wire(plain, timeout)
            return _Wire(self._ssl.wrap_socket(plain, server_hostname=self._host), timeout)
        except BaseException:
            plain.close()
            raise

    def _response(self, wire: _Wire, call: Call, headers: Dict[str, str]) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self._host, self._port)
        connection.sock = wire
        body = call.body if call.stream is None else _sent(call.stream, wire, call.stream_timeout)
        try:
            connection.request(call.method, self._prefix + call.path, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            # The service may have refused the body before all of it was sent.
            if call.stream is None:
                raise
        return connection.getresponse()


def _delay_after(error: TaskServiceError, attempt: int) -> float:
    given = retry_after_of(error.headers) if isinstance(error, ApiError) else None
    return backoff(attempt, 0.5, 8) if given is None or given > _max_retry_after else given


def _warn(retry: Retry) -> None:
    # A request that waits for long without a word looks as if it hangs.
    if retry.number > 1 and isinstance(retry.error, RateLimitError):
        text = "The task service refuses the request: %s Retry %d in %.0f s"
        logger.warning(text, retry.error, retry.number, retry.delay)
