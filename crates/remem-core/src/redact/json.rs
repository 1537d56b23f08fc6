//! Owns the cleaning of JSON values: every string, every key, and numbers whose digits are a value.
//! It may not change anything else, so that metadata keeps its structure.

use serde_json::{Map, Value};

use super::{Redactor, ShapePolicy};

impl Redactor {
    /// Cleans all text in a JSON value. A key that becomes equal to an earlier one gets a number.
    pub fn clean_json(&self, value: Value, shapes: ShapePolicy) -> Value {
        match value {
            Value::String(text) => Value::String(self.clean(&text, shapes).text.into_string()),
            Value::Number(number) => {
                let cleaned = self.clean(&number.to_string(), ShapePolicy::Off);
                if cleaned.values == 0 {
                    Value::Number(number)
                } else {
                    Value::String(cleaned.text.into_string())
                }
            }
            Value::Array(items) => Value::Array(
                items
                    .into_iter()
                    .map(|item| self.clean_json(item, shapes))
                    .collect(),
            ),
            Value::Object(fields) => Value::Object(self.clean_fields(fields, shapes)),
            other => other,
        }
    }

    fn clean_fields(&self, fields: Map<String, Value>, shapes: ShapePolicy) -> Map<String, Value> {
        let mut cleaned = Map::new();
        for (key, value) in fields {
            let key = self.clean(&key, shapes).text.into_string();
            let mut unique = key.clone();
            let mut number = 2;
            while cleaned.contains_key(&unique) {
                unique = format!("{key} {number}");
                number += 1;
            }
            cleaned.insert(unique, self.clean_json(value, shapes));
        }
        cleaned
    }
}

#[cfg(test)]
mod tests {
    use super::super::SecretValue;
    use super::*;
    use serde_json::json;

    #[test]
    fn json_strings_keys_and_numbers_are_redacted() {
        let redactor = Redactor::new([
            SecretValue::new("k", "hunter2-hunter2"),
            SecretValue::new("n", "4499901188104591"),
        ]);
        let value = json!({"a": ["x hunter2-hunter2"], "hunter2-hunter2": 1, "HUNTER2-HUNTER2": 2, "n": 4_499_901_188_104_591_u64, "t": true, "f": 1.5});
        let cleaned = redactor.clean_json(value, ShapePolicy::Off);
        assert_eq!(cleaned["a"][0], "x [REDACTED:k]");
        assert_eq!(cleaned["n"], "[REDACTED:n]");
        assert_eq!((&cleaned["t"], &cleaned["f"]), (&json!(true), &json!(1.5)));
        assert!(cleaned.get("[REDACTED:k]").is_some() && cleaned.get("[REDACTED:k] 2").is_some());
        assert!(!cleaned.to_string().to_lowercase().contains("hunter2"));
    }
}
