"""``client.tasks``: the task endpoints, and ``wait_for``, ``run`` and ``events`` on top of them."""

import json
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Literal, Mapping, Optional, Sequence, Tuple, Union, cast
from urllib.parse import quote, urlencode

from . import _event_stream
from ._deadline import Deadline, Outage, backoff
from ._pages import Page
from ._transport import Call, Transport, idempotent, json_call
from .errors import ApiError, ConflictError, TaskServiceError
from .tools import Tools, declare, execute
from .types import (
    CanceledTask,
    CanceledTasks,
    CreatedTask,
    CreateTask,
    Delivery,
    GetTaskInclude,
    ListTasksInclude,
    RerunTask,
    ResumedTask,
    Task,
    TaskEvent,
    TaskStatus,
    TaskSummary,
    ToolResult,
)

#: Seconds of one long poll: shorter than the idle timeouts of common proxies.
_wait_seconds = 25
#: Seconds between polls when the long poll is not held.
_poll_interval = 1
#: Seconds without a byte after which an event stream is broken. The service sends some every 15 s.
_max_silence = 60

OnText = Callable[[str, Optional[str]], object]


def is_terminal(task: Mapping[str, Any]) -> bool:
    """True if the status of a task or of an event is final."""
    return task["status"] in ("completed", "failed", "canceled")


def _is_awaited(task: Mapping[str, Any], pending_tag: Optional[str]) -> bool:
    is_begun = pending_tag is not None and task["status"] != "pending"
    return is_terminal(task) or task["status"] == "interrupted" or is_begun


def output_text(task: Mapping[str, Any]) -> str:
    """The text of a task's output: its text items, separated by blank lines. Empty without any."""
    turn = task.get("turn")
    output = turn.get("output") if isinstance(turn, dict) else None
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    texts = [item.get("text") for item in items if item.get("type") == "text"]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _path(uuid: str, rest: str = "") -> str:
    return f"/api/tasks/{quote(uuid, safe='')}{rest}"


class _TextChanges:
    """Reports a text when it differs from the previous one."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._last = ""

    def report(self, text: Optional[str]) -> None:
        if text is None or text in ("", self._last):
            return
        delta = text[len(self._last) :] if text.startswith(self._last) else None
        self._last = text
        self._on_text(text, delta)


class _LiveText:
    """The text of a task, as the events of its stream change it. Offsets count UTF-16 units, as in JavaScript."""

    def __init__(self) -> None:
        self.text = ""
        self._beginning = 0
        self._units = 0

    def take(self, event: Mapping[str, Any]) -> Tuple[str, bool]:
        """Returns what the event adds, and whether the text is another one. What is known already adds nothing."""
        offset, text = event["offset"], event["text"]
        if event.get("replaced") is True or not self._beginning <= offset <= self._beginning + self._units:
            before = self.text
            is_same = offset == self._beginning and text.startswith(before)
            self.text, self._beginning, self._units = text, offset, _units(text)
            return (text[len(before) :], False) if is_same else (text, before != "")
        added = _behind(text, self._beginning + self._units - offset)
        # A pair of surrogates may come in two parts.
        self.text = _join(self.text, added)
        self._units += _units(added)
        return added, False


def _units(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)


def _behind(text: str, units: int) -> str:
    return text if units == 0 else text.encode("utf-16-le", "surrogatepass")[2 * units :].decode("utf-16-le", "surrogatepass")


def _join(first: str, second: str) -> str:
    joined = first + second
    if first[-1:] < "\ud800" or first[-1:] > "\udbff":
        return joined
    return joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class TasksResource:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, body: CreateTask, *, idempotency_key: Optional[str] = None) -> CreatedTask:
        created: CreatedTask = self._transport.json(idempotent("/api/tasks", body, idempotency_key))
        return created

    def rerun(
        self, uuid: str, overrides: Optional[RerunTask] = None, *, idempotency_key: Optional[str] = None
    ) -> CreatedTask:
        """Creates a task with the request of another one; ``overrides`` replace fields of it."""
        call = idempotent(_path(uuid, "/rerun"), overrides or {}, idempotency_key)
        created: CreatedTask = self._transport.json(call)
        return created

    def get(self, uuid: str, *, include: Sequence[GetTaskInclude] = ()) -> Task:
        """``include`` has the fields to add to the task."""
        path = _path(uuid, f"?include={','.join(include)}" if include else "")
        task: Task = self._transport.json(Call("GET", path))
        return task

    def list(
        self,
        *,
        status: Union[TaskStatus, Sequence[TaskStatus], None] = None,
        page: int = 1,
        per_page: Optional[int] = None,
        metadata: Optional[Mapping[str, str]] = None,
        include: Sequence[ListTasksInclude] = (),
        q: Optional[str] = None,
        schedule: Optional[str] = None,
        assistant_id: Optional[int] = None,
        created_from: Optional[str] = None,
        created_to: Optional[str] = None,
    ) -> "Page[TaskSummary]":
        """The caller's tasks, newest first: one page of 1 to 100, or all of them when it is iterated.

        ``metadata`` finds tasks with these pairs, at most 3, and ``q`` those with this text in their id, metadata or
        excerpt; ``schedule`` finds the tasks of a schedule, and ``created_from`` and ``created_to`` (ISO 8601) those
        of a time.
        """
        query: Dict[str, object] = {
            "per_page": per_page,
            "q": q,
            "schedule": schedule,
            "assistant_id": assistant_id,
            "from": created_from,
            "to": created_to,
        }
        if status is not None:
            query["status"] = status if isinstance(status, str) else ",".join(status)
        if include:
            query["include"] = ",".join(include)
        query.update((f"metadata[{key}]", value) for key, value in (metadata or {}).items())
        given = {name: value for name, value in query.items() if value is not None}

        def fetch(number: int) -> Dict[str, Any]:
            path = f"/api/tasks?{urlencode({'page': number, **given})}"
            body: Dict[str, Any] = self._transport.json(Call("GET", path))
            return body

        return Page(fetch, page, "uuid")

    def submit_tool_results(
        self, uuid: str, results: Iterable[ToolResult], *, idempotency_key: Optional[str] = None
    ) -> ResumedTask:
        call = idempotent(_path(uuid, "/tool-results"), {"results": list(results)}, idempotency_key)
        resumed: ResumedTask = self._transport.json(call)
        return resumed

    def cancel(self, uuid: str, *, reason: Optional[str] = None, idempotency_key: Optional[str] = None) -> CanceledTask:
        """Cancels an interrupted task."""
        body = {} if reason is None else {"reason": reason}
        canceled: CanceledTask = self._transport.json(idempotent(_path(uuid, "/cancel"), body, idempotency_key))
        return canceled

    def stop(self, uuid: str, *, reason: Optional[str] = None, idempotency_key: Optional[str] = None) -> CanceledTask:
        """Cancels a task that has not ended, also while the core works on it: the work stops."""
        body = {} if reason is None else {"reason": reason}
        canceled: CanceledTask = self._transport.json(idempotent(_path(uuid, "/stop"), body, idempotency_key))
        return canceled

    def cancel_interrupted(self) -> CanceledTasks:
        """Cancels all of the caller's interrupted tasks."""
        canceled: CanceledTasks = self._transport.json(Call("POST", "/api/tasks/cancel-interrupted"))
        return canceled

    def delete(self, uuid: str) -> None:
        """Deletes a task that has ended. Its pending webhooks are not sent."""
        self._transport.send(Call("DELETE", _path(uuid)))

    def deliveries(self, uuid: str) -> List[Delivery]:
        """The webhook deliveries of the task with their attempts, oldest first."""
        data: List[Delivery] = self._transport.json(Call("GET", _path(uuid, "/deliveries")))["data"]
        return data

    def redeliver(self, uuid: str, delivery_id: str, *, callback_secret: Optional[str] = None) -> Delivery:
        """Sends a webhook again. The service deletes the secret after a successful delivery: pass it again to sign."""
        path = _path(uuid, f"/deliveries/{quote(delivery_id, safe='')}/redeliver")
        body = {} if callback_secret is None else {"callback_secret": callback_secret}
        delivery: Delivery = self._transport.json(json_call("POST", path, body))
        return delivery

    def wait_for(self, uuid: str, *, timeout: Optional[float] = None) -> Task:
        """Returns the task when it has ended or is interrupted.

        After ``timeout`` seconds raises a TimeoutError; the task goes on. Without it there is no limit.
        """
        return self._wait(uuid, None, Deadline(timeout, f"The task {uuid}"))

    def run(
        self,
        body: CreateTask,
        *,
        tools: Optional[Tools] = None,
        on_update: Optional[Callable[[Task], object]] = None,
        on_text: Optional[OnText] = None,
        timeout: Optional[float] = None,
        idempotency_key: Optional[str] = None,
    ) -> Task:
        """Creates a task, executes its tool calls, and returns it when it has ended. Check its ``status``.

        ``tools`` has functions by name; those that ``client_tools`` does not define are added to it.
        ``on_update`` is called with the task after its creation, and at each change of its status: ``processing``,
        ``interrupted``, and the end. A change that is followed by another one within a moment may be missing.
        ``on_text`` is called with the text of the answer as it is written, and before the end with all of it, and
        with the added part: None when the text does not continue the previous one.
        After ``timeout`` seconds raises a TimeoutError; the task goes on.
        """
        functions = tools or {}
        uuid = self.create(declare(body, functions), idempotency_key=idempotency_key)["uuid"]
        deadline = Deadline(timeout, f"The task {uuid}")
        changes = None if on_text is None else _TextChanges(on_text)
        events = None if changes is None else self._follow(uuid, None, "text", deadline)
        live = _LiveText()
        tag: Optional[str] = None
        task: Task
        if on_update is None:
            task = self._next(uuid, None, events, live, changes, deadline)
        else:
            task, tag = self._transport.tagged(Call("GET", _path(uuid), deadline=deadline))
        while True:
            if is_terminal(task) and changes is not None:
                changes.report(output_text(task))
            if on_update is not None:
                on_update(task)
            if is_terminal(task):
                return task
            if task["status"] == "interrupted":
                try:
                    self.submit_tool_results(uuid, execute(task, functions))
                except ConflictError:
                    pass  # It timed out, or another client resumed or canceled it.
                else:
                    if on_update is not None:
                        answered = {name: value for name, value in task.items() if name != "pending_tool_calls"}
                        on_update(cast(Task, {**answered, "status": "processing"}))
            pending_tag = tag if task["status"] == "pending" else None
            task = self._next(uuid, pending_tag, events, live, changes, deadline)

    def events(
        self,
        uuid: str,
        *,
        after: Optional[int] = None,
        include: Optional[Literal["turn"]] = None,
        timeout: Optional[float] = None,
    ) -> Iterator[TaskEvent]:
        """The events of the task. Reconnects when the stream breaks and ends after the final event.

        ``after`` is the last received revision; without it, the stream starts at the first event. ``include="turn"``
        adds the text of the partial turn to progress events.
        """
        return self._events(uuid, after, include, Deadline(timeout, f"The task {uuid}"))

    def text(
        self,
        uuid: str,
        *,
        on_replaced: Optional[Callable[[], object]] = None,
        timeout: Optional[float] = None,
    ) -> Iterator[str]:
        """The text of the answer as it is written, part by part, until the task has ended.

        Reconnects when the stream breaks, and repeats no character. ``on_replaced`` is called when the text that follows is
        another one, not a continuation.
        """
        live = _LiveText()
        for name, data in self._follow(uuid, None, "text", Deadline(timeout, f"The task {uuid}")):
            if name != "text":
                continue
            added, is_other = live.take(data)
            if is_other and on_replaced is not None:
                on_replaced()
            if added != "":
                yield added

    def _wait(self, uuid: str, pending_tag: Optional[str], deadline: Deadline) -> Task:
        """The task when it has ended or is interrupted; with the tag of a pending one also when it no longer is."""
        headers = {} if pending_tag is None else {"if-none-match": pending_tag}
        path = _path(uuid, f"?wait={_wait_seconds}")
        call = Call("GET", path, headers=headers, deadline=deadline, held_for=_wait_seconds)
        outage = Outage(deadline)
        while True:
            started_at = time.monotonic()
            try:
                task: Task = self._transport.json(call)
                if _is_awaited(task, pending_tag):
                    return task
                outage.end()
            except TaskServiceError as error:
                if isinstance(error, ApiError) and error.status == 304:
                    outage.end()
                else:
                    outage.pause_after(error)
            deadline.sleep(max(0.0, _poll_interval - (time.monotonic() - started_at)))

    def _next(
        self,
        uuid: str,
        pending_tag: Optional[str],
        events: Optional[Iterator[Tuple[str, Dict[str, Any]]]],
        live: _LiveText,
        changes: Optional[_TextChanges],
        deadline: Deadline,
    ) -> Task:
        """As ``_wait``. Reports the task's text until then."""
        while events is not None and changes is not None:
            try:
                name, event = next(events, ("", None))
            except TaskServiceError:
                event = None  # Polling finds the same error, or goes on without the text.
            if event is None:
                break
            if name == "text":
                live.take(event)
                changes.report(live.text)
            elif _is_awaited(event, pending_tag):
                task: Task = self._transport.json(Call("GET", _path(uuid), deadline=deadline))
                if _is_awaited(task, pending_tag):
                    return task
        return self._wait(uuid, pending_tag, deadline)

    def _events(
        self, uuid: str, after: Optional[int], include: Optional[str], deadline: Deadline
    ) -> Iterator[TaskEvent]:
        for name, data in self._follow(uuid, None if after is None else str(after), include, deadline):
            yield cast(TaskEvent, {**data, "event": name})

    def _follow(
        self, uuid: str, after: Optional[str], include: Optional[str], deadline: Deadline
    ) -> Iterator[Tuple[str, Dict[str, Any]]]:
        """The events of the stream after the one with the id ``after``: names and data."""
        outage = Outage(deadline)
        last = after
        path = _path(uuid, "/events" if include is None else f"/events?include={include}")
        while True:
            resumed = {} if last is None else {"last-event-id": last}
            call = Call("GET", path, headers={"accept": "text/event-stream", **resumed}, deadline=deadline)
            try:
                with self._transport.open(call) as stream:
                    if stream.status == 204:
                        return

                    def read_some() -> bytes:
                        return stream.read_some(min(_max_silence, deadline.left()))

                    for found in _event_stream.read(read_some):
                        received: Dict[str, Any] = json.loads(found.data)
                        outage.end()
                        last = found.id
                        yield found.event, received
                        if found.event != "text" and is_terminal(received):
                            return
            except TaskServiceError as error:
                outage.pause_after(error)
                continue
            deadline.sleep(backoff(0, 1, 1))
