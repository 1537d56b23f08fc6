-- The tenant stands first in every key, so that no key, error or plan of one tenant can depend on another's rows, and so
-- that the tables can be spread over machines by tenant. Ordered texts compare by bytes, as in the embedded store.

CREATE TABLE remem.tenant_clock (           -- commit-ordered logical time: its row is locked until the commit
  tenant_id text   COLLATE "C" NOT NULL PRIMARY KEY CHECK (tenant_id <> ''),
  revision  bigint NOT NULL,                -- the newest commit
  seq       bigint NOT NULL,                -- the newest event
  at        bigint NOT NULL,                -- the largest instant of any commit, ms
  chain     bytea  NOT NULL                 -- hash of the newest event
);

CREATE TABLE remem.scope (
  tenant_id  text   COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  scope_id   bigint NOT NULL,               -- counted inside the tenant: a sequence would tell about others
  memory_ref text   COLLATE "C" NOT NULL,
  documents  bigint NOT NULL DEFAULT 0,     -- entries that have text, for ranking
  words      bigint NOT NULL DEFAULT 0,     -- and their words
  next_row   bigint NOT NULL DEFAULT 1,
  PRIMARY KEY (tenant_id, scope_id),
  UNIQUE (tenant_id, memory_ref)
) WITH (fillfactor = 50);                   -- its counters change with every commit

CREATE TABLE remem.entry (
  tenant_id      text    COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  scope_id       bigint  NOT NULL,
  row_id         bigint  NOT NULL,          -- counted inside the memory
  id             text    COLLATE "C" NOT NULL,
  id_hash        bytea   NOT NULL,          -- ids may be longer than an index takes
  tier           text    NOT NULL CHECK (tier IN ('interaction', 'session', 'persistent')),
  typology       text    NOT NULL CHECK (typology IN ('episodic', 'semantic', 'procedural')),
  content        bytea   NOT NULL,          -- redacted UTF-8 (text cannot hold U+0000); empty once erased
  tags           text    NOT NULL,          -- JSON array, redacted
  metadata       text,                      -- JSON object, redacted; text because jsonb would change it
  created_at     bigint  NOT NULL,
  expires_at     bigint,
  written_by     text,                      -- principal
  written_by_run text,
  scan           bigint  NOT NULL,          -- fingerprint of the redaction rules it was written under
  content_hash   bytea,                     -- detects damage; goes with the text
  rev_from       bigint  NOT NULL,
  rev_to         bigint,
  removed_reason text    CHECK (removed_reason IN ('deleted', 'expired')),
  erased_at      bigint,
  PRIMARY KEY (tenant_id, scope_id, row_id),
  UNIQUE (tenant_id, scope_id, id_hash),    -- an id is never used again: the skeleton stays
  FOREIGN KEY (tenant_id, scope_id) REFERENCES remem.scope (tenant_id, scope_id),
  CHECK (rev_to IS NULL OR rev_to > rev_from),
  CHECK ((rev_to IS NULL) = (removed_reason IS NULL)),
  CHECK (erased_at IS NULL OR (content = ''::bytea AND tags = '[]' AND metadata IS NULL AND content_hash IS NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02); -- erased text leaves the pages soon
CREATE INDEX entry_list   ON remem.entry (tenant_id, scope_id, created_at DESC, left(id, 100) DESC) WHERE rev_to IS NULL;
CREATE INDEX entry_expiry ON remem.entry (tenant_id, expires_at) WHERE rev_to IS NULL AND expires_at IS NOT NULL;

CREATE TABLE remem.entry_tag (
  tenant_id  text   COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  scope_id   bigint NOT NULL,
  tag        text   COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  id_head    text   COLLATE "C" NOT NULL,   -- the first 100 characters of the entry's id
  row_id     bigint NOT NULL,
  PRIMARY KEY (tenant_id, scope_id, tag, created_at, id_head, row_id) -- written with its entry; a foreign key would look it up again
);

-- The search index as an ordinary table: policies switch off GIN (its operators are not leakproof), equality on a B-tree
-- they do not. A word is known by a digest of its stem; one row says how often an entry holds it.
CREATE TABLE remem.posting (
  tenant_id text     COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  scope_id  bigint   NOT NULL,
  word      bigint   NOT NULL,
  row_id    bigint   NOT NULL,
  times     smallint NOT NULL,
  words     integer  NOT NULL,              -- of the whole entry
  PRIMARY KEY (tenant_id, scope_id, word, row_id) INCLUDE (times, words)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05); -- index-only scans need a fresh visibility map

CREATE TABLE remem.event (
  tenant_id text   COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  seq       bigint NOT NULL,
  revision  bigint NOT NULL,
  at        bigint NOT NULL,
  run_id    text,
  kind      text   NOT NULL,
  payload   text   NOT NULL,                -- content-free JSON
  hash      bytea  NOT NULL,                -- chained to the event before
  PRIMARY KEY (tenant_id, seq)
);

CREATE TABLE remem.idempotency (            -- digests and outcomes only, never a body
  tenant_id text   COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  operation text   COLLATE "C" NOT NULL,
  key       bytea  NOT NULL,
  body      bytea  NOT NULL,
  at        bigint NOT NULL,
  revision  bigint NOT NULL,
  outcomes  text   NOT NULL,
  PRIMARY KEY (tenant_id, operation, key)
);
CREATE INDEX idempotency_age ON remem.idempotency (tenant_id, at);
