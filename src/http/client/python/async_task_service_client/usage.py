"""``client.usage``: what the caller's tasks consumed."""

from datetime import datetime
from typing import Literal, Optional, Sequence, Union
from urllib.parse import urlencode

from ._transport import Call, Transport
from .types import Usage


class UsageResource:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(
        self,
        *,
        from_: Union[str, datetime, None] = None,
        to: Union[str, datetime, None] = None,
        step: Optional[Literal["hour", "day", "month", "total"]] = None,
        group_by: Sequence[Literal["assistant", "model"]] = (),
        assistant_id: Optional[int] = None,
    ) -> Usage:
        """Sums by period and group. Moments are ISO 8601 or aware datetimes; by default this UTC month so far."""
        from_, to = (moment.isoformat() if isinstance(moment, datetime) else moment for moment in (from_, to))
        groups = ",".join(group_by) or None
        fields = {"from": from_, "to": to, "step": step, "group_by": groups, "assistant_id": assistant_id}
        query = urlencode({name: value for name, value in fields.items() if value is not None})
        usage: Usage = self._transport.json(Call("GET", f"/api/usage?{query}" if query else "/api/usage"))
        return usage
