//! Copies a whole host from one store to another, row by row and unchanged: revisions, sequence
//! numbers, the event chain, rows of erased entries, idempotency records, keys and the secret
//! behind them. Data that is derived from the rows (search index, tags, counters, the times when
//! passes are due) is computed again at the target.
//!
//! The documented exception to "`Ledger::commit` is the only write to memory": it admits nothing,
//! it copies what was admitted. Events go first, the clock after everything else, and tenant and
//! keys last, once source and target agree: a half-copied tenant shows in its clock, cannot be
//! written to (its next event exists already) and has no key. A copy that is resumed after a crash
//! asks the target for the rows that it has; there is no other state.

mod digest;
mod error;
mod postgres;
mod side;
mod sqlite;
pub(crate) mod table;
mod tenant;

pub use error::{CopyEnd, CopyError};

use crate::postgres::PostgresOptions as DatabaseOptions;
use remem_core::TenantId;
use remem_store::TenantRecord;
use side::{CopySide, HostSecret};
use std::ops::ControlFlow;
use std::path::PathBuf;
use table::TABLES;

/// The location of a host's data.
pub enum CopyLocation {
    /// The folder of an embedded store.
    Folder(PathBuf),
    /// A prepared PostgreSQL database.
    Database {
        /// The parameters for opening it.
        options: Box<DatabaseOptions>,
        /// The host's secret, if a file holds it instead of the database.
        secret: Option<[u8; 32]>,
    },
}

/// The choices for a copy.
#[derive(Clone, Debug, Default)]
pub struct CopyOptions {
    /// Copy only this tenant, if given.
    pub tenant: Option<TenantId>,
    /// Only check and count; write nothing.
    pub dry_run: bool,
}

/// The phase that a copy is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPhase {
    /// Rows are being copied.
    Copying,
    /// The target is read again and compared.
    Checking,
}

/// The progress of the copy of a tenant.
#[derive(Clone, Debug)]
pub struct CopyProgress {
    /// The tenant that is being copied.
    pub tenant: TenantId,
    /// The phase of its copy.
    pub phase: CopyPhase,
    /// Entries copied so far, and all entries.
    pub entries: (u64, u64),
    /// Events copied so far, and all events.
    pub events: (u64, u64),
}

/// Called after each page; `Break` stops the copy, which can be resumed later.
pub type OnProgress<'a> = dyn FnMut(&CopyProgress) -> ControlFlow<()> + Send + 'a;

/// The result of the copy of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantReport {
    /// The tenant that was copied.
    pub tenant: TenantId,
    /// The number of entries, rows of erased ones included.
    pub entries: u64,
    pub events: u64,
    /// A digest of clock, memories, entries, events, records, actions and rules, the same for
    /// source and target; empty if nothing was copied.
    pub hash: String,
    /// Source and target agree and the target passed its own check.
    pub verified: bool,
    /// The source was written to during the copy: another copy is needed.
    pub source_changed: bool,
}

/// Copies tenants, keys and memory. Run again after an interruption, it continues where it was.
pub async fn copy(
    from: CopyLocation,
    to: CopyLocation,
    options: &CopyOptions,
    progress: &mut OnProgress<'_>,
) -> Result<Vec<TenantReport>, CopyError> {
    let source = open(from, CopyEnd::Source, options.dry_run)
        .await?
        .ok_or(CopyError::NoHost)?;
    let target = open(to, CopyEnd::Target, options.dry_run).await?;
    if let Some(target) = &target {
        refuse_same_place(source.as_ref(), target.as_ref()).await?;
    }
    let secret = source.secret().await?.ok_or(CopyError::NoSecret)?;
    source
        .directory()
        .verify()
        .await
        .map_err(CopyError::DamagedHost)?;
    copy_secret(&secret, target.as_deref(), options.dry_run).await?;
    let mut reports = Vec::new();
    for tenant in tenants(source.as_ref(), options).await? {
        let report = match &target {
            Some(target) => {
                tenant::copy(
                    source.as_ref(),
                    target.as_ref(),
                    &tenant,
                    options.dry_run,
                    progress,
                )
                .await?
            }
            None => tenant::count(source.as_ref(), &tenant.id).await?,
        };
        reports.push(report);
    }
    Ok(reports)
}

/// Opens a location. `None`: a folder that does not exist, where it may not be created.
async fn open(
    location: CopyLocation,
    end: CopyEnd,
    dry_run: bool,
) -> Result<Option<Box<dyn CopySide>>, CopyError> {
    match location {
        CopyLocation::Folder(folder) => sqlite::open(folder, end, dry_run)
            .map(|side| side.map(|side| Box::new(side) as Box<dyn CopySide>)),
        CopyLocation::Database { options, secret } => {
            Ok(Some(Box::new(postgres::open(*options, secret, end).await?)))
        }
    }
}

/// Refuses to copy a host onto itself.
async fn refuse_same_place(source: &dyn CopySide, target: &dyn CopySide) -> Result<(), CopyError> {
    if source.identity().await? == target.identity().await? {
        Err(CopyError::SamePlace)
    } else {
        Ok(())
    }
}

/// Copies the host's secret, or checks that the target has the same.
async fn copy_secret(
    secret: &HostSecret,
    target: Option<&dyn CopySide>,
    dry_run: bool,
) -> Result<(), CopyError> {
    let Some(target) = target else { return Ok(()) };
    let target_secret = match target.secret().await? {
        Some(target_secret) => target_secret,
        None if dry_run => return Ok(()),
        None => target.store_secret(secret).await?,
    };
    if target_secret == *secret {
        return Ok(());
    }
    Err(if depends_on_secret(target).await? {
        CopyError::OtherSecret
    } else {
        CopyError::UnusedSecret
    })
}

/// Whether the target has keys or idempotency records, which are digests under the host's secret.
async fn depends_on_secret(side: &dyn CopySide) -> Result<bool, CopyError> {
    for tenant in side.directory().tenants().await? {
        if !side.directory().keys(&tenant.id).await?.is_empty() {
            return Ok(true);
        }
        if !side
            .snapshot(&tenant.id)
            .await?
            .page(&TABLES.results, None)
            .await?
            .is_empty()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The tenants to copy.
async fn tenants(
    source: &dyn CopySide,
    options: &CopyOptions,
) -> Result<Vec<TenantRecord>, CopyError> {
    match &options.tenant {
        None => Ok(source.directory().tenants().await?),
        Some(id) => Ok(vec![
            source
                .directory()
                .tenant(id)
                .await?
                .ok_or_else(|| CopyError::NoTenant(id.clone()))?,
        ]),
    }
}
