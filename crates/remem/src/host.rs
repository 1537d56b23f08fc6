//! Puts an engine together from the configuration: keys, store, directory, secrets. Used by `serve` and by commands
//! that open the store themselves.

use crate::config::Config;
use anyhow::{Context, bail};
use remem_core::capability::{Capabilities, Facts};
use remem_core::redact::SecretValue;
use remem_core::{ShapePolicy, TenantId};
use remem_engine::ports::{Clock, RandomIds, SharedClock, SystemClock};
use remem_engine::{Engine, HostKey, Parts, Secrets};
use remem_server::EngineDoor;
use remem_store::{Directory, Store};
use remem_store_sql::postgres::{Options, Target};
use remem_store_sql::{Location, PostgresStore, SqliteDirectory, SqliteStore};
use serde::Deserialize;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// File with the first key, in the data directory.
pub const BOOTSTRAP_FILE: &str = "bootstrap.key";
/// The tenant that exists from the start.
pub const DEFAULT_TENANT: &str = "default";

/// An engine on the configured store.
pub async fn engine(config: &Config) -> anyhow::Result<Arc<Engine>> {
    Ok(open(config).await?.engine)
}

/// What `serve` needs to know beside the engine.
pub struct Host {
    pub engine: Arc<Engine>,
    /// Where memory is kept, for people.
    pub place: String,
}

/// The parts that depend on where memory is kept.
struct Storage {
    store: Arc<dyn Store>,
    directory: Arc<dyn Directory>,
    clock: Arc<dyn Clock>,
    key: HostKey,
    place: String,
}

/// An engine on the configured store, and where that is.
pub async fn open(config: &Config) -> anyhow::Result<Host> {
    let policy = config.policy()?;
    let storage = match &config.storage.database {
        Some(url) => database(config, url).await?,
        None => embedded(config)?,
    };
    let features = storage.store.features();
    let facts =
        Facts { durable: features.durable, writable: true, lexical: features.lexical, ttl: true, workspace: true, ..Facts::default() };
    let secrets = match &config.redaction.secrets_file {
        Some(file) => Secrets::new(&storage.key, registered(file)?),
        None => Secrets::none(&storage.key),
    };
    let engine = Engine::new(Parts {
        store: storage.store,
        directory: storage.directory,
        clock: storage.clock,
        ids: Arc::new(RandomIds),
        policy,
        secrets,
        key: storage.key,
        capabilities: Capabilities::compute(facts),
    });
    Ok(Host { engine: Arc::new(engine), place: storage.place })
}

fn embedded(config: &Config) -> anyhow::Result<Storage> {
    let folder = &config.storage.data_dir;
    let (location, key, place) = match config.storage.store.as_str() {
        "embedded" => {
            private_folder(folder).with_context(|| format!("cannot use the data directory {}", folder.display()))?;
            (Location::Folder(folder.clone()), host_key(folder)?, folder.display().to_string())
        }
        "memory" => (Location::Memory, HostKey::new(random()?), "process memory: gone when this stops".to_owned()),
        _ => bail!("storage.store must be embedded or memory"),
    };
    let store = SqliteStore::open(location.clone(), config.storage.readers).context("cannot open the store")?;
    let directory = SqliteDirectory::open(&location).context("cannot open the directory of tenants")?;
    let place = format!("{place} (SQLite {})", SqliteStore::version());
    Ok(Storage { store: Arc::new(store), directory: Arc::new(directory), clock: Arc::new(SystemClock), key, place })
}

async fn database(config: &Config, url: &str) -> anyhow::Result<Storage> {
    let store = PostgresStore::open(options(config, url)?).await.context("cannot use the database")?;
    let key = match &config.storage.host_key_file {
        Some(file) => read_host_key(file)?,
        None => HostKey::new(store.host_secret(&random()?).await.context("cannot read the host's secret")?),
    };
    let server = store.server();
    let place = format!("database {} (PostgreSQL {})", server.database, server.version);
    if !server.durable {
        tracing::warn!("fsync or full_page_writes is off in this PostgreSQL: a crash of the machine can lose what was acknowledged");
    }
    let (clock, directory) = (SharedClock(store.clock()), store.directory());
    Ok(Storage { store: Arc::new(store), directory: Arc::new(directory), clock: Arc::new(clock), key, place })
}

fn options(config: &Config, url: &str) -> anyhow::Result<Options> {
    let worker = config.storage.worker_database.as_deref().map(Target::parse).transpose().context("storage.worker_database")?;
    Ok(Options {
        target: Target::parse(url)?,
        worker,
        connections: config.storage.connections,
        wait: Duration::from_millis(config.storage.wait_ms_max),
        deadline: Duration::from_millis(config.storage.deadline_ms),
        local_ms: || SystemClock.now().0,
    })
}

/// A door into the store with every right inside a tenant.
pub async fn local_door(config: &Config, tenant: &str) -> anyhow::Result<EngineDoor> {
    let engine = engine(config).await?;
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
    read_host_key(&path)
}

fn read_host_key(path: &Path) -> anyhow::Result<HostKey> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
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

/// 32 bytes that nobody can guess.
pub fn random() -> anyhow::Result<[u8; 32]> {
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

/// A folder that only its owner enters.
pub fn private_folder(path: &Path) -> std::io::Result<()> {
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
