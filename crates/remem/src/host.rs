//! Builds an engine from the configuration: keys, store, directory and secrets. Used by `serve` and
//! by commands that open the store themselves.

use crate::agents;
use crate::config::Config;
use crate::embedder;
use crate::hints;
use crate::jwt;
use crate::model;
use crate::post::WebhookClient;
use crate::seams;
use anyhow::{Context, bail};
use remem_core::capability::{Capabilities, Facts};
use remem_core::redact::SecretValue;
use remem_core::{ShapePolicy, TenantId};
use remem_engine::cpu::CpuPool;
use remem_engine::embedders::Embedders;
use remem_engine::ports::{Clock, Embedder, RandomIds, SharedClock, SystemClock};
use remem_engine::proposals::ProposalStore;
use remem_engine::{Engine, EngineParts, HostKey, SecretRegistry, VaultKey};
use remem_server::LocalApi;
use remem_store::{Directory, Review, Store};
use remem_store_sql::postgres::{self, PostgresOptions, PostgresTarget};
use remem_store_sql::{Location, PostgresStore, SqliteDirectory, SqliteStore, private};
use serde::Deserialize;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// Name of the file with the first key, in the data directory.
pub const BOOTSTRAP_FILE: &str = "bootstrap.key";
/// Environment variable with the key that seals the vault's secrets.
const VAULT_KEY_VARIABLE: &str = "REMEM_VAULT_KEY";
/// The tenant that exists from the start.
pub const DEFAULT_TENANT: &str = "default";

/// Opens an engine on the configured store.
pub async fn open_engine(config: &Config) -> anyhow::Result<Arc<Engine>> {
    Ok(open_host(config, false).await?.engine)
}

/// An opened engine and the place of its storage.
pub struct OpenedHost {
    pub engine: Arc<Engine>,
    /// The storage as `serve` and `doctor` show it to people: folder or database, and version.
    pub description: String,
}

/// The parts of an engine that depend on the configured storage.
struct OpenedStorage {
    store: Arc<dyn Store>,
    review: Arc<dyn Review>,
    directory: Arc<dyn Directory>,
    clock: Arc<dyn Clock>,
    key: HostKey,
    /// Whether the host's secret is stored apart from the data, so that a vault key may be derived
    /// from it.
    key_is_separate: bool,
    description: String,
}

/// Opens an engine on the configured store. With `seams` it also has the workflows, agents and
/// secrets that conformance checks need.
pub async fn open_host(config: &Config, seams: bool) -> anyhow::Result<OpenedHost> {
    let policy = config.policy()?;
    let profiles = config.profiles()?;
    let bearer = jwt::token_verifier(&config.auth.jwt)?;
    let storage = match &config.storage.database {
        Some(url) => open_database(config, url).await?,
        None => open_embedded(config)?,
    };
    let features = storage.store.features();
    let vault = vault_key(config, &storage)?;
    let models = embedder::embedders(&config.embedder, &config.storage.data_dir)?;
    let facts = Facts {
        durable: features.durable,
        writable: true,
        lexical: true,
        semantic: models.current.is_some() && features.vectors,
        ttl: true,
        workspace: true,
        attribution: true,
        snapshots: true,
        runs: true,
        agents: true,
        webhooks: true,
        forget: true,
        compaction: true,
        vault: vault.is_some(),
        commitments: true,
        proposals: true,
        scheduling: true,
    };
    let mut agents = config
        .agents
        .dir
        .as_deref()
        .map(|folder| agents::read_folder(folder, &policy))
        .transpose()?
        .unwrap_or_default();
    if seams {
        agents.extend(seams::agents(&policy)?);
    }
    let secrets = match &config.redaction.secrets_file {
        Some(file) => SecretRegistry::new(&storage.key, registered_secrets(file)?),
        None => SecretRegistry::none(&storage.key),
    };
    let engine = Engine::new(EngineParts {
        store: storage.store,
        proposal_store: ProposalStore::new(storage.review),
        proposal_settings: config.proposals()?,
        directory: storage.directory,
        bearer,
        clock: storage.clock,
        ids: Arc::new(RandomIds),
        webhook_sender: Arc::new(WebhookClient::new(config.webhooks.allow_private)),
        model: model::model_port(&config.model)?,
        envelope: remem_wire::webhook::envelope,
        policy,
        secrets,
        host_key: storage.key,
        vault,
        capabilities: Capabilities::compute(facts),
        workflows: if seams {
            seams::workflows()?
        } else {
            Vec::new()
        },
        test_endpoints: seams,
        test_secrets: if seams { seams::secrets() } else { Vec::new() },
        agents,
        commitments: config.commitments.rules()?,
        cpu: CpuPool::default(),
        profiles,
        embedders: Embedders::new(models.current, models.previous),
        backups_kept_ms: config
            .storage
            .backups_kept_days
            .map(|days| i64::from(days) * 86_400_000),
    });
    Ok(OpenedHost {
        engine: Arc::new(engine),
        description: storage.description,
    })
}

/// Opens an engine over an embedded store in `folder`, with the configured limits, this clock and
/// this model. Its secret is a new random one, so that it fits no existing store.
pub fn open_engine_in(
    config: &Config,
    folder: &Path,
    clock: Arc<dyn Clock>,
    embedder: Option<Arc<dyn Embedder>>,
) -> anyhow::Result<Engine> {
    let location = Location::Folder(folder.to_owned());
    let store = SqliteStore::open(location.clone(), config.storage.readers)
        .context("cannot open the store")?;
    let directory =
        SqliteDirectory::open(&location).context("cannot open the directory of tenants")?;
    let key = HostKey::new(random_bytes()?);
    let ids = Arc::new(RandomIds);
    let mut parts = EngineParts::new(Arc::new(store), Arc::new(directory), clock, ids, key);
    parts.policy = config.policy()?;
    parts.embedders = Embedders::new(embedder, None);
    Ok(Engine::new(parts))
}

/// Opens the embedded store: SQLite in a folder or in memory.
fn open_embedded(config: &Config) -> anyhow::Result<OpenedStorage> {
    let folder = &config.storage.data_dir;
    let (location, key, place) = match config.storage.store.as_str() {
        "embedded" => {
            private::create_folder(folder)
                .with_context(|| format!("cannot use the data directory {}", folder.display()))?;
            (
                Location::Folder(folder.clone()),
                host_key(folder)?,
                folder.display().to_string(),
            )
        }
        "memory" => (
            Location::Memory,
            HostKey::new(random_bytes()?),
            "process memory: gone when this stops".to_owned(),
        ),
        _ => bail!("storage.store must be embedded or memory"),
    };
    let store = Arc::new(
        SqliteStore::open(location.clone(), config.storage.readers)
            .context("cannot open the store")?,
    );
    let directory =
        SqliteDirectory::open(&location).context("cannot open the directory of tenants")?;
    let place = format!("{place} (SQLite {})", SqliteStore::version());
    let review = store.clone();
    let directory = Arc::new(directory);
    let clock = Arc::new(SystemClock);
    Ok(OpenedStorage {
        store,
        review,
        directory,
        clock,
        key,
        key_is_separate: true,
        description: place,
    })
}

/// Opens the store in a PostgreSQL database.
async fn open_database(config: &Config, url: &str) -> anyhow::Result<OpenedStorage> {
    let store = Arc::new(
        PostgresStore::open(postgres_options(config, url)?)
            .await
            .context("cannot use the database")?,
    );
    let key = match &config.storage.host_key_file {
        Some(file) => HostKey::new(read_secret_file(file)?),
        None => HostKey::new(
            store
                .host_secret(&random_bytes()?)
                .await
                .context("cannot read the host's secret")?,
        ),
    };
    let server = store.server();
    let place = format!(
        "database {} (PostgreSQL {})",
        server.database, server.version
    );
    if !server.durable {
        tracing::warn!(
            "fsync or full_page_writes is off in this PostgreSQL: a crash of the machine can lose what was acknowledged"
        );
    }
    let review = store.clone();
    let directory = Arc::new(store.directory());
    let clock = Arc::new(SharedClock(store.clock()));
    Ok(OpenedStorage {
        store,
        review,
        directory,
        clock,
        key,
        key_is_separate: false,
        description: place,
    })
}

fn postgres_options(config: &Config, url: &str) -> anyhow::Result<PostgresOptions> {
    let worker = config
        .storage
        .worker_database
        .as_deref()
        .map(PostgresTarget::parse)
        .transpose()
        .context("storage.worker_database")?;
    Ok(PostgresOptions {
        target: PostgresTarget::parse(url)?,
        worker,
        connections: config.storage.connections,
        wait: Duration::from_millis(config.storage.wait_ms_max),
        waiters_max: config.storage.waiters_max,
        deadline: Duration::from_millis(config.storage.deadline_ms),
        exact_max: postgres::EXACT_MAX,
        local_ms: || SystemClock.now().0,
    })
}

/// Opens the configured store, for a caller with every right inside a tenant.
pub async fn local_api(config: &Config, tenant: &str) -> anyhow::Result<LocalApi> {
    let engine = open_engine(config).await?;
    let tenant = TenantId::parse(tenant).context("the tenant's name is not valid")?;
    if tenant.as_str() == DEFAULT_TENANT && engine.local_caller(&tenant).await.is_err() {
        engine
            .ensure_tenant(tenant.clone(), ShapePolicy::default())
            .await?;
    }
    let caller = engine.local_caller(&tenant).await;
    let caller = caller.with_context(|| {
        format!("tenant {tenant} not found; create it with `remem tenant create {tenant}`")
    })?;
    Ok(LocalApi { engine, caller })
}

/// Reads the host's secret, and creates it on first use. If the file is lost, every key and cursor
/// becomes invalid; the memory stays readable.
fn host_key(folder: &Path) -> anyhow::Result<HostKey> {
    let secret = || {
        private::read_secret(folder)
            .with_context(|| format!("cannot read the host's secret in {}", folder.display()))
    };
    if secret()?.is_none() {
        let written = private::store_secret(folder, &random_bytes()?);
        written
            .with_context(|| format!("cannot write the host's secret to {}", folder.display()))?;
    }
    Ok(HostKey::new(
        secret()?.context("the host's secret vanished")?,
    ))
}

/// Returns the key that seals the vault's secrets: the configured one, or one derived from the
/// host's secret where that is in a file of its own. Otherwise the key would be stored beside the
/// secrets that it seals, and the vault stays off.
///
/// Secrets that the derived key sealed can be opened in any case: a host that is given a key of its
/// own, or moves, keeps its secrets.
fn vault_key(config: &Config, storage: &OpenedStorage) -> anyhow::Result<Option<VaultKey>> {
    let given = std::env::var(VAULT_KEY_VARIABLE).ok().map(Zeroizing::new);
    let given = match (given, &config.vault.key_file) {
        (Some(_), Some(_)) => {
            bail!("{VAULT_KEY_VARIABLE} and vault.key_file are both set; keep one of them")
        }
        (Some(text), None) => Some(
            parse_key(text.as_bytes())
                .with_context(|| format!("{VAULT_KEY_VARIABLE} must be 64 hexadecimal digits"))?,
        ),
        (None, Some(file)) => {
            let bytes = Zeroizing::new(
                fs::read(file)
                    .with_context(|| format!("cannot read the vault key in {}", file.display()))?,
            );
            let raw = <[u8; 32]>::try_from(bytes.as_slice()).ok();
            let key = raw.or_else(|| parse_key(&bytes));
            Some(key.with_context(|| {
                format!(
                    "the vault key in {} must be 32 bytes or 64 hexadecimal digits",
                    file.display()
                )
            })?)
        }
        (None, None) => None,
    };
    let derived = storage.key.derive("remembrancer vault v1");
    Ok(match given {
        Some(key) => Some(VaultKey::new(key).with_earlier_key(derived)),
        None => storage.key_is_separate.then(|| VaultKey::new(derived)),
    })
}

/// Parses 64 hexadecimal digits, with white space around them, as a key.
fn parse_key(text: &[u8]) -> Option<[u8; 32]> {
    let text = text.trim_ascii();
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(text.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    (text.len() == 64 && text.iter().all(u8::is_ascii_hexdigit)).then_some(key)
}

/// Reads the host's secret from the file that the configuration names.
pub fn read_secret_file(file: &Path) -> anyhow::Result<[u8; 32]> {
    private::read_secret_file(file)
        .with_context(|| format!("cannot use {} as the host's secret", file.display()))
}

/// Returns 32 bytes from the system's source of randomness.
pub fn random_bytes() -> anyhow::Result<[u8; 32]> {
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

/// Reads the file of registered secrets. Errors name the line, never its content.
pub fn registered_secrets(file: &Path) -> anyhow::Result<Vec<(Option<TenantId>, SecretValue)>> {
    let name = file.display();
    let reader = BufReader::new(
        fs::File::open(file).with_context(|| format!("cannot read the secrets file {name}"))?,
    );
    let mut values = Vec::new();
    for (number, line) in reader.lines().enumerate() {
        let line = line.with_context(|| format!("cannot read the secrets file {name}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let place = || format!("line {} of {name}", number + 1);
        let line = line.trim_start_matches(hints::BOM);
        let line: RegisteredLine = serde_json::from_str(line).map_err(|error| {
            let why = hints::json_line(&error);
            anyhow::anyhow!(
                "{}: {why}; a line is {{\"secretId\", \"secret\", \"tenant\"?}}",
                place()
            )
        })?;
        let tenant = line.tenant.map(|t| {
            TenantId::parse(&t)
                .with_context(|| format!("{}: the tenant's name is not valid", place()))
        });
        values.push((
            tenant.transpose()?,
            SecretValue::new(line.secret_id, line.secret),
        ));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_64_hexadecimal_digits() {
        assert_eq!(
            parse_key(format!(" {}\n", "0a".repeat(32)).as_bytes()),
            Some([10; 32])
        );
        for bad in [
            String::new(),
            "0a".repeat(31),
            "0a".repeat(33),
            "0g".repeat(32),
            "+1".repeat(32),
            format!("{}é", "0a".repeat(31)),
        ] {
            assert_eq!(parse_key(bad.as_bytes()), None, "{bad}");
        }
    }
}
