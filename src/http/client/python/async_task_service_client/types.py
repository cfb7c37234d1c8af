"""Requests and responses, as they are in JSON. Made from the service's description: do not edit.

Timestamps are ISO 8601 in UTC with six fractional digits. In requests ``None`` means the same as absent.
Responses may gain fields at any time.
"""

from typing import Any, Dict, List, Literal, Optional, Sequence, TypedDict, Union

__all__ = [
    "AskedTask",
    "CancelTask",
    "CanceledTask",
    "CanceledTasks",
    "ClientTool",
    "ClientToolDefinition",
    "ConversationItem",
    "ConversationMessage",
    "CreateSchedule",
    "CreateTask",
    "CreatedTask",
    "Delivery",
    "DeliveryAttempt",
    "FileItem",
    "FileItemFile",
    "FileItemFileProviderData",
    "FileOutput",
    "GetTaskEventsInclude",
    "GetTaskInclude",
    "ImageOutput",
    "InputItem",
    "JsonObject",
    "ListTasksInclude",
    "OutputFile",
    "OutputFileProviderData",
    "OutputItem",
    "PageMeta",
    "PauseSchedule",
    "PausedReason",
    "PendingToolCall",
    "PreviewSchedule",
    "Redeliver",
    "RerunTask",
    "ResumedTask",
    "Schedule",
    "ScheduleRun",
    "ScheduleState",
    "ScheduledTask",
    "StorageBase",
    "Task",
    "TaskEndedBy",
    "TaskEvent",
    "TaskSchedule",
    "TaskStatus",
    "TaskSummary",
    "TaskUsage",
    "TextEvent",
    "TextItem",
    "TextOutput",
    "Timestamp",
    "ToolResult",
    "Turn",
    "UpdateSchedule",
    "UploadedFile",
    "UploadedFileFile",
    "UploadedFileFileProviderData",
    "Usage",
    "UsageBucket",
    "UsageBucketEnded",
    "UsageBucketGroup",
    "UsageMeta",
    "UsageTotals",
    "UsageTotalsEnded",
    "VoiceItem",
    "VoiceItemVoice",
    "WaitingOn",
]

JsonObject = Dict[str, Any]
"""Any JSON object."""


class TextItem(TypedDict):
    """A piece of text."""

    type: Literal["text"]
    text: str
    """The user's text."""


class FileItemFileProviderData(TypedDict, total=False):
    path: Optional[str]
    """Storage-relative path of the file."""


class _FileItemFile(TypedDict):
    id: str
    """Always a string, even when the upload returned a number."""
    name: str
    """File name."""
    mime_type: str
    """Media type, as in `application/pdf`."""


class FileItemFile(_FileItemFile, total=False):
    """The file."""

    provider_data: Optional[FileItemFileProviderData]
    """The location of the file in storage, as the upload returned it."""


class FileItem(TypedDict):
    """An uploaded file, as `POST /api/files` returned it. The model chooses the tool that processes it."""

    type: Literal["file"]
    file: FileItemFile
    """The file."""


class _VoiceItemVoice(TypedDict):
    id: str
    """Always a string, even when the upload returned a number."""
    name: str
    """File name."""
    mime_type: str
    """Media type, as in `application/pdf`."""


class VoiceItemVoice(_VoiceItemVoice, total=False):
    """The recording."""

    duration: Optional[float]
    """Length in seconds."""


class VoiceItem(TypedDict):
    """A recording, uploaded like a file. It is transcribed to text before processing."""

    type: Literal["voice"]
    voice: VoiceItemVoice
    """The recording."""


class UploadedFileFileProviderData(TypedDict):
    """Location of the file in the storage."""

    path: str
    """Storage-relative path of the file."""


class UploadedFileFile(TypedDict):
    """The file."""

    id: str
    """Always a string."""
    name: str
    """File name."""
    mime_type: str
    """Media type."""
    provider_data: UploadedFileFileProviderData
    """Location of the file in the storage."""


class UploadedFile(TypedDict):
    """An uploaded file; it can be placed into `input` as it is."""

    type: Literal["file"]
    file: UploadedFileFile
    """The file."""


InputItem = Union[TextItem, FileItem, VoiceItem, UploadedFile]
"""One input item; items of all types may be mixed."""


class ConversationMessage(TypedDict):
    """A message."""

    role: Literal["user", "assistant", "system"]
    """Author of the message."""
    content: Union[str, List[JsonObject]]
    """Text, or an array of parts."""


class TextOutput(TypedDict):
    """A piece of text."""

    type: Literal["text"]
    text: str
    """Text for the user."""


class OutputFileProviderData(TypedDict):
    """Location of the file in the storage."""

    path: str
    """Storage-relative path."""


class OutputFile(TypedDict):
    """A stored file. Its download link is the storage URL, `/`, and `provider_data.path`."""

    id: str
    """Always a string."""
    name: str
    """File name."""
    mime_type: str
    """Media type."""
    provider_data: OutputFileProviderData
    """Location of the file in the storage."""


class ImageOutput(TypedDict):
    """An image."""

    type: Literal["image"]
    file: OutputFile
    """The file."""


class FileOutput(TypedDict):
    """A file."""

    type: Literal["file"]
    file: OutputFile
    """The file."""


OutputItem = Union[TextOutput, ImageOutput, FileOutput]
"""One item of output. Ignore items of types that you do not know: types may be added."""


class Turn(TypedDict, total=False):
    """The assistant's answer, unchanged from the processing core: any field may be missing."""

    output: List[OutputItem]
    """Output for the user: text, images and files, never inline bytes."""
    messages: List[JsonObject]
    """The model's messages in full."""
    metadata: JsonObject
    """`model`, `finish_reason`, `usage`, `transcriptions` and more."""
    interrupt: Any
    """Reason of an interrupted turn."""


ConversationItem = Union[ConversationMessage, Turn]
"""A message, or the whole `turn` of an earlier task, whose `messages` are inserted."""


class _ClientTool(TypedDict):
    type: Literal["function"]
    name: str
    """Unique within the request."""


class ClientTool(_ClientTool, total=False):
    """A function that the client runs for the model."""

    description: Optional[str]
    """Tells the model when and how to call the tool."""
    parameters: Optional[JsonObject]
    """JSON Schema of its arguments."""
    strict: Optional[bool]
    """True if arguments must match `parameters` exactly."""
    output_schema: JsonObject
    """JSON Schema of its output, for forms."""


ClientToolDefinition = Union[ClientTool, JsonObject]
"""A client tool. The nested, MCP and Anthropic forms are accepted too and converted."""


class _CreateTask(TypedDict):
    assistant_id: int
    """The assistant, by its id in the assistant backend."""
    input: Sequence[InputItem]
    """The user's input: 1 to 10000 items."""


class CreateTask(_CreateTask, total=False):
    """A task to run. `None` means the same as absent."""

    turns: Optional[Sequence[ConversationItem]]
    """Conversation so far, oldest first: up to 10000 items. An item may be the whole `turn` of an earlier task."""
    llm_model_id: Optional[int]
    """Id of an LLM configuration of the assistant, not a model's name. An unknown id silently means the default."""
    image_generator_id: Optional[int]
    """Id of an image generator configuration of the assistant. An unknown id silently means the default."""
    callback_url: Optional[str]
    """The URL that receives webhooks: absolute, http or https, up to 2048 characters."""
    callback_secret: Optional[str]
    """Key of the webhooks' HMAC-SHA256 signature, up to 255 characters."""
    client_tools: Optional[Sequence[ClientToolDefinition]]
    """Functions that the client runs for the model: up to 128, each with a unique name."""
    max_execution_time: Optional[int]
    """Limit in seconds, counted from creation and including the wait in the queue; 86400 by default."""
    priority: Optional[int]
    """
    Place in the queue while the core has no room: 0 to 5, 5 by default. A higher one goes first; one that waits
    rises by one a minute.
    """
    metadata: Optional[Dict[str, str]]
    """
    Labels of the client's own: up to 16 texts of up to 512 characters, by keys of up to 64. `?include=metadata`
    returns them, `?metadata[key]=value` filters lists.
    """


class RerunTask(TypedDict, total=False):
    """
    Fields that replace those of the original request; `None` removes an optional one. `callback_secret` is
    never copied: pass it again for signed webhooks.
    """

    assistant_id: int
    """The assistant, by its id in the assistant backend."""
    input: Sequence[InputItem]
    """The user's input: 1 to 10000 items."""
    turns: Optional[Sequence[ConversationItem]]
    """Conversation so far, oldest first: up to 10000 items. An item may be the whole `turn` of an earlier task."""
    llm_model_id: Optional[int]
    """Id of an LLM configuration of the assistant, not a model's name. An unknown id silently means the default."""
    image_generator_id: Optional[int]
    """Id of an image generator configuration of the assistant. An unknown id silently means the default."""
    callback_url: Optional[str]
    """The URL that receives webhooks: absolute, http or https, up to 2048 characters."""
    callback_secret: Optional[str]
    """Key of the webhooks' HMAC-SHA256 signature, up to 255 characters."""
    client_tools: Optional[Sequence[ClientToolDefinition]]
    """Functions that the client runs for the model: up to 128, each with a unique name."""
    max_execution_time: Optional[int]
    """Limit in seconds, counted from creation and including the wait in the queue; 86400 by default."""
    priority: Optional[int]
    """
    Place in the queue while the core has no room: 0 to 5, 5 by default. A higher one goes first; one that waits
    rises by one a minute.
    """
    metadata: Optional[Dict[str, str]]
    """
    Labels of the client's own: up to 16 texts of up to 512 characters, by keys of up to 64. `?include=metadata`
    returns them, `?metadata[key]=value` filters lists.
    """


class Redeliver(TypedDict, total=False):
    """Options of a redelivery."""

    callback_secret: Optional[str]
    """
    The task's `callback_secret`. Required for a signed webhook that was delivered, because the secret is
    deleted on success.
    """


class _ToolResult(TypedDict):
    tool_call_id: str
    """The `id` of a pending call."""
    output: Any
    """The output of the tool: any JSON."""


class ToolResult(_ToolResult, total=False):
    """The result of one pending call."""

    is_error: Optional[bool]
    """Whether the tool failed. `output` then describes the error."""


class CancelTask(TypedDict, total=False):
    """Why the task is canceled."""

    reason: Optional[str]
    """Stored in `error`; up to 1000 characters."""


ScheduledTask = CreateTask
"""The body of `POST /api/tasks`. Its `callback_secret` is encrypted and never returned."""


class _CreateSchedule(TypedDict):
    type: Literal["cron", "once"]
    """`cron` fires at every moment of a rhythm, `once` at one moment."""
    task: ScheduledTask


class CreateSchedule(_CreateSchedule, total=False):
    """A schedule. `None` means the same as absent."""

    key: Optional[str]
    """A name of the client's own for `PUT`, unique for the user; up to 100 characters."""
    name: Optional[str]
    """For people; up to 100 characters."""
    cron: Optional[str]
    """
    Minute, hour, day, month and weekday, with lists, ranges, steps and names such as `MON` or `JAN`. If day and
    weekday are both restricted, either is enough, unless one of them begins with `*`.
    """
    timezone: Optional[str]
    """An IANA time zone such as `Europe/Berlin`; `UTC` by default."""
    run_at: Optional[str]
    """For `once`: the moment, at most a year ahead."""
    delay: Optional[int]
    """For `once`, instead of `run_at`: seconds from now, 1 to 31536000."""
    starts_at: Optional[str]
    """Nothing fires before this moment."""
    ends_at: Optional[str]
    """Nothing fires from this moment on."""
    spread: Optional[int]
    """
    Seconds by which each moment is later at most. How much follows from the schedule's id: it is the same each
    time. 0 by default.
    """
    overlap: Optional[Literal["skip", "queue", "allow"]]
    """
    When the task before has not ended: `skip` (default) leaves the moment out, `queue` waits for its end,
    `allow` starts beside it.
    """
    catchup_window: Optional[int]
    """Seconds, 3600 by default: of the moments that were missed by less, the latest is made up for."""
    pause_after_failures: Optional[int]
    """Pauses the schedule when as many of its tasks in a row failed."""


class _PreviewSchedule(TypedDict):
    cron: str


class PreviewSchedule(_PreviewSchedule, total=False):
    """The rhythm to show."""

    timezone: Optional[str]
    """An IANA time zone such as `Europe/Berlin`; `UTC` by default."""
    count: Optional[int]
    """Number of moments; 5 by default."""
    after: Optional[str]
    """The moments after this one; now by default."""


class UpdateSchedule(TypedDict, total=False):
    """The fields to change; `None` resets an optional one. `task` is replaced whole."""

    type: Literal["cron", "once"]
    """`cron` fires at every moment of a rhythm, `once` at one moment."""
    key: Optional[str]
    """A name of the client's own for `PUT`, unique for the user; up to 100 characters."""
    name: Optional[str]
    """For people; up to 100 characters."""
    cron: Optional[str]
    """
    Minute, hour, day, month and weekday, with lists, ranges, steps and names such as `MON` or `JAN`. If day and
    weekday are both restricted, either is enough, unless one of them begins with `*`.
    """
    timezone: Optional[str]
    """An IANA time zone such as `Europe/Berlin`; `UTC` by default."""
    run_at: Optional[str]
    """For `once`: the moment, at most a year ahead."""
    delay: Optional[int]
    """For `once`, instead of `run_at`: seconds from now, 1 to 31536000."""
    starts_at: Optional[str]
    """Nothing fires before this moment."""
    ends_at: Optional[str]
    """Nothing fires from this moment on."""
    spread: Optional[int]
    """
    Seconds by which each moment is later at most. How much follows from the schedule's id: it is the same each
    time. 0 by default.
    """
    overlap: Optional[Literal["skip", "queue", "allow"]]
    """
    When the task before has not ended: `skip` (default) leaves the moment out, `queue` waits for its end,
    `allow` starts beside it.
    """
    catchup_window: Optional[int]
    """Seconds, 3600 by default: of the moments that were missed by less, the latest is made up for."""
    pause_after_failures: Optional[int]
    """Pauses the schedule when as many of its tasks in a row failed."""
    task: ScheduledTask


class PauseSchedule(TypedDict, total=False):
    """Why the schedule is paused."""

    reason: Optional[str]
    """Shown in `paused_reason`; up to 1000 characters."""


class CreatedTask(TypedDict):
    """The task that was created."""

    uuid: str
    """Task identifier."""
    status: Literal["pending"]
    max_execution_time: int
    """The limit of this task, in seconds from creation."""


TaskStatus = Literal["pending", "processing", "interrupted", "completed", "failed", "canceled"]
"""Status of a task."""


Timestamp = str
"""ISO 8601 in UTC with exactly six fractional digits, as in `2026-11-21T08:30:00.123456Z`."""


class PendingToolCall(TypedDict):
    """A call of a client tool that awaits its result."""

    id: str
    """Identifies the call. Its result carries it as `tool_call_id`."""
    name: str
    """The client tool to run."""
    arguments: JsonObject


WaitingOn = TypedDict(
    "WaitingOn",
    {
        "party": "Literal['core', 'client', 'queue']",
        "for": "Literal['acceptance', 'result', 'tool_results', 'room']",
        "position": "Optional[int]",
        "until": Timestamp,
        "silent_since": "Optional[Timestamp]",
        "hand_overs": "Optional[int]",
    },
)
"""The party that has to act next, what it has to provide, and until when."""


class _TaskSummary(TypedDict):
    uuid: str
    """Task identifier."""
    status: TaskStatus
    error: Optional[str]
    """Human-readable reason when failed; when canceled, the `reason` if one was given."""
    created_at: Timestamp
    """Moment of the creation."""
    completed_at: Optional[Timestamp]
    """Moment of the transition to a final status; None before."""


class TaskSummary(_TaskSummary, total=False):
    """One row of the task list; it never has a `turn`."""

    pending_tool_calls: List[PendingToolCall]
    """Present only while the status is interrupted: the client tool calls that need results."""
    metadata: Dict[str, str]
    """Present only with `?include=metadata`: the `metadata` of the request."""
    excerpt: Optional[str]
    """
    Present only with `?include=excerpt`: the first 120 characters of the request, or the name of its first
    file; None if the request is not kept.
    """
    assistant_id: Optional[int]
    """Present only with `?include=assistant`: the assistant; None for a task of an early version."""
    waiting_on: Optional[WaitingOn]
    """Present only with `?include=waiting_on`: the party that has to act next; None for an ended task."""


class PageMeta(TypedDict):
    """Position of the page among all pages."""

    current_page: int
    """The requested page."""
    per_page: int
    """The requested page size."""
    last_page: int
    """At least 1."""
    total: int
    """All that match, over all pages."""


class AskedTask(TypedDict):
    """The request of a task, without secrets. Requests of more than 262144 bytes are not kept."""

    assistant_id: int
    """The assistant."""
    input: List[InputItem]
    """The input items."""
    turns: List[JsonObject]
    """The conversation, earlier turns replaced by their messages."""
    continues: Optional[str]
    """The task whose messages come in front of `turns`, behind instructions; None without one."""
    client_tools: List[JsonObject]
    """The client tools, in one form."""
    llm_model_id: Optional[int]
    """The LLM configuration."""
    image_generator_id: Optional[int]
    """The image generator configuration."""
    options: Optional[JsonObject]
    """Options of the model by a client of another protocol; None without them."""
    max_execution_time: int
    """The limit in seconds."""
    priority: int
    """The place in the queue while the core has no room: 0 to 9, 5 usually."""
    callback_url: Optional[str]
    """The URL that receives webhooks."""
    metadata: Dict[str, str]
    """The client's labels."""


class TaskEndedBy(TypedDict):
    """The party or clock that ended a task."""

    by: str
    """
    The `user`, an `operator`, a call of another service (`rpc`), the `core`, or what passed: `time_limit`,
    `acceptance_timeout`, `revocation`.
    """
    at: Timestamp


class TaskSchedule(TypedDict):
    """The schedule that made a task."""

    id: str
    """Schedule identifier."""
    scheduled_for: Timestamp
    """The moment of the schedule."""


class TaskUsage(TypedDict):
    """Consumption of a task, as the core reported it."""

    input_tokens: int
    """Tokens that models read, cached ones included."""
    output_tokens: int
    """Tokens that models wrote, reasoning included."""
    total_tokens: int
    """Input and output, as the core added them."""
    cached_input_tokens: int
    """The part of the input that the provider had cached."""
    reasoning_tokens: int
    """The part of the output that is reasoning."""
    active_seconds: int
    """Time in `processing`, without waiting."""
    cost: Optional[str]
    """Plain decimal; None when nothing has a price."""
    source: Literal["reported", "none"]
    """`none`: the core reported no usage."""
    is_final: bool
    """True when the task has ended."""


class _Task(TypedDict):
    uuid: str
    """Task identifier."""
    status: TaskStatus
    error: Optional[str]
    """Human-readable reason when failed; when canceled, the `reason` if one was given."""
    created_at: Timestamp
    """Moment of the creation."""
    completed_at: Optional[Timestamp]
    """Moment of the transition to a final status; None before."""
    turn: Optional[Turn]
    """The result when completed. Before that, and in a failed task, it may have partial output."""


class Task(_Task, total=False):
    """A task. A webhook carries the same object."""

    pending_tool_calls: List[PendingToolCall]
    """Present only while the status is interrupted: the client tool calls that need results."""
    waiting_on: Optional[WaitingOn]
    """Present only with `?include=waiting_on`; None when the task has ended."""
    metadata: Dict[str, str]
    """Present only with `?include=metadata`: the `metadata` of the request."""
    request: Optional[AskedTask]
    """Present only with `?include=request`: the request. None when it is not kept."""
    ended_by: Optional[TaskEndedBy]
    """Present only with `?include=ended_by`: the party or clock that ended the task; None while it has not ended."""
    schedule: Optional[TaskSchedule]
    """Present only with `?include=schedule`: the schedule that made the task, and its moment; None without one."""
    usage: Optional[TaskUsage]
    """
    Present only with `?include=usage`: the consumption of the task; None until an interrupt or the end of the
    task.
    """


class _TaskEvent(TypedDict):
    uuid: str
    """Task identifier."""
    revision: int
    """Number of changes of the task so far; 0 is its creation."""
    status: TaskStatus
    occurred_at: Timestamp
    event: Literal["pending", "processing", "interrupted", "completed", "failed", "canceled", "progress"]
    """The new status, or `progress`, which does not change it."""


class TaskEvent(_TaskEvent, total=False):
    """A change of a task, or its progress."""

    text: str
    """
    Only with `?include=turn`, in a progress event: the text parts of the partial turn's `output`, joined by a
    blank line and cut after 65536 characters. Absent when it has not changed, when a later event has it, and
    when the JSON of the turn is longer than 262144 bytes.
    """


class _TextEvent(TypedDict):
    offset: int
    """UTF-16 units of the text before this part."""
    text: str
    """The text that was written since."""


class TextEvent(_TextEvent, total=False):
    """
    Only with `?include=text`: the `data` of an event `text`. Its `id` is the last revision, a dot, and the
    units of the text so far.
    """

    replaced: bool
    """True when the text is another one, not a continuation: forget the one before."""


class DeliveryAttempt(TypedDict):
    """One POST to the callback URL."""

    number: int
    """From 1."""
    started_at: Timestamp
    duration_ms: Optional[int]
    """Milliseconds; None while the attempt is in progress, or when its node stopped before it ended."""
    response_status: Optional[int]
    """HTTP status of the response; None without one."""
    error: Optional[Literal["address_refused", "name_not_resolved", "connection_failed", "tls_failed", "timed_out", "broken_answer", "redirected", "not_2xx", "lost", "not_sent"]]
    """Class of the failure; None after a success."""
    hint: Optional[str]
    """A remedy, where the status names one: a receiver that answers 413 has to take larger bodies; otherwise None."""


class Delivery(TypedDict):
    """The webhook of one status, with its attempts."""

    id: str
    """Delivery identifier, sent as `webhook-id`."""
    status: TaskStatus
    """The task status that the webhook reports."""
    state: Literal["pending", "delivered", "failed"]
    """State of the delivery."""
    created_at: Timestamp
    next_attempt_at: Optional[Timestamp]
    """None when no further attempt is planned, and while one is in progress."""
    attempts: List[DeliveryAttempt]
    """Oldest first."""


class CanceledTasks(TypedDict):
    """The tasks that were canceled."""

    canceled: int
    """Number of canceled tasks."""
    uuids: List[str]
    """Their identifiers."""


class ResumedTask(TypedDict):
    """The task was resumed."""

    uuid: str
    """Task identifier."""
    status: Literal["processing"]


class CanceledTask(TypedDict):
    """The task was canceled."""

    uuid: str
    """Task identifier."""
    status: Literal["canceled"]


class StorageBase(TypedDict):
    """The download link of a file is `url`, then `/`, then its `provider_data.path`."""

    url: str
    """Public base URL of the storage, without a trailing slash."""


ScheduleState = Literal["active", "paused", "ended"]
"""State of a schedule."""


class PausedReason(TypedDict):
    """Why a schedule is paused."""

    type: Literal["manual", "failures", "token", "revoked"]
    """The cause of the pause."""
    message: str
    """The reason in words."""


class _Schedule(TypedDict):
    id: str
    """Schedule identifier."""
    key: Optional[str]
    """The client's own name of the schedule."""
    name: Optional[str]
    """For people."""
    type: Literal["cron", "once"]
    """`cron` fires at every moment of a rhythm, `once` at one moment."""
    cron: Optional[str]
    """The rhythm, as it was given."""
    timezone: str
    """The time zone of the rhythm."""
    run_at: Optional[Timestamp]
    """The moment of `once`."""
    delay: Optional[int]
    """The delay of `once`, in seconds."""
    starts_at: Optional[Timestamp]
    """Nothing fires before."""
    ends_at: Optional[Timestamp]
    """Nothing fires from this moment on."""
    spread: int
    """Seconds by which a moment is later at most."""
    overlap: Literal["skip", "queue", "allow"]
    """The treatment of a moment at which the task before is active."""
    catchup_window: int
    """Seconds in which a missed moment is made up for."""
    pause_after_failures: Optional[int]
    """Failed tasks in a row that pause it."""
    task: ScheduledTask
    state: ScheduleState
    paused_reason: Optional[PausedReason]
    """None unless paused."""
    next_at: Optional[Timestamp]
    """The next moment, without the spread."""
    last_at: Optional[Timestamp]
    """The latest moment that fired."""
    revision: int
    """Changes with every change and every firing."""
    created_at: Timestamp


class Schedule(_Schedule, total=False):
    """A schedule makes tasks of its user at its moments."""

    upcoming: List[Timestamp]
    """The next 5 moments; not in lists."""


class ScheduleRun(TypedDict):
    """One moment of a schedule and what became of it."""

    scheduled_for: Timestamp
    """The moment; of missed ones the first."""
    started_at: Optional[Timestamp]
    """When the task was created."""
    outcome: Literal["due", "waiting", "created", "skipped_overlap", "missed", "failed"]
    """`due` and `waiting` may still become another one; `error` says what it waits for."""
    count: int
    """1, except of `missed`: how many moments."""
    task_uuid: Optional[str]
    """The task that was created."""
    error: Optional[str]
    """Why there is no task, or not yet."""


class UsageBucketGroup(TypedDict, total=False):
    """The keys of `group_by`."""

    assistant: float
    """The assistant."""
    model: Optional[str]
    """The model; None where the core named none."""
    sub: str
    """The user; for operators only."""


class UsageBucketEnded(TypedDict):
    """These tasks by their last status."""

    completed: int
    """Completed tasks."""
    failed: int
    """Failed tasks."""
    canceled: int
    """Canceled tasks."""


UsageBucket = TypedDict(
    "UsageBucket",
    {
        "from": Timestamp,
        "to": Timestamp,
        "group": UsageBucketGroup,
        "tasks": int,
        "ended": UsageBucketEnded,
        "input_tokens": int,
        "output_tokens": int,
        "total_tokens": int,
        "cached_input_tokens": int,
        "reasoning_tokens": int,
        "active_seconds": int,
        "cost": "Optional[str]",
        "unpriced_tokens": int,
        "unmetered_tasks": int,
    },
)
"""Usage of one period in UTC and one group."""


class UsageTotalsEnded(TypedDict):
    """These tasks by their last status."""

    completed: int
    """Completed tasks."""
    failed: int
    """Failed tasks."""
    canceled: int
    """Canceled tasks."""


class UsageTotals(TypedDict):
    """The sums over all buckets."""

    tasks: int
    """Tasks that ended in the period."""
    ended: UsageTotalsEnded
    """These tasks by their last status."""
    input_tokens: int
    """Tokens that models read, cached ones included."""
    output_tokens: int
    """Tokens that models wrote, reasoning included."""
    total_tokens: int
    """Input and output, as the core added them."""
    cached_input_tokens: int
    """The part of the input that the provider had cached."""
    reasoning_tokens: int
    """The part of the output that is reasoning."""
    active_seconds: int
    """Time in `processing`, without waiting."""
    cost: Optional[str]
    """Plain decimal: the sum of what has a price. None when nothing has."""
    unpriced_tokens: int
    """Tokens that have no price."""
    unmetered_tasks: int
    """Tasks that ended without reported usage."""


UsageMeta = TypedDict(
    "UsageMeta",
    {
        "from": Timestamp,
        "to": Timestamp,
        "step": "Literal['hour', 'day', 'month', 'total']",
        "currency": "Optional[str]",
        "complete_until": Timestamp,
    },
)
"""The query that was answered."""


class Usage(TypedDict):
    """Usage by period and group."""

    data: List[UsageBucket]
    """By period, the largest groups first; without empty ones."""
    totals: UsageTotals
    meta: UsageMeta
    """The query that was answered."""


ListTasksInclude = Literal["metadata", "excerpt", "waiting_on", "assistant"]
"""What `include` of `listTasks` adds."""


GetTaskInclude = Literal["waiting_on", "request", "turn", "metadata", "ended_by", "schedule", "usage"]
"""What `include` of `getTask` adds."""


GetTaskEventsInclude = Literal["text", "turn"]
"""What `include` of `getTaskEvents` adds."""


MEDIA_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "txt": "text/plain",
    "pdf": "application/pdf",
    "json": "application/json",
    "js": "text/javascript",
    "css": "text/css",
    "html": "text/html",
    "htm": "text/html",
    "csv": "text/csv",
    "xml": "application/xml",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "ogg": "audio/ogg",
    "m4a": "audio/mp4",
    "webm": "video/webm",
    "mp4": "video/mp4",
    "mkv": "video/x-matroska",
}
"""The media types of the accepted file formats, by extension."""
