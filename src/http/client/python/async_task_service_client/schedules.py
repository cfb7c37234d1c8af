"""``client.schedules``: tasks at the moments of a rhythm, or once later."""

from datetime import datetime
from typing import Any, Dict, List, Optional, Sequence, Union
from urllib.parse import quote, urlencode

from ._pages import Page
from ._transport import Call, Transport, idempotent, json_call
from .types import CreatedTask, CreateSchedule, Schedule, ScheduleRun, ScheduleState, UpdateSchedule

_base = "/api/schedules"


def _path(id: str, rest: str = "") -> str:
    return f"{_base}/{quote(id, safe='')}{rest}"


class SchedulesResource:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, body: CreateSchedule, *, idempotency_key: Optional[str] = None) -> Schedule:
        return self._schedule(idempotent(_base, body, idempotency_key))

    def put(self, key: str, body: CreateSchedule) -> Schedule:
        """Creates the schedule with a key or replaces it. An equal definition changes nothing."""
        return self._schedule(json_call("PUT", f"{_base}/by-key/{quote(key, safe='')}", body))

    def list(
        self,
        *,
        state: Union[ScheduleState, Sequence[ScheduleState], None] = None,
        page: int = 1,
        per_page: Optional[int] = None,
    ) -> "Page[Schedule]":
        """The caller's schedules, newest first: one page, or all of them when it is iterated."""
        states = state if state is None or isinstance(state, str) else ",".join(state)
        return self._pages(_base, "id", page, {"state": states, "per_page": per_page})

    def get(self, id: str) -> Schedule:
        return self._schedule(Call("GET", _path(id)))

    def update(self, id: str, body: UpdateSchedule) -> Schedule:
        """Changes the given fields; None resets an optional one."""
        return self._schedule(json_call("PATCH", _path(id), body))

    def delete(self, id: str) -> None:
        """Its tasks stay."""
        self._transport.send(Call("DELETE", _path(id)))

    def pause(self, id: str, *, reason: Optional[str] = None) -> Schedule:
        return self._schedule(json_call("POST", _path(id, "/pause"), {} if reason is None else {"reason": reason}))

    def resume(self, id: str) -> Schedule:
        return self._schedule(json_call("POST", _path(id, "/resume"), {}))

    def trigger(self, id: str, *, idempotency_key: Optional[str] = None) -> CreatedTask:
        """Creates a task of the schedule now."""
        created: CreatedTask = self._transport.json(idempotent(_path(id, "/trigger"), {}, idempotency_key))
        return created

    def runs(self, id: str, *, page: int = 1, per_page: Optional[int] = None) -> "Page[ScheduleRun]":
        """The outcomes of the moments, newest first: one page, or all of them when it is iterated."""
        return self._pages(_path(id, "/runs"), "scheduled_for", page, {"per_page": per_page})

    def preview(
        self,
        cron: str,
        *,
        timezone: Optional[str] = None,
        count: Optional[int] = None,
        after: Union[str, datetime, None] = None,
    ) -> List[str]:
        """The next moments of a rhythm, 1 to 20; those after ``after``, which is now by default."""
        moment = after.isoformat() if isinstance(after, datetime) else after
        body = {"cron": cron, "timezone": timezone, "count": count, "after": moment}
        data: List[str] = self._transport.json(json_call("POST", f"{_base}/preview", body))["data"]
        return data

    def _schedule(self, call: Call) -> Schedule:
        schedule: Schedule = self._transport.json(call)
        return schedule

    def _pages(self, path: str, key: str, page: int, query: Dict[str, object]) -> "Page[Any]":
        given = {name: value for name, value in query.items() if value is not None}

        def fetch(number: int) -> Dict[str, Any]:
            body: Dict[str, Any] = self._transport.json(Call("GET", f"{path}?{urlencode({'page': number, **given})}"))
            return body

        return Page(fetch, page, key)
