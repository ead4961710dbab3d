//! Opening the NVML of the running machine.

use std::time::Duration;

use crate::reading::Failure;

use super::bounded::Bounded;
#[cfg(feature = "nvml")]
use super::live::LiveNvml;

/// How long one question may take. Opening NVML wakes sleeping GPUs, which takes
/// seconds on servers with eight of them.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Opens the system's NVML behind a time limit.
///
/// # Errors
///
/// [`Failure::NoSource`] without the library or the `nvml` feature;
/// [`Failure::Call`] if it cannot start (no driver loaded); [`Failure::TimedOut`].
pub fn open() -> Result<Bounded, Failure> {
    #[cfg(feature = "nvml")]
    return Bounded::start(TIME_LIMIT, || Ok(Box::new(LiveNvml::open()?)));
    #[cfg(not(feature = "nvml"))]
    return Err(Failure::NoSource {
        reason: "built without the `nvml` feature".to_owned(),
    });
}
