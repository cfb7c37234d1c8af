import base64
import hashlib
import hmac
import json
import time
import unittest
from email.message import Message
from typing import Any, Dict

from async_task_service_client import WebhookVerificationError, verify_webhook

SECRET = "the secret of the tests, é"
ID = "019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913-2"
TEXT = '{"uuid":"019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913","status":"completed","turn":{"output":["é"]}}'
NOW = int(time.time())


def signed(at: int = NOW, secret: str = SECRET, text: str = TEXT, key: Any = None) -> Dict[str, Any]:
    body = text.encode()
    content = f"{ID}.{at}.".encode() + body
    tag = hmac.new(key or secret.encode(), content, hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "webhook-id": ID,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(tag).decode()}",
        "x-signature": hmac.new(secret.encode(), body, hashlib.sha256).hexdigest(),
    }


class Webhooks(unittest.TestCase):
    def problem(self, body: Any = TEXT, headers: Any = None, secret: Any = SECRET, **more: Any) -> str:
        try:
            verify_webhook(body, signed() if headers is None else headers, secret, **more)
        except WebhookVerificationError as error:
            self.assertTrue(str(error).endswith("."))
            return error.problem
        return "none"

    def test_bodies_and_headers_in_the_forms_of_all_common_servers_are_accepted(self) -> None:
        raw = TEXT.encode()
        for body in (TEXT, raw, bytearray(raw), memoryview(raw)):
            webhook = verify_webhook(body, signed(), SECRET)
            self.assertEqual((webhook.id, webhook.task), (ID, json.loads(TEXT)))
        message = Message()
        for name, value in signed().items():
            message[name.title()] = value
        self.assertEqual(self.problem(headers=message), "none")
        self.assertEqual(self.problem(headers={name.upper(): [value] for name, value in signed().items()}), "none")

    def test_any_of_several_secrets_and_a_whsec_secret_are_accepted(self) -> None:
        self.assertEqual(self.problem(secret=["old", SECRET]), "none")
        self.assertEqual(self.problem(secret=["old", "older"]), "wrong_signature")
        key = b"a key of so many bytes"
        for secret in (
            f"whsec_{base64.b64encode(key).decode()}",
            f"whsec_{base64.b64encode(key).decode().rstrip('=')}",
        ):
            self.assertEqual(self.problem(secret=secret, headers=signed(secret=secret, key=key)), "none")
        for secret in ("whsec_", "whsec_a", "whsec_é", "whsec_ab=c"):
            self.assertEqual(self.problem(secret=secret, headers=signed(secret=secret)), "none", secret)

    def test_a_wrong_secret_and_any_changed_body_or_signed_header_are_refused(self) -> None:
        self.assertEqual(self.problem(secret="another"), "wrong_signature")
        self.assertEqual(self.problem(secret=[]), "wrong_signature")
        self.assertEqual(self.problem(TEXT.replace("completed", "failed")), "wrong_signature")
        self.assertEqual(self.problem(f"{TEXT} "), "wrong_signature")
        changed = {
            "webhook-id": f"{ID}0",
            "webhook-timestamp": str(NOW + 1),
            "x-signature": "0" * 64,
            "webhook-signature": f"v1,{base64.b64encode(bytes(32)).decode()}",
        }
        for name, value in changed.items():
            self.assertEqual(self.problem(headers={**signed(), name: value}), "wrong_signature", name)

    def test_an_empty_secret_is_an_error_because_anyone_can_sign_with_it(self) -> None:
        for secret in ("", [SECRET, ""]):
            with self.assertRaisesRegex(ValueError, "secret is empty"):
                verify_webhook(TEXT, signed(secret=""), secret)

    def test_a_missing_or_unreadable_signature_id_or_timestamp_is_refused(self) -> None:
        for name in ("x-signature", "webhook-signature"):
            for value in (None, "", "v1,", "v2,abc", "zz", "0" * 63, "v1a,AAAA"):
                self.assertEqual(self.problem(headers={**signed(), name: value}), "missing_signature", value)
        for name in ("webhook-id", "webhook-timestamp"):
            headers = signed()
            del headers[name]
            self.assertEqual(self.problem(headers=headers), "missing_timestamp")
        for value in ("1e9", "١", "1\n"):
            self.assertEqual(self.problem(headers={**signed(), "webhook-timestamp": value}), "missing_timestamp")

    def test_a_timestamp_outside_of_the_tolerance_is_refused(self) -> None:
        self.assertEqual(self.problem(now=NOW + 300), "none")
        self.assertEqual(self.problem(now=NOW + 301), "too_old")
        self.assertEqual(self.problem(now=NOW - 300), "none")
        self.assertEqual(self.problem(now=NOW - 301), "too_new")
        self.assertEqual(self.problem(now=NOW + 11, tolerance=10), "too_old")

    def test_a_parsed_body_or_none_is_refused_with_what_to_pass(self) -> None:
        for parsed in (json.loads(TEXT), None, 1, []):
            with self.assertRaisesRegex(TypeError, r"pass the raw body. Flask: request.get_data\(\)"):
                verify_webhook(parsed, signed(), SECRET)

    def test_a_signed_body_that_is_not_a_task_is_refused(self) -> None:
        for text in ("", "{", "[]", "null", '{"uuid":1}'):
            self.assertEqual(self.problem(text, signed(text=text)), "malformed_body", text)
