import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, List, Optional, Tuple

from async_task_service_client import core as package
from async_task_service_client._core_outcome import failure_of
from async_task_service_client._core_server import Server
from async_task_service_client.core import Core, Run, create_core
from scripted_service import Handler, Received, ScriptedTest

TOKEN, EVENT_TOKEN = "token-for-the-core", "token-for-events"


class Cores(ScriptedTest):
    """A core that is called as the service calls it, with the events of its runs at a scripted service."""

    def setUp(self) -> None:
        super().setUp()
        self.events: List[Dict[str, Any]] = []
        #: How many events each request had.
        self.batches: List[int] = []
        #: Answers an event with a status and more fields.
        self.answer: Callable[[Dict[str, Any]], Tuple[int, Dict[str, Any]]] = lambda _: (200, {})
        self.service.script = self.receive

    def receive(self, received: Received, handler: Handler, _: int) -> None:
        if received.path == "/api/storage/base":
            return handler.answer(200, {"url": f"{self.service.url}/s"})
        if received.path == "/s/a/b.txt":
            return handler.send(200, b"content")
        is_known = received.headers.get("authorization") == f"Bearer {EVENT_TOKEN}"

        def take(event: Dict[str, Any]) -> Tuple[int, Dict[str, Any]]:
            status, fields = self.answer(event) if is_known else (401, {})
            self.events.append({**event, "at": received.at, "answered": status})
            return status, {"status": "processing", "applied": True, **fields}

        body = json.loads(received.body)
        self.batches.append(len(body.get("events", [body])))
        if "events" not in body:
            return handler.answer(*take(body))
        results = []
        for event in body["events"]:
            status, fields = take(event)
            is_over = status == 409
            error = {"message": "No", "code": "no", "status": "canceled" if is_over else status}
            results.append(fields if status == 200 else error)
        handler.answer(200, {"results": results})

    def core(self, work: Callable[[Run], Any], **options: Any) -> Core:
        core = create_core(work, **{"token": TOKEN, "event_token": EVENT_TOKEN, **options})
        self.addCleanup(core.close, 0)
        return core

    def body(self, **more: Any) -> Dict[str, Any]:
        deadline = datetime.now(timezone.utc) + timedelta(hours=1)
        return {
            "task_id": str(uuid.uuid4()),
            "run_id": str(uuid.uuid4()),
            "assistant_id": 1,
            "input": [{"type": "text", "text": "Hello"}],
            "turns": [],
            "client_tools": [],
            "user": {"sub": "user-1"},
            "user_token": "token-of-the-user",
            "deadline_at": deadline.isoformat().replace("+00:00", "Z"),
            "events_url": f"{self.service.url}/internal/core/events",
            "resume": None,
            **more,
        }

    def post(self, core: Core, path: str, body: Any, token: str = TOKEN) -> Any:
        return core.handle("POST", path, f"Bearer {token}", lambda: json.dumps(body).encode())

    def start(self, core: Core, **more: Any) -> str:
        body = self.body(**more)
        self.assertEqual(self.post(core, "/runs", body).status, 202)
        return str(body["run_id"])

    def of(self, run_id: str, kind: Optional[str] = None) -> List[Dict[str, Any]]:
        return [event for event in list(self.events) if event["run_id"] == run_id and kind in (None, event["type"])]

    def until(self, found: Callable[[], Any], seconds: float = 10) -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = found()
            if value:
                return value
            time.sleep(0.01)
        self.fail(f"not within {seconds} s: {self.events}")

    def outcome(self, work: Callable[[Run], Any], kind: str = "completed", **more: Any) -> Dict[str, Any]:
        run_id = self.start(self.core(work), **more)
        event: Dict[str, Any] = self.until(lambda: [e for e in self.of(run_id, kind) if e["answered"] == 200])[-1]
        return event

    def test_the_run_has_the_fields_of_the_hand_over(self) -> None:
        seen: List[Run] = []
        core = self.core(seen.append)
        body = self.body(
            input=[{"type": "text", "text": "One"}, {"type": "file", "file": {}}, {"type": "text", "text": "Two"}],
            turns=[{"role": "user", "content": "before"}, {"role": "tool", "content": "x"}],
            options={"max_output_tokens": 5},
            llm_model_id=7,
        )
        self.post(core, "/runs", body)
        run = self.until(lambda: seen)[0]
        self.assertEqual((run.task_id, run.run_id, run.assistant_id), (body["task_id"], body["run_id"], 1))
        self.assertEqual((run.prompt, run.input, run.turns), ("One\n\nTwo", body["input"], body["turns"]))
        texts = [{"role": "user", "content": "before"}, {"role": "user", "content": "One\n\nTwo"}]
        self.assertEqual(run.messages, texts)
        self.assertEqual((run.user, run.user_token), ({"sub": "user-1"}, "token-of-the-user"))
        self.assertEqual((run.options, run.llm_model_id, run.image_generator_id), ({"max_output_tokens": 5}, 7, None))
        self.assertEqual((run.resumed, run.results, run.state), (False, [], None))
        self.assertEqual(run.deadline, datetime.fromisoformat(body["deadline_at"].replace("Z", "+00:00")))

    def test_a_run_begins_when_its_acceptance_is_answered_and_repeats_events_with_their_ids(self) -> None:
        begun: List[str] = []
        self.answer = lambda _: (503 if len(self.events) < 2 else 200, {})
        event = self.outcome(lambda run: begun.append(run.run_id) or "x")
        kinds = [e["type"] for e in self.of(event["run_id"])]
        self.assertEqual(kinds, ["processing", "processing", "processing", "completed"])
        self.assertEqual(len({e["event_id"] for e in self.of(event["run_id"])}), 2)
        self.assertEqual(len(begun), 1)

    def test_results_become_turns(self) -> None:
        for result, text in (("Hi", "Hi"), ({"answer": 42}, '{"answer": 42}'), ({"messages": []}, '{"messages": []}'), (7, "7"), ([], "[]")):
            turn = self.outcome(lambda _, result=result: result)["turn"]
            said = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
            self.assertEqual(turn["output"], [{"type": "text", "text": text}])
            self.assertEqual(turn["messages"], [*said, {"role": "assistant", "content": text}])
        output = [{"type": "text", "text": "a"}, {"type": "image", "file": {"id": "1"}}]
        turn = self.outcome(lambda _: {"output": output, "messages": None, "metadata": {"model": "m"}})["turn"]
        self.assertEqual((turn["output"], turn["metadata"]), (output, {"model": "m"}))
        self.assertEqual(turn["messages"], [*said, {"role": "assistant", "content": "a"}])

    def test_without_a_result_the_text_is_the_result(self) -> None:
        def work(run: Run) -> None:
            run.text("Hel")
            run.text("lo")

        self.assertEqual(self.outcome(work)["turn"]["output"][0]["text"], "Hello")

    def test_the_stored_turn_continues_the_conversation(self) -> None:
        turns = [{"role": "user", "content": "before"}, {"role": "assistant", "content": "Yes"}]
        said = [*turns, {"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
        calls, report = [{"name": "look"}], {"input_tokens": 1, "output_tokens": 2}

        def turn_of(text: str) -> Dict[str, Any]:
            return {"output": [{"type": "text", "text": text}]}

        def fail(error: Exception) -> None:
            raise error

        def check(turn: Dict[str, Any], text: str, before: Any = said) -> None:
            messages = [*before, {"role": "assistant", "content": text}]
            usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
            self.assertEqual(turn, {**turn_of(text), "messages": messages, "metadata": {"usage": usage}})

        ends: Dict[str, Tuple[str, str, Callable[[Run], Any]]] = {
            "nothing is returned": ("completed", "Hello", lambda _: None),
            "a text is returned": ("completed", "Bye", lambda _: "Bye"),
            "a turn is returned": ("completed", "Bye", lambda _: turn_of("Bye")),
            "it fails": ("failed", "Hello", lambda _: fail(package.Failure("No"))),
            "it breaks": ("failed", "Hello", lambda _: fail(ValueError("No"))),
            "it is interrupted": ("interrupted", "Hello", lambda run: run.interrupt(calls)),
            "it is interrupted with a text": ("interrupted", "Bye", lambda run: run.interrupt(calls, turn="Bye")),
            "it is interrupted with a turn": ("interrupted", "Bye", lambda run: run.interrupt(calls, turn=turn_of("Bye"))),
        }
        writes: Dict[str, Callable[[Run], Any]] = {
            "text": lambda run: (run.text("Hel"), run.text("lo")),
            "a text as progress": lambda run: run.progress("Hello"),
            "a turn as progress": lambda run: run.progress(turn_of("Hello")),
            "text after a text as progress": lambda run: (run.progress("Hel"), run.text("lo")),
            "text after a turn as progress": lambda run: (run.progress(turn_of("Hel")), run.text("lo")),
            "progress after text": lambda run: (run.text("Old"), run.progress("Hello")),
        }
        for kind, write in writes.items():

            def then(end: Callable[[Run], Any], write: Callable[[Run], Any] = write) -> Callable[[Run], Any]:
                return lambda run: (write(run), run.usage(report), end(run))[-1]

            for ending, (event_type, text, end) in ends.items():
                with self.subTest(kind, ending=ending):
                    check(self.outcome(then(end), event_type, turns=turns)["turn"], text)
            with self.subTest(kind, ending="it is stopped"):
                # As a node that knows nothing of the run, which makes the text be stored at once.
                self.answer = lambda event: (200, {"next": None} if "append" in event else {})
                core = self.core(lambda run, write=write: (run.usage(report), write(run), run.signal.wait(10)))
                run_id = self.start(core, turns=turns)

                def stored(run_id: str = run_id) -> List[Any]:
                    found = [event.get("turn") for event in self.of(run_id, "progress")]
                    return [turn for turn in found if turn and turn["output"] == turn_of("Hello")["output"]]

                check(self.until(stored)[0], "Hello")
                self.post(core, f"/runs/{run_id}/stop", {"reason": "canceled"})
                self.answer = lambda _: (200, {})

        own = [{"role": "user", "content": "Shortened"}]
        add = [lambda run: run.progress({"output": [], "messages": own}), lambda run: run.text("Hello")]
        add.append(lambda run: run.usage(report))
        check(self.outcome(lambda run: [one(run) for one in add] and None)["turn"], "Hello", own)

    def test_usage_adds_up_also_of_objects(self) -> None:
        class Usage:
            prompt_tokens, completion_tokens, total_tokens = 100, 200, 300

        def work(run: Run) -> str:
            run.usage(model="m", input_tokens=1, output_tokens=2)
            run.usage({"input_tokens": 10, "output_tokens": 20, "input_tokens_details": {"cached_tokens": 4}})
            run.usage(Usage())
            return "x"

        usage = {"input_tokens": 111, "output_tokens": 222, "total_tokens": 333}
        metadata = self.outcome(work)["turn"]["metadata"]
        self.assertEqual(metadata, {"model": "m", "usage": {**usage, "input_tokens_details": {"cached_tokens": 4}}})

    def test_errors_are_failures_and_only_a_Failure_says_more(self) -> None:
        def raising(error: Exception) -> Callable[[Run], Any]:
            def work(run: Run) -> None:
                run.text("The answer")
                raise error

            return work

        for error, code in (
            (package.AssistantNotAvailable(), "assistant_not_found"),
            (package.InsufficientBalance(), "payment_required"),
            (package.Failure("Too long"), "internal"),
        ):
            event = self.outcome(raising(error), "failed")
            self.assertEqual((event["code"], event.get("message")), (code, str(error) or None))
            self.assertEqual(event["turn"]["output"][0]["text"], "The answer")
        with self.assertLogs("async_task_service_client.core", "ERROR") as logged:
            event = self.outcome(raising(ValueError("password")), "failed")
        self.assertNotIn("password", json.dumps(event))
        self.assertIn("password", "".join(logged.output))

    def test_the_words_of_a_Failure_are_such_that_the_service_can_store(self) -> None:
        for given, words in (
            (None, ""),
            ("a\0b\ud800c\ud83d\ude00", "a\ufffdb\ufffdc\U0001f600"),
            ("x" * 2_000_000, "x" * (1024 * 1024 - 2)),
        ):
            self.assertEqual(failure_of(package.Failure(given))["message"], words)
        mixed = failure_of(package.Failure("é\U0001f600" * 200_000))["message"]
        self.assertTrue(900_000 < len(json.dumps(mixed)) <= 1024 * 1024)

    def test_what_is_no_json_is_an_error_of_the_function(self) -> None:
        with self.assertLogs("async_task_service_client.core", "ERROR"):
            self.outcome(lambda _: {"a": object()}, "failed")

            def progressing(run: Run) -> None:
                run.progress({"output": [{"type": "text", "text": "x"}], "metadata": {"a": object()}})
                time.sleep(0.2)  # The thread of progress tries to send it, and lives on.
                raise ValueError("x")

            self.assertNotIn("turn", self.outcome(progressing, "failed"))

    def test_a_final_event_that_the_service_cannot_read_becomes_a_failure(self) -> None:
        self.answer = lambda event: (422 if event["type"] == "completed" else 200, {})
        with self.assertLogs("async_task_service_client.core", "ERROR"):
            self.assertEqual(self.outcome(lambda _: "x", "failed")["code"], "internal")

    def test_an_interrupt_keeps_state_and_usage_for_the_resumed_run(self) -> None:
        calls = [{"id": "c", "name": "look", "arguments": {"at": 1}}, {"name": "ask"}]
        event = self.outcome(lambda run: run.interrupt(calls=calls, state={"a": [1]}), "interrupted")
        self.assertEqual((event["state"], event["tool_calls"][0]), ({"a": [1]}, calls[0]))
        self.assertEqual(event["tool_calls"][1]["arguments"], {})

        def used(run: Run) -> Any:
            run.usage(input_tokens=1, output_tokens=2)
            return run.interrupt(calls=calls, state="left")

        def resumed(run: Run) -> Any:
            run.usage(input_tokens=10, output_tokens=20)
            return [run.resumed, run.state, run.results]

        state = self.outcome(used, "interrupted")["state"]
        results = [{"tool_call_id": "c", "output": True}]
        turn = self.outcome(resumed, resume={"state": state, "results": results})["turn"]
        self.assertEqual(json.loads(turn["output"][0]["text"]), [True, "left", results])
        usage = {"input_tokens": 11, "output_tokens": 22, "total_tokens": 33}
        self.assertEqual(turn["metadata"]["usage"], usage)

    def test_files_are_downloaded_with_the_token_of_the_user(self) -> None:
        file = {"id": "1", "name": "b.txt", "mime_type": "text/plain", "provider_data": {"path": "a/b.txt"}}
        turn = self.outcome(
            lambda run: run.files.download(run.input[0]).read().decode(), input=[{"type": "file", "file": file}]
        )["turn"]
        self.assertEqual(turn["output"][0]["text"], "content")
        asked = next(received for received in self.service.received if received.path == "/api/storage/base")
        self.assertEqual(asked.headers["authorization"], "Bearer token-of-the-user")

    def write(self, run: Run) -> None:
        for index in range(30):
            run.text(f"{index} ")
            time.sleep(0.01)
        self.gate.wait(10)

    def test_text_goes_as_numbered_appends_to_a_service_with_live_text(self) -> None:
        self.gate = threading.Event()
        self.answer = lambda event: (200, {"next": event["append"]["index"] + 1} if "append" in event else {})
        run_id = self.start(self.core(self.write))
        expected = "".join(f"{index} " for index in range(30))

        def appends() -> List[Dict[str, Any]]:
            return [event for event in self.of(run_id, "progress") if "append" in event]

        self.until(lambda: "".join(event["append"]["text"] for event in appends()) == expected)
        self.assertEqual([event["append"]["index"] for event in appends()], list(range(len(appends()))))
        times = [event["at"] for event in appends()]
        # One may arrive late, and the next one soon after it: on the whole there are no more than one in 40 ms.
        self.assertLessEqual(len(times), (times[-1] - times[0]) / 0.04 + 2, times)
        turn = self.until(lambda: [event for event in self.of(run_id, "progress") if "turn" in event])[-1]
        self.assertEqual((turn["turn"]["output"][0]["text"], turn["next_append"]), (expected, len(appends())))
        self.gate.set()
        self.until(lambda: self.of(run_id, "completed"))

    def test_texts_of_several_runs_go_in_one_request_and_each_run_gets_its_answer(self) -> None:
        self.gate = threading.Event()
        lost, unwanted, ends = set(), set(), []

        def answer(event: Dict[str, Any]) -> Tuple[int, Dict[str, Any]]:
            append = event.get("append")
            if append is None:
                return 200, {"next": event.get("next_append")}
            if event["run_id"] in unwanted:
                return 409, {}
            # The second append of each run is lost once.
            if append["index"] == 1 and event["event_id"] not in lost:
                lost.add(event["event_id"])
                return 503, {}
            return 200, {"next": append["index"] + 1}

        def work(run: Run) -> None:
            run.signal.on_abort(lambda: ends.append(run.run_id))
            self.write(run)

        self.answer = answer
        core = self.core(work, runs=21)
        stopped, *others = [self.start(core) for _ in range(21)]
        self.until(lambda: len(self.of(stopped, "progress")) > 2)
        unwanted.add(stopped)
        self.until(lambda: len(lost) >= 20 and max(self.batches) > 10 and ends == [stopped])
        self.gate.set()
        expected = "".join(f"{index} " for index in range(30))
        for run_id in others:
            completed = self.until(lambda: self.of(run_id, "completed"))[0]
            self.assertEqual(completed["turn"]["output"][0]["text"], expected)

    def test_text_goes_as_whole_turns_to_a_service_without_it(self) -> None:
        self.gate = threading.Event()
        run_id = self.start(self.core(self.write))
        expected = "".join(f"{index} " for index in range(30))

        def turns() -> List[Dict[str, Any]]:
            return [event for event in self.of(run_id, "progress") if "turn" in event]

        self.until(lambda: turns() and turns()[-1]["turn"]["output"][0]["text"] == expected)
        times = [event["at"] for event in turns()]
        self.assertTrue(all(later - earlier > 0.9 for earlier, later in zip(times, times[1:])), times)
        self.assertEqual(len([event for event in self.of(run_id, "progress") if "append" in event]), 1)
        self.gate.set()

    def test_a_node_that_knows_nothing_of_the_run_gets_a_turn(self) -> None:
        self.gate = threading.Event()
        self.answer = lambda event: (200, {"next": None} if "append" in event else {"next": 1})
        run_id = self.start(self.core(lambda run: (run.text("one "), self.gate.wait(10)) and None))
        turn = self.until(lambda: [event for event in self.of(run_id, "progress") if "turn" in event])[0]
        self.assertEqual((turn["turn"]["output"][0]["text"], turn["next_append"]), ("one ", 1))
        self.gate.set()

    def test_a_run_is_executed_once_and_more_than_runs_are_429(self) -> None:
        gate, begun = threading.Event(), []  # type: ignore
        core = self.core(lambda run: begun.append(run.run_id) or gate.wait(10) and "x", runs=2)
        body = self.body()
        self.assertEqual([self.post(core, "/runs", body).status for _ in range(3)], [202] * 3)
        self.start(core)
        full = self.post(core, "/runs", self.body())
        self.assertEqual((full.status, full.headers["Retry-After"]), (429, "1"))
        self.assertEqual(self.post(core, "/runs", body).status, 202)
        self.assertEqual(core.handle("GET", "/healthz", "", lambda: b"").body, {"status": "ok", "active": 2, "runs": 2})
        gate.set()
        self.until(lambda: self.of(body["run_id"], "completed"))
        self.until(lambda: core.handle("GET", "/healthz", "", lambda: b"").body["active"] == 0)
        self.assertEqual(self.post(core, "/runs", body).status, 202)
        self.assertEqual(begun.count(body["run_id"]), 1)

    def test_silence_is_declared_and_signs_of_life_are_given(self) -> None:
        gate = threading.Event()
        core = self.core(lambda _: gate.wait(10) and "x", silence_seconds=10)
        body = self.body()
        self.assertEqual(self.post(core, "/runs", body).body, {"silence_seconds": 10})
        self.assertNotIn("turn", self.until(lambda: self.of(body["run_id"], "progress"))[0])
        gate.set()
        self.assertEqual(self.post(self.core(lambda _: "x"), "/runs", self.body()).body, {"silence_seconds": 60})
        silent = self.core(lambda _: "x", silence_seconds=None)
        self.assertEqual(self.post(silent, "/runs", self.body()).body, {})

    def test_a_stop_a_409_and_the_deadline_abort_the_run(self) -> None:
        seen: List[Run] = []

        def work(run: Run) -> None:
            seen.append(run)
            while True:
                run.signal.wait(0.02)
                run.text("x")

        core = self.core(work)
        run_id = self.start(core)
        run = self.until(lambda: seen)[0]
        self.assertEqual(self.post(core, f"/runs/{run_id}/stop", {"reason": "canceled"}).status, 202)
        self.assertTrue(run.signal.wait(5))
        self.assertIsInstance(run.signal.reason, package.RunStopped)
        self.assertEqual(run.signal.reason.reason, "canceled")
        self.assertEqual(str(run.signal.reason), "The run was stopped: canceled")
        with self.assertRaises(package.RunStopped) as raised:
            run.signal.raise_if_aborted()
        self.assertEqual(raised.exception.reason, "canceled")
        self.until(lambda: self.post(core, f"/runs/{run_id}/stop", {}).status == 404)
        self.assertEqual(self.of(run_id, "failed"), [])

        self.answer = lambda event: (409 if event["type"] == "progress" else 200, {})
        self.start(core)
        self.until(lambda: len(seen) > 1 and seen[1].signal.aborted)
        self.assertEqual(seen[1].signal.reason.reason, "superseded")

        self.answer = lambda _: (200, {})
        soon = datetime.now(timezone.utc) + timedelta(seconds=0.4)
        self.start(core, deadline_at=soon.isoformat())
        self.until(lambda: len(seen) > 2 and seen[2].signal.aborted)
        self.assertEqual(seen[2].signal.reason.reason, "deadline")

    def test_a_run_whose_acceptance_is_refused_does_not_begin(self) -> None:
        begun: List[Run] = []
        self.answer = lambda _: (404, {})
        core = self.core(begun.append)
        run_id = self.start(core)
        self.until(lambda: self.of(run_id))
        core.close()
        self.assertEqual(begun, [])

    def test_coroutine_functions_share_a_loop_and_are_canceled_by_a_stop(self) -> None:
        loops, waiting, canceled = set(), threading.Event(), threading.Event()

        async def work(run: Run) -> str:
            loops.add(asyncio.get_running_loop())
            if run.prompt == "Hello":
                return "x"
            try:
                waiting.set()
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                canceled.set()
                raise
            return "never"

        core = self.core(work)
        for _ in range(2):
            run_id = self.start(core)
            self.until(lambda run_id=run_id: self.of(run_id, "completed"))
        self.assertEqual(len(loops), 1)
        run_id = self.start(core, input=[{"type": "text", "text": "wait"}])
        self.assertTrue(waiting.wait(5))
        self.post(core, f"/runs/{run_id}/stop", {"reason": "canceled"})
        self.assertTrue(canceled.wait(5))
        self.until(lambda: self.post(core, f"/runs/{run_id}/stop", {}).status == 404)
        self.assertEqual([event["type"] for event in self.of(run_id)], ["processing"])

    def test_what_leaves_the_loop_fails_its_task_and_the_loop_goes_on(self) -> None:
        async def work(run: Run) -> str:
            if run.prompt == "callback":
                asyncio.get_running_loop().call_soon(sys.exit, 1)
            if run.prompt == "stop":
                asyncio.get_running_loop().stop()
            await asyncio.sleep(0.01)
            if run.prompt in raised:
                raise raised[run.prompt]
            return "x"

        raised = {"exit": SystemExit(1), "interrupt": KeyboardInterrupt(), "cancel": asyncio.CancelledError(), "end": GeneratorExit()}
        core = self.core(work)
        with self.assertLogs("async_task_service_client.core", "ERROR"):
            for prompt in (*raised, "callback", "stop", "Hello"):
                run_id = self.start(core, input=[{"type": "text", "text": prompt}])
                end = self.until(lambda run_id=run_id: [e for e in self.of(run_id) if e["type"] in ("completed", "failed")])[0]
                self.assertEqual((end["type"], end.get("code")), ("failed", "internal") if prompt in raised else ("completed", None), prompt)
                self.until(lambda: core.handle("GET", "/healthz", "", lambda: b"").body["active"] == 0)

    def test_a_function_for_the_end_of_a_run_that_leaves_its_thread_does_not_keep_others_from_theirs(self) -> None:
        for prompt in ("early", "late"):
            begun, registered, called = threading.Event(), threading.Event(), threading.Event()

            def work(run: Run) -> None:
                begun.set()
                if run.prompt == "late":
                    run.signal.wait(10)
                run.signal.on_abort(sys.exit)
                run.signal.on_abort(called.set)
                registered.set()
                run.signal.wait(10)

            core = self.core(work)
            with self.assertLogs("async_task_service_client.core", "ERROR"):
                run_id = self.start(core, input=[{"type": "text", "text": prompt}])
                self.assertTrue((registered if prompt == "early" else begun).wait(5))
                self.assertEqual(self.post(core, f"/runs/{run_id}/stop", {}).status, 202)
                self.assertTrue(called.wait(5))

    def test_ends_by_a_signal_whenever_it_comes(self) -> None:
        program = """
import os, signal, socket, threading
from async_task_service_client import core
end = lambda: os.kill(os.getpid(), signal.SIGTERM)
core._print = lambda line: {when} if "CORE_URL" in line else None
socket.setdefaulttimeout(0.05)
core.serve_core(lambda run: "x", port=0, token="a", event_token="b")
"""
        for when in ("end()", "threading.Timer(0.2, end).start()"):
            ended = subprocess.run([sys.executable, "-c", program.replace("{when}", when)], timeout=30)
            self.assertEqual(ended.returncode, 0, when)

    def test_calls_that_are_not_allowed_or_not_readable_are_refused(self) -> None:
        core = self.core(lambda _: "x")
        for token in ("", "wrong", TOKEN + "x", EVENT_TOKEN):
            self.assertEqual(self.post(core, "/runs", {}, token).status, 401)
        for field, body in (("body", []), ("run_id", self.body(run_id=1)), ("events_url", self.body(events_url="file:///")), ("input", self.body(input=None)), ("turns", self.body(turns=5)), ("resume", self.body(resume=5)), ("resume", self.body(resume=[]))):
            answer = self.post(core, "/runs", body)
            self.assertEqual((answer.status, list(answer.body["errors"])), (422, [field]))
        self.assertEqual(core.handle("POST", "/runs", f"Bearer {TOKEN}", lambda: None).status, 413)
        self.assertEqual(core.handle("POST", "/runs", f"Bearer {TOKEN}", lambda: b"{").status, 422)
        self.assertEqual(core.handle("GET", "/runs", f"Bearer {TOKEN}", lambda: b"").status, 405)
        self.assertEqual(self.post(core, "/other", {}).status, 404)
        for token in ("old", "new"):
            self.assertEqual(self.post(self.core(lambda _: "", token="old, new"), "/runs", self.body(), token).status, 202)

    def test_a_body_whose_length_is_given_twice_is_refused(self) -> None:
        server = Server(("127.0.0.1", 0), self.core(lambda _: "x").handle)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(lambda: (server.shutdown(), server.server_close()))
        with socket.create_connection(server.server_address) as connection:
            head = f"POST /runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 2\r\n"
            connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n".encode())
            self.assertEqual(connection.recv(12), b"HTTP/1.1 400")

    def test_close_drains_and_gives_up_what_is_left_without_an_event(self) -> None:
        gate = threading.Event()
        core = self.core(lambda _: gate.wait(10) and "done")
        run_id = self.start(core)
        self.until(lambda: self.of(run_id, "processing"))
        closing = threading.Thread(target=core.close)
        closing.start()
        refused = self.until(lambda: [a for a in [self.post(core, "/runs", self.body())] if a.status == 429])[0]
        self.assertIn("Retry-After", refused.headers)
        gate.set()
        closing.join(5)
        self.assertEqual(len(self.of(run_id, "completed")), 1)

        seen: List[Run] = []

        def stubborn(run: Run) -> str:
            seen.append(run)
            run.signal.wait(10)
            return "half"

        left = self.core(stubborn)
        run_id = self.start(left)
        run = self.until(lambda: seen)[0]
        left.close(0.1)
        self.assertEqual(run.signal.reason.reason, "shutdown")
        self.assertEqual([event["type"] for event in self.of(run_id)], ["processing"])

    def test_options_are_refused_with_their_names(self) -> None:
        for options, name in (
            ({"runs": 0}, "runs"),
            ({"silence_seconds": 5}, "silence_seconds"),
            ({"drain_seconds": -1}, "drain_seconds"),
            ({"token": ""}, "CORE_TOKEN"),
            ({"event_token": ""}, "CORE_EVENT_TOKENS"),
            ({"service_url": "x"}, "service_url"),
        ):
            with self.assertRaisesRegex(ValueError, name):
                self.core(lambda _: "", **options)  # type: ignore[arg-type]
