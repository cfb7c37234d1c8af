"""The end of a run of a core: its turn, an interrupt, or a failure, as events of the core's protocol."""

import json
import secrets
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .tasks import output_text
from .types import JsonObject


class AssistantNotAvailable(Exception):
    """The task fails with ``Assistant is not available``."""


class InsufficientBalance(Exception):
    """The task fails with ``Insufficient balance``."""


class Failure(Exception):
    """The task fails with this message, which its user sees."""


class RunStopped(Exception):
    """The run has to end. ``reason`` is that of the service, or ``deadline``, ``superseded`` or ``shutdown``."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The run was stopped: {reason}")
        self.reason = reason


class Interrupt:
    """The result of ``run.interrupt``, for the function to return."""

    def __init__(self, calls: Sequence[Mapping[str, Any]], state: Any, turn: Optional[JsonObject]) -> None:
        if not calls:
            raise ValueError("An interrupt needs at least one call")
        self.calls: List[JsonObject] = []
        for call in calls:
            if not isinstance(call.get("name"), str) or not call["name"]:
                raise ValueError("Each call of an interrupt needs the name of a tool")
            call_id = call.get("id") or f"call_{secrets.token_hex(16)}"
            self.calls.append({"id": call_id, "name": call["name"], "arguments": call.get("arguments") or {}})
        self.state = state
        self.turn = turn


def _is_turn(value: Any) -> bool:
    """True if a result has the form of a turn: an output of typed items."""
    output = value.get("output") if isinstance(value, Mapping) else None
    items = output if isinstance(output, list) else [None]
    return all(isinstance(item, Mapping) and isinstance(item.get("type"), str) for item in items)


_kinds: Dict[str, Tuple[str, ...]] = {
    "input": ("input_tokens", "prompt_tokens"),
    "output": ("output_tokens", "completion_tokens"),
    "total": ("total_tokens",),
    "cached": (
        "cached_input_tokens",
        "input_tokens_details.cached_tokens",
        "prompt_tokens_details.cached_tokens",
    ),
    "reasoning": (
        "reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
        "completion_tokens_details.reasoning_tokens",
    ),
}


def _count_at(report: Any, paths: Sequence[str]) -> Optional[int]:
    """The first whole number at one of the paths, of a mapping or an object of a provider's library."""
    for path in paths:
        value = report
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


class UsageMeter:
    """Adds up what a task consumed. An interrupted run leaves the sum in its state: a turn reports all runs of its task."""

    def __init__(self, counts: Optional[Mapping[str, int]] = None, model: Optional[str] = None) -> None:
        self._counts = {kind: counts.get(kind, 0) for kind in _kinds} if counts is not None else None
        self._model = model

    def add(self, report: Any) -> None:
        model = report.get("model") if isinstance(report, Mapping) else getattr(report, "model", None)
        if isinstance(model, str):
            self._model = model
        found = {kind: _count_at(report, paths) for kind, paths in _kinds.items()}
        if found["input"] is None and found["output"] is None:
            return
        if found["total"] is None:
            found["total"] = (found["input"] or 0) + (found["output"] or 0)
        before = self._counts or {}
        self._counts = {kind: before.get(kind, 0) + (count or 0) for kind, count in found.items()}

    @property
    def kept(self) -> Optional[JsonObject]:
        """For the state of an interrupt; None when nothing was reported."""
        if self._counts is None and self._model is None:
            return None
        model = {} if self._model is None else {"model": self._model}
        return {"counts": self._counts or dict.fromkeys(_kinds, 0), **model}

    @property
    def metadata(self) -> JsonObject:
        """The part of a turn's ``metadata``. What the turn says itself wins."""
        metadata: JsonObject = {} if self._model is None else {"model": self._model}
        counts = self._counts
        if counts is not None:
            usage: JsonObject = {f"{kind}_tokens": counts[kind] for kind in ("input", "output", "total")}
            if counts["cached"]:
                usage["input_tokens_details"] = {"cached_tokens": counts["cached"]}
            if counts["reasoning"]:
                usage["output_tokens_details"] = {"reasoning_tokens": counts["reasoning"]}
            metadata["usage"] = usage
        return metadata


#: The same in the package for TypeScript, so that a task may go on in a core of the other language.
_usage_key = "async-task-service-client/core"


def to_wire_state(state: Any, usage: UsageMeter) -> Any:
    """The state of an interrupt as it is sent: the author's own, with the usage so far if there is any."""
    return state if usage.kept is None else {_usage_key: usage.kept, "state": state}


def from_wire_state(wire: Any) -> Tuple[Any, UsageMeter]:
    kept = wire.get(_usage_key) if isinstance(wire, dict) else None
    if not isinstance(kept, dict):
        return wire, UsageMeter()
    return wire.get("state"), UsageMeter(kept.get("counts"), kept.get("model"))


def to_turn(result: Any) -> JsonObject:
    """A result as a turn: itself, or that of a text. Only a turn of the author has messages and metadata yet."""
    if _is_turn(result):
        return dict(result)
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, allow_nan=False)
    return {"output": [{"type": "text", "text": text}] if text else []}


def to_whole_turn(turn: JsonObject, messages: Sequence[JsonObject], usage: UsageMeter) -> JsonObject:
    """A turn as it is stored, with what was used.

    A later task continues the conversation with its messages, so those that the author did not give are ``messages``,
    the conversation before it, and its text.
    """
    own = turn.get("messages")
    return {
        **turn,
        "messages": [*messages, {"role": "assistant", "content": output_text({"turn": turn})}] if own is None else own,
        "metadata": {**usage.metadata, **(turn.get("metadata") or {})},
    }


#: Bytes of a JSON text that the service reads.
_max_words = 1024 * 1024


def _words_of(failure: Failure) -> str:
    """Words that the service can store: what it cannot is U+FFFD, and what is too long is cut."""
    given = "" if failure.args == (None,) else str(failure)
    words = given.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    size = len(json.dumps(words))
    while size > _max_words:
        words = words[: len(words) * _max_words // size]
        size = len(json.dumps(words))
    return words


def failure_of(error: BaseException) -> JsonObject:
    """The fields of the event that ends a run which raised ``error``. Only the message of a ``Failure`` is for the user."""
    if isinstance(error, AssistantNotAvailable):
        return {"type": "failed", "code": "assistant_not_found"}
    if isinstance(error, InsufficientBalance):
        return {"type": "failed", "code": "payment_required"}
    if isinstance(error, Failure):
        return {"type": "failed", "code": "internal", "message": _words_of(error)}
    return {"type": "failed", "code": "internal"}
