"""Receives the events of a webhook endpoint on Flask. ``get_data`` has the raw body."""

import os

from async_task_service_client import WebhookVerificationError, verify_webhook
from flask import Flask, request

app = Flask(__name__)
app.config["MAX_CONTENT_LENGTH"] = 2 * 1024 * 1024

# In a real receiver a table with a unique key: an event may arrive more than once, with the same id.
seen: set[str] = set()


@app.post("/events")
def receive() -> tuple[str, int]:
    secrets = os.environ["ENDPOINT_SECRET"].split(",")  # two while the secret is rotated
    try:
        event = verify_webhook(request.get_data(), request.headers, secrets)
    except WebhookVerificationError as error:
        return str(error), 401
    if event.id not in seen:
        print(event.type, event.task["uuid"], flush=True)
    seen.add(event.id)
    return "", 204


app.run(host="127.0.0.1", port=int(os.environ["PORT"]))
