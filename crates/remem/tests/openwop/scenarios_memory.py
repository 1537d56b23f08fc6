"""Memory: what fixtures write and read, who wrote it, and what agents are told that the host lacks."""
import time
from datetime import datetime

from wire import check, same, scenario

MARKER = "[REDACTED:"
DIMENSIONS = {"read", "write", "search", "long-term-durability", "compaction", "attribution", "replay-snapshot", "retention"}
MEMORY_AGENT = "core.conformance.memory-agent"
INSTALL = "/v1/host/remembrancer/agents"


def variables(stage, workflow):
    """What a fixture left; a host whose memory does not last must say so by leaving the name of the memory out."""
    state = stage.host.run(workflow)
    same((state["status"], state.get("error")), ("completed", None), workflow)
    agent = state.get("agent", {})
    same("memoryRef" in agent, stage.mode == "durable", f"AgentRef.memoryRef only where memory lasts: {agent}")
    return state["variables"]


@scenario("agentMemoryRoundTrip")
def round_trip(stage):
    entry = variables(stage, "conformance-agent-memory-roundtrip")["memoryReadback"]
    check(all(entry[name] and isinstance(entry[name], str) for name in ("id", "content", "createdAt")), f"an entry: {entry}")
    check(isinstance(entry["tags"], list), "its tags")
    path = f"/v1/host/remembrancer/memory/conformance%2Fagent-memory-roundtrip/entries/{entry['id']}"
    same(stage.host.get(path).is_(200), entry, "and everybody reads the same")
    stage.stranger.get(path).refuses(404, "not_found")


@scenario("agentMemoryCrossTenantIsolation")
def cross_tenant(stage):
    foreign = "/v1/host/remembrancer/memory/conformance%2Fanother-tenant%2Fagent-memory/entries"
    stage.stranger.post(foreign, {"content": "Not for others."}).is_(201)
    found = variables(stage, "conformance-agent-memory-cross-tenant")
    check(found["ownerEntryId"] in [entry["id"] for entry in found["ownerProbe"]], f"the owner's: {found}")
    same(found["crossTenantProbe"], [], "nothing of another tenant's")


@scenario("agentMemoryRedactionContract")
def redaction(stage):
    entry = variables(stage, "conformance-agent-memory-redaction")["memoryReadback"]
    check(f"{MARKER}conformance-test-secret]" in entry["content"], f"a marker: {entry}")


@scenario("agentMemoryTtlExpiry")
def ttl(stage):
    found = variables(stage, "conformance-agent-memory-ttl")
    ids = [entry["id"] for entry in found["memoryList"]]
    check(found["freshId"] in ids and found["expiredId"] not in ids, f"what has ended is gone: {found}")
    ends = [datetime.fromisoformat(entry["expiresAt"]).timestamp() for entry in found["memoryList"] if "expiresAt" in entry]
    check(ends and all(end > time.time() for end in ends), f"all that is there lasts: {ends}")


@scenario("memory-injection-budget")
def budget(stage):
    found = variables(stage, "conformance-agent-memory-injection-budget")
    same(stage.document["memory"]["injectionBudget"], {"supported": True, "tokenCounter": "o200k_base"}, "how it is counted")
    total = found["budgetedTokenTotal"]
    # The texts are of common words, which are one token each; marks and a marker add a few.
    words = sum(len(entry["content"].split()) for entry in found["budgetedEntries"])
    check(words <= total <= words + 40, f"{total} tokens of {words} words")
    check(0 < total <= found["tokenBudget"], f"{total} within {found['tokenBudget']}")
    check(found["overBudgetEntryOmitted"] is True, "what does not fit alone is left out")
    check(found["overBudgetEntryId"] not in [entry["id"] for entry in found["budgetedEntries"]], "whole")
    check(MARKER in found["redactedContentSample"], "a marker")
    same(found["crossTenantBudgetedProbe"], [], "nothing of another tenant's")


@scenario("agentMetadata")
def metadata(stage):
    agent = stage.host.run("conformance-agent-identity")["agent"]
    same(agent, {"agentId": "core.conformance.identity-agent", "modelClass": "chat"}, "on whose behalf")


def written(stage, run):
    return [event for event in stage.host.events(run) if event["type"] == "memory.written"]


@scenario("memory-attribution-emits-on-write")
def emits(stage):
    state = stage.host.run("conformance-noop", tenantId="mem-attr-emit")
    same(state["owner"]["tenant"], "default", "the key decides whose run it is")
    events = written(stage, state["runId"])
    check(events and all(event["payload"]["memoryId"] for event in events), "a run tells what it wrote")
    seam = stage.host.get(f"/v1/host/sample/test/runs/{state['runId']}/events?type=memory.written").is_(200)
    same(seam["events"], events, "the seam shows the same")


@scenario("memory-attribution-no-content")
def no_content(stage):
    run = stage.host.run("conformance-noop", tenantId="mem-attr-content")["runId"]
    for event in written(stage, run):
        check(event["payload"]["memoryRef"] and event["payload"]["memoryId"], "which")
        check(set(event["payload"]) <= {"memoryRef", "memoryId", "nodeId", "agentId", "tags"}, f"and nothing of it: {event}")


@scenario("memory-attribution-tenant-scoped")
def tenant_scoped(stage):
    run = stage.host.run("conformance-noop", tenantId="somebody-else")["runId"]
    check(all(event["runId"] == run for event in written(stage, run)), "events of this run alone")
    stage.stranger.get(f"/v1/runs/{run}/events").refuses(404, "not_found")
    theirs = stage.stranger.run("conformance-noop", tenantId="default")
    check(theirs["owner"]["tenant"].startswith("stranger-"), "nobody gets into another tenant by naming it")


@scenario("memory-attribution-replay-stable")
def replay_stable(stage):
    fixtures = [name for name in stage.document["fixtures"] if name != "conformance-capability-missing"]
    for fixture in fixtures:
        source = stage.host.run(fixture, inputs={"nonce": stage.nonce})
        events = stage.host.events(source["runId"])
        forked = stage.host.post(f"/v1/runs/{source['runId']}:fork", {"mode": "replay", "fromSeq": 0}).is_(201)
        replay = stage.host.ended(forked["runId"])
        same(replay["status"], "completed", f"{fixture}: {replay.get('error')}")
        same(replay["variables"], source["variables"], f"the replay of {fixture} ends with the same")
        repeated = stage.host.events(forked["runId"])
        same([event["type"] for event in repeated], [event["type"] for event in events], f"the replay of {fixture} tells the same")
        def facts(log):
            return [(event["payload"], event["timestamp"]) for event in log if event["type"].startswith("memory.")]
        same(facts(repeated), facts(events), f"the facts of {fixture}, with their ids and times")


@scenario("memory-degraded-projection")
def degraded(stage):
    agents = stage.host.get("/v1/agents").is_(200)["agents"]
    check(agents, "at least one agent")
    for agent in agents:
        lacking = agent.get("degradedMemoryDimensions", [])
        check(set(lacking) <= DIMENSIONS and len(set(lacking)) == len(lacking), f"known dimensions: {agent}")
        same(bool(lacking), agent.get("memoryDegraded", False), "a list exactly if it is degraded")
    memory = stage.host.get(f"/v1/agents/{MEMORY_AGENT}").is_(200)
    same("memoryBackends" in stage.document["agents"], stage.mode == "durable", "memoryBackends only where memory lasts")
    if stage.mode == "memory":
        same((memory["memoryDegraded"], memory["degradedMemoryDimensions"]), (True, ["long-term-durability"]), "what is missing")
    else:
        check("memoryDegraded" not in memory or memory["memoryDegraded"] is False, f"nothing is missing: {memory}")
        check(not memory.get("degradedMemoryDimensions"), "nor listed")
    plain = stage.host.get("/v1/agents/core.conformance.identity-agent").is_(200)
    check(not plain.get("memoryDegraded") and not plain.get("degradedMemoryDimensions"), "what asks for nothing lacks nothing")


@scenario("agent-capability-degraded-projection")
def capability_degraded(stage):
    name = f"local.conformance.needs-{stage.nonce[:8]}"
    manifest = {"agentId": name, "persona": "Needs much", "modelClass": "general", "systemPrompt": "Ask.", "requiresCapabilities": ["memory", "nobody.has"]}
    stage.host.post(INSTALL, {"manifest": manifest}).is_(201)
    same(stage.host.get(f"/v1/agents/{name}").is_(200)["degraded"], ["nobody.has"], "what the host lacks")
    stage.stranger.get(f"/v1/agents/{name}").refuses(404, "not_found")
    stage.stranger.post("/v1/runs", {"agentId": name}).refuses(404)
    stage.host.call("DELETE", f"{INSTALL}/{name}").is_(204)


@scenario("agent-manifest-runtime")
def manifest_runtime(stage):
    same(stage.document["agents"]["manifestRuntime"]["supported"], True, "agents run here")
    inventory = stage.host.get("/v1/agents").is_(200)
    names = [agent["agentId"] for agent in inventory["agents"]]
    same((names, inventory["total"]), (sorted(names), len(names)), "in order")
    for agent in inventory["agents"]:
        same(stage.host.get(f"/v1/agents/{agent['agentId']}").is_(200), agent, "one by one the same")
        check("systemPrompt" not in agent, "no prompt")
        body = {"task": {}, "validateHandoff": False, "availableTools": []}
        done = stage.host.post(f"/v1/host/sample/agents/{agent['agentId']}/dispatch", body).is_(200)
        check(done["status"] in ("completed", "escalated"), f"the turn: {done}")
        check({"agent.reasoned", "agent.decided"} <= {event["type"] for event in done["events"]}, "what it did")
        check(all(event["agentId"] == agent["agentId"] for event in done["events"]), "each by this agent")
    stage.host.get("/v1/agents/core.nobody").refuses(404, "not_found")
    stage.host.post("/v1/host/sample/agents/core.nobody/dispatch", {"task": {}}).refuses(404)
    stage.nobody.get("/v1/agents").refuses(401, "unauthenticated")


@scenario("agent-turn-is-a-run")
def agent_turn(stage):
    task = f"Remember {stage.nonce}."
    first = stage.host.ended(stage.host.start({"agentId": MEMORY_AGENT, "inputs": {"task": task, "availableTools": ["search", "shell"]}}))
    same((first["status"], first["variables"]["tools"]), ("completed", ["search"]), "only tools that it may use")
    same("memoryRef" in first["agent"], stage.mode == "durable", f"AgentRef.memoryRef only where memory lasts: {first['agent']}")
    second = stage.host.ended(stage.host.start({"agentId": MEMORY_AGENT}))
    same(second["variables"]["recalled"][0]["content"], task, "it remembers")
    check(task not in str(stage.host.events(first["runId"])), "and events do not tell")
