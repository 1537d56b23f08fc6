//! `remem serve`: the host. Starts with no configuration at all, and says what to try first.

use crate::config::Config;
use crate::host::{self, BOOTSTRAP_FILE, DEFAULT_TENANT};
use crate::jwt;
use anyhow::Context;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use remem_core::{Permission, TenantId, sabotage};
use remem_engine::keys::KeyRequest;
use remem_engine::ports::{Ids, RandomIds};
use remem_engine::{Engine, runner};
use remem_server::{App, serve};
use remem_store_sql::private;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// Environment variable with the first key of the default tenant.
const BOOTSTRAP_KEY: &str = "REMEM_BOOTSTRAP_KEY";

pub async fn run(config: &Config, seams: bool) -> anyhow::Result<()> {
    log_to_stderr(config)?;
    raise_open_files();
    let host = host::open(config, seams).await?;
    let engine = host.engine;
    jwt::check(&config.auth.jwt, &engine).await?;
    let key = bootstrap(config, &engine).await?;
    let listen = &config.server.listen;
    let listener = TcpListener::bind(listen).await.with_context(|| {
        format!("cannot listen on {listen}; choose another address with --listen")
    })?;
    let (stop, stopping) = watch::channel(false);
    let passes = runner::start(&engine, &stopping);
    let mut app = App::new(
        engine.clone(),
        Some(metrics()?),
        config.server.metrics_public,
        stopping.clone(),
    );
    app.mcp_hosts = mcp_hosts(&config.server.hosts, listener.local_addr()?);
    // Before the greeting: whoever reads it may ask the host to stop at once.
    let asked_to_stop = stop_signal()?;
    if seams {
        tracing::warn!(
            "test seams are on: this host is for conformance checks, not for anybody's memory"
        );
    }
    greet(config, listener.local_addr()?, &key, &host.place);
    let serving = serve::serve(listener, app, stopping);
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        name = asked_to_stop => {
            tracing::info!(signal = name, "stopping: requests in flight are finished first");
            stop.send_replace(true);
            serving.await;
        }
    }
    for pass in passes {
        let _ = pass.await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// The names by which MCP is reached. A web page can have its own name resolved to the loopback and
/// then call what listens there, so on a loopback address other names are refused unless configured.
fn mcp_hosts(configured: &[String], address: SocketAddr) -> Vec<String> {
    if configured.is_empty() && !address.ip().is_loopback() {
        return Vec::new();
    }
    let local = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let own = Some(address.ip().to_string()).filter(|_| address.ip().is_loopback());
    configured.iter().cloned().chain(local).chain(own).collect()
}

/// Lets this process open as many files as it may: every connection and every tenant's database is
/// some, and many systems start a process with a limit far below the one that it may set itself.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Without it the host serves fewer connections at once, and says so when it runs out.
    sabotage!(
        "open-files-stay-few",
        if setrlimit(Resource::Nofile, raised).is_err() {
            tracing::warn!("the limit on open files cannot be raised");
        }
    );
}

/// Listens from now on; tells which signal came.
fn stop_signal() -> std::io::Result<impl Future<Output = &'static str>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

/// Where a person finds the first key.
enum FirstKey {
    Given,
    Written,
    Earlier,
}

/// Sees to it that the default tenant exists and that somebody can come in.
async fn bootstrap(config: &Config, engine: &Arc<Engine>) -> anyhow::Result<FirstKey> {
    let tenant = TenantId::parse(DEFAULT_TENANT).context("the default tenant's name is valid")?;
    if engine.local_caller(&tenant).await.is_err() {
        engine
            .ensure_tenant(tenant.clone(), engine.policy().shapes)
            .await?;
    }
    let request = KeyRequest {
        tenant,
        label: "bootstrap".to_owned(),
        permissions: Permission::ALL.to_vec(),
        expires_at: None,
        principal: None,
        trust: None,
    };
    if let Ok(key) = std::env::var(BOOTSTRAP_KEY) {
        let key = zeroize::Zeroizing::new(key);
        anyhow::ensure!(!key.trim().is_empty(), "{BOOTSTRAP_KEY} is set but empty");
        if key.len() < 16 {
            tracing::warn!(
                "{BOOTSTRAP_KEY} is shorter than 16 characters: choose a longer one before others can reach this host"
            );
        }
        engine.add_key(key.trim(), request).await?;
        return Ok(FirstKey::Given);
    }
    let caller = engine.local_caller(&request.tenant).await?;
    let somebody = engine
        .keys(&caller, &request.tenant)
        .await?
        .iter()
        .any(|key| key.revoked_at.is_none());
    if somebody || config.storage.database.is_none() && config.storage.store != "embedded" {
        return Ok(FirstKey::Earlier);
    }
    private::folder(&config.storage.data_dir).with_context(|| {
        format!(
            "cannot use the data directory {} for the first key",
            config.storage.data_dir.display()
        )
    })?;
    let key = RandomIds.api_key();
    let path = config.storage.data_dir.join(BOOTSTRAP_FILE);
    write_key(&path, &key)
        .with_context(|| format!("cannot write the first key to {}", path.display()))?;
    engine.add_key(&key, request).await?;
    Ok(FirstKey::Written)
}

/// Replaces a file that an earlier installation may have left.
fn write_key(path: &Path, key: &str) -> std::io::Result<()> {
    if path.exists() {
        std::fs::remove_file(path)?;
    }
    let mut file = private::new_file(path)?;
    writeln!(file, "{key}")?;
    file.sync_all()
}

fn greet(config: &Config, address: SocketAddr, key: &FirstKey, place: &str) {
    let url = format!("http://{address}");
    let dir = config.storage.data_dir.display();
    println!(
        "Remembrancer {} is ready at {url}",
        env!("CARGO_PKG_VERSION")
    );
    println!("  data  {place}");
    let bearer = match key {
        FirstKey::Given => {
            println!(
                "  key   the one in {BOOTSTRAP_KEY}, for tenant {DEFAULT_TENANT}, every scope"
            );
            format!("${BOOTSTRAP_KEY}")
        }
        FirstKey::Written => {
            println!(
                "  key   {dir}/{BOOTSTRAP_FILE} (written just now, for tenant {DEFAULT_TENANT}, every scope)"
            );
            format!("$(cat {dir}/{BOOTSTRAP_FILE})")
        }
        FirstKey::Earlier if config.storage.data_dir.join(BOOTSTRAP_FILE).exists() => {
            println!("  key   {dir}/{BOOTSTRAP_FILE} (from an earlier start)");
            format!("$(cat {dir}/{BOOTSTRAP_FILE})")
        }
        FirstKey::Earlier => {
            let place = config.storage.database.as_ref().map_or_else(
                || format!("--data-dir {dir}"),
                |_| "--database URL".to_owned(),
            );
            println!("  key   one of yours; make another with `remem key create {place}`");
            "$REMEM_KEY".to_owned()
        }
    };
    let memory = format!("{url}/v1/host/remembrancer/memory/agent-1");
    println!("Three things to try:");
    println!(
        "  curl -s {memory}/entries -H \"Authorization: Bearer {bearer}\" -d '{{\"content\":\"Ana prefers tea\"}}'"
    );
    println!(
        "  curl -s {memory}/search  -H \"Authorization: Bearer {bearer}\" -d '{{\"query\":\"what does Ana drink: tea?\"}}'"
    );
    println!("  remem --data-dir {dir} --url {url} events tail");
    let _ = std::io::stdout().flush();
}

/// Only what our own crates say is shown: libraries log what they carry, and rmcp writes whole
/// requests and answers.
fn log_to_stderr(config: &Config) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.log.level).context("log.level is not valid")?;
    let ours = filter_fn(|metadata| metadata.target().starts_with("remem"));
    let log = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match config.log.format.as_str() {
        "text" => log.with(layer.with_filter(ours)).init(),
        "json" => log.with(layer.json().with_filter(ours)).init(),
        _ => anyhow::bail!("log.format must be text or json"),
    }
    Ok(())
}

fn metrics() -> anyhow::Result<PrometheusHandle> {
    let seconds = [
        0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
        2.5, 5.0,
    ];
    let batches = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &seconds)?
        .set_buckets_for_metric(
            Matcher::Full("remem_commit_group_batches".to_owned()),
            &batches,
        )?;
    Ok(builder.install_recorder()?)
}
