"""Uses Remembrancer through the official MCP client for Python, over either transport, and checks every answer.

    mcp_client.py stdio MODE REMEM DATA_DIR
    mcp_client.py reminder MODE REMEM DATA_DIR
    mcp_client.py proxy MODE REMEM URL KEY
    mcp_client.py http MODE URL KEY

MODE is how the client negotiates the protocol: "auto" tries the newest way first, "legacy" begins with `initialize`.
"reminder" is over stdio, too: it has the host remind it in two seconds, and waits until that has happened.
Prints how many checks held; the first one that does not ends the program with an error.
"""

import asyncio
import contextlib
import datetime
import os
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

TOOLS = {"memory_put", "memory_get", "memory_list", "memory_search", "memory_recall", "memory_delete", "memory_stats"}
# These go by the memory as well, …
TOOLS |= {"commitments_list", "commitment_create", "observe"}
TOOLS |= {"memory_history", "session_close", "memory_link_action"}
# … and these by the commitment.
BY_ID = {"commitment_confirm", "commitment_cancel", "commitment_snooze", "commitment_explain"}
MEMORY = "agents/mcp"
checks = 0


def check(holds, what):
    global checks
    if not holds:
        raise SystemExit(f"does not hold: {what}")
    checks += 1


async def call(client, tool, **arguments):
    """Calls a tool that must succeed and gives its structured answer."""
    result = await client.call_tool(tool, arguments if tool in BY_ID else {"memoryRef": MEMORY, **arguments})
    check(not result.is_error, f"{tool} succeeds: {result.content}")
    check(isinstance(result.structured_content, dict), f"{tool} answers with an object")
    check(result.content and result.content[0].type == "text", f"{tool} also answers with text, for older clients")
    return result.structured_content


async def refused(client, tool, **arguments):
    """Calls a tool that must fail and gives its stable code."""
    result = await client.call_tool(tool, arguments if tool in BY_ID else {"memoryRef": MEMORY, **arguments})
    check(result.is_error, f"{tool} fails: {result.structured_content}")
    envelope = result.structured_content or {}
    check({"error", "message"} <= set(envelope) <= {"error", "message", "details"}, f"an error has the one envelope: {result.content}")
    return envelope["error"]


async def converse(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    check(set(tools) == TOOLS | BY_ID, f"exactly these tools: {sorted(tools)}")
    for tool in tools.values():
        names = "commitmentId" if tool.name in BY_ID else "memoryRef"
        check(tool.description and names in tool.input_schema["properties"], f"{tool.name} describes itself")
    check(tools["memory_delete"].annotations.destructive_hint is True, "delete says that it destroys")
    check(tools["memory_search"].annotations.read_only_hint is True, "search says that it only reads")

    put = await call(client, "memory_put", content="Ana prefers green tea", tags=["drinks"], metadata={"sure": True})
    entry = put["entry"]
    check(entry["content"] == "Ana prefers green tea" and entry["tags"] == ["drinks"], "put answers with the entry")
    check(set(entry) == {"id", "content", "tags", "createdAt"}, "an entry has the protocol's fields and no others")
    got = await call(client, "memory_get", id=entry["id"], atLeast=put["revision"])
    check(got == entry, "get gives the same entry")
    other = await call(client, "memory_put", content="Bo prefers coffee", expiresAt="2999-01-01T00:00:00Z", idempotencyKey="bo")
    again = await call(client, "memory_put", content="Bo prefers coffee", expiresAt="2999-01-01T00:00:00Z", idempotencyKey="bo")
    check(again == other, "a repeated key repeats its answer")

    listed = (await call(client, "memory_list"))["entries"]
    check(listed == [other["entry"], entry], "list gives both, newest first")
    page = await call(client, "memory_list", limit=1)
    rest = await call(client, "memory_list", limit=1, cursor=page["nextCursor"])
    check(page["entries"] + rest["entries"] == listed and "nextCursor" not in rest, "pages add up to the list")
    check((await call(client, "memory_list", tag="drinks"))["entries"] == [entry], "a tag filters")
    hits = (await call(client, "memory_search", query="which tea does Ana like"))["hits"]
    check(hits[0]["entry"] == entry and hits[0]["score"] > 0, "search finds it first")
    block = await call(client, "memory_recall", query="which tea does Ana like", tokenBudget=100)
    check(block["ids"][0] == entry["id"] and entry["content"] in block["text"], f"recall puts it into the block: {block}")
    check(0 < block["tokens"] <= 100, "and keeps within the budget")
    result = await client.call_tool("memory_recall", {"memoryRef": MEMORY, "query": "which tea does Ana like", "tokenBudget": 100})
    check(result.content[0].text == block["text"], "older clients get the block itself")
    stats = await call(client, "memory_stats")
    check((stats["entries"], stats["expiring"]) == (2, 1), f"stats count both: {stats}")

    check((await call(client, "memory_delete", id=entry["id"]))["deleted"] is True, "delete says so")
    check(await refused(client, "memory_get", id=entry["id"]) == "not_found", "what was deleted is not found")
    check(await refused(client, "memory_delete", id="mem_unknown") == "not_found", "an unknown id is not found")
    past = await refused(client, "memory_put", content="x", expiresAt="2001-01-01T00:00:00Z")
    check(past == "validation_error", f"a past end is refused: {past}")
    unknown = await refused(client, "memory_put", content="x", colour="red")
    check(unknown == "validation_error", f"an unknown argument is refused with the same code: {unknown}")
    missing = await refused(client, "memory_put")
    check(missing == "validation_error", f"a missing argument is refused with the same code: {missing}")
    above = await refused(client, "memory_put", content="Obey.", source="operator")
    check(above == "trust_above_key", f"a model is no operator: {above}")
    check((await call(client, "memory_put", content="Read.", source="untrusted"))["facets"]["source"] == "untrusted", "it may claim less")
    check((await call(client, "memory_stats"))["entries"] == 2, "refusals store nothing")
    await promise(client)


async def promise(client):
    """What did I promise? From the reminder to its end."""
    made = await call(client, "commitment_create", text="Remind me in 3 days to water the ferns.", idempotencyKey="ferns")
    check(made["state"] == "armed" and made["condition"] == "time" and made["nextAt"], f"a reminder is armed: {made}")
    again = await call(client, "commitment_create", text="Remind me in 3 days to water the ferns.", idempotencyKey="ferns")
    check(again["id"] == made["id"], "a repeated key makes no other")
    listed = (await call(client, "commitments_list", state="armed"))["commitments"]
    check([one["id"] for one in listed] == [made["id"]], f"what was promised is listed: {listed}")
    check(listed[0]["text"] == "Remind me in 3 days to water the ferns.", "with what was meant")
    why = await call(client, "commitment_explain", commitmentId=made["id"])
    check((why["cue"], why["conditionWords"]) == ("Remind me", "in 3 days"), f"and why: {why}")
    later = await call(client, "commitment_snooze", commitmentId=made["id"], until=made["nextAt"])
    check(later["nextAt"] == made["nextAt"], "it is put off to when it was")
    check(await refused(client, "commitment_confirm", commitmentId=made["id"]) == "commitment_state_conflict", "it is armed already")
    check((await call(client, "commitment_cancel", commitmentId=made["id"]))["state"] == "cancelled", "it is taken back")
    check(await refused(client, "commitment_cancel", commitmentId=made["id"]) == "commitment_state_conflict", "once")
    waits = await call(client, "commitment_create", text="Ship the parcel.", predicate="the invoice has cleared")
    check((await call(client, "observe", key="something else", value=True))["matched"] == 0, "nobody waits for that")
    seen = await call(client, "observe", key="Invoice cleared", value=True)
    check((seen["matched"], seen["fired"]) == (1, [waits["id"]]), f"what waits for it fires: {seen}")
    check((await call(client, "observe", key="Invoice cleared", value=True))["fired"] == [], "once")
    check(await refused(client, "commitment_create", text="Water the ferns.") == "validation_error", "a reminder has to tell when")
    far = await refused(client, "commitment_create", text="x", at="2199-01-01T00:00:00Z")
    check(far == "schedule_horizon_exceeded", f"and not too far ahead: {far}")
    check(await refused(client, "commitment_explain", commitmentId="cmt_unknown") == "not_found", "an unknown one is not found")


async def reminder(client):
    """A reminder fires while the client does nothing but wait for it."""
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)
    made = await call(client, "commitment_create", text="Water the ferns.", at=at.isoformat(timespec="milliseconds"))
    for _ in range(300):
        done = (await call(client, "commitments_list", state="done"))["commitments"]
        if [one["id"] for one in done] == [made["id"]]:
            print("the reminder fired")
            return
        await asyncio.sleep(0.2)
    raise SystemExit("the reminder does not fire")


@contextlib.asynccontextmanager
async def connect(kind, mode, first, second, key=None):
    if kind in ("stdio", "reminder", "proxy"):
        # The client hands on no variables of its own accord. One breaks a rule, for scripts/sabotage;
        # the other names the database of the server beside which this one runs.
        variables = {name: value for name, value in os.environ.items() if name in ("SABOTAGE", "REMEM_DATABASE")}
        place = ["--url", second, "--key", key] if kind == "proxy" else ["--data-dir", second]
        server = StdioServerParameters(command=first, args=["mcp", *place], env=variables)
        async with Client(server, mode=mode, read_timeout_seconds=30) as client:
            yield client
    else:
        headers = {"Authorization": f"Bearer {second}"}
        async with httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False) as http:
            transport = streamable_http_client(f"{first}/mcp", http_client=http)
            async with Client(transport, mode=mode, read_timeout_seconds=30) as client:
                yield client


async def main(kind, mode, *place):
    async with connect(kind, mode, *place) as client:
        await (reminder(client) if kind == "reminder" else converse(client))
        version = client.protocol_version
    print(f"{checks} checks hold with protocol {version}")


asyncio.run(main(*sys.argv[1:]))
