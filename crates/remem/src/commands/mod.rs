//! Commands: one file each. A command opens a door, calls it, prints.

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

/// Runs a command.
pub async fn run(cli: Cli) -> anyhow::Result<()> {
    let global = &cli.global;
    match &cli.command {
        Command::Serve(serve) => {
            serve::run(&config::load(global, Some(serve))?, serve.enable_test_seams).await
        }
        Command::Migrate => migrate::run(global).await,
        Command::Mcp(mcp) => mcp::run(global, mcp).await,
        Command::Put(put) => entries::put(global, put).await,
        Command::Get(one) => entries::get(global, one).await,
        Command::List(list) => entries::list(global, list).await,
        Command::Search(search) => recall::search(global, search).await,
        Command::Recall(wanted) => recall::recall(global, wanted).await,
        Command::Delete(one) => entries::delete(global, one).await,
        Command::Forget(forget) => forget::run(global, forget).await,
        Command::Erasure(erasure) => forget::erasure(global, erasure).await,
        Command::Lineage(one) => lineage::run(global, one).await,
        Command::Archive(archive) => lineage::archive(global, archive).await,
        Command::Commitment(commitment) => commitments::run(global, commitment).await,
        Command::Heartbeat(heartbeat) => heartbeats::run(global, heartbeat).await,
        Command::History(question) => workshop::history(global, question).await,
        Command::Retract(question) => workshop::retract(global, question).await,
        Command::Session(session) => workshop::session(global, session).await,
        Command::Link(link) => workshop::link(global, link).await,
        Command::Audit(one) => workshop::audit(global, one).await,
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

/// The door for everyday commands: a server, unless --local says otherwise.
async fn door(global: &Global) -> anyhow::Result<Arc<dyn Door>> {
    let config = config::load(global, None)?;
    if global.local {
        return Ok(Arc::new(
            host::local_door(&config, global.local_tenant()).await?,
        ));
    }
    remote(global, &config).await
}

/// The door for commands that administer the host or carry memory into another program: the
/// embedded store, unless a URL is given.
async fn own_door(global: &Global) -> anyhow::Result<Arc<dyn Door>> {
    let config = config::load(global, None)?;
    match &global.url {
        Some(_) => remote(global, &config).await,
        None => Ok(Arc::new(
            host::local_door(&config, global.local_tenant()).await?,
        )),
    }
}

/// The door to a server, once it is known to be of the tenant that was named: the key decides which
/// tenant a server acts in.
async fn remote(global: &Global, config: &Config) -> anyhow::Result<Arc<dyn Door>> {
    let door = any_remote(global, config)?;
    if let Some(named) = &global.tenant {
        let is = door.whoami().await?.tenant;
        if sabotage!("a-wrong-tenant-is-passed-over", is != *named, false) {
            return Err(output::WrongTenant.into());
        }
    }
    Ok(door)
}

/// The door to a server, whatever its key's tenant is.
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
