import asyncio
import datetime
import json
from typing import Any, Callable, Dict, List, Literal, Optional

import async_task_service_client as package
from async_task_service_client import Tool
from scripted_service import BODY, TASK, Handler, Received, ScriptedTest

INTERRUPTED = {
    **TASK,
    "status": "interrupted",
    "completed_at": None,
    "pending_tool_calls": [{"id": "c", "name": "look", "arguments": {"at": "sky"}}],
}


class Run(ScriptedTest):
    def setUp(self) -> None:
        """Interrupts the task once with a call of `look`, and completes it after the results."""
        super().setUp()

        def script(received: Received, handler: Handler, _: int) -> None:
            if received.path == "/api/tasks":
                return handler.answer(201, {"uuid": "u"})
            if received.method == "POST":
                return handler.answer(200, {"uuid": "u", "status": "processing"})
            is_answered = any(other.path.endswith("/tool-results") for other in self.service.received)
            handler.answer(200, TASK if is_answered else INTERRUPTED)

        self.service.script = script

    def result_of(self, look: Any) -> Dict[str, Any]:
        self.service.received.clear()
        self.assertEqual(self.client.tasks.run(BODY, tools={"look": look})["status"], "completed")
        [sent] = [received.body for received in self.service.received if received.path.endswith("/tool-results")]
        [result] = json.loads(sent)["results"]
        self.assertEqual(result.pop("tool_call_id"), "c")
        return result

    def test_a_tool_gets_its_arguments_by_name_and_its_output_is_submitted(self) -> None:
        self.assertEqual(self.result_of(lambda at: {"seen": at}), {"output": {"seen": "sky"}})
        self.assertEqual(self.result_of(lambda **given: list(given)), {"output": ["at"]})
        self.assertEqual(self.result_of(lambda at: None), {"output": None})
        self.assertEqual(self.result_of(lambda at: 1234567890123456789), {"output": 1234567890123456789})

    def test_an_exception_and_an_output_that_is_no_JSON_are_errors_for_the_model_and_are_logged(self) -> None:
        def fails(at: str) -> None:
            raise RuntimeError("no battery")

        cycle: List[object] = []
        cycle.append(cycle)
        wrong: List[Any] = [
            fails,
            lambda: 1,
            lambda at: float("nan"),
            lambda at: datetime.datetime.now(),
            lambda at: cycle,
        ]
        for look in wrong:
            with self.assertLogs("async_task_service_client", "WARNING") as logs:
                result = self.result_of(look)
            self.assertIs(result["is_error"], True)
            self.assertIsInstance(result["output"], str)
            self.assertIn("The tool look failed", logs.output[0])
        with self.assertLogs("async_task_service_client"):
            self.assertEqual(self.result_of(fails), {"output": "no battery", "is_error": True})

    def test_a_tool_that_is_absent_is_an_error_for_the_model(self) -> None:
        self.client.tasks.run(BODY, tools={})
        [sent] = [received.body for received in self.service.received if received.path.endswith("/tool-results")]
        self.assertEqual(json.loads(sent)["results"][0]["output"], "There is no tool named look")

    def test_a_keyboard_interrupt_in_a_tool_ends_the_run(self) -> None:
        def stop(at: str) -> None:
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.client.tasks.run(BODY, tools={"look": stop})

    def test_each_status_is_reported_once(self) -> None:
        updates: List[str] = []
        self.client.tasks.run(
            BODY, tools={"look": lambda at: None}, on_update=lambda task: updates.append(task["status"])
        )
        self.assertEqual(updates, ["interrupted", "processing", "completed"])

    def test_the_whole_text_comes_before_the_end_and_the_begin_of_the_work_is_reported(self) -> None:
        for has_events in (True, False):
            polls: List[Optional[str]] = []
            answers = ["pending", *([] if has_events else ["304"]), "processing", "completed"]

            def script(received: Received, handler: Handler, _: int) -> None:
                if received.method == "POST":
                    return handler.answer(201, {"uuid": "u"})
                if "/events" in received.path:
                    if not has_events:
                        return handler.answer(403, {"message": "No."})
                    handler.stream("")
                    for status in ("pending", "processing", "completed"):
                        handler.wfile.write(f'event: {status}\ndata: {{"status": "{status}"}}\n\n'.encode())
                    return
                if "wait" in received.path:
                    polls.append(received.headers.get("if-none-match"))
                status = answers.pop(0)
                if status == "304":
                    return handler.send(304, b"")
                turn = {"output": [{"type": "text", "text": "So."}]} if status == "completed" else None
                handler.answer(200, {**TASK, "status": status, "turn": turn}, etag='"0"')

            self.service.script = script
            seen: List[str] = []
            self.client.tasks.run(
                BODY,
                on_update=lambda task: seen.append(task["status"]),
                on_text=lambda text, _: seen.append(text),
            )
            self.assertEqual(seen, ["pending", "processing", "So.", "completed"])
            self.assertEqual(polls, [] if has_events else ['"0"', '"0"', None])

    def test_it_goes_on_when_another_client_has_answered(self) -> None:
        def script(received: Received, handler: Handler, number: int) -> None:
            if received.path == "/api/tasks":
                handler.answer(201, {"uuid": "u"})
            elif received.method == "POST":
                handler.answer(409, {"message": "moved on"})
            else:
                handler.answer(200, INTERRUPTED if number == 2 else TASK)

        self.service.script = script
        self.assertEqual(self.client.tasks.run(BODY, tools={"look": lambda at: 1})["status"], "completed")

    def test_the_callers_key_belongs_to_the_creation_alone(self) -> None:
        self.client.tasks.run(BODY, tools={"look": lambda at: 1}, idempotency_key="mine")
        keys = [received.headers["idempotency-key"] for received in self.service.received if received.method == "POST"]
        self.assertEqual((keys[0], len(keys), len(set(keys))), ("mine", 2, 2))

    def declared(self, tools: Dict[str, Any], **more: Any) -> Any:
        self.service.received.clear()
        self.client.tasks.run({**BODY, **more}, tools=tools)
        return json.loads(self.service.received[0].body)["client_tools"]

    def test_a_function_is_declared_with_its_docstring_and_the_schema_of_its_signature(self) -> None:
        def look(
            at: str,
            times: int = 1,
            *,
            how: Literal["near", "far"] = "far",
            tags: Optional[List[str]] = None,
            other: Any = 0,
        ) -> None:
            """Looks at something."""

        [definition] = self.declared({"look": look})
        self.assertEqual((definition["type"], definition["name"]), ("function", "look"))
        self.assertEqual(definition["description"], "Looks at something.")
        properties = {
            "at": {"type": "string"},
            "times": {"type": "integer"},
            "how": {"enum": ["near", "far"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "other": {},
        }
        expected = {"type": "object", "properties": properties, "required": ["at"]}
        self.assertEqual(definition["parameters"], expected)

    def test_a_tool_of_its_own_words_and_one_that_the_request_defines_are_declared_so(self) -> None:
        schema = {"type": "object", "properties": {"at": {"type": "string"}}}
        tool = Tool(lambda at: 1, description="Looks.", parameters=schema)
        self.assertEqual(
            self.declared({"look": tool}),
            [{"type": "function", "name": "look", "description": "Looks.", "parameters": schema}],
        )
        for given in ({"type": "function", "function": {"name": "look"}}, {"name": "look", "inputSchema": schema}):
            self.assertEqual(self.declared({"look": tool}, client_tools=[given]), [given])

    def test_what_is_no_function_is_refused_before_the_creation(self) -> None:
        wrong: Any = {"execute": print}
        with self.assertRaisesRegex(TypeError, "The tool look is neither a function nor a Tool"):
            self.client.tasks.run(BODY, tools={"look": wrong})
        functions: Any = [print]
        with self.assertRaisesRegex(TypeError, "tools must be a dictionary of functions by their names"):
            self.client.tasks.run(BODY, tools=functions)
        self.assertEqual(self.service.received, [])

    def test_a_coroutine_function_is_refused_before_the_creation(self) -> None:
        async def look(at: str) -> int:
            return 1

        with self.assertRaisesRegex(TypeError, r"lambda \*\*given: asyncio.run\(look\(\*\*given\)\)"):
            self.client.tasks.run(BODY, tools={"look": look})
        self.assertEqual(self.service.received, [])
        self.assertEqual(self.result_of(lambda **given: asyncio.run(look(**given))), {"output": 1})


class Text(ScriptedTest):
    def follow(self, events: Callable[[Handler], object], **more: Any) -> List[Any]:
        """What `on_text` gets."""

        def script(received: Received, handler: Handler, _: int) -> None:
            if received.path == "/api/tasks":
                handler.answer(201, {"uuid": "u"})
            elif "/events" in received.path:
                events(handler)
            elif received.method == "POST":
                handler.answer(200, {"uuid": "u", "status": "processing"})
            else:
                interrupts = [other for other in self.service.received if other.path.endswith("/tool-results")]
                turn = {"output": [{"type": "text", "text": "Hello, you."}]}
                is_waiting = more.get("tools") is not None and not interrupts
                handler.answer(200, INTERRUPTED if is_waiting else {**TASK, "turn": turn})

        self.service.script = script
        texts: List[Any] = []
        self.client.tasks.run(BODY, on_text=lambda *given: texts.append(given), **more)
        return texts

    def test_it_is_reported_as_it_comes_with_what_was_added_and_whole_at_the_end(self) -> None:
        def events(handler: Handler) -> None:
            for end, part in [(0, "He"), (2, "llo"), (2, "llo")]:
                send_text(handler, end, part)
            send_text(handler, 0, "Bye", replaced=True)
            handler.wfile.write(b'event: completed\ndata: {"revision": 9, "status": "completed"}\n\n')

        texts = self.follow(lambda handler: (handler.stream(""), events(handler)))
        self.assertEqual(texts, [("He", "He"), ("Hello", "llo"), ("Bye", None), ("Hello, you.", None)])

    def test_tools_are_answered_meanwhile(self) -> None:
        def events(handler: Handler) -> None:
            handler.stream("")
            handler.wfile.write(b'event: interrupted\ndata: {"revision": 1, "status": "interrupted"}\n\n')
            send_text(handler, 0, "Hello")
            handler.wfile.write(b'event: completed\ndata: {"revision": 3, "status": "completed"}\n\n')

        seen: List[str] = []
        texts = self.follow(events, tools={"look": lambda at: seen.append(at)})
        self.assertEqual((seen, texts), (["sky"], [("Hello", "Hello"), ("Hello, you.", ", you.")]))

    def test_polling_goes_on_when_there_are_no_events(self) -> None:
        refuse = lambda handler: handler.answer(403, {"message": "No."})  # noqa: E731
        self.assertEqual(self.follow(refuse), [("Hello, you.", "Hello, you.")])

    def test_an_exception_of_the_callback_ends_the_run(self) -> None:
        def fail(text: str, delta: Optional[str]) -> None:
            raise package.ServerError(500, text, {})

        def script(received: Received, handler: Handler, _: int) -> None:
            if received.path == "/api/tasks":
                return handler.answer(201, {"uuid": "u"})
            handler.stream("")
            send_text(handler, 0, "Hello")
            handler.hang()

        self.service.script = script
        with self.assertRaisesRegex(package.ServerError, "Hello"):
            self.client.tasks.run(BODY, on_text=fail)


def send_text(handler: Handler, offset: int, text: str, **more: Any) -> None:
    data = json.dumps({"offset": offset, "text": text, **more})
    handler.wfile.write(f"id: 1.{offset + len(text)}\nevent: text\ndata: {data}\n\n".encode())
