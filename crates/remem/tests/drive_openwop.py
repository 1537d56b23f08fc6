"""Drives the host with the OpenWOP client for Python: discovery and workspace files. Usage: URL KEY"""
import sys
from openwop_client import OpenwopClient, PutWorkspaceFileRequest, WopError

client = OpenwopClient(sys.argv[1], sys.argv[2])
held = 0


def check(condition, what):
    global held
    if not condition:
        raise SystemExit(f"does not hold: {what}")
    held += 1


def put(path, content, **more):
    return client.put_workspace_file(path, PutWorkspaceFileRequest(content=content), **more)


capabilities = client.discovery_capabilities()
check(capabilities.protocolVersion == "1.0", "the protocol's version")
check(client.discovery_openapi()["openapi"].startswith("3.1"), "the OpenAPI document")
for _ in range(2):
    check(client.get_workspace_file("behavior/CRUD.md") is None, "no file yet")
    first = put("behavior/CRUD.md", "one")
    check(first.version == 1 and first.content == "one", "the first version")
    second = put("behavior/CRUD.md", "two", if_match=first.etag)
    check(second.version == 2, "the second version")
    try:
        put("behavior/CRUD.md", "lost", if_match=first.etag)
        check(False, "a stale condition is refused")
    except WopError as error:
        check(error.status == 409, "with 409")
        check(error.envelope.error == "workspace_conflict", "and its code")
        check(error.envelope.details["currentVersion"] == 2, "and the version that is there")
    check(client.get_workspace_file("behavior/CRUD.md").content == "two", "the newest")
    check(client.get_workspace_file("behavior/CRUD.md", version=1).content == "one", "an older one")
    files = client.list_workspace_files(prefix="behavior/")
    check([file.path for file in files] == ["behavior/CRUD.md"], "the list")
    check(client.delete_workspace_file("behavior/CRUD.md") is True, "deleted")
    check(client.delete_workspace_file("behavior/CRUD.md") is False, "once")
try:
    put("large.md", "x" * 300_000)
    check(False, "a large file is refused")
except WopError as error:
    check(error.status == 413 and error.envelope.error == "workspace_too_large", "with its code")
print(f"{held} checks held")
