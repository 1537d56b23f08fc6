"""Proposals: a draft is there to look at, and who may not apply it does not."""
from wire import check, same, scenario

PATH = "/v1/host/sample/proposals"


@scenario("proposal-reviewable-learning")
def reviewable(stage):
    told = stage.document["agents"]["proposals"]
    same(sorted(told), ["activation", "artifactKinds", "duplicationDetection"], "what is advertised")
    check(stage.document["authorization"]["failClosed"] is True, "what is not allowed is denied")
    scopes = ["proposals:read", "proposals:write", "runs:create", "runs:read", "manifest:read"]
    weak = stage.host.new_key(scopes)
    drafts = weak.get(f"{PATH}?state=draft").is_(200)["proposals"]
    check(drafts, "a draft")
    draft = drafts[0]
    before = weak.get(f"{PATH}/{draft['id']}").is_(200)
    denied = weak.post(f"{PATH}/{draft['id']}/apply", {}).refuses(403, "forbidden")
    same(denied["details"], {"scopeRequired": "proposals:apply"}, "what the key lacks")
    same(weak.get(f"{PATH}/{draft['id']}").is_(200), before, "nothing changed by that")
    same(stage.host.get("/v1/host/remembrancer/installed").is_(200)["installed"], [], "and nothing is installed")


@scenario("proposal-lifecycle")
def lifecycle(stage):
    artifact = {"templateId": f"greeting-{stage.nonce}", "version": "1"}
    new = stage.host.post("/v1/host/remembrancer/proposals", {"kind": "prompt-template", "title": "A greeting", "artifact": artifact})
    proposal = new.is_(201)
    path = f"{PATH}/{proposal['id']}"
    stage.host.post(f"{path}/apply", {}).refuses(422, "proposal_malformed")
    revised = stage.host.call("PATCH", path, {"rationale": "It is often said."}).is_(200)
    same((revised["state"], revised["activation"]), ("revised", None), "a revision has no effect")
    same(stage.host.post(f"{path}/reject", {}).is_(200)["state"], "rejected", "turned down")
    stage.host.post(f"{path}/apply", {}).refuses(409, "proposal_state_conflict")
    same(stage.host.call("DELETE", path).is_(200)["state"], "archived", "put away")
    stage.stranger.get(path).refuses(403, "forbidden")
    check(stage.host.get("/v1/host/remembrancer/events").is_(200)["events"], "what happened is told")
