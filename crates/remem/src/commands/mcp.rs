//! `remem mcp`: MCP over stdio. Standard output belongs to the protocol; everything else goes to
//! standard error.

use super::own_door;
use crate::cli::Global;

pub async fn run(global: &Global) -> anyhow::Result<()> {
    let door = own_door(global).await?;
    remem_server::mcp::stdio(door)
        .await
        .map_err(|error| anyhow::anyhow!("the MCP session ended badly: {error}"))
}
