"""Plays the scenarios that an OpenWOP conformance check plays against a memory host, one line for each.

    conformance.py durable URL KEY   a host with test seams whose memory lasts
    conformance.py memory URL KEY    a host with test seams whose memory ends with the process
    conformance.py plain URL KEY     a host without test seams

KEY is one with every scope. Ends at the first thing that does not hold, with what was expected and what was seen. Can be
run again and again on the same host.
"""
import sys
import uuid

import wire
from wire import Host

import scenarios_host
import scenarios_memory
import scenarios_passes
import scenarios_proposals
import scenarios_runs
import scenarios_standing


class Stage:
    """What scenarios play on."""

    def __init__(self, mode, url, key):
        self.mode, self.nonce, self.looking = mode, uuid.uuid4().hex, wire.look_at_everything(url)
        self.host, self.nobody = Host(url, key), Host(url)
        self.document = self.nobody.get("/.well-known/openwop").is_(200)
        everything = ["memory:read", "memory:write", "runs:create", "runs:read", "runs:cancel", "manifest:read", "workspace:read", "workspace:write"]
        self.stranger = self.host.new_key(everything, tenant=f"stranger-{self.nonce[:12]}")


def main():
    mode, url, key = sys.argv[1:]
    stage = Stage(mode, url, key)
    played = 0
    for name, play in wire.SCENARIOS:
        if mode not in play.modes:
            continue
        try:
            play(stage)
        except SystemExit as fault:
            raise SystemExit(f"{name}: {fault}") from None
        played += 1
        print(f"holds: {name}")
    wire.report(stage.looking)
    print(f"{played} scenarios hold on {mode}")


main()
