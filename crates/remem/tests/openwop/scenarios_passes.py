"""Passes: what compaction, distillation and consolidation make of a memory, what they tell, and what they never show."""
import json
import re
from urllib.parse import quote

from wire import check, file_path, same, scenario

EVERYWHERE = ("durable", "memory", "plain")
SEED, COMPACT = "/v1/test/memory/seed", "/v1/test/memory/compact"
CONSOLIDATE, DISTILL = "/v1/host/sample/memory/consolidate", "/v1/host/sample/memory/distill"
MARKER, INDEX = "[REDACTED:", "MEMORY-INDEX.json"
# Markers as models and other hosts write them: in derived text they become this host's.
PLANTED = ("[BYOK:hk_live_planted_77]", "<REDACTED:billing-db-creds>")
# Looks a little like a secret or a marker, and is neither.
NEAR = ("the word REDACTED stands alone", "AKIA is how such names begin", "see [BYOK] in the glossary", "the sk- prefix is explained there")
HARVEST = ["The orchard by the river was picked on Monday.", "The press needs a new belt before October.", "Ines keeps the keys of the cold store."]


def path(memory, rest="entries"):
    return f"/v1/host/remembrancer/memory/{quote(memory, safe='')}/{rest}"


def fresh(stage, name):
    """The name of a memory that nobody used before."""
    stage.memories = getattr(stage, "memories", 0) + 1
    return f"mem://conformance/{name}/{stage.nonce}-{stage.memories}"


def planted(stage, name, texts):
    """A memory of its own with these texts, and their ids."""
    memory = fresh(stage, name)
    entries = [{"id": f"{name}-{stage.nonce}-{n}", "content": text, "tags": ["planted"]} for n, text in enumerate(texts)]
    ids = [entry["id"] for entry in entries]
    same(stage.host.post(SEED, {"memoryRef": memory, "entries": entries}).is_(201), {"plantedIds": ids}, "planted")
    return memory, ids


def now(stage):
    """Where the feed ends."""
    return stage.host.get("/v1/host/remembrancer/events?after=latest").is_(200)["nextAfter"]


def told(stage, after, kind):
    """Payloads of the events of a kind since then, from the feed."""
    found = []
    while True:
        page = stage.host.get(f"/v1/host/remembrancer/events?after={after}").is_(200)
        if not page["events"]:
            return found
        found += [event["payload"] for event in page["events"] if event["type"] == kind]
        after = page["nextAfter"]


def entries(stage, memory):
    return stage.host.get(path(memory, "entries?limit=0")).is_(200)["entries"]


@scenario("memory-managed-profile", EVERYWHERE)
def managed(stage):
    """The profile openwop-memory-managed follows from what the document says."""
    memory, agents = stage.document["memory"], stage.document["agents"]
    check(memory["supported"] and memory["writable"], "memory")
    same((memory["compaction"]["supported"], memory["compaction"]["trigger"]), (True, "host-managed"), "compaction")
    check(memory["compaction"]["maxInputEntries"] >= 1 and memory["compaction"]["maxOutputBytes"] <= memory["maxEntrySizeBytes"], "its limits")
    same(memory["attribution"]["supported"], True, "attribution")
    check(memory["retention"]["ttl"] or memory["retention"]["forget"], "retention")
    distillation = memory["distillation"]
    same((distillation["supported"], distillation["indexEmitted"], distillation["tokenizerName"]), (True, True, "o200k_base"), "distillation")
    check(distillation["maxTokenBudget"] >= 1 and re.fullmatch(r"P[1-9]\d*D", distillation["archiveRetention"]), f"{distillation}")
    same("memoryConsolidation" in agents, stage.mode != "memory", "consolidation is of memory that lasts")
    if stage.mode != "memory":
        check(agents["memoryConsolidation"]["supported"] and "long-term" in agents["memoryBackends"], "consolidation")


@scenario("memory-pass-seams-closed")
def closed(stage):
    weak = stage.host.new_key(["memory:read", "memory:write"])
    for seam, body in ((COMPACT, {}), (CONSOLIDATE, {"memoryRef": "m"}), (DISTILL, {"memoryRef": "m"})):
        stage.nobody.post(seam, body).refuses(401, "unauthenticated")
        stage.nobody.post(seam, body, authorization="Bearer nobody").refuses(401, "unauthenticated")
        stage.host.post(seam, {}).refuses(400, "validation_error")
        stage.host.post(seam, {"memoryRef": "../m"}).refuses((400, 422), "validation_error")
        memory = fresh(stage, "closed")
        same(weak.post(seam, {"memoryRef": memory}).refuses(403, "forbidden")["details"], {"scopeRequired": "memory:admin"}, "what the key lacks")
        same(entries(stage, memory), [], "and nothing was written")


@scenario("memory-compaction-event-emitted")
def compaction(stage):
    memory, ids = planted(stage, "compaction", [*HARVEST, *NEAR])
    before = now(stage)
    done = stage.host.post(COMPACT, {"memoryRef": memory}).is_(200)
    payload, output = done["payload"], done["outputContent"]
    same((done["type"], set(done)), ("memory.compacted", {"type", "payload", "outputContent"}), "the answer")
    same(set(payload), {"memoryRef", "outputId", "sourceIds", "sourceCount", "trigger", "byteSize"}, "these fields and no others")
    same((payload["memoryRef"], payload["sourceCount"], payload["trigger"]), (memory, len(ids), "host-managed"), "what was done")
    same((sorted(payload["sourceIds"]), payload["byteSize"]), (sorted(ids), len(output.encode())), "of what, and how large it is")
    same(told(stage, before, "memory.compacted"), [payload], "the feed tells the same, once")
    retired = [(one["memoryId"], one["reason"], one["by"]) for one in told(stage, before, "memory.retired")]
    same(sorted(retired), sorted((name, "compacted", payload["outputId"]) for name in ids), "what it stands for")
    same(stage.host.get(path(memory, f"entries/{payload['outputId']}")).is_(200)["content"], output, "and it can be read")
    same([entry["id"] for entry in entries(stage, memory)], [payload["outputId"]], "it alone")
    stage.host.get(path(memory, f"entries/{ids[0]}")).refuses(404, "not_found")
    stage.stranger.get(path(memory, f"entries/{payload['outputId']}")).refuses(404, "not_found")
    check(all(text in output for text in NEAR), f"what is no secret stays: {output}")
    same(stage.host.post(COMPACT, {"memoryRef": memory}).status, 204, "one entry cannot become fewer")
    same(len(told(stage, before, "memory.compacted")), 1, "nothing done, nothing told")


@scenario("memory-compaction-many")
def compaction_of_many(stage):
    """Above a hundred sources, the event counts them and names none."""
    memory, ids = planted(stage, "many", [f"On day {n} the depot counted {n * 7} crates in bay {n % 9}." for n in range(120)])
    before = now(stage)
    payload = stage.host.post(COMPACT, {"memoryRef": memory}).is_(200)["payload"]
    same((payload["sourceCount"], "sourceIds" in payload), (len(ids), False), "counted, not named")
    same(told(stage, before, "memory.compacted"), [payload], "in the feed as well")


@scenario("memory-compaction-provenance-tag")
def provenance(stage):
    memory, _ = planted(stage, "provenance", HARVEST)
    output = stage.host.post(COMPACT, {"memoryRef": memory}).is_(200)["payload"]["outputId"]
    listed = stage.host.get(f"/v1/memory/{quote(memory, safe='')}?limit=50").is_(200)["entries"]
    tags = next(entry["tags"] for entry in listed if entry["id"] == output)
    made_by = [tag for tag in tags if re.fullmatch(r"compacted-from:[^\s:][^\s]*", tag)]
    same((len(made_by), "planted" in tags), (1, False), f"where it comes from, by one tag: {tags}")


@scenario("memory-compaction-sr1-carry-forward")
def carry_forward(stage):
    token = "".join(("ghp_", "Qm4Zt8Rk2Wp6Yx1Bv9Nc3Ld7Fs5Gh0Ja2KeT"))
    texts = [f"The key was {PLANTED[0]} then.", f"The base is behind {PLANTED[1]} now.", f"A token {token} was pasted.", *NEAR]
    memory, _ = planted(stage, "carry-forward", texts)
    stage.looking.forbidden.append(token)
    output = stage.host.post(COMPACT, {"memoryRef": memory}).is_(200)["outputContent"]
    check(not any(text in output for text in PLANTED), f"no marker in another notation: {output}")
    same(output.count(MARKER), 3, f"this host's instead: {output}")
    check(all(text in output for text in NEAR), f"what is no secret stays: {output}")
    found = stage.host.post(path(memory, "search"), {"query": token}).is_(200)
    check(token not in json.dumps(found), "nor by looking for it")


def distilled(stage, memory, **more):
    return stage.host.post(DISTILL, {"memoryRef": memory, **more}).is_(200)


@scenario("distillation-shape")
def distillation(stage):
    memory, before = fresh(stage, "distillation"), now(stage)
    done = distilled(stage, memory, tokenBudget=8000)
    event = done["event"]
    same(set(event["distillation"]), {"tokenBudget", "tokensUsed", "indexUpdated"}, "the closed part")
    check(0 < event["distillation"]["tokensUsed"] <= event["distillation"]["tokenBudget"] == 8000, f"within the budget: {event}")
    facts = told(stage, before, "memory.compacted")
    same(len(facts), 1, "one event")
    same(set(facts[0]), {"memoryRef", "outputId", "sourceIds", "sourceCount", "trigger", "byteSize", "distillation"}, "its fields")
    same({name: facts[0][name] for name in event if name != "type"}, {name: event[name] for name in event if name != "type"}, "the answer tells what happened")
    output = stage.host.get(path(memory, f"entries/{event['outputId']}")).is_(200)
    same(len(output["content"].encode()), event["byteSize"], "the digest")
    left = [entry["id"] for entry in entries(stage, memory)]
    check(set(facts[0]["sourceIds"]) | {event["outputId"]} == set(left), "the sources stay")
    same(told(stage, before, "memory.retired"), [], "all of them")


@scenario("distillation-stable-archive")
def stable(stage):
    memory = fresh(stage, "stable")
    first = distilled(stage, memory, sources=HARVEST, tokenBudget=4000)
    check(re.fullmatch(r"[0-9a-f]{64}", first["archiveChecksum"]), f"a checksum: {first}")
    before = now(stage)
    again = distilled(stage, memory, sources=HARVEST, tokenBudget=4000)
    same((again["archiveChecksum"], again["event"]["outputId"]), (first["archiveChecksum"], first["event"]["outputId"]), "the same again")
    turned = distilled(stage, memory, sources=[{"content": text} for text in reversed(HARVEST)], tokenBudget=4000)
    same(turned["archiveChecksum"], first["archiveChecksum"], "in whatever order the sources come")
    same(told(stage, before, "memory.compacted"), [], "and nothing was made anew")
    other = distilled(stage, memory, sources=[*HARVEST[:2], "Ines lost the keys."], tokenBudget=4000)
    check(other["archiveChecksum"] != first["archiveChecksum"], "other sources, another archive")


@scenario("distillation-token-budget")
def too_small(stage):
    memory = fresh(stage, "budget")
    distilled(stage, memory, sources=HARVEST)
    index = stage.host.get(file_path(INDEX)).is_(200)
    held, before = entries(stage, memory), now(stage)
    refused = stage.host.post(DISTILL, {"memoryRef": memory, "sources": HARVEST, "tokenBudget": 1}).refuses(422, "token_budget_exceeded")
    check("archiveChecksum" not in refused and refused["details"]["budget"] == 1 < refused["details"]["minimumRequired"], f"{refused}")
    same(entries(stage, memory), held, "no digest")
    same(stage.host.get(file_path(INDEX)).is_(200), index, "no index")
    same(told(stage, before, "memory.compacted") + told(stage, before, "workspace.updated"), [], "no event")
    enough = refused["details"]["minimumRequired"]
    used = distilled(stage, memory, sources=HARVEST, tokenBudget=enough)["event"]["distillation"]
    check(used["tokensUsed"] <= used["tokenBudget"] == enough, f"what is said to be enough is enough: {used}")
    largest = stage.document["memory"]["distillation"]["maxTokenBudget"]
    for asked in (largest + 1, largest * 50):
        same(distilled(stage, memory, sources=HARVEST, tokenBudget=asked)["event"]["distillation"]["tokenBudget"], largest, "no more than the host gives")


@scenario("distillation-index-roundtrip")
def index_file(stage):
    memory, before = fresh(stage, "index"), now(stage)
    done = distilled(stage, memory, sources=HARVEST, indexEmitted=True)
    same((done["indexUpdated"], done["indexFile"]), (True, INDEX), "an index")
    file = stage.host.get(file_path(done["indexFile"])).is_(200)
    same(told(stage, before, "workspace.updated"), [{"path": INDEX, "version": file["version"]}], "told like any other file")
    lines = next(one["archives"] for one in json.loads(file["content"])["memories"] if one["memoryRef"] == memory)
    same([(line["sha256"], line["entryId"], line["sourceCount"]) for line in lines],
         [(done["archiveChecksum"], done["event"]["outputId"], len(HARVEST))], "what it leads to")
    stage.stranger.get(file_path(INDEX)).refuses(404, "not_found")
    silent = distilled(stage, memory, sources=HARVEST, indexEmitted=False)
    same((silent["indexUpdated"], silent.get("indexFile")), (False, None), "unless nobody wants to know")


@scenario("distillation-secret-carryforward")
def secret_distilled(stage):
    """The value itself is one that no answer may hold."""
    memory = fresh(stage, "secret")
    done = distilled(stage, memory, sources=[f"The base is behind {PLANTED[1]}."], includeSecretCanary=True)
    same(done["secretLeaked"], False, "not in the archive")
    texts = [entry["content"] for entry in entries(stage, memory)]
    check(len(texts) == 3 and all(MARKER in text or PLANTED[1] in text for text in texts), f"a marker stands in its place: {texts}")
    digest = stage.host.get(path(memory, f"entries/{done['event']['outputId']}")).is_(200)["content"]
    check(MARKER in digest and PLANTED[1] not in digest, f"in the digest as well: {digest}")


@scenario("memory-consolidation-idempotent")
def consolidation(stage):
    for memory in ("mem://conformance/consolidation", fresh(stage, "consolidation")):
        new, before = entries(stage, memory) == [], now(stage)
        first = stage.host.post(CONSOLIDATE, {"memoryRef": memory, "includeSecretCanary": True}).is_(200)
        held = entries(stage, memory)
        counts = first["event"]["inputCount"], first["event"]["outputCount"]
        same((counts[1], first["secretLeaked"]), (len(held), False), "what is left")
        same(counts[0] > counts[1], new, f"what says the same is one, the first time: {counts}")
        facts = told(stage, before, "agent.memory.consolidated")
        same([{name: fact[name] for name in first["event"]} for fact in facts], [first["event"]], "the feed tells the same")
        same(set(facts[0]), {"memoryRef", "inputCount", "outputCount", "mergedIds", "trigger"}, "without a word of it")
        merged = [(one["memoryId"], one["reason"]) for one in told(stage, before, "memory.retired")]
        same(sorted(merged), sorted((name, "merged") for name in facts[0]["mergedIds"]), "what was merged")
        second = stage.host.post(CONSOLIDATE, {"memoryRef": memory, "includeSecretCanary": True}).is_(200)
        same((second["event"]["inputCount"], second["event"]["outputCount"]), (counts[1], counts[1]), "a second pass finds nothing")
        same(entries(stage, memory), held, "and changes nothing")
        check(any(MARKER in entry["content"] for entry in held), "a marker stands in the secret's place")
        same(told(stage, before, "agent.memory.consolidated")[1]["mergedIds"], [], "and says so")


def forked(stage, run):
    return stage.host.ended(stage.host.post(f"/v1/runs/{run}:fork", {"mode": "replay", "fromSeq": 0}).is_(201)["runId"])


def facts(stage, run):
    return [(event["type"], event["payload"], event["timestamp"]) for event in stage.host.events(run) if "memory." in event["type"]]


def install(stage, name, nodes):
    workflow = f"{name}-{stage.nonce}"
    body = {"id": workflow, "nodes": [{"id": f"n{n}", "typeId": "core.identity", "config": config} for n, config in enumerate(nodes)]}
    stage.host.call("PUT", f"/v1/host/remembrancer/workflows/{workflow}", body).is_(200, 201)
    return workflow


@scenario("replay-after-passes")
def replayed(stage):
    """A run saw what it saw, whatever passes made of the memory since."""
    twice = [*HARVEST, HARVEST[0].replace("Monday.", "Monday!")]
    memory, ids = planted(stage, "replay", twice)
    reading = install(stage, "reads", [{"memoryAction": "read", "memoryRef": memory, "into": "known"}])
    source = stage.host.run(reading)
    same(sorted(entry["id"] for entry in source["variables"]["known"]), sorted(ids), "what it read")
    counts = stage.host.post(CONSOLIDATE, {"memoryRef": memory}).is_(200)["event"]
    same((counts["inputCount"], counts["outputCount"]), (4, 3), "consolidated")
    same(forked(stage, source["runId"])["variables"], source["variables"], "the replay reads what the run read")
    same(len(stage.host.run(reading)["variables"]["known"]), 3, "a new run reads what is there")
    stage.host.post(COMPACT, {"memoryRef": memory}).is_(200)
    same(forked(stage, source["runId"])["variables"], source["variables"], "also when all of it is gone")
    same(len(stage.host.run(reading)["variables"]["known"]), 1, "and a new run reads the digest")


@scenario("distillation-inside-run")
def distilled_by_run(stage):
    memory, _ = planted(stage, "by-run", HARVEST)
    workflow = install(stage, "distills", [{"memoryAction": "distill", "memoryRef": memory, "into": "digest"}])
    source = stage.host.run(workflow, configurable={"distillation": {"tokenBudget": 3000}})
    same((source["status"], source["variables"]["digest"]["tokenBudget"]), ("completed", 3000), "within the run's budget")
    told_by = [event["payload"]["distillation"]["tokenBudget"] for event in stage.host.events(source["runId"]) if event["type"] == "memory.compacted"]
    same(told_by, [3000], "the run tells of it")
    held = entries(stage, memory)
    replay = forked(stage, source["runId"])
    same((replay["status"], replay["variables"]), ("completed", source["variables"]), "a replay ends with the same")
    same(facts(stage, replay["runId"]), facts(stage, source["runId"]), "tells the same")
    same(entries(stage, memory), held, "and makes nothing")
    small = stage.host.run(workflow, configurable={"distillation": {"tokenBudget": 1}})
    same((small["status"], small["error"]["code"]), ("failed", "token_budget_exceeded"), "a budget that is too small fails the run")
    for action in ("consolidate", "compact"):
        state = stage.host.run(install(stage, action, [{"memoryAction": action, "memoryRef": memory}]))
        same((state["status"], state["error"]["code"]), ("failed", "pass_inside_run"), "a run cannot change what it reads a snapshot of")
