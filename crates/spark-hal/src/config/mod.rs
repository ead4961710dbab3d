//! Every setting that users have in the environment, declared once.
//!
//! ```text
//! environment --text--> Declaration --parse--> Config      (a typed field each)
//!                            |
//!                            +--> environment_markdown(), in docs/environment.md
//! ```
//!
//! An invalid value is never an error and never silent: it is reported as an
//! [`InvalidValue`], [`config`] logs it as a warning, and the default is used. A
//! variable set to nothing counts as not set. The default is written as text and
//! goes through the same parser as the environment's words.
//!
//! What only tests read is declared and read in `spark-testing`.

mod choice;
mod declaration;
mod page;
mod parse;
mod settings;
mod variables;

pub use choice::{
    CudaUse, DeviceChoice, MemoryKindChoice, PrecisionChoice, UnknownDevice, UnknownMemoryKind,
};
pub use declaration::{Declaration, InvalidValue};
pub use page::environment_markdown;
pub use settings::{Config, config};
pub use variables::{
    CACHE_DIR, CUDA, DEBUG, DECLARATIONS, DEVICE, DGX_ENABLED, DISABLE_DGX, FOREIGN, MEMORY_KIND,
    PRECISION,
};

#[cfg(test)]
mod tests;
