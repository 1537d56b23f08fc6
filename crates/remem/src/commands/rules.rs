//! `remem rule`: writes, lists, deletes, checks and imports the rules of worlds, canonical texts
//! that memory may not restate.

use super::api;
use super::import::{open_input, progress_bar};
use crate::cli::{GlobalArgs, RuleCommand};
use crate::hints::{self, BOM};
use crate::output::{self, preview};
use anyhow::{Context, bail};
use remem_server::MemoryApi;
use remem_wire::workshop::{NamedRule, RuleCheck, RulePut, RulesPut, RulesQuery};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

/// Maximum number of rules in one request.
const BATCH: usize = 500;
/// Maximum number of bytes of text in one request; well under the server's limit for a body.
const BATCH_BYTES: usize = 2 * 1024 * 1024;

pub async fn run(global: &GlobalArgs, command: &RuleCommand) -> anyhow::Result<()> {
    let api = api(global).await?;
    match command {
        RuleCommand::Put { world, id, body } => {
            let written = api
                .put_rule(
                    world,
                    id,
                    RulePut {
                        body: body.join(" "),
                    },
                )
                .await?
                .value;
            if global.json {
                return output::json(&written);
            }
            println!("written  (revision {})", written.revision);
        }
        RuleCommand::List { world } => return list(global, &api, world).await,
        RuleCommand::Delete { world, id } => {
            let written = api.delete_rule(world, id).await?;
            if global.json {
                return output::json(&json!({"deleted": true, "revision": written.revision}));
            }
            println!("deleted  (revision {})", written.revision);
        }
        RuleCommand::Check { world, text } => {
            let checked = api
                .check_rule(
                    world,
                    RuleCheck {
                        text: text.join(" "),
                    },
                )
                .await?;
            if global.json {
                return output::json(&checked);
            }
            match checked.shadowed {
                Some(rule) => println!("duplicates rule {}", preview(&rule, 100)),
                None => println!("duplicates no rule"),
            }
        }
        RuleCommand::Import { world, file } => return import(global, &api, world, file).await,
    }
    Ok(())
}

async fn list(global: &GlobalArgs, api: &Arc<dyn MemoryApi>, world: &str) -> anyhow::Result<()> {
    let mut query = RulesQuery {
        limit: Some(0),
        after: None,
    };
    let mut rows = Vec::new();
    loop {
        let page = api.rules(world, query.clone()).await?;
        for rule in &page.rules {
            if global.json {
                output::json(rule)?;
            } else {
                rows.push(vec![
                    preview(&rule.id, 60),
                    rule.at.to_string(),
                    preview(&rule.body, 72),
                ]);
            }
        }
        query.after = page.next_after;
        if query.after.is_none() {
            break;
        }
    }
    if !global.json {
        output::table(&["RULE", "WRITTEN", "TEXT"], rows, "no rules");
    }
    Ok(())
}

/// Imports rules in batches. Rules that are written stay when a later line is wrong, and the import
/// can be repeated.
async fn import(
    global: &GlobalArgs,
    api: &Arc<dyn MemoryApi>,
    world: &str,
    file: &Path,
) -> anyhow::Result<()> {
    let (reader, size) = open_input(file)?;
    let progress = progress_bar(size);
    let mut batch = Vec::new();
    let mut bytes = 0;
    let mut written = 0;
    for (number, line) in BufReader::new(progress.wrap_read(reader))
        .lines()
        .enumerate()
    {
        let line =
            line.with_context(|| format!("line {} cannot be read as UTF-8 text", number + 1))?;
        let line = match number {
            0 => line.trim_start_matches(BOM),
            _ => line.as_str(),
        };
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str::<NamedRule>(line) {
            Ok(rule) => batch.push(rule),
            Err(error) => bail!(
                "line {}: {}; {written} rules are written",
                number + 1,
                hints::json_line(&error)
            ),
        }
        bytes += line.len();
        if batch.len() >= BATCH || bytes >= BATCH_BYTES {
            bytes = 0;
            written += send(api, world, &mut batch).await.with_context(|| {
                format!("up to line {}; {written} rules are written", number + 1)
            })?;
        }
    }
    if !batch.is_empty() {
        written += send(api, world, &mut batch)
            .await
            .with_context(|| format!("in the last lines; {written} rules are written"))?;
    }
    progress.finish_and_clear();
    if global.json {
        return output::json(&json!({"written": written}));
    }
    println!("{} written", output::count(written, "rule", "rules"));
    Ok(())
}

async fn send(
    api: &Arc<dyn MemoryApi>,
    world: &str,
    batch: &mut Vec<NamedRule>,
) -> anyhow::Result<u64> {
    Ok(api
        .put_rules(
            world,
            RulesPut {
                rules: std::mem::take(batch),
            },
        )
        .await?
        .value
        .written)
}
