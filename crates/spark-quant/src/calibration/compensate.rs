//! Weights rounded one input after the other, each making up for the rounding of those before.
//!
//! ```text
//! wanted     Q in the format with the least  E|W x - Q x^|^2 + d |W - Q|^2         x^: the inputs, rounded
//!
//! H = E[x^ x^'] + d = R R'          R upper triangular; d is 1 % of the mean of the diagonal
//! v = (W E[x x^'] + d W) R'^-1      then the wanted is the least |v - Q R|^2 plus a constant
//!
//! for each input j:   t = (v[j] - sum over i < j of q[i] R[i][j]) / R[j][j]     q[j] = t rounded in the format
//! ```
//!
//! Without rounding, the `t` are the weights that fit the rounded inputs best; scales are chosen for those, by the
//! recipe, and stay as they are. Rounding each `t` instead is Babai's nearest plane, which is what GPTQ does (Frantar
//! et al., *GPTQ*, arXiv 2210.17323; Chen et al., *The Geometry of LLM Quantization*, arXiv 2507.18553); taking
//! `x` and `x^` apart makes up for the rounding of inputs too (Li et al., *GPTAQ*, arXiv 2504.02692).
//!
//! Deliberately absent: reordering of inputs, scales that are searched together with codes, MX formats.

use super::moments::{InputMoments, PartMeans};
use crate::block::{Granularity, Quantizer, Recipe};
use crate::error::QuantError;
use crate::packed::{PackedFormat, PackedTensor, Scales};
use crate::scalar::{MiniFormat, NanCode, Overflow};
use crate::simd::ExecutionPolicy;
use crate::threads::for_parts;

/// Share of the mean second moment that counts against changing weights, which keeps inputs that were hardly seen
/// from deciding anything.
const DAMPING: f64 = 0.01;

/// Weights rounded for their inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct CompensatedWeights {
    /// Codes and scales, `[out, in]`, in the format of the recipe.
    pub packed: PackedTensor,
    /// By how much the expected squared error of the outputs, summed over them, per row of inputs, is less than with
    /// the recipe's own codes; 0 where those were no worse, and are taken.
    pub gain: f64,
}

/// Rounds `weights`, `[out, in]` and row-major, for the inputs that `moments` saw.
///
/// Without rows, or where it does not help, the result is what [`Quantizer::quantize`] gives.
///
/// # Conversion
///
/// To the nearest value of the format under the scales that the recipe finds, ties to the even code, beyond the
/// largest value the largest. Sums are in f64.
///
/// # Errors
///
/// [`QuantError::Unsupported`] unless the recipe is NVFP4, or FP8 or INT8 with a scale per row;
/// [`QuantError::NotAMultiple`] unless `weights` is whole rows of [`InputMoments::depth`]; those of
/// [`Quantizer::quantize`].
///
/// # Examples
///
/// ```
/// use spark_quant::calibration::{InputMoments, compensate};
/// use spark_quant::{ExecutionPolicy, Recipe};
///
/// let policy = ExecutionPolicy::detect();
/// // Neighbouring inputs are alike, so that the error of one weight can be made up for by the next.
/// let inputs: Vec<f32> = (0..64 * 32).map(|i| (i as f32 * 0.3).sin() + (i as f32 * 0.01).cos()).collect();
/// let mut moments = InputMoments::new(32);
/// moments.observe(policy, &inputs, &inputs)?;
/// let weights: Vec<f32> = (0..8 * 32).map(|i| (i as f32 * 0.7).sin()).collect();
/// let rounded = compensate(policy, &weights, &moments, Recipe::NVFP4)?;
/// assert_eq!(rounded.packed.shape(), [8, 32]);
/// assert!(rounded.gain > 0.0);
/// # Ok::<(), spark_quant::QuantError>(())
/// ```
pub fn compensate(
    policy: ExecutionPolicy,
    weights: &[f32],
    moments: &InputMoments,
    recipe: Recipe,
) -> Result<CompensatedWeights, QuantError> {
    let depth = moments.depth();
    let is_known = matches!(
        recipe,
        Recipe::Nvfp4 { .. }
            | Recipe::Fp8 {
                granularity: Granularity::Row,
                ..
            }
            | Recipe::Int8 {
                granularity: Granularity::Row
            }
    );
    if !is_known {
        return Err(QuantError::Unsupported {
            operation: "rounding for inputs",
            format: recipe.label(),
        });
    }
    if depth > 0 || !weights.is_empty() {
        QuantError::check_multiple("weights", weights.len(), depth)?;
    }
    let shape = [weights.len() / depth.max(1), depth];
    let quantizer = Quantizer::new(recipe);
    let nearest = quantizer.quantize(policy, weights, &shape, 1)?;
    let fits: Vec<Fit> = moments.means().map(Fit::new).collect();
    if moments.n_rows() == 0 || weights.is_empty() || fits.iter().any(|fit| !fit.is_sound()) {
        return Ok(CompensatedWeights {
            packed: nearest,
            gain: 0.0,
        });
    }
    let mut best = weights.to_vec();
    let work_bytes = weights.len() * depth;
    for_parts(policy, &mut best, depth, work_bytes, |_, rows| {
        for row in rows.chunks_exact_mut(depth) {
            for fit in &fits {
                fit.round(row, |_, value| value);
            }
        }
    });
    // Weights at the edge of f32 may fit only beyond it.
    let Ok(scaled) = quantizer.quantize(policy, &best, &shape, 1) else {
        return Ok(CompensatedWeights {
            packed: nearest,
            gain: 0.0,
        });
    };
    let grid = Grid::of(&scaled);
    let mut rounded = weights.to_vec();
    for_parts(policy, &mut rounded, depth, work_bytes, |first, rows| {
        for (r, row) in rows.chunks_exact_mut(depth).enumerate() {
            for fit in &fits {
                fit.round(row, |k, value| grid.nearest(first + r, k, value));
            }
        }
    });
    let packed = grid.packed(&rounded)?;
    let error = |of: &PackedTensor| -> Result<f64, QuantError> {
        let values = of.dequantize(policy)?;
        let pairs = weights.chunks_exact(depth).zip(values.chunks_exact(depth));
        Ok(pairs
            .flat_map(|(weights, values)| fits.iter().map(|fit| fit.error(weights, values)))
            .sum())
    };
    let gain = error(&nearest)? - error(&packed)?;
    // Written so that a NaN takes the nearest.
    Ok(if gain > 0.0 {
        CompensatedWeights { packed, gain }
    } else {
        CompensatedWeights {
            packed: nearest,
            gain: 0.0,
        }
    })
}

/// What one part of the inputs asks of the weights.
struct Fit {
    means: PartMeans,
    damping: f64,
    /// Upper triangular, `[i][j]`.
    factor: Vec<f64>,
}

impl Fit {
    fn new(means: PartMeans) -> Self {
        let n = means.inputs.len();
        let trace: f64 = (0..n).map(|i| means.rounded[i * n + i]).sum();
        let damping = DAMPING * trace / n.max(1) as f64;
        let mut factor = means.rounded.clone();
        for i in 0..n {
            factor[i * n + i] += damping;
        }
        decompose(&mut factor, n);
        Self {
            means,
            damping,
            factor,
        }
    }

    /// Whether the inputs say anything, in numbers.
    fn is_sound(&self) -> bool {
        let n = self.means.inputs.len();
        (0..n).all(|i| {
            let pivot = self.factor[i * n + i];
            pivot.is_finite() && pivot > 0.0
        })
    }

    /// Replaces this part of `row` by the values that `take` gives for what would be best, input by input.
    fn round(&self, row: &mut [f32], take: impl Fn(usize, f32) -> f32) {
        let n = self.means.inputs.len();
        let row = &mut row[self.means.inputs.clone()];
        // v R' = W cross + d W, from the last input to the first.
        let mut v: Vec<f64> = row.iter().map(|&w| self.damping * f64::from(w)).collect();
        for (&w, cross) in row.iter().zip(self.means.cross.chunks_exact(n)) {
            add_scaled(&mut v, f64::from(w), cross);
        }
        for j in (0..n).rev() {
            let tail = j * n + j + 1..(j + 1) * n;
            let sum = dot(&v[j + 1..], &self.factor[tail]);
            v[j] = (v[j] - sum) / self.factor[j * n + j];
        }
        for j in 0..n {
            let best = v[j] / self.factor[j * n + j];
            row[j] = take(self.means.inputs.start + j, best as f32);
            let tail = &self.factor[j * n + j + 1..(j + 1) * n];
            add_scaled(&mut v[j + 1..], -f64::from(row[j]), tail);
        }
    }

    /// Squared error of one output, less what no choice of `values` changes.
    fn error(&self, weights: &[f32], values: &[f32]) -> f64 {
        let n = self.means.inputs.len();
        let inputs = self.means.inputs.clone();
        let (weights, values) = (&weights[inputs.clone()], &values[inputs]);
        let values: Vec<f64> = values.iter().map(|&q| f64::from(q)).collect();
        let rounded = self.means.rounded.chunks_exact(n);
        let own: f64 = values
            .iter()
            .zip(rounded)
            .map(|(q, row)| q * dot(&values, row))
            .sum();
        let cross = self.means.cross.chunks_exact(n);
        let mixed: f64 = weights
            .iter()
            .zip(cross)
            .map(|(&w, row)| f64::from(w) * dot(&values, row))
            .sum();
        own - 2.0 * mixed
    }
}

/// `R` with `R R' = matrix`, upper triangular, in place; what is below the diagonal is left over.
fn decompose(matrix: &mut [f64], n: usize) {
    for j in (0..n).rev() {
        let (before, row) = matrix.split_at_mut(j * n);
        let square: f64 = row[j + 1..n].iter().map(|x| x * x).sum();
        let pivot = (row[j] - square).sqrt();
        row[j] = pivot;
        for other in before.chunks_exact_mut(n) {
            let sum = dot(&other[j + 1..], &row[j + 1..n]);
            other[j] = (other[j] - sum) / pivot;
        }
    }
}

/// Sixteen sums side by side, so that compilers take vectors.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 16;
    let (a_whole, a_rest) = a.as_chunks::<LANES>();
    let (b_whole, b_rest) = b[..a.len()].as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_whole.iter().zip(b_whole) {
        for i in 0..LANES {
            sums[i] += a[i] * b[i];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

fn add_scaled(to: &mut [f64], factor: f64, values: &[f64]) {
    for (to, value) in to.iter_mut().zip(values) {
        *to += factor * value;
    }
}

/// The values that a tensor can hold under scales that it has.
struct Grid {
    format: PackedFormat,
    shape: Vec<usize>,
    scales: Scales,
}

impl Grid {
    fn of(packed: &PackedTensor) -> Self {
        Self {
            format: packed.format(),
            shape: packed.shape().to_vec(),
            scales: packed.scales().clone(),
        }
    }

    /// What code 1.0 stands for.
    fn scale(&self, row: usize, k: usize) -> f32 {
        match &self.scales {
            Scales::Nvfp4 { block, tensor } => {
                let width = self.format.block();
                let blocks = self.shape[1].div_ceil(width);
                MiniFormat::E4m3.decode(block[row * blocks + k / width]) * tensor
            }
            Scales::F32 { values, .. } => values[row],
            // Refused before.
            Scales::Mx(_) => 0.0,
        }
    }

    fn code(&self, row: usize, k: usize, value: f32) -> u8 {
        let scale = self.scale(row, k);
        let units = if scale == 0.0 { 0.0 } else { value / scale };
        let float =
            |format: MiniFormat| format.encode(units, Overflow::Saturate, NanCode::default());
        match self.format {
            PackedFormat::Int8 => (units.round_ties_even() as i32).clamp(-127, 127) as i8 as u8,
            PackedFormat::Fp8(format) | PackedFormat::Mx(format) => float(format),
            PackedFormat::Nvfp4 => float(MiniFormat::E2m1),
        }
    }

    fn value(&self, row: usize, k: usize, code: u8) -> f32 {
        let scale = self.scale(row, k);
        match self.format {
            PackedFormat::Int8 => f32::from(code as i8) * scale,
            PackedFormat::Fp8(format) | PackedFormat::Mx(format) => format.decode(code) * scale,
            PackedFormat::Nvfp4 => MiniFormat::E2m1.decode(code) * scale,
        }
    }

    fn nearest(&self, row: usize, k: usize, value: f32) -> f32 {
        self.value(row, k, self.code(row, k, value))
    }

    /// The tensor that holds `values`, which are its own.
    fn packed(self, values: &[f32]) -> Result<PackedTensor, QuantError> {
        let depth = self.shape[1];
        let padded = depth.next_multiple_of(self.format.block());
        let mut codes = Vec::with_capacity(values.len());
        for (row, values) in values.chunks_exact(depth).enumerate() {
            let own = values.iter().enumerate();
            codes.extend(own.map(|(k, &value)| self.code(row, k, value)));
            codes.extend(std::iter::repeat_n(0, padded - depth));
        }
        if self.format == PackedFormat::Nvfp4 {
            let pairs = codes.as_chunks::<2>().0.iter();
            codes = pairs.map(|&[low, high]| low | high << 4).collect();
        }
        PackedTensor::from_parts(&self.shape, 1, self.format, codes, self.scales)
    }
}
