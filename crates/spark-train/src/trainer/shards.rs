//! The gradients of one step, from batches that ranks share out.
//!
//! ```text
//! batch        0    1    2    3    4    5    6    7        a step's batches: its virtual shards, whatever the number of ranks
//! of 2 ranks   r0   r1   r0   r1   r0   r1   r0   r1
//! round        └ 0 ─┘    └ 1 ─┘    └ 2 ─┘    └ 3 ─┘        round n travels while n + 1 is computed
//! sum          ((((((0 + 1) + 2) + 3) + 4) + 5) + 6) + 7   on every rank, in this order
//! ```
//!
//! Additions of floating-point numbers in one order have one result, so a step has the same bits on one rank and on as many as there are
//! batches. Every rank makes the sum and the step by itself; variables are not sent.
//!
//! [`Sum::Fast`] sends one sum of each rank rather than all batches: fewer bytes, and last bits that hang on the number of ranks. The
//! first steps are then made in both ways, to say how far they lie apart.

use candle_core::{DType, Device, Tensor as Candle, Var};
use spark_dora::optim::{Accumulator, Gradients};

use crate::error::{Result, TrainError};
use crate::exchange::{GradientExchange, finish_all};
use crate::step::StepResult;

/// In which order gradients of ranks are added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sum {
    /// That of the batches: the same bits for every number of ranks.
    #[default]
    InOrder,
    /// That which is fastest.
    Fast,
}

impl Sum {
    /// What a checkpoint calls it: the `what` of [`TrainError::OtherRun`].
    pub const SETTING: &'static str = "sum of gradients";
}

/// What all batches of a step come to.
pub(crate) struct Summed {
    /// The mean.
    pub(crate) loss: f64,
    /// Means, by head.
    pub(crate) parts: Vec<(String, f64)>,
    /// Means.
    pub(crate) gradients: Gradients,
    /// How far the fast sum lies from that in order, as a part of the latter's length, if both were made.
    pub(crate) deviation: Option<f64>,
}

/// What computes the gradients of a batch, by its number in the step.
pub(crate) type Compute<'c> = &'c mut dyn FnMut(usize) -> Result<StepResult>;

/// A step of `n_batches`, as many for each rank.
pub(crate) fn in_order(
    exchange: &mut dyn GradientExchange,
    variables: &[Var],
    n_batches: usize,
    compute: Compute<'_>,
) -> Result<Summed> {
    let (rank, size) = (exchange.rank(), exchange.size());
    let mut total = Total::new(variables, n_batches);
    let mut layout = None;
    for round in 0..n_batches / size {
        let own = compute(round * size + rank)?;
        let layout = layout.get_or_insert_with(|| Layout::of(&own, variables));
        let bytes = layout.bytes(&own)?;
        exchange.begin(bytes).map_err(TrainError::Exchange)?;
        if round > 0 {
            total.add_round(exchange, layout)?;
        }
    }
    if let Some(layout) = &layout {
        total.add_round(exchange, layout)?;
    }
    total.mean()
}

/// The same with one sum for each rank, which the exchange adds.
pub(crate) fn fast(
    exchange: &mut dyn GradientExchange,
    variables: &[Var],
    n_batches: usize,
    is_measured: bool,
    compute: Compute<'_>,
) -> Result<Summed> {
    let (rank, size) = (exchange.rank(), exchange.size());
    let mut own = Accumulator::new(variables.iter().cloned());
    let mut results = Vec::new();
    let mut losses = Vec::new();
    let mut layout = None;
    for round in 0..n_batches / size {
        let result = compute(round * size + rank)?;
        own.add_gradients(&result.gradients)?;
        layout.get_or_insert_with(|| Layout::of(&result, variables));
        losses.extend(loss_bytes(&result));
        if is_measured {
            results.push(result);
        }
    }
    let Some(layout) = layout else {
        return Total::new(variables, n_batches).mean();
    };
    let sum = exchange.fast_sum(layout.flat(&own.mean()?)?);
    let mut sum = sum.map_err(TrainError::Exchange)?;
    sum.iter_mut().for_each(|number| *number /= size as f32);
    exchange.begin(losses).map_err(TrainError::Exchange)?;
    let of_ranks = finish_all(exchange).map_err(TrainError::Exchange)?;
    let mut total = Total::new(variables, n_batches);
    for batch in 0..n_batches {
        let of_rank = &of_ranks[batch % size];
        total.add_loss(layout.losses(of_rank, batch / size)?, &layout);
    }
    let mut deviation = None;
    if is_measured {
        let mut all = results.iter();
        let mut again = |_| all.next().cloned().ok_or_else(misfit);
        let ordered = in_order(exchange, variables, n_batches, &mut again)?;
        let ordered = layout.flat(&ordered.gradients)?;
        let length = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|n| n * n).sum::<f64>();
        let pairs = sum.iter().zip(&ordered);
        let off = length(&mut pairs.map(|(a, b)| f64::from(*a) - f64::from(*b)));
        let whole = length(&mut ordered.iter().map(|n| f64::from(*n)));
        deviation = Some((off / whole.max(f64::MIN_POSITIVE)).sqrt());
    }
    Ok(Summed {
        loss: total.loss,
        parts: total.mean_parts(),
        gradients: layout.gradients(&sum)?,
        deviation,
    })
}

/// What is added up, batch by batch.
struct Total {
    n_batches: f64,
    loss: f64,
    parts: Vec<(String, f64)>,
    gradients: Accumulator,
}

impl Total {
    fn new(variables: &[Var], n_batches: usize) -> Self {
        Self {
            n_batches: n_batches as f64,
            loss: 0.0,
            parts: Vec::new(),
            gradients: Accumulator::new(variables.iter().cloned()),
        }
    }

    /// Takes in the oldest round that is on its way: neighbouring batches, by rank.
    fn add_round(&mut self, exchange: &mut dyn GradientExchange, layout: &Layout) -> Result<()> {
        for bytes in finish_all(exchange).map_err(TrainError::Exchange)? {
            self.add_loss(layout.losses(&bytes, 0)?, layout);
            let numbers = bytes.get(layout.n_loss_bytes()..).ok_or_else(misfit)?;
            let (numbers, rest) = numbers.as_chunks();
            if !rest.is_empty() {
                return Err(misfit());
            }
            let numbers: Vec<f32> = numbers.iter().map(|n| f32::from_le_bytes(*n)).collect();
            self.gradients.add_gradients(&layout.gradients(&numbers)?)?;
        }
        Ok(())
    }

    fn add_loss(&mut self, losses: Vec<f64>, layout: &Layout) {
        let mut losses = losses.into_iter();
        self.loss += losses.next().unwrap_or(f64::NAN) / self.n_batches;
        match self.parts.is_empty() {
            true => self.parts = layout.parts.iter().cloned().zip(losses).collect(),
            false => {
                for (sum, part) in self.parts.iter_mut().zip(losses) {
                    sum.1 += part;
                }
            }
        }
    }

    fn mean_parts(&self) -> Vec<(String, f64)> {
        let parts = self.parts.iter();
        parts
            .map(|(name, sum)| (name.clone(), sum / self.n_batches))
            .collect()
    }

    fn mean(mut self) -> Result<Summed> {
        Ok(Summed {
            loss: self.loss,
            parts: self.mean_parts(),
            gradients: self.gradients.mean()?,
            deviation: None,
        })
    }
}

/// How a batch's results lie as bytes: the loss and its parts in f64, then every gradient in f32, little-endian. The same on all ranks, as their
/// networks are.
struct Layout {
    parts: Vec<String>,
    /// Those that have gradients.
    variables: Vec<Var>,
}

impl Layout {
    fn of(result: &StepResult, variables: &[Var]) -> Self {
        let has_one = |var: &&Var| result.gradients.get(var).is_some();
        Self {
            parts: result.parts.iter().map(|(name, _)| name.clone()).collect(),
            variables: variables.iter().filter(has_one).cloned().collect(),
        }
    }

    fn n_loss_bytes(&self) -> usize {
        (1 + self.parts.len()) * size_of::<f64>()
    }

    fn bytes(&self, result: &StepResult) -> Result<Vec<u8>> {
        let mut bytes = loss_bytes(result);
        let numbers = self.flat(&result.gradients)?;
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        Ok(bytes)
    }

    /// Loss and parts of the `at`-th batch of those that lie one after the other.
    fn losses(&self, bytes: &[u8], at: usize) -> Result<Vec<f64>> {
        let n = self.n_loss_bytes();
        let own = bytes.get(at * n..(at + 1) * n).ok_or_else(misfit)?;
        let (numbers, _) = own.as_chunks();
        Ok(numbers.iter().map(|n| f64::from_le_bytes(*n)).collect())
    }

    fn flat(&self, gradients: &Gradients) -> Result<Vec<f32>> {
        let mut numbers = Vec::new();
        for var in &self.variables {
            let gradient = gradients.get(var).ok_or_else(misfit)?;
            let flat = gradient.to_dtype(DType::F32)?.flatten_all()?;
            numbers.extend(flat.to_vec1::<f32>()?);
        }
        Ok(numbers)
    }

    fn gradients(&self, numbers: &[f32]) -> Result<Gradients> {
        let mut rest = numbers;
        let mut pairs = Vec::with_capacity(self.variables.len());
        for var in &self.variables {
            let (own, behind) = rest.split_at_checked(var.elem_count()).ok_or_else(misfit)?;
            rest = behind;
            let gradient = Candle::from_slice(own, var.dims(), &Device::Cpu)?;
            pairs.push((var.clone(), gradient.to_dtype(var.dtype())?));
        }
        match rest {
            [] => Ok(Gradients::from_pairs(pairs)),
            _ => Err(misfit()),
        }
    }
}

fn loss_bytes(result: &StepResult) -> Vec<u8> {
    let parts = result.parts.iter().map(|(_, part)| *part);
    let losses = std::iter::once(result.loss).chain(parts);
    losses.flat_map(f64::to_le_bytes).collect()
}

fn misfit() -> TrainError {
    TrainError::Exchange("the gradients of a rank are of another length than here".into())
}
