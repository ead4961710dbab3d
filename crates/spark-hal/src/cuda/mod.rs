//! Whether the CUDA driver can be used, asked without risk.
//!
//! ```text
//! dlopen libcuda.so.1 -> every symbol there? -> cuInit -> version -> count
//!        |                    |                   |
//!   LibraryMissing       SymbolMissing         InitFailed, NoDevice, Failed (also: no answer in time)
//! ```
//!
//! Other crates reach CUDA through bindings that end the process when a library or
//! symbol is missing. Nothing of theirs may be called before [`driver`] said yes, and
//! nothing newer than CUDA 12.0 before [`CudaDriver::has_symbol`] said yes. Linux only: the
//! library is looked for under its name there.

mod api;
mod attribute;
mod live;
mod process;

pub use api::{CudaApi, CudaDevice, CudaReport, CudaUnavailable};
pub use attribute::{Attributes, CudaAttribute};
pub use live::CudaDriver;
pub use process::{check_required, driver, probe_library};
