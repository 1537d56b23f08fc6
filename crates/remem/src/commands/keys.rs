//! `remem key`: creates, lists, lowers and revokes API keys. It opens the store itself, or a server
//! with --url.

use super::entries::instant;
use super::own_door;
use crate::cli::{Global, Key};
use crate::output;
use crate::{config, host};
use remem_core::permission::{self, ROLES};
use remem_core::{ShapePolicy, TenantId, Trust};
use remem_wire::admin::{KeyChange, KeyCreate, KeyList, TenantQuery};
use remem_wire::time::Instant;
use remem_wire::workshop::SourceName;

pub async fn run(global: &Global, command: &Key) -> anyhow::Result<()> {
    // The request itself names the tenant, and a server refuses a tenant that the key may not
    // administer, so the check of the key's own tenant is skipped below.
    let tenant = match (&global.url, command) {
        (Some(_), Key::List | Key::Trust { .. } | Key::Revoke { .. }) => global.tenant.clone(),
        _ => Some(global.local_tenant().to_owned()),
    };
    let unchecked = Global {
        tenant: global.tenant.clone().filter(|_| global.url.is_none()),
        ..global.clone()
    };
    match command {
        Key::Create {
            scopes,
            role,
            label,
            expires_at,
            principal,
            trust,
        } => {
            let scopes = role
                .as_deref()
                .map(scopes_of)
                .transpose()?
                .unwrap_or_else(|| scopes.clone());
            create_tenant(global).await?;
            let expires_at = expires_at
                .as_deref()
                .map(|t| instant(t, "--expires-at"))
                .transpose()?;
            let scopes: Vec<String> = scopes
                .iter()
                .map(|s| s.trim().to_owned())
                .filter(|s| !s.is_empty())
                .collect();
            let request = KeyCreate {
                tenant,
                label: label.clone(),
                scopes,
                expires_at,
                principal: principal.clone(),
                trust: trust.as_deref().map(source).transpose()?,
            };
            let created = own_door(&unchecked).await?.create_key(request).await?;
            if global.json {
                return output::json(&created);
            }
            println!("{}", created.key);
            let info = created.info;
            let principal = if info.principal == info.id {
                String::new()
            } else {
                format!(", for {}", info.principal)
            };
            eprintln!(
                "{} of tenant {}{principal}: {}; vouches for {} at the most. The key is shown this once.",
                info.id,
                info.tenant,
                info.scopes.join(", "),
                info.trust.as_str()
            );
        }
        Key::List => {
            let list = own_door(&unchecked)
                .await?
                .keys(TenantQuery { tenant })
                .await?;
            if global.json {
                return output::json(&list);
            }
            show(&list);
        }
        Key::Trust { id, trust } => {
            let change = KeyChange {
                trust: source(trust)?,
            };
            let changed = own_door(&unchecked)
                .await?
                .change_key(TenantQuery { tenant }, id, change)
                .await?;
            if global.json {
                return output::json(&changed);
            }
            println!("vouches for {} at the most", changed.trust.as_str());
        }
        Key::Revoke { id } => {
            own_door(&unchecked)
                .await?
                .revoke_key(TenantQuery { tenant }, id)
                .await?;
            if global.json {
                return output::json(&serde_json::json!({"revoked": id}));
            }
            println!("revoked");
        }
    }
    Ok(())
}

fn show(list: &KeyList) {
    let time = |t: Option<Instant>| t.map_or_else(|| "-".to_owned(), |t| t.to_string());
    let rows = list.keys.iter().map(|k| {
        let created = k.created_at.to_string();
        let expires = time(k.expires_at);
        let revoked = time(k.revoked_at);
        vec![
            k.id.clone(),
            k.principal.clone(),
            k.label.clone(),
            k.scopes.join(","),
            trust_of(k.trust, k.trust_unset),
            created,
            expires,
            revoked,
        ]
    });
    output::table(
        &[
            "ID",
            "PRINCIPAL",
            "LABEL",
            "SCOPES",
            "TRUST",
            "CREATED",
            "EXPIRES",
            "REVOKED",
        ],
        rows.collect(),
        "no keys",
    );
    if list.keys.iter().any(|key| key.trust_unset) {
        eprintln!(
            "Keys marked (unset) may vouch for everything, since nobody said what they may; `remem key trust ID model` lowers one."
        );
    }
}

/// Renders the highest trust that a key may vouch for.
pub fn trust_of(trust: SourceName, unset: bool) -> String {
    let mark = if unset { " (unset)" } else { "" };
    format!("{}{mark}", trust.as_str())
}

/// Returns the error for a word that is not the name of a trust.
pub fn unknown_trust() -> anyhow::Error {
    anyhow::anyhow!(
        "a trust is one of {}",
        Trust::ALL.map(Trust::as_str).join(", ")
    )
}

fn source(name: &str) -> anyhow::Result<SourceName> {
    let trust: Trust = name.parse().map_err(|_| unknown_trust())?;
    Ok(trust.into())
}

/// Returns the scopes of a role.
fn scopes_of(role: &str) -> anyhow::Result<Vec<String>> {
    let names = ROLES.map(|(name, _)| name).join(", ");
    let permissions = permission::role(role)
        .ok_or_else(|| anyhow::anyhow!("there is no such role; known are {names}"))?;
    Ok(permissions
        .iter()
        .map(|permission| permission.as_str().to_owned())
        .collect())
}

/// Creates the tenant of a new key if the store is opened directly and the tenant does not exist. A
/// server creates it itself, if the caller may.
async fn create_tenant(global: &Global) -> anyhow::Result<()> {
    if global.url.is_some() {
        return Ok(());
    }
    let Some(tenant) = TenantId::parse(global.local_tenant()) else {
        return Ok(());
    };
    let engine = host::engine(&config::load(global, None)?).await?;
    if engine.local_caller(&tenant).await.is_err() {
        engine
            .ensure_tenant(tenant.clone(), ShapePolicy::default())
            .await?;
        eprintln!("tenant {tenant} created");
    }
    Ok(())
}
