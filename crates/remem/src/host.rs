//! Puts an engine together from the configuration: keys, store, directory, secrets. Used by `serve` and by commands
//! that open the store themselves.

use crate::agents;
use crate::config::Config;
use crate::post::Outbound;
use crate::seams;
use anyhow::{Context, bail};
use remem_core::capability::{Capabilities, Facts};
use remem_core::redact::SecretValue;
use remem_core::{ShapePolicy, TenantId};
use remem_engine::ports::{Clock, RandomIds, SharedClock, SystemClock};
use remem_engine::{Engine, HostKey, Parts, Secrets};
use remem_server::EngineDoor;
use remem_store::{Directory, Store};
use remem_store_sql::postgres::{Options, Target};
use remem_store_sql::{Location, PostgresStore, SqliteDirectory, SqliteStore, private};
use serde::Deserialize;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// File with the first key, in the data directory.
pub const BOOTSTRAP_FILE: &str = "bootstrap.key";
/// The tenant that exists from the start.
pub const DEFAULT_TENANT: &str = "default";

/// An engine on the configured store.
pub async fn engine(config: &Config) -> anyhow::Result<Arc<Engine>> {
    Ok(open(config, false).await?.engine)
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

/// An engine on the configured store, and where that is; with `seams` also what conformance checks need.
pub async fn open(config: &Config, seams: bool) -> anyhow::Result<Host> {
    let policy = config.policy()?;
    let storage = match &config.storage.database {
        Some(url) => database(config, url).await?,
        None => embedded(config)?,
    };
    let features = storage.store.features();
    let facts = Facts {
        durable: features.durable,
        writable: true,
        lexical: features.lexical,
        ttl: true,
        workspace: true,
        attribution: true,
        snapshots: true,
        runs: true,
        agents: true,
        webhooks: true,
        ..Facts::default()
    };
    let mut agents = config.agents.dir.as_deref().map(|folder| agents::read(folder, &policy)).transpose()?.unwrap_or_default();
    if seams {
        agents.extend(seams::agents(&policy)?);
    }
    let secrets = match &config.redaction.secrets_file {
        Some(file) => Secrets::new(&storage.key, registered(file)?),
        None => Secrets::none(&storage.key),
    };
    let engine = Engine::new(Parts {
        store: storage.store,
        directory: storage.directory,
        clock: storage.clock,
        ids: Arc::new(RandomIds),
        post: Arc::new(Outbound::new(config.webhooks.allow_private)),
        envelope: remem_wire::webhook::envelope,
        policy,
        secrets,
        key: storage.key,
        capabilities: Capabilities::compute(facts),
        workflows: if seams { seams::workflows()? } else { Vec::new() },
        seams,
        test_secrets: if seams { seams::secrets() } else { Vec::new() },
        agents,
    });
    Ok(Host { engine: Arc::new(engine), place: storage.place })
}

fn embedded(config: &Config) -> anyhow::Result<Storage> {
    let folder = &config.storage.data_dir;
    let (location, key, place) = match config.storage.store.as_str() {
        "embedded" => {
            private::folder(folder).with_context(|| format!("cannot use the data directory {}", folder.display()))?;
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
        Some(file) => HostKey::new(read_secret_file(file)?),
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
    let secret = || private::read_secret(folder).with_context(|| format!("cannot read the host's secret in {}", folder.display()));
    if secret()?.is_none() {
        let made = private::keep_secret(folder, &random()?);
        made.with_context(|| format!("cannot write the host's secret to {}", folder.display()))?;
    }
    Ok(HostKey::new(secret()?.context("the host's secret vanished")?))
}

/// The secret in the file that the configuration names.
pub fn read_secret_file(file: &Path) -> anyhow::Result<[u8; 32]> {
    private::read_secret_file(file).with_context(|| format!("cannot use {} as the host's secret", file.display()))
}

/// 32 bytes that nobody can guess.
pub fn random() -> anyhow::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).context("the machine has no randomness")?;
    Ok(bytes)
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
