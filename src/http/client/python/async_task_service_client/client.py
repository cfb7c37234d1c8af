"""The client of the public interface."""

import dataclasses
import ssl
from typing import Callable, Mapping, Optional, Union

from ._transport import Options, Retry, Transport
from .files import FilesResource
from .schedules import SchedulesResource
from .tasks import TasksResource
from .usage import UsageResource


class TaskServiceClient:
    """Calls the service as one user. Threads may share it.

    ``base_url`` is as in ``https://tasks.example.com``. ``token`` is the user's JWT, or a function that returns one for
    each request. ``timeout`` is in seconds for each attempt. ``on_retry`` is called before each retry; without it, a
    warning is logged when a request waits for a second time because of a 429: the user may have to end a task.
    """

    tasks: TasksResource
    files: FilesResource
    schedules: SchedulesResource
    usage: UsageResource

    def __init__(
        self,
        base_url: str,
        token: Union[str, Callable[[], str]],
        *,
        timeout: float = 60,
        max_retries: int = 2,
        on_retry: Optional[Callable[[Retry], None]] = None,
        headers: Optional[Mapping[str, str]] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._use(Options(base_url, token, timeout, max_retries, on_retry, headers or {}, ssl_context))

    def with_options(
        self, *, timeout: Optional[float] = None, max_retries: Optional[int] = None
    ) -> "TaskServiceClient":
        """The same client with other options, as in ``client.with_options(timeout=5).tasks.get(uuid)``."""
        options = self._options
        changed = dataclasses.replace(
            options,
            timeout=options.timeout if timeout is None else timeout,
            max_retries=options.max_retries if max_retries is None else max_retries,
        )
        client = TaskServiceClient.__new__(TaskServiceClient)
        client._use(changed)
        return client

    def _use(self, options: Options) -> None:
        transport = Transport(options)
        self._options = options
        self.tasks = TasksResource(transport)
        self.files = FilesResource(transport)
        self.schedules = SchedulesResource(transport)
        self.usage = UsageResource(transport)
