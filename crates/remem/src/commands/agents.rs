//! `remem agent`: installs, lists, shows and removes agents.

use super::api;
use crate::cli::{AgentCommand, GlobalArgs};
use crate::hints;
use crate::output;
use anyhow::Context;
use remem_wire::agent::{AgentInstall, AgentInventoryEntry};
use std::path::Path;

pub async fn run(global: &GlobalArgs, command: &AgentCommand) -> anyhow::Result<()> {
    match command {
        AgentCommand::Install { file } => install(global, file).await,
        AgentCommand::List => {
            let list = api(global).await?.agents().await?;
            if global.json {
                return output::json(&list);
            }
            let rows = list.agents.iter().map(|a| {
                vec![
                    a.agent_id.clone(),
                    output::preview(&a.label, 40),
                    a.model_class.clone(),
                    pack(a),
                    output::preview(&missing_features(a), 60),
                ]
            });
            output::table(
                &["AGENT", "LABEL", "MODEL CLASS", "PACK", "MISSING"],
                rows.collect(),
                "no agents",
            );
            Ok(())
        }
        AgentCommand::Show { id } => {
            let agent = api(global).await?.agent(id).await?;
            if global.json {
                return output::json(&agent);
            }
            show(&agent);
            Ok(())
        }
        AgentCommand::Remove { id } => {
            api(global).await?.remove_agent(id).await?;
            if global.json {
                return output::json(&serde_json::json!({"removed": id}));
            }
            println!("removed");
            Ok(())
        }
    }
}

async fn install(global: &GlobalArgs, file: &Path) -> anyhow::Result<()> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let request = AgentInstall::from_file(hints::without_bom(&text)).map_err(|e| {
        anyhow::anyhow!("{} is not a manifest: {}", file.display(), hints::json(&e))
    })?;
    let installed = api(global).await?.install_agent(request).await?;
    if global.json {
        return output::json(&installed.entry);
    }
    let what = if installed.replaced {
        "replaced"
    } else {
        "installed"
    };
    println!("{what} {}", installed.entry.agent_id);
    let without = missing_features(&installed.entry);
    if !without.is_empty() {
        eprintln!(
            "not available on this host: {}",
            output::escape_controls(&without)
        );
    }
    Ok(())
}

fn show(agent: &AgentInventoryEntry) {
    let memory = agent.memory_shape.unwrap_or_default();
    let dimensions = [
        ("scratchpad", memory.scratchpad),
        ("conversation", memory.conversation),
        ("long-term", memory.long_term),
    ];
    let dimensions: Vec<&str> = dimensions
        .into_iter()
        .filter(|(_, on)| *on)
        .map(|(name, _)| name)
        .collect();
    let rows = [
        ("agent", agent.agent_id.clone()),
        ("persona", agent.persona.clone()),
        ("label", agent.label.clone()),
        ("description", agent.description.clone().unwrap_or_default()),
        ("model class", agent.model_class.clone()),
        ("pack", pack(agent)),
        ("tools", agent.tool_allowlist.join(", ")),
        ("memory", dimensions.join(", ")),
        (
            "threshold",
            agent
                .confidence_threshold
                .map(|t| t.to_string())
                .unwrap_or_default(),
        ),
        ("missing", missing_features(agent)),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        println!("{name:<12}{}", output::preview(value, 600));
    }
}

fn pack(agent: &AgentInventoryEntry) -> String {
    output::preview(&format!("{} {}", agent.pack_name, agent.pack_version), 60)
}

/// Returns the tools and kinds of memory that the agent asks for and this host does not provide.
fn missing_features(agent: &AgentInventoryEntry) -> String {
    agent
        .degraded
        .iter()
        .chain(&agent.degraded_memory_dimensions)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ")
}
