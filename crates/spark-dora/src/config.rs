//! Which layers are adapted, and how.
//!
//! ```text
//! DoraConfig   for a network: ranks, targets, patterns     written as PEFT's adapter_config.json
//!    | layer("blocks.3.fc1")
//! LayerConfig  for one layer
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{DoraError, Result};

/// What a layer trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Direction by low rank, and magnitude.
    #[default]
    Dora,
    /// Low rank only.
    Lora,
    /// Magnitude only: the direction stays the base's.
    MagnitudeOnly,
}

/// How A and B begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Init {
    /// A uniform in `1 / sqrt(inputs)`, B zero: the layer begins as its base.
    #[default]
    Kaiming,
    /// A normal with deviation `1 / rank`, B zero: the layer begins as its base.
    Gaussian,
    /// A and B uniform: the layer does not begin as its base. For tests.
    Random,
}

/// How one layer is adapted.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerConfig {
    /// What is trained.
    pub method: Method,
    /// Rows of A.
    pub rank: usize,
    /// The update is scaled by `alpha / rank`, or `alpha / sqrt(rank)`.
    pub alpha: f64,
    /// Rank-stabilised scaling, `alpha / sqrt(rank)`: D. Kalajdzievski, arXiv 2312.03732.
    pub rslora: bool,
    /// Probability with which an input of the update is dropped while training.
    pub dropout: f64,
    /// How A and B begin.
    pub init: Init,
    /// Of the initial values and the dropout.
    pub seed: u64,
}

impl LayerConfig {
    /// DoRA of this rank with `alpha = 2 rank`.
    pub fn dora(rank: usize) -> Self {
        Self {
            method: Method::Dora,
            rank,
            alpha: 2.0 * rank as f64,
            rslora: false,
            dropout: 0.0,
            init: Init::Kaiming,
            seed: 0,
        }
    }

    /// LoRA of this rank with `alpha = 2 rank`.
    pub fn lora(rank: usize) -> Self {
        Self {
            method: Method::Lora,
            ..Self::dora(rank)
        }
    }

    /// Only the magnitude.
    pub fn magnitude_only() -> Self {
        Self {
            method: Method::MagnitudeOnly,
            ..Self::dora(0)
        }
    }

    /// `s`.
    pub fn scaling(&self) -> f64 {
        match (self.rank, self.rslora) {
            (0, _) => 1.0,
            (rank, true) => self.alpha / (rank as f64).sqrt(),
            (rank, false) => self.alpha / rank as f64,
        }
    }

    /// Refuses numbers out of range.
    pub(crate) fn check_numbers(&self) -> Result<()> {
        check_number(
            "lora_alpha",
            self.alpha,
            self.alpha.is_finite(),
            "a finite number",
        )?;
        let dropout = (0.0..1.0).contains(&self.dropout);
        check_number("lora_dropout", self.dropout, dropout, "in 0..1")
    }

    /// Refuses what cannot be built.
    pub(crate) fn check(&self, layer: &str, rows: usize, columns: usize) -> Result<()> {
        self.check_numbers()?;
        if self.method == Method::MagnitudeOnly {
            return Ok(());
        }
        if self.rank == 0 {
            return Err(DoraError::RankZero {
                layer: layer.to_owned(),
            });
        }
        let limit = rows.min(columns);
        if self.rank > limit {
            return Err(DoraError::RankTooLarge {
                layer: layer.to_owned(),
                rank: self.rank,
                limit,
                rows,
                columns,
            });
        }
        Ok(())
    }
}

fn check_number(name: &'static str, value: f64, good: bool, want: &'static str) -> Result<()> {
    match good {
        true => Ok(()),
        false => Err(DoraError::Setting { name, value, want }),
    }
}

/// Which modules are meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Targets {
    /// Modules of these names, or whose name ends in `.` and one of them.
    Names(Vec<String>),
    /// `"all-linear"`, or a regular expression, which this crate keeps but does not match.
    Text(String),
}

impl Targets {
    /// Whether module `name` is meant.
    pub(crate) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Names(names) => names.iter().any(|n| is_suffix(name, n)),
            Self::Text(text) => text == ALL_LINEAR,
        }
    }
}

/// PEFT's word for every layer that can be adapted.
const ALL_LINEAR: &str = "all-linear";

/// Whether `suffix` is `name` or its last dotted parts.
fn is_suffix(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// An adapter's settings, under PEFT's names.
///
/// Keys this crate does not know are kept in `other` and written back.
///
/// # Examples
///
/// ```
/// use spark_dora::DoraConfig;
/// let config = DoraConfig::builder(8)
///     .targets(["fc1", "fc2"])
///     .rank("head.fc2", 4)
///     .build()?;
/// assert_eq!(config.layer("trunk.fc1").unwrap().rank, 8);
/// assert_eq!(config.layer("head.fc2").unwrap().rank, 4);
/// assert!(config.layer("norm").is_none());
/// # Ok::<(), spark_dora::DoraError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DoraConfig {
    /// Rank of layers without a pattern.
    pub r: usize,
    /// Alpha of layers without a pattern.
    #[serde(serialize_with = "whole_if_possible")]
    pub lora_alpha: f64,
    /// See [`LayerConfig::dropout`].
    #[serde(default)]
    pub lora_dropout: f64,
    /// Layers that are adapted.
    pub target_modules: Option<Targets>,
    /// Layers that are not, whatever `target_modules` says.
    #[serde(default)]
    pub exclude_modules: Option<Targets>,
    /// DoRA, or plain LoRA.
    #[serde(default)]
    pub use_dora: bool,
    /// See [`LayerConfig::rslora`].
    #[serde(default)]
    pub use_rslora: bool,
    /// Ranks by name or suffix.
    #[serde(default)]
    pub rank_pattern: BTreeMap<String, usize>,
    /// Alphas by name or suffix.
    #[serde(default, serialize_with = "all_whole_if_possible")]
    pub alpha_pattern: BTreeMap<String, f64>,
    /// Layers that train only their magnitude. PEFT has no such thing and ignores the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub magnitude_only_modules: Vec<String>,
    /// How A and B begin.
    #[serde(skip, default)]
    pub init: Init,
    /// Of the initial values.
    #[serde(skip, default)]
    pub seed: u64,
    /// Everything else a file holds.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

impl DoraConfig {
    /// DoRA of rank `r`, `alpha = 2 r`, on every layer offered.
    pub fn builder(r: usize) -> DoraConfigBuilder {
        DoraConfigBuilder(Self {
            r,
            lora_alpha: 2.0 * r as f64,
            lora_dropout: 0.0,
            target_modules: Some(Targets::Text(ALL_LINEAR.to_owned())),
            exclude_modules: None,
            use_dora: true,
            use_rslora: false,
            rank_pattern: BTreeMap::new(),
            alpha_pattern: BTreeMap::new(),
            magnitude_only_modules: Vec::new(),
            init: Init::default(),
            seed: 0,
            other: BTreeMap::new(),
        })
    }

    /// How layer `name` is adapted; nothing if it is not.
    pub fn layer(&self, name: &str) -> Option<LayerConfig> {
        let excluded = self
            .exclude_modules
            .as_ref()
            .is_some_and(|t| t.matches(name));
        if excluded {
            return None;
        }
        let magnitude_only = self
            .magnitude_only_modules
            .iter()
            .any(|n| is_suffix(name, n));
        let meant = self
            .target_modules
            .as_ref()
            .is_some_and(|t| t.matches(name));
        if !meant && !magnitude_only {
            return None;
        }
        let method = match (magnitude_only, self.use_dora) {
            (true, _) => Method::MagnitudeOnly,
            (false, true) => Method::Dora,
            (false, false) => Method::Lora,
        };
        Some(LayerConfig {
            method,
            rank: pattern(&self.rank_pattern, name).unwrap_or(self.r),
            alpha: pattern(&self.alpha_pattern, name).unwrap_or(self.lora_alpha),
            rslora: self.use_rslora,
            dropout: self.lora_dropout,
            init: self.init,
            seed: self.seed,
        })
    }

    /// Refuses settings this crate would have to ignore to go on.
    ///
    /// # Errors
    ///
    /// [`DoraError::Setting`] for numbers out of range, [`DoraError::RankZero`] for rank 0,
    /// [`DoraError::Unsupported`] for what PEFT has and this crate has not.
    pub fn check(&self) -> Result<()> {
        if let Some(Targets::Text(text)) = &self.target_modules
            && text != ALL_LINEAR
        {
            return unsupported(
                "target_modules",
                text,
                "it is a regular expression; list names",
            );
        }
        self.check_readable()
    }

    /// The same for settings that come with tensors, which say themselves which layers are meant.
    pub(crate) fn check_readable(&self) -> Result<()> {
        let dropout = (0.0..1.0).contains(&self.lora_dropout);
        check_number("lora_dropout", self.lora_dropout, dropout, "in 0..1")?;
        let alphas = std::iter::once(&self.lora_alpha).chain(self.alpha_pattern.values());
        for &alpha in alphas {
            check_number("lora_alpha", alpha, alpha.is_finite(), "a finite number")?;
        }
        if self.r == 0 || self.rank_pattern.values().any(|&rank| rank == 0) {
            return Err(DoraError::RankZero {
                layer: "r".to_owned(),
            });
        }
        let patterns = self.rank_pattern.keys().chain(self.alpha_pattern.keys());
        for pattern in patterns {
            if pattern.contains(|c: char| "^$*+?()[]{}|\\".contains(c)) {
                let reason = "it is a regular expression; name modules";
                return unsupported("rank_pattern or alpha_pattern", pattern, reason);
            }
        }
        for (name, reason) in UNSUPPORTED {
            match self.other.get(*name) {
                None | Some(serde_json::Value::Null | serde_json::Value::Bool(false)) => {}
                Some(value) => return unsupported(name, &value.to_string(), reason),
            }
        }
        for (name, allowed, reason) in ONLY {
            match self.other.get(*name) {
                Some(serde_json::Value::String(text)) if !allowed.contains(&text.as_str()) => {
                    return unsupported(name, text, reason);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Texts that some settings may have.
const ONLY: &[(&str, &[&str], &str)] = &[
    ("peft_type", &["LORA"], "other adapters are not read"),
    ("bias", &["none"], "only adapter tensors are stored"),
    (
        "init_lora_weights",
        &["gaussian", "eva", "orthogonal"],
        "it changes the base weights, which are kept here",
    ),
];

/// Settings of PEFT that change what a layer computes and that this crate does not implement.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("fan_in_fan_out", "weights are [out, in] here"),
    ("lora_bias", "B has no bias here"),
    ("use_qalora", "inputs are not pooled here"),
    ("use_bdlora", "A and B are not block-diagonal here"),
    ("target_parameters", "only whole modules are adapted"),
    ("layer_replication", "layers are not copied here"),
    ("modules_to_save", "only adapter tensors are stored"),
];

fn unsupported<T>(name: &'static str, value: &str, reason: &'static str) -> Result<T> {
    Err(DoraError::Unsupported {
        name,
        value: value.to_owned(),
        reason,
    })
}

/// The value for `name`: that of the longest pattern it ends in.
fn pattern<T: Copy>(patterns: &BTreeMap<String, T>, name: &str) -> Option<T> {
    let matching = patterns.iter().filter(|(p, _)| is_suffix(name, p));
    matching
        .max_by_key(|(p, _)| p.len())
        .map(|(_, value)| *value)
}

/// A number as PEFT writes it: `8`, not `8.0`.
fn number(value: f64) -> serde_json::Number {
    let whole = (value.fract() == 0.0 && value.abs() < 1e15).then_some(value as i64);
    let number = whole.map(serde_json::Number::from);
    // Settings that are not finite were refused.
    number
        .or_else(|| serde_json::Number::from_f64(value))
        .unwrap_or_else(|| 0.into())
}

fn whole_if_possible<S: serde::Serializer>(
    value: &f64,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    number(*value).serialize(to)
}

fn all_whole_if_possible<S: serde::Serializer>(
    values: &BTreeMap<String, f64>,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    to.collect_map(values.iter().map(|(name, &value)| (name, number(value))))
}

/// Makes a [`DoraConfig`].
#[derive(Debug, Clone)]
pub struct DoraConfigBuilder(DoraConfig);

impl DoraConfigBuilder {
    /// Alpha of layers without a pattern.
    #[must_use]
    pub fn alpha(mut self, alpha: f64) -> Self {
        self.0.lora_alpha = alpha;
        self
    }

    /// Adapts modules of these names, or whose name ends in `.` and one of them.
    #[must_use]
    pub fn targets<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        self.0.target_modules = Some(Targets::Names(names));
        self
    }

    /// Leaves such modules alone.
    #[must_use]
    pub fn exclude<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        self.0.exclude_modules = Some(Targets::Names(names));
        self
    }

    /// Trains only the magnitude of such modules.
    #[must_use]
    pub fn magnitude_only<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.0.magnitude_only_modules = names.into_iter().map(Into::into).collect();
        self
    }

    /// Rank of modules named or ending so.
    #[must_use]
    pub fn rank(mut self, name: impl Into<String>, rank: usize) -> Self {
        self.0.rank_pattern.insert(name.into(), rank);
        self
    }

    /// Alpha of modules named or ending so.
    #[must_use]
    pub fn alpha_of(mut self, name: impl Into<String>, alpha: f64) -> Self {
        self.0.alpha_pattern.insert(name.into(), alpha);
        self
    }

    /// Scales by `alpha / sqrt(rank)`.
    #[must_use]
    pub fn rslora(mut self) -> Self {
        self.0.use_rslora = true;
        self
    }

    /// Plain LoRA, without magnitude.
    #[must_use]
    pub fn lora(mut self) -> Self {
        self.0.use_dora = false;
        self
    }

    /// Drops inputs of the update with this probability while training.
    #[must_use]
    pub fn dropout(mut self, probability: f64) -> Self {
        self.0.lora_dropout = probability;
        self
    }

    /// How A and B begin.
    #[must_use]
    pub fn init(mut self, init: Init) -> Self {
        self.0.init = init;
        self
    }

    /// Of the initial values.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.0.seed = seed;
        self
    }

    /// The configuration.
    ///
    /// # Errors
    ///
    /// As [`DoraConfig::check`].
    pub fn build(self) -> Result<DoraConfig> {
        self.0.check()?;
        Ok(self.0)
    }
}
