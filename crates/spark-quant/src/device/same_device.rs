//! Whether all that a call is given lies on one device.

use spark_mem::{Device, MemError, Stream};

use crate::error::QuantError;

/// A launch compares devices too; where there is nothing to launch, or memory is taken before, this
/// comes first.
pub(super) fn check_devices(stream: &Stream, others: &[&Device]) -> Result<(), QuantError> {
    if others.iter().all(|other| *other == stream.device()) {
        Ok(())
    } else {
        Err(MemError::OtherDevice.into())
    }
}
