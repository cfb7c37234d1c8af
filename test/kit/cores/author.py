"""A core whose function does what the first text says. author.ts is the same in TypeScript."""

import json
import os
import time

from async_task_service_client.core import Failure, serve_core

JOURNAL = os.environ.get("JOURNAL", "")


def note(line):
    if JOURNAL:
        with open(JOURNAL, "a") as journal:
            journal.write(f"{line}\n")


def work(run):
    word, _, given = run.prompt.partition(" ")
    if run.resumed:
        outputs = json.dumps([result["output"] for result in run.results], separators=(",", ":"))
        return f"{outputs} {json.dumps(run.state, separators=(',', ':'))}"
    if run.client_tools:
        calls = [{"id": "call_1", "name": run.client_tools[0]["name"]}]
        return run.interrupt(calls=calls, state={"asked": word})
    if word == "sleep":
        run.signal.wait(int(given) / 1000)
        return "slept"
    if word == "words":
        for letter in "abcdefghij" * int(given):
            run.text(letter)
            time.sleep(0.01)
        return None
    if word == "file":
        return run.files.download(run.input[1]).read().decode()
    if word == "refuse":
        raise Failure("Not that")
    return run.prompt


def answer(run):
    note(f"begin {run.run_id}")
    try:
        return work(run)
    finally:
        note(f"end {run.run_id} {run.signal.reason.reason if run.signal.aborted else ''}")


if __name__ == "__main__":
    serve_core(answer, runs=int(os.environ.get("RUNS", "4")), silence_seconds=float(os.environ.get("SILENCE", "60")))
