"""The time for which a call that waits goes on: until its deadline, and through outages of the service."""

import math
import random
import time
from typing import NoReturn, Optional

from .errors import ApiError, ConnectionError, TaskServiceError, TimeoutError

#: Seconds of failures after which the last one is final.
_max_outage = 300


def is_transient(error: TaskServiceError) -> bool:
    """True if the same request may succeed later. A search that took too long takes as long again."""
    if isinstance(error, ApiError):
        return (error.status in (408, 429) or error.status >= 500) and error.code != "search_too_long"
    return isinstance(error, ConnectionError)


def backoff(attempt: int, first: float, maximum: float) -> float:
    """Capped exponential backoff in seconds. Jitter of 25 % keeps clients from retrying in lockstep."""
    return min(maximum, first * 2.0 ** min(attempt, 30)) * random.uniform(0.75, 1.25)


class Deadline:
    """The end of a call that waits; without ``seconds`` there is none."""

    def __init__(self, seconds: Optional[float] = None, subject: str = "The call") -> None:
        self._text = f"{subject} has not ended within {seconds:g} s" if seconds is not None else ""
        self._at = math.inf if seconds is None else time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until the end. Raises a TimeoutError when it is over."""
        left = self._at - time.monotonic()
        if left <= 0:
            self._raise()
        return left

    def sleep(self, seconds: float) -> None:
        left = self.left()
        time.sleep(min(seconds, left))
        if seconds >= left:
            self._raise()

    def _raise(self) -> NoReturn:
        raise TimeoutError(self._text) from None


class Outage:
    """Consecutive failures of a call that waits: it continues through a restart of the service."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._failures = 0
        self._begun_at = 0.0

    def end(self) -> None:
        """A call succeeded."""
        self._failures = 0

    def pause_after(self, error: TaskServiceError) -> None:
        """Returns before the next attempt. Raises when a further one is pointless or the outage is too long."""
        self._deadline.left()
        if self._failures == 0:
            self._begun_at = time.monotonic()
        if not is_transient(error) or time.monotonic() - self._begun_at > _max_outage:
            raise error
        self._deadline.sleep(backoff(self._failures, 1, 30))
        self._failures += 1
