"""What stands beside memory: commitments that fire, heartbeats that look, and what the document says of both."""
import re

from scenarios_passes import entries, fresh, now, told
from wire import check, same, scenario

EVERYWHERE = ("durable", "memory", "plain")
FIRE, TICK = "/v1/host/sample/commitment/fire", "/v1/host/sample/heartbeat/tick"
COMMITMENTS = "/v1/host/remembrancer/commitments"
# All that the event of a fire may carry.
KEYS = {"commitmentId", "memoryRef", "memoryId", "condition", "enqueuedRunId"}


@scenario("standing-discovery", EVERYWHERE)
def discovery(stage):
    """A host whose memory does not last promises nothing."""
    document, lasts = stage.document, stage.mode != "memory"
    same("commitments" in document["agents"] if "agents" in document else False, lasts, "commitments are of memory that lasts")
    same(("scheduling" in document, "heartbeat" in document), (lasts, lasts), "and so are times and looks")
    same(document["memory"]["distillation"]["scheduled"], lasts, "scheduled distillation")
    if not lasts:
        return
    same(document["agents"]["commitments"], {"supported": True, "fireConditions": ["time", "predicate"]}, "commitments")
    scheduling, heartbeat = document["scheduling"], document["heartbeat"]
    same((scheduling["supported"], scheduling["cron"], scheduling["delayed"]), (True, True, True), "scheduling")
    check(re.fullmatch(r"P[1-9]\d*D", scheduling["maxFutureHorizon"]), f"how far ahead: {scheduling}")
    check(heartbeat["supported"] and heartbeat["minIntervalSec"] >= 1, "heartbeats")
    check(1 <= heartbeat["maxRuntimeMs"] <= document["limits"]["maxRunDurationMs"], "how long a look may take")
    same(document["capabilities"]["scheduling"], scheduling, "the mirror")


@scenario("standing-seams-closed", EVERYWHERE)
def closed(stage):
    weak = stage.host.new_key(["memory:read", "memory:write"])
    for seam, body in ((FIRE, {"memoryRef": "m", "condition": "predicate"}), (TICK, {"heartbeatId": "h", "observedState": {}})):
        if stage.mode == "plain":
            stage.host.post(seam, body).refuses(404, "not_found")
            continue
        stage.nobody.post(seam, body).refuses(401, "unauthenticated")
        weak.post(seam, body).refuses(403, "forbidden")


def fired(stage, memory, condition):
    after = now(stage)
    answer = stage.host.post(FIRE, {"memoryRef": memory, "condition": condition, "includeIntentionCanary": True}).is_(200)
    event, canary = answer["event"], answer["intentionCanary"]
    check(event["commitmentId"] and set(event) <= KEYS, f"the event tells names: {event}")
    same((event["memoryRef"], event["condition"]), (memory, condition), "which memory, and why")
    same(answer["fireCount"], 1, "once")
    check(canary and canary not in str(event), "what was meant is not in the event")
    same(told(stage, after, "commitment.fired"), [event], "the log has it once, word for word")
    page = stage.host.get(f"/v1/host/remembrancer/events?after={after}").is_(200)
    check(canary not in str(page), "what was meant is nowhere in the feed")
    check(any(canary in entry["content"] for entry in entries(stage, memory)), "it is in memory")
    return event


@scenario("commitment-fired")
def commitment_fired(stage):
    for condition in ("predicate", "time"):
        for memory in ("mem://conformance/commitments", fresh(stage, "commitments")):
            event = fired(stage, memory, condition)
            one = stage.host.get(f"{COMMITMENTS}/{event['commitmentId']}").is_(200)
            same((one["state"], one["fired"], one["inferred"]), ("done", 1, True), "it was read, and has fired")
            stage.stranger.get(f"{COMMITMENTS}/{event['commitmentId']}").refuses(404, "not_found")
    plain = stage.host.post(FIRE, {"memoryRef": fresh(stage, "commitments"), "condition": "predicate"}).is_(200)
    check("intentionCanary" not in plain, "what was meant is told only who asks")


@scenario("commitment-horizon", EVERYWHERE)
def horizon(stage):
    body = {"text": "Look at the old bridge.", "at": "2199-01-01T00:00:00Z"}
    stage.host.post("/v1/host/remembrancer/memory/bridges/commitments", body).refuses(422, "schedule_horizon_exceeded")


def tick(stage, state, **more):
    answer = stage.host.post(TICK, {"heartbeatId": f"hb-{stage.nonce}", "observedState": state, **more}).is_(200)
    [evaluated] = answer["evaluated"]
    same(evaluated["heartbeatId"], f"hb-{stage.nonce}", "which heartbeat")
    same(len(answer["stateChanged"]), int(evaluated["changed"]), "both say the same")
    check(all(change["from"] != change["to"] for change in answer["stateChanged"]), f"a change is one: {answer}")
    return evaluated["status"], evaluated["changed"], answer["enqueuedRuns"]


@scenario("heartbeat-transitions")
def transitions(stage):
    after = now(stage)
    same(tick(stage, {"depth": 0}), ("ok", True, 1), "the first look")
    for _ in range(3):
        same(tick(stage, {"depth": 0}), ("ok", False, 0), "an unchanged look starts nothing")
    status, changed, _ = tick(stage, {"depth": 9})
    same((status, changed), ("ok", True), "a change")
    same(tick(stage, {"depth": 9}), ("ok", False, 0), "and no more")
    name = f"hb-{stage.nonce}"
    looks = [one for one in told(stage, after, "heartbeat.evaluated") if one["heartbeatId"] == name]
    changes = [one for one in told(stage, after, "heartbeat.stateChanged") if one["heartbeatId"] == name]
    same((len(looks), [one["changed"] for one in looks].count(True), len(changes)), (6, 2, 2), "every look, and every change once")


@scenario("heartbeat-timeout")
def timeout(stage):
    state = {"depth": 9}
    limit = stage.document.get("heartbeat", {"maxRuntimeMs": 1_000})["maxRuntimeMs"]
    tick(stage, state)
    same(tick(stage, {"depth": 1}, simulateSlowMs=limit * 3), ("timeout", False, 0), "a slow look ends in time and changes nothing")
    same(tick(stage, state), ("ok", False, 0), "what was known is still known")
