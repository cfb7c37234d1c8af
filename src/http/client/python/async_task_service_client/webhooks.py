"""Verifies webhooks in the application that receives them.

Pass the raw body: parsing and serializing it again changes the signed bytes.
"""

import base64
import hashlib
import hmac
import json
import re
import time
from dataclasses import dataclass
from typing import Any, List, Literal, Mapping, NoReturn, Optional, Sequence, Union, cast

from .types import Task

#: The reason why a webhook was rejected.
WebhookProblem = Literal[
    "missing_signature", "wrong_signature", "missing_timestamp", "too_old", "too_new", "malformed_body"
]

_messages: Mapping[WebhookProblem, str] = {
    "missing_signature": "The webhook has no valid signature header.",
    "wrong_signature": "The signature does not match the body and the secret.",
    "missing_timestamp": "The webhook has no id or timestamp header.",
    "too_old": "The webhook's timestamp is too old.",
    "too_new": "The webhook's timestamp is in the future.",
    "malformed_body": "The body is not a task.",
}

_parsed_body = (
    "verify_webhook needs the raw bytes that were signed, and the body is missing or parsed already: "
    "pass the raw body. Flask: request.get_data(). FastAPI and Starlette: await request.body(). Django: request.body, "
    "with DATA_UPLOAD_MAX_MEMORY_SIZE = 33 * 1024 * 1024. "
    'http.server: rfile.read(int(headers["Content-Length"])).'
)


class WebhookVerificationError(Exception):
    """The webhook cannot be trusted: respond with 401 and ignore it."""

    def __init__(self, problem: WebhookProblem) -> None:
        super().__init__(problem)
        self.problem: WebhookProblem = problem

    def __str__(self) -> str:
        return _messages[self.problem]


@dataclass(frozen=True)
class VerifiedWebhook:
    #: Identifies the delivery and is the same on each attempt: ignore ids that were processed before.
    id: str
    #: As ``GET /api/tasks/{uuid}`` returned it at the time of the event, or as the format of a webhook endpoint has it.
    task: Task

    @property
    def type(self) -> str:
        """The kind of event, such as ``task.completed``."""
        return f"task.{self.task['status']}"


def _bytes_of(body: object) -> bytes:
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    raise TypeError(_parsed_body)


def _header(headers: Any, name: str) -> str:
    for key, value in headers.items():
        if key.lower() == name:
            found = value[0] if isinstance(value, (list, tuple)) and value else value
            return found if isinstance(found, str) else ""
    return ""


def _standard_key(secret: str) -> bytes:
    """The bytes of a ``whsec_`` secret decoded from base64, or else the secret's text."""
    text = re.sub(r"[\t\n\f\r ]", "", secret[len("whsec_") :]) if secret.startswith("whsec_") else ""
    if len(text) % 4 == 0:
        text = re.sub("={1,2}$", "", text)
    if re.fullmatch("[A-Za-z0-9+/]+", text) is None or len(text) % 4 == 1:
        return secret.encode()
    return base64.b64decode(text + "=" * (-len(text) % 4))


def _matches(key: bytes, tag: bytes, content: bytes) -> bool:
    return hmac.compare_digest(hmac.new(key, content, hashlib.sha256).digest(), tag)


def _fail(problem: WebhookProblem) -> NoReturn:
    raise WebhookVerificationError(problem)


def _standard_tags(signature: str) -> List[bytes]:
    """The signatures in ``webhook-signature``, a space-separated list of ``v1,<base64>``."""
    return [
        base64.b64decode(entry[3:])
        for entry in signature.split(" ")
        if re.fullmatch(r"v1,[A-Za-z0-9+/]{43}=", entry) is not None
    ]


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body.decode())
    except ValueError:
        return None


def _task_of_event(body: Any, id: str) -> Any:
    """The task in the event of a webhook endpoint: its body has the id of the event, but in a CloudEvent."""
    if not isinstance(body, dict):
        return None
    data = body.get("data")
    return data.get("task") if body.get("id") == id and isinstance(data, dict) else body.get("task")


def _is_task(value: Any) -> bool:
    return isinstance(value, dict) and "uuid" in value and "status" in value


def verify_webhook(
    body: Union[bytes, bytearray, memoryview, str],
    headers: Mapping[str, Any],
    secret: Union[str, Sequence[str]],
    *,
    tolerance: float = 300,
    now: Optional[float] = None,
) -> VerifiedWebhook:
    """Verifies a webhook of a task, which has two signatures, or of a webhook endpoint, which has that of Standard Webhooks.

    Checks the timestamp too. For a task, ``X-Signature`` alone is not enough: it does not cover the timestamp.
    ``body`` has the raw bytes, ``secret`` is the ``callback_secret`` of the task or the secret of the endpoint; pass several
    during a rotation.
    ``tolerance`` is the maximum difference in seconds between the timestamp and ``now``.
    Raises a WebhookVerificationError, or a TypeError for a parsed body and a ValueError for an empty secret.
    """
    raw = _bytes_of(body)
    id, second = _header(headers, "webhook-id"), _header(headers, "webhook-timestamp")
    signature = _header(headers, "x-signature")
    tags = _standard_tags(_header(headers, "webhook-signature"))
    is_event = signature == ""
    if not tags or not (is_event or re.fullmatch("[0-9a-f]{64}", signature)):
        _fail("missing_signature")
    if id == "" or re.fullmatch("[0-9]{1,12}", second) is None:
        _fail("missing_timestamp")
    content = f"{id}.{second}.".encode() + raw
    secrets = [secret] if isinstance(secret, str) else secret
    if "" in secrets:
        raise ValueError("secret is empty: anyone can sign with it")
    matching = [
        (is_event or _matches(candidate.encode(), bytes.fromhex(signature), raw))
        and True in [_matches(_standard_key(candidate), tag, content) for tag in tags]
        for candidate in secrets
    ]
    if True not in matching:
        _fail("wrong_signature")
    current = time.time() if now is None else now
    if int(second) < current - tolerance:
        _fail("too_old")
    if int(second) > current + tolerance:
        _fail("too_new")
    found = _parse(raw)
    # A task that comes without X-Signature has lost it.
    if is_event and _is_task(found):
        _fail("missing_signature")
    task = _task_of_event(found, id) if is_event else found
    if not _is_task(task):
        _fail("malformed_body")
    return VerifiedWebhook(id, cast(Task, task))
