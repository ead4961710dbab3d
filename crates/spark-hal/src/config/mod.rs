//! Every environment variable of the workspace, declared once.
//!
//! ```text
//! environment --text--> Declaration --parse--> Config      (a typed field each)
//!                            |
//!                            +--> environment_markdown() = docs/environment.md
//! ```
//!
//! An invalid value is never an error and never silent: it is reported as an
//! [`InvalidValue`], [`config`] logs it as a warning, and the default is used. A
//! variable set to nothing counts as not set. The default is written as text and
//! goes through the same parser as the environment's words.

mod page;
mod parse;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

pub use page::environment_markdown;

use crate::Precision;

/// One environment variable: its name, what it accepts, its default, its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declaration {
    /// Name in the environment.
    pub name: &'static str,
    /// Words it accepts, for people.
    pub accepts: &'static str,
    /// What is used when it is not set or invalid; empty if "not set" is a state of its own.
    pub default: &'static str,
    /// What the default means, for people, where the text alone does not say it.
    pub default_meaning: &'static str,
    /// What it does: one or two sentences.
    pub doc: &'static str,
    /// Who reads it.
    pub audience: Audience,
}

/// For whom a variable is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// People who run programs.
    Users,
    /// People who run the test suite.
    Tests,
}

/// `OPENPILOT_DGX_ENABLED`.
pub const DGX_ENABLED: Declaration = Declaration {
    name: "OPENPILOT_DGX_ENABLED",
    accepts: "`0` or `1`",
    default: "1",
    default_meaning: "",
    doc: "`1` uses DGX Spark features when the hardware is there, `0` acts as on a plain PC. \
          What the machine *is* (`is_dgx_spark()`) is reported the same either way.",
    audience: Audience::Users,
};

/// `OPENPILOT_DISABLE_DGX`.
pub const DISABLE_DGX: Declaration = Declaration {
    name: "OPENPILOT_DISABLE_DGX",
    accepts: "`0` or `1`",
    default: "0",
    default_meaning: "",
    doc: "The rollback switch: `1` wins over `OPENPILOT_DGX_ENABLED=1`.",
    audience: Audience::Users,
};

/// `OPENPILOT_DGX_PRECISION`.
pub const PRECISION: Declaration = Declaration {
    name: "OPENPILOT_DGX_PRECISION",
    accepts: "`auto`, `fp32`, `fp16`, `bf16`, `fp8`, `fp4` (`nvfp4` is the same)",
    default: "auto",
    default_meaning: "",
    doc: "The precision models run in. `auto` takes what the GPU and the installed software \
          recommend; `fp4` logs a warning because it is experimental.",
    audience: Audience::Users,
};

/// `CUDA`.
pub const CUDA: Declaration = Declaration {
    name: "CUDA",
    accepts: "`0` or `1`",
    default: "",
    default_meaning: "not set: CUDA is used if it is there",
    doc: "`0` never uses CUDA; `1` requires it: a program that cannot have it, or that works on the \
          CPU only, ends with an error. `detect`, `doctor` and `gpu_monitor`, which say what is wrong \
          with CUDA, run all the same.",
    audience: Audience::Users,
};

/// `SPARK_DEVICE`.
pub const DEVICE: Declaration = Declaration {
    name: "SPARK_DEVICE",
    accepts: "`auto`, `cpu`, `cuda`, `cuda:N`",
    default: "auto",
    default_meaning: "",
    doc: "Where work runs: the CPU, the best GPU, or CUDA device number N. A GPU that is asked for \
          here and cannot be had is an error, as with `CUDA=1`: it is not there, `CUDA=0` is set, or \
          the program works on the CPU only. `auto` logs why it is the CPU.",
    audience: Audience::Users,
};

/// `DEBUG`.
pub const DEBUG: Declaration = Declaration {
    name: "DEBUG",
    accepts: "`0`, `1`, `2`, `3`",
    default: "0",
    default_meaning: "",
    doc: "How much every program logs on stderr: `0` warnings, `1` also information (such as why \
          work runs on the CPU), `2` also debugging, with the module, `3` everything. The log is \
          coloured where stderr is a terminal and `NO_COLOR` is not set.",
    audience: Audience::Users,
};

/// `SPARK_CACHE_DIR`.
pub const CACHE_DIR: Declaration = Declaration {
    name: "SPARK_CACHE_DIR",
    accepts: "an absolute directory",
    default: "",
    default_meaning: "`$XDG_CACHE_HOME/spark`, else `$HOME/.cache/spark`, else no cache on disk",
    doc: "Compiled kernels and tuned plans. The directory is made when it is first written to.",
    audience: Audience::Users,
};

/// `SPARK_TEST_DATA`.
pub const TEST_DATA: Declaration = Declaration {
    name: "SPARK_TEST_DATA",
    accepts: "a directory",
    default: "",
    default_meaning: "not set: tests that need the data say so and are skipped",
    doc: "The folder with models, goldens and recorded drives for the tests.",
    audience: Audience::Tests,
};

/// `SPARK_REQUIRE_GPU`.
pub const REQUIRE_GPU: Declaration = Declaration {
    name: "SPARK_REQUIRE_GPU",
    accepts: "`0` or `1`",
    default: "0",
    default_meaning: "",
    doc: "`1` turns \"skipped: no GPU\" into a failure.",
    audience: Audience::Tests,
};

/// `SPARK_BLESS`.
pub const BLESS: Declaration = Declaration {
    name: "SPARK_BLESS",
    accepts: "`0` or `1`",
    default: "0",
    default_meaning: "",
    doc: "`1` lets tests rewrite committed files that are generated (this page, recorded \
          expectations) instead of comparing with them.",
    audience: Audience::Tests,
};

/// Every variable, in the order of the page.
pub const DECLARATIONS: [&Declaration; 10] = [
    &DGX_ENABLED,
    &DISABLE_DGX,
    &PRECISION,
    &CUDA,
    &DEVICE,
    &DEBUG,
    &CACHE_DIR,
    &TEST_DATA,
    &REQUIRE_GPU,
    &BLESS,
];

/// Variables of other software that are only looked at: name and why.
pub const FOREIGN: [(&str, &str); 9] = [
    ("HOME", "the user's cache and Python packages"),
    ("NO_COLOR", "set to anything: programs log without colours"),
    ("XDG_CACHE_HOME", "the user's cache"),
    (
        "VIRTUAL_ENV",
        "the Python environment the doctor looks into",
    ),
    ("CONDA_PREFIX", "the same, for conda"),
    ("NCCL_IB_HCA", "whether NCCL knows both halves of a port"),
    (
        "TRITON_PTXAS_PATH",
        "whether Triton uses another ptxas than its own",
    ),
    (
        "RAY_memory_monitor_refresh_ms",
        "whether Ray's memory monitor is off",
    ),
    (
        "CI",
        "set in continuous integration: missing test data fail instead of skipping",
    ),
];

/// The precision that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrecisionChoice {
    /// Whatever the hardware and the installed software recommend.
    Auto,
    /// This one.
    Fixed(Precision),
}

/// Whether CUDA may or must be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CudaUse {
    /// If it is there.
    Auto,
    /// Never.
    Never,
    /// An error if it cannot be had.
    Require,
}

/// Where work shall run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The best GPU, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// A CUDA device: the one with this number, or the best one.
    Cuda(Option<u32>),
}

/// The environment, read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// [`DGX_ENABLED`].
    pub dgx_enabled: bool,
    /// [`DISABLE_DGX`].
    pub dgx_disabled: bool,
    /// [`PRECISION`].
    pub precision: PrecisionChoice,
    /// [`CUDA`].
    pub cuda: CudaUse,
    /// [`DEVICE`].
    pub device: DeviceChoice,
    /// [`DEBUG`]: 0 to 3.
    pub debug: u8,
    /// [`CACHE_DIR`], resolved; `None` if nothing says where a cache could be.
    pub cache_dir: Option<PathBuf>,
    /// [`TEST_DATA`].
    pub test_data: Option<PathBuf>,
    /// [`REQUIRE_GPU`].
    pub require_gpu: bool,
    /// [`BLESS`].
    pub bless: bool,
}

/// A variable whose value was not understood; its default is used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}=`{got}` is not understood (accepts {accepts}); using the default: {default}")]
pub struct InvalidValue {
    /// The variable.
    pub name: &'static str,
    /// Its value, shortened.
    pub got: String,
    /// What it accepts.
    pub accepts: &'static str,
    /// What is used instead, in the words of `docs/environment.md`.
    pub default: String,
}

impl Config {
    /// Reads an environment given as a look-up function, and tells which values were invalid.
    pub fn read(look_up: impl Fn(&str) -> Option<OsString>) -> (Self, Vec<InvalidValue>) {
        let mut environment = parse::Environment::new(look_up);
        let config = Self {
            dgx_enabled: environment.get(&DGX_ENABLED, parse::flag),
            dgx_disabled: environment.get(&DISABLE_DGX, parse::flag),
            precision: environment.get(&PRECISION, parse::precision),
            cuda: environment.get(&CUDA, parse::cuda_use),
            device: environment.get(&DEVICE, parse::device),
            debug: environment.get(&DEBUG, parse::debug_level),
            cache_dir: environment
                .get(&CACHE_DIR, parse::absolute_directory)
                .or_else(|| environment.user_cache_directory()),
            test_data: environment.get(&TEST_DATA, parse::directory),
            require_gpu: environment.get(&REQUIRE_GPU, parse::flag),
            bless: environment.get(&BLESS, parse::flag),
        };
        (config, environment.into_invalid())
    }

    /// Reads the process environment, logging a warning for every invalid value and for an
    /// experimental precision; as information, which variable switches DGX Spark features off.
    #[must_use]
    pub fn from_env() -> Self {
        let (config, invalid) = Self::read(|name| std::env::var_os(name));
        for value in &invalid {
            tracing::warn!("{value}");
        }
        if let PrecisionChoice::Fixed(precision) = config.precision
            && precision.is_experimental()
        {
            tracing::warn!(
                "{}={precision} is experimental: compare its outputs with fp32",
                PRECISION.name
            );
        }
        if config.dgx_disabled {
            tracing::info!("{}=1: DGX Spark features are not used", DISABLE_DGX.name);
        } else if !config.dgx_enabled {
            tracing::info!("{}=0: DGX Spark features are not used", DGX_ENABLED.name);
        }
        config
    }

    /// Whether DGX Spark features may be used at all; the hardware decides the rest.
    #[must_use]
    pub fn dgx_features_allowed(&self) -> bool {
        self.dgx_enabled && !self.dgx_disabled
    }

    /// The most verbose level that [`DEBUG`] lets through.
    #[must_use]
    pub fn log_level(&self) -> tracing::Level {
        match self.debug {
            0 => tracing::Level::WARN,
            1 => tracing::Level::INFO,
            2 => tracing::Level::DEBUG,
            _ => tracing::Level::TRACE,
        }
    }
}

/// The process environment, read once; invalid values are logged then.
pub fn config() -> &'static Config {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    CONFIG.get_or_init(Config::from_env)
}

#[cfg(test)]
mod tests;
