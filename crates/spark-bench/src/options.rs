//! What a benchmark is asked to do, and the words users type for it.

use std::path::PathBuf;
use std::str::FromStr;

use spark_hal::Precision;
use spark_hal::UnknownPrecision;
use spark_hal::config::{DeviceChoice, PrecisionChoice};
use spark_onnx::cpu::Isa;
use spark_onnx::precision::{Activations, Bf16Products, Fp16Products};

use crate::error::BenchError;

/// What to measure, and how often.
///
/// # Examples
///
/// ```
/// use spark_bench::BenchOptions;
/// use spark_onnx::Precision;
///
/// let options = BenchOptions::default()
///     .with_models(["driving_vision.onnx".into()])
///     .with_precisions([Precision::Fp32, Precision::Bf16])
///     .with_runs(50);
/// assert!(options.models_dir.is_none());
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BenchOptions {
    /// ONNX files; with `models_dir` also empty, the zoo.
    pub models: Vec<PathBuf>,
    /// A folder with openpilot's models under their names there.
    pub models_dir: Option<PathBuf>,
    /// Number formats, each measured on its own; none means the one the environment asks for
    /// (`OPENPILOT_DGX_PRECISION`), fp32 where that says `auto`.
    pub precisions: Vec<Precision>,
    /// Also a mix of formats per layer with at least this signal-to-error ratio at the outputs, in
    /// decibels.
    pub mix: Option<f64>,
    /// Also with what a calibration of the one model chose.
    pub calibration: Option<PathBuf>,
    /// How activations enter the convolutions and matmuls of fp8 and fp4.
    pub activations: Activations,
    /// How convolutions and matmuls in bf16 are computed.
    pub bf16_products: Bf16Products,
    /// How convolutions and matmuls in fp16 are computed.
    pub fp16_products: Fp16Products,
    /// Whether to list every layer with its format and the reason for it.
    pub explain: bool,
    /// Whether to time every layer and compare it with what the machine can do.
    pub profile: bool,
    /// Where to write a timeline of a few runs, in Chrome's trace format.
    pub trace: Option<PathBuf>,
    /// Synthetic pictures to drive through vision and policy in every precision, compared with
    /// fp32, which is then measured as well; 0 for none.
    pub drive_frames: usize,
    /// Where to run; `None` leaves it to the environment (`SPARK_DEVICE`, `CUDA`).
    pub device: Option<DeviceChoice>,
    /// Timed runs per model; at least one.
    pub runs: usize,
    /// Runs before them that are not timed.
    pub warmup: usize,
    /// Threads; `None` leaves the choice to the runner.
    pub threads: Option<usize>,
    /// Instruction set; `None` for the best one of this processor.
    pub isa: Option<Isa>,
    /// Inputs to use instead of made-up ones.
    pub inputs: Option<PathBuf>,
    /// Where to write what the models gave.
    pub dump_outputs: Option<PathBuf>,
    /// Inputs with the outputs they must give.
    pub compare: Option<PathBuf>,
    /// Seed of the zoo's weights and of made-up inputs.
    pub seed: u64,
}

impl Default for BenchOptions {
    fn default() -> Self {
        Self {
            models: Vec::new(),
            models_dir: None,
            precisions: Vec::new(),
            mix: None,
            calibration: None,
            activations: Activations::Quantised,
            bf16_products: Bf16Products::Fastest,
            fp16_products: Fp16Products::Fastest,
            explain: false,
            profile: false,
            trace: None,
            drive_frames: 0,
            device: None,
            runs: 100,
            warmup: 20,
            threads: None,
            isa: None,
            inputs: None,
            dump_outputs: None,
            compare: None,
            seed: 0,
        }
    }
}

impl BenchOptions {
    /// With these ONNX files.
    #[must_use]
    pub fn with_models(mut self, models: impl Into<Vec<PathBuf>>) -> Self {
        self.models = models.into();
        self
    }

    /// With openpilot's models in this folder.
    #[must_use]
    pub fn with_models_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.models_dir = Some(folder.into());
        self
    }

    /// With these number formats, each measured on its own.
    #[must_use]
    pub fn with_precisions(mut self, precisions: impl Into<Vec<Precision>>) -> Self {
        self.precisions = precisions.into();
        self
    }

    /// With this many pictures driven through vision and policy; 0 for none.
    #[must_use]
    pub fn with_drive_frames(mut self, drive_frames: usize) -> Self {
        self.drive_frames = drive_frames;
        self
    }

    /// With this many timed runs per model.
    #[must_use]
    pub fn with_runs(mut self, runs: usize) -> Self {
        self.runs = runs;
        self
    }

    /// With this many runs before those that are timed.
    #[must_use]
    pub fn with_warmup(mut self, warmup: usize) -> Self {
        self.warmup = warmup;
        self
    }

    /// With this many threads.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// With this seed of the zoo's weights and of made-up inputs.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Checks what no single option can check.
    ///
    /// # Errors
    ///
    /// [`BenchError::Usage`] for no runs, no threads, an impossible mix, a golden file without
    /// exactly one model, or a way to compute a precision that is not measured.
    pub(crate) fn validate(&self) -> Result<(), BenchError> {
        let usage = |option, reason: &str| {
            Err(BenchError::Usage {
                option,
                reason: reason.to_owned(),
            })
        };
        if self.runs == 0 {
            return usage("--runs", "0 runs cannot be timed, expected 1 or more");
        }
        if self.threads == Some(0) {
            return usage("--threads", "0 threads cannot run, expected 1 or more");
        }
        if self.mix.is_some_and(|db| !(db.is_finite() && db > 0.0)) {
            return usage("--mix", "expected a number of decibels above 0");
        }
        if self.compare.is_some() && (self.models.len() != 1 || self.models_dir.is_some()) {
            return usage(
                "--compare",
                "a golden file belongs to one model, expected exactly one --model",
            );
        }
        if self.calibration.is_some() && (self.models.len() != 1 || self.models_dir.is_some()) {
            return usage(
                "--calibration",
                "a calibration belongs to one model, expected exactly one --model",
            );
        }
        if self.compare.is_some() && self.inputs.is_some() {
            return usage(
                "--compare",
                "a golden file brings its own inputs, expected no --inputs",
            );
        }
        let settings = settings(self);
        let measures = |precisions: &[Precision]| {
            settings.iter().any(|setting| match setting {
                Setting::Uniform(precision) => precisions.contains(precision),
                // A mix and a calibration are of these and fp32.
                Setting::Mixed(_) | Setting::Calibrated => {
                    precisions.iter().any(|p| *p != Precision::Bf16)
                }
            })
        };
        if self.bf16_products != Bf16Products::Fastest && !measures(&[Precision::Bf16]) {
            return usage("--bf16", "bf16 is not measured, expected it in --precision");
        }
        if self.fp16_products != Fp16Products::Fastest && !measures(&[Precision::Fp16]) {
            return usage("--fp16", "fp16 is not measured, expected it in --precision");
        }
        let small = [Precision::Fp8, Precision::Fp4];
        if self.activations == Activations::Exact && !measures(&small) {
            let why = "neither fp8 nor fp4 is measured, expected one in --precision";
            return usage("--exact-activations", why);
        }
        Ok(())
    }
}

/// What a model is measured in: one format wherever it can be, a mix, or a calibration's choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Setting {
    /// One format, in every layer that can have it.
    Uniform(Precision),
    /// A format per layer, with at least so many decibels of signal to error.
    Mixed(f64),
    /// What a calibration chose.
    Calibrated,
}

impl Setting {
    /// Name in tables, files and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uniform(precision) => precision.name(),
            Self::Mixed(_) => "mixed",
            Self::Calibrated => "calibrated",
        }
    }

    /// Whether the others are compared with it.
    pub(crate) fn is_reference(self) -> bool {
        self == Self::Uniform(Precision::Fp32)
    }
}

/// The settings to measure: fp32 first, since it is what the others are compared with.
pub(crate) fn settings(options: &BenchOptions) -> Vec<Setting> {
    let mut precisions = match (options.precisions.as_slice(), spark_hal::config().precision) {
        ([], PrecisionChoice::Fixed(precision)) => vec![precision],
        ([], PrecisionChoice::Auto) => vec![Precision::Fp32],
        (asked, _) => asked.to_vec(),
    };
    if options.drive_frames > 0 && !precisions.contains(&Precision::Fp32) {
        precisions.push(Precision::Fp32);
    }
    precisions.sort_by_key(|&precision| precision != Precision::Fp32);
    let uniform = precisions.into_iter().map(Setting::Uniform);
    let mixed = options.mix.map(Setting::Mixed);
    let calibrated = options.calibration.as_ref().map(|_| Setting::Calibrated);
    uniform.chain(mixed).chain(calibrated).collect()
}

/// Precisions as typed: names joined by commas, or `all`. Repeated names count once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrecisionList(pub Vec<Precision>);

/// A word in a list that names no precision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}; or all")]
pub struct UnknownPrecisionList(#[source] pub UnknownPrecision);

impl FromStr for PrecisionList {
    type Err = UnknownPrecisionList;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim() == "all" {
            return Ok(Self(Precision::ALL.to_vec()));
        }
        let mut list = Vec::new();
        for word in text.split(',') {
            let precision: Precision = word.parse().map_err(UnknownPrecisionList)?;
            if !list.contains(&precision) {
                list.push(precision);
            }
        }
        Ok(Self(list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precisions_are_names_or_all() {
        let parse = |text: &str| text.parse::<PrecisionList>().map(|list| list.0);
        assert_eq!(parse("fp32"), Ok(vec![Precision::Fp32]));
        let two = vec![Precision::Fp16, Precision::Fp4];
        assert_eq!(parse("fp16, nvfp4,fp16"), Ok(two));
        assert_eq!(parse("all"), Ok(Precision::ALL.to_vec()));
        let error = parse("fp32,fp12").unwrap_err().to_string();
        assert!(error.contains("fp12") && error.contains("bf16"), "{error}");
        assert!(parse("").is_err());
    }

    #[test]
    fn ways_to_compute_sixteen_bits_are_words() {
        let ways = ["fastest", "dot", "weights", "both"].map(str::parse::<Bf16Products>);
        assert_eq!(ways[0], Ok(Bf16Products::Fastest));
        assert_eq!(ways[3], Ok(Bf16Products::MultiplyAdd));
        assert!(ways.iter().all(Result::is_ok));
        let error = "native".parse::<Bf16Products>().unwrap_err().to_string();
        assert!(
            error.contains("native") && error.contains("weights"),
            "{error}"
        );
        let ways = ["fastest", "both", "weights"].map(str::parse::<Fp16Products>);
        assert_eq!(ways[1], Ok(Fp16Products::BothSides));
        assert!(ways.iter().all(Result::is_ok));
        let error = "dot".parse::<Fp16Products>().unwrap_err().to_string();
        assert!(error.contains("dot") && error.contains("both"), "{error}");
    }

    #[test]
    fn contradictions_are_wrong_usage() {
        let check = |change: fn(&mut BenchOptions), option: &str| {
            let mut options = BenchOptions::default();
            assert!(options.validate().is_ok());
            change(&mut options);
            let error = options.validate().unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().starts_with(option), "{error}");
        };
        check(|o| o.runs = 0, "--runs");
        check(|o| o.threads = Some(0), "--threads");
        check(|o| o.compare = Some("golden".into()), "--compare");
        check(|o| o.mix = Some(f64::NAN), "--mix");
        check(|o| o.calibration = Some("chosen".into()), "--calibration");
        check(|o| o.bf16_products = Bf16Products::MultiplyAdd, "--bf16");
        check(|o| o.fp16_products = Fp16Products::BothSides, "--fp16");
        let exact = |o: &mut BenchOptions| o.activations = Activations::Exact;
        check(exact, "--exact-activations");
        let mixed = BenchOptions {
            mix: Some(20.0),
            fp16_products: Fp16Products::BothSides,
            activations: Activations::Exact,
            ..BenchOptions::default()
        };
        assert!(mixed.validate().is_ok(), "a mix has layers of them");
    }
}
