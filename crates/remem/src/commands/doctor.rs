//! `remem doctor`: checks whether this installation is sound. Each part is checked on its own, and
//! a bad one is reported with what to do about it.

use crate::cli::GlobalArgs;
use crate::config::{self, Config};
use crate::embedder;
use crate::host;
use crate::output;
use remem_core::TenantId;
use remem_core::capability::DIMENSIONS;
use remem_engine::Engine;
use remem_store_sql::SqliteStore;
use serde::Serialize;
use std::sync::Arc;

/// The result of one check.
#[derive(Serialize)]
struct Finding {
    check: String,
    ok: bool,
    detail: String,
}

fn finding(check: impl Into<String>, ok: bool, detail: impl Into<String>) -> Finding {
    Finding {
        check: check.into(),
        ok,
        detail: detail.into(),
    }
}

pub async fn run(global: &GlobalArgs) -> anyhow::Result<()> {
    let findings = examine(global).await;
    let bad = findings.iter().filter(|f| !f.ok).count();
    if global.json {
        output::json(&findings)?;
    } else {
        let rows = findings.iter().map(|f| {
            vec![
                if f.ok { "ok" } else { "BAD" }.to_owned(),
                f.check.clone(),
                f.detail.clone(),
            ]
        });
        output::table_of_details(&["", "CHECK", "DETAIL"], rows.collect(), "nothing to check");
    }
    let failed = output::count(bad as u64, "check", "checks");
    anyhow::ensure!(bad == 0, "{failed} failed");
    Ok(())
}

async fn examine(global: &GlobalArgs) -> Vec<Finding> {
    let mut findings = vec![finding(
        "version",
        true,
        format!(
            "remem {}, SQLite {}",
            env!("CARGO_PKG_VERSION"),
            SqliteStore::version()
        ),
    )];
    let config = match config::load(global, None) {
        Ok(config) => config,
        Err(error) => {
            findings.push(finding("configuration", false, format!("{error:#}")));
            return findings;
        }
    };
    match config.log_filter() {
        Ok(_) => findings.push(finding("configuration", true, "valid")),
        Err(error) => findings.push(finding("configuration", false, format!("{error:#}"))),
    }
    let dir = &config.storage.data_dir;
    if config.storage.database.is_none() && !dir.is_dir() {
        findings.push(finding(
            "data directory",
            true,
            format!(
                "{} does not exist yet; `remem serve` creates it",
                dir.display()
            ),
        ));
        return findings;
    }
    findings.extend(examine_embedders(&config).await);
    let check = if config.storage.database.is_some() {
        "database"
    } else {
        "data directory"
    };
    match host::open_host(&config, false).await {
        Ok(host) => {
            findings.push(finding(check, true, host.description));
            findings.extend(examine_engine(&host.engine).await);
        }
        Err(error) => findings.push(finding(check, false, format!("{error:#}"))),
    }
    findings
}

async fn examine_engine(engine: &Arc<Engine>) -> Vec<Finding> {
    let mut findings = vec![examine_host(engine).await];
    let checks = engine.verify_all().await;
    match checks {
        Ok(tenants) => {
            for (tenant, result) in tenants {
                let check = format!("tenant {tenant}");
                findings.push(match result {
                    Ok(count) => finding(
                        check,
                        true,
                        format!("{count} events and texts, and all rows, agree with their hashes"),
                    ),
                    Err(error) => finding(
                        check,
                        false,
                        format!("{error}; restore this tenant from a backup"),
                    ),
                });
            }
        }
        Err(error) => findings.push(finding("tenants", false, error.to_string())),
    }
    findings.push(examine_keys(engine).await);
    findings.push(examine_unhashed(engine).await);
    findings.push(examine_vault(engine).await);
    findings.push(examine_passes(engine).await);
    findings.push(examine_tokens(engine).await);
    let behind = engine.clock_behind_ms();
    findings.push(finding(
        "clock",
        behind < 1_000,
        format!("{behind} ms behind earlier commits"),
    ));
    let ahead: Vec<String> = engine
        .tenants_ahead()
        .into_iter()
        .map(|(tenant, ms)| format!("{tenant} by {} s", ms / 1_000))
        .collect();
    findings.push(finding(
        "tenants ahead",
        ahead.is_empty(),
        match ahead.as_slice() {
            [] => "no last commit is more than an hour ahead".to_owned(),
            ahead => format!("last commit ahead of the clock: {}", ahead.join(", ")),
        },
    ));
    let supported: Vec<&str> = DIMENSIONS
        .iter()
        .filter(|d| engine.capabilities().supports(d.name))
        .map(|d| d.name)
        .collect();
    findings.push(finding("capabilities", true, supported.join(", ")));
    findings
}

/// Verifies the hashes of tenants, keys and the other rows that belong to the host itself.
async fn examine_host(engine: &Arc<Engine>) -> Finding {
    match engine.verify_host().await {
        Ok(count) => finding(
            "tenants and keys",
            true,
            output::count(
                count,
                "row agrees with its hash",
                "rows agree with their hashes",
            ),
        ),
        Err(error) => finding(
            "tenants and keys",
            false,
            format!("{error}; restore the host from a backup"),
        ),
    }
}

/// Counts the rows that have no hash yet. They cannot be verified, but that is not damage.
async fn examine_unhashed(engine: &Arc<Engine>) -> Finding {
    match engine.count_unhashed_rows().await {
        Ok(0) => finding("row hashes", true, "every row has its hash"),
        Ok(count) => finding(
            "row hashes",
            true,
            format!(
                "{count} rows of an earlier version have none yet; a background pass adds them, on PostgreSQL `remem migrate`"
            ),
        ),
        Err(error) => finding("row hashes", false, error.to_string()),
    }
}

/// Makes every embedding model embed a test text.
async fn examine_embedders(config: &Config) -> Vec<Finding> {
    let models = match embedder::embedders(&config.embedder, &config.storage.data_dir) {
        Ok(models) => models,
        Err(error) => return vec![finding("embedder", false, format!("{error:#}"))],
    };
    if models.current.is_none() {
        return vec![finding(
            "embedder",
            true,
            "off: no embedding model is installed or configured",
        )];
    }
    let mut findings = Vec::new();
    for (check, model) in [
        ("embedder", models.current),
        ("previous embedder", models.previous),
    ] {
        let Some(model) = model else { continue };
        findings.push(
            match model.embed(&["The memory of an agent.".to_owned()]).await {
                Ok(_) => finding(
                    check,
                    true,
                    format!("{}, {} dimensions", model.name(), model.dimensions()),
                ),
                Err(error) => finding(
                    check,
                    false,
                    format!(
                        "{} makes no vectors: {}; docs/models.md says what that means",
                        model.name(),
                        error.as_str()
                    ),
                ),
            },
        );
    }
    findings
}

/// Names the keys without a trust ceiling, which may vouch for every source. This is not an error,
/// but an operator should know of them.
async fn examine_keys(engine: &Arc<Engine>) -> Finding {
    match engine.list_keys_without_trust().await {
        Err(error) => finding("keys", false, error.to_string()),
        Ok(keys) if keys.is_empty() => finding("keys", true, "every key has a highest trust"),
        Ok(keys) => {
            let names: Vec<String> = keys
                .iter()
                .map(|key| format!("{} of {}", key.id, key.tenant))
                .collect();
            finding(
                "keys",
                true,
                format!(
                    "without a highest trust (`remem key trust ID model` sets one): {}",
                    names.join(", ")
                ),
            )
        }
    }
}

async fn examine_tokens(engine: &Arc<Engine>) -> Finding {
    match engine.count_token_keys().await {
        None => finding("tokens", true, "off: auth.jwt is not set"),
        Some(Ok(0)) => finding(
            "tokens",
            false,
            "auth.jwt.jwks holds no key that can be used",
        ),
        Some(Ok(keys)) => finding("tokens", true, format!("{keys} keys of the issuer")),
        Some(Err(error)) => finding(
            "tokens",
            false,
            format!("auth.jwt.jwks cannot be used: {}", error.as_str()),
        ),
    }
}

async fn examine_vault(engine: &Arc<Engine>) -> Finding {
    match engine.list_locked_tenants().await {
        Ok(locked) if locked.is_empty() => finding(
            "vault",
            true,
            if engine.has_vault() {
                "every secret can be opened"
            } else {
                "off: no vault key is set"
            },
        ),
        Ok(locked) => {
            let names: Vec<&str> = locked.iter().map(TenantId::as_str).collect();
            finding(
                "vault",
                false,
                format!(
                    "secrets of {} cannot be opened; restore the vault key",
                    names.join(", ")
                ),
            )
        }
        Err(error) => finding("vault", false, error.to_string()),
    }
}

/// Tenants for which passes fail, each pass with its reason: `/ready` and `/metrics` only count
/// them.
async fn examine_passes(engine: &Arc<Engine>) -> Finding {
    let found = match engine.passes_that_fail().await {
        Ok(found) => found,
        Err(error) => return finding("passes", false, error.to_string()),
    };
    let reported = found
        .iter()
        .take(FAILING_SHOWN_MAX)
        .map(|(tenant, passes)| {
            let passes = passes
                .iter()
                .map(|(pass, error)| format!("{pass} ({error})"));
            format!("{tenant}: {}", passes.collect::<Vec<_>>().join(", "))
        });
    let count = found.len();
    let reported = reported.collect::<Vec<_>>();
    match reported.as_slice() {
        [] => finding("passes", true, "each can be done for every tenant"),
        reported => finding(
            "passes",
            false,
            format!("some fail for {count} tenants: {}", reported.join("; ")),
        ),
    }
}

/// Tenants whose failing passes are named.
const FAILING_SHOWN_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use remem_engine::{EngineParts, VaultKey};
    use remem_testkit::TestEnv;

    const DAY_S: i64 = 86_400;

    #[tokio::test]
    async fn a_tenant_whose_last_commit_is_in_the_future_is_reported() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let metrics = recorder.handle();
        let _recording = metrics::set_default_local_recorder(&recorder);
        let env = TestEnv::sqlite();
        let before = env.host_of("ahead").await;
        before.at(2 * DAY_S);
        before.put("m", "Written while the clock was wrong.").await;
        before.at(0);
        let host = env.host_of("ahead").await;
        host.put("m", "Written afterwards.").await;
        let findings = examine_engine(&host.engine).await;
        let named = |f: &&Finding| f.check == "tenants ahead";
        let ahead = findings.iter().find(named).unwrap();
        assert!(!ahead.ok);
        assert!(ahead.detail.contains("ahead by "), "{}", ahead.detail);
        let gauge = "\nremem_tenants_ahead 1\n";
        assert!(metrics.render().contains(gauge), "{}", metrics.render());
    }

    #[tokio::test]
    async fn tenants_with_failing_passes_are_named() {
        let env = TestEnv::sqlite();
        let host = env.host_of("broken").await;
        host.secret("one", "a-value-of-the-vault").await;
        env.host_of("sound").await;
        let passes = async |engine: Engine| {
            let findings = examine_engine(&Arc::new(engine)).await;
            let found = findings.into_iter().find(|f| f.check == "passes");
            found.unwrap()
        };
        let found = passes(Engine::new(env.parts())).await;
        assert!(found.ok, "{}", found.detail);
        let other = EngineParts {
            vault: Some(VaultKey::new([8; 32])),
            ..env.parts()
        };
        let found = passes(Engine::new(other)).await;
        assert!(!found.ok);
        let reported = "some fail for 1 tenants: broken: ";
        assert!(found.detail.starts_with(reported), "{}", found.detail);
        assert!(found.detail.contains("rescan ("), "{}", found.detail);
        assert!(!found.detail.contains("sound"), "{}", found.detail);
    }
}
