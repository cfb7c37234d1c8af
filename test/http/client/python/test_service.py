"""The client against the whole service with its built-in core and demo assistants."""

import os
import threading
import unittest
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, List

from async_task_service_client import (
    ConflictError,
    NotFoundError,
    TaskServiceClient,
    TimeoutError,
    ValidationError,
    output_text,
    verify_webhook,
)


def ask(text: str, assistant_id: int = 1, **more: Any) -> Any:
    return {"assistant_id": assistant_id, "input": [{"type": "text", "text": text}], **more}


class Service(unittest.TestCase):
    client = TaskServiceClient(os.environ["TASK_SERVICE_URL"], os.environ["TASK_SERVICE_TOKEN"])

    def test_run_answers_tools_and_reports_one_that_raises(self) -> None:
        def weather(city: str) -> object:
            return {"city": city, "sky": "clear"}

        def clock() -> None:
            raise RuntimeError("no battery")

        updates: List[str] = []
        with self.assertLogs("async_task_service_client"):
            task = self.client.tasks.run(
                ask("call weather, clock and nothing", 2),
                tools={"weather": weather, "clock": clock},
                on_update=lambda task: updates.append(task["status"]),
            )
        self.assertEqual(task["status"], "completed")
        expected = 'call_weather answered {"city":"call weather, clock and nothing","sky":"clear"}'
        self.assertIn(expected, output_text(task))
        self.assertIn('call_clock failed with "no battery"', output_text(task))
        # A status that changes again within a moment may be missed.
        self.assertEqual([each for each in updates if each in ("interrupted", "completed")], ["interrupted", "completed"])

    def test_wait_for_stops_at_an_interrupt_and_the_task_is_canceled(self) -> None:
        def interrupt() -> str:
            body = ask("call look", 2, client_tools=[{"type": "function", "name": "look"}])
            uuid = self.client.tasks.create(body)["uuid"]
            task = self.client.tasks.wait_for(uuid)
            self.assertEqual((task["status"], task["pending_tool_calls"][0]["name"]), ("interrupted", "look"))
            return uuid

        uuid = interrupt()
        self.assertEqual(self.client.tasks.cancel(uuid, reason="no"), {"uuid": uuid, "status": "canceled"})
        self.assertEqual(self.client.tasks.get(uuid)["error"], "no")
        with self.assertRaises(ConflictError):
            self.client.tasks.cancel(uuid)
        other = interrupt()
        self.assertEqual(self.client.tasks.cancel_interrupted(), {"canceled": 1, "uuids": [other]})

    def test_the_text_arrives_while_it_is_written(self) -> None:
        texts: List[Any] = []
        task = self.client.tasks.run(ask("3", 3), on_text=lambda *given: texts.append(given))
        self.assertEqual(task["status"], "completed")
        self.assertGreater(len(texts), 1)
        self.assertEqual(texts[-1][0], output_text(task))

    def test_a_wait_ends_at_its_timeout_and_the_task_goes_on(self) -> None:
        uuid = self.client.tasks.create(ask("2", 3))["uuid"]
        with self.assertRaises(TimeoutError):
            self.client.tasks.wait_for(uuid, timeout=0.2)
        events = list(self.client.tasks.events(uuid))
        self.assertEqual((events[0]["event"], events[-1]["event"]), ("pending", "completed"))
        self.assertEqual(list(self.client.tasks.events(uuid, after=events[-2]["revision"])), events[-1:])
        self.assertEqual(list(self.client.tasks.events(uuid, after=99)), [])

    def test_paths_files_bytes_and_iterators_are_uploaded_with_progress(self) -> None:
        content = b"a" * (3 * 1024 * 1024)
        with TemporaryDirectory() as folder:
            path = Path(folder, "a file.txt")
            path.write_bytes(content)
            with path.open("rb") as opened:
                chunks = (content[at : at + 100_000] for at in range(0, len(content), 100_000))
                sources: List[Any] = [path, opened, content, chunks]
                for source, total in zip(sources, [len(content)] * 3 + [None]):
                    progress: List[Any] = []
                    uploaded = self.client.files.upload(
                        source,
                        name='a "quoted".txt',
                        on_progress=lambda *given, progress=progress: progress.append(given),  # type: ignore[misc]
                    )
                    self.assertEqual(uploaded["file"]["mime_type"], "text/plain")
                    self.assertEqual(progress[-1], (len(content), total))
                    with urllib.request.urlopen(self.client.files.url(uploaded)) as download:
                        self.assertTrue(download.read() == content)
        self.assertEqual(self.client.tasks.run({"assistant_id": 1, "input": [uploaded]})["status"], "completed")

    def test_a_file_of_another_format_is_refused_with_its_field(self) -> None:
        with self.assertRaises(ValidationError) as raised:
            self.client.files.upload(bytes(3 * 1024 * 1024), name="virus.exe")
        self.assertEqual(list(raised.exception.errors), ["file"])

    def test_tasks_are_labeled_found_repeated_and_deleted(self) -> None:
        uuid = self.client.tasks.run(ask("echo x", metadata={"n": "1"}))["uuid"]
        again = self.client.tasks.rerun(uuid, {"metadata": {"n": "2"}})["uuid"]
        found = [
            (task["uuid"], task["metadata"])
            for task in self.client.tasks.list(metadata={"n": "2"}, include=["metadata"])
        ]
        self.assertEqual(found, [(again, {"n": "2"})])
        task = self.client.tasks.get(uuid, include=["request", "usage"])
        request, usage = task["request"], task["usage"]
        assert request is not None and usage is not None
        self.assertEqual(request["input"], ask("echo x")["input"])
        self.assertTrue(usage["is_final"])
        self.client.tasks.delete(uuid)
        with self.assertRaises(NotFoundError):
            self.client.tasks.get(uuid)

    def test_lists_have_all_pages_and_filters(self) -> None:
        made = {self.client.tasks.run(ask(f"echo {n}", metadata={"list": "all"}))["uuid"] for n in range(3)}
        pages = self.client.tasks.list(metadata={"list": "all"}, status="completed", per_page=2)
        self.assertEqual((pages.meta["total"], pages.has_next_page), (3, True))
        self.assertEqual({task["uuid"] for task in pages}, made)

    def test_numbers_keep_their_digits(self) -> None:
        def look() -> object:
            return {"order": 1234567890123456789}

        task = self.client.tasks.run(ask("call look", 2), tools={"look": look})
        self.assertEqual(task["status"], "completed")

    def test_schedules(self) -> None:
        schedules = self.client.schedules
        task = ask("echo x")
        made = schedules.create({"type": "once", "delay": 900, "key": "k", "task": task})
        self.assertEqual((made["state"], made["key"]), ("active", "k"))
        put = schedules.put("k", {"type": "once", "delay": 1200, "task": task})
        self.assertEqual((put["id"], put["delay"]), (made["id"], 1200))
        paused = schedules.pause(made["id"], reason="later")["paused_reason"]
        assert paused is not None
        self.assertEqual(paused["message"], "later")
        self.assertEqual([found["id"] for found in schedules.list(state=["active", "paused"])], [made["id"]])
        self.assertEqual(schedules.resume(made["id"])["state"], "active")
        self.assertEqual(schedules.update(made["id"], {"name": "n"})["name"], "n")
        self.assertIn("upcoming", schedules.get(made["id"]))
        uuid = schedules.trigger(made["id"])["uuid"]
        self.assertEqual([run["task_uuid"] for run in schedules.runs(made["id"])], [uuid])
        self.assertEqual(len(schedules.preview("0 9 * * MON", timezone="Europe/Berlin", count=3)), 3)
        schedules.delete(made["id"])
        with self.assertRaises(NotFoundError):
            schedules.get(made["id"])

    def test_usage(self) -> None:
        self.client.tasks.run(ask("echo x"))
        usage = self.client.usage.get(step="total", group_by=["model"])
        self.assertGreater(usage["totals"]["total_tokens"], 0)
        self.assertIn("model", usage["data"][0]["group"])

    def test_webhooks_of_the_service_are_verified_and_sent_again(self) -> None:
        secrets = ["a secret, é", "whsec_YSBrZXkgb2YgdGhpcyBtYW55IGJ5dGVz"]
        received: List[Any] = []
        arrived = threading.Semaphore(0)

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.append(verify_webhook(body, self.headers, secrets))
                self.send_response(204)
                self.end_headers()
                arrived.release()

            def log_message(self, *_: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        for secret in secrets:
            task = self.client.tasks.run(ask("echo x", callback_url=url, callback_secret=secret))
            self.assertTrue(arrived.acquire(timeout=20))
            self.assertEqual(received[-1].task["uuid"], task["uuid"])
        [delivery] = self.client.tasks.deliveries(task["uuid"])
        self.client.tasks.redeliver(task["uuid"], delivery["id"], callback_secret=secret)
        self.assertTrue(arrived.acquire(timeout=20))
        self.assertEqual([webhook.id for webhook in received[1:]], [delivery["id"]] * 2)
