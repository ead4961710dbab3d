//! The environment, read once into typed values.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::choice::{CudaUse, DeviceChoice, MemoryKindChoice, PrecisionChoice};
use super::declaration::InvalidValue;
use super::parse::{self, Environment};
use super::variables::{
    CACHE_DIR, CUDA, DEBUG, DEVICE, DGX_ENABLED, DISABLE_DGX, MEMORY_KIND, PRECISION,
};

/// The environment, read and checked.
///
/// # Examples
///
/// ```
/// use spark_hal::Config;
///
/// // `spark_hal::config()` reads the process's environment once; here it is another one.
/// let set = |name: &str| (name == "DEBUG").then(|| "loud".into());
/// let (config, invalid) = Config::read(set);
/// assert_eq!(config.debug, 0); // the default
/// assert_eq!(invalid[0].name, "DEBUG"); // and what is to be warned of
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Whether features of DGX Spark may be used: [`DGX_ENABLED`].
    pub dgx_enabled: bool,
    /// Whether they are switched off, which wins: [`DISABLE_DGX`].
    pub dgx_disabled: bool,
    /// The precision that models run in: [`PRECISION`].
    pub precision: PrecisionChoice,
    /// Whether CUDA may or must be used: [`CUDA`].
    pub cuda: CudaUse,
    /// Where work runs: [`DEVICE`].
    pub device: DeviceChoice,
    /// Where memory lies that CPU and GPU both use: [`MEMORY_KIND`].
    pub memory_kind: MemoryKindChoice,
    /// [`DEBUG`]: 0 to 3.
    pub debug: u8,
    /// [`CACHE_DIR`], resolved; `None` if nothing says where a cache could be.
    pub cache_dir: Option<PathBuf>,
}

impl Config {
    /// Reads an environment given as a look-up function, and tells which values were invalid.
    pub fn read(look_up: impl Fn(&str) -> Option<OsString>) -> (Self, Vec<InvalidValue>) {
        let mut environment = Environment::new(look_up);
        let config = Self {
            dgx_enabled: environment.get(&DGX_ENABLED, parse::flag),
            dgx_disabled: environment.get(&DISABLE_DGX, parse::flag),
            precision: environment.get(&PRECISION, |text| text.parse().ok()),
            cuda: environment.get(&CUDA, CudaUse::parse),
            device: environment.get(&DEVICE, |text| text.parse().ok()),
            memory_kind: environment.get(&MEMORY_KIND, |text| text.parse().ok()),
            debug: environment.get(&DEBUG, parse::debug_level),
            cache_dir: environment
                .get(&CACHE_DIR, parse::absolute_directory)
                .or_else(|| environment.user_cache_directory()),
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
