//! `remem key`: creates, lists, lowers and revokes API keys. It opens the store itself, or a server
//! with --url.

use super::admin_api;
use crate::cli::{GlobalArgs, KeyCommand, KeyCreate};
use crate::output::{self, UsageError};
use crate::{config, host};
use remem_core::{Permission, ShapePolicy, TenantId, permission, sabotage};
use remem_engine::ports::{Clock, SystemClock};
use remem_wire::admin::{KeyChange, KeyInfo, KeyList, TenantQuery};
use remem_wire::time::Instant;
use remem_wire::workshop::SourceName;

pub async fn run(global: &GlobalArgs, command: &KeyCommand) -> anyhow::Result<()> {
    // The request itself names the tenant, and a server refuses a tenant that the key may not
    // administer, so the check of the key's own tenant is skipped below.
    let tenant = match (&global.url, command) {
        (Some(_), KeyCommand::List | KeyCommand::Trust { .. } | KeyCommand::Revoke { .. }) => {
            global.tenant.clone()
        }
        _ => Some(global.local_tenant().to_owned()),
    };
    let unchecked = GlobalArgs {
        tenant: global.tenant.clone().filter(|_| global.url.is_none()),
        ..global.clone()
    };
    match command {
        KeyCommand::Create(wanted) => create(global, &unchecked, tenant, wanted).await?,
        KeyCommand::List => {
            let list = admin_api(&unchecked)
                .await?
                .keys(TenantQuery { tenant })
                .await?;
            if global.json {
                return output::json(&list);
            }
            show(&list);
        }
        KeyCommand::Trust { id, trust } => {
            let change = KeyChange { trust: *trust };
            let changed = admin_api(&unchecked)
                .await?
                .change_key(TenantQuery { tenant }, id, change)
                .await?;
            if global.json {
                return output::json(&changed);
            }
            println!("{id} may claim {} at most", changed.trust.as_str());
        }
        KeyCommand::Revoke { id, yes } => {
            let api = admin_api(&unchecked).await?;
            let query = TenantQuery { tenant };
            let is_last = is_last_manager(&api.keys(query.clone()).await?, id);
            if sabotage!(
                "the-last-manager-is-revoked-unasked",
                is_last && !yes,
                false
            ) {
                return Err(UsageError(format!(
                    "{id} is the last key of its tenant that can manage keys; pass --yes to revoke it. \
                     `remem key create` on the host itself makes another"
                ))
                .into());
            }
            api.revoke_key(query, id).await?;
            if global.json {
                return output::json(&serde_json::json!({"revoked": id}));
            }
            println!("revoked {id}");
        }
    }
    Ok(())
}

async fn create(
    global: &GlobalArgs,
    unchecked: &GlobalArgs,
    tenant: Option<String>,
    wanted: &KeyCreate,
) -> anyhow::Result<()> {
    create_tenant(global).await?;
    let request = remem_wire::admin::KeyCreate {
        tenant,
        label: wanted.label.clone(),
        scopes: wanted
            .role
            .as_deref()
            .map_or_else(|| wanted.scopes.clone(), scopes_of),
        expires_at: wanted.expires_at,
        principal: wanted.principal.clone(),
        trust: wanted.trust,
    };
    let created = admin_api(unchecked).await?.create_key(request).await?;
    if global.json {
        return output::json(&created);
    }
    println!("{}", created.key);
    let info = created.info;
    let whose = if info.principal == info.id {
        String::new()
    } else {
        format!(" for {}", info.principal)
    };
    eprintln!(
        "{} of tenant {}{whose}: {}; may claim {} at most. The key is shown only once.",
        info.id,
        info.tenant,
        info.scopes.join(", "),
        info.trust.as_str()
    );
    Ok(())
}

/// Whether this is the last key that can manage the tenant's keys.
fn is_last_manager(list: &KeyList, id: &str) -> bool {
    let now = SystemClock.now();
    let lives =
        |key: &&KeyInfo| key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end.0 > now);
    let manages = |key: &&KeyInfo| {
        let scope = Permission::KeysManage.as_str();
        key.scopes.iter().any(|one| one == scope)
    };
    let mut managers = list.keys.iter().filter(lives).filter(manages);
    managers.next().is_some_and(|key| key.id == id) && managers.next().is_none()
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
            trust_cell(k.trust, k.trust_unset),
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
            "Keys marked (unset) have no highest trust and may claim every one; `remem key trust ID model` lowers it."
        );
    }
}

/// Renders the highest trust that a key may vouch for.
pub fn trust_cell(trust: SourceName, unset: bool) -> String {
    let mark = if unset { " (unset)" } else { "" };
    format!("{}{mark}", trust.as_str())
}

/// The scopes of a role; none for one that is not known, which the command line refuses.
fn scopes_of(role: &str) -> Vec<String> {
    let permissions = permission::role_permissions(role).unwrap_or_default();
    permissions
        .iter()
        .map(|permission| permission.as_str().to_owned())
        .collect()
}

/// Creates the tenant of a new key if the store is opened directly and the tenant does not exist. A
/// server creates it itself, if the caller may.
async fn create_tenant(global: &GlobalArgs) -> anyhow::Result<()> {
    if global.url.is_some() {
        return Ok(());
    }
    let Some(tenant) = TenantId::parse(global.local_tenant()) else {
        return Ok(());
    };
    let engine = host::open_engine(&config::load(global, None)?).await?;
    if engine.local_caller(&tenant).await.is_err() {
        engine
            .ensure_tenant(tenant.clone(), ShapePolicy::default())
            .await?;
        eprintln!("tenant {tenant} created");
    }
    Ok(())
}
