"""Errors: a subclass of ApiError for each status, and ConnectionError when there was no response."""

import builtins
import email.utils
import json
import time
from typing import Any, Dict, List, Mapping, Optional, Type


class TaskServiceError(Exception):
    """The base class of all errors of this client."""


class ApiError(TaskServiceError):
    """The service responded with an error status."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str], code: Optional[str] = None) -> None:
        super().__init__(status, message, headers, code)
        self.status = status
        self.message = message
        #: A stable word for the problem, as in ``too_many_active_tasks``; None when the response has none: a proxy may have sent it.
        self.code = code
        #: By lower-case name.
        self.headers = headers
        #: Identifies the request in the service's logs.
        self.request_id = headers.get("x-request-id")

    def __str__(self) -> str:
        return self.message


class AuthenticationError(ApiError):
    """401: the token is missing, invalid, expired or revoked."""


class PermissionDeniedError(ApiError):
    """403: the task belongs to another user."""


class NotFoundError(ApiError):
    """404: there is no such task."""


class ConflictError(ApiError):
    """409: the task is not interrupted, or, for ``delete``, has not ended."""


class ValidationError(ApiError):
    """422: ``errors`` maps a dotted field path, as in ``input.0.type``, to its messages."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str],
        errors: Dict[str, List[str]],
        code: Optional[str] = None,
    ) -> None:
        super().__init__(status, message, headers, code)
        self.args = (status, message, headers, errors, code)
        self.errors = errors

    def __str__(self) -> str:
        fields = [f"{field}: {message}" for field, messages in self.errors.items() for message in messages]
        # The message of the service is the first of them.
        return self.message if len(fields) < 2 else "\n  ".join([self.message, *fields])


class RateLimitError(ApiError):
    """429: the user has the maximum number of active tasks, or too many long polls."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str], code: Optional[str] = None) -> None:
        super().__init__(status, message, headers, code)
        #: Seconds after which another attempt may succeed; None when the service said none.
        self.retry_after = retry_after_of(headers)


class ServerError(ApiError):
    """5xx: the service or its assistant backend failed."""


class ConnectionError(TaskServiceError, builtins.ConnectionError):
    """No response: the service is unreachable or the connection broke. A built-in ``ConnectionError`` too."""


class TimeoutError(ConnectionError, builtins.TimeoutError):
    """No complete response within the timeout. A built-in ``TimeoutError`` too."""


_by_status: Dict[int, Type[ApiError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    429: RateLimitError,
}


def retry_after_of(headers: Mapping[str, str]) -> Optional[float]:
    """Seconds of a ``Retry-After`` header, which may be an HTTP date; None without one."""
    given = headers.get("retry-after", "")
    if given.isascii() and given.isdigit():
        return float(given)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(given).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _parse(body: bytes) -> Dict[str, Any]:
    """Empty when the body is no JSON object: a proxy may have sent it."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def from_response(status: int, body: bytes, headers: Mapping[str, str]) -> ApiError:
    """The error of a response, whatever its body is."""
    parsed = _parse(body)
    given = parsed.get("message")
    message = given if isinstance(given, str) else f"The service answered {status}"
    word = parsed.get("code")
    code = word if isinstance(word, str) else None
    if status == 422:
        errors = parsed.get("errors")
        return ValidationError(status, message, headers, errors if isinstance(errors, dict) else {}, code)
    kind = _by_status.get(status, ServerError if status >= 500 else ApiError)
    return kind(status, message, headers, code)
