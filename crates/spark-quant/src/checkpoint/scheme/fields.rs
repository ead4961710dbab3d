//! Fields of a configuration, with errors that name method, field and value.

use serde_json::{Map, Value};

use crate::error::QuantError;

/// One object of a configuration and the way to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) method: &'a str,
    path: &'a str,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(
        method: &'a str,
        path: &'a str,
        value: &'a Value,
    ) -> Result<Self, QuantError> {
        let map = value
            .as_object()
            .ok_or_else(|| setting(method, path, value, "an object"))?;
        Ok(Self { method, path, map })
    }

    /// Path of a field from the configuration's root.
    pub(super) fn path(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// A field that is there and not null.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// An error about a field, with its value.
    pub(super) fn refuse(&self, name: &str, want: impl Into<String>) -> QuantError {
        let absent = Value::Null;
        let value = self.map.get(name).unwrap_or(&absent);
        setting(self.method, &self.path(name), value, want)
    }

    fn typed<T>(
        &self,
        name: &str,
        want: &str,
        get: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, QuantError> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => get(value).map(Some).ok_or_else(|| self.refuse(name, want)),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, QuantError> {
        self.typed(name, "a text", Value::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, QuantError> {
        self.typed(name, "a whole number", Value::as_i64)
    }

    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, QuantError> {
        self.typed(name, "true or false", Value::as_bool)
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<&'a Map<String, Value>>, QuantError> {
        self.typed(name, "an object", Value::as_object)
    }

    /// A list of texts; an absent one is empty.
    pub(super) fn texts(&self, name: &str) -> Result<Vec<&'a str>, QuantError> {
        let list = self.typed(name, "a list of texts", |value| {
            value
                .as_array()?
                .iter()
                .map(Value::as_str)
                .collect::<Option<Vec<_>>>()
        })?;
        Ok(list.unwrap_or_default())
    }

    /// Refuses any field that is not listed, unless it is null.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), QuantError> {
        let stranger = self
            .map
            .iter()
            .find(|(name, value)| !value.is_null() && !known.contains(&name.as_str()));
        match stranger {
            None => Ok(()),
            Some((name, _)) => Err(self.refuse(name, "no such field")),
        }
    }
}

/// An error about a setting.
pub(super) fn setting(
    method: &str,
    field: &str,
    value: &Value,
    want: impl Into<String>,
) -> QuantError {
    let mut value = value.to_string();
    if value.len() > 200 {
        let end = value.floor_char_boundary(200);
        value.truncate(end);
        value.push_str("...");
    }
    QuantError::Setting {
        method: method.to_owned(),
        field: field.to_owned(),
        value,
        want: want.into(),
    }
}
