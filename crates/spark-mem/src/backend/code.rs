//! A kernel's code, its types taken off, and what tells one code from another.
//!
//! ```text
//! KernelSource<P> ──> KernelCode ──┬─> a GPU: entry, text, headers, options; compiled
//!                          │       └─> other devices: the host version
//!                          └─> KernelIdentity: which loaded code may be shared
//! ```

use std::any::TypeId;

use super::launch::HostFunction;

/// What kernels may include as `"spark_warp.cuh"`: tensor-core products, asynchronous copies
/// and warp reductions, which the stand-in driver emulates.
pub const WARP_HEADER: &str = include_str!("../../kernels/spark_warp.cuh");
/// The name it is included by.
pub const WARP_HEADER_NAME: &str = "spark_warp.cuh";

/// A file that kernels include: its name and its text.
pub type Header = (&'static str, &'static str);

/// A source without its types, as backends take it.
pub(crate) struct KernelCode {
    pub(crate) file: &'static str,
    pub(crate) source: &'static str,
    pub(crate) entry: &'static str,
    pub(crate) headers: &'static [Header],
    pub(crate) options: &'static [&'static str],
    pub(crate) parameters: TypeId,
    pub(crate) host: Option<HostFunction>,
    /// Where the host version lies before its types are taken off.
    pub(crate) host_address: Option<usize>,
}

/// All that decides what a kernel's code is and what its arguments mean: loaded code is shared by
/// sources that agree in every part, and by no others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct KernelIdentity {
    entry: &'static str,
    file: &'static str,
    source: &'static str,
    headers: &'static [Header],
    options: &'static [&'static str],
    parameters: TypeId,
    host_address: Option<usize>,
}

impl KernelCode {
    /// Its identity on a device that runs host versions, or on one that does not. The compiler may
    /// give one function several addresses, for which a GPU need not load the code again.
    pub(crate) fn identity(&self, runs_host_versions: bool) -> KernelIdentity {
        KernelIdentity {
            entry: self.entry,
            file: self.file,
            source: self.source,
            headers: self.headers,
            options: self.options,
            parameters: self.parameters,
            host_address: self.host_address.filter(|_| runs_host_versions),
        }
    }
}
