//! Moves a whole host from one store to another, row by row as it is: revisions, sequence numbers,
//! the event chain, skeletons, idempotency records, keys and the secret behind them. What follows
//! from the rows (search index, tags, counters, when passes are due) is made anew at the target.
//!
//! The documented exception to "`Store::commit` is the only write to memory": it admits nothing, it
//! moves what was admitted. Events go first, the clock after everything else, and tenant and keys
//! last, once both places agree: a half-copied tenant shows in its clock, cannot be written to (its
//! next event exists already) and has no key. A copy that goes on after a crash asks the target for
//! what it has; there is no other state.

mod error;
mod postgres;
mod postgres_kin;
mod postgres_workshop;
pub(crate) mod rows;
mod side;
mod sqlite;
mod sqlite_entry;
mod sqlite_kin;
mod sqlite_workshop;
mod tenant;

pub use error::{CopyError, End};

use crate::postgres::Options as DatabaseOptions;
use remem_core::TenantId;
use remem_store::Tenant;
use side::{Secret, Side};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Where a host is kept.
pub enum Place {
    /// The embedded store's folder.
    Folder(PathBuf),
    /// A prepared database.
    Database {
        /// How to open it.
        options: Box<DatabaseOptions>,
        /// The host's secret, if a file holds it in the database's stead.
        secret: Option<[u8; 32]>,
    },
}

/// What is wanted.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only this tenant.
    pub tenant: Option<TenantId>,
    /// Only look and count.
    pub dry_run: bool,
}

/// What the copy is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Rows are moved.
    Copying,
    /// The target is read again and compared.
    Checking,
}

/// How far the copy of a tenant is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Whose.
    pub tenant: TenantId,
    /// At what.
    pub step: Step,
    /// Entries, of all.
    pub entries: (u64, u64),
    /// Events, of all.
    pub events: (u64, u64),
}

/// Called after each page; `Break` stops the copy, which can go on later.
pub type OnProgress<'a> = dyn FnMut(&Progress) -> ControlFlow<()> + Send + 'a;

/// What became of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantReport {
    /// Whose.
    pub tenant: TenantId,
    /// Entries, skeletons of removed ones included.
    pub entries: u64,
    /// Events.
    pub events: u64,
    /// Over clock, memories, entries, events, records, actions and rules, the same at both places;
    /// empty if nothing was copied.
    pub hash: String,
    /// Both places agree and the target passed its own check.
    pub verified: bool,
    /// The source was written to since: another copy is needed.
    pub moved: bool,
}

/// Moves tenants, keys and memory. Run again after an interruption, it goes on where it was.
pub async fn copy(
    from: Place,
    to: Place,
    options: &Options,
    progress: &mut OnProgress<'_>,
) -> Result<Vec<TenantReport>, CopyError> {
    let source = open(from, End::Source, options.dry_run)
        .await?
        .ok_or(CopyError::NoHost)?;
    let target = open(to, End::Target, options.dry_run).await?;
    if let Some(target) = &target {
        refuse_same_place(source.as_ref(), target.as_ref()).await?;
    }
    let secret = source.secret().await?.ok_or(CopyError::NoSecret)?;
    source
        .directory()
        .verify()
        .await
        .map_err(CopyError::DamagedHost)?;
    carry_secret(&secret, target.as_deref(), options.dry_run).await?;
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

/// `None`: a folder that is not there, where it may not be made.
async fn open(place: Place, end: End, dry_run: bool) -> Result<Option<Box<dyn Side>>, CopyError> {
    match place {
        Place::Folder(folder) => sqlite::open(folder, end, dry_run)
            .map(|side| side.map(|side| Box::new(side) as Box<dyn Side>)),
        Place::Database { options, secret } => {
            Ok(Some(Box::new(postgres::open(*options, secret, end).await?)))
        }
    }
}

async fn refuse_same_place(source: &dyn Side, target: &dyn Side) -> Result<(), CopyError> {
    if source.identity().await? == target.identity().await? {
        Err(CopyError::SamePlace)
    } else {
        Ok(())
    }
}

async fn carry_secret(
    secret: &Secret,
    target: Option<&dyn Side>,
    dry_run: bool,
) -> Result<(), CopyError> {
    let Some(target) = target else { return Ok(()) };
    let there = match target.secret().await? {
        Some(there) => there,
        None if dry_run => return Ok(()),
        None => target.keep_secret(secret).await?,
    };
    if there == *secret {
        return Ok(());
    }
    Err(if depends_on_secret(target).await? {
        CopyError::OtherSecret
    } else {
        CopyError::UnusedSecret
    })
}

/// Keys and idempotency records are digests under the secret.
async fn depends_on_secret(side: &dyn Side) -> Result<bool, CopyError> {
    for tenant in side.directory().tenants().await? {
        if !side.directory().keys(&tenant.id).await?.is_empty() {
            return Ok(true);
        }
        if !side
            .snapshot(&tenant.id)
            .await?
            .repeats(&(String::new(), Vec::new()))
            .await?
            .is_empty()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn tenants(source: &dyn Side, options: &Options) -> Result<Vec<Tenant>, CopyError> {
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
