//! Gradients of some variables: gathered, averaged over micro-batches, bounded.

use std::collections::HashMap;

use candle_core::backprop::GradStore;
use candle_core::{DType, Tensor, TensorId, Var};

use crate::error::{DoraError, Result};

/// A gradient per variable.
#[derive(Debug, Clone, Default)]
pub struct Gradients(HashMap<TensorId, Tensor>);

impl Gradients {
    /// Those of `variables` that `store` has.
    pub fn of<'a>(store: &GradStore, variables: impl IntoIterator<Item = &'a Var>) -> Self {
        let of = |var: &Var| Some((var.id(), store.get(var)?.clone()));
        Self(variables.into_iter().filter_map(of).collect())
    }

    /// Gradients that were computed elsewhere, each of its variable's shape and type.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (Var, Tensor)>) -> Self {
        let pairs = pairs.into_iter();
        Self(pairs.map(|(var, gradient)| (var.id(), gradient)).collect())
    }

    /// The gradient of `variable`.
    pub fn get(&self, variable: &Var) -> Option<&Tensor> {
        self.0.get(&variable.id())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Length of all gradients as one vector, summed in f64: the same bits in every process.
    ///
    /// # Errors
    ///
    /// As candle's.
    pub fn norm(&self) -> Result<f64> {
        let mut squares = Vec::with_capacity(self.0.len());
        for gradient in self.0.values() {
            let wide = gradient.to_dtype(DType::F64)?.flatten_all()?;
            squares.push(wide.to_vec1::<f64>()?.iter().map(|g| g * g).sum::<f64>());
        }
        // The map's order is another one in each process.
        squares.sort_by(f64::total_cmp);
        Ok(squares.iter().sum::<f64>().sqrt())
    }

    fn scale(&mut self, factor: f64) -> Result<()> {
        for gradient in self.0.values_mut() {
            *gradient = (&*gradient * factor)?;
        }
        Ok(())
    }
}

/// Scales gradients so that together they are no longer than `limit`; gives the length before.
///
/// # Errors
///
/// [`DoraError::NotFinite`] if the length is NaN or infinite: no step should be made with them. The gradients
/// are then as they were.
pub fn clip_by_norm(gradients: &mut Gradients, limit: f64) -> Result<f64> {
    let norm = gradients.norm()?;
    if !norm.is_finite() {
        return Err(DoraError::NotFinite {
            name: "length of the gradients".to_owned(),
            index: 0,
        });
    }
    if norm > limit {
        gradients.scale(limit / norm)?;
    }
    Ok(norm)
}

/// Sums gradients over micro-batches.
///
/// # Examples
///
/// ```
/// # use candle_core::{Device, Tensor, Var};
/// # use spark_dora::optim::Accumulator;
/// let weight = Var::new(&[1f32, 2.0], &Device::Cpu)?;
/// let mut accumulator = Accumulator::new([weight.clone()]);
/// for _ in 0..4 {
///     accumulator.add(&weight.sqr()?.sum_all()?.backward()?)?;
/// }
/// let gradients = accumulator.mean()?;
/// assert_eq!(gradients.get(&weight).unwrap().to_vec1::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), spark_dora::DoraError>(())
/// ```
#[derive(Debug)]
pub struct Accumulator {
    variables: Vec<Var>,
    sum: Gradients,
    count: usize,
}

impl Accumulator {
    /// An empty sum for these variables; gradients of others are ignored.
    pub fn new(variables: impl IntoIterator<Item = Var>) -> Self {
        Self {
            variables: variables.into_iter().collect(),
            sum: Gradients::default(),
            count: 0,
        }
    }

    /// Adds one micro-batch.
    ///
    /// # Errors
    ///
    /// As candle's.
    pub fn add(&mut self, store: &GradStore) -> Result<()> {
        self.add_by(|var| store.get(var))
    }

    /// Adds one micro-batch whose gradients are at hand.
    ///
    /// # Errors
    ///
    /// As candle's.
    pub fn add_gradients(&mut self, gradients: &Gradients) -> Result<()> {
        self.add_by(|var| gradients.get(var))
    }

    fn add_by<'g>(&mut self, of: impl Fn(&Var) -> Option<&'g Tensor>) -> Result<()> {
        for var in &self.variables {
            let Some(gradient) = of(var) else {
                continue;
            };
            let sum = match self.sum.0.get(&var.id()) {
                Some(sum) => (sum + gradient)?,
                None => gradient.clone(),
            };
            self.sum.0.insert(var.id(), sum);
        }
        self.count += 1;
        Ok(())
    }

    /// The mean over the micro-batches added since the last call.
    ///
    /// # Errors
    ///
    /// As candle's.
    pub fn mean(&mut self) -> Result<Gradients> {
        let mut gradients = std::mem::take(&mut self.sum);
        let count = std::mem::take(&mut self.count).max(1);
        gradients.scale(1.0 / count as f64)?;
        Ok(gradients)
    }
}
