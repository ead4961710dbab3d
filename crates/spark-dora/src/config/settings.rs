//! Settings of PEFT that this crate does not act on: refused, without effect here, or unknown.
//!
//! Keys of `LoraConfig` of PEFT 0.21.2. A key that neither it nor this crate knows may change what a layer
//! computes in a version to come; it is kept, and a warning names it, as PEFT does itself.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::{DoraError, Result};

/// Texts that some settings may have.
const ONLY: &[(&str, &[&str], &str)] = &[
    ("peft_type", &["LORA"], "other adapters are not read"),
    (
        "init_lora_weights",
        &["gaussian", "eva", "orthogonal", "mica"],
        "its tensors are for a changed base; convert it in PEFT, by path_initial_model_for_weight_conversion",
    ),
];

/// Settings that change what a layer computes and that this crate does not implement.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("fan_in_fan_out", "weights are [out, in] here"),
    ("lora_bias", "B has no bias here"),
    ("use_qalora", "inputs are not pooled here"),
    ("use_bdlora", "A and B are not block-diagonal here"),
    ("target_parameters", "only whole modules are adapted"),
    ("layer_replication", "layers are not copied here"),
    (
        "trainable_token_indices",
        "rows of an embedding are not trained alone here",
    ),
    (
        "alora_invocation_tokens",
        "an adapter acts on every token here",
    ),
    ("ensure_weight_tying", "layers do not share adapters here"),
    ("arrow_config", "an adapter is not routed here"),
    (
        "kasa_config",
        "it changes the base weights, which are kept here",
    ),
    ("monteclora_config", "adapters are not sampled here"),
    ("velora_config", "gradients are exact here"),
    ("megatron_config", "Megatron's layers are not known here"),
];

/// Settings that change nothing here: notes, and details of initial values that were drawn already.
const WITHOUT_EFFECT: &[&str] = &[
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "eva_config",
    "inference_mode",
    "loftq_config",
    "lora_ga_config",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "task_type",
];

/// Whether a setting is off.
fn is_off(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
        _ => false,
    }
}

/// Refuses settings that would have to be ignored, and warns of those nobody knows.
pub(super) fn check(other: &BTreeMap<String, Value>) -> Result<()> {
    for (name, value) in other.iter().filter(|(_, value)| !is_off(value)) {
        if let Some((name, reason)) = UNSUPPORTED.iter().find(|(n, _)| n == name) {
            return Err(unsupported(name, value, reason));
        }
        if let Some((name, allowed, reason)) = ONLY.iter().find(|(n, ..)| n == name) {
            let is_allowed = match value {
                Value::String(text) => allowed.contains(&text.as_str()),
                // `init_lora_weights` is true by default; the others are texts.
                other => *name == "init_lora_weights" && *other == Value::Bool(true),
            };
            if !is_allowed {
                return Err(unsupported(name, value, reason));
            }
            continue;
        }
        if !WITHOUT_EFFECT.contains(&name.as_str()) {
            tracing::warn!("adapter setting {name} = {value} is not known and has no effect");
        }
    }
    Ok(())
}

fn unsupported(name: &'static str, value: &Value, reason: &'static str) -> DoraError {
    let value = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    DoraError::Unsupported {
        name,
        value,
        reason,
    }
}
