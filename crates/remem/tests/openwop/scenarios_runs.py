"""Runs and workspace files: their course, their events, repetition, isolation."""
from urllib.parse import quote

from wire import check, file_path, same, scenario

EVERYWHERE = ("durable", "memory", "plain")
WORKFLOWS = "/v1/host/remembrancer/workflows"
TERMINAL = ("run.completed", "run.failed", "run.cancelled")


@scenario("runs-lifecycle")
def lifecycle(stage):
    host = stage.host
    created = host.post("/v1/runs", {"workflowId": "conformance-noop", "inputs": {}}).is_(201)
    check(created["status"] in ("pending", "running", "completed"), f"how far it has come: {created}")
    state = host.ended(created["runId"])
    same((state["status"], state["workflowId"]), ("completed", "conformance-noop"), "the run")
    check(state["startedAt"] <= state["completedAt"] and state["nodeStates"] == {"noop": {"status": "completed"}}, f"its course: {state}")
    same(host.get(created["statusUrl"]).is_(200), state, "where the answer said")
    kinds = [event["type"] for event in host.get(created["eventsUrl"]).is_(200)["events"]]
    check([kind for kind in kinds if kind in ("run.started", "node.completed", "run.completed")] == ["run.started", "node.completed", "run.completed"],
          f"its events: {kinds}")
    host.post(f"/v1/runs/{created['runId']}/cancel", {}).refuses(409, "run_already_terminal")


@scenario("eventOrdering")
def ordering(stage):
    for fixture in stage.document["fixtures"]:
        run = stage.host.run(fixture, inputs={"nonce": stage.nonce})["runId"]
        first = stage.host.get(f"/v1/runs/{run}/events/poll").is_(200)
        check(first["isComplete"] is True, "all of it")
        events = first["events"]
        same([event["sequence"] for event in events], list(range(len(events))), f"the order of {fixture}")
        ends = [event for event in events if event["type"] in TERMINAL]
        same(ends, events[-1:], "one end, and it is last")
        same(len({event["eventId"] for event in events}), len(events), "no event twice")
        check(all(event["runId"] == run for event in events), "of this run")
        for _ in range(3):
            same(stage.host.get(f"/v1/runs/{run}/events/poll").is_(200), first, "the same however often one asks")
        same(stage.host.events(run), events, "on the other path as well")
        middle = len(events) // 2
        rest = stage.host.get(f"/v1/runs/{run}/events/poll?lastSequence={middle}&timeout=1").is_(200)
        same(rest, {"events": events[middle + 1:], "isComplete": True}, "from the middle")
        text = stage.host.get(f"/v1/runs/{run}/events", accept="text/event-stream").text
        same(text.count("\nid: ") + text.startswith("id: "), len(events), "and as a stream")


@scenario("idempotency")
def idempotency(stage):
    body = {"workflowId": "conformance-idempotent", "inputs": {"nonce": stage.nonce}}
    first = stage.host.post("/v1/runs", body, idempotency_key=stage.nonce)
    second = stage.host.post("/v1/runs", body, idempotency_key=stage.nonce)
    same(second.is_(200, 201)["runId"], first.is_(201)["runId"], "one run")
    same((first.headers["openwop-idempotent-replay"], second.headers["openwop-idempotent-replay"]), (None, "true"), "said so")
    other = stage.host.post("/v1/runs", {**body, "inputs": {"nonce": "other"}}, idempotency_key=stage.nonce)
    check("runId" not in other.refuses(409, "idempotency_key_mismatch"), "no run")
    theirs = stage.stranger.post("/v1/runs", body, idempotency_key=stage.nonce)
    check(theirs.is_(201)["runId"] != first.json["runId"], "each tenant has keys of its own")
    fork = {"mode": "replay", "fromSeq": 0}
    stage.host.ended(first.json["runId"])
    path = f"/v1/runs/{first.json['runId']}:fork"
    forks = [stage.host.post(path, fork, idempotency_key=f"fork-{stage.nonce}").is_(201)["runId"] for _ in range(2)]
    same(forks[0], forks[1], "one fork")


@scenario("fork")
def fork(stage):
    source = stage.host.run("conformance-noop")["runId"]
    path = f"/v1/runs/{source}:fork"
    branch = stage.host.post(path, {"mode": "branch", "fromSeq": 1, "runOptionsOverlay": {"tags": ["other"]}}).is_(201)
    same((branch["sourceRunId"], branch["fromSeq"], branch["mode"]), (source, 1, "branch"), "a branch")
    same(stage.host.ended(branch["runId"])["tags"], ["other"], "with other options")
    stage.host.post(path, {"mode": "branch"}).refuses(400, "validation_error")
    stage.host.post(path, {"mode": "replay", "runOptionsOverlay": {}}).refuses(400, "validation_error")
    stage.host.post(path, {"mode": "replay", "fromSeq": -1}).refuses(400, "validation_error")
    stage.host.post(path, {"mode": "replay", "fromSeq": 999}).refuses(422)
    stage.host.post("/v1/runs/unheard-of:fork", {"mode": "replay"}).refuses(404, "not_found")
    stage.host.post(f"/v1/runs/{source}:rewind", {"mode": "replay"}).refuses((404, 405))


def install(stage, name, nodes):
    """A workflow of the tenant's own."""
    name = f"{name}-{stage.nonce[:8]}"
    definition = stage.host.call("PUT", f"{WORKFLOWS}/{name}", {"id": name, "nodes": nodes}).is_(201)
    same(stage.host.get(f"/v1/workflows/{name}").is_(200), definition, "as it was given")
    stage.stranger.get(f"/v1/workflows/{name}").refuses(404, "workflow_not_found")
    return name


def action(name, **config):
    return {"id": name, "typeId": "core.identity", "config": config}


@scenario("own-workflows", EVERYWHERE)
def own_workflows(stage):
    """Every kind of node, then a replay when all that was read is gone, and a branch."""
    host, memory = stage.host, f"own/{stage.nonce}"
    note, path = {"memoryAction": "write", "memoryRef": memory, "into": "kept"}, file_path(f"own/{stage.nonce}.md")
    host.call("PUT", path, {"content": "A file."}).is_(200)
    child = install(stage, "child", [action("w", memoryAction="write", memoryRef=memory, content="Of the child.")])
    parent = install(stage, "parent", [
        action("write", **note, contentFrom="inputs.text", tags=["source:chat"]),
        action("list", memoryAction="read", memoryRef=memory, into="memoryList"),
        action("get", memoryAction="get", memoryRef=memory, idFrom="variables.kept", into="memoryReadback"),
        action("file", memoryAction="read-file", path=f"own/{stage.nonce}.md"),
        {"id": "child", "typeId": "core.subWorkflow", "config": {"workflowId": child}},
        action("delete", memoryAction="delete", memoryRef=memory, idFrom="variables.kept"),
        action("last", memoryAction="read", memoryRef=memory, into="ownerProbe"),
    ])
    state = host.run(parent, inputs={"text": "Its own."})
    same((state["status"], state.get("error")), ("completed", None), "the run")
    found = state["variables"]
    same((found["memoryReadback"]["content"], found["file"]), ("Its own.", "A file."), "what it read")
    same([entry["content"] for entry in found["ownerProbe"]], ["Of the child."], "what is left")
    events = host.events(state["runId"])
    kinds = [event["type"] for event in events]
    check({"memory.written", "memory.deleted"} <= set(kinds) and kinds[-1] == "run.completed", f"its events: {kinds}")
    host.call("DELETE", path).is_(204)
    for entry in found["ownerProbe"]:
        host.call("DELETE", f"/v1/host/remembrancer/memory/{quote(memory, safe='')}/entries/{entry['id']}").is_(204)
    for name in (parent, child):
        host.call("DELETE", f"{WORKFLOWS}/{name}").is_(204)
    replay = host.ended(host.post(f"/v1/runs/{state['runId']}:fork", {"mode": "replay"}).is_(201)["runId"])
    same((replay["status"], replay["variables"]), ("completed", found), "the replay of what is gone")
    same([event["type"] for event in host.events(replay["runId"])], kinds, "tells the same")
    host.post("/v1/runs", {"workflowId": parent}).refuses(404, "workflow_not_found")


@scenario("cancel", EVERYWHERE)
def cancel(stage):
    long = install(stage, "long", [action(f"w{n}", memoryAction="write", memoryRef="cancelled", content=f"Number {n}.") for n in range(100)])
    for _ in range(20):
        run = stage.host.start({"workflowId": long})
        answer = stage.host.post(f"/v1/runs/{run}/cancel", {"reason": "enough"})
        if answer.status == 200:
            break
        answer.refuses(409, "run_already_terminal")  # it was faster, which is rare
    same(answer.is_(200), {"runId": run, "status": "cancelled"}, "the answer")
    same(stage.host.post(f"/v1/runs/{run}/cancel", {}).is_(200), answer.json, "again the same")
    same(stage.host.ended(run)["status"], "cancelled", "the run")
    events = stage.host.events(run)
    same([event["type"] for event in events if event["type"] in TERMINAL], ["run.cancelled"], "one end")
    same(stage.host.events(run), events, "and nothing after it")
    stage.stranger.post(f"/v1/runs/{run}/cancel", {}).refuses(404, "not_found")


@scenario("workspace-behavior", EVERYWHERE)
def workspace(stage):
    """Versions 1 and 2 of a fixed path, deleted afterwards: the next time begins at 1 again."""
    shape = stage.document["workspace"]
    check(shape["supported"] and shape["versioned"] and min(shape["maxFileBytes"], shape["maxFiles"], shape["maxVersions"]) >= 1, f"{shape}")
    host, path = stage.host, file_path("behavior/CRUD.md")
    first = host.call("PUT", path, {"content": "# One"}).is_(200)
    same((first["version"], first["content"], first["contentType"]), (1, "# One", "text/markdown"), "the first version")
    second = host.call("PUT", path, {"content": "# Two"}, if_match=first["etag"]).is_(200)
    same(second["version"], 2, "the second")
    stale = host.call("PUT", path, {"content": "# Lost"}, if_match=first["etag"]).refuses(409, "workspace_conflict")
    same(stale["details"]["currentVersion"], 2, "the version that is there")
    same(host.get(f"{path}?version=1").is_(200)["content"], "# One", "the first is kept")
    same(host.get("/v1/host/workspace/files/behavior/CRUD.md").status, 200, "a slash is a slash")
    listed = host.get("/v1/host/workspace/files?prefix=behavior/").is_(200)["files"]
    check([file["path"] for file in listed] == ["behavior/CRUD.md"] and "content" not in listed[0], f"the list: {listed}")
    host.call("PUT", path, {"content": "x" * (shape["maxFileBytes"] + 1)}).refuses(413, "workspace_too_large")
    host.call("PUT", path, {"content": "x", "unknown": 1}).refuses((400, 422), "validation_error")
    if stage.mode != "plain":
        state = host.run("conformance-noop")
        check({"path": "behavior/CRUD.md", "version": 2} in state["workspace"], f"a run keeps the versions it began with: {state['workspace']}")
        host.call("PUT", path, {"content": "# Three"}).is_(200)
        same(host.get(f"/v1/runs/{state['runId']}").is_(200)["workspace"], state["workspace"], "for ever")
    host.call("DELETE", path).is_(200, 204)
    host.get(path).refuses(404, "not_found")
    host.call("DELETE", path).refuses(404, "not_found")


@scenario("workspace-cross-tenant-isolation")
def workspace_isolation(stage):
    def op(tenant, workspace, op, **more):
        return stage.host.post("/v1/host/sample/workspace/op", {"tenant": tenant, "workspace": workspace, "op": op, **more})
    one, two = f"one-{stage.nonce[:8]}", f"two-{stage.nonce[:8]}"
    op(one, "w", "put", path="private.md", content="mine").is_(200)
    same(op(one, "w", "get", path="private.md").is_(200)["content"], "mine", "its own")
    for tenant, workspace in ((two, "w"), (one, "other")):
        op(tenant, workspace, "get", path="private.md").refuses((403, 404))
        same(op(tenant, workspace, "list").is_(200)["files"], [], "an empty list")
    same([file["path"] for file in op(one, "w", "list").is_(200)["files"]], ["private.md"], "its own list")
    op(one, "w", "delete", path="private.md").is_(200)
    op(one, "w", "get", path="private.md").refuses((403, 404))


@scenario("workspace-cross-tenant-blackbox", EVERYWHERE)
def workspace_blackbox(stage):
    path = file_path(f"isolation/{stage.nonce}.md")
    stage.host.call("PUT", path, {"content": "mine"}).is_(200)
    unreal = stage.stranger.get(file_path("isolation/unheard-of.md"))
    real = stage.stranger.get(path)
    same((real.status, real.text), (404, unreal.text), "another tenant's file is like none")
    stage.stranger.call("DELETE", path).refuses(404, "not_found")
    same(stage.stranger.get("/v1/host/workspace/files").is_(200)["files"], [], "an empty list")
    stage.stranger.call("PUT", path, {"content": "theirs"}).is_(200)
    same(stage.host.get(path).is_(200)["content"], "mine", "each has a file of that name")
    stage.host.call("DELETE", path).is_(204)
    same(stage.stranger.get(path).is_(200)["content"], "theirs", "and deletes only the own")
