//! `remem serve`: runs the host. It needs no configuration, and prints what to try first.

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
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Environment variable with the first key of the default tenant.
const BOOTSTRAP_KEY_VARIABLE: &str = "REMEM_BOOTSTRAP_KEY";

pub async fn run(config: &Config, seams: bool) -> anyhow::Result<()> {
    log_to_stderr(config)?;
    raise_open_files();
    // Before anything is opened: a start that cannot bind its address leaves no data folder.
    let listen = &config.server.listen;
    let listener = TcpListener::bind(listen).await.with_context(|| {
        format!("cannot listen on {listen}; choose another address with --listen")
    })?;
    let host = host::open_host(config, seams).await?;
    let engine = host.engine;
    jwt::check_keys(&config.auth.jwt, &engine).await?;
    let key = ensure_first_key(config, &engine).await?;
    let (stop, stopping) = watch::channel(false);
    let passes = runner::start(&engine, &stopping);
    let mut app = App::new(
        engine.clone(),
        Some(metrics()?),
        config.server.metrics_public,
        stopping.clone(),
    );
    app.mcp_hosts = mcp_hosts(&config.server.hosts, listener.local_addr()?);
    // Installed before the greeting is printed: its reader may send a signal at once.
    let stop_requested = stop_signal()?;
    if seams {
        tracing::warn!("test endpoints are enabled: use this host for conformance checks only");
    }
    print_greeting(config, listener.local_addr()?, &key, &host.description);
    let serving = serve::serve(listener, app, stopping);
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        name = stop_requested => {
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

/// Raises the limit on open files to its maximum: every connection and every tenant's database
/// takes some, and many systems start a process with a limit far below the one that it may set
/// itself.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // If this fails, the host serves fewer connections at once, and logs when it runs out.
    sabotage!(
        "open-files-stay-few",
        if setrlimit(Resource::Nofile, raised).is_err() {
            tracing::warn!("the limit on open files cannot be raised");
        }
    );
}

/// Installs the signal handlers at once; the future returns the name of the signal that arrives.
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

/// The place of a key with every scope.
enum FirstKey {
    /// The environment variable holds it.
    Given,
    /// The file was written by this start.
    Written,
    /// The file was written by an earlier start.
    InFile,
    /// Nowhere that this program knows of.
    Unknown,
}

/// Creates the default tenant, and a first key if the tenant has none that is valid.
async fn ensure_first_key(config: &Config, engine: &Arc<Engine>) -> anyhow::Result<FirstKey> {
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
    if let Ok(key) = std::env::var(BOOTSTRAP_KEY_VARIABLE) {
        let key = zeroize::Zeroizing::new(key);
        anyhow::ensure!(
            !key.trim().is_empty(),
            "{BOOTSTRAP_KEY_VARIABLE} is set but empty"
        );
        if key.len() < 16 {
            tracing::warn!(
                "{BOOTSTRAP_KEY_VARIABLE} is shorter than 16 characters: choose a longer one before others can reach this host"
            );
        }
        engine.add_key(key.trim(), request).await?;
        return Ok(FirstKey::Given);
    }
    let caller = engine.local_caller(&request.tenant).await?;
    let has_key = engine
        .list_keys(&caller, &request.tenant)
        .await?
        .iter()
        .any(|key| key.revoked_at.is_none());
    if has_key || config.storage.database.is_none() && config.storage.store != "embedded" {
        return Ok(earlier(config, engine).await);
    }
    private::create_folder(&config.storage.data_dir).with_context(|| {
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

/// Writes a key into a file for its owner alone; a file of an earlier installation is replaced.
fn write_key(path: &Path, key: &str) -> std::io::Result<()> {
    if path.exists() {
        std::fs::remove_file(path)?;
    }
    let mut file = private::new_file(path)?;
    writeln!(file, "{key}")?;
    file.sync_all()
}

/// Whether the key that an earlier start wrote still works; a revoked one is not shown.
async fn earlier(config: &Config, engine: &Engine) -> FirstKey {
    let file = config.storage.data_dir.join(BOOTSTRAP_FILE);
    let Ok(text) = std::fs::read_to_string(file) else {
        return FirstKey::Unknown;
    };
    let key = zeroize::Zeroizing::new(text);
    let is_good = engine.authenticate(key.trim()).await.is_ok();
    if sabotage!("the-greeting-offers-a-revoked-key", is_good, true) {
        FirstKey::InFile
    } else {
        FirstKey::Unknown
    }
}

/// Says where the host is and what to try. Its reader may close the pipe at any line.
fn print_greeting(config: &Config, address: SocketAddr, key: &FirstKey, place: &str) {
    let mut output = std::io::stdout().lock();
    // The host runs even if the greeting cannot be written.
    let _ = output.write_all(greeting(config, address, key, place).as_bytes());
    let _ = output.flush();
}

fn greeting(config: &Config, address: SocketAddr, key: &FirstKey, place: &str) -> String {
    let url = format!("http://{address}");
    let dir = config.storage.data_dir.display();
    let file = format!("{dir}/{BOOTSTRAP_FILE}");
    let (reported, bearer) = match key {
        FirstKey::Given => (
            format!("from {BOOTSTRAP_KEY_VARIABLE}: tenant {DEFAULT_TENANT}, every scope"),
            format!("${BOOTSTRAP_KEY_VARIABLE}"),
        ),
        FirstKey::Written => (
            format!("written to {file}: tenant {DEFAULT_TENANT}, every scope"),
            format!("$(cat {file})"),
        ),
        FirstKey::InFile => (format!("in {file}"), format!("$(cat {file})")),
        FirstKey::Unknown => {
            let store = config.storage.database.as_ref().map_or_else(
                || format!("--data-dir {dir}"),
                |_| "--database URL".to_owned(),
            );
            (
                format!("use one of yours, or create one with `remem key create {store}`"),
                "$REMEM_KEY".to_owned(),
            )
        }
    };
    let memory = format!("{url}/v1/host/remembrancer/memory/agent-1");
    let curl = |path: &str, body: &str| {
        format!("curl -s {memory}/{path} -H \"Authorization: Bearer {bearer}\" -d '{body}'")
    };
    let put = curl(
        "entries",
        "{\"content\": \"Ana prefers tea, never coffee\"}",
    );
    let search = curl("search", "{\"query\": \"what does Ana prefer?\"}");
    format!(
        "Remembrancer {} is ready at {url}\n  data  {place}\n  key   {reported}\nTry:\n  {put}\n  {search}\n  \
         remem --data-dir {dir} --url {url} events tail\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Starts the log on standard error. Only lines of this host's own crates are shown: libraries log
/// content, and rmcp logs whole requests and answers.
fn log_to_stderr(config: &Config) -> anyhow::Result<()> {
    let filter = config.log_filter()?;
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

/// Installs the metrics recorder, with buckets for times and for the sizes of group commits.
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
