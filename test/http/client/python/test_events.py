import json
import threading
import time

import async_task_service_client as package
from async_task_service_client._event_stream import read
from scripted_service import Handler, Received, ScriptedTest


def event(revision: int, status: str) -> str:
    data = f'{{"uuid":"u","revision":{revision},"status":"{status}","occurred_at":""}}'
    return f"id: {revision}\nevent: {status}\ndata: {data}\n\n"


class Events(ScriptedTest):
    def test_they_resume_when_the_stream_breaks_ends_early_or_is_refused_with_503(self) -> None:
        def script(_: Received, handler: Handler, number: int) -> None:
            if number == 1:
                handler.start(200, content_type="text/event-stream", transfer_encoding="chunked")
                text = f"retry: 2000\n\n: hello\n\n{event(0, 'pending')}id: 1\r\nevent: proc".encode()
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
                handler.drop()
            elif number == 2:
                handler.stream(event(1, "processing").replace("\n", "\r\n"))
            elif number == 3:
                handler.answer(503, {}, retry_after="0")
            else:
                handler.stream(event(2, "completed"))

        self.service.script = script
        seen = [f"{found['revision']} {found['event']}" for found in self.client.tasks.events("u")]
        self.assertEqual(seen, ["0 pending", "1 processing", "2 completed"])
        resumed = [received.headers.get("last-event-id") for received in self.service.received]
        self.assertEqual(resumed, [None, "0", "1", "1"])

    def test_a_text_goes_on_where_the_stream_broke_and_repeats_nothing(self) -> None:
        def text(identifier: str, offset: int, part: str, more: str = "") -> str:
            data = f'{{"offset":{offset},"text":{json.dumps(part)}{more}}}'
            return f"id: {identifier}\nevent: text\ndata: {data}\n\n"

        def script(_: Received, handler: Handler, number: int) -> None:
            if number == 1:
                handler.stream(event(0, "pending") + text("0.2", 0, "Be") + text("0.4", 2, "\ud83d\ude00"))
            elif number == 2:
                handler.stream(text("0.6", 2, "\ud83d\ude00!!") + text("0.3", 0, "Bye", ',"replaced":true'))
            else:
                handler.stream(text("0.4", 3, "?") + event(1, "completed"))

        self.service.script = script
        replaced = []
        parts = list(self.client.tasks.text("u", on_replaced=lambda: replaced.append(1)))
        self.assertEqual(parts, ["Be", "\U0001f600", "!!", "Bye", "?"])
        self.assertEqual(len(replaced), 1)
        self.assertEqual([received.headers.get("last-event-id") for received in self.service.received], [None, "0.4", "0.3"])
        self.assertEqual(self.service.received[0].path, "/api/tasks/u/events?include=text")

    def test_they_end_when_none_is_left(self) -> None:
        self.service.script = lambda _, handler, __: handler.start(204)
        self.assertEqual(list(self.client.tasks.events("u", after=7)), [])
        self.assertEqual(self.service.received[0].headers["last-event-id"], "7")

    def test_an_error_that_is_final_is_raised(self) -> None:
        self.answers(403, {"message": "No."})
        with self.assertRaises(package.PermissionDeniedError):
            next(self.client.tasks.events("u"))

    def test_they_connect_again_when_the_service_does_not_respond(self) -> None:
        self.service.script = lambda _, handler, number: (
            handler.hang() if number == 1 else handler.stream(event(0, "completed"))
        )
        events = self.client.with_options(timeout=0.1, max_retries=0).tasks.events("u")
        self.assertEqual(next(events)["event"], "completed")

    def test_they_end_with_a_TimeoutError_at_their_deadline(self) -> None:
        def silent(_: Received, handler: Handler, __: int) -> None:
            handler.stream(event(0, "pending"))
            handler.hang()

        self.service.script = silent
        events = self.client.tasks.events("u", timeout=0.5)
        self.assertEqual(next(events)["event"], "pending")
        with self.assertRaisesRegex(package.TimeoutError, "The task u has not ended within 0.5 s"):
            next(events)

    def test_one_that_arrives_in_thousands_of_chunks_is_read_in_linear_time(self) -> None:
        data = '{"text": "\u2028' + "a" * (16 * 1024 * 1024) + '"}'
        bytes_ = f"event: progress\r\ndata:{data}\r\n\r\n".encode()
        chunks = iter([*(bytes_[at : at + 8192] for at in range(0, len(bytes_), 8192)), b""])
        started_at = time.monotonic()
        [found] = read(lambda: next(chunks))
        self.assertTrue(found.data == data)
        self.assertLess(time.monotonic() - started_at, 10)

    def test_they_are_the_same_whatever_the_chunks_and_the_line_ends(self) -> None:
        expected = [("progress", '{"text": "é"}'), ("message", "one\n two\u2028")]
        for end in ("\n", "\r", "\r\n"):
            lines = [
                "id: 1",
                "event: progress",
                'data: {"text": "é"}',
                "",
                ": hello",
                "data:one",
                "data:  two\u2028",
                "",
                "x",
            ]
            sent = end.join(lines).encode()
            for size in range(1, len(sent)):
                chunks = iter([*(sent[at : at + size] for at in range(0, len(sent), size)), b""])
                self.assertEqual([(found.event, found.data) for found in read(chunks.__next__)], expected)

    def test_the_connection_closes_when_the_consumer_stops(self) -> None:
        closed = threading.Event()

        def script(_: Received, handler: Handler, __: int) -> None:
            handler.stream(event(0, "pending"))
            handler.hang()
            closed.set()

        self.service.script = script
        for _ in self.client.tasks.events("u"):
            break
        self.assertTrue(closed.wait(5))
