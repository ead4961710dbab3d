//! Where a run is, and a checkpoint as the bytes that say it: what a rank without the folder goes on from.
//!
//! ```text
//! bytes    length of the folder's name, the name, length of trainer.json, trainer.json, trainer.safetensors
//!          nothing at all if there is no checkpoint
//! ```

use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor as Candle, Var};
use serde::{Deserialize, Serialize};
use spark_dora::optim::State;

use crate::error::{Result, TrainError};
use crate::network::AdaptedNetwork;

/// Where a run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Steps made or skipped.
    pub(crate) step: u64,
    /// Steps that AdamW has made.
    pub(crate) made: u64,
    /// Samples of an epoch.
    pub(crate) n_samples: usize,
    /// Sum of the losses of this epoch's steps that were made, and their count.
    pub(crate) sum: f64,
    pub(crate) count: u64,
    /// Best loss of an epoch so far, and the step after it.
    pub(crate) best: Option<(f64, u64)>,
    /// Epochs since then.
    pub(crate) waited: u64,
    /// Settings that the numbers hang on.
    pub(crate) settings: Vec<(String, String)>,
}

/// A checkpoint, as it was written.
#[derive(Debug, PartialEq)]
pub(crate) struct Found {
    /// Where it lies, for errors.
    pub(crate) folder: PathBuf,
    /// [`Progress`] as JSON.
    pub(crate) progress: Vec<u8>,
    /// Values of the variables and AdamW's means, as safetensors.
    pub(crate) numbers: Vec<u8>,
}

impl Found {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let folder = self.folder.to_string_lossy();
        let mut bytes = Vec::new();
        for part in [folder.as_bytes(), &self.progress] {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part);
        }
        bytes.extend(&self.numbers);
        bytes
    }

    /// What [`Found::to_bytes`] was of; nothing for other bytes.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let part = |bytes: &mut &[u8]| {
            let (length, behind) = bytes.split_first_chunk()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            let (part, behind) = behind.split_at_checked(length)?;
            *bytes = behind;
            Some(part.to_vec())
        };
        let mut rest = bytes;
        let folder = String::from_utf8(part(&mut rest)?).ok()?;
        Some(Self {
            folder: PathBuf::from(folder),
            progress: part(&mut rest)?,
            numbers: rest.to_vec(),
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the run was when it wrote this.
    pub(crate) fn progress(&self) -> Result<Progress> {
        serde_json::from_slice(&self.progress).map_err(|source| TrainError::Json {
            path: self.folder.clone(),
            source,
        })
    }

    /// Sets the variables to its values; gives AdamW's means after so many steps.
    pub(crate) fn read(&self, made: u64, network: &AdaptedNetwork) -> Result<State> {
        let tensors = candle_core::safetensors::load_buffer(&self.numbers, &Device::Cpu)?;
        let take = |kind: &str, name: &str, var: &Var| -> Result<Candle> {
            let name = format!("{kind}.{name}");
            match tensors.get(&name) {
                Some(tensor) if tensor.dims() == var.dims() && tensor.dtype() == var.dtype() => {
                    Ok(tensor.clone())
                }
                found => {
                    let was = found.map(|tensor| format!("{:?}", tensor.dims()));
                    Err(TrainError::OtherRun {
                        folder: self.folder.clone(),
                        what: name,
                        was: was.unwrap_or_else(|| "not there".to_owned()),
                        is: format!("{:?}", var.dims()),
                    })
                }
            }
        };
        let mut state = State {
            steps: made,
            first: Vec::new(),
            second: Vec::new(),
        };
        let variables = network.named_variables();
        let mut values = Vec::with_capacity(variables.len());
        for (name, var) in &variables {
            values.push(take("value", name, var)?);
            state.first.push(take("first", name, var)?);
            state.second.push(take("second", name, var)?);
        }
        // Only now, so that a checkpoint of another run changes nothing.
        for ((_, var), value) in variables.iter().zip(&values) {
            var.set(value)?;
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_travels_as_bytes_and_less_than_one_is_none() {
        let found = Found {
            folder: PathBuf::from("run/step-00000002"),
            progress: b"{}".to_vec(),
            numbers: vec![1, 2, 3],
        };
        let bytes = found.to_bytes();
        assert_eq!(Found::of_bytes(&bytes), Some(found));
        let head = bytes.len() - 3;
        for cut in 0..head {
            assert_eq!(Found::of_bytes(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(Found::of_bytes(&[255; 24]), None);
    }
}
