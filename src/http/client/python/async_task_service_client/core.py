"""A processing core around a function: ``serve_core(answer, runs=4)``.

The function gets a ``Run`` in a thread of its own, or is a coroutine function. Every event of a run carries the run's
id, which is its fence: the service answers 409 to a run that is over, and the run is aborted.
"""

import asyncio
import concurrent.futures
import contextlib
import hashlib
import hmac
import inspect
import json
import logging
import os
import secrets
import signal as signals
import socket
import sys
import threading
import time
import urllib.request
from collections import OrderedDict
from datetime import datetime, timezone
from typing import Any, Callable, Coroutine, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union
from urllib.parse import unquote

from ._core_events import Events, Reporter, Signal
from ._core_outcome import (
    AssistantNotAvailable,
    Failure,
    InsufficientBalance,
    Interrupt,
    RunStopped,
    UsageMeter,
    failure_of,
    from_wire_state,
    to_turn,
    to_whole_turn,
    to_wire_state,
)
from ._core_server import Server
from .client import TaskServiceClient
from .files import FileContent
from .types import JsonObject, UploadedFile

__all__ = [
    "AssistantNotAvailable",
    "Core",
    "Failure",
    "InsufficientBalance",
    "Interrupt",
    "Run",
    "RunStopped",
    "ServedCore",
    "Signal",
    "create_core",
    "serve_core",
]

logger = logging.getLogger("async_task_service_client.core")

#: Ended runs that are remembered, so that a repeated dispatch does not begin one again.
_remembered_runs = 10_000
#: Seconds after which the service tries again.
_retry_after = {"full": 1, "draining": 5}
#: Seconds after a stop in which a function should have ended.
_stop_grace = 30


def _text_of(content: Any) -> str:
    """The text of a message, whose content is a text or parts."""
    if isinstance(content, str):
        return content
    parts = [part for part in content or [] if isinstance(part, dict) and part.get("type") == "text"]
    return "\n\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
        return True
    except (TypeError, ValueError):
        return False


def _conversation_of(body: JsonObject) -> List[JsonObject]:
    """The conversation up to the answer, as a later task continues it."""
    return [*(body.get("turns") or []), {"role": "user", "content": body.get("input") or []}]


def _model_messages_of(conversation: Sequence[JsonObject]) -> List[Dict[str, str]]:
    """Without calls of tools and their results: models refuse one without the other."""
    found = [{"role": one.get("role", ""), "content": _text_of(one.get("content"))} for one in conversation]
    return [one for one in found if one["role"] in ("system", "user", "assistant") and one["content"]]


class RunFiles:
    """The files of the task's user."""

    def __init__(self, base_url: str, token: str) -> None:
        self._base_url, self._token = base_url, token

    def _files(self) -> Any:
        return TaskServiceClient(self._base_url, self._token).files

    def upload(self, content: FileContent, **options: Any) -> UploadedFile:
        """Uploads a file; the result may be an item of a turn's output."""
        uploaded: UploadedFile = self._files().upload(content, **options)
        return uploaded

    def url(self, item: Union[str, Mapping[str, Any]]) -> str:
        """The download link of an input item, an uploaded file or a storage path."""
        url: str = self._files().url(item)
        return url

    def download(self, item: Union[str, Mapping[str, Any]]) -> Any:
        """The response with the content, an open file: ``run.files.download(item).read()``."""
        return urllib.request.urlopen(self.url(item), timeout=60)


class Run:
    """One run of a task: from its dispatch, or from the answers to its tool calls, to its end or the next tool calls."""

    def __init__(
        self, body: JsonObject, signal: Signal, reporter: Reporter, usage: UsageMeter, base_url: str
    ) -> None:
        resume = body.get("resume")
        self.task_id: str = body["task_id"]
        #: The same when a lost run is begun again.
        self.run_id: str = body["run_id"]
        self.assistant_id: int = body.get("assistant_id") or 0
        self.input: List[JsonObject] = body.get("input") or []
        #: The texts of the input, joined by blank lines.
        self.prompt = _text_of(self.input)
        #: The conversation so far, oldest first.
        self.turns: List[JsonObject] = body.get("turns") or []
        #: The texts of the conversation and of the input, as models take them.
        self.messages = _model_messages_of(_conversation_of(body))
        self.client_tools: List[JsonObject] = body.get("client_tools") or []
        self.llm_model_id: Optional[int] = body.get("llm_model_id")
        self.image_generator_id: Optional[int] = body.get("image_generator_id")
        self.user: JsonObject = body.get("user") or {"sub": ""}
        #: The user's own token, for calls on the user's behalf.
        self.user_token: str = body.get("user_token") or ""
        #: ``max_output_tokens`` and ``response_format``, when a client gave them.
        self.options: JsonObject = body.get("options") or {}
        self.deadline: datetime = _deadline_of(body) or datetime.max.replace(tzinfo=timezone.utc)
        #: Aborted by a stop, by the deadline, and when the process gives the run up.
        self.signal = signal
        #: Whether the run goes on after tool calls.
        self.resumed = resume is not None
        #: The answers to the calls of the interrupt; empty unless resumed.
        self.results: List[JsonObject] = (resume or {}).get("results") or []
        #: The state of the interrupt, as it was left; None unless resumed.
        self.state: Any = from_wire_state((resume or {}).get("state"))[0]
        self.files = RunFiles(base_url, self.user_token)
        self._reporter = reporter
        self._usage = usage

    def text(self, chunk: str) -> None:
        """Adds to the text that the user sees while the run goes on. Never waits; raises RunStopped after a stop."""
        self._reporter.text(str(chunk))

    def progress(self, turn: Union[str, JsonObject]) -> None:
        """Replaces what the user sees of the result so far: a text or a turn.

        Never waits; of several in a second the last is sent. Raises RunStopped after a stop.
        """
        self._reporter.replace(to_turn(turn))

    def usage(self, report: Any = None, **fields: Any) -> None:
        """Adds what was used: ``usage(model=…, input_tokens=…, output_tokens=…)``, or the usage of a provider's library."""
        for given in (report, fields):
            if given:
                self._usage.add(given)

    def interrupt(
        self, calls: Sequence[Mapping[str, Any]], state: Any = None, turn: Union[str, JsonObject, None] = None
    ) -> Interrupt:
        """Return it to wait for answers to client tools: ``return run.interrupt(calls=[…], state=…)``."""
        return Interrupt(calls, state, None if turn is None else to_turn(turn))


#: Returns a text, a turn, any other JSON, or an interrupt. Without a result the text of ``run.text`` is the result.
Work = Callable[[Run], Any]


class Response(NamedTuple):
    status: int
    body: JsonObject
    headers: Mapping[str, str] = {}


def _deadline_of(body: JsonObject) -> Optional[datetime]:
    text = body.get("deadline_at")
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None


def _tokens_of(text: Optional[str]) -> List[str]:
    return [token.strip() for token in (text or "").split(",") if token.strip()]


def _problems_of(body: Any) -> Dict[str, List[str]]:
    """The fields that a run cannot go without, with what is wrong."""
    if not isinstance(body, dict):
        return {"body": ["Must be a JSON object"]}
    names = ("task_id", "run_id", "events_url")
    problems = {
        name: ["Must be a text"] for name in names if not isinstance(body.get(name), str) or not body.get(name)
    }
    if "events_url" not in problems and not body["events_url"].startswith(("http://", "https://")):
        problems["events_url"] = ["Must be an http or https URL"]
    for name in ("input", "turns", "client_tools"):
        if not isinstance(body.get(name, []), list):
            problems[name] = ["Must be an array"]
    if not isinstance(body.get("resume"), (dict, type(None))):
        problems["resume"] = ["Must be an object"]
    return problems


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    """A loop is left by ``sys.exit()`` and Ctrl-C's exception in any function on it: the others go on."""
    while not loop.is_closed():
        try:
            loop.run_forever()
        except BaseException:
            logger.exception("A function on the loop of all runs left it")


class _Entry:
    def __init__(self) -> None:
        self.signal = Signal()
        #: Set when the run no longer takes a place.
        self.ended = threading.Event()


class Core:
    """Admits, executes and stops runs. ``handle`` answers the calls of the service; use ``create_core``."""

    def __init__(
        self,
        work: Work,
        *,
        runs: int,
        tokens: Sequence[str],
        event_token: str,
        service_url: Optional[str],
        silence_seconds: Optional[float],
        drain_seconds: float,
    ) -> None:
        self._work = work
        self._runs = runs
        self._digests = [hashlib.sha256(token.encode()).digest() for token in tokens]
        self._events = Events(event_token)
        self._service_url = service_url
        self._silence = silence_seconds
        self._drain_seconds = drain_seconds
        self._lock = threading.Lock()
        self._entries: Dict[str, _Entry] = {}
        self._ended: "OrderedDict[str, None]" = OrderedDict()
        self._is_draining = False
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    @property
    def runs(self) -> int:
        """Runs at a time."""
        return self._runs

    def authorizes(self, authorization: str) -> bool:
        """True if a header has one of the tokens, in a time that does not depend on how much of it is right."""
        scheme, _, token = authorization.partition(" ")
        given = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]
        return scheme.lower() == "bearer" and any(matches)

    def handle(
        self, method: str, path: str, authorization: str, read: Callable[[], Optional[bytes]]
    ) -> Response:
        """Answers a call. ``read`` returns the body, or None when it is too long; it is called for a known token only."""
        path = path.split("?", 1)[0]
        if path == "/healthz":
            status = "draining" if self._is_draining else "ok"
            return Response(200, {"status": status, "active": len(self._entries), "runs": self._runs})
        parts = path.split("/")
        is_stop = len(parts) == 4 and parts[1] == "runs" and parts[2] != "" and parts[3] == "stop"
        if path != "/runs" and not is_stop:
            return Response(404, {"message": "There is no such path"})
        if method != "POST":
            return Response(405, {"message": "Only POST is allowed"}, {"Allow": "POST"})
        if not self.authorizes(authorization):
            return Response(401, {"message": "The token is not CORE_TOKEN of this core"}, {"WWW-Authenticate": "Bearer"})
        text = read()
        if text is None:
            return Response(413, {"message": "The body is too long"})
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = None
        return self._stop(unquote(parts[2]), body) if is_stop else self._accept(body)

    def close(self, drain_seconds: Optional[float] = None) -> None:
        """Takes no more runs, waits for those in progress, and aborts what is left, which is begun again elsewhere."""
        self._is_draining = True
        self._wait(self._drain_seconds if drain_seconds is None else drain_seconds)
        with self._lock:
            left = list(self._entries.values())
        if left:
            logger.info("%d runs are given up: the service begins them again", len(left))
        for entry in left:
            entry.signal._abort("shutdown")
        self._wait(1)
        self._events.close()

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        with self._lock:
            entries = list(self._entries.values())
        for entry in entries:
            entry.ended.wait(max(0.0, end - time.monotonic()))

    def _accept(self, body: Any) -> Response:
        errors = _problems_of(body)
        if errors:
            field, messages = next(iter(errors.items()))
            return Response(422, {"message": f"{field}: {messages[0]}", "errors": errors})
        run_id = body["run_id"]
        with self._lock:
            if run_id not in self._entries and run_id not in self._ended:
                if self._is_draining:
                    headers = {"Retry-After": str(_retry_after["draining"])}
                    return Response(429, {"message": "The core is stopping"}, headers)
                if len(self._entries) >= self._runs:
                    message = f"The core has {self._runs} runs, as many as it takes"
                    return Response(429, {"message": message}, {"Retry-After": str(_retry_after["full"])})
                entry = self._entries[run_id] = _Entry()
                threading.Thread(target=self._run, args=(body, entry), name=f"run {run_id}", daemon=True).start()
        return Response(202, {} if self._silence is None else {"silence_seconds": self._silence})

    def _stop(self, run_id: str, body: Any) -> Response:
        entry = self._entries.get(run_id)
        if entry is None:
            return Response(404, {"message": "There is no such run"})
        reason = body.get("reason") if isinstance(body, dict) else None
        entry.signal._abort(reason if isinstance(reason, str) else "stopped")
        return Response(202, {})

    def _run(self, body: JsonObject, entry: _Entry) -> None:
        """Executes a run, which holds its place until the function has ended, also when it was stopped."""
        run_id, signal = body["run_id"], entry.signal
        deadline = _deadline_of(body)
        left = 0.0 if deadline is None or deadline.tzinfo is None else deadline.timestamp() - time.time()
        timers = []
        # The service ends a task itself. A deadline in the past is one of another clock.
        if 0 < left < threading.TIMEOUT_MAX:
            timers.append(threading.Timer(left, signal._abort, ["deadline"]))

        def warn() -> None:
            text = "The function of run %s goes on although it was stopped: it should end with run.signal"
            logger.error(text, run_id)

        def watch() -> None:
            timers.append(threading.Timer(_stop_grace, warn))
            timers[-1].daemon = True
            timers[-1].start()

        for timer in timers:
            timer.daemon = True
            timer.start()
        signal.on_abort(watch)
        try:
            self._execute(body, signal)
        except Exception:
            logger.exception("Run %s of task %s could not be reported", run_id, body["task_id"])
        finally:
            for timer in timers:
                timer.cancel()
            with self._lock:
                del self._entries[run_id]
                self._ended[run_id] = None
                if len(self._ended) > _remembered_runs:
                    self._ended.popitem(last=False)
            entry.ended.set()

    def _execute(self, body: JsonObject, signal: Signal) -> None:
        base_url = self._service_url or body["events_url"].rpartition("/internal/core/events")[0]
        url = body["events_url"] if self._service_url is None else f"{self._service_url}/internal/core/events"
        sign_after = None if self._silence is None else self._silence / 3
        _, usage = from_wire_state((body.get("resume") or {}).get("state"))
        conversation = _conversation_of(body)

        def whole_turn_of(turn: JsonObject) -> JsonObject:
            return to_whole_turn(turn, conversation, usage)

        reporter = Reporter(self._events, url, body["task_id"], body["run_id"], signal, sign_after, whole_turn_of)
        reporter.send({"type": "processing"})
        if signal.aborted:
            return
        reporter.begin()
        run = Run(body, signal, reporter, usage, base_url)
        try:
            final = self._final(self._call(run), reporter.turn, whole_turn_of, usage)
        except BaseException as error:
            # An error of a stopped function is the stop, however the function has wrapped it.
            if signal.aborted:
                return
            final = failure_of(error)
            if final["code"] == "internal" and "message" not in final:
                logger.error("Run %s of task %s failed", run.run_id, run.task_id, exc_info=error)
            turn = reporter.turn
            if turn is not None and _is_json(turn):
                final["turn"] = turn
        reporter.end()
        if not signal.aborted and reporter.send(final) == "invalid":
            reporter.send({"type": "failed", "code": "internal"})

    def _final(
        self,
        result: Any,
        written: Optional[JsonObject],
        whole_turn_of: Callable[[JsonObject], JsonObject],
        usage: UsageMeter,
    ) -> JsonObject:
        if isinstance(result, Interrupt):
            turn = written if result.turn is None else whole_turn_of(result.turn)
            event = {
                "type": "interrupted",
                "tool_calls": result.calls,
                "state": to_wire_state(result.state, usage),
                **({} if turn is None else {"turn": turn}),
            }
        elif result is None and written is not None:
            event = {"type": "completed", "turn": written}
        else:
            event = {"type": "completed", "turn": whole_turn_of(to_turn("" if result is None else result))}
        json.dumps(event, allow_nan=False)  # A value that is no JSON is an error of the function.
        return event

    def _call(self, run: Run) -> Any:
        result = self._work(run)
        if not inspect.isawaitable(result):
            return result
        loop = self._event_loop()
        outcome: "concurrent.futures.Future[Any]" = concurrent.futures.Future()

        async def follow() -> None:
            task = asyncio.ensure_future(result)
            run.signal.on_abort(lambda: loop.call_soon_threadsafe(task.cancel))
            try:
                outcome.set_result(await task)
            except BaseException as error:
                outcome.set_exception(error)

        asyncio.run_coroutine_threadsafe(follow(), loop)
        return outcome.result()

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of all coroutine functions, in a thread of its own."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run_forever, args=(self._loop,), name="core loop", daemon=True).start()
            return self._loop


def create_core(
    run: Work,
    *,
    runs: int = 16,
    token: Union[str, Sequence[str], None] = None,
    event_token: Optional[str] = None,
    service_url: Optional[str] = None,
    replicated: bool = False,
    silence_seconds: Optional[float] = 60,
    drain_seconds: float = 60,
) -> Core:
    """A processing core around a function.

    ``runs`` at a time; more wait in the service's queue. ``token`` is what the service sends as CORE_TOKEN, several
    during a rotation; by default the environment's CORE_TOKEN, a comma list. ``event_token`` is that of the runs'
    events; by default the first of the environment's CORE_EVENT_TOKENS. With ``service_url`` events go there and
    nowhere else, by default to the ``events_url`` of each run.

    ``silence_seconds`` (10 to 3600) is the silence after which the service begins a run again with the same ``run_id``,
    which is right while one process serves the URL. ``replicated=True`` says that several do, and that the function is
    idempotent by ``run_id`` over all of them; ``None`` declares no silence, for several that are not.
    """
    if not callable(run):
        raise TypeError("run must be a function")
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
        raise ValueError(f"runs must be an integer from 1, not {runs!r}")
    if silence_seconds is not None and not 10 <= silence_seconds <= 3600:
        raise ValueError(f"silence_seconds must be 10 to 3600 or None, not {silence_seconds!r}")
    if not drain_seconds >= 0:
        raise ValueError(f"drain_seconds must be a number from 0, not {drain_seconds!r}")
    given = os.environ.get("CORE_TOKEN") if token is None else token
    tokens = [one for one in given if one] if given is not None and not isinstance(given, str) else _tokens_of(given)
    if not tokens:
        raise ValueError("CORE_TOKEN is not set: it has to be one of CORE_TOKEN of the service (or pass token)")
    first = event_token or next(iter(_tokens_of(os.environ.get("CORE_EVENT_TOKENS"))), "")
    if not first:
        raise ValueError("CORE_EVENT_TOKENS is not set: its first token is sent with events (or pass event_token)")
    if service_url is not None and not service_url.startswith(("http://", "https://")):
        raise ValueError("service_url must be an http or https URL")
    return Core(
        run,
        runs=runs,
        tokens=tokens,
        event_token=first,
        service_url=None if service_url is None else service_url.rstrip("/"),
        silence_seconds=silence_seconds,
        drain_seconds=drain_seconds,
    )


class ServedCore:
    """A core that listens."""

    def __init__(self, core: Core, server: Server, host: str) -> None:
        self._core, self._server = core, server
        self.port: int = server.server_address[1]
        shown = "127.0.0.1" if host in ("0.0.0.0", "::", "") else f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.port}"

    def close(self, drain_seconds: Optional[float] = None) -> None:
        """Drains, and closes the server."""
        self._core.close(drain_seconds)
        self._server.shutdown()
        self._server.server_close()


def _print(line: str) -> None:
    print(line, flush=True)


def serve_core(
    run: Union[Work, Callable[[Run], Coroutine[Any, Any, Any]]],
    *,
    port: Optional[int] = None,
    host: Optional[str] = None,
    block: bool = True,
    token: Union[str, Sequence[str], None] = None,
    event_token: Optional[str] = None,
    **options: Any,
) -> ServedCore:
    """Serves a core until SIGTERM or SIGINT, which drain it. With ``block=False`` it returns when the core listens.

    ``port`` is by default the environment's PORT, or 3001, ``host`` HOST or 127.0.0.1; in a container 0.0.0.0. The
    other options are those of ``create_core``. Outside of production (NODE_ENV or ENVIRONMENT is ``production``)
    missing tokens are generated, and printed for the service.
    """
    env = os.environ
    is_production = "production" in (env.get("NODE_ENV"), env.get("ENVIRONMENT"))
    generated = None
    if not is_production:
        known = token or env.get("CORE_TOKEN")
        events = event_token or env.get("CORE_EVENT_TOKENS")
        if not known or not events:
            token, event_token = known or secrets.token_hex(16), events or secrets.token_hex(16)
            generated = (token if isinstance(token, str) else token[0], event_token.split(",")[0].strip())
            event_token = generated[1]
    core = create_core(run, token=token, event_token=event_token, **options)
    chosen = host or env.get("HOST") or "127.0.0.1"
    number = int(env.get("PORT") or 3001) if port is None else port
    if not logging.getLogger().handlers and not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    server = Server((chosen, number), core.handle)
    end = _End() if block else None
    threading.Thread(target=server.serve_forever, name="core server", daemon=True).start()
    served = ServedCore(core, server, chosen)
    _print(f"The core listens on {served.url}, for {core.runs} runs at a time. Settings of the service:")
    if generated is None:
        _print(f"  CORE_URL={served.url}, and CORE_TOKEN and CORE_EVENT_TOKENS as here")
    else:
        _print(f"  CORE_URL={served.url} CORE_TOKEN={generated[0]} CORE_EVENT_TOKENS={generated[1]}")
    if end is not None:
        end.wait()
        _print("The core takes no more runs and waits for those in progress")
        served.close()
    return served


class _End:
    """SIGTERM and SIGINT from its creation on, if that is in the main thread. A second one ends the process."""

    def __init__(self) -> None:
        self._is_signaled = False
        self._received, self._sent = socket.socketpair()
        self._received.setblocking(True)  # Whatever socket.setdefaulttimeout says.
        if threading.current_thread() is threading.main_thread():
            self._sent.setblocking(False)
            # A wait for a lock could miss a signal that comes just before it.
            self._before = signals.set_wakeup_fd(self._sent.fileno(), warn_on_full_buffer=False)
            signals.signal(signals.SIGTERM, self._on_signal)
            signals.signal(signals.SIGINT, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        if self._is_signaled:
            os._exit(1)
        self._is_signaled = True

    def wait(self) -> None:
        while not self._is_signaled:
            self._received.recv(64)
        with contextlib.suppress(OSError, ValueError):  # The one before may be closed.
            signals.set_wakeup_fd(self._before)
        self._sent.close()
        self._received.close()
