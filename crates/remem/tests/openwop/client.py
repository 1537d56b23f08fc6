"""Drives the host with the OpenWOP client for Python, as it is. Usage: client.py URL KEY"""
import sys
import uuid

import wire
from wire import check, same

try:
    from openwop_client import CancelRunRequest, CreateRunRequest, ForkRunRequest, OpenwopClient, PutWorkspaceFileRequest, WopError
    from openwop_client import RegisterWebhookRequest
    from openwop_client.events import is_memory_written, memory_written_payload
except ModuleNotFoundError as error:
    raise SystemExit(f"this Python has no package {error.name}: run `scripts/test`, which installs what the tests need") from None

url, key = sys.argv[1:]
looking = wire.look_at_everything(url)
client = OpenwopClient(url, key)
nonce = uuid.uuid4().hex
# Looks like a token; no answer may repeat it.
SECRET = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJub2JvZHkifQ.bm8tc2lnbmF0dXJl"
looking.forbidden.append(SECRET)


def refused(status, code, call, *arguments, **more):
    """A call that must fail, and how."""
    try:
        call(*arguments, **more)
    except WopError as error:
        same((error.status, error.envelope.error), (status, code), call.__name__)
        check(error.envelope.message, "a sentence for people")
        return error.envelope
    raise SystemExit(f"does not hold: {call.__name__} is refused with {status} {code}")


def start(workflow, **more):
    key = more.pop("idempotency_key", None)
    return client.runs_create(CreateRunRequest(workflowId=workflow, **more), idempotency_key=key)


def ended(run):
    """All events of a run, when it has ended; each poll goes on after what is known."""
    events = []
    for _ in range(10):
        last = events[-1].sequence if events else None
        page = client.runs_poll_events(run, last_sequence=last, timeout_seconds=5)
        events += page.events
        if page.isComplete:
            same([event.sequence for event in events], list(range(len(events))), "events without gaps")
            return events
    raise SystemExit(f"does not hold: the run {run} ends")


def written(events):
    return [memory_written_payload(event) for event in events if is_memory_written(event)]


def discovery():
    capabilities = client.discovery_capabilities()
    same(capabilities.protocolVersion, "1.0", "the protocol's version")
    same(capabilities.limits.envelopesPerTurn, 0, "the limits")
    check(capabilities.memory.injectionBudget.supported, "the budget")
    same(capabilities.memory.injectionBudget.tokenCounter, "o200k_base", "and how it is counted")
    check(client.discovery_openapi()["openapi"].startswith("3.1"), "the OpenAPI document")


def workflows():
    workflow = client.workflows_get("conformance-noop")
    same((workflow["id"], [node["id"] for node in workflow["nodes"]]), ("conformance-noop", ["noop"]), "a workflow")
    refused(404, "workflow_not_found", client.workflows_get, f"nonexistent-{SECRET}")


def runs():
    created = start("conformance-noop", inputs={"text": SECRET}, tags=["client"], metadata={"by": "client"}, tenantId="somebody-else")
    same((created.eventsUrl, created.statusUrl), (f"/v1/runs/{created.runId}/events", f"/v1/runs/{created.runId}"), "where to look")
    events = ended(created.runId)
    same(events[-1].type, "run.completed", "the last event")
    same(len(written(events)), 1, "one memory")
    snapshot = client.runs_get(created.runId)
    same((snapshot.status, snapshot.workflowId, snapshot.tags), ("completed", "conformance-noop", ["client"]), "the run")
    check(snapshot.startedAt <= snapshot.completedAt and snapshot.metadata == {"by": "client"}, "when, and notes")
    streamed = list(client.runs_events(created.runId))
    same(streamed, events, "the stream has what polls have")
    rest = list(client.runs_events(created.runId, last_event_id=str(events[1].sequence), stream_mode="updates", buffer_ms=50))
    same(rest, events[2:], "it goes on after what is known")
    check(client.runs_get_artifact(created.runId, "report") is None, "no artifacts")
    live = start("conformance-agent-memory-roundtrip")
    same([event.type for event in client.runs_events(live.runId)][-1], "run.completed", "a stream ends with its run")
    missing = start("conformance-capability-missing")
    same(ended(missing.runId)[-1].type, "run.failed", "a run that cannot go on")
    fault = client.runs_get(missing.runId).error
    check(fault.code == "capability_not_provided" and "conformance.never-provided" in fault.message, f"why: {fault}")
    refused(404, "not_found", client.runs_get, SECRET)
    refused(404, "not_found", client.runs_poll_events, "run_unheard-of")
    refused(404, "workflow_not_found", start, f"nonexistent-{SECRET}")
    refused(422, "capability_not_provided", start, "conformance-noop", callbackUrl="https://example.com")


def idempotency():
    first = start("conformance-idempotent", inputs={"nonce": nonce}, idempotency_key=nonce)
    again = start("conformance-idempotent", inputs={"nonce": nonce}, idempotency_key=nonce)
    same(again.runId, first.runId, "one run")
    refused(409, "idempotency_key_mismatch", start, "conformance-idempotent", inputs={"nonce": "other"}, idempotency_key=nonce)
    check(start("conformance-idempotent", inputs={"nonce": nonce}).runId != first.runId, "without a key, another run")


def cancels():
    run = start("conformance-noop").runId
    ended(run)
    late = refused(409, "run_already_terminal", client.runs_cancel, run, CancelRunRequest(reason=SECRET))
    same(late.details, {"status": "completed"}, "what became of it")
    refused(404, "not_found", client.runs_cancel, "run_unheard-of")
    for _ in range(5):
        run = start("conformance-noop").runId
        try:
            same(client.runs_cancel(run).status, "cancelled", "cancelled")
            same(client.runs_cancel(run).status, "cancelled", "and again")
            same(ended(run)[-1].type, "run.cancelled", "the last event")
        except WopError as error:
            same(error.envelope.error, "run_already_terminal", "it was faster")


def forks():
    source = start("conformance-agent-memory-roundtrip").runId
    events, state = ended(source), client.runs_get(source)
    replay = client.runs_fork(source, ForkRunRequest(fromSeq=0, mode="replay"))
    same((replay.sourceRunId, replay.mode, replay.fromSeq), (source, "replay", 0), "a replay")
    same(written(ended(replay.runId)), written(events), "the same facts")
    same(client.runs_get(replay.runId).variables, state.variables, "the same variables")
    branch = client.runs_fork(source, ForkRunRequest(fromSeq=1, mode="branch", runOptionsOverlay={"tags": ["branch"]}))
    new = written(ended(branch.runId))
    check(new and new[0]["memoryId"] != written(events)[0]["memoryId"], "a branch writes anew")
    same(client.runs_get(branch.runId).tags, ["branch"], "with other options")
    refused(422, "sequence_unknown", client.runs_fork, source, ForkRunRequest(fromSeq=999, mode="replay"))
    refused(400, "validation_error", client.runs_fork, source, ForkRunRequest(fromSeq=0, mode="replay", runOptionsOverlay={"tags": []}))
    refused(400, "validation_error", client.runs_fork, source, ForkRunRequest(fromSeq=0, mode=SECRET))
    refused(404, "not_found", client.runs_fork, "run_unheard-of", ForkRunRequest(fromSeq=0, mode="replay"))


def agents():
    names = [agent.agentId for agent in client.agents_list()]
    check({"core.conformance.identity-agent", "core.conformance.memory-agent"} <= set(names) and names == sorted(names), f"{names}")
    agent = client.agents_get("core.conformance.memory-agent")
    check(agent.memoryShape["longTerm"] and agent.hasHandoffSchemas is False, "an agent")
    check(client.agents_get(SECRET) is None, "no such agent")


def put(path, content, **more):
    return client.put_workspace_file(path, PutWorkspaceFileRequest(content=content), **more)


def files():
    for _ in range(2):
        check(client.get_workspace_file("behavior/CRUD.md") is None, "no file yet")
        first = put("behavior/CRUD.md", "one")
        check(first.version == 1 and first.content == "one", "the first version")
        second = put("behavior/CRUD.md", "two", if_match=first.etag)
        same(second.version, 2, "the second version")
        conflict = refused(409, "workspace_conflict", put, "behavior/CRUD.md", "lost", if_match=first.etag)
        same(conflict.details["currentVersion"], 2, "the version that is there")
        same(client.get_workspace_file("behavior/CRUD.md").content, "two", "the newest")
        same(client.get_workspace_file("behavior/CRUD.md", version=1).content, "one", "an older one")
        same([file.path for file in client.list_workspace_files(prefix="behavior/")], ["behavior/CRUD.md"], "the list")
        check(client.delete_workspace_file("behavior/CRUD.md") is True, "deleted")
        check(client.delete_workspace_file("behavior/CRUD.md") is False, "once")
    refused(413, "workspace_too_large", put, "large.md", "x" * 300_000)


def webhooks():
    request = RegisterWebhookRequest(url="https://example.com/hook", events=["run.completed"])
    made = client.webhooks_register(request, idempotency_key=f"hook-{nonce}")
    check(made.subscriptionId and made.secret and made.eventTypes == ["run.completed"], f"a webhook: {made}")
    same(client.webhooks_register(request, idempotency_key=f"hook-{nonce}"), made, "once")
    client.webhooks_unregister(made.subscriptionId, tenant_id="default")
    refused(404, "subscription_not_found", client.webhooks_unregister, made.subscriptionId, tenant_id="default")
    refused(400, "webhook_url_rejected", client.webhooks_register, RegisterWebhookRequest(url=f"http://localhost/{SECRET}", events=["run.completed"]))


def absent():
    """What the host does not have, the client finds missing, not broken."""
    run = start("conformance-noop").runId
    ended(run)
    for call in (client.runs_debug_bundle, client.list_annotations, client.runs_ancestry, client.runs_eval_summary):
        check(call(run) is None, f"{call.__name__} finds nothing")
    check(client.runs_diff(run, run) is None, "runs_diff finds nothing")
    for call in (client.tools_list, client.agents_list_roster, client.agents_get_org_chart):
        check(call() is None, f"{call.__name__} finds nothing")


for part in (discovery, workflows, runs, idempotency, cancels, forks, agents, files, webhooks, absent):
    part()
    print(f"holds: {part.__name__}")
refused(401, "unauthenticated", OpenwopClient(url, SECRET).runs_get, "run")
wire.report(looking)
