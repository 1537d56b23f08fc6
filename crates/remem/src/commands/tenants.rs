//! `remem tenant`: creates and lists tenants. It opens the store itself, or a server with --url.

use super::admin_api;
use crate::cli::{GlobalArgs, TenantCommand};
use crate::output;
use remem_wire::admin::TenantPut;

pub async fn run(global: &GlobalArgs, command: &TenantCommand) -> anyhow::Result<()> {
    // If the store is opened directly, the default tenant administers the others, so a tenant that
    // is named is dropped here.
    let api = admin_api(&GlobalArgs {
        tenant: global.tenant.clone().filter(|_| global.url.is_some()),
        ..global.clone()
    })
    .await?;
    match command {
        TenantCommand::Create { id, shapes } => {
            let tenant = api
                .put_tenant(TenantPut {
                    id: id.clone(),
                    shapes: Some(shapes.clone()),
                })
                .await?;
            if global.json {
                return output::json(&tenant);
            }
            println!("tenant {} (secret shapes: {})", tenant.id, tenant.shapes);
        }
        TenantCommand::List => {
            let list = api.tenants().await?;
            if global.json {
                return output::json(&list);
            }
            let rows = list
                .tenants
                .into_iter()
                .map(|t| vec![t.id, t.created_at.to_string(), t.shapes])
                .collect();
            output::table(&["TENANT", "CREATED", "SECRET SHAPES"], rows, "no tenants");
        }
    }
    Ok(())
}
