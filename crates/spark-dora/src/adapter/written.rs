//! Settings as they are written: every adapted module by its full name, so that PEFT finds just those.
//!
//! ```text
//! target_modules   a list of full names; a regular expression where PEFT, which also takes a name for the
//!                  end of a longer one, would adapt a module that is plain here
//! rank_pattern, alpha_pattern   an entry for each module that differs from r and lora_alpha: its full name,
//!                  or `^` and the name escaped where the name would also be the end of another's
//! ```
//!
//! `modules_to_save` is written as it was given, since PEFT reads an entry both as the end of a name and as a
//! regular expression, which no other text is in the same way.
//!
//! No pattern written matches two modules, so their order, which PEFT sorts when it saves, means nothing.

use std::collections::BTreeMap;

use serde_json::json;

use super::entry::Entry;
use crate::config::{self, DoraConfig, Method, Patterns, Targets, is_suffix};
use crate::error::{DoraError, Result};

/// The settings of these layers, with `config`'s for all that is not a layer's own.
pub(super) fn settings(
    config: &DoraConfig,
    layers: &BTreeMap<String, Entry>,
) -> Result<DoraConfig> {
    let mut written = config.clone();
    let adapted = layers
        .iter()
        .filter_map(|(name, entry)| Some((name.as_str(), entry.written()?)));
    let (only_magnitude, low_rank): (Vec<_>, Vec<_>) =
        adapted.partition(|(_, layer)| layer.method == Method::MagnitudeOnly);
    let plain = low_rank
        .iter()
        .filter(|(_, layer)| layer.method == Method::Lora);
    let plain: Vec<String> = plain.map(|(name, _)| (*name).to_owned()).collect();
    if !plain.is_empty() && plain.len() < low_rank.len() {
        return Err(DoraError::MixedMethods { layers: plain });
    }
    if !low_rank.is_empty() {
        written.use_dora = plain.is_empty();
    }

    let names: Vec<&str> = low_rank.iter().map(|(name, _)| *name).collect();
    let catches = |other: &str| names.iter().any(|name| is_suffix(other, name));
    let others = layers.keys().filter(|name| !names.contains(&name.as_str()));
    written.target_modules = Some(match others.clone().any(|other| catches(other)) {
        false => Targets::Names(names.iter().map(|&name| name.to_owned()).collect()),
        true => {
            let exact: Vec<String> = names.iter().map(|name| config::escape(name)).collect();
            Targets::Text(exact.join("|"))
        }
    });
    written.exclude_modules = None;
    written.layers_to_transform = None;
    written.layers_pattern = None;
    written.magnitude_only_modules = only_magnitude
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();

    written.rank_pattern = Patterns::default();
    written.alpha_pattern = Patterns::default();
    for (name, layer) in &low_rank {
        if layer.rank != written.r {
            written
                .rank_pattern
                .insert(pattern(name, &names), layer.rank);
        }
        if layer.alpha != written.lora_alpha {
            written
                .alpha_pattern
                .insert(pattern(name, &names), layer.alpha);
        }
    }
    Ok(written)
}

/// A pattern that matches `name` and none of the other names.
pub(crate) fn pattern(name: &str, names: &[&str]) -> String {
    let matches = |other: &&str| config::ends_in(name, other).unwrap_or(true);
    let alone =
        config::is_plain(name) && !names.iter().any(|other| *other != name && matches(other));
    match alone {
        true => name.to_owned(),
        false => format!("^{}", config::escape(name)),
    }
}

/// The settings as PEFT reads them, keys sorted.
pub(super) fn json(mut config: DoraConfig) -> String {
    let defaults = [
        ("peft_type", json!("LORA")),
        ("task_type", json!(null)),
        ("base_model_name_or_path", json!(null)),
        ("fan_in_fan_out", json!(false)),
        ("inference_mode", json!(true)),
        ("init_lora_weights", json!(true)),
    ];
    for (key, value) in defaults {
        config.other.entry(key.to_owned()).or_insert(value);
    }
    // A map of serde_json keeps its keys sorted.
    let value = serde_json::to_value(&config).unwrap_or_default();
    format!("{value:#}\n")
}
