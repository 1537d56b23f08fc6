//! `remem migrate`: prepares a PostgreSQL database, or brings its schema up to date. It prints the
//! URL that `serve` should use.

use crate::cli::GlobalArgs;
use crate::{config, host, output};
use anyhow::Context;
use remem_store_sql::postgres::{
    BackfillProgress, MigrationReport, PostgresTarget, backfill_hashes, migrate,
};
use serde_json::json;

pub async fn run(global: &GlobalArgs) -> anyhow::Result<()> {
    let config = config::load(global, None)?;
    let url = config.storage.database.ok_or_else(|| {
        let text = "no database; pass --database postgres://USER:PASSWORD@HOST/NAME";
        output::UsageError(text.to_owned())
    })?;
    let target = PostgresTarget::parse(&url)?;
    let password: String = host::random_bytes()?
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let done = migrate(&target, &password)
        .await
        .context("cannot prepare the database")?;
    let filled = backfill_hashes(&target, &mut report_progress)
        .await
        .context("the schema is up to date, but rows have no hashes yet: run this again")?;
    let serve_url = as_user(&url, &done.roles.app, done.app_created.then_some(&password));
    if global.json {
        return output::json(&json!({
            "url": serve_url,
            "role": done.roles.app,
            "roleCreated": done.app_created,
            "workerRole": done.roles.worker,
            "ownerRole": done.roles.owner,
            "applied": done.applied,
            "hashesMade": filled,
        }));
    }
    print_summary(&done);
    if filled > 0 {
        eprintln!("hashes made for {filled} rows of an earlier version");
    }
    println!("{serve_url}");
    Ok(())
}

/// Reports the progress of hashing rows of an earlier version, page by page. A table without such
/// rows is not mentioned.
fn report_progress(filling: &BackfillProgress) {
    if filling.rows > 0 {
        eprintln!("hashes: {} rows, at {}", filling.rows, filling.table);
    }
}

fn print_summary(done: &MigrationReport) {
    match done.applied[..] {
        [] => eprintln!("the schema is up to date"),
        _ => eprintln!("applied: {}", done.applied.join(", ")),
    }
    if done.app_created {
        eprintln!(
            "role {} created. Its password is shown this once; start the host with",
            done.roles.app
        );
    } else {
        eprintln!(
            "role {} exists and keeps its password (add it to the URL); start the host with",
            done.roles.app
        );
    }
    eprintln!("  remem serve --database URL      where URL is:");
}

/// Returns the URL of the same database for another user.
fn as_user(url: &str, user: &str, password: Option<&String>) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
    let hosts_end = rest.find(['/', '?']).unwrap_or(rest.len());
    let hosts = rest[..hosts_end]
        .rsplit_once('@')
        .map_or(&rest[..hosts_end], |(_, hosts)| hosts);
    let user = percent_encoding::utf8_percent_encode(user, percent_encoding::NON_ALPHANUMERIC)
        .to_string()
        .replace("%5F", "_");
    let password = password.map(|p| format!(":{p}")).unwrap_or_default();
    format!("{scheme}://{user}{password}@{hosts}{}", &rest[hosts_end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_credentials_of_the_url_are_replaced() {
        let secret = "s3".to_owned();
        for (url, expected) in [
            (
                "postgres://admin:pw@h:5432/db",
                "postgres://db_app:s3@h:5432/db",
            ),
            (
                "postgres://h/db?sslmode=require",
                "postgres://db_app:s3@h/db?sslmode=require",
            ),
            (
                "postgresql://a:p%40w@h1,h2/db",
                "postgresql://db_app:s3@h1,h2/db",
            ),
            (
                "postgres://a@%2Ftmp%2Fsocket/db",
                "postgres://db_app:s3@%2Ftmp%2Fsocket/db",
            ),
        ] {
            assert_eq!(as_user(url, "db_app", Some(&secret)), expected);
        }
        assert_eq!(
            as_user("postgres://a:b@h/db", "db_app", None),
            "postgres://db_app@h/db"
        );
    }
}
