//! Why a copy was refused or failed, as sentences with what to do. None of them holds a URL, a key
//! or a text.

use crate::postgres::OpenError;
use remem_core::TenantId;
use remem_store::StoreError;

/// Which of the two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// `--from`.
    Source,
    /// `--to`.
    Target,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == End::Source {
            "source"
        } else {
            "target"
        })
    }
}

/// Why a copy did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// Nothing is there.
    #[error("the source holds no host: host.db not found in that folder")]
    NoHost,
    /// The embedded store cannot be opened.
    #[error("the {0} cannot be opened")]
    Folder(End, #[source] StoreError),
    /// The database is not prepared, not walled off, or not there.
    #[error("the {0} cannot be used")]
    Database(End, #[source] Box<OpenError>),
    /// One place under two names.
    #[error("source and target are the same place")]
    SamePlace,
    /// `--tenant` names nobody.
    #[error("tenant {0} not found at the source")]
    NoTenant(TenantId),
    /// A key file that is damaged or cannot be reached.
    #[error("host.key of the {0} cannot be used: {1}")]
    SecretFile(End, String),
    /// Keys could not be carried over.
    #[error(
        "the source has no host secret, so its keys could not go on working: give the file with storage.host_key_file, or open \
         the source once (`remem tenant list`) to make a new one"
    )]
    NoSecret,
    /// Keys of the target would stop working, or those of the source would not start to.
    #[error(
        "the target belongs to a host with another secret and holds its keys: copy into a new folder or a freshly prepared database"
    )]
    OtherSecret,
    /// The same, but nothing depends on it.
    #[error(
        "the target has another host secret, on which no key depends yet: take it away (the file host.key, or the row of \
         remem.host_secret as the database's administrator) and run this again"
    )]
    UnusedSecret,
    /// What a run reads would be taken from under it.
    #[error("runs of tenant {0} are under way: wait until they have ended, or cancel them")]
    OpenRuns(TenantId),
    /// Not a copy of this source.
    #[error(
        "tenant {0} at the target has another history: copy into a new folder or a freshly prepared database"
    )]
    OtherHistory(TenantId),
    /// The target went on by itself.
    #[error(
        "tenant {0} at the target is ahead of the source: it was written to there after an earlier copy"
    )]
    Ahead(TenantId),
    /// Something hides them, or they are lost.
    #[error(
        "tenant {tenant}: {written} entries were written and {found} can be read, so the copy would not be whole"
    )]
    Hidden {
        /// Whose.
        tenant: TenantId,
        /// By the event log.
        written: u64,
        /// Rows.
        found: u64,
    },
    /// The comparison failed.
    #[error(
        "tenant {tenant} is not the same at the target: {what} differ; run this again, and if it stays so, start with an empty target"
    )]
    Mismatch {
        /// Whose.
        tenant: TenantId,
        /// Which rows.
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
    /// Tenants, keys or the host's secret are not what was written.
    #[error("tenants or keys of the source are damaged: see `remem doctor` there")]
    DamagedHost(#[source] StoreError),
    /// The callback said so.
    #[error("stopped; run it again to go on")]
    Stopped,
    /// A place failed; the same command goes on where it was.
    #[error("the copy was interrupted; run it again to go on")]
    Store(#[from] StoreError),
}
