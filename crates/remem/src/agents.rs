//! Agents for the whole host: reads the folder of manifests at start. An invalid manifest stops the
//! start, with the name of its file and the reason.

use anyhow::{Context, ensure};
use remem_core::Policy;
use remem_core::agent::{Agent, Prompt};
use remem_wire::agent::AgentInstall;
use std::fs;
use std::path::{Component, Path};

/// Reads the agents of every `*.json` file in the folder, in the order of file names.
pub fn read_folder(folder: &Path, policy: &Policy) -> anyhow::Result<Vec<Agent>> {
    let place = || format!("cannot read the folder of agents {}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(place)? {
        let path = entry.with_context(place)?.path();
        if path.is_file()
            && path
                .extension()
                .is_some_and(|extension| extension == "json")
        {
            files.push(path);
        }
    }
    files.sort();
    let mut agents: Vec<Agent> = Vec::new();
    for file in &files {
        let agent = read_agent(folder, file, policy).with_context(|| file_context(file))?;
        ensure!(
            agents.iter().all(|other| other.id() != agent.id()),
            "{}: another file has the same agentId",
            file_context(file)
        );
        agents.push(agent);
    }
    // Agents may name peers in any order of files, so peers are checked once all files are read.
    for (file, agent) in files.iter().zip(&agents) {
        agent
            .check_peers(&agents)
            .with_context(|| file_context(file))?;
    }
    Ok(agents)
}

fn file_context(file: &Path) -> String {
    format!("the agent in {} cannot be installed", file.display())
}

/// Reads one manifest, and the file with its prompt if it names one.
fn read_agent(folder: &Path, file: &Path, policy: &Policy) -> anyhow::Result<Agent> {
    let text = read_bounded(file, policy)?;
    let install = AgentInstall::from_file(&text)
        .map_err(|error| anyhow::anyhow!("invalid manifest: {}", crate::hints::json(&error)))?;
    let agent = Agent::new(install.into(), policy)?;
    let Prompt::File(name) = agent.prompt() else {
        return Ok(agent);
    };
    let inside = Path::new(name)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    ensure!(
        inside,
        "systemPromptRef must be the path of a file beside the manifest"
    );
    let prompt = read_bounded(&folder.join(name), policy)
        .context("systemPromptRef must be the path of a file beside the manifest")?;
    let prompt = String::from_utf8(prompt)
        .ok()
        .context("the file that systemPromptRef names is not UTF-8")?;
    ensure!(
        !prompt.is_empty(),
        "the file that systemPromptRef names is empty"
    );
    Ok(agent.with_prompt(&prompt))
}

/// Reads a file, and fails if it is larger than an agent may be.
fn read_bounded(file: &Path, policy: &Policy) -> anyhow::Result<Vec<u8>> {
    let limit = policy.agent_bytes_max;
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    ensure!(
        text.len() <= limit,
        "{} is larger than {limit} bytes",
        file.display()
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"agentId": "core.host.greeter", "persona": "Greeter", "modelClass": "general", "systemPromptRef": "prompts/a.md"}"#;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("prompts")).unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn manifests_are_read_with_the_files_they_name() {
        let peer = r#"{"manifest": {"agentId": "core.host.first", "persona": "F", "modelClass": "general", "systemPrompt": "x"},
            "peerDependencies": {"local": {}, "extra": {"optional": true}}}"#;
        let folder = folder(&[
            ("b.json", GOOD),
            ("a.json", peer),
            ("note.txt", "not an agent"),
            ("prompts/a.md", "Say hello."),
        ]);
        let agents = read_folder(folder.path(), &Policy::default()).unwrap();
        assert_eq!(
            agents.iter().map(Agent::id).collect::<Vec<_>>(),
            ["core.host.first", "core.host.greeter"]
        );
        assert!(agents[1].prompt() == Prompt::Text("Say hello."));
    }

    #[test]
    fn an_invalid_manifest_is_refused_with_its_file_and_reason() {
        let climbing = GOOD.replace("prompts/a.md", "../a.md");
        let class = GOOD.replace("general", "canary");
        let peer = format!(r#"{{"manifest": {GOOD}, "peerDependencies": {{"canary": {{}}}}}}"#);
        let rows = [
            (vec![("x.json", GOOD)], "systemPromptRef"),
            (vec![("x.json", climbing.as_str())], "systemPromptRef"),
            (vec![("x.json", class.as_str())], "modelClass must be"),
            (vec![("x.json", "{canary")], "not JSON"),
            (vec![("x.json", "[]")], "invalid manifest"),
            (
                vec![("prompts/a.md", "p"), ("a.json", GOOD), ("x.json", GOOD)],
                "same agentId",
            ),
            (
                vec![("prompts/a.md", "p"), ("x.json", peer.as_str())],
                "peerDependencies",
            ),
            (vec![("prompts/a.md", ""), ("x.json", GOOD)], "empty"),
        ];
        for (files, reason) in rows {
            let error = format!(
                "{:#}",
                read_folder(folder(&files).path(), &Policy::default()).unwrap_err()
            );
            assert!(
                error.contains("x.json") && error.contains(reason) && !error.contains("canary"),
                "{error}"
            );
        }
        assert!(read_folder(Path::new("does-not-exist"), &Policy::default()).is_err());
    }
}
