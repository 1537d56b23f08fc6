"""A transport that looks at every answer on its way to whoever asked, and a small client of its own on top."""
import io
import json
import os
import sys
import time
import urllib.error
import urllib.request
from urllib.parse import quote, urlsplit
from urllib.response import addinfourl

try:
    from documents import Documents
except ModuleNotFoundError as error:
    raise SystemExit(f"this Python has no package {error.name}: run `scripts/test`, which installs what the tests need") from None

ENDED = ("completed", "failed", "cancelled")
held = 0


def check(condition, what):
    global held
    if not condition:
        raise SystemExit(f"does not hold: {what}")
    held += 1


def same(seen, expected, what):
    check(seen == expected, f"{what}: expected {expected!r}, seen {seen!r}")


class Stream:
    """An event stream: each event is looked at when it is read."""

    def __init__(self, response, look):
        self.response, self.look = response, look

    def __getattr__(self, name):
        return getattr(self.response, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.response.close()

    def __iter__(self):
        for line in self.response:
            if line.startswith(b"data:"):
                self.look(json.loads(line[5:]))
            yield line


class Looking(urllib.request.BaseHandler):
    """Looks at answers before errors are made of them."""

    handler_order = 100

    def __init__(self):
        self.documents = None
        canary = os.environ.get("OPENWOP_CANARY_SECRET_VALUE")
        # What no answer may ever hold.
        self.forbidden = [canary] if canary else []

    def http_response(self, request, response):
        kind = response.headers.get_content_type() if response.headers["content-type"] else None
        if kind == "text/event-stream":
            return Stream(response, self.event)
        raw = response.read()
        path, method = urlsplit(request.full_url).path, request.get_method()
        what = f"{method} {path} answers {response.status}"
        self.clean(raw.decode(), what)
        body = json.loads(raw) if kind == "application/json" else raw.decode() or None
        if self.documents:
            fault = self.documents.fault(method, path, response.status, kind, body)
            check(not fault, f"{what}, and {fault}; it was {raw[:800]!r}")
        looked = addinfourl(io.BytesIO(raw), response.headers, request.full_url, response.status)
        looked.msg = response.reason
        return looked

    def event(self, event):
        self.clean(json.dumps(event), "an event")
        fault = self.documents.event_fault(event)
        check(not fault, f"an event of a stream: {fault}; it was {event}")

    def clean(self, text, what):
        check(not any(word in text for word in self.forbidden), f"{what} and shows what it must not")


def look_at_everything(url):
    """From now on, every answer in this process is checked."""
    looking = Looking()
    urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({}), looking))
    with urllib.request.urlopen(f"{url}/v1/openapi.json") as answer:
        looking.documents = Documents(json.load(answer))
    return looking


class Answer:
    def __init__(self, what, response):
        self.what, self.status, self.headers = what, response.status, response.headers
        self.text = response.read().decode()
        self.json = json.loads(self.text) if self.headers.get_content_type() == "application/json" and self.text else None

    def is_(self, *statuses):
        check(self.status in statuses, f"{self.what}: expected {statuses}, seen {self.status} {self.text[:400]}")
        return self.json

    def refuses(self, status, *codes):
        """The one envelope, with one of these codes."""
        body = self.is_(*(status if isinstance(status, tuple) else (status,)))
        check(isinstance(body, dict) and set(body) <= {"error", "message", "details"}, f"{self.what}: the envelope, not {self.text[:400]}")
        check(body["error"] and body["message"], f"{self.what}: a code and a sentence")
        check(not codes or body["error"] in codes, f"{self.what}: expected {codes}, seen {body['error']}")
        return body


class Host:
    """A host, with one key or none."""

    def __init__(self, url, key=None):
        self.url, self.key = url.rstrip("/"), key

    def call(self, method, path, body=None, raw=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        if data is not None:
            headers.setdefault("content-type", "application/json")
        if self.key:
            headers.setdefault("authorization", f"Bearer {self.key}")
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return Answer(f"{method} {path}", response)
        except urllib.error.HTTPError as error:
            return Answer(f"{method} {path}", error)

    def get(self, path, **headers):
        return self.call("GET", path, **headers)

    def post(self, path, body, **headers):
        return self.call("POST", path, body, **headers)

    def start(self, body, **headers):
        """Starts a run and gives its name."""
        return self.post("/v1/runs", body, **headers).is_(201)["runId"]

    def ended(self, run):
        """The run when it has ended, within five seconds."""
        deadline = time.monotonic() + 5
        while True:
            state = self.get(f"/v1/runs/{run}").is_(200)
            if state["status"] in ENDED:
                return state
            check(time.monotonic() < deadline, f"the run ends in time: {state}")
            time.sleep(0.02)

    def run(self, workflow, **more):
        return self.ended(self.start({"workflowId": workflow, **more}))

    def events(self, run):
        return self.get(f"/v1/runs/{run}/events", accept="application/json").is_(200)["events"]

    def new_key(self, scopes, tenant=None):
        """Another key, of another tenant if one is named."""
        body = {"scopes": scopes, "label": "conformance", **({"tenant": tenant} if tenant else {})}
        return Host(self.url, self.post("/v1/host/remembrancer/keys", body).is_(201)["key"])


SCENARIOS = []


def scenario(name, modes=("durable", "memory")):
    """A scenario by name, in the order in which they are written, for hosts of these kinds."""
    def keep(function):
        function.modes = modes
        SCENARIOS.append((name, function))
        return function
    return keep


def file_path(path):
    return "/v1/host/workspace/files/" + quote(path, safe="")


def report(looking):
    print(f"{looking.documents.summary()}; {held} checks held")
    sys.stdout.flush()
