//! The CUDA driver of this process, opened once, and what the environment promises of it.

use std::sync::OnceLock;

use crate::config::{CudaUse, config};
use crate::library;

use super::api::{CudaApi as _, CudaUnavailable};
use super::live::{self, CudaDriver};

/// The CUDA driver of this process, opened and started once.
///
/// # Errors
///
/// Why it cannot be used; the same answer for the life of the process.
pub fn driver() -> Result<&'static CudaDriver, CudaUnavailable> {
    static DRIVER: OnceLock<Result<CudaDriver, CudaUnavailable>> = OnceLock::new();
    if config().cuda == CudaUse::Never {
        return Err(CudaUnavailable::Disabled);
    }
    DRIVER
        .get_or_init(live::open_in_time)
        .as_ref()
        .map_err(Clone::clone)
}

/// Checks the promise of `CUDA=1`: CUDA can be had, or the program must not go on.
///
/// # Errors
///
/// Why CUDA cannot be had, if the environment requires it. Without `CUDA=1` always `Ok`.
pub fn check_required() -> Result<(), CudaUnavailable> {
    keep_promise(config().cuda, || {
        driver()?.device_count().map_err(Into::into)
    })
}

fn keep_promise(
    promise: CudaUse,
    n_devices: impl FnOnce() -> Result<u32, CudaUnavailable>,
) -> Result<(), CudaUnavailable> {
    match promise {
        CudaUse::Auto | CudaUse::Never => Ok(()),
        CudaUse::Require if n_devices()? == 0 => Err(CudaUnavailable::NoDevice),
        CudaUse::Require => Ok(()),
    }
}

/// Whether a library can be opened by one of these names and has all these symbols.
///
/// For the optional libraries (NVRTC, cuBLASLt, ...) whose bindings end the process
/// when something is missing. The library stays open, so that a later opening by its
/// plain name finds it.
///
/// # Errors
///
/// [`CudaUnavailable::LibraryMissing`] or [`CudaUnavailable::SymbolMissing`].
pub fn probe_library(names: &[&str], symbols: &[&'static str]) -> Result<(), CudaUnavailable> {
    Ok(library::probe(names, symbols)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_promise_makes_missing_cuda_an_error() {
        let missing = || Err(CudaUnavailable::SymbolMissing { symbol: "cuInit" });
        assert_eq!(keep_promise(CudaUse::Auto, missing), Ok(()));
        assert_eq!(keep_promise(CudaUse::Never, missing), Ok(()));
        assert_eq!(
            keep_promise(CudaUse::Require, missing),
            missing().map(|_: u32| ())
        );
        assert_eq!(
            keep_promise(CudaUse::Require, || Ok(0)),
            Err(CudaUnavailable::NoDevice)
        );
        assert_eq!(keep_promise(CudaUse::Require, || Ok(1)), Ok(()));
    }
}
