//! The columns that the hash of a row covers, table by table and format by format, for both stores.
//! The triggers in the migrations `row_hash` make the hashes by the newest format; the code here
//! checks them, and fills in those of rows from before. May not read or write a row itself.
//!
//! A hash is 16 bytes: one names the format, 15 are the digest. A column that is added later gets
//! its table another format here, and new triggers in the migration that adds it; rows of the
//! format before stay as they are and are still checked by it. It finds damage, not forgery:
//! a person who can change a row can compute its hash.

/// A table whose rows carry a hash.
#[derive(Debug)]
pub(crate) struct HashedTable {
    pub table: &'static str,
    /// The columns that identify a row, in the order of an index.
    pub key: &'static [&'static str],
    /// The SQL expression that names a damaged row in a report: names and numbers only, never
    /// content.
    pub row_label: &'static str,
    /// The columns of format 1, 2, …; the triggers write the last one.
    pub formats: &'static [&'static str],
}

/// The number of rows whose missing hash is filled in by one transaction.
pub(crate) const BACKFILL_ROWS: u32 = 1_000;

/// The tables of a tenant's file.
pub(crate) const SQLITE: [HashedTable; 14] = [
    HashedTable {
        table: "tenant_clock",
        key: &["tenant_id"],
        row_label: "tenant_id",
        formats: &["tenant_id, revision, seq, at, chain"],
    },
    HashedTable {
        table: "scope",
        key: &["scope_id"],
        row_label: "scope_id",
        formats: &["scope_id, tenant_id, memory_ref, owner"],
    },
    HashedTable {
        table: "entry",
        key: &["row_id"],
        row_label: "id",
        formats: &[
            "tenant_id, scope_id, row_id, id, tier, typology, content, tags, metadata, \
             created_at, expires_at, written_by, written_by_run, scan, content_hash, \
             rev_from, rev_to, removed_reason, removed_by_run, erased_at, owner, \
             replaced_by, support, session, interaction, world, slot, valid_at, \
             invalid_at, ended_at, trust, evidence",
        ],
    },
    HashedTable {
        table: "lease",
        key: &["tenant_id", "pass"],
        row_label: "pass",
        formats: &["tenant_id, pass, holder, fence, until"],
    },
    HashedTable {
        table: "idempotency",
        key: &["tenant_id", "operation", "key"],
        row_label: "operation",
        formats: &["tenant_id, operation, key, body, at, revision, outcomes"],
    },
    HashedTable {
        table: "record",
        key: &["tenant_id", "kind", "key"],
        row_label: "kind || ' ' || key",
        formats: &["tenant_id, kind, key, version, at, body, due, topic, source_scope, source_row"],
    },
    HashedTable {
        table: "review",
        key: &["tenant_id", "kind", "key"],
        row_label: "kind || ' ' || key",
        formats: &["tenant_id, kind, key, version, at, body, due"],
    },
    HashedTable {
        table: "snapshot",
        key: &["tenant_id", "run_id"],
        row_label: "run_id",
        formats: &["tenant_id, run_id, revision, at"],
    },
    HashedTable {
        table: "lineage",
        key: &[
            "tenant_id",
            "scope_id",
            "row_id",
            "source_scope",
            "source_row",
        ],
        row_label: "scope_id || '/' || row_id",
        formats: &["tenant_id, scope_id, row_id, source_scope, source_row"],
    },
    HashedTable {
        table: "entry_subject",
        key: &["tenant_id", "subject", "scope_id", "row_id"],
        row_label: "scope_id || '/' || row_id",
        formats: &["tenant_id, subject, scope_id, row_id"],
    },
    HashedTable {
        table: "signature",
        key: &["tenant_id", "scope_id", "row_id"],
        row_label: "scope_id || '/' || row_id",
        formats: &["tenant_id, scope_id, row_id, pass, signature"],
    },
    HashedTable {
        table: "action_link",
        key: &["tenant_id", "scope_id", "row_id", "action", "reference"],
        row_label: "scope_id || '/' || row_id",
        formats: &["tenant_id, scope_id, row_id, action, reference, linked_at, linked_by"],
    },
    HashedTable {
        table: "rule",
        key: &["tenant_id", "world", "id"],
        row_label: "world || ' ' || id",
        formats: &["tenant_id, world, id, body, at, size, trigrams"],
    },
    HashedTable {
        table: "vector",
        key: &["n"],
        row_label: "scope_id || '/' || row_id",
        formats: &["n, tenant_id, scope_id, row_id, model, bytes"],
    },
];

/// The tables of the embedded directory.
pub(crate) const SQLITE_HOST: [HashedTable; 2] = [
    HashedTable {
        table: "tenant",
        key: &["tenant_id"],
        row_label: "tenant_id",
        formats: &["tenant_id, created_at, shapes"],
    },
    HashedTable {
        table: "api_key",
        key: &["tenant_id", "key_id"],
        row_label: "tenant_id || ' ' || key_id",
        formats: &[
            "key_id, tenant_id, label, hash, permissions, created_at, expires_at, \
             revoked_at, principal, trust",
        ],
    },
];

/// A tenant's tables in the database.
pub(crate) const POSTGRES: [HashedTable; 14] = [
    HashedTable {
        table: "tenant_clock",
        key: &["tenant_id"],
        row_label: "tenant_id",
        formats: &["tenant_id, revision, seq, at, chain, scopes"],
    },
    HashedTable {
        table: "scope",
        key: &["tenant_id", "scope_id"],
        row_label: "scope_id",
        formats: &["tenant_id, scope_id, memory_ref, documents, words, next_row, owner"],
    },
    HashedTable {
        table: "entry",
        key: &["tenant_id", "scope_id", "row_id"],
        row_label: "id",
        formats: &[
            "tenant_id, scope_id, row_id, id, id_hash, tier, typology, content, tags, \
             metadata, created_at, expires_at, written_by, written_by_run, scan, \
             content_hash, rev_from, rev_to, removed_reason, removed_by_run, erased_at, \
             owner, replaced_by, support, session, interaction, world, slot, valid_at, \
             invalid_at, ended_at, trust, evidence",
        ],
    },
    HashedTable {
        table: "lease",
        key: &["tenant_id", "pass"],
        row_label: "pass",
        formats: &["tenant_id, pass, holder, fence, until"],
    },
    HashedTable {
        table: "idempotency",
        key: &["tenant_id", "operation", "key"],
        row_label: "operation",
        formats: &["tenant_id, operation, key, body, at, revision, outcomes"],
    },
    HashedTable {
        table: "record",
        key: &["tenant_id", "kind", "key"],
        row_label: "kind || ' ' || key",
        formats: &["tenant_id, kind, key, version, at, body, due, topic, source_scope, source_row"],
    },
    HashedTable {
        table: "review",
        key: &["tenant_id", "kind", "key"],
        row_label: "kind || ' ' || key",
        formats: &["tenant_id, kind, key, version, at, body, due"],
    },
    HashedTable {
        table: "snapshot",
        key: &["tenant_id", "run_id"],
        row_label: "run_id",
        formats: &["tenant_id, run_id, revision, at"],
    },
    HashedTable {
        table: "lineage",
        key: &[
            "tenant_id",
            "scope_id",
            "row_id",
            "source_scope",
            "source_row",
        ],
        row_label: "scope_id || '/' || row_id",
        formats: &["tenant_id, scope_id, row_id, source_scope, source_row"],
    },
    HashedTable {
        table: "entry_subject",
        key: &["tenant_id", "subject", "scope_id", "row_id"],
        row_label: "scope_id || '/' || row_id",
        formats: &["tenant_id, subject, scope_id, row_id"],
    },
    HashedTable {
        table: "signature",
        key: &["tenant_id", "scope_id", "row_id"],
        row_label: "scope_id || '/' || row_id",
        formats: &["tenant_id, scope_id, row_id, pass, signature"],
    },
    HashedTable {
        table: "action_link",
        key: &["tenant_id", "scope_id", "row_id", "action", "reference"],
        row_label: "scope_id || '/' || row_id",
        formats: &["tenant_id, scope_id, row_id, action, reference, linked_at, linked_by"],
    },
    HashedTable {
        table: "rule",
        key: &["tenant_id", "world", "id"],
        row_label: "world || ' ' || id",
        formats: &["tenant_id, world, id, body, at"],
    },
    HashedTable {
        table: "vector",
        key: &["tenant_id", "scope_id", "row_id", "model"],
        row_label: "scope_id || '/' || row_id",
        formats: &["tenant_id, scope_id, row_id, model, tier, typology, dimensions, bytes"],
    },
];

/// The host's own tables in the database.
pub(crate) const POSTGRES_HOST: [HashedTable; 4] = [
    HashedTable {
        table: "tenant",
        key: &["tenant_id"],
        row_label: "tenant_id",
        formats: &["tenant_id, created_at, shapes"],
    },
    HashedTable {
        table: "api_key",
        key: &["tenant_id", "key_id"],
        row_label: "tenant_id || ' ' || key_id",
        formats: &[
            "tenant_id, key_id, label, hash, permissions, created_at, expires_at, \
             revoked_at, principal, trust",
        ],
    },
    HashedTable {
        table: "host_secret",
        key: &["one"],
        row_label: "one",
        formats: &["one, secret"],
    },
    HashedTable {
        table: "upkeep",
        key: &["tenant_id"],
        row_label: "tenant_id",
        formats: &["tenant_id, next_expiry, next_due"],
    },
];
