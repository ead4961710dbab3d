//! Samples by number, and batches of them.

use std::error::Error;

use spark_onnx_graph::{Tensor, TensorData};

use crate::error::{Result, TrainError};
use crate::layout::Named;

/// One sample: values for a network's inputs, and what its outputs are taught. Each has a first extent of 1, along which batches
/// are put together.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// By input.
    pub inputs: Vec<(String, Tensor)>,
    /// By output.
    pub targets: Vec<(String, Tensor)>,
}

impl Sample {
    /// As a record of two groups.
    pub(crate) fn groups(&self) -> [&[Named]; 2] {
        [&self.inputs, &self.targets]
    }

    /// Of a record of two groups; nothing of others.
    pub(crate) fn of_groups(groups: Vec<Vec<Named>>) -> Option<Self> {
        let [inputs, targets] = groups.try_into().ok()?;
        Some(Self { inputs, targets })
    }
}

/// Numbers of `n` samples of so many, evenly spread; `n` is no more than these.
pub(crate) fn evenly_spread(n: usize, len: usize) -> impl Iterator<Item = usize> {
    // Each is below `len`, but the products on the way need not fit a usize.
    (0..n).map(move |part| (part as u128 * len as u128 / n as u128) as usize)
}

/// Numbered samples.
pub trait Samples {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sample `index`, below [`Samples::len`]: always the same one.
    ///
    /// # Errors
    ///
    /// Whatever kept it from being read; training ends with it.
    fn sample(&self, index: usize) -> std::result::Result<Sample, Box<dyn Error + Send + Sync>>;
}

/// Samples in memory.
impl Samples for Vec<Sample> {
    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn sample(&self, index: usize) -> std::result::Result<Sample, Box<dyn Error + Send + Sync>> {
        let sample = self.get(index).cloned();
        sample.ok_or_else(|| format!("there are {} samples", self.len()).into())
    }
}

/// These samples as one, in this order.
pub(crate) fn batch(samples: &dyn Samples, indices: &[usize]) -> Result<Sample> {
    let mut all = Vec::with_capacity(indices.len());
    for &index in indices {
        let sample = samples.sample(index);
        all.push(sample.map_err(|source| TrainError::Sample { index, source })?);
    }
    let inputs = stacked(indices, &all, |sample| &sample.inputs)?;
    let targets = stacked(indices, &all, |sample| &sample.targets)?;
    Ok(Sample { inputs, targets })
}

/// Most samples that tell one set of samples from another.
const LOOKED_AT: usize = 16;

/// What tells these samples from others: how many there are, and a CRC-32 of sixteen of them, the first and the last among those.
///
/// # Errors
///
/// [`TrainError::Sample`] for one that cannot be read.
pub fn digest(samples: &dyn Samples) -> Result<String> {
    digest_of(samples, LOOKED_AT)
}

/// The same of every sample: what ranks that read their own copies hold against each other.
///
/// # Errors
///
/// As [`digest`].
pub fn digest_of_all(samples: &dyn Samples) -> Result<String> {
    digest_of(samples, usize::MAX)
}

fn digest_of(samples: &dyn Samples, most: usize) -> Result<String> {
    let (mut hash, mut bytes) = (crc32fast::Hasher::new(), Vec::new());
    let n = samples.len();
    let looked_at = n.min(most);
    for part in 0..looked_at {
        let index = (n - 1) as u128 * part as u128 / (looked_at - 1).max(1) as u128;
        let index = index as usize;
        let sample = samples.sample(index);
        let sample = sample.map_err(|source| TrainError::Sample { index, source })?;
        let inputs = sample.inputs.iter().map(|it| ("input", it));
        let targets = sample.targets.iter().map(|it| ("target", it));
        for (group, (name, tensor)) in inputs.chain(targets) {
            let (dtype, shape) = (tensor.dtype(), tensor.shape());
            hash.update(format!("{group} {name:?} {dtype} {shape:?}").as_bytes());
            bytes.clear();
            for value in tensor.to_f64() {
                bytes.extend_from_slice(&value.to_le_bytes());
            }
            hash.update(&bytes);
        }
    }
    Ok(format!("{n} {:08x}", hash.finalize()))
}

fn stacked(
    indices: &[usize],
    samples: &[Sample],
    of: impl Fn(&Sample) -> &[(String, Tensor)],
) -> Result<Vec<(String, Tensor)>> {
    let Some(first) = samples.first() else {
        return Ok(Vec::new());
    };
    let mut stacked = Vec::new();
    for (name, model) in of(first) {
        let mut parts = Vec::with_capacity(samples.len());
        for (&index, sample) in indices.iter().zip(samples) {
            let mut named = of(sample).iter();
            let part = named.find(|(other, _)| other == name);
            let fits = |t: &Tensor| t.shape() == model.shape() && t.dtype() == model.dtype();
            match part {
                Some((_, tensor)) if fits(tensor) => parts.push(tensor),
                found => {
                    return Err(TrainError::UnlikeSamples {
                        first: indices[0],
                        other: index,
                        name: name.clone(),
                        want: model.shape().to_vec(),
                        got: found.map(|(_, tensor)| tensor.shape().to_vec()),
                    });
                }
            }
        }
        if model.shape().first() != Some(&1) {
            return Err(TrainError::NotOneSample {
                index: indices[0],
                name: name.clone(),
                shape: model.shape().to_vec(),
            });
        }
        let mut shape = model.shape().to_vec();
        shape[0] = parts.len();
        stacked.push((name.clone(), Tensor::new(shape, joined(&parts))?));
    }
    Ok(stacked)
}

/// The elements one after the other; all have the first one's type.
fn joined(parts: &[&Tensor]) -> TensorData {
    macro_rules! join {
        ($($kind:ident)*) => {
            match parts[0].data() {
                $(TensorData::$kind(_) => {
                    let values = parts.iter().filter_map(|part| match part.data() {
                        TensorData::$kind(values) => Some(values.as_slice()),
                        _ => None,
                    });
                    TensorData::$kind(values.collect::<Vec<_>>().concat())
                })*
            }
        };
    }
    join!(F32 F64 F16 BF16 I8 I16 I32 I64 U8 U16 U32 U64 Bool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_begins_at_the_first_and_never_ends_behind_the_last() {
        let of = |n, len| evenly_spread(n, len).collect::<Vec<_>>();
        assert_eq!(of(3, 7), [0, 2, 4]);
        assert_eq!(of(4, 4), [0, 1, 2, 3]);
        assert_eq!(of(0, 5), [0; 0]);
        // Products with the number of a part are more than a usize.
        let quarter = usize::MAX / 4;
        assert_eq!(
            of(4, usize::MAX),
            [0, quarter, usize::MAX / 2, quarter * 3 + 2]
        );
    }
}
