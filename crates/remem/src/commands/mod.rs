//! The commands, one file each. A command opens a memory API (a server's, or that of an engine in
//! this process), calls it and prints the answer.

mod agents;
mod automations;
mod commitments;
mod copy;
mod doctor;
mod entries;
mod events;
mod export;
mod forget;
mod heartbeats;
mod import;
mod keys;
mod lineage;
mod mcp;
mod migrate;
mod models;
mod passes;
mod proposals;
mod recall;
mod redact;
mod rules;
mod secrets;
mod serve;
mod tenants;
mod whoami;
mod workshop;

use crate::cli::{self, ConfigCommand, GlobalArgs, RememCli, RememCommand};
use crate::config::{self, Config};
use crate::host;
use crate::http_api::HttpApi;
use crate::output;
use remem_core::sabotage;
use remem_server::MemoryApi;
use std::io::Write;
use std::sync::Arc;

/// Runs the command of a parsed command line.
pub async fn run(cli: RememCli) -> anyhow::Result<()> {
    let global = &cli.global;
    match &cli.command {
        RememCommand::Serve(serve) => {
            serve::run(&config::load(global, Some(serve))?, serve.enable_test_seams).await
        }
        RememCommand::Migrate => migrate::run(global).await,
        RememCommand::Mcp(mcp) => mcp::run(global, mcp).await,
        RememCommand::Put(put) => entries::put(global, put).await,
        RememCommand::Get(target) => entries::get(global, target).await,
        RememCommand::List(list) => entries::list(global, list).await,
        RememCommand::Search(search) => recall::search(global, search).await,
        RememCommand::Recall(recall) => recall::recall(global, recall).await,
        RememCommand::Delete(target) => entries::delete(global, target).await,
        RememCommand::Forget(forget) => forget::run(global, forget).await,
        RememCommand::Erasure(erasure) => forget::erasure(global, erasure).await,
        RememCommand::Lineage(target) => lineage::run(global, target).await,
        RememCommand::Archive(archive) => lineage::archive(global, archive).await,
        RememCommand::Commitment(commitment) => commitments::run(global, commitment).await,
        RememCommand::Heartbeat(heartbeat) => heartbeats::run(global, heartbeat).await,
        RememCommand::History(question) => workshop::history(global, question).await,
        RememCommand::Retract(question) => workshop::retract(global, question).await,
        RememCommand::Session(session) => workshop::session(global, session).await,
        RememCommand::Link(link) => workshop::link(global, link).await,
        RememCommand::Audit(target) => workshop::audit(global, target).await,
        RememCommand::Retention(retention) => workshop::retention(global, retention).await,
        RememCommand::Rule(rule) => rules::run(global, rule).await,
        RememCommand::Profile(profile) => workshop::profile(global, profile).await,
        RememCommand::Stats { memory_ref } => entries::stats(global, memory_ref).await,
        RememCommand::Memories => entries::memories(global).await,
        RememCommand::Events(events) => events::run(global, events).await,
        RememCommand::Whoami => whoami::run(global).await,
        RememCommand::Key(key) => keys::run(global, key).await,
        RememCommand::Secret(secret) => secrets::run(global, secret).await,
        RememCommand::Tenant(tenant) => tenants::run(global, tenant).await,
        RememCommand::Pass(pass) => passes::run(global, pass).await,
        RememCommand::Agent(agent) => agents::run(global, agent).await,
        RememCommand::Proposal(proposal) => proposals::run(global, proposal).await,
        RememCommand::Automation(automation) => automations::run(global, automation).await,
        RememCommand::Model(model) => models::run(global, model).await,
        RememCommand::Import(import) => import::run(global, import).await,
        RememCommand::Export(export) => export::run(global, export).await,
        RememCommand::Copy(copy) => copy::run(global, copy).await,
        RememCommand::Vacuum => passes::vacuum(global).await,
        RememCommand::Redact(redact) => redact::run(redact),
        RememCommand::Doctor => doctor::run(global).await,
        RememCommand::Config(ConfigCommand::Print) => print_config(global),
        RememCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut cli::command(), "remem", &mut script);
            Ok(std::io::stdout().write_all(&script)?)
        }
        RememCommand::Man(man) => {
            if let Some(folder) = &man.dir {
                return cli::write_pages(folder);
            }
            let page = match man.format {
                cli::Format::Roff => cli::roff(&man.command)?,
                cli::Format::Markdown => cli::markdown().into_bytes(),
            };
            Ok(std::io::stdout().write_all(&page)?)
        }
    }
}

fn print_config(global: &GlobalArgs) -> anyhow::Result<()> {
    let config = config::load(global, None)?.without_passwords();
    if global.json {
        return output::json(&config);
    }
    print!("{}", toml::to_string(&config)?);
    Ok(())
}

/// Opens the memory API for everyday commands: a server's, unless `--local` is given.
async fn api(global: &GlobalArgs) -> anyhow::Result<Arc<dyn MemoryApi>> {
    let config = config::load(global, None)?;
    if global.local {
        return Ok(Arc::new(
            host::local_api(&config, global.local_tenant()).await?,
        ));
    }
    remote_api(global, &config).await
}

/// Opens the memory API for commands that administer the host or provide memory to another program:
/// that of an engine on the configured store, unless a URL is given.
async fn admin_api(global: &GlobalArgs) -> anyhow::Result<Arc<dyn MemoryApi>> {
    let config = config::load(global, None)?;
    match &global.url {
        Some(_) => remote_api(global, &config).await,
        None => Ok(Arc::new(
            host::local_api(&config, global.local_tenant()).await?,
        )),
    }
}

/// Opens the memory API of a server, and fails if its key is not of the tenant that was named: the
/// key alone decides which tenant a server acts in.
async fn remote_api(global: &GlobalArgs, config: &Config) -> anyhow::Result<Arc<dyn MemoryApi>> {
    let api = remote_api_of_any_tenant(global, config)?;
    if let Some(named) = &global.tenant {
        let actual = api.whoami().await?.tenant;
        if sabotage!("a-wrong-tenant-is-passed-over", actual != *named, false) {
            return Err(output::TenantMismatch.into());
        }
    }
    Ok(api)
}

/// Opens the memory API of a server, for any tenant of its key.
fn remote_api_of_any_tenant(
    global: &GlobalArgs,
    config: &Config,
) -> anyhow::Result<Arc<dyn MemoryApi>> {
    let url = global
        .url
        .clone()
        .unwrap_or_else(|| format!("http://{}", config.server.listen));
    let file = config.storage.data_dir.join(host::BOOTSTRAP_FILE);
    let key = match &global.key {
        Some(key) => key.clone(),
        None => match std::fs::read_to_string(&file) {
            Ok(text) => text.trim().to_owned(),
            Err(_) => return Err(output::MissingKey(file).into()),
        },
    };
    Ok(Arc::new(HttpApi::new(&url, key)?))
}
