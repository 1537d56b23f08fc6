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

use crate::cli::{self, Cli, Command, Config as ConfigCommand, Global};
use crate::config::{self, Config};
use crate::host;
use crate::http_door::HttpDoor;
use crate::output;
use remem_core::sabotage;
use remem_server::Door;
use std::io::Write;
use std::sync::Arc;

/// Runs the command of a parsed command line.
pub async fn run(cli: Cli) -> anyhow::Result<()> {
    let global = &cli.global;
    match &cli.command {
        Command::Serve(serve) => {
            serve::run(&config::load(global, Some(serve))?, serve.enable_test_seams).await
        }
        Command::Migrate => migrate::run(global).await,
        Command::Mcp(mcp) => mcp::run(global, mcp).await,
        Command::Put(put) => entries::put(global, put).await,
        Command::Get(target) => entries::get(global, target).await,
        Command::List(list) => entries::list(global, list).await,
        Command::Search(search) => recall::search(global, search).await,
        Command::Recall(recall) => recall::recall(global, recall).await,
        Command::Delete(target) => entries::delete(global, target).await,
        Command::Forget(forget) => forget::run(global, forget).await,
        Command::Erasure(erasure) => forget::erasure(global, erasure).await,
        Command::Lineage(target) => lineage::run(global, target).await,
        Command::Archive(archive) => lineage::archive(global, archive).await,
        Command::Commitment(commitment) => commitments::run(global, commitment).await,
        Command::Heartbeat(heartbeat) => heartbeats::run(global, heartbeat).await,
        Command::History(question) => workshop::history(global, question).await,
        Command::Retract(question) => workshop::retract(global, question).await,
        Command::Session(session) => workshop::session(global, session).await,
        Command::Link(link) => workshop::link(global, link).await,
        Command::Audit(target) => workshop::audit(global, target).await,
        Command::Retention(retention) => workshop::retention(global, retention).await,
        Command::Rule(rule) => rules::run(global, rule).await,
        Command::Profile(profile) => workshop::profile(global, profile).await,
        Command::Stats { memory_ref } => entries::stats(global, memory_ref).await,
        Command::Memories => entries::memories(global).await,
        Command::Events(events) => events::run(global, events).await,
        Command::Whoami => whoami::run(global).await,
        Command::Key(key) => keys::run(global, key).await,
        Command::Secret(secret) => secrets::run(global, secret).await,
        Command::Tenant(tenant) => tenants::run(global, tenant).await,
        Command::Pass(pass) => passes::run(global, pass).await,
        Command::Agent(agent) => agents::run(global, agent).await,
        Command::Proposal(proposal) => proposals::run(global, proposal).await,
        Command::Automation(automation) => automations::run(global, automation).await,
        Command::Model(model) => models::run(global, model).await,
        Command::Import(import) => import::run(global, import).await,
        Command::Export(export) => export::run(global, export).await,
        Command::Copy(copy) => copy::run(global, copy).await,
        Command::Vacuum => passes::vacuum(global).await,
        Command::Redact(redact) => redact::run(redact),
        Command::Doctor => doctor::run(global).await,
        Command::Config(ConfigCommand::Print) => print_config(global),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut cli::command(), "remem", &mut script);
            Ok(std::io::stdout().write_all(&script)?)
        }
        Command::Man(man) => {
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

fn print_config(global: &Global) -> anyhow::Result<()> {
    let config = config::load(global, None)?.without_passwords();
    if global.json {
        return output::json(&config);
    }
    print!("{}", toml::to_string(&config)?);
    Ok(())
}

/// Opens the memory API for everyday commands: a server's, unless `--local` is given.
async fn door(global: &Global) -> anyhow::Result<Arc<dyn Door>> {
    let config = config::load(global, None)?;
    if global.local {
        return Ok(Arc::new(
            host::local_door(&config, global.local_tenant()).await?,
        ));
    }
    remote(global, &config).await
}

/// Opens the memory API for commands that administer the host or provide memory to another program:
/// that of an engine on the configured store, unless a URL is given.
async fn own_door(global: &Global) -> anyhow::Result<Arc<dyn Door>> {
    let config = config::load(global, None)?;
    match &global.url {
        Some(_) => remote(global, &config).await,
        None => Ok(Arc::new(
            host::local_door(&config, global.local_tenant()).await?,
        )),
    }
}

/// Opens the memory API of a server, and fails if its key is not of the tenant that was named: the
/// key alone decides which tenant a server acts in.
async fn remote(global: &Global, config: &Config) -> anyhow::Result<Arc<dyn Door>> {
    let api = any_remote(global, config)?;
    if let Some(named) = &global.tenant {
        let actual = api.whoami().await?.tenant;
        if sabotage!("a-wrong-tenant-is-passed-over", actual != *named, false) {
            return Err(output::WrongTenant.into());
        }
    }
    Ok(api)
}

/// Opens the memory API of a server, whatever the tenant of its key is.
fn any_remote(global: &Global, config: &Config) -> anyhow::Result<Arc<dyn Door>> {
    let url = global
        .url
        .clone()
        .unwrap_or_else(|| format!("http://{}", config.server.listen));
    let file = config.storage.data_dir.join(host::BOOTSTRAP_FILE);
    let key = match &global.key {
        Some(key) => key.clone(),
        None => match std::fs::read_to_string(&file) {
            Ok(text) => text.trim().to_owned(),
            Err(_) => return Err(output::NoKey(file).into()),
        },
    };
    Ok(Arc::new(HttpDoor::new(&url, key)?))
}
