"""What a host is asked for: every operation of the OpenAPI document, once at least so that it
succeeds and a few times so that it is refused; every MCP tool; and the command line.
"""

import datetime
import json

LATER = "2099-01-01T09:00:00.000Z"
# A commitment may be due within a year.
SOON = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=90)).strftime(
    "%Y-%m-%dT09:00:00.000Z",
)

MCP_CLIENT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "answers", "version": "1"},
}

# Operations that this scenario cannot make succeed, and why.
NEVER_SERVED = {
    "get_erasure_page": "a report has pages from 10,000 names on",
    "get_artifact": "this host keeps no artifacts",
    "redeliver": "a dead letter takes an hour of failures",
    "undo_rewrite": "there is no model",
}


def entries(host):
    """Entries and the memory as a whole; answers the ids of two entries."""
    memory = {"memoryRef": "agent-1"}
    body = {
        "content": "Ana prefers tea",
        "tags": ["drinks"],
        "subjects": ["Ana"],
        "metadata": {"sure": True},
    }
    again = [("Idempotency-Key", "tea")]
    tea = host.http("put_entry", body=body, headers=again, **memory)
    host.http("put_entry", "repeated", body=body, headers=again, **memory)
    host.http(
        "put_entry", "another under the same key", body={"content": "x"}, headers=again, **memory,
    )
    host.http(
        "put_entry",
        "with everything beside it",
        body=body,
        query={"include": "metadata,facets"},
        **memory,
    )
    host.http(
        "put_entry", "with a secret", body={"content": "the key is AKIAIOSFODNN7EXAMPLE"}, **memory,
    )
    for content in ("", " ", "x" * 70_000):
        host.http("put_entry", f"of {len(content)} characters", body={"content": content}, **memory)
    host.http(
        "put_entry",
        "that has expired",
        body={"content": "x", "expiresAt": "2001-01-01T00:00:00Z"},
        **memory,
    )
    host.http(
        "put_entry",
        "that expires later",
        body={"content": "Bo likes chess", "expiresAt": LATER},
        **memory,
    )
    host.http(
        "put_entries",
        body={"entries": [{"content": "Ben prefers coffee"}, {"content": "Eve rides a bike"}]},
        **memory,
    )
    host.http(
        "put_entries",
        "one of them is empty",
        body={"entries": [{"content": "x"}, {"content": ""}]},
        **memory,
    )
    note = {
        "id": "note-17",
        "content": "Ana lives in Bern",
        "createdAt": "2003-03-01T09:30:00Z",
        "subjects": ["Ana"],
    }
    host.http("import_entries", body={"entries": [note]}, **memory)
    host.http("import_entries", "again", body={"entries": [note]}, **memory)
    host.http("list_entries", **memory)
    page = host.http("list_entries", "a page", query={"limit": 2}, **memory)
    host.http(
        "list_entries",
        "the next page",
        query={"limit": 2, "cursor": page.get("nextCursor", "")},
        **memory,
    )
    host.http(
        "list_entries", "of a tag", query={"tag": "drinks", "include": "metadata,facets"}, **memory,
    )
    host.http("list_entries", "within a budget", query={"tokenBudget": 12}, **memory)
    host.http("get_entry", id=tea["id"], **memory)
    host.http(
        "get_entry", "with its metadata", id=tea["id"], query={"include": "metadata"}, **memory,
    )
    host.http("get_metadata", id=tea["id"], **memory)
    host.http("search", body={"query": "what does Ana drink: tea?"}, **memory)
    explained = {
        "query": "Ana prefers",
        "explain": True,
        "neighbours": 1,
        "include": "metadata,facets",
        "limit": 3,
    }
    host.http("search", "explained", body=explained, **memory)
    host.http("search", "for nothing that is there", body={"query": "submarine"}, **memory)
    host.http("recall", body={"query": "What does Ana drink?", "tokenBudget": 400}, **memory)
    host.http("stats", **memory)
    host.http("list_memories")
    host.http("get_lineage", id=tea["id"], **memory)
    host.http("get_audit", id=tea["id"], **memory)
    host.http(
        "link_action",
        body={"action": "gate.accept", "reference": "change-4711"},
        id=tea["id"],
        **memory,
    )
    host.http("get_audit", "after a link", id=tea["id"], **memory)
    gone = host.quietly("put_entry", body={"content": "to be deleted"}, **memory)
    host.http("delete_entry", id=gone["id"], **memory)
    host.http("delete_entry", "again", id=gone["id"], **memory)
    host.http("get_entry", "that is deleted", id=gone["id"], **memory)
    held = host.quietly("put_entry", body={"content": "held as evidence"}, **memory)
    host.quietly(
        "link_action",
        body={"action": "gate.accept", "reference": "change-1"},
        id=held["id"],
        **memory,
    )
    host.http("delete_entry", "that an action rests on", id=held["id"], **memory)
    host.http("get_retention", query={"memoryRef": "agent-1"})
    return {"id": tea["id"], **memory}


def workshop(host):
    """Answers to questions, sessions, threads and rules; answers the names of them."""
    memory = {"memoryRef": "~/ops"}
    for content in ("Send a table", "Send a chart"):
        body = {"content": content, "slot": "report", "source": "operator"}
        host.http(
            "put_entry", f"an answer: {content}", body=body, query={"include": "facets"}, **memory,
        )
    host.http("get_history", slot="report", **memory)
    host.http("retract", slot="report", **memory)
    host.http("get_history", "after a retraction", slot="report", **memory)
    host.http(
        "put_entry",
        "of a thread",
        body={"content": "Hello there", "interaction": "chat-1"},
        **memory,
    )
    host.http(
        "put_entry", "of a session", body={"content": "Halfway done", "tier": "session"}, **memory,
    )
    host.http(
        "put_entry",
        "that nobody vouches for",
        body={
            "content": "From a page", "source": "untrusted", "sourceRef": "https://example.org/x",
        },
        **memory,
    )
    host.http("list_entries", "with untrusted texts", query={"include": "facets"}, **memory)
    host.http("list_sessions", **memory)
    host.http("close_interaction", interaction="chat-1", **memory)
    host.http("close_session", **memory)
    host.http("close_session", "that is closed", **memory)
    host.http("list_sessions", "after the end", **memory)
    host.http("list_profiles")
    world = {"world": "gates"}
    rule = "Never send a message to a customer without an approval of the operator on duty."
    host.http("put_rule", body={"body": rule}, ruleId="approval", **world)
    host.http(
        "put_world_rules",
        body={
            "rules": [{"id": "tests", "body": "Run every test before a release is made public."}],
        },
        **world,
    )
    host.http("list_rules", **world)
    host.http("check_rule", body={"text": rule}, **world)
    host.http("check_rule", "of another text", body={"text": "Water the plants."}, **world)
    host.http(
        "put_entry", "that restates a rule", body={"content": rule, "world": "gates"}, **memory,
    )
    host.http("delete_rule", ruleId="approval", **world)
    host.http("delete_rule", "again", ruleId="approval", **world)
    return {"slot": "report", "interaction": "chat-1", "ruleId": "tests", **world}


def commitments(host):
    """Reminders, what they wait for, and heartbeats; answers the names of them."""
    memory = {"memoryRef": "agent-2"}
    for operation, names in (("get_rules", {}), ("get_memory_rules", memory)):
        host.http(operation, **names)
    host.http("put_rules", body={"arm": "confirm", "zone": "Europe/Berlin"})
    host.http("put_memory_rules", body={"arm": "auto"}, **memory)
    host.http("get_memory_rules", "of its own", **memory)
    once = host.http(
        "create_commitment", body={"text": "Renew the certificate", "at": SOON}, **memory,
    )
    host.http(
        "create_commitment",
        "with a predicate",
        body={"text": "Send the goods", "predicate": "the invoice has cleared"},
        **memory,
    )
    host.http(
        "create_commitment",
        "too far ahead",
        body={"text": "x", "at": "2999-01-01T00:00:00Z"},
        **memory,
    )
    every = host.http(
        "create_commitment",
        "again and again",
        body={"text": "Water the plants", "cron": "0 9 1 1 *", "zone": "UTC"},
        **memory,
    )
    name = {"commitmentId": (once or every).get("id") or every["id"]}
    host.http("list_commitments")
    host.http("list_commitments", "of a memory", query={"memoryRef": "agent-2", "limit": 1})
    host.http("get_commitment", **name)
    host.http("explain_commitment", **name)
    host.http("list_fires", **name)
    # A promise that a text holds is found by a pass, and waits for a confirmation there.
    host.quietly(
        "put_entry", body={"content": "I will call Ana back tomorrow at 9am."}, memoryRef="agent-3",
    )
    pending = {"memoryRef": "agent-3"}
    host.wait(lambda: host.quietly("list_commitments", query=pending)["commitments"])
    inferred = host.quietly("list_commitments", query=pending)["commitments"][0]["id"]
    host.http("explain_commitment", "that was read", commitmentId=inferred)
    host.http("confirm_commitment", commitmentId=inferred)
    host.http("confirm_commitment", "again", commitmentId=inferred)
    host.http("snooze_commitment", body={"until": SOON}, **name)
    host.http("cancel_commitment", commitmentId=inferred)
    host.http("cancel_commitment", "again", commitmentId=inferred)
    heartbeat = {"memoryRef": "agent-2", "key": "it is paid", "tag": "paid", "everySeconds": 300}
    host.http("put_heartbeat", body=heartbeat, heartbeatId="paid")
    host.http("get_heartbeat", heartbeatId="paid")
    host.http("list_heartbeats")
    host.http("observe", body={"key": "the invoice has cleared", "value": True}, **memory)
    host.http("list_commitments", "after an observation", query={"memoryRef": "agent-2"})
    host.http("remove_heartbeat", heartbeatId="paid")
    return {"heartbeatId": "paid", **name}


def programs(host):
    """Agents, workflows, runs, automations and webhooks; answers the names of them."""
    manifest = {
        "agentId": "local.support.greeter",
        "persona": "Greeter",
        "modelClass": "general",
        "systemPrompt": "Greet the customer.",
    }
    host.http("install_agent", body={"manifest": manifest})
    host.http("list_agents")
    agent = {"agentId": "local.support.greeter"}
    host.http("get_agent", **agent)
    node = lambda name, **config: {
        "id": name, "typeId": "core.identity", "config": {"memoryRef": "agent-1", **config},
    }
    learn = {"id": "learn", "nodes": [
        node("recall", memoryAction="read", into="known", limit=2),
        node("keep", memoryAction="write", contentFrom="inputs.fact"),
    ]}
    host.http("put_workflow", body=learn, workflowId="learn")
    host.http("put_workflow", "in the place of one", body=learn, workflowId="learn")
    host.http("get_workflow", workflowId="learn")
    host.http("list_workflows")
    run = host.http("create_run", body={"workflowId": "learn", "inputs": {"fact": "Ana has a cat"}})
    host.run_to_end(run)
    name = {"runId": run["runId"]}
    host.http("get_run", **name)
    host.http("run_events", **name)
    host.http("run_events", "as a stream", headers=[("Accept", "text/event-stream")], **name)
    host.http("poll_run", query={"lastSequence": 1, "timeout": 1}, **name)
    host.http("cancel_run", "that has ended", **name)
    host.http("get_artifact", "of a run", artifactId="none", **name)
    replay = host.http("fork_run", body={"mode": "replay"}, **name)
    host.run_to_end(replay)
    host.http("get_run", "a replay", runId=replay["runId"])
    turn = host.http(
        "create_run",
        "of an agent",
        body={"agentId": "local.support.greeter", "inputs": {"task": "Say hello"}},
    )
    host.run_to_end(turn)
    host.http("run_events", "of an agent", runId=turn["runId"])
    host.http("record_trace", body={**agent, "tools": ["search", "reply"]})
    automation = {"automationId": "daily", "schedule": {"at": SOON}, "workflowId": "learn"}
    host.http("put_automation", body=automation, automationId="daily")
    for operation in ("get_automation", "pause_automation", "resume_automation"):
        host.http(operation, automationId="daily")
    host.http("list_automations")
    hook = {"url": "https://hooks.example.com/x", "events": ["run.completed"], "tags": ["never"]}
    webhook = host.http("register", body=hook)
    host.http("register", "of this machine", body={**hook, "url": "https://127.0.0.1/x"})
    host.http("list")
    host.http("dead_letters", webhookId=webhook["webhookId"])
    host.http("redeliver", "of nothing", webhookId=webhook["webhookId"], sequence=1)
    host.http("remove", webhookId=webhook["webhookId"])
    return {"workflowId": "learn", "automationId": "daily", **agent, **name}


def proposals(host):
    """Proposals that take effect as soon as they are applied; answers the name of one."""
    prompt = {"templateId": "greeting", "version": "1.0.0", "text": "Hello", "variables": []}
    draft = host.http(
        "submit_proposal",
        body={"kind": "prompt-template", "artifact": prompt, "title": "Greeting"},
    )
    name = {"proposalId": draft["id"]}
    host.http("get_proposal", **name)
    host.http("revise_proposal", body={"title": "A friendlier greeting"}, **name)
    host.http("list_revisions", **name)
    host.http("list_proposals", query={"limit": 5})
    host.http("apply_proposal", body={}, **name)
    host.http("apply_proposal", "again", body={}, **name)
    host.http("list_installed")
    for end in ("reject_proposal", "archive_proposal"):
        other = host.quietly(
            "submit_proposal",
            body={
                "kind": "prompt-template",
                "artifact": {**prompt, "templateId": end.replace("_", "-")},
            },
        )
        host.http(end, proposalId=other["id"])
    return name


def gated_proposals(host):
    """Proposals that others have to approve first."""
    scopes = ["proposals:read", "proposals:write", "proposals:apply", "proposals:override"]
    keys = [
        host.quietly("create_key", body={"scopes": scopes, "principal": person})["key"]
        for person in ("ana", "ben", "eve")
    ]
    prompt = {"version": "1.0.0", "text": "Hello", "variables": []}
    for template, end in (("first", "approve_proposal"), ("second", "override_proposal")):
        body = {"kind": "prompt-template", "artifact": {**prompt, "templateId": template}}
        draft = host.http("submit_proposal", f"the {template}", body=body, key=keys[0])
        name = {"proposalId": draft["id"]}
        host.http(
            "apply_proposal", f"the {template}, which opens a gate", body={}, key=keys[1], **name,
        )
        host.http("get_gate", key=keys[1], **name)
        host.http(
            "approve_proposal", f"the {template}, by its author", body={}, key=keys[0], **name,
        )
        last = {"reason": "urgent"} if end == "override_proposal" else {}
        host.http(end, body=last, key=keys[2], **name)
        host.http("get_gate", f"of the {template} at the end", key=keys[1], **name)


def races(host):
    """What has to come before something has ended."""
    long = {"id": "long", "nodes": [{"id": f"n{n}", "typeId": "core.noop"} for n in range(100)]}
    host.quietly("put_workflow", body=long, workflowId="long")
    host.race(
        "cancel_run",
        lambda: {"runId": host.quietly("create_run", body={"workflowId": "long"})["runId"]},
    )
    many = {"memoryRef": "many"}
    for part in range(4):
        host.quietly(
            "put_entries",
            body={"entries": [{"content": f"Note {part} of {n}"} for n in range(500)]},
            **many,
        )
    host.race(
        "cancel_job",
        lambda: {"jobId": host.quietly("run_pass", body=many, name="consolidate")["id"]},
    )


def administration(host):
    """Files, secrets, keys, tenants, passes and the host itself; answers the names of them."""
    file = {"path": "notes/ana.md"}
    host.http(
        "put_file", body={"content": "Greet by name.", "contentType": "text/markdown"}, **file,
    )
    host.http(
        "put_file",
        "against another version",
        body={"content": "x"},
        headers=[("If-Match", '"x"')],
        **file,
    )
    host.http("get_file", **file)
    host.http("list_files")
    host.http("set_secret", body={"value": "correct-horse-battery"}, name="token")
    host.http("set_secret", "again", body={"value": "correct-horse-battery"}, name="token")
    host.http("rotate_secret", body={"value": "another-horse-battery"}, name="token")
    host.http("list_secrets")
    host.http(
        "put_entry",
        "with a secret of the vault",
        body={"content": "log in with another-horse-battery"},
        memoryRef="agent-1",
    )
    host.http("delete_secret", name="token")
    host.http("whoami")
    key = host.http(
        "create_key", body={"label": "support", "scopes": ["memory:read"], "principal": "ana"},
    )
    host.http("change_key", body={"trust": "tool"}, id=key["id"])
    host.http("list_keys")
    host.http("stats", "with another key", key=key["key"], memoryRef="agent-1")
    host.http("revoke_key", id=key["id"])
    host.http("stats", "with a revoked key", key=key["key"], memoryRef="agent-1")
    host.http("put_tenant", body={"id": "acme", "shapes": "flag"})
    host.http("list_tenants")
    texts = [f"The plan of project {n} is ready." for n in range(4)]
    texts += [f"The budget of project {n} is still open." for n in range(4)]
    doubled = [{"content": text} for text in texts + texts[:3]]
    host.quietly("put_entries", body={"entries": doubled}, memoryRef="notes")
    host.http("list_passes")
    host.http("run_pass", "over the host", body={}, name="purge")
    host.http(
        "run_pass", "as a trial", body={"memoryRef": "notes", "dryRun": True}, name="consolidate",
    )
    for name, options in (("consolidate", {}), ("distill", {"tokenBudget": 90})):
        job = host.ended(
            host.http("run_pass", body={"memoryRef": "notes", "options": options}, name=name),
        )
    host.http("cancel_job", "that has ended", jobId=job["id"])
    host.http("list_jobs")
    host.http("list_entries", "after passes", memoryRef="notes")
    archive = host.http("list_archives", memoryRef="notes")["archives"][0]["sha256"]
    host.http("get_archive", memoryRef="notes", sha256=archive)
    host.http("put_schedule", body={"cron": "0 3 1 1 *", "zone": "Europe/Berlin"}, name="distill")
    host.http("get_schedule", name="distill")
    host.http("list_schedules")
    host.http("remove_schedule", name="distill")
    host.http("get_embeddings")
    host.http("list_model_calls")
    for operation in ("discovery", "health", "ready", "openapi", "metrics"):
        host.http(operation)
    return {"jobId": job["id"], "name": "distill", "sha256": archive, **file}


def removals(host):
    """What goes at the end: it would be missing before. Answers the name of a report."""
    host.http("forget", "as a trial", body={"subject": "Ana", "dryRun": True})
    report = host.http("forget", body={"subject": "Ana"})
    host.http("forget", "again", body={"subject": "Ana"})
    host.http("list_erasures")
    host.http("get_erasure", id=report["id"])
    host.http("remove_automation", automationId="daily")
    host.http("delete_workflow", workflowId="learn")
    host.http("remove_agent", agentId="local.support.greeter")
    host.http("delete_file", path="notes/ana.md")
    host.http("events", query={"limit": 1000})
    return {"reportId": report["id"]}


def refusals(host, names):
    """Asks for every operation in ways that are refused: without a key, without the scope, with an
    unknown parameter, with a malformed body, and for what does not exist."""
    weak = host.quietly("create_key", body={"scopes": ["memory:link"]})["key"]
    for operation in sorted(host.operations):
        _, path, document = host.operations[operation]
        known = {"memoryRef": "agent-1", "sequence": 1, **names}
        if "security" not in document or document["security"]:
            host.http(operation, "without a key", key=None, **known)
            host.http(operation, "without the scope", key=weak, **known)
        host.http(operation, "with an unknown parameter", query={"nonsense": 1}, **known)
        if "requestBody" in document:
            for case, body in (
                ("no JSON", "{"), ("a list", []), ("an unknown field", {"nonsense": 1}),
            ):
                host.http(operation, f"of {case}", body=body, **known)
        if "{" in path:
            host.http(operation, "of what does not exist", sequence=7)


def mcp(host):
    """Every MCP tool, and requests that are refused."""
    host.mcp("initialize", **MCP_CLIENT)
    for method in ("tools/list", "prompts/list", "resources/list", "ping", "nonsense"):
        host.mcp(method)
    host.mcp("tools/list", "without a key", key=None)
    memory = {"memoryRef": "agents/mcp"}
    put = host.tool(
        "memory_put", content="Ana prefers green tea", tags=["drinks"], slot="drink", **memory,
    )
    entry = put["entry"]["id"]
    host.tool("memory_put", "of nothing", content="", **memory)
    host.tool("memory_get", id=entry, **memory)
    host.tool("memory_get", "of nothing", id="none", **memory)
    for tool in ("memory_list", "memory_stats"):
        host.tool(tool, **memory)
    for tool in ("memory_search", "memory_recall"):
        host.tool(tool, query="what does Ana drink: tea?", **memory)
    host.tool("memory_history", slot="drink", **memory)
    host.tool("memory_link_action", id=entry, action="gate.accept", reference="change-2", **memory)
    host.tool("session_close", "without one", **memory)
    host.tool("memory_put", "of a thread", content="Hello", interaction="chat-9", **memory)
    host.tool("session_close", interaction="chat-9", **memory)
    made = host.tool("commitment_create", text="Check the backups", at=SOON, **memory)
    name = {"commitmentId": made.get("id") or made.get("commitment", {}).get("id", "none")}
    host.tool("commitments_list", **memory)
    host.tool("commitment_explain", **name)
    host.tool("commitment_confirm", "that is armed", **name)
    host.tool("commitment_snooze", until=SOON, **name)
    host.tool("commitment_cancel", **name)
    host.tool("observe", key="it is paid", value=True, **memory)
    host.tool("memory_delete", id=entry, **memory)
    host.tool("memory_delete", "again", id=entry, **memory)
    host.tool("nonsense", "that does not exist")


def commands(host):
    """The command line against the server."""
    put = host.cli("--json", "put", "cli", "Ana prefers tea", "--tag", "drinks", "--subject", "Zoe")
    entry = put.get("id") or put["entry"]["id"]
    host.cli("put", "cli", "-", stdin="Ben prefers coffee")
    for form in (["--json"], []):
        host.cli(*form, "get", "cli", entry)
        host.cli(*form, "list", "cli")
        host.cli(*form, "search", "cli", "what does Ana drink: tea?")
        host.cli(*form, "recall", "cli", "what does Ana drink: tea?", "--no-abstain")
        host.cli(*form, "stats", "cli")
        host.cli(*form, "get", "cli", "none", case="unknown", status=3)
        host.cli(*form, "put", "cli", "", case="empty", status=4)
        for command in (
            ["memories"], ["lineage", "cli", entry], ["audit", "cli", entry], [
                "history", "cli", "drink",
            ],
            ["retention", "status", "cli"], ["session", "list", "cli"], ["archive", "list", "cli"],
            ["commitment", "list"], ["commitment", "rules"], ["heartbeat", "list"], [
                "profile", "list",
            ],
            ["erasure", "list"], ["agent", "list"], ["proposal", "list"], ["key", "list"], [
                "secret", "list",
            ],
            ["tenant", "list"], ["pass", "list"], ["pass", "jobs"], ["pass", "schedule"],
            ["forget", "Zoe", "--dry-run"],
        ):
            host.cli(*form, *command)
        host.cli(*form, "export", "--ref", "cli", case="which leaves subjects out", status=7)
    host.cli("forget", "Zoe", "--yes")
    host.cli("delete", "cli", entry, case="forgotten", status=3)
    host.cli("nonsense", case="unknown", status=2)
    requests = [("initialize", MCP_CLIENT), ("tools/list", {})]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(requests)
    ]
    host.cli("mcp", case="over stdio", stdin="\n".join([*lines, ""]))
    host.cli("man", "--format", "markdown")


def everything(host):
    names = {}
    for part in (entries, workshop, commitments, programs, proposals, administration):
        names |= part(host)
    mcp(host)
    commands(host)
    names |= removals(host)
    refusals(host, names)
