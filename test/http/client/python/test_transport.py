import builtins
import io
import pickle
import ssl
import tempfile
import threading
import time
import tracemalloc
from email.utils import formatdate
from pathlib import Path
from typing import Any, List

import async_task_service_client as package
from async_task_service_client import TaskServiceClient
from scripted_service import BODY, TASK, Handler, Received, ScriptedTest

EXPECTED = {
    401: package.AuthenticationError,
    403: package.PermissionDeniedError,
    404: package.NotFoundError,
    409: package.ConflictError,
    413: package.ApiError,
    422: package.ValidationError,
}


class Errors(ScriptedTest):
    def test_each_status_raises_its_class_without_a_retry(self) -> None:
        for status, kind in EXPECTED.items():
            self.answers(status, {"message": "No.", "errors": {"input": ["Bad."]}}, x_request_id="r-1")
            self.service.received.clear()
            with self.assertRaises(kind) as raised:
                self.client.tasks.get("u")
            error = raised.exception
            self.assertIs(type(error), kind)
            self.assertEqual((error.status, error.message, error.request_id), (status, "No.", "r-1"))
            self.assertEqual(len(self.service.received), 1)

    def test_a_422_has_its_fields_and_shows_them(self) -> None:
        errors = {"input.0.type": ["One.", "Two."], "turns": ["Three."]}
        self.answers(422, {"message": "input.0.type: One. (and 2 more errors)", "errors": errors})
        with self.assertRaises(package.ValidationError) as raised:
            self.client.tasks.create(BODY)
        self.assertEqual(raised.exception.errors, errors)
        self.assertEqual(
            str(raised.exception),
            "input.0.type: One. (and 2 more errors)\n  input.0.type: One.\n  input.0.type: Two.\n  turns: Three.",
        )
        copy = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual((copy.errors, str(copy)), (raised.exception.errors, str(raised.exception)))

    def test_an_answer_that_is_not_from_the_service_is_an_ApiError(self) -> None:
        self.service.script = lambda _, handler, __: handler.send(418, b"<html>teapot")
        with self.assertRaisesRegex(package.ApiError, "The service answered 418"):
            self.client.tasks.get("u")

    def test_a_redirect_is_not_followed_with_the_token(self) -> None:
        self.answers(302, {}, location=self.service.url)
        with self.assertRaisesRegex(package.ApiError, "302"):
            self.client.tasks.get("u")
        self.assertEqual(len(self.service.received), 1)

    def test_an_unreachable_service_is_a_ConnectionError_also_a_builtin_one(self) -> None:
        lost = TaskServiceClient("http://127.0.0.1:1", "t", max_retries=0)
        with self.assertRaises(package.ConnectionError) as raised:
            lost.tasks.get("u")
        self.assertNotIsInstance(raised.exception, package.TimeoutError)
        self.assertIsInstance(raised.exception, builtins.ConnectionError)
        self.assertIn("http://127.0.0.1:1", str(raised.exception))

    def test_no_answer_is_a_TimeoutError_after_the_last_retry(self) -> None:
        self.service.script = lambda _, handler, __: handler.hang()
        with self.assertRaises(package.TimeoutError) as raised:
            self.client.with_options(timeout=0.1, max_retries=1).tasks.get("u")
        self.assertIsInstance(raised.exception, builtins.TimeoutError)
        self.assertEqual(len(self.service.received), 2)

    def test_the_timeout_holds_for_an_answer_that_trickles(self) -> None:
        def trickle(_: Received, handler: Handler, __: int) -> None:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for _ in range(100):
                handler.wfile.write(b"a: b\r\n")
                time.sleep(0.05)

        self.service.script = trickle
        started_at = time.monotonic()
        with self.assertRaises(package.TimeoutError):
            self.client.with_options(timeout=0.3, max_retries=0).tasks.get("u")
        self.assertLess(time.monotonic() - started_at, 2)

    def test_a_connection_that_closes_during_the_answer_is_a_ConnectionError(self) -> None:
        def cut(_: Received, handler: Handler, __: int) -> None:
            handler.start(200, content_length="100")
            handler.wfile.write(b"{")
            handler.drop()

        self.service.script = cut
        with self.assertRaises(package.ConnectionError) as raised:
            self.client.with_options(max_retries=0).tasks.get("u")
        self.assertNotIsInstance(raised.exception, package.TimeoutError)

    def test_a_base_url_without_a_scheme_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "base_url must be an http or https URL"):
            TaskServiceClient("127.0.0.1:3000", "t")

    def test_a_header_that_must_not_be_sent_is_a_ValueError_without_a_retry(self) -> None:
        with self.assertRaisesRegex(ValueError, "Invalid header value"):
            self.client.tasks.create(BODY, idempotency_key="a\nb")
        self.assertEqual(self.service.received, [])

    def test_an_answer_that_is_no_JSON_is_a_ConnectionError(self) -> None:
        for body in (b"<html>", b"\xff"):
            self.service.script = lambda _, handler, __, body=body: handler.send(200, body)  # type: ignore[misc]
            with self.assertRaises(package.ConnectionError):
                self.client.with_options(max_retries=0).tasks.get("u")

    def test_a_body_that_is_no_JSON_is_refused_without_a_request(self) -> None:
        for wrong in (float("nan"), {1}):
            with self.assertRaises((TypeError, ValueError)):
                self.client.tasks.submit_tool_results("u", [{"tool_call_id": "c", "output": wrong}])
        self.assertEqual(self.service.received, [])


class Connections(ScriptedTest):
    def test_a_base_url_may_have_a_path(self) -> None:
        TaskServiceClient(f"{self.service.url}/behind/", "t", headers={"x-tenant": "a"}).tasks.get("a/b")
        [received] = self.service.received
        self.assertEqual(received.path, "/behind/api/tasks/a%2Fb")
        self.assertEqual((received.headers["x-tenant"], received.headers["authorization"]), ("a", "Bearer t"))

    def test_https_checks_the_certificate_with_the_given_context(self) -> None:
        tls = Path(__file__).parents[3] / "kit/tls"
        served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        served.load_cert_chain(tls / "cert.pem", tls / "key.pem")
        self.service.socket = served.wrap_socket(self.service.socket, server_side=True, do_handshake_on_connect=False)
        url = self.service.url.replace("http", "https")
        with self.assertRaisesRegex(package.ConnectionError, "CERTIFICATE_VERIFY_FAILED"):
            TaskServiceClient(url, "t", max_retries=0).tasks.get("u")
        trusting = ssl.create_default_context(cafile=str(tls / "cert.pem"))
        trusting.check_hostname = False
        self.answers(200, TASK)
        strict = ssl.create_default_context(cafile=str(tls / "cert.pem"))
        with self.assertRaisesRegex(package.ConnectionError, "not valid for '127.0.0.1'"):
            TaskServiceClient(url, "t", max_retries=0, ssl_context=strict).tasks.get("u")
        self.assertEqual(TaskServiceClient(url, "t", ssl_context=trusting).tasks.get("u")["status"], "completed")

    def test_threads_share_a_client(self) -> None:
        self.service.script = lambda received, handler, _: handler.answer(200, {"uuid": received.path[-2:]})
        found: List[Any] = []
        threads = [
            threading.Thread(target=lambda n=n: found.append((n, self.client.tasks.get(f"u{n}")["uuid"])))  # type: ignore
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(found), [(n, f"u{n}") for n in range(8)])


class Retries(ScriptedTest):
    def test_408_429_and_5xx_are_retried_with_the_same_key_and_body(self) -> None:
        for status in (408, 429, 500, 502, 503, 504):
            self.service.received.clear()
            self.service.script = lambda _, handler, number, status=status: (  # type: ignore[misc]
                handler.answer(status, {"message": "later"}, retry_after="0")
                if number < 3
                else handler.answer(201, {"uuid": "u"})
            )
            self.assertEqual(self.client.tasks.create(BODY), {"uuid": "u"})
            self.assertEqual(len(self.service.received), 3)
            [key] = {received.headers["idempotency-key"] for received in self.service.received}
            self.assertRegex(key, "^[0-9a-f]{32}$")
            self.assertEqual(len({received.body for received in self.service.received}), 1)

    def test_a_broken_connection_is_retried(self) -> None:
        self.service.script = lambda _, handler, number: (
            handler.drop() if number == 1 else handler.answer(201, {"uuid": "u"})
        )
        self.assertEqual(self.client.tasks.create(BODY), {"uuid": "u"})
        self.assertEqual(*(received.headers["idempotency-key"] for received in self.service.received))

    def test_they_are_reported_with_the_seconds_of_a_429(self) -> None:
        self.answers(429, {"message": "Too many."}, retry_after="0")
        retries: List[package.Retry] = []
        with self.assertRaises(package.RateLimitError) as raised:
            TaskServiceClient(self.service.url, "t", on_retry=retries.append).tasks.create(BODY)
        self.assertEqual(raised.exception.retry_after, 0)
        self.assertEqual([(retry.number, retry.delay) for retry in retries], [(1, 0), (2, 0)])
        self.assertIsInstance(retries[0].error, package.RateLimitError)
        with self.assertLogs("async_task_service_client") as logs, self.assertRaises(package.RateLimitError):
            self.client.tasks.create(BODY)
        self.assertEqual(
            [record.getMessage() for record in logs.records],
            ["The task service refuses the request: Too many. Retry 2 in 0 s"],
        )

    def test_they_end_after_max_retries(self) -> None:
        self.answers(503, {"message": "down"}, retry_after="0")
        with self.assertRaisesRegex(package.ServerError, "down"):
            self.client.tasks.create(BODY)
        self.assertEqual(len(self.service.received), 3)
        with self.assertRaises(package.ServerError):
            self.client.with_options(max_retries=0).tasks.create(BODY)
        self.assertEqual(len(self.service.received), 4)

    def test_they_wait_for_Retry_After_and_back_off_without_it(self) -> None:
        def script(_: Received, handler: Handler, number: int) -> None:
            if number == 1:
                handler.answer(429, {"message": "later"}, retry_after="1")
            elif number == 2:
                handler.answer(500, {})
            else:
                handler.answer(200, TASK)

        self.service.script = script
        self.client.tasks.get("u")
        first, second, third = (received.at for received in self.service.received)
        self.assertGreaterEqual(second - first, 0.99)
        self.assertGreaterEqual(third - second, 0.7)
        self.assertLess(third - second, 2.5)

    def test_Retry_After_may_be_a_date(self) -> None:
        self.answers(429, {"message": "later"}, retry_after=formatdate(time.time() + 30, usegmt=True))
        with self.assertRaises(package.RateLimitError) as raised:
            self.client.with_options(max_retries=0).tasks.get("u")
        self.assertAlmostEqual(raised.exception.retry_after or 0, 30, delta=3)

    def test_keys_are_generated_for_each_call_or_the_callers(self) -> None:
        self.client.tasks.create(BODY)
        self.client.tasks.create(BODY)
        self.client.tasks.cancel("u", reason="r", idempotency_key="mine")
        first, second, third = (received.headers["idempotency-key"] for received in self.service.received)
        self.assertNotEqual(first, second)
        self.assertEqual(third, "mine")

    def test_a_404_is_a_success_when_a_deletion_is_repeated_but_not_at_first(self) -> None:
        self.service.script = lambda _, handler, number: (
            handler.drop() if number == 1 else handler.answer(404, {"message": "No."})
        )
        self.client.tasks.delete("u")
        self.assertEqual(len(self.service.received), 2)
        with self.assertRaises(package.NotFoundError):
            self.client.tasks.delete("u")


class Tokens(ScriptedTest):
    def test_white_space_around_one_is_no_part_of_it(self) -> None:
        TaskServiceClient(self.service.url, " t\n").tasks.get("u")
        self.assertEqual(self.service.received[0].headers["authorization"], "Bearer t")

    def test_one_that_no_header_may_have_is_refused_without_showing_it(self) -> None:
        for secret in ("a\nb", "aé"):
            with self.assertRaisesRegex(ValueError, "^The token has characters that a header must not have$"):
                TaskServiceClient(self.service.url, secret).tasks.wait_for("u")
        self.assertNotIn("secret", repr(vars(TaskServiceClient(self.service.url, "secret"))))
        wrong: Any = None
        with self.assertRaisesRegex(TypeError, "token must be a text or a function that returns one"):
            TaskServiceClient(self.service.url, wrong)

    def test_a_function_is_called_for_each_attempt(self) -> None:
        tokens = iter(["one", "two"])
        self.service.script = lambda _, handler, number: handler.answer(
            500 if number == 1 else 200, {}, retry_after="0"
        )
        TaskServiceClient(self.service.url, lambda: next(tokens)).tasks.get("u")
        sent = [received.headers["authorization"] for received in self.service.received]
        self.assertEqual(sent, ["Bearer one", "Bearer two"])

    def test_an_error_of_the_function_is_raised_as_it_is_without_a_request(self) -> None:
        class LoggedOut(OSError):
            pass

        def fail() -> str:
            raise LoggedOut

        lost = TaskServiceClient(self.service.url, fail)
        for call in (
            lambda: lost.tasks.get("u"),
            lambda: lost.tasks.wait_for("u"),
            lambda: next(lost.tasks.events("u")),
        ):
            with self.assertRaises(LoggedOut):
                call()
        self.assertEqual(self.service.received, [])


class Uploads(ScriptedTest):
    def test_they_declare_the_type_of_the_name_unless_there_is_another(self) -> None:
        self.answers(201, {})
        self.client.files.upload(b"x", name="a.PDF")
        self.client.files.upload(b"x", name="a.pdf", media_type="text/plain")
        self.client.files.upload(io.BytesIO(b"x"), name="a")
        types = [received.body.split(b"Content-Type: ")[1].split(b"\r\n")[0] for received in self.service.received]
        self.assertEqual(types, [b"application/pdf", b"text/plain", b"application/octet-stream"])

    def test_they_take_the_name_of_a_path_and_of_an_open_file(self) -> None:
        self.answers(201, {})
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, 'a "b".txt')
            path.write_bytes(b"hello")
            self.client.files.upload(path)
            self.client.files.upload(str(path))
            with path.open("rb") as file:
                self.client.files.upload(file)
        self.assertEqual(len(self.service.received), 3)
        for received in self.service.received:
            self.assertIn(b'filename="a %22b%22.txt"', received.body)
            self.assertIn(b"\r\n\r\nhello\r\n--", received.body)

    def test_they_need_a_name_and_bytes(self) -> None:
        with self.assertRaisesRegex(TypeError, "needs a file name"):
            self.client.files.upload(b"x")
        with self.assertRaisesRegex(TypeError, 'open the file with "rb"'):
            self.client.files.upload(io.StringIO("x"), name="a.txt")  # type: ignore[arg-type]
        with self.assertRaises(FileNotFoundError):
            self.client.files.upload("/nowhere/a.txt")

    def test_an_error_of_the_source_is_raised_as_it_is(self) -> None:
        def broken() -> Any:
            yield b"x"
            raise ConnectionResetError("of the source")

        with self.assertRaisesRegex(ConnectionResetError, "of the source") as raised:
            self.client.files.upload(broken(), name="a.txt")
        self.assertNotIsInstance(raised.exception, package.TaskServiceError)

    def test_a_large_file_is_never_whole_in_memory(self) -> None:
        size = 64 * 1024 * 1024
        received = []

        def count(handler: Handler) -> bytes:
            total = 0
            while True:
                length = int(handler.rfile.readline(), 16)
                total += len(handler.rfile.read(length + 2)) - 2
                if length == 0:
                    received.append(total)
                    return b""

        self.service.read_body = count
        self.answers(201, {})
        with tempfile.NamedTemporaryFile(suffix=".txt") as file:
            file.truncate(size)
            progress: List[Any] = []
            tracemalloc.start()
            self.client.files.upload(file.name, on_progress=lambda *given: progress.append(given))
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        self.assertGreater(received[0], size)
        self.assertEqual(progress[-1], (size, size))
        self.assertLess(peak, 4 * 1024 * 1024)

    def test_a_refusal_before_the_end_of_the_file_is_its_error(self) -> None:
        def refuse(_: Received, handler: Handler, __: int) -> None:
            handler.answer(422, {"message": "No.", "errors": {"file": ["Too large."]}}, connection="close")
            handler.connection.shutdown(1)
            try:
                while handler.connection.recv(1 << 20):
                    time.sleep(0.001)
            except OSError:
                pass

        self.service.read_body = lambda _: b""
        self.service.script = refuse
        chunk = bytes(1 << 20)
        with self.assertRaises(package.ValidationError) as raised:
            self.client.files.upload((chunk for _ in range(32)), name="a.txt")
        self.assertEqual(raised.exception.errors, {"file": ["Too large."]})

    def test_their_timeout_is_without_progress(self) -> None:
        def slow() -> Any:
            for _ in range(6):
                time.sleep(0.1)
                yield b"x"

        self.answers(201, {"type": "file"})
        self.assertEqual(self.client.files.upload(slow(), name="a.txt", timeout=0.3), {"type": "file"})
        self.service.script = lambda _, handler, __: handler.hang()
        with self.assertRaises(package.TimeoutError):
            self.client.files.upload(b"x", name="a.txt", timeout=0.3)

    def test_they_are_not_retried(self) -> None:
        self.answers(503, {"message": "down"}, retry_after="0")
        with self.assertRaises(package.ServerError):
            self.client.files.upload(b"x", name="a.txt")
        self.assertEqual(len(self.service.received), 1)
