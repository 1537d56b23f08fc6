//! The automation: a workflow or an agent that is started at given times. Owns its fields and the
//! times at which it is due; it reads no clock and starts nothing.

use super::fields::{self, check_known_fields, check_size, invalid, optional_flag, optional_text};
use crate::agent::is_agent_id;
use crate::ids::Timestamp;
use crate::policy::Policy;
use crate::rejection::Rejection;
use crate::schedule::{self, Timing};
use crate::workflow::is_workflow_id;
use serde_json::{Map, Value, json};

const FIELDS: [&str; 7] = [
    "automationId",
    "schedule",
    "workflowId",
    "agentId",
    "inputs",
    "enabled",
    "title",
];
const TITLE_CHARS_MAX: usize = 200;
const ZONE_DEFAULT: &str = "UTC";
/// A text that is longer than this is not an instant.
const INSTANT_CHARS_MAX: usize = 64;

/// A workflow or an agent that is started at given times.
#[derive(Clone, PartialEq)]
pub struct Automation {
    pub id: String,
    /// The times at which it is due.
    pub trigger: AutomationTrigger,
    /// The workflow or agent that is started.
    pub target: AutomationTarget,
    /// The inputs of each run.
    pub inputs: Map<String, Value>,
    /// False if it is never due.
    pub enabled: bool,
    /// The name that people read.
    pub title: Option<String>,
}

/// The workflow or agent that an automation starts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AutomationTarget {
    /// A workflow with this id.
    Workflow(String),
    /// An agent with this id.
    Agent(String),
}

/// The times at which an automation is due.
#[derive(Clone, Debug)]
pub enum AutomationTrigger {
    /// Repeatedly, by an interval or a cron line; the second value is the text that it was read
    /// from.
    Timing(Box<Timing>, TimingText),
    /// Once, at this instant.
    At(Timestamp),
}

/// The text that a timing was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimingText {
    /// The interval, or …
    pub every: Option<String>,
    /// … the cron line.
    pub cron: Option<String>,
    /// The time zone of the rule.
    pub zone: String,
}

// A timing is fully determined by its text.
impl PartialEq for AutomationTrigger {
    fn eq(&self, other: &AutomationTrigger) -> bool {
        match (self, other) {
            (AutomationTrigger::Timing(_, a), AutomationTrigger::Timing(_, b)) => a == b,
            (AutomationTrigger::At(a), AutomationTrigger::At(b)) => a == b,
            _ => false,
        }
    }
}

// Inputs and titles are texts of callers, so they are not printed.
impl std::fmt::Debug for Automation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Automation")
            .field("id", &self.id)
            .field("when", &self.trigger)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl Automation {
    /// Checks an automation from a caller. The error names a field and a rule, never a value.
    pub fn from_map(map: &Map<String, Value>, policy: &Policy) -> Result<Automation, Rejection> {
        let known = "has a field that is unknown; known are automationId, schedule, workflowId, agentId, inputs, enabled, title";
        check_known_fields(map, &FIELDS, "artifact", known)?;
        let id = fields::required_name(map, "automationId")?;
        let schedule = map
            .get("schedule")
            .ok_or(invalid("schedule", "is missing"))?;
        let when = AutomationTrigger::from_map(
            schedule
                .as_object()
                .ok_or(invalid("schedule", SCHEDULE_RULE))?,
        )?;
        let target = AutomationTarget::from_map(map)?;
        let inputs = match map.get("inputs") {
            None => Map::new(),
            Some(Value::Object(inputs)) => inputs.clone(),
            Some(_) => return Err(invalid("inputs", "must be an object")),
        };
        check_size(
            "inputs",
            super::artifact::canonical(&inputs).len(),
            policy.run_input_bytes_max,
        )?;
        let title = optional_text(map, "title")?;
        let fits = |title: &str| {
            (1..=TITLE_CHARS_MAX).contains(&title.chars().count())
                && !title.chars().any(char::is_control)
        };
        if !title.is_none_or(fits) {
            return Err(invalid(
                "title",
                "must be a string of 1 to 200 characters on one line",
            ));
        }
        Ok(Automation {
            id,
            trigger: when,
            target,
            inputs,
            enabled: optional_flag(map, "enabled", true)?,
            title: title.map(str::to_owned),
        })
    }

    /// The automation as a JSON artifact.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("automationId".to_owned(), json!(self.id));
        map.insert("schedule".to_owned(), Value::Object(self.trigger.to_map()));
        match &self.target {
            AutomationTarget::Workflow(id) => map.insert("workflowId".to_owned(), json!(id)),
            AutomationTarget::Agent(id) => map.insert("agentId".to_owned(), json!(id)),
        };
        map.insert("inputs".to_owned(), Value::Object(self.inputs.clone()));
        map.insert("enabled".to_owned(), json!(self.enabled));
        if let Some(title) = &self.title {
            map.insert("title".to_owned(), json!(title));
        }
        map
    }

    /// The first instant after `after` at which it is due. Intervals are counted from `anchor`.
    #[must_use]
    pub fn next_due(&self, anchor: Timestamp, after: Timestamp) -> Option<Timestamp> {
        if self.enabled {
            self.trigger
                .next_due(clamp_to_calendar(anchor), clamp_to_calendar(after))
        } else {
            None
        }
    }

    /// The last instant after `after` and not after `now` at which it was due. If several were
    /// missed, only this one is made up for.
    #[must_use]
    pub fn latest_due(
        &self,
        anchor: Timestamp,
        after: Timestamp,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let anchor = clamp_to_calendar(anchor);
        let next = |from: Timestamp| self.trigger.next_due(anchor, from).filter(|_| self.enabled);
        schedule::latest_tick(next, clamp_to_calendar(after), clamp_to_calendar(now))
    }
}

/// Limits an instant to the range of the calendar: nothing is due beyond it.
fn clamp_to_calendar(at: Timestamp) -> Timestamp {
    Timestamp(at.0.clamp(-Timestamp::LAST.0, Timestamp::LAST.0))
}

impl AutomationTarget {
    fn from_map(map: &Map<String, Value>) -> Result<AutomationTarget, Rejection> {
        match (
            optional_text(map, "workflowId")?,
            optional_text(map, "agentId")?,
        ) {
            (Some(id), None) if is_workflow_id(id) => Ok(AutomationTarget::Workflow(id.to_owned())),
            (None, Some(id)) if is_agent_id(id) => Ok(AutomationTarget::Agent(id.to_owned())),
            (Some(_), None) => Err(Rejection::MalformedName {
                field: "workflowId",
            }),
            (None, Some(_)) => Err(Rejection::MalformedName { field: "agentId" }),
            _ => Err(invalid(
                "workflowId",
                "or agentId must be there, and not both",
            )),
        }
    }
}

const SCHEDULE_RULE: &str = "must be an object of every, cron or at, one of the three, and zone";

impl AutomationTrigger {
    fn from_map(map: &Map<String, Value>) -> Result<AutomationTrigger, Rejection> {
        check_known_fields(
            map,
            &["every", "cron", "at", "zone"],
            "schedule",
            SCHEDULE_RULE,
        )?;
        let every = optional_text(map, "every")?;
        let cron = optional_text(map, "cron")?;
        let at = optional_text(map, "at")?;
        let zone = optional_text(map, "zone")?.unwrap_or(ZONE_DEFAULT);
        match (every, cron, at) {
            (None, None, Some(at)) => {
                // An instant needs no zone; a wrong zone is an error all the same.
                Timing::parse(Some("P1D"), None, zone)?;
                let parsed = if at.len() <= INSTANT_CHARS_MAX {
                    at.parse::<jiff::Timestamp>().ok()
                } else {
                    None
                };
                let at = parsed
                    .map(|at| Timestamp(at.as_millisecond()))
                    .filter(|at| (0..=Timestamp::LAST.0).contains(&at.0));
                at.map(AutomationTrigger::At).ok_or(invalid(
                    "at",
                    "must be an instant, such as 2026-05-01T09:00:00Z",
                ))
            }
            (Some(_), None, None) | (None, Some(_), None) => {
                let timing = Box::new(Timing::parse(every, cron, zone)?);
                let written = TimingText {
                    every: every.map(str::to_owned),
                    cron: cron.map(str::to_owned),
                    zone: zone.to_owned(),
                };
                Ok(AutomationTrigger::Timing(timing, written))
            }
            _ => Err(invalid("schedule", SCHEDULE_RULE)),
        }
    }

    fn to_map(&self) -> Map<String, Value> {
        let fields = match self {
            AutomationTrigger::At(at) => vec![("at", Some(at.rfc3339()))],
            AutomationTrigger::Timing(_, written) => {
                vec![
                    ("every", written.every.clone()),
                    ("cron", written.cron.clone()),
                    ("zone", Some(written.zone.clone())),
                ]
            }
        };
        fields
            .into_iter()
            .filter_map(|(name, text)| Some((name.to_owned(), json!(text?))))
            .collect()
    }

    fn next_due(&self, anchor: Timestamp, after: Timestamp) -> Option<Timestamp> {
        match self {
            AutomationTrigger::Timing(timing, _) => timing.next(anchor, after),
            AutomationTrigger::At(at) => Some(*at).filter(|at| *at > after),
        }
    }
}
