"""The events of a core's runs, each sent to the service until it is answered."""

import http.client
import json
import logging
import secrets
import ssl
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union
from urllib.parse import urlsplit

from ._core_outcome import RunStopped
from ._deadline import backoff
from .types import JsonObject

logger = logging.getLogger("async_task_service_client.core")

#: Seconds.
_attempt_timeout = 15
_max_retry_after = 30.0
#: Between the events of a run, and between requests with those of several.
_append_interval = 0.04
_turn_interval = 1.0
_end_grace = 0.25
#: Characters of one append: 64 KiB of text as UTF-8, at most.
_append_length = 16_000
#: Bytes of the events in one request.
_batch_length = 1024 * 1024 - 64
#: Connections that are kept for the next event.
_idle_connections = 32


def _call(callback: Callable[[], object]) -> None:
    try:
        callback()
    except BaseException:  # sys.exit() included: others have to be called.
        logger.exception("A function for the end of a run failed")


class Signal:
    """Says that a run has to end, and why."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: List[Callable[[], object]] = []
        #: None before.
        self.reason: Optional[RunStopped] = None

    @property
    def aborted(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: Optional[float] = None) -> bool:
        """Waits like ``time.sleep``; returns earlier, and True, when the run has to end."""
        return self._event.wait(seconds)

    def raise_if_aborted(self) -> None:
        if self.reason is not None:
            raise RunStopped(self.reason.reason)  # One of its own: it keeps where it was raised.

    def on_abort(self, callback: Callable[[], object]) -> None:
        """Calls a function when the run has to end; immediately if it has. What it raises is logged."""
        with self._lock:
            if not self.aborted:
                return self._callbacks.append(callback)
        _call(callback)

    def _abort(self, reason: str) -> None:
        with self._lock:
            if self.aborted:
                return
            self.reason = RunStopped(reason)
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            _call(callback)


class Answer(NamedTuple):
    #: ``unwanted`` means that the run is over, ``invalid`` that the service cannot read the event.
    verdict: str
    body: Mapping[str, Any]


def _verdict_of(status: int) -> Optional[str]:
    """None for an answer after which the same event is sent again."""
    if 200 <= status < 300:
        return "accepted"
    if status in (404, 409, 410):
        return "unwanted"
    return None if status >= 500 or status < 400 or status in (401, 403, 408, 425, 429) else "invalid"


def _parse(body: bytes) -> Mapping[str, Any]:
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


class _Failed(NamedTuple):
    """The event has to be sent again."""

    retry_after: float = 0.0


def _result_of(result: Any) -> Union[Answer, _Failed]:
    """An error has the status that its answer would have had alone."""
    body = result if isinstance(result, dict) else {}
    status = body.get("status")
    if "applied" in body:
        return Answer("accepted", body)
    verdict = _verdict_of(status) if isinstance(status, int) else None
    return _Failed() if verdict is None else Answer(verdict, body)


class _Gathered:
    """An event that waits for those of other runs."""

    def __init__(self, url: str, body: bytes) -> None:
        self.url, self.body = url, body
        self.answer: Union[Answer, _Failed] = _Failed()
        self.is_answered = threading.Event()


class Events:
    """Sends events on connections that are kept alive. Threads share it."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._lock = threading.Lock()
        self._idle: Dict[Tuple[str, str], List[http.client.HTTPConnection]] = {}
        self._is_closed = False
        self._ssl: Optional[ssl.SSLContext] = None
        #: Whether the last attempt failed: an outage is logged once.
        self._is_failing = False
        #: The service that has live text, which takes the events of several runs in one request.
        self._live_url: Optional[str] = None
        self._gathered: List[_Gathered] = []
        self._gathered_at = -1e9

    def is_gathering(self, url: str) -> bool:
        """True if events of several runs go to this URL in one request."""
        return url == self._live_url

    def send(self, url: str, event: JsonObject, stopped: threading.Event, gathers: bool = False) -> Optional[Answer]:
        """Sends an event until it is answered; None when ``stopped`` is set before.

        With ``gathers`` it may wait for those of other runs, for 40 ms.
        """
        body = json.dumps(event, allow_nan=False, separators=(",", ":")).encode()
        attempt = 0
        while not stopped.is_set():
            is_gathered = gathers and self.is_gathering(url) and len(body) < _batch_length
            if gathers and not is_gathered:
                self._gathered_at = time.monotonic()
            answer = self._gather(url, body) if is_gathered else self._attempt(url, body)
            if isinstance(answer, Answer):
                return answer
            stopped.wait(max(backoff(attempt, 0.1, 5), min(answer.retry_after, _max_retry_after)))
            attempt += 1
        return None

    def _gather(self, url: str, body: bytes) -> Union[Answer, _Failed]:
        """The first of those that wait sends all: each run has one event in flight, so a request may overtake another."""
        own = _Gathered(url, body)
        with self._lock:
            self._gathered.append(own)
            is_first = len(self._gathered) == 1
            wait = self._gathered_at + _append_interval - time.monotonic()
        if is_first:
            time.sleep(max(0.0, wait))
            with self._lock:
                gathered, self._gathered = self._gathered, []
                self._gathered_at = time.monotonic()
            batch: List[_Gathered] = []
            try:
                for one in gathered:
                    length = sum(len(other.body) + 1 for other in batch)
                    if batch and (one.url != batch[0].url or length + len(one.body) > _batch_length):
                        self._send_batch(batch)
                        batch = []
                    batch.append(one)
                self._send_batch(batch)
            finally:  # Whatever ends a batch, the threads of the others must not wait for ever.
                for one in gathered:
                    one.is_answered.set()
        own.is_answered.wait()
        return own.answer

    def _send_batch(self, batch: Sequence[_Gathered]) -> None:
        url = batch[0].url
        try:
            if len(batch) == 1:
                batch[0].answer = self._attempt(url, batch[0].body)
                return
            answer = self._attempt(url, b'{"events":[%b]}' % b",".join(one.body for one in batch))
            results = answer.body.get("results") if isinstance(answer, Answer) else [answer] * len(batch)
            if not isinstance(results, list):
                self._live_url = None  # Another version answers at this URL by now.
                return
            for one, result in zip(batch, results):
                one.answer = result if isinstance(result, _Failed) else _result_of(result)
        finally:
            for one in batch:
                one.is_answered.set()

    def _attempt(self, url: str, body: bytes) -> Union[Answer, _Failed]:
        try:
            status, given, text = self._post(url, body)
        except (OSError, http.client.HTTPException) as error:
            self._failed(url, error, False)
            return _Failed()
        verdict = _verdict_of(status)
        if verdict is None:
            self._failed(url, f"status {status}", status in (401, 403))
            return _Failed(float(given) if given.isascii() and given.isdigit() else 0.0)
        self._succeeded(url)
        if verdict == "invalid":
            logger.error("The service refuses an event: %d %s", status, text.decode("utf-8", "replace"))
        answer = Answer(verdict, _parse(text))
        if "next" in answer.body:
            self._live_url = url
        return answer

    def close(self) -> None:
        """Keeps no connection any more."""
        with self._lock:
            self._is_closed = True
            for connections in self._idle.values():
                while connections:
                    connections.pop().close()

    def _connect(self, scheme: str, authority: str) -> http.client.HTTPConnection:
        if scheme == "https":
            if self._ssl is None:
                self._ssl = ssl.create_default_context()
            return http.client.HTTPSConnection(authority, timeout=_attempt_timeout, context=self._ssl)
        return http.client.HTTPConnection(authority, timeout=_attempt_timeout)

    def _post(self, url: str, body: bytes) -> Tuple[int, str, bytes]:
        parts = urlsplit(url)
        key = (parts.scheme, parts.netloc.rpartition("@")[2])
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        while True:
            with self._lock:
                kept = self._idle.get(key)
                connection, is_reused = (kept.pop(), True) if kept else (self._connect(*key), False)
            try:
                connection.request("POST", parts.path, body, headers)
                response = connection.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                # The service may have closed a connection that was not in use.
                if is_reused:
                    continue
                raise
            if response.will_close:
                connection.close()
            else:
                with self._lock:
                    kept = self._idle.setdefault(key, [])
                    if len(kept) < _idle_connections and not self._is_closed:
                        kept.append(connection)
                    else:
                        connection.close()
            return response.status, response.headers.get("retry-after", ""), answer

    def _succeeded(self, url: str) -> None:
        if self._is_failing:
            self._is_failing = False
            logger.info("The service at %s answers events again", urlsplit(url).netloc)

    def _failed(self, url: str, problem: object, is_refused: bool) -> None:
        if not self._is_failing:
            self._is_failing = True
            advice = ": CORE_EVENT_TOKENS, or else INTERNAL_TOKENS, has to be the same here and there"
            text = "Events do not reach %s and are repeated%s: %s"
            logger.error(text, urlsplit(url).netloc, advice if is_refused else "", problem)


class Reporter:
    """The events of one run.

    Text goes as appends to services that have live text, which their answers show by the field ``next``: ``{"type":
    "progress", "append": {"index": …, "text": …}}``, where ``index`` numbers the appends of the run from 0 and ``next``
    is the index that the service expects. After a gap, and after ``"next": null`` of a node that knows nothing of the
    run, a whole turn follows with ``next_append``. Other services ignore the field, and take the first append for a
    sign of life. Every service gets the whole turn too, once a second at most: it is what is stored.
    """

    def __init__(
        self,
        events: Events,
        url: str,
        task_id: str,
        run_id: str,
        signal: Signal,
        sign_after: Optional[float],
        whole_turn_of: Callable[[JsonObject], JsonObject],
    ) -> None:
        self._events, self._url, self._signal = events, url, signal
        #: A turn as it is stored.
        self._whole_turn_of = whole_turn_of
        self._ids = {"task_id": task_id, "run_id": run_id}
        # Another process may have numbered events of this run.
        self._prefix, self._number = secrets.token_hex(6), 0
        self._sign_after = sign_after
        self._changed = threading.Condition()
        #: Set at the end of the run, or of its progress.
        self._stopped = threading.Event()
        self._base: Optional[JsonObject] = None
        self._text = self._unsent = ""
        self._index = 0
        #: Whether the service has live text; None until it has answered an append.
        self._is_live: Optional[bool] = None
        self._needs_turn = self._has_new_turn = False
        self._turn_at = -1e9
        self._sent_at = time.monotonic()
        self._thread: Optional[threading.Thread] = None
        self._is_over = threading.Event()
        signal.on_abort(self._stop)
        signal.on_abort(self._is_over.set)

    def send(self, event: JsonObject) -> Optional[str]:
        """Sends an event until it is answered; None when the run was stopped before."""
        answer = self._send(event, self._is_over)
        return None if answer is None else answer.verdict

    def _send(self, fields: JsonObject, stopped: threading.Event, gathers: bool = False) -> Optional[Answer]:
        with self._changed:
            self._number += 1
            event_id = f"{self._prefix}-{self._number}"
        answer = self._events.send(self._url, {**self._ids, "event_id": event_id, **fields}, stopped, gathers)
        if answer is not None and answer.verdict == "unwanted":
            self._signal._abort("superseded")
        return answer

    def begin(self) -> None:
        """The run has been accepted."""
        self._sent_at = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="core progress", daemon=True)
        self._thread.start()

    def text(self, chunk: str) -> None:
        self._signal.raise_if_aborted()
        with self._changed:
            if chunk == "" or self._stopped.is_set():
                return
            self._text += chunk
            if self._is_live is not False:
                self._unsent += chunk
            self._has_new_turn = True
            self._changed.notify()

    def replace(self, turn: JsonObject) -> None:
        self._signal.raise_if_aborted()
        with self._changed:
            self._base, self._text, self._unsent = turn, "", ""
            self._has_new_turn = self._needs_turn = True
            self._changed.notify()

    @property
    def turn(self) -> Optional[JsonObject]:
        """The result so far; None if there is none."""
        base, text = self._base, self._text
        if text == "":
            return None if base is None else self._whole_turn_of(base)
        turn = {} if base is None else dict(base)
        output = list(turn.get("output") or [])
        last = output[-1] if output else {}
        before = output.pop()["text"] if last.get("type") == "text" else ""
        turn["output"] = [*output, {"type": "text", "text": before + text}]
        if turn.get("messages") is not None:
            turn["messages"] = [*turn["messages"], {"role": "assistant", "content": text}]
        return self._whole_turn_of(turn)

    def end(self) -> None:
        """Ends with the event in flight, which gets a moment: the final event must not wait for an outage."""
        self._stop()
        if self._thread is not None:
            self._thread.join(_end_grace)

    def _stop(self) -> None:
        self._stopped.set()
        with self._changed:
            self._changed.notify()

    def _dues(self) -> Tuple[float, float, float]:
        """The moments at which the next turn, append and sign are due."""
        never = 1e18
        interval = 0 if self._events.is_gathering(self._url) else _append_interval
        # An append shows whether the service has live text, so the first text goes as one.
        has_turn = self._needs_turn or (self._has_new_turn and (self._is_live is not None or self._unsent == ""))
        is_append = self._unsent != "" and self._is_live is not False and not self._needs_turn
        return (
            self._turn_at + _turn_interval if has_turn else never,
            self._sent_at + interval if is_append else never,
            never if self._sign_after is None else self._sent_at + self._sign_after,
        )

    def _take(self) -> Optional[JsonObject]:
        """Waits until an event is due, and returns its fields; None at the end."""
        with self._changed:
            while not self._stopped.is_set():
                turn, append, sign = self._dues()
                now = time.monotonic()
                if min(turn, append, sign) > now:
                    self._changed.wait(min(turn - now, append - now, sign - now, 3600))
                    continue
                self._sent_at = now
                if turn <= now:
                    self._has_new_turn = self._needs_turn = False
                    self._turn_at = now
                    # The turn has the text that was to be appended.
                    self._unsent = ""
                    next_append = {"next_append": self._index} if self._index > 0 else {}
                    return {"turn": self.turn, **next_append}
                if append <= now:
                    text, self._unsent = self._unsent[:_append_length], self._unsent[_append_length:]
                    self._index += 1
                    return {"append": {"index": self._index - 1, "text": text}}
                return {}
            return None

    def _note(self, answer: Answer) -> None:
        if answer.verdict != "accepted":
            return
        with self._changed:
            was_known = self._is_live is not None
            self._is_live = "next" in answer.body
            if not self._is_live:
                self._unsent = ""
            elif answer.body["next"] != self._index:
                self._needs_turn = True
                self._turn_at = -1e9
            elif not was_known:
                # The first text need not be stored at once where it is live.
                self._turn_at = time.monotonic()

    def _work(self) -> None:
        while True:
            fields = self._take()
            if fields is None:
                return
            try:
                answer = self._send({"type": "progress", **fields}, self._stopped, gathers=True)
            except (TypeError, ValueError):
                continue  # No JSON: the function learns it at the end. The signs of life go on.
            if answer is not None and ("append" in fields or "next_append" in fields):
                self._note(answer)
