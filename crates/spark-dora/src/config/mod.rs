//! Which layers are adapted, and how.
//!
//! ```text
//! DoraConfig   for a network: ranks, targets, patterns     written as PEFT's adapter_config.json
//!    | layer("blocks.3.fc1")     targets: which; patterns: which rank and alpha
//! LayerConfig  for one layer
//! ```

mod patterns;
mod python_regex;
mod settings;
mod targets;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{DoraError, Result};
use targets::ALL_LINEAR;

pub(crate) use patterns::ends_in;
pub use patterns::{PatternError, Patterns};
pub(crate) use python_regex::{escape, is_plain};
pub use targets::{OneOrMany, Targets};
pub(crate) use targets::{is_suffix, is_within};

/// What a layer trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Direction by low rank, and magnitude.
    #[default]
    Dora,
    /// LoRA: the low-rank update alone, without a magnitude.
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
    /// PiSSA: A and B are the largest singular values of the weight, and what remains of it is the base the
    /// layer trains on. Linear layers only; takes time like the cube of the weight's smaller side.
    Pissa,
    /// PiSSA by a randomised decomposition of so many iterations, which takes little time.
    PissaNiter(usize),
    /// OLoRA: A and B are the first rows and columns of the weight's QR decomposition, and what remains of it is
    /// the base the layer trains on. Linear layers only.
    Olora,
}

impl Init {
    /// Whether A and B are taken from the weight, so that the base changes.
    pub(crate) fn is_of_weight(self) -> bool {
        matches!(self, Self::Pissa | Self::PissaNiter(_) | Self::Olora)
    }

    /// PEFT's name of a way that [`Init::is_of_weight`].
    pub(crate) fn name(self) -> Option<String> {
        match self {
            Self::Kaiming | Self::Gaussian | Self::Random => None,
            Self::Pissa => Some("pissa".to_owned()),
            Self::PissaNiter(iterations) => Some(format!("pissa_niter_{iterations}")),
            Self::Olora => Some("olora".to_owned()),
        }
    }

    /// The reverse of [`Init::name`].
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        match name {
            "pissa" => Some(Self::Pissa),
            "olora" => Some(Self::Olora),
            other => {
                let iterations = other.strip_prefix("pissa_niter_")?;
                Some(Self::PissaNiter(iterations.parse().ok()?))
            }
        }
    }
}

/// Which biases are trained beside the adapters: PEFT's `bias`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Biases {
    /// None: all stay as they are.
    #[default]
    None,
    /// Those of every layer that is offered, adapted or not. PEFT means every bias of the network, normalisations' too.
    All,
    /// Those of adapted layers.
    LoraOnly,
}

impl Biases {
    /// Whether the bias of a layer is trained.
    pub(crate) fn trains(self, is_adapted: bool) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::LoraOnly => is_adapted,
        }
    }
}

/// How one layer is adapted.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerConfig {
    /// Which variables the layer gets: A and B, a magnitude, or all three.
    pub method: Method,
    /// Rows of A, at most the smaller of the weight's rows and columns; unused if only the
    /// magnitude is trained.
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

    /// Trains the magnitude alone: rank 0, no A and no B.
    pub fn magnitude_only() -> Self {
        Self {
            method: Method::MagnitudeOnly,
            ..Self::dora(0)
        }
    }

    /// Factor `s` of the update `B A`, from rank, alpha and [`LayerConfig::rslora`]; 1 at rank 0.
    pub fn scaling(&self) -> f64 {
        match (self.rank, self.rslora) {
            (0, _) => 1.0,
            (rank, true) => self.alpha / (rank as f64).sqrt(),
            (rank, false) => self.alpha / rank as f64,
        }
    }

    /// Refuses numbers out of range.
    pub(crate) fn check_numbers(&self, layer: &str) -> Result<()> {
        let named = |setting: &str| match layer {
            "" => setting.to_owned(),
            layer => format!("{setting} of `{layer}`"),
        };
        check_number(
            named("lora_alpha"),
            self.alpha,
            self.alpha.is_finite(),
            FINITE,
        )?;
        check_scaling(named("lora_alpha"), self.alpha, self.scaling())?;
        check_dropout(named("lora_dropout"), self.dropout)
    }

    /// Refuses what cannot be built.
    pub(crate) fn check(&self, layer: &str, rows: usize, columns: usize) -> Result<()> {
        self.check_numbers(layer)?;
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

const FINITE: &str = "a finite number";

fn check_number(name: impl Into<String>, value: f64, good: bool, want: &'static str) -> Result<()> {
    match good {
        true => Ok(()),
        false => Err(DoraError::Setting {
            name: name.into(),
            value,
            want,
        }),
    }
}

fn check_dropout(name: impl Into<String>, dropout: f64) -> Result<()> {
    check_number(name, dropout, (0.0..1.0).contains(&dropout), "in 0..1")
}

/// Refuses a factor of `B A` that f32, in which layers compute, does not hold. `value` is what it came from.
pub(crate) fn check_scaling(name: impl Into<String>, value: f64, scaling: f64) -> Result<()> {
    let want = "a number whose scale, alpha / rank, f32 can hold";
    check_number(name, value, (scaling as f32).is_finite(), want)
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
/// assert_eq!(config.layer("trunk.fc1")?.unwrap().rank, 8);
/// assert_eq!(config.layer("head.fc2")?.unwrap().rank, 4);
/// assert!(config.layer("norm")?.is_none());
/// # Ok::<(), spark_dora::DoraError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DoraConfig {
    /// Rank of layers without a pattern.
    #[serde(default = "peft_default_rank")]
    pub r: usize,
    /// Alpha of layers without a pattern.
    #[serde(default = "peft_default_alpha", serialize_with = "whole_if_possible")]
    pub lora_alpha: f64,
    /// Dropout of all layers, as [`LayerConfig::dropout`], in `0..1`.
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
    /// Rank-stabilised scaling for all layers, as [`LayerConfig::rslora`].
    #[serde(default)]
    pub use_rslora: bool,
    /// Of the modules that `target_modules` lists by a shorter name, the indices of those that are adapted;
    /// without any, all are.
    #[serde(default)]
    pub layers_to_transform: Option<OneOrMany<i64>>,
    /// What stands before such an index in a module's name, as regular expressions.
    #[serde(default)]
    pub layers_pattern: Option<OneOrMany<String>>,
    /// Ranks by name, suffix or regular expression; the first that matches decides.
    #[serde(default)]
    pub rank_pattern: Patterns<usize>,
    /// Alphas by name, suffix or regular expression; the first that matches decides.
    #[serde(default, serialize_with = "all_whole_if_possible")]
    pub alpha_pattern: Patterns<f64>,
    /// Modules that are trained whole and saved beside the adapter: those whose name ends in one of these
    /// texts, and all within them. Nothing within them is adapted.
    #[serde(default)]
    pub modules_to_save: Option<Vec<String>>,
    /// Which biases are trained too. Not beside `modules_to_save`.
    #[serde(default, deserialize_with = "biases")]
    pub bias: Biases,
    /// Layers that train only their magnitude. PEFT has no such thing and ignores the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub magnitude_only_modules: Vec<String>,
    /// How A and B begin.
    #[serde(skip, default)]
    pub init: Init,
    /// Of the initial values and the dropout. Kept in the tensor file, so that a training goes on with it.
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
            layers_to_transform: None,
            layers_pattern: None,
            rank_pattern: Patterns::default(),
            alpha_pattern: Patterns::default(),
            modules_to_save: None,
            bias: Biases::None,
            magnitude_only_modules: Vec::new(),
            init: Init::default(),
            seed: 0,
            other: BTreeMap::new(),
        })
    }

    /// How layer `name` is adapted; nothing if it is not.
    ///
    /// # Errors
    ///
    /// [`DoraError::Unsupported`] for a pattern that would have to be matched and cannot be.
    pub fn layer(&self, name: &str) -> Result<Option<LayerConfig>> {
        if self.excludes(name)? {
            return Ok(None);
        }
        let method = if self.is_magnitude_only(name) {
            Method::MagnitudeOnly
        } else if !self.targets(name)? {
            return Ok(None);
        } else if self.use_dora {
            Method::Dora
        } else {
            Method::Lora
        };
        self.of_method(name, method).map(Some)
    }

    /// How layer `name` is adapted if it is by this method.
    pub(crate) fn of_method(&self, name: &str, method: Method) -> Result<LayerConfig> {
        let rank = found("rank_pattern", self.rank_pattern.find(name))?;
        let alpha = found("alpha_pattern", self.alpha_pattern.find(name))?;
        Ok(LayerConfig {
            method,
            rank: rank.copied().unwrap_or(self.r),
            alpha: alpha.copied().unwrap_or(self.lora_alpha),
            rslora: self.use_rslora,
            dropout: self.lora_dropout,
            init: self.init,
            seed: self.seed,
        })
    }

    /// Whether a pattern of a setting matches `name`.
    pub(crate) fn matches(&self, setting: &'static str, pattern: &str, name: &str) -> Result<bool> {
        found(setting, ends_in(pattern, name))
    }

    /// Whether `name` is among the layers that train only their magnitude.
    pub(crate) fn is_magnitude_only(&self, name: &str) -> bool {
        let mut names = self.magnitude_only_modules.iter();
        names.any(|n| is_suffix(name, n))
    }

    /// The modules trained whole, as the settings name them.
    pub(crate) fn to_save(&self) -> &[String] {
        self.modules_to_save.as_deref().unwrap_or_default()
    }

    /// Whether module `name` is trained whole: itself or a module that it is in ends in an entry of `modules_to_save`.
    pub fn saves(&self, name: &str) -> bool {
        self.to_save()
            .iter()
            .any(|end| targets::is_within(name, end))
    }

    /// Whether `exclude_modules` means `name`, or it is within a module that is trained whole.
    pub(crate) fn excludes(&self, name: &str) -> Result<bool> {
        for module in self.to_save() {
            if found("modules_to_save", patterns::is_inside(module, name))? {
                return Ok(true);
            }
        }
        match &self.exclude_modules {
            // PEFT takes an empty text for none.
            None => Ok(false),
            Some(Targets::Text(text)) if text.is_empty() => Ok(false),
            Some(targets) => found("exclude_modules", targets.matches(name)),
        }
    }

    /// Whether `target_modules` means `name`, of those that are not excluded.
    pub(crate) fn targets(&self, name: &str) -> Result<bool> {
        let Some(targets) = &self.target_modules else {
            return Ok(false);
        };
        if !found("target_modules", targets.matches(name))? {
            return Ok(false);
        }
        let indices = self.layers_to_transform.as_ref().map(OneOrMany::values);
        match (targets, indices) {
            (Targets::Names(names), Some(indices))
                if !indices.is_empty() && !names.iter().any(|n| n == name) =>
            {
                let patterns = self.layers_pattern.as_ref().map(OneOrMany::values);
                let patterns: &[String] = match patterns {
                    None => &[],
                    Some([only]) if only.is_empty() => &[],
                    Some(patterns) => patterns,
                };
                let meant = targets::is_transformed(name, indices, patterns);
                found("layers_pattern", meant)
            }
            _ => Ok(true),
        }
    }

    /// Refuses settings this crate would have to ignore to go on.
    ///
    /// # Errors
    ///
    /// [`DoraError::Setting`] for numbers out of range, [`DoraError::RankZero`] for rank 0,
    /// [`DoraError::Unsupported`] for what PEFT has and this crate has not, patterns that cannot be matched
    /// among it.
    pub fn check(&self) -> Result<()> {
        check_dropout("lora_dropout", self.lora_dropout)?;
        if self.r == 0 || self.rank_pattern.iter().any(|(_, &rank)| rank == 0) {
            return Err(DoraError::RankZero {
                layer: "r".to_owned(),
            });
        }
        // Which rank goes with an alpha is known layer by layer; here, what no rank would make good.
        let ranks = self.rank_pattern.iter().map(|(_, &rank)| rank);
        let largest = ranks.chain([self.r]).max().unwrap_or(1) as f64;
        let divisor = if self.use_rslora {
            largest.sqrt()
        } else {
            largest
        };
        let patterns = self.alpha_pattern.iter();
        let patterns = patterns.map(|(p, &alpha)| (format!("alpha_pattern of `{p}`"), alpha));
        for (name, alpha) in patterns.chain([("lora_alpha".to_owned(), self.lora_alpha)]) {
            check_number(name.as_str(), alpha, alpha.is_finite(), FINITE)?;
            check_scaling(name, alpha, alpha / divisor)?;
        }
        found("rank_pattern", self.rank_pattern.check())?;
        found("alpha_pattern", self.alpha_pattern.check())?;
        self.excludes("")?;
        for end in self.to_save() {
            if targets::PEFTS_OWN.iter().any(|own| own.ends_with(end)) {
                return Err(DoraError::Unsupported {
                    name: "modules_to_save",
                    value: end.clone(),
                    reason: "it also means modules inside PEFT's adapted layers",
                });
            }
        }
        if self.bias != Biases::None && !self.to_save().is_empty() {
            return Err(DoraError::Unsupported {
                name: "bias",
                value: format!("{:?}", self.bias),
                reason: "beside modules_to_save, whose biases PEFT's file then has twice",
            });
        }
        if let Some(targets) = &self.target_modules {
            found("target_modules", targets.matches(""))?;
            let restricted = [
                ("layers_to_transform", self.layers_to_transform.is_some()),
                ("layers_pattern", self.layers_pattern.is_some()),
            ];
            for (name, is_given) in restricted {
                if is_given && matches!(targets, Targets::Text(_)) {
                    return Err(DoraError::Unsupported {
                        name,
                        value: "given".to_owned(),
                        reason: "PEFT has it beside a list of target_modules only",
                    });
                }
            }
        }
        if let Some(patterns) = &self.layers_pattern {
            let tried = targets::is_transformed("", &[], patterns.values());
            found("layers_pattern", tried)?;
        }
        settings::check(&self.other)
    }

    /// Names of the settings that act and differ from `other`'s.
    pub(crate) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let pairs = [
            ("r", self.r == other.r),
            ("lora_alpha", self.lora_alpha == other.lora_alpha),
            ("lora_dropout", self.lora_dropout == other.lora_dropout),
            (
                "target_modules",
                self.target_modules == other.target_modules,
            ),
            (
                "exclude_modules",
                self.exclude_modules == other.exclude_modules,
            ),
            ("use_dora", self.use_dora == other.use_dora),
            ("use_rslora", self.use_rslora == other.use_rslora),
            (
                "layers_to_transform",
                self.layers_to_transform == other.layers_to_transform,
            ),
            (
                "layers_pattern",
                self.layers_pattern == other.layers_pattern,
            ),
            ("rank_pattern", self.rank_pattern == other.rank_pattern),
            ("alpha_pattern", self.alpha_pattern == other.alpha_pattern),
            ("modules_to_save", self.to_save() == other.to_save()),
            ("bias", self.bias == other.bias),
            (
                "magnitude_only_modules",
                self.magnitude_only_modules == other.magnitude_only_modules,
            ),
        ];
        let differing = pairs.into_iter().filter(|(_, equal)| !equal);
        differing.map(|(name, _)| name).collect()
    }
}

/// What matching the patterns of a setting gave.
fn found<T>(name: &'static str, result: std::result::Result<T, PatternError>) -> Result<T> {
    result.map_err(|error| DoraError::Unsupported {
        name,
        value: error.pattern,
        reason: error.reason,
    })
}

/// PEFT's texts; nothing is none of them.
fn biases<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Biases, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

fn peft_default_rank() -> usize {
    8
}

fn peft_default_alpha() -> f64 {
    8.0
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
    values: &Patterns<f64>,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    to.collect_map(values.iter().map(|(name, &value)| (name, number(value))))
}

/// Makes a [`DoraConfig`] step by step; [`DoraConfigBuilder::build`] checks it.
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

    /// Adapts modules of these whole names; one that merely ends in such a name is not meant.
    #[must_use]
    pub fn exact_targets<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        let names: Vec<String> = names.into_iter().map(escape).collect();
        self.0.target_modules = Some(match names.is_empty() {
            true => Targets::Names(names),
            false => Targets::Text(names.join("|")),
        });
        self
    }

    /// Leaves such modules alone.
    #[must_use]
    pub fn exclude<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        self.0.exclude_modules = Some(Targets::Names(names));
        self
    }

    /// Trains such biases beside the adapters.
    #[must_use]
    pub fn biases(mut self, biases: Biases) -> Self {
        self.0.bias = biases;
        self
    }

    /// Trains such modules whole, as PEFT's `modules_to_save`: those whose name ends in one of these texts
    /// (in the middle of a part too), and everything within them.
    #[must_use]
    pub fn modules_to_save<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.0.modules_to_save = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Trains only the magnitude of such modules.
    #[must_use]
    pub fn magnitude_only<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.0.magnitude_only_modules = names.into_iter().map(Into::into).collect();
        self
    }

    /// Rank of modules that PEFT's rule finds by this name, suffix or regular expression: of several that
    /// match, the one given first decides.
    #[must_use]
    pub fn rank(mut self, name: impl Into<String>, rank: usize) -> Self {
        self.0.rank_pattern.insert(name.into(), rank);
        self
    }

    /// Alpha of such modules; see [`DoraConfigBuilder::rank`].
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

    /// Drops inputs of the update with this probability in `forward_train`.
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

    /// Of the initial values and the dropout.
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
