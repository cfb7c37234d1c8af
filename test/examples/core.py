"""A processing core: it echoes the input, and calls the first client tool if there is one."""
import json, os, threading, time, urllib.error, urllib.request, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, TOKEN = int(os.environ.get("CORE_PORT", "3001")), os.environ["CORE_TOKEN"]
EVENT_TOKEN, SILENCE, ROOM = os.environ["CORE_EVENT_TOKEN"], 60, int(os.environ.get("CORE_ROOM", "100"))
runs, lock = {}, threading.Lock()  # The runs in progress, with what stops them.
working = set()  # Those that have not come to their last event; ROOM of them at most.


def report(run, stopped, **event):
    """Reports an event until the service has answered. Any other answer than 200 means that the run is over."""
    body = {"task_id": run["task_id"], "run_id": run["run_id"], "event_id": str(uuid.uuid4()), **event}
    headers = {"Authorization": f"Bearer {EVENT_TOKEN}", "Content-Type": "application/json"}
    delay = 0.1
    while not stopped.is_set():
        try:
            urllib.request.urlopen(urllib.request.Request(run["events_url"], json.dumps(body).encode(), headers), timeout=10)
            return
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                return stopped.set()
        except OSError:
            pass
        stopped.wait(delay)
        delay = min(2 * delay, 2)


def give_signs(run, stopped):
    while not stopped.wait(SILENCE / 3):
        report(run, stopped, type="progress")


def work(run, stopped):
    report(run, stopped, type="processing")  # This event accepts the run, within 30 s. The answer 202 does not.
    threading.Thread(target=give_signs, args=(run, stopped), daemon=True).start()
    resume, tools = run["resume"], run["client_tools"]  # Long work goes here.
    working.discard(run["run_id"])  # Before the report: the service sends the next run when it knows that this one has ended.
    if tools and resume is None:
        calls = [{"id": "call_1", "name": tools[0]["name"], "arguments": {}}]
        report(run, stopped, type="interrupted", tool_calls=calls, state={})
    else:
        text = json.dumps(resume["results"]) if resume else " ".join(item.get("text", "") for item in run["input"])
        report(run, stopped, type="completed", turn={"output": [{"type": "text", "text": text}], "messages": [], "metadata": {}})
    stopped.set()
    with lock:
        runs.pop(run["run_id"], None)


class Core(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self.answer(401)
        if self.path.endswith("/stop"):
            stopped = runs.get(self.path.split("/")[2])
            return self.answer(404) if stopped is None else (stopped.set(), self.answer(202))
        with lock:  # A run that is started again while it is here goes on.
            known = body["run_id"] in runs
            if not known and len(working) >= ROOM:
                return self.answer(429, retry_after=1)  # Nothing is taken: the task waits in the service, and does not fail.
            stopped = runs.setdefault(body["run_id"], threading.Event())
            if not known:
                working.add(body["run_id"])
        if not known:
            threading.Thread(target=work, args=(body, stopped), daemon=True).start()
        self.answer(202, {"silence_seconds": SILENCE})

    def answer(self, status, body={}, retry_after=None):
        self.send_response(status)
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    log_message = lambda *_: None


print(f"core: http://127.0.0.1:{PORT}", flush=True)
ThreadingHTTPServer(("127.0.0.1", PORT), Core).serve_forever()
