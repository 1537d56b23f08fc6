"""Sends requests made from the OpenAPI document to a running host, good ones and bad ones, and
fails when an answer is not what the document says.

    fuzz.py URL SECONDS FOLDER

The key is in KEY; FOLDER is an empty one to work in. FUZZ_SEED repeats a run.
"""

import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
BASE = "/v1/host/remembrancer"

# The checks of schemathesis that a host must pass. Left out are negative_data_rejection and
# positive_data_acceptance: a list clamps its limit, reads of a malformed memoryRef answer like those
# of an unknown one, and rules that need more than one field are not in the document;
# missing_required_header, unsupported_method and allow_header_conformance: other tests hold headers
# and methods; use_after_free, ensure_resource_availability, ignored_auth and
# object_level_authorization: other tests hold deletes and access.
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
]


def call(url, method, path, body=None):
    headers = {"Authorization": f"Bearer {os.environ['KEY']}"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data=data, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def prepare(url):
    """Makes one thing of each kind; answers their names by the parameters of paths."""
    memory = f"{BASE}/memory/agent-1"
    entry = call(url, "POST", f"{memory}/entries", {"content": "Ana prefers tea", "slot": "tea"})
    call(url, "POST", f"{memory}/entries", {"content": "Hello", "interaction": "chat-1"})
    node = {"id": "start", "typeId": "core.noop"}
    call(url, "PUT", f"{BASE}/workflows/greet", {"id": "greet", "nodes": [node]})
    run = call(url, "POST", "/v1/runs", {"workflowId": "greet"})
    promise = {"text": "Water the plants", "every": "P7D"}
    commitment = call(url, "POST", f"{memory}/commitments", promise)
    hook = {"url": "https://hooks.example.com/x", "events": ["run.completed"]}
    webhook = call(url, "POST", "/v1/webhooks", hook)
    prompt = {"templateId": "greeting", "version": "1.0.0", "text": "Hello"}
    proposal = {"kind": "prompt-template", "artifact": prompt}
    automation = {"automationId": "daily-greeting", "schedule": {"every": "P1D"}, "workflowId": "greet"}
    call(url, "PUT", f"{BASE}/automations/daily-greeting", automation)
    heartbeat = {"memoryRef": "agent-1", "key": "it is paid", "tag": "paid", "everySeconds": 300}
    call(url, "PUT", f"{BASE}/heartbeats/paid", heartbeat)
    return {
        "automationId": "daily-greeting",
        "heartbeatId": "paid",
        "memoryRef": "agent-1",
        "slot": "tea",
        "interaction": "chat-1",
        "workflowId": "greet",
        "world": "w",
        "name": "compact",
        "runId": run["runId"],
        "commitmentId": commitment["id"],
        "webhookId": webhook["webhookId"],
        "proposalId": call(url, "POST", f"{BASE}/proposals", proposal)["id"],
        "id": entry["id"],
    }


def outcomes(report):
    """The statuses that each operation answered with."""
    found = collections.defaultdict(collections.Counter)

    def look(part, label):
        if isinstance(part, dict):
            label = part.get("label") or label
            if isinstance(part.get("status_code"), int):
                found[label][part["status_code"]] += 1
            for inner in part.values():
                look(inner, label)
        elif isinstance(part, list):
            for inner in part:
                look(inner, label)

    for line in report.read_text().splitlines():
        look(json.loads(line), None)
    return found


def main(url, seconds, folder):
    folder = pathlib.Path(folder)
    seed = os.environ.get("FUZZ_SEED") or str(random.randrange(1 << 31))
    known = prepare(url)
    own = call(url, "GET", f"{BASE}/whoami")["keyId"]
    report = folder / "report.ndjson"
    program = pathlib.Path(sys.executable).parent / "schemathesis"
    command = [
        program, "run", url + "/v1/openapi.json", "--url", url,
        "--header", f"Authorization: Bearer {os.environ['KEY']}",
        "--checks", ",".join(CHECKS),
        "--max-time", seconds, "--seed", seed, "--request-timeout", "30",
        "--continue-on-failure", "--no-color", "--warnings", "off",
        "--report", "ndjson", "--report-ndjson-path", report,
    ]
    environment = os.environ | {
        "SCHEMATHESIS_HOOKS": "fuzz_hooks",
        "PYTHONPATH": str(HERE),
        "FUZZ_KNOWN": json.dumps(known),
        "FUZZ_OWN_KEY": own,
    }
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    print(done.stdout[-20_000:], done.stderr[-5_000:])
    assert call(url, "GET", f"{BASE}/whoami")["keyId"] == own, "the key no longer works"
    found = outcomes(report)
    served = [label for label, seen in found.items() if any(200 <= s < 300 for s in seen)]
    tried = sum(sum(seen.values()) for seen in found.values())
    missing = sorted(set(found) - set(served), key=str)
    print(f"seed {seed}: {tried} answers; never served: {missing}")
    # A run in which next to everything is refused would show nothing.
    assert len(served) > 60, f"{len(served)} of {len(found)} operations answered a request"
    sys.exit(done.returncode)


if __name__ == "__main__":
    main(*sys.argv[1:])
