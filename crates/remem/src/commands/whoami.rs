//! `remem whoami`: prints the identity and rights that the key or token in use proved to the
//! server.

use super::door;
use super::keys::trust_of;
use crate::cli::Global;
use crate::output::{self, visible};

pub async fn run(global: &Global) -> anyhow::Result<()> {
    let proven = door(global).await?.whoami().await?;
    if global.json {
        return output::json(&proven);
    }
    println!("tenant     {}", visible(&proven.tenant));
    println!("principal  {}", visible(&proven.principal));
    println!("scopes     {}", visible(&proven.scopes.join(", ")));
    println!("trust      {}", trust_of(proven.trust, proven.trust_unset));
    println!(
        "key        {}",
        visible(proven.key_id.as_deref().unwrap_or("-"))
    );
    let ends = proven.expires_at.map(|end| end.to_string());
    println!("ends       {}", ends.as_deref().unwrap_or("-"));
    Ok(())
}
