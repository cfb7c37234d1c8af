"""Plain Python over an OpenAI-compatible endpoint: a loop of the model and a tool; client tools interrupt the task."""

import json
import os
import urllib.request

from async_task_service_client.core import serve_core

URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
MODEL = os.environ["OPENAI_MODEL"]
HEADERS = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}


def weather(city):
    return {"city": city, "sky": "clear"}


WEATHER = {
    "name": "weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def complete(run, messages):
    """One message of the model, shown as it is written."""
    fields = ("name", "description", "parameters")
    functions = [WEATHER, *({key: tool[key] for key in fields if tool.get(key)} for tool in run.client_tools)]
    body = {
        "model": MODEL,
        "messages": messages,
        "tools": [{"type": "function", "function": function} for function in functions],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    message, calls = {"role": "assistant", "content": ""}, {}
    request = urllib.request.Request(URL, json.dumps(body).encode(), HEADERS)
    with urllib.request.urlopen(request, timeout=300) as lines:
        for line in lines:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            chunk = json.loads(line[6:])
            if chunk.get("usage"):
                run.usage(chunk["usage"])
            for choice in chunk["choices"]:
                delta = choice["delta"]
                if delta.get("content"):
                    message["content"] += delta["content"]
                    run.text(delta["content"])  # Raises when the run was stopped.
                for part in delta.get("tool_calls") or []:
                    call = calls.setdefault(part["index"], {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
                    call["id"] = part.get("id") or call["id"]
                    for key, text in (part.get("function") or {}).items():
                        call["function"][key] += text or ""
    return {**message, "tool_calls": list(calls.values())} if calls else message


def result(call_id, output):
    return {"role": "tool", "tool_call_id": call_id, "content": json.dumps(output)}


def answer(run):
    run.usage(model=MODEL)
    messages = list(run.messages)
    if run.resumed:
        messages = run.state + [result(given["tool_call_id"], given["output"]) for given in run.results]
    while True:
        message = complete(run, messages)
        messages.append(message)
        calls = [
            {"id": call["id"], "name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"] or "{}")}
            for call in message.get("tool_calls", [])
        ]
        messages += [result(call["id"], weather(**call["arguments"])) for call in calls if call["name"] == "weather"]
        clients = [call for call in calls if call["name"] != "weather"]
        if clients:
            return run.interrupt(calls=clients, state=messages)
        if not calls:
            return message["content"]


serve_core(answer, runs=4)
