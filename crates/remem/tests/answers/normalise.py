"""Replaces what differs from run to run by names: ids, instants, digests, revisions, durations.

The same value gets the same name wherever it occurs, so an answer that shows another entry than
before is still a difference.
"""

import datetime
import re

# What these fields hold depends on the moment; `tokens` counts those of ids, too.
UNSTABLE_FIELDS = {
    "revision", "sequence", "seq", "nextAfter", "runSequence", "durationMs", "attempts", "tokens",
    "phase", "recordedAt",
}
# Whether these fields are there depends on the passes that ran beside the requests.
LEFT_OUT = {"lastRunAt", "lastReport", "lastJob", "running", "queued", "nextDue"}
# Headers that say nothing about an answer.
UNSTABLE_HEADERS = {"date", "content-length", "connection", "transfer-encoding"}

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
DATE = re.compile(r"(?<!\d)\d{4}-\d\d-\d\d(?!\d)")
TOKENS = re.compile(r"^\d+ of (\d+) tokens")
PORT = re.compile(r"127\.0\.0\.1:\d+")
NAMES = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"  # a UUID
    r"|\b[a-z]{2,8}_(?=[A-Za-z_-]*[0-9])[0-9A-Za-z_-]{16,}"  # an id with its kind
    r"|\b[0-9A-HJKMNP-TV-Z]{26}\b"  # a ULID
    r"|\b[0-9a-f]{16,}\b|\A[0-9a-f]{8}\Z"  # a digest or its beginning
    # Base64: a long word with a digit and a capital.
    r"|(?<![\w+/-])(?=[\w+/-]*[0-9])(?=[\w+/-]*[A-Z])[0-9A-Za-z+/_-]{22,}={0,2}"
)
NEAR = datetime.timedelta(days=400)


class Normaliser:
    def __init__(self, fixed, replaced):
        """`fixed` are texts that look like a name and are none; `replaced` maps texts to names."""
        self.fixed = set(fixed)
        self.replaced = replaced
        self.names = {}
        self.now = datetime.datetime.now(datetime.timezone.utc)

    def name(self, found):
        text = found.group()
        if text in self.fixed:
            return text
        kind = re.match(r"[a-z]{2,8}(?=_)", text)
        kind = kind.group() if kind else "name"
        return self.names.setdefault(text, f"<{kind} {len(self.names) + 1}>")

    def instant(self, found):
        """An instant near now is not the scenario's."""
        at = datetime.datetime.fromisoformat(found.group()[:10] + "T00:00:00+00:00")
        return found.group() if abs(at - self.now) > NEAR else "<instant>"

    def text(self, text):
        for part, name in self.replaced.items():
            text = text.replace(part, name)
        text = TOKENS.sub(r"<unstable> of \1 tokens", text)
        text = PORT.sub("<address>", INSTANT.sub(self.instant, text))
        return NAMES.sub(self.name, DATE.sub(self.instant, text))

    def value(self, value):
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(part) for part in value]
        if isinstance(value, dict):
            return {
                self.text(key): "<unstable>" if key in UNSTABLE_FIELDS else self.value(part)
                for key, part in value.items()
                if key not in LEFT_OUT
            }
        return value

    def headers(self, headers):
        kept = {key.lower(): value for key, value in headers if key.lower() not in UNSTABLE_HEADERS}
        return {
            key: "<revision>" if key == "remem-revision" else self.text(value)
            for key, value in sorted(kept.items())
        }
