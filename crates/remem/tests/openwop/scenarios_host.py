"""The host itself: discovery, keys, errors, what must not be echoed, routes, seams."""
import re
from urllib.parse import quote

from wire import check, same, scenario

EVERYWHERE = ("durable", "memory", "plain")
# Looks like a token; no answer may repeat it.
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJub2JvZHkifQ.bm8tc2lnbmF0dXJl"
PUBLIC_PATHS = ("/.well-known/openwop", "/v1/openapi.json", "/health", "/ready")
DISPATCH = "/v1/host/sample/agents/core.conformance.identity-agent/dispatch"
SEAMS = [
    ("POST", "/v1/host/sample/memory/consolidate", {"memoryRef": "mem://conformance/consolidation"}),
    ("POST", "/v1/host/sample/commitment/fire", {"memoryRef": "mem://conformance/commitments", "condition": "predicate"}),
    ("POST", "/v1/host/sample/memory/distill", {"memoryRef": "mem://conformance/distill"}),
    ("POST", "/v1/test/memory/seed", {"memoryRef": "m", "entries": [{"id": "e", "content": "planted"}]}),
    ("POST", "/v1/test/memory/compact", {}),
    ("GET", "/v1/memory/m?limit=50", None),
    ("POST", "/v1/host/sample/workspace/op", {"tenant": "t", "workspace": "w", "op": "list"}),
    ("POST", DISPATCH, {"task": {}, "validateHandoff": False, "availableTools": []}),
    ("GET", "/v1/host/sample/identity/owned-run", None),
    ("POST", "/v1/host/sample/identity/cross-workspace-read", {}),
    ("POST", "/v1/host/sample/heartbeat/tick", {"heartbeatId": "h", "observedState": {}}),
    ("POST", "/v1/host/sample/scheduling/tick", {"scenario": "single-tick"}),
    ("POST", "/v1/host/sample/authorization/decide", {"principal": "nobody", "action": "runs:cancel", "resource": "r"}),
    ("POST", "/v1/host/sample/governance/approval-gate", {"scenario": "unauthorized-grant"}),
    ("GET", "/v1/host/sample/test/runs/r/events", None),
    ("GET", "/v1/host/sample/proposals", None),
    ("GET", "/v1/host/sample/proposals/p", None),
    ("DELETE", "/v1/host/sample/proposals/p", None),
    ("POST", "/v1/host/sample/proposals/p/apply", {}),
    ("POST", "/v1/host/sample/proposals/p/reject", {}),
]


@scenario("discovery", EVERYWHERE)
def discovery(stage):
    answer = stage.nobody.get("/.well-known/openwop")
    document = answer.is_(200)
    check(re.fullmatch(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)", document["protocolVersion"]), "the version")
    check(answer.headers["cache-control"] and answer.headers["etag"], "how long it is good for")
    again = stage.nobody.get("/.well-known/openwop", if_none_match=answer.headers["etag"])
    same((again.status, again.text), (304, ""), "nothing new")
    stage.nobody.get("/.well-known/openwop", if_none_match='"other"').is_(200)
    for name, family in document["capabilities"].items():
        same(document.get(name), family, f"the mirror of {name}")
    check(all(isinstance(n, int) and n >= 0 for n in document["limits"].values()), "the limits")
    same(stage.nobody.get("/v1/openapi.json").is_(200)["openapi"][:3], "3.1", "the OpenAPI document")
    for fixture in document.get("fixtures", []):
        workflow = stage.host.get(f"/v1/workflows/{fixture}").is_(200)
        check(workflow["id"] == fixture and workflow["nodes"], "every fixture is there")
    same("fixtures" in document, stage.mode != "plain", "fixtures only with the seams")


@scenario("memory-capability-model-shape", EVERYWHERE)
def capability_model(stage):
    document = stage.document
    memory, agents = document["memory"], document["agents"]
    same((memory["supported"], memory["writable"], memory["ttlSupported"]), (True, True, True), "memory")
    check(memory["maxEntrySizeBytes"] >= 1 and memory["retention"]["ttl"] is True, "its limits")
    lasts = "long-term" in agents.get("memoryBackends", [])
    same(lasts, stage.mode != "memory", "the profile openwop-memory, if memory lasts")
    check(lasts or "memoryBackends" not in agents, "else the list is not there at all")
    same(lasts, "executionModel" in document.get("multiAgent", {}), "snapshots for replays, if memory lasts")
    check(set(memory["search"]["modes"]) <= {"semantic", "filter"}, "search")
    same(memory["attribution"], {"supported": True, "emitsWriteEvents": True}, "memory-attribution-shape")


@scenario("auth", EVERYWHERE)
def auth(stage):
    stage.looking.forbidden.append("canary-of-a-key-71b2")
    for value in ("", "Bearer", "Bearer ", "Bearer canary-of-a-key-71b2", "Basic canary-of-a-key-71b2", "canary-of-a-key-71b2"):
        answer = stage.nobody.get("/v1/runs/run_x", **({"authorization": value} if value else {}))
        answer.refuses(401, "unauthenticated")
        same(answer.headers["www-authenticate"], "Bearer", "what is wanted instead")
    weak = stage.host.new_key(["manifest:read"])
    lacking = weak.post("/v1/runs", {"workflowId": "conformance-noop"}).refuses(403, "forbidden")
    same(lacking["details"], {"scopeRequired": "runs:create"}, "what the key lacks")
    for path, scope in (("/v1/runs/run_x", "runs:read"), ("/v1/host/workspace/files", "workspace:read"), ("/v1/workflows/x", "runs:read")):
        same(weak.get(path).refuses(403, "forbidden")["details"], {"scopeRequired": scope}, "before anything else is said")
    weak.get("/v1/agents").is_(200)
    keys = stage.host.get("/v1/host/remembrancer/keys").is_(200)["keys"]
    stage.host.call("DELETE", f"/v1/host/remembrancer/keys/{keys[-1]['id']}").is_(204)
    weak.get("/v1/agents").refuses(401, "key_revoked")


@scenario("errors", EVERYWHERE)
def errors(stage):
    host = stage.host
    for raw in (b"", b"{}", b"[]", b"null", b'{"workflowId": 7}', b"not JSON"):
        host.call("POST", "/v1/runs", raw=raw).refuses((400, 422), "validation_error")
    host.call("POST", "/v1/runs", raw=b"<a/>", content_type="text/xml").refuses(415, "unsupported_media_type")
    host.post("/v1/runs", {"workflowId": "a", "agentId": "b"}).refuses((400, 422), "validation_error")
    host.post("/v1/runs", {"workflowId": "unheard-of"}).refuses((400, 404), "workflow_not_found")
    host.get("/v1/runs/unheard-of").refuses(404, "not_found")
    host.get("/v1/nothing/here").refuses(404, "not_found")
    host.call("DELETE", "/v1/runs").refuses(405, "method_not_allowed")
    host.get("/v1/runs/unheard-of/events/poll?lastSequence=minus").refuses((400, 404), "validation_error")


@scenario("redaction", EVERYWHERE)
def echoes(stage):
    stage.looking.forbidden.append(TOKEN)
    host = stage.host
    host.post("/v1/runs", {"workflowId": f"nonexistent-{TOKEN}"}).refuses((400, 404))
    host.post("/v1/runs", {"workflowId": TOKEN, TOKEN: TOKEN}).refuses((400, 404))
    host.post("/v1/runs", {"agentId": TOKEN}).refuses((400, 404))
    host.call("POST", "/v1/runs", raw=f'{{"workflowId": {TOKEN}'.encode()).refuses(400)
    host.post("/v1/runs", {"workflowId": "nonexistent"}, idempotency_key=TOKEN).refuses((400, 404))
    for path in ("runs", "workflows", "agents", "host/workspace/files"):
        host.get(f"/v1/{path}/{TOKEN}").refuses(404)
    host.get(f"/v1/runs/{TOKEN}/events/poll?lastSequence={TOKEN}").refuses((400, 404))
    host.post(f"/v1/runs/{TOKEN}:fork", {"mode": TOKEN}).refuses((400, 404))
    host.get(f"/v1/host/remembrancer/events?after={TOKEN}").refuses((400, 404, 422))


@scenario("redactionAdversarial")
def adversarial(stage):
    """What is sent stays out of events, however it is wrapped."""
    canary = f"canary-{stage.nonce}"
    wrapped = {"userSuppliedField": canary, "descriptiveText": f"x{canary}x", "nested": [{canary: [canary]}], "url": f"https://a/?t={canary}"}
    body = {"inputs": wrapped, "metadata": {"note": canary}, "tags": [canary], "configurable": {"ai": {"credentialRef": canary}}}
    state = stage.host.run("conformance-noop", **body)
    same(state["status"], "completed", "the run")
    events = stage.host.get(f"/v1/runs/{state['runId']}/events/poll")
    check(canary not in events.text, "events without inputs")
    check(canary not in stage.host.get(f"/v1/runs/{state['runId']}/events").text, "nor the other list")
    state = stage.host.run("openwop-smoke-byok-roundtrip")
    check(state["status"] == "completed" and state["variables"]["secretByteLength"] >= 8, "a secret was resolved; no answer showed it")


@scenario("runtime-capabilities")
def capabilities(stage):
    state = stage.host.run("conformance-capability-missing")
    same((state["status"], state["error"]["code"]), ("failed", "capability_not_provided"), "the run")
    check("conformance.never-provided" in str(state["error"]), f"what is missing is named: {state['error']}")
    kinds = [event["type"] for event in stage.host.events(state["runId"])]
    same(kinds, ["run.started", "node.started", "node.failed", "run.failed"], "its events")


@scenario("route-coverage", EVERYWHERE)
def routes(stage):
    """Every operation of the document: closed without a key, and with one it answers as the document says."""
    documents, called = stage.looking.documents, 0
    for template, item in documents.paths.items():
        path = re.sub(r"\{[^}]*\}", "unheard-of", template)
        for method in sorted({"get", "put", "post", "patch", "delete"} & set(item)):
            body = {} if method in ("put", "post", "patch") else None
            anonymous = stage.nobody.call(method.upper(), path, body)
            if path in PUBLIC_PATHS:
                anonymous.is_(200)
            else:
                anonymous.refuses(401, "unauthenticated")
                answer = stage.host.call(method.upper(), path, body)
                check(answer.status < 500 and answer.status != 405, f"{method} {path}: {answer.status} {answer.text[:400]}")
            called += 1
    check(called > 30, f"{called} operations")
    stage.host.get("/v1/runs/unheard-of/artifacts/unheard-of").refuses((403, 404))
    stage.host.post("/v1/webhooks", {"url": "not a URL"}).refuses((400, 404, 422))
    gone = stage.host.call("DELETE", "/v1/webhooks/unheard-of")
    gone.is_(204, 403, 404)


@scenario("test-seam-unauthenticated")
def closed_seams(stage):
    for method, path, body in SEAMS:
        stage.nobody.call(method, path, body).refuses((401, 403, 404, 405, 501))
        stage.nobody.call(method, path, body, authorization="Bearer nobody").refuses((401, 403, 404, 405, 501))


@scenario("test-seams-absent", ("plain",))
def absent_seams(stage):
    for method, path, body in SEAMS:
        stage.host.call(method, path, body).refuses(404, "not_found")
        stage.nobody.call(method, path, body).refuses((401, 404))
    for name in ("conformance-noop", "conformance-agent-memory-redaction"):
        stage.host.post("/v1/runs", {"workflowId": name}).refuses(404, "workflow_not_found")
    same(stage.host.get("/v1/agents").is_(200), {"agents": [], "total": 0}, "no agents of the checks")


@scenario("cross-workspace-isolation")
def cross_workspace(stage):
    own = stage.host.get("/v1/host/sample/identity/owned-run").is_(200)
    check(own["owner"]["tenant"], "whose it is")
    foreign = stage.host.post("/v1/host/sample/identity/cross-workspace-read", {})
    foreign.refuses((403, 404), "run_forbidden", "not_found")
    run = own["runId"]
    for method, rest, body in (("GET", "", None), ("GET", "/events", None), ("GET", "/events/poll", None), ("POST", ":fork", {"mode": "replay"}),
                               ("POST", "/cancel", {}), ("GET", "/artifacts/x", None)):
        real = stage.stranger.call(method, f"/v1/runs/{run}{rest}", body)
        unreal = stage.stranger.call(method, f"/v1/runs/{quote('run_unheard-of')}{rest}", body)
        same((real.status, real.text), (404, unreal.text), f"another tenant's run is like none: {method} {rest}")
