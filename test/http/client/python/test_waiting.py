import time
import unittest
from typing import List

import async_task_service_client as package
from async_task_service_client._deadline import Deadline, Outage
from scripted_service import TASK, Handler, Received, ScriptedTest


class Recorded(Deadline):
    """Records delays instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: List[float] = []

    def sleep(self, seconds: float) -> None:
        self.delays.append(seconds)


class Outages(unittest.TestCase):
    def test_their_pauses_grow_until_a_call_succeeds_and_end_at_a_final_error(self) -> None:
        deadline = Recorded()
        outage = Outage(deadline)
        for _ in range(7):
            outage.pause_after(package.ConnectionError("lost"))
        outage.end()
        outage.pause_after(package.ServerError(503, "down", {}))
        for delay, expected in zip(deadline.delays, [1, 2, 4, 8, 16, 30, 30, 1]):
            self.assertAlmostEqual(delay, expected, delta=expected / 4)
        with self.assertRaises(package.NotFoundError):
            outage.pause_after(package.NotFoundError(404, "none", {}))


class Waiting(ScriptedTest):
    def test_it_polls_at_most_once_a_second_when_the_poll_is_not_held(self) -> None:
        self.service.script = lambda _, handler, number: handler.answer(
            200, {**TASK, "status": "processing"} if number < 2 else TASK
        )
        self.assertEqual(self.client.tasks.wait_for("u")["status"], "completed")
        first, second = (received.at for received in self.service.received)
        self.assertGreaterEqual(second - first, 0.5)
        self.assertEqual(self.service.received[0].path, "/api/tasks/u?wait=25")

    def test_the_time_for_which_the_service_holds_a_poll_is_added_to_the_timeout(self) -> None:
        self.service.script = lambda _, handler, __: (time.sleep(0.3), handler.answer(200, TASK))
        client = self.client.with_options(timeout=0.1, max_retries=0)
        self.assertEqual(client.tasks.wait_for("u")["status"], "completed")

    def test_it_continues_through_an_outage_but_not_after_a_final_error(self) -> None:
        self.service.script = lambda _, handler, number: handler.drop() if number == 1 else handler.answer(200, TASK)
        self.assertEqual(self.client.with_options(max_retries=0).tasks.wait_for("u")["status"], "completed")
        self.answers(404, {})
        with self.assertRaises(package.NotFoundError):
            self.client.tasks.wait_for("u")

    def test_it_ends_with_a_TimeoutError_at_its_deadline(self) -> None:
        scripts = {
            "a held poll": lambda _, handler, __: handler.hang(),
            "polls that are not held": lambda _, handler, __: handler.answer(200, {**TASK, "status": "pending"}),
            "an outage": lambda _, handler, __: handler.answer(503, {}, retry_after="30"),
        }
        for name, script in scripts.items():
            with self.subTest(name):
                self.service.script = script  # type: ignore[assignment]
                started_at = time.monotonic()
                with self.assertRaisesRegex(package.TimeoutError, "The task u has not ended within 0.4 s"):
                    self.client.tasks.wait_for("u", timeout=0.4)
                self.assertLess(time.monotonic() - started_at, 2)


class Pages(ScriptedTest):
    def test_they_are_requested_lazily_and_a_task_that_moved_is_yielded_once(self) -> None:
        rows = [["a", "b"], ["b", "c"], ["d"]]

        def script(received: Received, handler: Handler, _: int) -> None:
            number = int(received.path.split("page=")[1].split("&")[0])
            meta = {"current_page": number, "per_page": 2, "last_page": 3, "total": 5}
            handler.answer(200, {"data": [{"uuid": uuid} for uuid in rows[number - 1]], "meta": meta})

        self.service.script = script
        found = self.client.tasks.list(per_page=2, status=["completed", "failed"], metadata={"a": "b c"})
        self.assertEqual((len(found.data), found.has_next_page, found.meta["total"]), (2, True, 5))
        self.assertEqual(len(self.service.received), 1)
        self.assertEqual([task["uuid"] for task in found], ["a", "b", "c", "d"])
        self.assertEqual(len(self.service.received), 3)
        expected = "/api/tasks?page=1&per_page=2&status=completed%2Cfailed&metadata%5Ba%5D=b+c"
        self.assertEqual(self.service.received[0].path, expected)
