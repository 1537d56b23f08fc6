//! Puts an engine together from the configuration: keys, store, directory, secrets. Used by `serve` and by commands
//! that open the embedded store themselves.

use crate::config::Config;
use anyhow::{Context, bail};
use remem_core::capability::{Capabilities, Facts};
use remem_core::redact::SecretValue;
use remem_core::{ShapePolicy, TenantId};
use remem_engine::ports::{RandomIds, SystemClock};
use remem_engine::{Engine, HostKey, Parts, Secrets};
use remem_server::EngineDoor;
use remem_store::Store;
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use serde::Deserialize;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File with the first key, in the data directory.
pub const BOOTSTRAP_FILE: &str = "bootstrap.key";
/// The tenant that exists from the start.
pub const DEFAULT_TENANT: &str = "default";

/// An engine on the configured store.
pub fn engine(config: &Config) -> anyhow::Result<Arc<Engine>> {
    if config.storage.database.is_some() {
        bail!("this version keeps memory in the embedded store only: leave out --database");
    }
    let (location, key) = match config.storage.store.as_str() {
        "embedded" => {
            let folder = &config.storage.data_dir;
            private_folder(folder).with_context(|| format!("cannot use the data directory {}", folder.display()))?;
            (Location::Folder(folder.clone()), host_key(folder)?)
        }
        "memory" => (Location::Memory, HostKey::new(random()?)),
        _ => bail!("storage.store must be embedded or memory"),
    };
    let policy = config.policy()?;
    let store = SqliteStore::open(location.clone(), config.storage.readers).context("cannot open the store")?;
    let directory = SqliteDirectory::open(&location).context("cannot open the directory of tenants")?;
    let features = store.features();
    let facts = Facts { durable: features.durable, writable: true, lexical: features.lexical, ttl: true, ..Facts::default() };
    let secrets = match &config.redaction.secrets_file {
        Some(file) => Secrets::new(&key, registered(file)?),
        None => Secrets::none(&key),
    };
    Ok(Arc::new(Engine::new(Parts {
        store: Arc::new(store),
        directory: Arc::new(directory),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        policy,
        secrets,
        key,
        capabilities: Capabilities::compute(facts),
    })))
}

/// A door into the embedded store with every right inside a tenant.
pub async fn local_door(config: &Config, tenant: &str) -> anyhow::Result<EngineDoor> {
    let engine = engine(config)?;
    let tenant = TenantId::parse(tenant).context("the tenant's name is not valid")?;
    if tenant.as_str() == DEFAULT_TENANT && engine.local_caller(&tenant).await.is_err() {
        engine.ensure_tenant(tenant.clone(), ShapePolicy::default()).await?;
    }
    let caller = engine.local_caller(&tenant).await;
    let caller = caller.with_context(|| format!("there is no tenant {tenant}; create it with `remem tenant create {tenant}`"))?;
    Ok(EngineDoor { engine, caller })
}

/// The host's secret, made on first use. Losing the file makes every key and cursor invalid, never the memory.
fn host_key(folder: &Path) -> anyhow::Result<HostKey> {
    let path = folder.join("host.key");
    if !path.exists() {
        make_host_key(folder, &path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let bytes: [u8; 32] = bytes.try_into().map_err(|_| anyhow::anyhow!("{} is not a host key of 32 bytes", path.display()))?;
    Ok(HostKey::new(bytes))
}

/// Written whole under another name and then linked: the file is complete whenever it is there, even after a crash, and
/// of two processes that start at once the first one decides.
fn make_host_key(folder: &Path, path: &Path) -> anyhow::Result<()> {
    let fresh = folder.join(format!("host.key.{}", std::process::id()));
    let _ = fs::remove_file(&fresh); // left by a process of the same number that crashed
    let mut file = private_file(&fresh)?;
    file.write_all(&random()?)?;
    file.sync_all()?;
    let linked = fs::hard_link(&fresh, path);
    fs::remove_file(&fresh)?;
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    }
}

fn random() -> anyhow::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).context("the machine has no randomness")?;
    Ok(bytes)
}

/// A new file that only its owner reads.
pub fn private_file(path: &Path) -> std::io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn private_folder(path: &PathBuf) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RegisteredLine {
    secret_id: String,
    secret: String,
    tenant: Option<String>,
}

/// Reads registered secrets. Errors name the line, never what is on it.
pub fn registered(file: &Path) -> anyhow::Result<Vec<(Option<TenantId>, SecretValue)>> {
    let name = file.display();
    let reader = BufReader::new(fs::File::open(file).with_context(|| format!("cannot read the secrets file {name}"))?);
    let mut values = Vec::new();
    for (number, line) in reader.lines().enumerate() {
        let line = line.with_context(|| format!("cannot read the secrets file {name}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let parsed: Option<RegisteredLine> = serde_json::from_str(&line).ok();
        let place = || format!("line {} of {name}", number + 1);
        let Some(line) = parsed else { bail!("{} is not {{\"secretId\", \"secret\", \"tenant\"?}}", place()) };
        let tenant = line.tenant.map(|t| TenantId::parse(&t).with_context(|| format!("{}: the tenant's name is not valid", place())));
        values.push((tenant.transpose()?, SecretValue::new(line.secret_id, line.secret)));
    }
    Ok(values)
}
