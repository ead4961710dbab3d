//! Weights and bias of one product as integers.
//!
//! ```text
//! six ways      to the nearest | for the inputs that enter | for the exact ones      as `fit` has them
//!               with the bias as it is | moved by the mean of what is lost, per channel
//! each on some of the batches ──> squared error of the outputs on the others ──> the best, on all
//! ```
//!
//! Deliberately absent: ranges of activations, which are chosen before.

use spark_quant::packed::Scales;
use spark_quant::{ExecutionPolicy, PackedFormat, PackedTensor, QuantError, Recipe};

use super::super::fit::{ERROR_ROWS, EVERY, Fit, best_way};
use super::products::Product;
use super::rows::Rows;

/// Rows from which on their mean says something of others: biases are not moved for fewer.
const MEAN_ROWS: usize = 256;

/// How a product is rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Way {
    fit: Fit,
    moves_bias: bool,
}

impl Way {
    const NEAREST: Self = Self {
        fit: Fit::Nearest,
        moves_bias: false,
    };
}

/// A product in integers.
pub(super) struct RoundedProduct {
    /// `[out][in]`.
    codes: Vec<i8>,
    /// A factor per output channel.
    scales: Vec<f32>,
    /// In the units of the network.
    pub(super) bias: Option<Vec<f32>>,
}

impl RoundedProduct {
    /// Codes and scales of `product`, whose they are.
    pub(super) fn packed(&self, product: &Product) -> Result<PackedTensor, QuantError> {
        let shape = [product.n_out(), product.depth()];
        let codes = self.codes.iter().map(|&code| code as u8).collect();
        let scales = Scales::F32 {
            values: self.scales.clone(),
            block: [1, shape[1]],
        };
        PackedTensor::from_parts(&shape, 1, PackedFormat::Int8, codes, scales)
    }
}

/// Weights rounded to the nearest, the bias as it is.
pub(super) fn nearest(
    policy: ExecutionPolicy,
    product: &Product,
    x_scale: f32,
) -> Result<RoundedProduct, QuantError> {
    let group = Group {
        policy,
        depth: product.depth(),
        weights: &product.rows(),
        exact: Vec::new(),
        rounded: Vec::new(),
    };
    Ok(assemble(
        product,
        x_scale,
        Way::NEAREST,
        [group.round(Way::NEAREST, &[])?],
    ))
}

/// Weights and bias for what `product` gets in f32 and what enters it.
pub(super) fn compensated(
    policy: ExecutionPolicy,
    product: &Product,
    x_scale: f32,
    (exact, rounded): (&Rows, &Rows),
) -> Result<RoundedProduct, QuantError> {
    let (depth, groups) = (product.depth(), product.groups());
    let weights = product.rows();
    let judges = exact.judges(EVERY);
    let own = weights.len() / groups;
    let all: Vec<Group<'_>> = (0..groups)
        .map(|group| Group {
            policy,
            depth,
            weights: &weights[group * own..][..own],
            exact: exact.group(group),
            rounded: rounded.group(group),
        })
        .collect();
    let way = best(&all, &judges, product.takes_bias)?;
    let everything = vec![true; judges.len()];
    let made = all.iter().map(|group| group.round(way, &everything));
    Ok(assemble(
        product,
        x_scale,
        way,
        made.collect::<Result<Vec<_>, _>>()?,
    ))
}

/// The groups of a product, one after the other.
fn assemble(
    product: &Product,
    x_scale: f32,
    way: Way,
    groups: impl IntoIterator<Item = RoundedGroup>,
) -> RoundedProduct {
    let (mut codes, mut scales, mut moved) = (Vec::new(), Vec::new(), Vec::new());
    for group in groups {
        codes.extend(group.codes);
        scales.extend(group.scales);
        moved.extend(group.moved);
    }
    let own = product.bias.as_ref().map(|bias| bias.to_f32());
    let bias = match way.moves_bias {
        false => own,
        true => {
            let own = own.unwrap_or_else(|| vec![0.0; moved.len()]);
            let moved = own.iter().zip(&moved).map(|(b, m)| f64::from(*b) + m);
            Some(moved.map(|bias| bias as f32).collect())
        }
    };
    make_room(product, x_scale, bias.as_deref(), (&mut codes, &mut scales));
    RoundedProduct {
        codes,
        scales,
        bias,
    }
}

/// Steps of the bias of a channel whose weights are all zero: as fine as f32 has it.
const BIAS_STEPS: f64 = (1 << 22) as f64;

/// Coarser scales for channels whose bias does not fit 32 bits beside the sums, as that of a dead channel, and for those
/// whose sums would have a scale below all normal numbers; where all weights are zero, one that is fine enough for the bias,
/// which is all that leaves such a channel.
fn make_room(
    product: &Product,
    x_scale: f32,
    bias: Option<&[f32]>,
    (codes, scales): (&mut [i8], &mut [f32]),
) {
    let depth = product.depth().max(1);
    let weights = product.rows();
    // The sums themselves take at most this; half of what they leave is more than any bias needs.
    let room = f64::from(i32::MAX) - depth as f64 * 255.0 * 255.0;
    if room <= 0.0 {
        return;
    }
    for (out, scale) in scales.iter_mut().enumerate() {
        let bias = bias.map_or(0.0, |bias| f64::from(bias[out].abs()));
        let x_scale = f64::from(x_scale);
        let tiny = 1.01 * f64::from(f32::MIN_POSITIVE);
        let own = out * depth..(out + 1) * depth;
        if bias > 0.0 && weights[own.clone()].iter().all(|weight| *weight == 0.0) {
            let steps = BIAS_STEPS.min(room / 2.0);
            let fine = ((bias / steps).max(tiny) / x_scale).max(tiny) as f32;
            if fine.is_finite() {
                *scale = fine;
            }
            continue;
        }
        let least = (2.0 * bias / room).max(tiny) / x_scale;
        if f64::from(*scale) >= least || !(least as f32).is_finite() {
            continue;
        }
        *scale = least as f32;
        for (code, weight) in codes[own.clone()].iter_mut().zip(&weights[own]) {
            *code = (weight / *scale).round_ties_even().clamp(-127.0, 127.0) as i8;
        }
    }
}

/// The way with the least error on the rows that judge.
fn best(groups: &[Group<'_>], judges: &[bool], takes_bias: bool) -> Result<Way, QuantError> {
    let calibrating: Vec<bool> = judges.iter().map(|judge| !judge).collect();
    let has_means = calibrating.iter().filter(|taken| **taken).count() >= MEAN_ROWS;
    let moves: &[bool] = match takes_bias && has_means {
        true => &[false, true],
        false => &[false],
    };
    let ways = Fit::ALL.into_iter().flat_map(|fit| {
        let moves = moves.iter();
        moves.map(move |&moves_bias| Way { fit, moves_bias })
    });
    best_way(ways, Way::NEAREST, |way| {
        let errors = groups.iter().map(|group| {
            let made = group.round(way, &calibrating)?;
            Ok(group.error(&made, judges))
        });
        errors.sum()
    })
}

/// The outputs of one group of channels.
struct Group<'a> {
    policy: ExecutionPolicy,
    depth: usize,
    /// `[out][in]`.
    weights: &'a [f32],
    /// `[row][in]`.
    exact: Vec<f32>,
    rounded: Vec<f32>,
}

/// One group in integers.
struct RoundedGroup {
    codes: Vec<i8>,
    scales: Vec<f32>,
    /// What is added to the bias, per output.
    moved: Vec<f64>,
}

impl Group<'_> {
    /// Rounds for the rows that `taken` says.
    fn round(&self, way: Way, taken: &[bool]) -> Result<RoundedGroup, QuantError> {
        let shape = [self.weights.len() / self.depth.max(1), self.depth];
        let chosen = |rows: &[f32]| -> Vec<f32> {
            let rows = rows.chunks_exact(self.depth.max(1)).zip(taken);
            let rows = rows.filter(|(_, taken)| **taken);
            rows.flat_map(|(row, _)| row).copied().collect()
        };
        let (exact, rounded) = (chosen(&self.exact), chosen(&self.rounded));
        let rows = (exact.as_slice(), rounded.as_slice());
        let fit = way.fit;
        let packed = fit.round(self.policy, self.weights, shape, rows, Recipe::INT8)?;
        let (codes, scales) = packed.into_parts();
        let scales = match scales {
            Scales::F32 { values, .. } => values,
            _ => Vec::new(),
        };
        let mut made = RoundedGroup {
            codes: codes.into_iter().map(|code| code as i8).collect(),
            scales,
            moved: vec![0.0; shape[0]],
        };
        if way.moves_bias {
            let (exact, rounded) = (self.means(&exact), self.means(&rounded));
            for out in 0..shape[0] {
                let lost = dot(&self.weights[out * self.depth..][..self.depth], &exact)
                    - made.dot(out, self.depth, &rounded);
                made.moved[out] = lost;
            }
        }
        Ok(made)
    }

    /// The mean of every input.
    fn means(&self, rows: &[f32]) -> Vec<f64> {
        let mut means = vec![0.0; self.depth];
        for row in rows.chunks_exact(self.depth.max(1)) {
            for (mean, value) in means.iter_mut().zip(row) {
                *mean += f64::from(*value);
            }
        }
        let n = (rows.len() / self.depth.max(1)).max(1) as f64;
        means.iter().map(|sum| sum / n).collect()
    }

    /// Squared error of the outputs on some of the rows that judge.
    fn error(&self, made: &RoundedGroup, judges: &[bool]) -> f64 {
        let rows: Vec<usize> = (0..judges.len()).filter(|&row| judges[row]).collect();
        let every = rows.len().div_ceil(ERROR_ROWS).max(1);
        let wide = |values: &[f32], row: usize| -> Vec<f64> {
            let row = &values[row * self.depth..][..self.depth];
            row.iter().map(|&value| f64::from(value)).collect()
        };
        let mut sum = 0.0;
        for &row in rows.iter().step_by(every) {
            let (exact, rounded) = (wide(&self.exact, row), wide(&self.rounded, row));
            for (out, weights) in self.weights.chunks_exact(self.depth.max(1)).enumerate() {
                let want = dot(weights, &exact);
                let got = made.dot(out, self.depth, &rounded) + made.moved[out];
                sum += (want - got) * (want - got);
            }
        }
        sum
    }
}

impl RoundedGroup {
    fn dot(&self, out: usize, depth: usize, row: &[f64]) -> f64 {
        let codes = &self.codes[out * depth..][..depth];
        let sum: f64 = codes.iter().zip(row).map(|(c, x)| f64::from(*c) * x).sum();
        sum * f64::from(self.scales[out])
    }
}

fn dot(weights: &[f32], row: &[f64]) -> f64 {
    let products = weights.iter().zip(row);
    products.map(|(w, x)| f64::from(*w) * x).sum()
}
