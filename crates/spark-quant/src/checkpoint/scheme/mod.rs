//! What a configuration says of the weights: layout, number format and scales of every module.
//!
//! ```text
//! config.json quantization_config --quant_method--> layout --fields--> groups { modules -> expected }
//! tensors of a module + expected --> weight, or an error that names the setting they contradict
//! ```
//!
//! Nothing is guessed: a method, a field or a value that is not known here is refused by name. Sources:
//! compressed-tensors 0.20 (`quantization/quant_config.py`, `quant_args.py`), ModelOpt 0.47
//! (`torch/export/quant_utils.py`, `convert_hf_config.py`), the `fp8` configuration of DeepSeek-V3.

mod compressed;
mod fields;
mod fp8;
mod modelopt;
mod pattern;
mod rules;

use serde_json::Value;

use crate::error::QuantError;

use fields::setting;

pub(super) use rules::{Expected, Grid, InputRule, Scheme};

impl Scheme {
    /// Reads a `quantization_config`; `quant_method` says how.
    pub(super) fn parse(config: &Value) -> Result<Self, QuantError> {
        let method = &config["quant_method"];
        match method.as_str() {
            Some("compressed-tensors") => compressed::parse(config),
            Some("modelopt") => modelopt::parse(config),
            Some("fp8") => fp8::parse(config),
            _ => Err(setting(
                method.as_str().unwrap_or("unknown"),
                "quant_method",
                method,
                "`compressed-tensors`, `modelopt` or `fp8`",
            )),
        }
    }

    /// Reads the `hf_quant_config.json` that ModelOpt writes.
    pub(super) fn parse_hf_quant_config(config: &Value) -> Result<Self, QuantError> {
        modelopt::parse_hf(config)
    }
}
