"""Holds every answer against the documents that describe it: the host's own OpenAPI document, and where the variable
REMEM_TEST_OPENWOP_SCHEMAS names a folder with the protocol's public schemas, those as well."""
import json
import os
import re
from pathlib import Path

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

HOST = "urn:host:openapi"
PUBLIC = "https://openwop.dev/spec/v1/"
# What only conformance checks use is in no document.
SEAMS = ("/v1/test/", "/v1/host/sample/", "/v1/memory/")
# Of some of them, the kind of event that they answer with.
TOLD = {
    "/v1/host/sample/memory/consolidate": "agent.memory.consolidated",
    "/v1/host/sample/memory/distill": "memory.compacted",
    "/v1/host/sample/commitment/fire": "commitment.fired",
}
# Events that stand outside of any run have schemas of their own.
APART = {"heartbeat.evaluated": "heartbeat-evaluated", "heartbeat.stateChanged": "heartbeat-state-changed"}
# What a seam answers like something that the host's document describes.
LIKE = {"/v1/memory/": "EntryList", "/v1/host/sample/proposals/": "Proposal", "/v1/host/sample/proposals": "ProposalList", "/v1/host/sample/identity/owned-run": "RunSnapshot"}
# Where the host's document describes what the public schema of a proposal is for.
PROPOSALS = [f"/v1/host/remembrancer/proposals{rest}" for rest in ("", "/{proposalId}", "/{proposalId}/apply", "/{proposalId}/reject")]
# Variables of runs that hold memory entries.
ENTRIES = ("memoryReadback", "memoryList", "ownerProbe", "budgetedEntries", "crossTenantProbe", "crossTenantBudgetedProbe", "recalled")
formats = FormatChecker(formats=())


@formats.checks("date-time")
def is_instant(value):
    return not isinstance(value, str) or bool(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", value))


def anything(uri):
    """The public schemas refer to some that concern nothing here."""
    return Resource(contents={}, specification=DRAFT202012)


def fails(registry, schema, value):
    """The first fault of a value, or None."""
    errors = Draft202012Validator(schema, registry=registry, format_checker=formats).iter_errors(value)
    worst = min(errors, key=lambda error: len(error.path), default=None)
    return worst and f"at /{'/'.join(map(str, worst.path))}: {worst.message[:400]}"


class Documents:
    def __init__(self, openapi):
        self.paths = openapi["paths"]
        self.components = openapi["components"]["schemas"]
        self.host = Registry().with_resource(HOST, DRAFT202012.create_resource(openapi))
        # The longest template first: a verb after a parameter is more than the parameter.
        self.templates = [(re.compile(pattern(path)), path) for path in sorted(self.paths, key=len, reverse=True)]
        self.checked = self.public_checked = 0
        self.public = None
        folder = os.environ.get("REMEM_TEST_OPENWOP_SCHEMAS")
        if folder:
            schemas = [json.loads(file.read_text()) for file in sorted(Path(folder).glob("*.schema.json"))]
            if not schemas:
                raise SystemExit(f"REMEM_TEST_OPENWOP_SCHEMAS: there is no schema in {folder}")
            self.public = Registry(retrieve=anything).with_resources((s["$id"], DRAFT202012.create_resource(s)) for s in schemas)
            self.events = next(s for s in schemas if s["$id"].endswith("/run-event-payloads.schema.json"))["$defs"]["_typeIndex"]["properties"]

    def template(self, path):
        return next((template for expression, template in self.templates if expression.fullmatch(path)), None)

    def fault(self, method, path, status, kind, body):
        """What is wrong with an answer, or None. `body` is parsed JSON, or None where there is no body."""
        template = self.template(path)
        return self.own(method, path, template, status, kind, body) or self.foreign(method, template or path, status, body)

    def own(self, method, path, template, status, kind, body):
        operation = self.paths.get(template, {}).get(method.lower())
        if operation is None:
            if path.startswith(SEAMS) and status < 400:
                like = next((name for start, name in LIKE.items() if path.startswith(start)), None)
                self.checked += like is not None
                return like and fails(self.host, {"$ref": f"{HOST}#/components/schemas/{like}", "unevaluatedProperties": False}, body)
            if not path.startswith(SEAMS) and status not in (404, 405):
                return f"the OpenAPI document does not name {method} {path}, but it answers {status}"
            self.checked += 1
            return fails(self.host, {"$ref": f"{HOST}#/components/schemas/ErrorBody"}, body)
        named = next((s for s in (str(status), f"{status // 100}XX") if s in operation["responses"]), None)
        if named is None:
            return f"the OpenAPI document does not name {status} of {method} {template}"
        content = operation["responses"][named].get("content", {})
        if body is None:
            return None if not content else f"the OpenAPI document says that {status} of {method} {template} has a body"
        if kind not in content:
            return f"the OpenAPI document does not name {kind} for {status} of {method} {template}"
        place = "/".join(part.replace("~", "~0").replace("/", "~1") for part in ("paths", template, method.lower(), "responses", named, "content", kind))
        self.checked += 1
        schema = {"$ref": f"{HOST}#/{place}/schema"}
        if self.lists_fields(content[kind]["schema"]):
            schema["unevaluatedProperties"] = False  # a field that the document does not name is a fault as well
        return fails(self.host, schema, body)

    def lists_fields(self, schema):
        name = schema.get("$ref", "").rpartition("/")[2]
        schema = self.components[name] if name else schema
        return "properties" in schema or "allOf" in schema

    def foreign(self, method, template, status, body):
        if self.public is None or body is None:
            return None
        for schema, value in self.kinds(method, template, status, body):
            self.public_checked += 1
            fault = fails(self.public, schema, value)
            if fault:
                return f"the public schema {schema['$ref'].removeprefix(PUBLIC)}: {fault}"
        return None

    def kinds(self, method, template, status, body):
        """The public schemas of an answer, each with the value that it is for."""
        def of(name, value, part=""):
            return {"$ref": f"{PUBLIC}{name}.schema.json{part}"}, value

        if status >= 400:
            yield of("error-envelope", body)
        elif template == "/.well-known/openwop":
            yield of("capabilities", body)
        elif template in ("/v1/runs/{runId}", "/v1/host/sample/identity/owned-run"):
            yield of("run-snapshot", body)
            for name in ENTRIES:
                value = body["variables"].get(name) or []
                yield from (of("memory-entry", entry) for entry in (value if isinstance(value, list) else [value]))
        elif template.startswith("/v1/runs/{runId}/events"):
            for event in body["events"]:
                yield from self.event(event)
        elif template == "/v1/agents":
            yield of("agent-inventory-response", body)
        elif template == "/v1/agents/{agentId}":
            yield of("agent-inventory-response", {"agents": [body], "total": 1})
        elif template == "/v1/host/workspace/files/{path}":
            yield of("workspace-file", body)
        elif template == "/v1/host/workspace/files":
            yield from (of("workspace-file", {**file, "content": ""}) for file in body["files"])
        elif template.startswith("/v1/host/sample/proposals") or template in PROPOSALS:
            yield from (of("proposal", proposal) for proposal in body.get("proposals", [body]))
        elif template == "/v1/workflows/{workflowId}" and "triggers" in body:
            yield of("workflow-definition", body)
        elif template.startswith("/v1/host/remembrancer/memory/{memoryRef}/entries") and not template.endswith("/metadata"):
            yield from (of("memory-entry", entry) for entry in body.get("entries", [body]))
        elif template.startswith("/v1/memory/"):
            yield from (of("memory-entry", entry) for entry in body["entries"])
        elif template == "/v1/host/remembrancer/events":
            yield from (pair for event in body["events"] for pair in self.payload(event["type"], event["payload"]))
        elif template == "/v1/test/memory/compact":
            yield from self.payload(body["type"], body["payload"])
        elif template in TOLD:
            yield from self.payload(TOLD[template], body["event"])
        elif template == "/v1/host/sample/heartbeat/tick":
            for told in body["evaluated"]:
                yield from self.payload("heartbeat.evaluated", told)
            for told in body["stateChanged"]:
                yield from self.payload("heartbeat.stateChanged", told)

    def payload(self, kind, payload):
        """The public schema of what an event of a kind carries, if there is one."""
        known = self.events.get(kind)
        if kind in APART:
            yield {"$ref": f"{PUBLIC}{APART[kind]}.schema.json"}, payload
        elif known:
            yield {"$ref": f"{PUBLIC}run-event-payloads.schema.json{known['$ref']}"}, payload

    def event(self, event):
        yield {"$ref": f"{PUBLIC}run-event.schema.json"}, event
        yield from self.payload(event["type"], event["payload"])

    def event_fault(self, event):
        """The same for one event of a stream."""
        self.checked += 1
        schema = {"$ref": f"{HOST}#/components/schemas/RunEventDoc", "unevaluatedProperties": False}
        found = fails(self.host, schema, event)
        faults = (fails(self.public, *pair) for pair in self.event(event)) if self.public else ()
        return found or next(filter(None, faults), None)

    def summary(self):
        public = f", {self.public_checked} against public schemas" if self.public else ""
        return f"{self.checked} answers held against the host's document{public}"


def pattern(template):
    """A parameter is one segment; only the path of a workspace file may also be written with its slashes."""
    parts = re.split(r"(\{[^}]*\})", template)
    return "".join(".+" if part == "{path}" else "[^/]+" if part.startswith("{") else re.escape(part) for part in parts)
