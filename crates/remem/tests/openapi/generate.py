"""Runs a linter and two generators of clients on the OpenAPI document of a running host, and what
they made.

    generate.py URL TOOLS FOLDER

TOOLS is the folder with the npm packages, FOLDER an empty one to work in. The Python packages are
those of the Python that runs this.
"""

import json
import os
import pathlib
import subprocess
import sys
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent

# A program that uses what the Python generator made: it writes, reads and is refused.
USE = """
import sys
sys.path.insert(0, sys.argv[3])
from client import AuthenticatedClient
from client.api.entries import list_entries, put_entry
from client.api.memory import search
from client.models import EntryList, ErrorBody, MemoryEntry, PutEntry, SearchRequest

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
stored = put_entry.sync("generated", client=client, body=PutEntry(content="Ana prefers tea"))
assert isinstance(stored, MemoryEntry), stored
listed = list_entries.sync("generated", client=client, limit=10)
assert isinstance(listed, EntryList) and listed.entries[0].id == stored.id, listed
found = search.sync("generated", client=client, body=SearchRequest(query="What does Ana drink: tea?"))
assert found.hits[0].entry.content == "Ana prefers tea", found
refused = search.sync("generated", client=client, body=SearchRequest(query=""))
assert isinstance(refused, ErrorBody) and refused.error == "validation_error", refused
"""


def run(what, command, **further):
    print(what, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, **further)
    text = done.stdout + done.stderr
    if done.returncode != 0:
        sys.exit(f"{what} failed:\n{text[-6000:]}")
    return text


def main(url, tools, folder):
    folder = pathlib.Path(folder)
    programs = pathlib.Path(tools).resolve() / "node_modules" / ".bin"
    document = folder / "openapi.json"
    with urllib.request.urlopen(url + "/v1/openapi.json", timeout=60) as answer:
        document.write_text(json.dumps(json.load(answer)))
    environment = os.environ | {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    linted = run("redocly", [programs / "redocly", "lint", document], cwd=folder, env=environment)
    assert "is valid" in linted, linted
    python = pathlib.Path(sys.executable)
    path = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    made = run(
        "openapi-python-client",
        [python.parent / "openapi-python-client", "generate", "--path", document, "--output-path",
         folder / "client", "--meta", "none", "--fail-on-warning"],
        cwd=folder,
        env=environment | path,
    )
    assert "Warning" not in made, made
    run("the Python client", [python, "-c", USE, url, os.environ["KEY"], folder], cwd=folder)
    run(
        "openapi-typescript",
        [programs / "openapi-typescript", document, "--output", folder / "remembrancer.ts"],
        cwd=folder,
    )
    (folder / "use.ts").write_text((HERE / "use.ts").read_text())
    run(
        "tsc",
        [programs / "tsc", "--noEmit", "--strict", "--target", "es2022", "--moduleResolution",
         "bundler", "--module", "esnext", folder / "use.ts"],
        cwd=folder,
    )
    print("the linter and both generators accept the document")


if __name__ == "__main__":
    main(*sys.argv[1:])
