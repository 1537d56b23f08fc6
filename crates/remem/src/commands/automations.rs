//! `remem automation`: lists, shows, sets, pauses, resumes and removes automations.

use super::api;
use super::proposals::read_object;
use crate::cli::{AutomationCommand, GlobalArgs};
use crate::output;
use remem_wire::automation::AutomationDoc;
use serde_json::Value;

pub async fn run(global: &GlobalArgs, command: &AutomationCommand) -> anyhow::Result<()> {
    let api = api(global).await?;
    match command {
        AutomationCommand::List => {
            let list = api.automations().await?;
            if global.json {
                return output::json(&list);
            }
            let rows = list
                .automations
                .iter()
                .map(|a| vec![a.automation_id.clone(), when(a), starts(a), next(a)]);
            output::table(
                &["AUTOMATION", "WHEN", "STARTS", "NEXT"],
                rows.collect(),
                "no automations",
            );
            Ok(())
        }
        AutomationCommand::Show { id } => show(global, &api.automation(id).await?),
        AutomationCommand::Put { file } => {
            let map = read_object(file)?;
            let id = map
                .get("automationId")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            anyhow::ensure!(!id.is_empty(), "{} has no automationId", file.display());
            let (doc, new) = api.put_automation(&id, map).await?;
            print_result(global, if new { "set" } else { "replaced" }, &doc)
        }
        AutomationCommand::Pause { id } => {
            print_result(global, "paused", &api.enable_automation(id, false).await?)
        }
        AutomationCommand::Resume { id } => {
            print_result(global, "resumed", &api.enable_automation(id, true).await?)
        }
        AutomationCommand::Remove { id } => {
            api.remove_automation(id).await?;
            if global.json {
                return output::json(&serde_json::json!({"removed": id}));
            }
            println!("removed");
            Ok(())
        }
    }
}

fn when(doc: &AutomationDoc) -> String {
    let text = |name: &str| doc.schedule.get(name).and_then(Value::as_str);
    let zone = text("zone")
        .map(|zone| format!(" {zone}"))
        .unwrap_or_default();
    let when = text("every").map(|every| format!("every {every}"));
    when.or(text("cron").map(|cron| format!("{cron}{zone}")))
        .or(text("at").map(|at| format!("at {at}")))
        .unwrap_or_default()
}

fn starts(doc: &AutomationDoc) -> String {
    match (&doc.workflow_id, &doc.agent_id) {
        (Some(id), _) => format!("workflow {id}"),
        (None, Some(id)) => format!("agent {id}"),
        _ => String::new(),
    }
}

fn next(doc: &AutomationDoc) -> String {
    match doc.next_due_at {
        Some(at) => at.to_string(),
        None if doc.enabled => "-".to_owned(),
        None => "paused".to_owned(),
    }
}

fn print_result(global: &GlobalArgs, what: &str, doc: &AutomationDoc) -> anyhow::Result<()> {
    if global.json {
        return output::json(doc);
    }
    println!("{what} {}; next: {}", doc.automation_id, next(doc));
    Ok(())
}

fn show(global: &GlobalArgs, doc: &AutomationDoc) -> anyhow::Result<()> {
    if global.json {
        return output::json(doc);
    }
    let rows = [
        ("automation", doc.automation_id.clone()),
        ("title", doc.title.clone().unwrap_or_default()),
        ("when", when(doc)),
        ("starts", starts(doc)),
        ("inputs", Value::Object(doc.inputs.clone()).to_string()),
        ("next", next(doc)),
        (
            "last",
            doc.last_fired_at
                .map(|at| at.to_string())
                .unwrap_or_default(),
        ),
        ("last run", doc.last_run_id.clone().unwrap_or_default()),
        ("from", doc.source.clone().unwrap_or_default()),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        println!("{name:<12}{}", output::preview(value, 600));
    }
    Ok(())
}
