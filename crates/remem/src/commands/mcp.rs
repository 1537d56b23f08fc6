//! `remem mcp`: MCP over stdio. Standard output belongs to the protocol; everything else goes to
//! standard error.
//!
//! On a store of its own it also runs the passes, or reminders would never fire there. Leases see to
//! it that several processes on one folder, a server among them, do not do the same twice.

use super::remote;
use crate::cli::{Global, Mcp};
use crate::{config, host};
use remem_core::{Trust, sabotage};
use remem_engine::runner;
use remem_server::{Door, EngineDoor};
use std::sync::Arc;
use tokio::sync::watch;

pub async fn run(global: &Global, mcp: &Mcp) -> anyhow::Result<()> {
    let config = config::load(global, None)?;
    if global.url.is_some() {
        return converse(remote(global, &config).await?).await;
    }
    let most = Trust::from(mcp.trust);
    let door = host::local_door(&config, global.local_tenant()).await?;
    let door = EngineDoor {
        caller: door.caller.capped(most),
        ..door
    };
    let (stop, stopping) = watch::channel(false);
    let passes = sabotage!(
        "mcp-on-a-folder-runs-no-passes",
        runner::start(&door.engine, &stopping),
        Vec::new()
    );
    let ended = converse(Arc::new(door)).await;
    stop.send_replace(true);
    for pass in passes {
        let _ = pass.await;
    }
    ended
}

async fn converse(door: Arc<dyn Door>) -> anyhow::Result<()> {
    remem_server::mcp::stdio(door)
        .await
        .map_err(|error| anyhow::anyhow!("the MCP session failed: {error}"))
}
