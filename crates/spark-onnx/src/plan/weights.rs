//! Weights of a GEMM or convolution, as the constant of the model they stand in and the factors they take.
//!
//! ```text
//! constant   a dense part of a tensor, [group][out][in][tap] or [group][in][out][tap]
//! weight     = round(... round(round(element) * factor 1[out]) * factor 2[out] ...)
//!                                          each round: f64 to f32, nearest even
//! written    row  tap * in_per_group + in  of one group, some of its columns
//! ```
//!
//! A plan holds this recipe, not elements in an order of its own: those are put in order once,
//! straight into the memory they are read from while running, and the constant goes with the
//! last plan or graph that holds it.
//!
//! Deliberately absent: how an executor packs its columns.

use std::ops::Range;
use std::sync::{Arc, Weak};

use half::f16;
use half::slice::HalfFloatSliceExt;
use spark_gemm::give_back_pages;

use super::calibrated::{CalibratedWeights, digest};
use crate::tensor::{Tensor, TensorData};

/// Elements put in order at a time: source and result stay in the L1 cache.
const BLOCK: usize = 4096;
/// Columns transposed together, so that their elements are stored side by side.
const TOGETHER: usize = 8;

/// In which order a constant holds the weights of one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WeightOrder {
    /// `[out][in][tap]`: convolutions, transposed matrices.
    OutputsFirst,
    /// `[in][out][tap]`: transposed convolutions, matrices.
    InputsFirst,
}

/// Weights of a product.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Weights {
    /// Groups of channels that do not see each other.
    pub(crate) groups: usize,
    /// Window positions; 1 for a matrix product.
    pub(crate) taps: usize,
    /// Input channels of one group.
    pub(crate) in_per_group: usize,
    /// Output channels of one group.
    pub(crate) out_per_group: usize,
    /// `None` once they are forgotten.
    source: Option<Source>,
    /// The same rounded to fewer bits by a calibration, for steps in its format.
    calibrated: Option<Arc<CalibratedWeights>>,
}

/// Where the elements are.
#[derive(Debug, Clone, PartialEq)]
struct Source {
    constant: Arc<Tensor>,
    /// Element of the constant at which the weights begin.
    start: usize,
    order: WeightOrder,
    /// By output channel of all groups, in the order they are applied.
    factors: Vec<Vec<f64>>,
}

/// Which weights these are: two that are equal have equal elements.
///
/// It does not keep the constant's elements, but its address, which no other constant gets while an
/// identity is there.
#[derive(Debug, Clone)]
pub(crate) struct WeightIdentity {
    constant: Weak<Tensor>,
    start: usize,
    order: WeightOrder,
    extents: [usize; 4],
    factors: Vec<Vec<f64>>,
    calibrated: Option<Weak<CalibratedWeights>>,
}

impl PartialEq for WeightIdentity {
    fn eq(&self, other: &Self) -> bool {
        let bits = |factors: &[f64]| factors.iter().map(|f| f.to_bits()).collect::<Vec<_>>();
        let mut pairs = self.factors.iter().zip(&other.factors);
        let calibrated = match (&self.calibrated, &other.calibrated) {
            (Some(a), Some(b)) => Weak::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        Weak::ptr_eq(&self.constant, &other.constant)
            && calibrated
            && (self.start, self.order, self.extents) == (other.start, other.order, other.extents)
            && self.factors.len() == other.factors.len()
            && pairs.all(|(a, b)| bits(a) == bits(b))
    }
}

impl WeightIdentity {
    /// That of the transposed matrix, if these are a matrix as the constant has it.
    pub(crate) fn transposed(&self) -> Option<Self> {
        let [groups, taps, inputs, outputs] = self.extents;
        let is_plain = self.factors.is_empty() && self.calibrated.is_none();
        (is_plain && (groups, taps) == (1, 1)).then(|| Self {
            order: match self.order {
                WeightOrder::OutputsFirst => WeightOrder::InputsFirst,
                WeightOrder::InputsFirst => WeightOrder::OutputsFirst,
            },
            extents: [groups, taps, outputs, inputs],
            ..self.clone()
        })
    }
}

impl Weights {
    /// Which weights these are; `None` once they are forgotten.
    pub(crate) fn identity(&self) -> Option<WeightIdentity> {
        let source = self.source.as_ref()?;
        Some(WeightIdentity {
            constant: Arc::downgrade(&source.constant),
            start: source.start,
            order: source.order,
            extents: [
                self.groups,
                self.taps,
                self.in_per_group,
                self.out_per_group,
            ],
            factors: source.factors.clone(),
            calibrated: self.calibrated.as_ref().map(Arc::downgrade),
        })
    }

    /// A number that other weights hardly have.
    pub(crate) fn digest(&self) -> u64 {
        digest(self.values())
    }

    /// What a calibration chose for them.
    pub(crate) fn calibrated(&self) -> Option<&CalibratedWeights> {
        self.calibrated.as_deref()
    }

    /// Takes what a calibration chose for them, until they are forgotten.
    pub(crate) fn set_calibrated(&mut self, calibrated: Option<Arc<CalibratedWeights>>) {
        self.calibrated = calibrated;
    }

    /// The weights that stand in `constant` from element `start` on: `extents` are groups, taps,
    /// input and output channels of one group.
    ///
    /// # Panics
    ///
    /// If `constant` ends before they do.
    pub(crate) fn new(
        constant: Arc<Tensor>,
        start: usize,
        order: WeightOrder,
        extents: [usize; 4],
    ) -> Self {
        let [groups, taps, in_per_group, out_per_group] = extents;
        let len: usize = extents.iter().product();
        assert!(
            start + len <= constant.len(),
            "{len} weights from {start} of {}",
            constant.len()
        );
        let source = Source {
            constant,
            start,
            order,
            factors: Vec::new(),
        };
        Self {
            groups,
            taps,
            in_per_group,
            out_per_group,
            source: Some(source),
            calibrated: None,
        }
    }

    /// How many there are; none once they are forgotten.
    pub(crate) fn len(&self) -> usize {
        match self.source {
            Some(_) => self.groups * self.group_len(),
            None => 0,
        }
    }

    fn group_len(&self) -> usize {
        self.taps * self.in_per_group * self.out_per_group
    }

    /// Multiplies by one factor per output channel of all groups; each product is rounded to f32.
    pub(crate) fn scale(&mut self, factors: Vec<f64>) {
        debug_assert_eq!(factors.len(), self.groups * self.out_per_group);
        if let Some(source) = &mut self.source {
            source.factors.push(factors);
        }
    }

    /// Whether every one is a value of binary16 (zeros keep their sign).
    pub(crate) fn are_halves(&self) -> bool {
        let Some(source) = self.source.as_ref().filter(|s| s.factors.is_empty()) else {
            return false;
        };
        let values = match source.constant.data() {
            TensorData::F16(_) => return true,
            TensorData::F32(values) => &values[source.start..source.start + self.len()],
            _ => return false,
        };
        let (mut half, mut wide) = ([f16::ZERO; BLOCK], [0.0; BLOCK]);
        values.chunks(BLOCK).all(|block| {
            let (half, wide) = (&mut half[..block.len()], &mut wide[..block.len()]);
            half.convert_from_f32_slice(block);
            half.convert_to_f32_slice(wide);
            let mut pairs = block.iter().zip(wide);
            pairs.all(|(a, b)| a.to_bits() == b.to_bits())
        })
    }

    /// Gives the constant up; the extents stay. Nobody else's are freed, with their pages: an allocator may keep those.
    pub(crate) fn forget(&mut self) {
        let constant = self.source.take().map(|source| source.constant);
        let constant = constant.and_then(|constant| Arc::try_unwrap(constant).ok());
        if let Some(TensorData::F32(mut values)) = constant.map(Tensor::into_data) {
            give_back_pages(&mut values);
        }
        self.calibrated = None;
    }

    /// All of them, `[groups][taps][in_per_group][out_per_group]`; empty once they are forgotten.
    pub(crate) fn values(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.len()];
        let groups = values.chunks_exact_mut(self.group_len().max(1));
        for (group, to) in groups.enumerate() {
            self.write(group, 0..self.out_per_group, to, self.out_per_group);
        }
        values
    }

    /// Whether `accepts` holds for every one, asked a group at a time.
    pub(crate) fn all(&self, accepts: impl Fn(&f32) -> bool) -> bool {
        let columns =
            (BLOCK / (self.taps * self.in_per_group).max(1)).clamp(1, self.out_per_group.max(1));
        let mut block = vec![0.0; self.taps * self.in_per_group * columns];
        (0..self.groups).all(|group| {
            (0..self.out_per_group).step_by(columns).all(|first| {
                let last = self.out_per_group.min(first + columns);
                // The last block has columns left over from the one before.
                self.write(group, first..last, &mut block, columns);
                block.iter().all(&accepts)
            })
        })
    }

    /// Writes `columns` of one group: row `tap * in_per_group + in` from `row * stride` of `to` on.
    /// What lies between the rows is left alone. Forgotten weights write nothing.
    ///
    /// # Panics
    ///
    /// If `to` ends before the last row does, or the group or a column does not exist.
    pub(crate) fn write(&self, group: usize, columns: Range<usize>, to: &mut [f32], stride: usize) {
        let Some(source) = &self.source else { return };
        assert!(group < self.groups && columns.end <= self.out_per_group);
        let part = Part {
            source,
            weights: self,
            group,
            columns,
        };
        match source.order {
            WeightOrder::OutputsFirst => part.turn_outputs_first(to, stride),
            WeightOrder::InputsFirst => part.copy_inputs_first(to, stride),
        }
    }
}

/// Some columns of one group.
struct Part<'a> {
    source: &'a Source,
    weights: &'a Weights,
    group: usize,
    columns: Range<usize>,
}

impl Part<'_> {
    /// Elements `range` of the constant as f32, through `converted` unless they are that already.
    fn elements<'b>(&'b self, range: Range<usize>, converted: &'b mut Vec<f32>) -> &'b [f32] {
        let range = self.source.start + range.start..self.source.start + range.end;
        match self.source.constant.as_f32() {
            Some(values) => &values[range],
            None => {
                converted.resize(range.len(), 0.0);
                self.source.constant.write_f32(range, converted);
                converted
            }
        }
    }

    /// Transposes `[out][in][tap]`, a few input channels at a time.
    fn turn_outputs_first(&self, to: &mut [f32], stride: usize) {
        let Weights {
            taps,
            in_per_group: depth,
            ..
        } = *self.weights;
        let n = self.columns.len();
        if n == 0 || taps * depth == 0 {
            return;
        }
        let first = self.group * self.weights.group_len();
        let per_block = (BLOCK / (taps * n)).max(16usize.div_ceil(taps));
        let mut converted: [Vec<f32>; TOGETHER] = Default::default();
        for channel in (0..depth).step_by(per_block) {
            let channels = channel..depth.min(channel + per_block);
            let run = |column: usize| {
                let filter = first + column * depth * taps;
                filter + channels.start * taps..filter + channels.end * taps
            };
            let mut column = self.columns.start;
            while column < self.columns.end {
                let at = channel * stride + column - self.columns.start;
                if column + TOGETHER <= self.columns.end {
                    let [a, b, c, d, e, f, g, h] = &mut converted;
                    let runs = [
                        self.elements(run(column), a),
                        self.elements(run(column + 1), b),
                        self.elements(run(column + 2), c),
                        self.elements(run(column + 3), d),
                        self.elements(run(column + 4), e),
                        self.elements(run(column + 5), f),
                        self.elements(run(column + 6), g),
                        self.elements(run(column + 7), h),
                    ];
                    turn(&runs, taps, &mut to[at..], (stride, depth * stride));
                    column += TOGETHER;
                } else {
                    let runs = [self.elements(run(column), &mut converted[0])];
                    turn(&runs, taps, &mut to[at..], (stride, depth * stride));
                    column += 1;
                }
            }
            for tap in 0..taps {
                let rows = tap * depth + channels.start..tap * depth + channels.end;
                rows.for_each(|row| self.multiply(&mut to[row * stride..][..n]));
            }
        }
    }

    /// Copies rows of `[in][out][tap]`.
    fn copy_inputs_first(&self, to: &mut [f32], stride: usize) {
        let Weights {
            taps,
            in_per_group: depth,
            out_per_group,
            ..
        } = *self.weights;
        let n = self.columns.len();
        let first = self.group * self.weights.group_len();
        let mut converted = Vec::new();
        for channel in 0..depth {
            let start = first + (channel * out_per_group + self.columns.start) * taps;
            let run = self.elements(start..start + n * taps, &mut converted);
            for tap in 0..taps {
                let row = &mut to[(tap * depth + channel) * stride..][..n];
                match taps {
                    1 => row.copy_from_slice(run),
                    _ => {
                        let values = run.iter().skip(tap).step_by(taps);
                        row.iter_mut()
                            .zip(values)
                            .for_each(|(to, &value)| *to = value);
                    }
                }
                self.multiply(row);
            }
        }
    }

    /// Applies the factors to a row of the columns.
    fn multiply(&self, row: &mut [f32]) {
        let first = self.group * self.weights.out_per_group + self.columns.start;
        for factors in &self.source.factors {
            for (value, factor) in row.iter_mut().zip(&factors[first..]) {
                *value = (f64::from(*value) * factor) as f32;
            }
        }
    }
}

/// Writes runs `[channel][tap]` of `N` neighbouring columns as rows, one column beside the other.
#[inline(always)]
fn turn<const N: usize>(
    runs: &[&[f32]; N],
    taps: usize,
    to: &mut [f32],
    (channel_stride, tap_stride): (usize, usize),
) {
    let len = runs[0].len();
    let runs = runs.map(|run| &run[..len]);
    for tap in 0..taps {
        let rows = to[tap * tap_stride..].chunks_mut(channel_stride);
        for (i, row) in (tap..len).step_by(taps).zip(rows) {
            let row = &mut row[..N];
            for (to, run) in row.iter_mut().zip(&runs) {
                *to = run[i];
            }
        }
    }
}

#[cfg(test)]
mod tests;
