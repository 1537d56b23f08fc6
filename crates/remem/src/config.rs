//! Configuration: built-in values, then a TOML file, then `REMEM_<SECTION>__<KEY>` in the
//! environment, then flags. Unknown keys are refused, so that a typo is never silently ignored.

mod embedder;
mod profiles;

pub use embedder::Embedder;
pub use profiles::ProfileSettings;

use crate::cli::{Global, Serve};
use anyhow::Context;
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use remem_core::permission::{self, ROLES};
use remem_core::schedule::zone;
use remem_core::{Permission, Policy, Profiles, ShapePolicy, Timing, Trust};
use remem_engine::bearer::Algorithm;
use remem_engine::commitments::{Arm, CommitmentRules};
use remem_engine::proposals::{Activation, QUORUM_MAX, Settings};
use remem_store_sql::postgres::WAITERS_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

const HOUR_MS: i64 = 3_600_000;

/// Everything that can be set.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub server: Server,
    pub storage: Storage,
    pub redaction: Redaction,
    pub auth: Auth,
    pub agents: Agents,
    pub webhooks: Webhooks,
    pub proposals: Proposals,
    pub vault: Vault,
    pub model: Model,
    pub embedder: Embedder,
    pub commitments: Commitments,
    /// Profiles of memories, by name.
    pub profiles: BTreeMap<String, ProfileSettings>,
    pub limits: Limits,
    pub log: Log,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Address and port.
    pub listen: String,
    /// Names by which clients reach MCP. If empty, those of this machine on a loopback address, else
    /// any.
    pub hosts: Vec<String>,
    /// Show metrics without a key.
    pub metrics_public: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// `embedded` or `memory`.
    pub store: String,
    /// Folder of the embedded store.
    pub data_dir: PathBuf,
    /// Database URL; the embedded store if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// Connections that read one tenant's file at once.
    pub readers: usize,
    /// Connections to the database for requests.
    pub connections: usize,
    /// How long anybody waits for one of them, opening it included, in milliseconds; a request
    /// waits until its deadline if that comes first.
    pub wait_ms_max: u64,
    /// How many requests of one tenant wait for one of them at a time.
    pub waiters_max: usize,
    /// How long a database transaction may take, in milliseconds.
    pub deadline_ms: u64,
    /// Database URL for passes, if the worker's role has a login of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_database: Option<String>,
    /// File with the 32 bytes of the host's secret; in the database if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_key_file: Option<PathBuf>,
    /// How long copies of the storage are kept, in days; reports of what was forgotten tell until
    /// when they hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backups_kept_days: Option<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Redaction {
    /// What happens to text shaped like a secret in tenants created from now on: redact, flag or
    /// off.
    pub shapes: String,
    /// Registered secrets, one JSON object {"secretId", "secret", "tenant"?} a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets_file: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    pub jwt: Jwt,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Jwt {
    /// Who makes tokens; none are accepted if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// What this host is called in them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// File or URL of the issuer's public keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks: Option<String>,
    /// How tokens may be signed.
    pub algorithms: Vec<String>,
    /// How far the issuer's clock may be off.
    pub leeway_seconds: u32,
    /// The tenant of all tokens; each names its own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The claim with the tenant.
    pub tenant_claim: String,
    /// The claim with the scopes.
    pub scope_claim: String,
    /// The claim that says who it speaks for.
    pub principal_claim: String,
    /// The most that whoever comes with a token may vouch for.
    pub trust: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Agents {
    /// Folder of manifests that are installed for the whole host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Webhooks {
    /// Plain HTTP and private addresses are allowed: for tests and closed networks.
    pub allow_private: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Proposals {
    /// How a proposal comes to have an effect: `direct-rbac` or `approval-gate`.
    pub activation: String,
    /// Approvals that a gate needs.
    pub quorum: u32,
    /// A role that whoever decides must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_role: Option<String>,
    /// A scope that whoever decides must have beside proposals:apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_scope: Option<String>,
    /// How long a gate stays open, in hours.
    pub gate_timeout_hours: u32,
    /// Keys with proposals:override may go past the quorum.
    pub override_bypasses_quorum: bool,
    /// The time zone by whose clocks the host looks for routines.
    pub zone: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Vault {
    /// File with the key that seals secrets: 32 bytes, or 64 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// Where an OpenAI-compatible endpoint begins, such as `http://127.0.0.1:11434/v1`; no model if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// What the model is called there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The secret of a tenant's vault that is sent as key; none is sent if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_secret: Option<String>,
    /// How long a call may take, in milliseconds.
    pub timeout_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Commitments {
    /// What becomes of promises where a tenant has no rules of its own: `auto`, `confirm` or `off`.
    pub arm: String,
    /// By whose clocks times are meant there: the name of a time zone.
    pub zone: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
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
pub struct Log {
    /// `text` or `json`.
    pub format: String,
    /// error, warn, info, debug, trace, or a filter such as `info,remem_engine=debug`.
    pub level: String,
}

impl Default for Server {
    fn default() -> Server {
        Server {
            listen: "127.0.0.1:7077".to_owned(),
            hosts: Vec::new(),
            metrics_public: false,
        }
    }
}

impl Default for Storage {
    fn default() -> Storage {
        Storage {
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

impl Default for Redaction {
    fn default() -> Redaction {
        Redaction {
            shapes: ShapePolicy::default().to_string(),
            secrets_file: None,
        }
    }
}

impl Default for Jwt {
    fn default() -> Jwt {
        Jwt {
            issuer: None,
            audience: None,
            jwks: None,
            algorithms: Algorithm::USUAL
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

impl Default for Proposals {
    fn default() -> Proposals {
        let s = Settings::default();
        Proposals {
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

impl Default for Model {
    fn default() -> Model {
        Model {
            base_url: None,
            name: None,
            key_secret: None,
            timeout_ms: 30_000,
        }
    }
}

impl Default for Commitments {
    fn default() -> Commitments {
        let rules = CommitmentRules::default();
        Commitments {
            arm: rules.arm.as_str().to_owned(),
            zone: rules.zone,
        }
    }
}

impl Commitments {
    /// The rules these settings make.
    pub fn rules(&self) -> anyhow::Result<CommitmentRules> {
        let arm = Arm::ALL
            .into_iter()
            .find(|arm| arm.as_str() == self.arm)
            .context("commitments.arm must be auto, confirm or off")?;
        zone(&self.zone).map_err(|rejection| anyhow::anyhow!("commitments.{rejection}"))?;
        Ok(CommitmentRules {
            arm,
            zone: self.zone.clone(),
            ..CommitmentRules::default()
        })
    }
}

impl Default for Limits {
    fn default() -> Limits {
        let p = Policy::default();
        Limits {
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

impl Default for Log {
    fn default() -> Log {
        Log {
            format: "text".to_owned(),
            level: "info".to_owned(),
        }
    }
}

/// Variables with the prefix that are not configuration: flags read them, or `serve` does.
const NOT_CONFIG: [&str; 8] = [
    "bootstrap_key",
    "config",
    "data_dir",
    "database",
    "url",
    "key",
    "tenant",
    "vault_key",
];

/// The effective configuration.
pub fn load(global: &Global, serve: Option<&Serve>) -> anyhow::Result<Config> {
    let mut figment = Figment::from(Serialized::defaults(Config::default()));
    if let Some(file) = &global.config {
        anyhow::ensure!(
            file.is_file(),
            "the configuration file {} does not exist",
            file.display()
        );
        figment = figment.merge(Toml::file_exact(file));
    }
    let mut config: Config = figment
        .merge(Env::prefixed("REMEM_").ignore(&NOT_CONFIG).split("__"))
        .extract()
        .context("the configuration is not valid")?;
    if let Some(dir) = &global.data_dir {
        config.storage.data_dir.clone_from(dir);
    }
    config.storage.database = global.database.clone().or(config.storage.database);
    if let Some(serve) = serve {
        set(&mut config.server.listen, &serve.listen);
        set(&mut config.storage.store, &serve.store);
        config.redaction.secrets_file =
            serve.secrets_file.clone().or(config.redaction.secrets_file);
    }
    Ok(config)
}

fn set(value: &mut String, flag: &Option<String>) {
    if let Some(flag) = flag {
        value.clone_from(flag);
    }
}

impl Config {
    /// For showing: a URL keeps its user and place, not its password.
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

    /// How it is decided about proposals.
    pub fn proposals(&self) -> anyhow::Result<Settings> {
        let p = &self.proposals;
        let activation = Activation::parse(&p.activation)
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
            .is_none_or(|role| permission::role(role).is_some());
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
        Ok(Settings {
            activation,
            quorum: p.quorum,
            required_role: p.required_role.clone(),
            required_scope: p.required_scope.clone(),
            gate_timeout_ms: i64::from(p.gate_timeout_hours) * HOUR_MS,
            override_bypasses_quorum: p.override_bypasses_quorum,
            zone: p.zone.clone(),
        })
    }

    /// How the agents of which memories remember.
    pub fn profiles(&self) -> anyhow::Result<Profiles> {
        profiles::profiles(&self.profiles)
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

fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return "(not a URL)".to_owned();
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let Some((user, place)) = rest[..end].rsplit_once('@') else {
        return url.to_owned();
    };
    let shown = user
        .split_once(':')
        .map_or(user.to_owned(), |(name, _)| format!("{name}:***"));
    format!("{scheme}://{shown}@{place}{}", &rest[end..])
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

    /// Every setting with its whole name, however deep its section lies.
    fn leaves(place: &str, table: &toml::Table) -> Vec<(String, String)> {
        let of = |(key, value): (&String, &toml::Value)| match value {
            toml::Value::Table(section) => leaves(&format!("{place}{key}."), section),
            toml::Value::String(text) => vec![(format!("{place}{key}"), text.clone())],
            other => vec![(format!("{place}{key}"), other.to_string())],
        };
        table.iter().flat_map(of).collect()
    }

    #[test]
    fn a_shown_url_has_no_password() {
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
    fn a_host_that_could_decide_nothing_does_not_start() {
        assert_eq!(Config::default().proposals().unwrap(), Settings::default());
        let wrong: [fn(&mut Proposals); 8] = [
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
    fn limits_that_contradict_each_other_are_refused() {
        let mut config = Config::default();
        config.limits.request_bytes_max = 10;
        assert!(config.policy().is_err());
        config = Config::default();
        config.redaction.shapes = "sometimes".to_owned();
        assert!(config.policy().is_err());
        assert_eq!(Config::default().policy().unwrap(), Policy::default());
    }
}
