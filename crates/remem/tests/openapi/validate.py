"""Holds the OpenAPI document of a running host against the rules of OpenAPI 3.1.

    validate.py URL
"""

import json
import sys
import urllib.request

from openapi_spec_validator import OpenAPIV31SpecValidator


def main(url):
    with urllib.request.urlopen(url + "/v1/openapi.json", timeout=60) as answer:
        document = json.load(answer)
    assert document["openapi"].startswith("3.1."), document["openapi"]
    errors = list(OpenAPIV31SpecValidator(document).iter_errors())
    for error in errors[:20]:
        print(f"{error.json_path}: {error.message}"[:300])
    print(f"{len(errors)} errors in {len(document['paths'])} paths")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
