//! `remem whoami`: prints the identity and rights that the key or token in use proved to the
//! server.

use super::api;
use super::keys::trust_cell;
use crate::cli::GlobalArgs;
use crate::output::{self, escape_controls};

pub async fn run(global: &GlobalArgs) -> anyhow::Result<()> {
    let proven = api(global).await?.whoami().await?;
    if global.json {
        return output::json(&proven);
    }
    println!("tenant     {}", escape_controls(&proven.tenant));
    println!("principal  {}", escape_controls(&proven.principal));
    println!("scopes     {}", escape_controls(&proven.scopes.join(", ")));
    println!(
        "trust      {}",
        trust_cell(proven.trust, proven.trust_unset)
    );
    println!(
        "key        {}",
        escape_controls(proven.key_id.as_deref().unwrap_or("-"))
    );
    let ends = proven.expires_at.map(|end| end.to_string());
    println!("ends       {}", ends.as_deref().unwrap_or("-"));
    Ok(())
}
