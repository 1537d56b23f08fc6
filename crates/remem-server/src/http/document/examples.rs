//! One example of each request that has a body. A test sends every one of them.

use serde_json::{Value, json};

/// Adds the example of an operation to the body of its request.
pub(super) fn add(operation: &mut Value) {
    let id = operation["operationId"].as_str().unwrap_or_default();
    let Some(example) = memory(id)
        .or_else(|| work(id))
        .or_else(|| administration(id))
    else {
        return;
    };
    if let Some(content) = operation.pointer_mut("/requestBody/content/application~1json") {
        content["example"] = example;
    }
}

fn memory(id: &str) -> Option<Value> {
    let rule = "Never send a message to a customer without approval.";
    Some(match id {
        "put_entry" => json!({
            "content": "Ana prefers tea", "tags": ["preference"], "subjects": ["Ana"]
        }),
        "put_entries" => json!({
            "entries": [{"content": "Ana prefers tea"}, {"content": "Ben prefers coffee"}]
        }),
        "import_entries" => json!({
            "entries": [{
                "id": "note-17", "content": "Ana prefers tea", "createdAt": "2026-03-01T09:30:00Z"
            }]
        }),
        "search" => json!({"query": "What does Ana drink?", "limit": 5}),
        "recall" => json!({"query": "What does Ana drink?", "tokenBudget": 400}),
        "forget" => json!({"subject": "Ana", "dryRun": true}),
        "create_commitment" => json!({"text": "Water the plants", "every": "P7D"}),
        "snooze_commitment" => json!({"until": "2026-12-24T09:00:00Z"}),
        "observe" => json!({"key": "the invoice has cleared", "value": true}),
        "put_rules" | "put_memory_rules" => json!({"arm": "confirm", "zone": "Europe/Berlin"}),
        "put_heartbeat" => json!({
            "memoryRef": "agent-1", "key": "the invoice has cleared", "tag": "paid",
            "everySeconds": 300
        }),
        "link_action" => json!({"action": "gate.accept", "reference": "change-4711"}),
        "put_rule" => json!({"body": rule}),
        "put_world_rules" => json!({"rules": [{"id": "approval", "body": rule}]}),
        "check_rule" => json!({"text": "Ana prefers tea"}),
        _ => return None,
    })
}

fn work(id: &str) -> Option<Value> {
    Some(match id {
        "create_run" => json!({"workflowId": "greet", "inputs": {"name": "Ana"}}),
        "fork_run" => json!({"mode": "replay"}),
        "cancel_run" => json!({"reason": "No longer needed"}),
        "put_workflow" => json!({"id": "greet", "nodes": [{"id": "start", "typeId": "core.noop"}]}),
        "put_automation" => json!({
            "automationId": "daily-greeting", "schedule": {"every": "P1D"}, "workflowId": "greet"
        }),
        "install_agent" => json!({
            "manifest": {
                "agentId": "local.support.greeter", "persona": "Greeter", "modelClass": "general",
                "systemPrompt": "Greet the customer."
            }
        }),
        "put_file" => {
            json!({"content": "Greet customers by name.", "contentType": "text/markdown"})
        }
        "submit_proposal" => json!({
            "kind": "prompt-template",
            "artifact": {"templateId": "greeting", "version": "1.0.0", "text": "Hello"},
            "title": "A shorter greeting"
        }),
        "revise_proposal" => json!({"title": "A friendlier greeting"}),
        "apply_proposal" | "approve_proposal" => json!({}),
        "override_proposal" => json!({"reason": "urgent", "note": "The reviewer is on leave."}),
        "record_trace" => json!({"agentId": "local.support.greeter", "tools": ["search", "reply"]}),
        "register" => json!({
            "url": "https://hooks.example.com/remembrancer", "events": ["run.completed"]
        }),
        _ => return None,
    })
}

fn administration(id: &str) -> Option<Value> {
    Some(match id {
        "create_key" => json!({"scopes": ["memory:read", "memory:write"], "label": "support"}),
        "change_key" => json!({"trust": "tool"}),
        "put_tenant" => json!({"id": "acme", "shapes": "redact"}),
        "run_pass" => json!({"memoryRef": "agent-1"}),
        "put_schedule" => json!({"every": "P1D", "zone": "Europe/Berlin"}),
        "set_secret" | "rotate_secret" => json!({"value": "correct-horse-battery-staple"}),
        _ => return None,
    })
}
