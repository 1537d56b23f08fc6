//! The prompt template: a text with placeholders. Owns how placeholders are written and how they
//! are filled; it calls no model and reads no memory.

use super::fields::{
    self, check_known_fields, check_size, invalid, optional_flag, required_objects,
};
use crate::policy::Policy;
use crate::rejection::Rejection;
use serde_json::{Map, Value};

/// The most variables of one template.
const VARIABLES_MAX: usize = 64;
const VARIABLE_CHARS_MAX: usize = 128;
/// The largest rendered text, in bytes: a short template can repeat a long value many times.
const RENDERED_BYTES_MAX: usize = 256 * 1024;

/// A text with placeholders, each written `{{name}}`.
#[derive(Clone, PartialEq)]
pub struct PromptTemplate {
    id: String,
    version: String,
    text: String,
    variables: Vec<Variable>,
}

/// A variable that fills placeholders.
#[derive(Clone, PartialEq)]
pub struct Variable {
    pub name: String,
    /// True if the caller must give a value.
    pub required: bool,
    /// The value if the caller gives none; without a default the placeholder becomes empty.
    pub default_value: Option<String>,
}

// The text can be as private as a memory, so it is not printed.
impl std::fmt::Debug for PromptTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PromptTemplate")
            .field("id", &self.id)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Variable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Variable")
            .field("name", &self.name)
            .field("required", &self.required)
            .finish_non_exhaustive()
    }
}

enum Piece<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

impl PromptTemplate {
    /// Checks a template from a caller. The error names a field and a rule, never a value.
    pub fn from_map(
        map: &Map<String, Value>,
        policy: &Policy,
    ) -> Result<PromptTemplate, Rejection> {
        let known = "has a field that is unknown; known are templateId, version, text, variables";
        check_known_fields(
            map,
            &["templateId", "version", "text", "variables"],
            "artifact",
            known,
        )?;
        let id = fields::required_name(map, "templateId")?;
        let version = fields::required_version(map)?;
        let text = fields::required_text(map, "text")?.to_owned();
        if text.trim().is_empty() {
            return Err(Rejection::Empty { field: "text" });
        }
        check_size("text", text.len(), policy.content_bytes_max)?;
        let variables = required_objects(
            map,
            "variables",
            VARIABLES_MAX,
            "must be a list of objects with a name",
        )?;
        let variables = variables
            .into_iter()
            .map(Variable::from_map)
            .collect::<Result<Vec<_>, _>>()?;
        let repeated = |(n, variable): (usize, &Variable)| {
            variables[..n]
                .iter()
                .any(|other| other.name == variable.name)
        };
        if variables.iter().enumerate().any(repeated) {
            return Err(invalid("variables", "must have unique names"));
        }
        let placeholders: Vec<&str> = pieces(&text)?
            .into_iter()
            .filter_map(|piece| {
                if let Piece::Placeholder(name) = piece {
                    Some(name)
                } else {
                    None
                }
            })
            .collect();
        if !placeholders
            .iter()
            .all(|name| variables.iter().any(|variable| variable.name == *name))
        {
            return Err(invalid(
                "text",
                "must name only variables that are declared",
            ));
        }
        if !variables
            .iter()
            .all(|variable| placeholders.contains(&variable.name.as_str()))
        {
            return Err(invalid("variables", "must each be used in the text"));
        }
        Ok(PromptTemplate {
            id,
            version,
            text,
            variables,
        })
    }

    /// The name that it is installed under.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The version that its author gave it.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The text with its placeholders.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The variables that fill the placeholders.
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// The text with its placeholders filled. Values are inserted as they are: a placeholder inside
    /// a value is only text.
    pub fn render(&self, values: &Map<String, Value>) -> Result<String, Rejection> {
        if !values
            .keys()
            .all(|name| self.variables.iter().any(|variable| variable.name == *name))
        {
            return Err(invalid(
                "variables",
                "must give only what the template declares",
            ));
        }
        let filled = self
            .variables
            .iter()
            .map(|variable| variable.value_or_default(values.get(&variable.name)));
        let filled = filled.collect::<Result<Vec<String>, Rejection>>()?;
        let mut rendered = String::new();
        for piece in pieces(&self.text)? {
            let text = match piece {
                Piece::Text(text) => text,
                Piece::Placeholder(name) => {
                    let place = self
                        .variables
                        .iter()
                        .position(|variable| variable.name == name);
                    place.map_or("", |place| filled[place].as_str())
                }
            };
            check_size("variables", rendered.len() + text.len(), RENDERED_BYTES_MAX)?;
            rendered.push_str(text);
        }
        Ok(rendered)
    }
}

impl Variable {
    fn from_map(map: &Map<String, Value>) -> Result<Variable, Rejection> {
        let known = "have a field that is unknown; known are name, required, defaultValue";
        check_known_fields(
            map,
            &["name", "required", "defaultValue"],
            "variables",
            known,
        )?;
        let name = map
            .get("name")
            .and_then(Value::as_str)
            .filter(|name| is_variable(name));
        let rule = "must each have a name of 1 to 128 letters, digits, _, dots and -, beginning with a letter";
        let name = name.ok_or(invalid("variables", rule))?.to_owned();
        let default_value = map
            .get("defaultValue")
            .map(|value| plain_text(value).ok_or(invalid("defaultValue", PLAIN_RULE)))
            .transpose()?;
        Ok(Variable {
            name,
            required: optional_flag(map, "required", false)?,
            default_value,
        })
    }

    fn value_or_default(&self, given: Option<&Value>) -> Result<String, Rejection> {
        match given.filter(|value| !value.is_null()) {
            Some(value) => plain_text(value).ok_or(invalid("variables", PLAIN_RULE)),
            None if self.required => Err(invalid(
                "variables",
                "must hold every variable that the template requires",
            )),
            None => Ok(self.default_value.clone().unwrap_or_default()),
        }
    }
}

const PLAIN_RULE: &str = "must be a text, a number, true or false";

fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

fn is_variable(text: &str) -> bool {
    text.len() <= VARIABLE_CHARS_MAX
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, Rejection> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, behind) = after.split_once("}}").ok_or(invalid(
            "text",
            "must close every placeholder that it opens",
        ))?;
        let name = name.trim();
        if !is_variable(name) {
            return Err(invalid(
                "text",
                "must have the name of a variable between {{ and }}",
            ));
        }
        pieces.extend([Piece::Text(before), Piece::Placeholder(name)]);
        rest = behind;
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}
