//! The fields of a JSON value: where each stands, and its type.
//!
//! ```text
//! {"runs": [{"ms": 1.5}, {"ms": null}], "layers": {"Conv.1": 3}}
//!
//! runs[].ms    number?      null in some
//! layers{}     number       names that are data, not fields
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

/// Paths of values with their types, in order of appearance.
#[derive(Default)]
pub(super) struct Fields {
    order: Vec<String>,
    types: BTreeMap<String, Vec<&'static str>>,
}

impl Fields {
    /// Adds what stands in `value`, whose own place is `path`.
    pub(super) fn add(&mut self, path: &str, value: &Value) {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "text",
            Value::Array(_) => "list",
            Value::Object(_) => "object",
        };
        // What holds others shows in their places.
        let holds_others = match value {
            Value::Array(values) => !values.is_empty(),
            Value::Object(values) => !values.is_empty(),
            _ => false,
        };
        if !path.is_empty() && !holds_others {
            if !self.types.contains_key(path) {
                self.order.push(path.to_owned());
            }
            let types = self.types.entry(path.to_owned()).or_default();
            if !types.contains(&kind) {
                types.push(kind);
            }
        }
        match value {
            Value::Array(values) => {
                for value in values {
                    self.add(&format!("{path}[]"), value);
                }
            }
            Value::Object(values) => {
                for (name, value) in values {
                    // Names that are data, not fields: layers, operators, suites.
                    let is_field = name
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
                    let name = if is_field {
                        format!(".{name}")
                    } else {
                        "{}".to_owned()
                    };
                    self.add(&format!("{path}{name}"), value);
                }
            }
            _ => {}
        }
    }

    /// A line for each place.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let width = self
            .order
            .iter()
            .map(|path| path.chars().count())
            .max()
            .unwrap_or(0);
        for path in &self.order {
            let types = &self.types[path];
            let is_optional = types.contains(&"null") && types.len() > 1;
            let named: Vec<&str> = types
                .iter()
                .copied()
                .filter(|kind| !is_optional || *kind != "null")
                .collect();
            let mark = if is_optional { "?" } else { "" };
            let path = path.trim_start_matches('.');
            let _ = writeln!(text, "{path:width$}  {}{mark}", named.join(" or "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_paths_and_types() {
        let text = r#"{"schema": "a/1", "list": [{"x": 1}, {"x": null, "y": true}], "of": {"Conv.1": [2]}}"#;
        let value: Value = serde_json::from_str(text).expect("JSON");
        let mut fields = Fields::default();
        fields.add("", &value);
        let lines: Vec<String> = fields
            .text()
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        for line in [
            "schema text",
            "list[].x number?",
            "list[].y boolean",
            "of{}[] number",
        ] {
            assert!(lines.contains(&line.to_owned()), "{line} in {lines:?}");
        }
    }
}
