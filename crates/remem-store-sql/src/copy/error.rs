//! The reasons why a copy was refused or failed, as sentences that say what to do. None of them
//! holds a URL, a key or a text.

use crate::postgres::PostgresOpenError;
use remem_core::TenantId;
use remem_store::StoreError;

/// The two ends of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// The host named by `--from`.
    Source,
    /// The host named by `--to`.
    Target,
}

impl std::fmt::Display for CopyEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == CopyEnd::Source {
            "source"
        } else {
            "target"
        })
    }
}

/// The reasons why a copy did not finish.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The source has no host.
    #[error("the source holds no host: host.db not found in that folder")]
    NoHost,
    /// The embedded store cannot be opened.
    #[error("the {0} cannot be opened")]
    Folder(CopyEnd, #[source] StoreError),
    /// The database is not prepared, does not separate tenants, or cannot be reached.
    #[error("the {0} cannot be used")]
    Database(CopyEnd, #[source] Box<PostgresOpenError>),
    /// Source and target are the same host under two names.
    #[error("source and target are the same place")]
    SamePlace,
    /// There is no tenant of the name given by `--tenant`.
    #[error("tenant {0} not found at the source")]
    NoTenant(TenantId),
    /// The key file is damaged or cannot be read.
    #[error("host.key of the {0} cannot be used: {1}")]
    SecretFile(CopyEnd, String),
    /// The source has no secret, so its keys could not be copied.
    #[error(
        "the source has no host secret, so its keys could not go on working: give the file with storage.host_key_file, or open \
         the source once (`remem tenant list`) to make a new one"
    )]
    NoSecret,
    /// The target has another secret: its keys would stop working, or those of the source would not
    /// work there.
    #[error(
        "the target belongs to a host with another secret and holds its keys: copy into a new folder or a freshly prepared database"
    )]
    OtherSecret,
    /// The target has another secret, but nothing depends on it.
    #[error(
        "the target has another host secret, on which no key depends yet: take it away (the file host.key, or the row of \
         remem.host_secret as the database's administrator) and run this again"
    )]
    UnusedSecret,
    /// A run reads a snapshot at the source, which the copy does not include.
    #[error("runs of tenant {0} are under way: wait until they have ended, or cancel them")]
    OpenRuns(TenantId),
    /// The tenant at the target is not a copy of the one at the source.
    #[error(
        "tenant {0} at the target has another history: copy into a new folder or a freshly prepared database"
    )]
    OtherHistory(TenantId),
    /// The tenant at the target was written to after an earlier copy.
    #[error(
        "tenant {0} at the target is ahead of the source: it was written to there after an earlier copy"
    )]
    Ahead(TenantId),
    /// Not all entries can be read: they are hidden or lost.
    #[error(
        "tenant {tenant}: {written} entries were written and {found} can be read, so the copy would not be whole"
    )]
    Hidden {
        tenant: TenantId,
        /// The number of entries by the event log.
        written: u64,
        /// The number of rows that could be read.
        found: u64,
    },
    /// The comparison of source and target failed.
    #[error(
        "tenant {tenant} is not the same at the target: {what} differ; run this again, and if it stays so, start with an empty target"
    )]
    Mismatch {
        tenant: TenantId,
        /// The kind of rows that differ.
        what: &'static str,
    },
    /// The target's own check failed.
    #[error("tenant {0} does not pass the target's check")]
    Unsound(TenantId, #[source] StoreError),
    /// The source's own check failed.
    #[error(
        "tenant {0} is damaged at the source, and a copy would hide it: see `remem doctor` there"
    )]
    Damaged(TenantId, #[source] StoreError),
    /// Tenants, keys or the host's secret at the source do not match their hashes.
    #[error("tenants or keys of the source are damaged: see `remem doctor` there")]
    DamagedHost(#[source] StoreError),
    /// The progress callback stopped the copy.
    #[error("stopped; run it again to go on")]
    Stopped,
    /// A store failed; the same command continues where it was.
    #[error("the copy was interrupted; run it again to go on")]
    Store(#[from] StoreError),
}
