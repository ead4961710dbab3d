//! Options of the engine in f32, which the environment and formats of single steps would decide otherwise.

use std::collections::BTreeMap;

use spark_onnx::{Precision, RunOptions};

use crate::error::{Result, TrainError};

/// The same options in f32. What they do not say, the environment would.
pub(crate) fn exact(options: &RunOptions) -> Result<RunOptions> {
    let others = options.precision.into_iter();
    let mut others = others.chain(options.by_step.values().copied());
    if let Some(other) = others.find(|&precision| precision != Precision::Fp32) {
        return Err(TrainError::NotExact {
            asked: other.to_string(),
        });
    }
    if options.calibration.is_some() {
        return Err(TrainError::NotExact {
            asked: "formats of a calibration".to_owned(),
        });
    }
    Ok(options.clone().with_precision(Precision::Fp32))
}

/// The same threads and device, in f32 without formats of single steps.
pub(crate) fn in_f32(options: &RunOptions) -> RunOptions {
    let mut exact = options.clone().with_precision(Precision::Fp32);
    exact.by_step = BTreeMap::new();
    exact.calibration = None;
    exact
}
