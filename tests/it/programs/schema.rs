//! What the program prints as JSON against the schemas of `docs/schemas`.
//!
//! A subset of JSON Schema, draft 2020-12: a schema with a keyword that is not known here is refused, so that none is
//! passed over. Stricter than that draft in one point: an object whose schema names properties has no others, unless
//! the schema says `additionalProperties` itself. Readers of a report are to pass over what they do not know; this
//! program is to write nothing that its schema does not name.
//!
//! Deliberately absent: references to other files, patterns, formats.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// Where the schemas lie.
pub(super) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas")
}

/// The file of a schema: of `spark-data/drives/1` it is `spark-data-drives-1.json`.
pub(super) fn file_of(name: &str) -> PathBuf {
    folder().join(format!("{}.json", name.replace('/', "-")))
}

/// The names of all schemas, as they call themselves.
pub(super) fn names() -> Vec<String> {
    let files = fs::read_dir(folder()).expect("the schemas");
    let paths = files.map(|entry| entry.expect("an entry").path());
    let paths = paths.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let mut names: Vec<String> = paths.map(|path| name_of(&path)).collect();
    names.sort();
    names
}

fn name_of(path: &Path) -> String {
    let schema = read(path);
    let name = schema["properties"]["schema"]["const"].as_str();
    let name = name.unwrap_or_else(|| panic!("{}: no constant `schema`", path.display()));
    assert_eq!(file_of(name), path, "a schema lies where its name says");
    name.to_owned()
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Holds a report against the schema that it names.
#[track_caller]
pub(super) fn check(report: &Value) {
    let name = report["schema"]
        .as_str()
        .expect("a report names its schema");
    let schema = read(&file_of(name));
    let faults = faults(&schema, report);
    assert!(
        faults.is_empty(),
        "{name}: {}\n{report:#}",
        faults.join("\n")
    );
}

/// What of `value` the schema does not allow, by place.
pub(super) fn faults(schema: &Value, value: &Value) -> Vec<String> {
    assert_eq!(
        schema["$schema"], "https://json-schema.org/draft/2020-12/schema",
        "which draft it is of"
    );
    walk(schema);
    let mut faults = Vec::new();
    Checker { whole: schema }.check(schema, value, "$", &mut faults);
    faults
}

const KEYWORDS: [&str; 18] = [
    "$schema",
    "$id",
    "$defs",
    "$ref",
    "title",
    "description",
    "type",
    "const",
    "enum",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "anyOf",
];

/// Refuses keywords that are not known, everywhere in a schema.
fn walk(schema: &Value) {
    let Value::Object(keywords) = schema else {
        assert!(
            schema.is_boolean(),
            "a schema is an object or a truth: {schema}"
        );
        return;
    };
    for (keyword, value) in keywords {
        assert!(
            KEYWORDS.contains(&keyword.as_str()),
            "`{keyword}` is not known here"
        );
        match keyword.as_str() {
            "$defs" | "properties" => value
                .as_object()
                .expect("schemas by name")
                .values()
                .for_each(walk),
            "anyOf" => value.as_array().expect("schemas").iter().for_each(walk),
            "items" | "additionalProperties" => walk(value),
            _ => {}
        }
    }
}

struct Checker<'s> {
    whole: &'s Value,
}

impl Checker<'_> {
    fn check(&self, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
        let keywords = match schema {
            Value::Bool(true) => return,
            Value::Bool(false) => return faults.push(format!("{at}: nothing belongs here")),
            schema => schema.as_object().expect("walked before"),
        };
        let mut wrong = |why: String| faults.push(format!("{at}: {why}"));
        if let Some(types) = keywords.get("type") {
            let types: Vec<&Value> = types
                .as_array()
                .map_or(vec![types], |types| types.iter().collect());
            if !types
                .iter()
                .any(|name| is_of(value, name.as_str().expect("a type")))
            {
                return wrong(format!("{value} is not of type {types:?}"));
            }
        }
        if keywords.get("const").is_some_and(|only| only != value) {
            wrong(format!("{value} is not {}", keywords["const"]));
        }
        if let Some(all) = keywords.get("enum")
            && !all.as_array().expect("values").contains(value)
        {
            wrong(format!("{value} is none of {all}"));
        }
        if let Some(number) = value.as_f64() {
            let limit = |keyword: &str| keywords.get(keyword).and_then(Value::as_f64);
            if limit("minimum").is_some_and(|least| number < least) {
                wrong(format!("{number} is too small"));
            }
            if limit("maximum").is_some_and(|most| number > most) {
                wrong(format!("{number} is too large"));
            }
        }
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str) {
            let pointer = reference
                .strip_prefix('#')
                .expect("a place in the same file");
            let target = self.whole.pointer(pointer);
            let target = target.unwrap_or_else(|| panic!("{reference} leads nowhere"));
            self.check(target, value, at, faults);
        }
        if let Some(any) = keywords.get("anyOf").and_then(Value::as_array) {
            let of_each = any.iter().map(|schema| {
                let mut faults = Vec::new();
                self.check(schema, value, at, &mut faults);
                faults
            });
            let of_each: Vec<Vec<String>> = of_each.collect();
            if of_each.iter().all(|faults| !faults.is_empty()) {
                faults.push(format!(
                    "{at}: it is none of: {}",
                    of_each.concat().join("; or ")
                ));
            }
        }
        match value {
            Value::Object(fields) => self.check_fields(keywords, fields, at, faults),
            Value::Array(items) => self.check_items(keywords, items, at, faults),
            _ => {}
        }
    }

    fn check_fields(
        &self,
        keywords: &Map<String, Value>,
        fields: &Map<String, Value>,
        at: &str,
        faults: &mut Vec<String>,
    ) {
        let named = keywords.get("properties").and_then(Value::as_object);
        let required = keywords.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten() {
            let name = name.as_str().expect("a name");
            if !fields.contains_key(name) {
                faults.push(format!("{at}: `{name}` is missing"));
            }
        }
        let others = keywords.get("additionalProperties");
        for (name, value) in fields {
            let at = format!("{at}.{name}");
            match (named.and_then(|named| named.get(name)), others) {
                (Some(schema), _) | (None, Some(schema)) => self.check(schema, value, &at, faults),
                (None, None) if named.is_some() => {
                    faults.push(format!("{at}: the schema does not name it"))
                }
                (None, None) => {}
            }
        }
    }

    fn check_items(
        &self,
        keywords: &Map<String, Value>,
        items: &[Value],
        at: &str,
        faults: &mut Vec<String>,
    ) {
        let limit = |keyword: &str| keywords.get(keyword).and_then(Value::as_u64);
        let n_items = items.len() as u64;
        if limit("minItems").is_some_and(|least| n_items < least)
            || limit("maxItems").is_some_and(|most| n_items > most)
        {
            faults.push(format!("{at}: {n_items} items are too few or too many"));
        }
        if let Some(schema) = keywords.get("items") {
            for (idx, item) in items.iter().enumerate() {
                self.check(schema, item, &format!("{at}[{idx}]"), faults);
            }
        }
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        // A number without a fraction, as the draft has it.
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|it| it.fract() == 0.0)
        }
        other => panic!("there is no type `{other}`"),
    }
}

#[test]
fn the_checker_finds_what_does_not_fit() {
    let schema = serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": { "type": "integer", "minimum": 0, "maximum": 9 },
            "b": { "type": ["string", "null"], "enum": ["x", null] },
            "c": { "type": "array", "items": { "$ref": "#/$defs/d" }, "minItems": 1, "maxItems": 2 },
            "e": { "type": "object", "additionalProperties": { "type": "boolean" } },
            "f": { "anyOf": [{ "const": 1 }, { "type": "string" }] },
        },
        "$defs": { "d": { "type": "number" } },
    });
    let of = |value: Value| faults(&schema, &value);
    let good = serde_json::json!({ "a": 3, "b": null, "c": [1.5], "e": { "any": true }, "f": "x" });
    assert!(of(good).is_empty());
    for (bad, at) in [
        (serde_json::json!({}), "`a` is missing"),
        (serde_json::json!({ "a": 1.5 }), "$.a"),
        (serde_json::json!({ "a": -1 }), "too small"),
        (serde_json::json!({ "a": 10 }), "too large"),
        (serde_json::json!({ "a": 1, "b": "y" }), "none of"),
        (serde_json::json!({ "a": 1, "b": 2 }), "not of type"),
        (serde_json::json!({ "a": 1, "c": [] }), "too few"),
        (serde_json::json!({ "a": 1, "c": [1, "2"] }), "$.c[1]"),
        (serde_json::json!({ "a": 1, "e": { "any": 1 } }), "$.e.any"),
        (serde_json::json!({ "a": 1, "f": 2 }), "$.f"),
        (serde_json::json!({ "a": 1, "g": 2 }), "$.g"),
        (serde_json::json!([]), "not of type"),
    ] {
        let found = of(bad.clone());
        assert!(
            found.iter().any(|fault| fault.contains(at)),
            "{bad}: {found:?}"
        );
    }
    let unknown = serde_json::json!({ "$schema": schema["$schema"], "items": { "pattern": "x" } });
    assert!(std::panic::catch_unwind(|| faults(&unknown, &Value::Null)).is_err());
}
