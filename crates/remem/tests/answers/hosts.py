"""Starts a host, asks it over HTTP, MCP and the command line, and records what it answers."""

import http.client
import json
import os
import pathlib
import re
import subprocess
import time
import urllib.parse

from normalise import Normaliser

KEY = "bootstrap-key-of-a-throwaway-host"
DEADLINE = 60
MCP_VERSION = "2025-06-18"


class Recording:
    """The answers in order, each under a name that says what was asked."""

    def __init__(self, file):
        self.file = file
        self.count = 0

    def add(self, over, operation, case, **answer):
        record = {"over": over, "operation": operation, "case": case, **answer}
        self.file.write(json.dumps(record, ensure_ascii=False) + "\n")
        self.count += 1


class Host:
    """A running host with a data folder of its own, stopped at the end of `with`."""

    def __init__(self, binary, folder, name, recording, settings=(), database=None):
        self.binary = binary
        self.folder = pathlib.Path(folder) / name
        self.name = name
        self.recording = recording
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TZ": "UTC"}
        self.environment |= {"REMEM_BOOTSTRAP_KEY": KEY, **dict(settings)}
        if database:
            self.environment["REMEM_DATABASE"] = database
        self.served = set()

    def __enter__(self):
        self.folder.mkdir()
        self.log = open(self.folder / "log", "w")
        self.process = subprocess.Popen(
            [self.binary, "--data-dir", self.folder / "data", "serve", "--listen", "127.0.0.1:0"],
            env=self.environment, stdout=subprocess.PIPE, stderr=self.log, text=True,
        )
        line = self.process.stdout.readline()
        found = re.search(r"http://([\d.]+):(\d+)", line)
        if not found:
            raise SystemExit(f"the host did not start: {(self.folder / 'log').read_text()}")
        self.url = found.group()
        self.address = found.groups()
        usage = f"Usage: {pathlib.Path(self.binary).name} "
        paths = {str(self.folder): "<folder>", str(self.binary): "remem", usage: "Usage: remem "}
        version = subprocess.run([self.binary, "--version"], capture_output=True, text=True)
        number = version.stdout.split()[1]
        self.normaliser = Normaliser([KEY], paths | {number: "<version>"})
        self.wait(lambda: self.ask("GET", "/ready")[0] == 200)
        document = json.loads(self.ask("GET", "/v1/openapi.json")[2])
        methods = {"get", "put", "post", "patch", "delete"}
        self.operations = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, item in document["paths"].items()
            for method, operation in item.items()
            if method in methods
        }
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(DEADLINE)
        self.log.close()

    def wait(self, is_done):
        """Waits for something that the host does by itself."""
        end = time.monotonic() + DEADLINE
        while not is_done():
            if time.monotonic() > end:
                raise SystemExit(f"{self.name}: waited too long; its log is in {self.folder}")
            time.sleep(0.05)

    def ask(self, method, path, body=None, key=KEY, headers=()):
        """Sends one request; answers status, headers and the bytes."""
        connection = http.client.HTTPConnection(*self.address, timeout=DEADLINE)
        sent = {"Authorization": f"Bearer {key}"} if key else {}
        if body is not None:
            sent["Content-Type"] = "application/json"
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        connection.request(method, path, body, sent | dict(headers))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.getheaders(), content

    def target(self, operation, query=None, **names):
        """The method and path of an operation, with these names in it or those of nothing."""
        method, path, _ = self.operations[operation]
        for part in re.findall(r"{(\w+)}", path):
            path = path.replace(
                "{%s}" % part, urllib.parse.quote(str(names.get(part, "none")), safe=""),
            )
        return method, path + ("?" + urllib.parse.urlencode(query) if query else "")

    def http(self, operation, case="ok", body=None, query=None, key=KEY, headers=(), **names):
        """Asks for an operation and records the answer; answers the parsed body."""
        if operation not in self.operations:
            self.recording.add("http", operation, self.case(case), missing=True)
            return {}
        method, path = self.target(operation, query, **names)
        status, sent, content = self.ask(method, path, body, key, headers)
        if status < 400:
            self.served.add(operation)
        parsed = parse(content)
        self.recording.add(
            "http", operation, self.case(case), status=status,
            headers=self.normaliser.headers(sent), body=self.show(operation, parsed),
        )
        if case == "ok" and status >= 400:
            print(f"refused: {operation} {path}: {status} {content[:300]}")
        return parsed

    def race(self, operation, begin):
        """Asks for an operation on something that is about to end, until it comes in time. Records
        that it did, and not what was reached until then."""
        for _ in range(50):
            method, path = self.target(operation, **begin())
            status, sent, _ = self.ask(method, path)
            if status < 400:
                self.served.add(operation)
                return self.recording.add(
                    "http", operation, self.case("in time"), status=status,
                    headers=self.normaliser.headers(sent),
                )
        return print(f"refused: {operation}: always too late")

    def case(self, case):
        return f"{self.name}: {case}"

    def show(self, operation, body):
        """What is recorded of a body."""
        if operation == "metrics" and isinstance(body, str):
            # A metric is there from its first event on, and some events are the host's own.
            body = [line for line in body.splitlines() if line.startswith("# TYPE remem_http_")]
        return self.normaliser.value(body)

    def quietly(self, operation, body=None, query=None, **names):
        """Asks for an operation without recording it."""
        method, path = self.target(operation, query, **names)
        return parse(self.ask(method, path, body)[2])

    def ended(self, job):
        """Waits for the end of a job, then records it."""
        states = ("done", "failed", "cancelled")
        self.wait(lambda: self.quietly("get_job", jobId=job["id"])["state"] in states)
        return self.http("get_job", "of an ended job", jobId=job["id"])

    def run_to_end(self, run):
        """Waits for the end of a run."""
        ended = ("completed", "failed", "cancelled")
        self.wait(lambda: self.quietly("get_run", runId=run["runId"])["status"] in ended)

    def mcp(self, method, case="ok", key=KEY, headers=(), **params):
        """Sends a request to /mcp and records the answer."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        sent = {
            "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": MCP_VERSION,
        }
        status, received, content = self.ask("POST", "/mcp", body, key, sent | dict(headers))
        parsed = parse(content)
        name = f"{method} {params['name']}" if "name" in params else method
        self.recording.add(
            "mcp", name, self.case(case), status=status,
            headers=self.normaliser.headers(received), body=self.normaliser.value(parsed),
        )
        return parsed

    def tool(self, tool, case="ok", **arguments):
        """Calls a tool; answers its structured content."""
        answer = self.mcp("tools/call", case, name=tool, arguments=arguments)
        result = answer.get("result", {}) if isinstance(answer, dict) else {}
        if case == "ok" and (result.get("isError") or not result):
            print(f"refused: tool {tool}: {answer}")
        return result.get("structuredContent", {})

    def cli(self, *arguments, case="ok", stdin="", local=False, status=0):
        """Runs a command and records what it prints; answers the parsed output."""
        place = ["--local"] if local else ["--url", self.url]
        environment = self.environment | {"REMEM_KEY": KEY}
        del environment["REMEM_BOOTSTRAP_KEY"]
        command = [self.binary, "--data-dir", self.folder / "data", *place, *arguments]
        done = subprocess.run(
            command, env=environment, input=stdin, capture_output=True, text=True,
            timeout=DEADLINE, cwd=self.folder,
        )
        words = [word for word in arguments if re.fullmatch(r"[a-z-]+", word)][:3]
        output = parse(done.stdout.encode())
        self.recording.add(
            "cli", " ".join(words), self.case(case), status=done.returncode,
            output=self.normaliser.value(output), errors=self.normaliser.value(
                parse(done.stderr.encode()),
            ),
        )
        if done.returncode != status:
            print(f"unexpected: {arguments}: {done.returncode} {done.stderr[:300]}")
        return output


def parse(content):
    """The JSON of a body or of each event of a stream; any other text as it is."""
    text = content.decode("utf-8", "replace")
    try:
        return json.loads(text) if text else None
    except ValueError:
        pass
    if text.startswith(("event:", "data:", "id:", ":")):
        return [parse_event(event) for event in text.split("\n\n") if event.strip()]
    return text


def parse_event(event):
    fields = [line.partition(":") for line in event.split("\n")]
    return {name: parse(value.strip().encode()) for name, _, value in fields if name != "id"}
