"""What keeps a run of schemathesis useful: it does not revoke or change the key that it uses, and
names in paths are often those of things that exist."""

import json
import os
import zlib

import schemathesis

KNOWN = json.loads(os.environ["FUZZ_KNOWN"])
OWN_KEY = os.environ["FUZZ_OWN_KEY"]


@schemathesis.hook
def filter_case(context, case):
    is_about_a_key = "/keys/{id}" in case.operation.path
    return not (is_about_a_key and (case.path_parameters or {}).get("id") == OWN_KEY)


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    for name, value in (path_parameters or {}).items():
        if name in KNOWN and zlib.crc32(repr(value).encode()) % 2:
            path_parameters[name] = KNOWN[name]
    return path_parameters
