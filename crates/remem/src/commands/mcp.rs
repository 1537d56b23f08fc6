//! `remem mcp`: MCP over stdio. Standard output belongs to the protocol; everything else goes to
//! standard error.
//!
//! On a store of its own it also runs the passes, because reminders would never fire there without
//! them. Leases ensure that several processes on one folder, a server among them, do not run the
//! same pass twice.

use super::remote_api;
use crate::cli::{GlobalArgs, McpArgs};
use crate::{config, host};
use remem_core::{Trust, sabotage};
use remem_engine::runner;
use remem_server::{LocalApi, MemoryApi};
use std::sync::Arc;
use tokio::sync::watch;

pub async fn run(global: &GlobalArgs, mcp: &McpArgs) -> anyhow::Result<()> {
    let config = config::load(global, None)?;
    if global.url.is_some() {
        return serve_stdio(remote_api(global, &config).await?).await;
    }
    let most = Trust::from(mcp.trust);
    let api = host::local_api(&config, global.local_tenant()).await?;
    let api = LocalApi {
        caller: api.caller.with_trust_max(most),
        ..api
    };
    let (stop, stopping) = watch::channel(false);
    let passes = sabotage!(
        "mcp-on-a-folder-runs-no-passes",
        runner::start(&api.engine, &stopping),
        Vec::new()
    );
    let result = serve_stdio(Arc::new(api)).await;
    stop.send_replace(true);
    for pass in passes {
        let _ = pass.await;
    }
    result
}

/// Serves MCP until the client ends the session.
async fn serve_stdio(api: Arc<dyn MemoryApi>) -> anyhow::Result<()> {
    remem_server::mcp::stdio(api)
        .await
        .map_err(|error| anyhow::anyhow!("the MCP session failed: {error}"))
}
