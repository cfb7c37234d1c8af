"""Client tools as functions: their definitions for the model, and the results of its calls."""

import collections.abc
import inspect
import json
import logging
from dataclasses import dataclass
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Literal,
    Mapping,
    Optional,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from .types import ClientTool, CreateTask, JsonObject, PendingToolCall, Task, ToolResult

logger = logging.getLogger("async_task_service_client")

#: Called with the arguments of the call by name. The output must serialize to JSON; an exception becomes an error
#: result, which the model receives.
ToolFunction = Callable[..., object]


@dataclass(frozen=True)
class Tool:
    """A function with what the model is told of it. Without a description or parameters, those of the function."""

    execute: ToolFunction
    description: Optional[str] = None
    #: JSON Schema of the arguments, an object.
    parameters: Optional[JsonObject] = None


Tools = Mapping[str, Union[ToolFunction, Tool]]

_types = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def _schema_of(hint: Any) -> JsonObject:
    """The JSON Schema of an annotation; empty for one that it has no words for."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (list, collections.abc.Sequence):
        return {"type": "array", "items": _schema_of(arguments[0])}
    others = [argument for argument in arguments if argument is not type(None)]
    if len(others) == 1 < len(arguments):
        return _schema_of(others[0])
    name = _types.get(origin or hint)
    return {} if name is None else {"type": name}


def _parameters_of(function: ToolFunction) -> Optional[JsonObject]:
    try:
        given = inspect.signature(function).parameters.values()
        hints = get_type_hints(function)
    except (NameError, TypeError, ValueError):
        return None
    named = [one for one in given if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    return {
        "type": "object",
        "properties": {one.name: _schema_of(hints.get(one.name)) for one in named},
        "required": [one.name for one in named if one.default is one.empty],
    }


def _as_tool(tool: Union[ToolFunction, Tool]) -> Tool:
    return tool if isinstance(tool, Tool) else Tool(tool)


def _definition_of(name: str, given: Union[ToolFunction, Tool]) -> ClientTool:
    tool = _as_tool(given)
    if not callable(tool.execute):
        raise TypeError(f"The tool {name} is neither a function nor a Tool")
    if inspect.iscoroutinefunction(tool.execute):
        raise TypeError(f"The tool {name} is a coroutine function. Pass lambda **given: asyncio.run({name}(**given))")
    definition: ClientTool = {"type": "function", "name": name}
    description = tool.description or inspect.getdoc(tool.execute)
    parameters = tool.parameters or _parameters_of(tool.execute)
    if description is not None:
        definition["description"] = description
    if parameters is not None:
        definition["parameters"] = parameters
    return definition


def _name_of(definition: Mapping[str, Any]) -> object:
    nested = definition.get("function")
    return definition.get("name", nested.get("name") if isinstance(nested, dict) else None)


def declare(body: CreateTask, tools: Tools) -> CreateTask:
    """Adds a definition of each tool that the request body does not define."""
    if not isinstance(tools, Mapping):
        raise TypeError("tools must be a dictionary of functions by their names")
    declared = list(body.get("client_tools") or [])
    names = {_name_of(cast(Mapping[str, Any], definition)) for definition in declared}
    missing = [_definition_of(name, tool) for name, tool in tools.items() if name not in names]
    if not missing:
        return body
    return cast(CreateTask, {**body, "client_tools": [*declared, *missing]})


def _execute_one(call: PendingToolCall, tools: Tools) -> Dict[str, Any]:
    if call["name"] not in tools:
        return {"output": f"There is no tool named {call['name']}", "is_error": True}
    try:
        output = _as_tool(tools[call["name"]]).execute(**call["arguments"])
        return {"output": json.loads(json.dumps(output, allow_nan=False))}
    except Exception as error:
        logger.warning("The tool %s failed; the model receives its error", call["name"], exc_info=True)
        return {"output": str(error) or type(error).__name__, "is_error": True}


def execute(task: Task, tools: Tools) -> List[ToolResult]:
    """Executes all pending calls, one after the other."""
    calls = task.get("pending_tool_calls", [])
    return [cast(ToolResult, {"tool_call_id": call["id"], **_execute_one(call, tools)}) for call in calls]
