//! The configuration: defaults, overridden by a TOML file, then by `REMEM_<SECTION>__<KEY>` in the
//! environment, then by flags. Unknown keys are refused, so that a typo is never silently ignored.

mod embedder;
mod faults;
mod profiles;
mod variables;

pub use embedder::EmbedderConfig;
pub use profiles::ProfileConfig;

use crate::cli::{GlobalArgs, ServeArgs};
use crate::hints;
use anyhow::Context;
use figment::Figment;
use figment::providers::{Format, Serialized, Toml};
use remem_core::permission::{self, ROLES};
use remem_core::schedule::parse_zone;
use remem_core::{Permission, Policy, Profiles, ShapePolicy, Timing, Trust};
use remem_engine::bearer::Algorithm;
use remem_engine::commitments::{ArmMode, CommitmentRules};
use remem_engine::proposals::{ActivationMode, ProposalSettings, QUORUM_MAX};
use remem_store_sql::postgres::WAITERS_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

const HOUR_MS: i64 = 3_600_000;
/// Levels of the log.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// All settings of a host, by section.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub server: ServerConfig,
    pub storage: StorageConfig,
    pub redaction: RedactionConfig,
    pub auth: AuthConfig,
    pub agents: AgentsConfig,
    pub webhooks: WebhooksConfig,
    pub proposals: ProposalsConfig,
    pub vault: VaultConfig,
    pub model: ModelConfig,
    pub embedder: EmbedderConfig,
    pub commitments: CommitmentsConfig,
    /// Profiles of memories, by name.
    pub profiles: BTreeMap<String, ProfileConfig>,
    pub limits: LimitsConfig,
    pub log: LogConfig,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address and port to listen on.
    pub listen: String,
    /// Names by which clients reach MCP. If empty, those of this machine on a loopback address, else
    /// any.
    pub hosts: Vec<String>,
    /// Whether `/metrics` needs no key.
    pub metrics_public: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StorageConfig {
    /// Kind of store without a database: `embedded` (files) or `memory`.
    pub store: String,
    /// Folder of the embedded store.
    pub data_dir: PathBuf,
    /// Database URL; the embedded store if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// Number of connections that read one tenant's file at once.
    pub readers: usize,
    /// Number of connections to the database for requests.
    pub connections: usize,
    /// Longest wait for a database connection, including its opening, in milliseconds; a request
    /// waits until its deadline if that comes first.
    pub wait_ms_max: u64,
    /// Maximum number of requests of one tenant that wait for a database connection.
    pub waiters_max: usize,
    /// Longest time that a database transaction may take, in milliseconds.
    pub deadline_ms: u64,
    /// Database URL for passes, if the worker's role has a login of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_database: Option<String>,
    /// File with the 32 bytes of the host's secret; it is in the database if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_key_file: Option<PathBuf>,
    /// Number of days for which backups of the storage are kept; erasure reports say until when
    /// backups hold what was erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backups_kept_days: Option<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedactionConfig {
    /// Treatment of text shaped like a secret in tenants created from now on: redact, flag or off.
    pub shapes: String,
    /// File of registered secrets, one JSON object {"secretId", "secret", "tenant"?} per line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets_file: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    pub jwt: JwtConfig,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JwtConfig {
    /// Issuer of the tokens (`iss`); no tokens are accepted if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Name of this host in tokens (`aud`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// File or URL of the issuer's public keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks: Option<String>,
    /// Algorithms that tokens may be signed with.
    pub algorithms: Vec<String>,
    /// Tolerated difference between the issuer's clock and this host's.
    pub leeway_seconds: u32,
    /// The tenant of all tokens; each token names its own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Name of the claim with the tenant.
    pub tenant_claim: String,
    /// Name of the claim with the scopes.
    pub scope_claim: String,
    /// Name of the claim with the principal.
    pub principal_claim: String,
    /// Highest trust that the bearer of a token may vouch for.
    pub trust: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentsConfig {
    /// Folder with the manifests of agents for the whole host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhooksConfig {
    /// Whether plain HTTP and private addresses are allowed: for tests and closed networks.
    pub allow_private: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProposalsConfig {
    /// Way in which a proposal takes effect: `direct-rbac` or `approval-gate`.
    pub activation: String,
    /// Number of approvals that a gate needs.
    pub quorum: u32,
    /// Role that a principal needs to decide about proposals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_role: Option<String>,
    /// Scope that a principal needs to decide about proposals, besides proposals:apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_scope: Option<String>,
    /// Time for which a gate stays open, in hours.
    pub gate_timeout_hours: u32,
    /// Whether keys with proposals:override may install a proposal without its quorum.
    pub override_bypasses_quorum: bool,
    /// Time zone in which the host looks for routines.
    pub zone: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VaultConfig {
    /// File with the key that seals the vault's secrets: 32 bytes, or 64 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// Base URL of an OpenAI-compatible endpoint, such as `http://127.0.0.1:11434/v1`; there is no
    /// model if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Name of the model at the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the secret in a tenant's vault that is sent as key; none is sent if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_secret: Option<String>,
    /// Longest time that a call may take, in milliseconds.
    pub timeout_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommitmentsConfig {
    /// Treatment of promises in tenants without rules of their own: `auto`, `confirm` or `off`.
    pub arm: String,
    /// Time zone of times in such promises.
    pub zone: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    pub content_bytes_max: usize,
    pub tags_max: usize,
    pub metadata_bytes_max: usize,
    pub batch_entries_max: usize,
    pub request_bytes_max: usize,
    pub request_ms_max: u64,
    pub write_ms_max: u64,
    pub page_bytes_max: usize,
    pub list_limit_max: u32,
    pub search_limit_max: u32,
    pub feeds_max: usize,
    pub idempotency_retention_ms: i64,
    pub at_least_wait_ms_max: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// Format of log lines: `text` or `json`.
    pub format: String,
    /// Level (error, warn, info, debug or trace), or a filter such as `info,remem_engine=debug`.
    pub level: String,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            listen: "127.0.0.1:7077".to_owned(),
            hosts: Vec::new(),
            metrics_public: false,
        }
    }
}

impl Default for StorageConfig {
    fn default() -> StorageConfig {
        StorageConfig {
            store: "embedded".to_owned(),
            data_dir: "./remem-data".into(),
            database: None,
            readers: 4,
            connections: 16,
            wait_ms_max: 60_000,
            waiters_max: WAITERS_MAX,
            deadline_ms: 10_000,
            worker_database: None,
            host_key_file: None,
            backups_kept_days: None,
        }
    }
}

impl Default for RedactionConfig {
    fn default() -> RedactionConfig {
        RedactionConfig {
            shapes: ShapePolicy::default().to_string(),
            secrets_file: None,
        }
    }
}

impl Default for JwtConfig {
    fn default() -> JwtConfig {
        JwtConfig {
            issuer: None,
            audience: None,
            jwks: None,
            algorithms: Algorithm::DEFAULT
                .map(|algorithm| algorithm.as_str().to_owned())
                .to_vec(),
            leeway_seconds: 60,
            tenant: None,
            tenant_claim: "tenant".to_owned(),
            scope_claim: "scope".to_owned(),
            principal_claim: "sub".to_owned(),
            trust: Trust::Model.as_str().to_owned(),
        }
    }
}

impl Default for ProposalsConfig {
    fn default() -> ProposalsConfig {
        let s = ProposalSettings::default();
        ProposalsConfig {
            activation: s.activation.as_str().to_owned(),
            quorum: s.quorum,
            required_role: s.required_role,
            required_scope: s.required_scope,
            gate_timeout_hours: u32::try_from(s.gate_timeout_ms / HOUR_MS).unwrap_or(u32::MAX),
            override_bypasses_quorum: s.override_bypasses_quorum,
            zone: s.zone,
        }
    }
}

impl Default for ModelConfig {
    fn default() -> ModelConfig {
        ModelConfig {
            base_url: None,
            name: None,
            key_secret: None,
            timeout_ms: 30_000,
        }
    }
}

impl Default for CommitmentsConfig {
    fn default() -> CommitmentsConfig {
        let rules = CommitmentRules::default();
        CommitmentsConfig {
            arm: rules.arm.as_str().to_owned(),
            zone: rules.zone,
        }
    }
}

impl CommitmentsConfig {
    /// Returns the commitment rules that these settings describe.
    pub fn rules(&self) -> anyhow::Result<CommitmentRules> {
        let arm = ArmMode::ALL
            .into_iter()
            .find(|arm| arm.as_str() == self.arm)
            .context("commitments.arm must be auto, confirm or off")?;
        parse_zone(&self.zone).map_err(|rejection| anyhow::anyhow!("commitments.{rejection}"))?;
        Ok(CommitmentRules {
            arm,
            zone: self.zone.clone(),
            ..CommitmentRules::default()
        })
    }
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        let p = Policy::default();
        LimitsConfig {
            content_bytes_max: p.content_bytes_max,
            tags_max: p.tags_max,
            metadata_bytes_max: p.metadata_bytes_max,
            batch_entries_max: p.batch_entries_max,
            request_bytes_max: p.request_bytes_max,
            request_ms_max: p.request_ms_max,
            write_ms_max: p.write_ms_max,
            page_bytes_max: p.page_bytes_max,
            list_limit_max: p.list_limit_max,
            search_limit_max: p.search_limit_max,
            feeds_max: p.feeds_max,
            idempotency_retention_ms: p.idempotency_retention_ms,
            at_least_wait_ms_max: p.at_least_wait_ms_max,
        }
    }
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig {
            format: "text".to_owned(),
            level: "info".to_owned(),
        }
    }
}

/// Environment variables with the prefix that are not settings: flags read them, or `serve` does.
const RESERVED_VARIABLES: [&str; 8] = [
    "bootstrap_key",
    "config",
    "data_dir",
    "database",
    "url",
    "key",
    "tenant",
    "vault_key",
];

/// Loads the effective configuration. `serve` has the flags of `remem serve`.
pub fn load(global: &GlobalArgs, serve: Option<&ServeArgs>) -> anyhow::Result<Config> {
    let mut figment = Figment::from(Serialized::defaults(Config::default()));
    if let Some(file) = &global.config {
        anyhow::ensure!(
            file.is_file(),
            "configuration file {} not found",
            file.display()
        );
        figment = figment.merge(Toml::file_exact(file));
    }
    let mut config: Config = figment
        .merge(variables::settings(global))
        .extract()
        .map_err(|error| anyhow::anyhow!("invalid configuration: {}", faults::text(error)))?;
    if let Some(dir) = &global.data_dir {
        config.storage.data_dir.clone_from(dir);
    }
    config.storage.database = global.database.clone().or(config.storage.database);
    if let Some(serve) = serve {
        override_by(&mut config.server.listen, &serve.listen);
        override_by(&mut config.storage.store, &serve.store);
        config.redaction.secrets_file =
            serve.secrets_file.clone().or(config.redaction.secrets_file);
    }
    Ok(config)
}

/// Overrides a setting by a flag, if the flag is given.
fn override_by(value: &mut String, flag: &Option<String>) {
    if let Some(flag) = flag {
        value.clone_from(flag);
    }
}

impl Config {
    /// Returns the configuration for display: passwords in URLs are masked.
    #[must_use]
    pub fn without_passwords(mut self) -> Config {
        let urls = [
            &mut self.storage.database,
            &mut self.storage.worker_database,
            &mut self.model.base_url,
        ];
        for url in urls.into_iter().chain(self.embedder.urls()).flatten() {
            *url = without_password(url);
        }
        self
    }

    /// Returns the settings of proposals, once they are checked.
    pub fn proposals(&self) -> anyhow::Result<ProposalSettings> {
        let p = &self.proposals;
        let activation = ActivationMode::parse(&p.activation)
            .context("proposals.activation must be direct-rbac or approval-gate")?;
        anyhow::ensure!(
            (1..=QUORUM_MAX).contains(&p.quorum),
            "proposals.quorum must be from 1 to {QUORUM_MAX}"
        );
        anyhow::ensure!(
            (1..=8_760).contains(&p.gate_timeout_hours),
            "proposals.gate_timeout_hours must be from 1 to 8760"
        );
        let known = p
            .required_role
            .as_deref()
            .is_none_or(|role| permission::role_permissions(role).is_some());
        anyhow::ensure!(
            known,
            "proposals.required_role must be one of {}",
            ROLES.map(|(name, _)| name).join(", ")
        );
        let known = p
            .required_scope
            .as_deref()
            .is_none_or(|scope| scope.parse::<Permission>().is_ok());
        anyhow::ensure!(known, "proposals.required_scope is not a scope");
        anyhow::ensure!(
            Timing::parse(Some("P1D"), None, &p.zone).is_ok(),
            "proposals.zone is not a time zone"
        );
        Ok(ProposalSettings {
            activation,
            quorum: p.quorum,
            required_role: p.required_role.clone(),
            required_scope: p.required_scope.clone(),
            gate_timeout_ms: i64::from(p.gate_timeout_hours) * HOUR_MS,
            override_bypasses_quorum: p.override_bypasses_quorum,
            zone: p.zone.clone(),
        })
    }

    /// Returns the declared memory profiles, once they are checked.
    pub fn profiles(&self) -> anyhow::Result<Profiles> {
        profiles::profiles(&self.profiles)
    }

    /// The filter of the log. A word that is not a level would switch everything off: the library
    /// takes it for the name of a part.
    pub fn log_filter(&self) -> anyhow::Result<EnvFilter> {
        let level = &self.log.level;
        for part in level
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            if part.contains('=') || part.parse::<LevelFilter>().is_ok() {
                continue;
            }
            let near = hints::closest(part, LEVELS);
            let near = near
                .map(|near| format!("; did you mean {near}?"))
                .unwrap_or_default();
            anyhow::bail!(
                "log.level '{part}' is not a level; use {}, or a filter such as \
                 info,remem_engine=debug{near}",
                LEVELS.join(", ")
            );
        }
        EnvFilter::try_new(level).context("log.level is not a valid filter")
    }

    /// The policy these settings make.
    pub fn policy(&self) -> anyhow::Result<Policy> {
        let l = &self.limits;
        anyhow::ensure!(
            l.content_bytes_max >= 1 && l.batch_entries_max >= 1 && l.list_limit_max >= 1,
            "limits must be at least 1"
        );
        anyhow::ensure!(
            l.request_bytes_max >= l.content_bytes_max,
            "limits.request_bytes_max must be at least limits.content_bytes_max"
        );
        let shapes = self
            .redaction
            .shapes
            .parse()
            .map_err(|_| anyhow::anyhow!("redaction.shapes must be redact, flag or off"))?;
        anyhow::ensure!(
            self.storage.connections >= 1 && self.storage.deadline_ms >= 100,
            "storage.connections or storage.deadline_ms is too small"
        );
        anyhow::ensure!(
            self.storage.waiters_max >= 1 && l.request_ms_max >= 1 && l.write_ms_max >= 1,
            "storage.waiters_max, limits.request_ms_max and limits.write_ms_max must be at least 1"
        );
        Ok(Policy {
            content_bytes_max: l.content_bytes_max,
            tags_max: l.tags_max,
            metadata_bytes_max: l.metadata_bytes_max,
            batch_entries_max: l.batch_entries_max,
            request_bytes_max: l.request_bytes_max,
            request_ms_max: l.request_ms_max,
            write_ms_max: l.write_ms_max,
            page_bytes_max: l.page_bytes_max,
            list_limit_max: l.list_limit_max,
            search_limit_max: l.search_limit_max,
            feeds_max: l.feeds_max,
            idempotency_retention_ms: l.idempotency_retention_ms,
            at_least_wait_ms_max: l.at_least_wait_ms_max,
            webhooks_private: self.webhooks.allow_private,
            shapes,
            ..Policy::default()
        })
    }
}

/// Masks the password in a URL. A text that is not a URL is masked whole.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return "(not a URL)".to_owned();
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let Some((user, host)) = rest[..end].rsplit_once('@') else {
        return url.to_owned();
    };
    let shown = user
        .split_once(':')
        .map_or(user.to_owned(), |(name, _)| format!("{name}:***"));
    format!("{scheme}://{shown}@{host}{}", &rest[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_documented_with_its_default() {
        let documented = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/configuration.md"
        ))
        .unwrap();
        let config: toml::Table =
            toml::from_str(&toml::to_string(&Config::default()).unwrap()).unwrap();
        for (key, value) in leaves("", &config) {
            let row = format!("| `{key}` | `{value}` |");
            assert!(
                documented.contains(&row),
                "docs/configuration.md lacks: {row}"
            );
        }
    }

    /// Returns every setting by its full name, with its value; sections may be nested.
    fn leaves(prefix: &str, table: &toml::Table) -> Vec<(String, String)> {
        let settings = |(key, value): (&String, &toml::Value)| match value {
            toml::Value::Table(section) => leaves(&format!("{prefix}{key}."), section),
            toml::Value::String(text) => vec![(format!("{prefix}{key}"), text.clone())],
            other => vec![(format!("{prefix}{key}"), other.to_string())],
        };
        table.iter().flat_map(settings).collect()
    }

    #[test]
    fn passwords_in_urls_are_masked() {
        assert_eq!(
            without_password("postgres://u:p@h:1/d?x=y"),
            "postgres://u:***@h:1/d?x=y"
        );
        assert_eq!(
            without_password("postgres://u:a@b@h/d"),
            "postgres://u:***@h/d"
        );
        assert_eq!(without_password("postgres://h/d"), "postgres://h/d");
        assert_eq!(without_password("host=h password=p"), "(not a URL)");
    }

    #[test]
    fn invalid_proposal_settings_are_refused() {
        assert_eq!(
            Config::default().proposals().unwrap(),
            ProposalSettings::default()
        );
        let wrong: [fn(&mut ProposalsConfig); 8] = [
            |p| p.activation = "perhaps".to_owned(),
            |p| p.quorum = 0,
            |p| p.quorum = 11,
            |p| p.gate_timeout_hours = 0,
            |p| p.gate_timeout_hours = 9_000,
            |p| p.required_role = Some("emperor".to_owned()),
            |p| p.required_scope = Some("thrones:sit".to_owned()),
            |p| p.zone = "Mars/Olympus".to_owned(),
        ];
        for (n, change) in wrong.into_iter().enumerate() {
            let mut config = Config::default();
            change(&mut config.proposals);
            assert!(config.proposals().is_err(), "{n}");
        }
    }

    #[test]
    fn an_unknown_log_level_is_refused_with_a_suggestion() {
        let mut config = Config::default();
        for (level, near) in [
            ("loud", ""),
            ("inof", "did you mean info?"),
            ("warn,loud", ""),
        ] {
            config.log.level = level.to_owned();
            let error = config.log_filter().map(|_| ()).unwrap_err().to_string();
            assert!(
                error.contains("is not a level") && error.ends_with(near),
                "{error}"
            );
        }
        for level in [
            "info",
            "DEBUG",
            "off",
            "info,remem_engine=debug",
            "remem=trace, warn",
        ] {
            config.log.level = level.to_owned();
            assert!(config.log_filter().is_ok(), "{level}");
        }
    }

    #[test]
    fn config_errors_name_the_key_and_no_rust_type() {
        let fault = |text: &str| {
            let figment = Figment::from(Serialized::defaults(Config::default()));
            let figment = figment.merge(Toml::string(text));
            faults::text(figment.extract::<Config>().unwrap_err())
        };
        assert_eq!(
            fault("[server]\nlissten = 'x'"),
            "unknown key `lissten`; did you mean `listen`? in section [server]"
        );
        let many = fault("[limits]\ntags_max = 'many'");
        assert_eq!(
            many,
            "limits.tags_max must be a whole number of 0 or more, not text"
        );
        assert!(
            !fault("server = 7").contains("struct"),
            "{}",
            fault("server = 7")
        );
    }

    #[test]
    fn contradictory_limits_and_invalid_shapes_are_refused() {
        let mut config = Config::default();
        config.limits.request_bytes_max = 10;
        assert!(config.policy().is_err());
        config = Config::default();
        config.redaction.shapes = "sometimes".to_owned();
        assert!(config.policy().is_err());
        assert_eq!(Config::default().policy().unwrap(), Policy::default());
    }
}
