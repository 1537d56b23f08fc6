//! `remem secret`: sets, rotates, lists and deletes secrets of the vault. A value is never an
//! argument (other users of a machine can see those) and is never printed.

use super::api;
use crate::cli::{GlobalArgs, SecretCommand, SecretValueArgs};
use crate::output;
use anyhow::Context;
use remem_wire::secrets::{SecretInfo, SecretPut, SecretScopeQuery, SecretsQuery};
use remem_wire::time::Instant;
use serde_json::json;
use std::io::Read;
use zeroize::Zeroizing;

pub async fn run(global: &GlobalArgs, command: &SecretCommand) -> anyhow::Result<()> {
    match command {
        SecretCommand::Set(secret) => {
            let put = read_value(secret)?;
            print_result(
                global,
                &api(global).await?.set_secret(&secret.name, put).await?,
                "set",
            )
        }
        SecretCommand::Rotate(secret) => {
            let put = read_value(secret)?;
            print_result(
                global,
                &api(global).await?.rotate_secret(&secret.name, put).await?,
                "rotated",
            )
        }
        SecretCommand::List { owner } => list(global, owner.clone()).await,
        SecretCommand::Delete { name, scope, owner } => {
            let query = SecretScopeQuery {
                scope: Some(scope.clone()),
                owner: owner.clone(),
            };
            api(global).await?.delete_secret(name, query).await?;
            if global.json {
                return output::json(&json!({"deleted": name}));
            }
            println!("deleted");
            Ok(())
        }
    }
}

fn print_result(global: &GlobalArgs, info: &SecretInfo, done: &str) -> anyhow::Result<()> {
    if global.json {
        return output::json(info);
    }
    println!(
        "{} ({}) {done}, version {}",
        info.name, info.scope, info.versions
    );
    Ok(())
}

async fn list(global: &GlobalArgs, owner: Option<String>) -> anyhow::Result<()> {
    let api = api(global).await?;
    let mut query = SecretsQuery {
        limit: Some(0),
        after: None,
        owner,
    };
    let mut rows = Vec::new();
    loop {
        let page = api.secrets(query.clone()).await?;
        for secret in page.secrets {
            if global.json {
                output::json(&secret)?;
            } else {
                let rotated = secret
                    .rotated_at
                    .map_or_else(|| "-".to_owned(), |t: Instant| t.to_string());
                rows.push(vec![
                    secret.name,
                    secret.scope,
                    secret.versions.to_string(),
                    secret.created_at.to_string(),
                    rotated,
                ]);
            }
        }
        query.after = page.next_after;
        if query.after.is_none() {
            break;
        }
    }
    if !global.json {
        output::table(
            &["NAME", "SCOPE", "VERSIONS", "CREATED", "ROTATED"],
            rows,
            "no secrets",
        );
    }
    Ok(())
}

/// Reads the value of a secret from its file or from standard input.
fn read_value(secret: &SecretValueArgs) -> anyhow::Result<SecretPut> {
    let mut bytes = Zeroizing::new(Vec::new());
    match &secret.file {
        Some(file) => {
            let mut file = std::fs::File::open(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            file.read_to_end(&mut bytes)
                .context("the file cannot be read")?;
        }
        None => {
            std::io::stdin()
                .read_to_end(&mut bytes)
                .context("standard input cannot be read")?;
        }
    }
    let text =
        std::str::from_utf8(&bytes).map_err(|_| anyhow::anyhow!("the value is not UTF-8 text"))?;
    let value = text
        .strip_suffix('\n')
        .map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
    Ok(SecretPut {
        value: Zeroizing::new(value.to_owned()),
        scope: Some(secret.scope.clone()),
    })
}
