//! Writes JSON text, for reports that must not need the `serde` feature.

use std::fmt::{Display, Write as _};

use crate::reading::Reading;

/// An object being written.
#[derive(Debug)]
pub(crate) struct Object {
    text: String,
}

impl Object {
    pub(crate) fn new() -> Self {
        Self {
            text: "{".to_owned(),
        }
    }

    /// A member whose value is JSON already.
    pub(crate) fn raw(mut self, key: &str, json: &str) -> Self {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        write_text(&mut self.text, key);
        self.text.push(':');
        self.text.push_str(json);
        self
    }

    pub(crate) fn text(self, key: &str, value: &str) -> Self {
        self.raw(key, &quoted(value))
    }

    /// Adds a whole number under `key`.
    pub(crate) fn number(self, key: &str, value: u64) -> Self {
        self.raw(key, &value.to_string())
    }

    /// The number, `null` for "not supported", `{"failed": why}` otherwise.
    pub(crate) fn reading<T: Display>(self, key: &str, reading: &Reading<T>) -> Self {
        let json = match reading {
            Reading::Value(number) => number.to_string(),
            Reading::NotSupported => "null".to_owned(),
            Reading::Failed(why) => Self::new().text("failed", &why.to_string()).finish(),
        };
        self.raw(key, &json)
    }

    pub(crate) fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }
}

/// An array of JSON texts.
pub(crate) fn array(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    format!("[{}]", items.join(","))
}

/// `value` as a JSON string, quoted and escaped.
pub(crate) fn quoted(value: &str) -> String {
    let mut text = String::new();
    write_text(&mut text, value);
    text
}

fn write_text(out: &mut String, value: &str) {
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                // Every control character is below U+FFFF.
                write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a String cannot fail");
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Failure;

    #[test]
    fn text_survives_a_parser() {
        let odd = "quote \" back \\ line \n tab \t bell \u{7} next \u{85} é 😀";
        let failed = Reading::<u32>::Failed(Failure::NotText {
            path: "/a\"b".to_owned(),
        });
        let json = Object::new()
            .text("odd", odd)
            .number("n", u64::MAX)
            .reading("none", &Reading::<u32>::NotSupported)
            .reading("bad", &failed)
            .raw("list", &array([quoted("a"), "1".to_owned()]))
            .finish();
        let parsed: serde_json::Value = serde_json::from_str(&json).expect("valid JSON");
        assert_eq!(parsed["odd"], odd);
        assert_eq!(parsed["n"], u64::MAX);
        assert!(parsed["none"].is_null());
        assert_eq!(parsed["bad"]["failed"], "/a\"b is not text");
        assert_eq!(parsed["list"][1], 1);
    }
}
