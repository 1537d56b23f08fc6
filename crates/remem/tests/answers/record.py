"""Records what a `remem` program answers over HTTP, MCP and the command line, and compares the
answers of two programs.

    record.py record PROGRAM FILE      writes one JSON object a line
    record.py compare ONE OTHER        programs or files; prints differences, exits with 1 if any

REMEM_TEST_POSTGRES, a superuser's URL, keeps the hosts' memory in new databases there instead of
files. Ids, instants, digests, keys and revisions are replaced by names, so two recordings of one
program are the same.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import scenario
from hosts import Host, Recording

GATED = {
    "REMEM_PROPOSALS__ACTIVATION": "approval-gate",
    "REMEM_PROPOSALS__QUORUM": "2",
    "REMEM_PROPOSALS__OVERRIDE_BYPASSES_QUORUM": "true",
}
VAULT = {"REMEM_VAULT_KEY": "5e" * 32}
SHOWN = 12


@contextlib.contextmanager
def database(program, folder, name):
    """The URL of a new database, or nothing where memory is kept in files."""
    server = os.environ.get("REMEM_TEST_POSTGRES")
    if not server:
        yield None
        return
    name = f"answers_{os.getpid()}_{name}"

    def run(sql):
        subprocess.run(["psql", "-Xq", server, "-c", sql], check=True)

    run(f"CREATE DATABASE {name}")
    migrate = [program, "migrate", "--database", server.rpartition("/")[0] + f"/{name}"]
    made = subprocess.run(
        migrate, check=True, capture_output=True, text=True, cwd=folder,
        env={"PATH": os.environ["PATH"]},
    )
    yield made.stdout.strip()
    run(f"DROP DATABASE {name} WITH (FORCE)")
    for role in ("app", "worker", "reviewer", "owner"):
        run(f"DROP ROLE {name}_{role}")


def record(program, path):
    """Writes the recording of a program; answers the operations that never succeeded."""
    program = str(pathlib.Path(program).resolve())
    with tempfile.TemporaryDirectory() as folder, open(path, "w") as file:
        recording = Recording(file)
        served = set()
        for name, settings, part in (
            ("direct", VAULT, scenario.everything),
            ("gated", VAULT | GATED, scenario.gated_proposals),
            ("races", VAULT, scenario.races),
        ):
            with (
                database(program, folder, name) as url,
                Host(program, folder, name, recording, settings, url) as host,
            ):
                try:
                    part(host)
                except Exception as error:
                    # The comparison shows what led to it.
                    recording.add("scenario", "end", name, early=repr(error))
                    print(f"{name}: the scenario ended early: {error!r}")
                served |= host.served
                operations = set(host.operations)
    print(f"{recording.count} answers of {program} in {path}")
    missing = operations - served - set(scenario.NEVER_SERVED)
    if missing:
        print(f"these operations never succeeded: {sorted(missing)}")
    return missing


def read(source):
    """The answers of a recording, or of a program; each under a name that occurs once."""
    path = pathlib.Path(source)
    if os.access(path, os.X_OK):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "answers.jsonl"
            missing = record(source, path)
            return {**read(path), "operations that never succeeded": sorted(missing)}
    answers = {}
    for line in path.read_text().splitlines():
        answer = json.loads(line)
        name = f"{answer.pop('over')} {answer.pop('operation')} ({answer.pop('case')})"
        count = sum(known.split(" #")[0] == name for known in answers)
        answers[f"{name} #{count + 1}" if count else name] = answer
    return answers


def differences(one, other, at=""):
    """The places at which two answers differ, with what is there."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(set(one) | set(other)):
            yield from differences(
                one.get(key, "(absent)"), other.get(key, "(absent)"), f"{at}.{key}",
            )
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other)):
            yield from differences(left, right, f"{at}[{number}]")
    elif one != other:
        yield at.lstrip("."), one, other


def compare(one, other):
    left, right = read(one), read(other)
    found = 0
    for name in list(left) + [name for name in right if name not in left]:
        if left.get(name) == right.get(name):
            continue
        found += 1
        print(f"\n{name}")
        places = list(differences(left.get(name, "(not asked)"), right.get(name, "(not asked)")))
        for at, before, after in places[:SHOWN]:
            print(f"  {at}\n    - {json.dumps(before)[:300]}\n    + {json.dumps(after)[:300]}")
        if len(places) > SHOWN:
            print(f"  and {len(places) - SHOWN} further places")
    print(f"\n{len(left)} and {len(right)} answers, {found} of them differ")
    incomplete = any(side.get("operations that never succeeded") for side in (left, right))
    sys.exit(1 if found or incomplete else 0)


if __name__ == "__main__":
    commands = {"record": record, "compare": compare}
    if len(sys.argv) != 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    sys.exit(1 if commands[sys.argv[1]](*sys.argv[2:]) else 0)
