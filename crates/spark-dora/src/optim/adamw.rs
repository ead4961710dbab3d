//! AdamW with a learning rate and a decay per group.
//!
//! ```text
//! m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
//! w = w - rate (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + decay w)
//! ```
//!
//! I. Loshchilov, F. Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.

use candle_core::{Tensor, Var};

use super::Gradients;
use crate::base::check_shape;
use crate::error::Result;

/// Variables with one learning rate.
#[derive(Debug, Clone)]
pub struct Group {
    /// Variables that are updated with this rate and decay.
    pub variables: Vec<Var>,
    /// Learning rate per step, before [`AdamW::step`] multiplies it by its factor.
    pub rate: f64,
    /// Decoupled weight decay: each step takes `rate * weight_decay` of a variable away; 0 for
    /// none.
    pub weight_decay: f64,
}

/// What AdamW remembers, in the order of its groups' variables; to be stored with a checkpoint.
#[derive(Debug, Clone)]
pub struct State {
    /// Steps made so far, for the correction of the means' bias.
    pub steps: u64,
    /// Running means of the gradients, one per variable and of its shape.
    pub first: Vec<Tensor>,
    /// Means of squared gradients.
    pub second: Vec<Tensor>,
}

/// AdamW over groups of variables, each with a learning rate and a weight decay of its own.
///
/// # Examples
///
/// ```
/// # use candle_core::{Device, Tensor, Var};
/// # use spark_dora::optim::{Accumulator, AdamW, Group};
/// let weight = Var::new(&[1f32, -2.0], &Device::Cpu)?;
/// let group = Group { variables: vec![weight.clone()], rate: 0.1, weight_decay: 0.0 };
/// let mut optimiser = AdamW::new(vec![group])?;
/// let mut accumulator = Accumulator::new([weight.clone()]);
/// accumulator.add(&weight.sqr()?.sum_all()?.backward()?)?;
/// optimiser.step(&accumulator.mean()?, 1.0)?;
/// let moved = weight.to_vec1::<f32>()?; // the first step is the rate, whatever the gradient
/// assert!((moved[0] - 0.9).abs() < 1e-4 && (moved[1] + 1.9).abs() < 1e-4);
/// # Ok::<(), spark_dora::DoraError>(())
/// ```
#[derive(Debug)]
pub struct AdamW {
    groups: Vec<Group>,
    state: State,
    /// Decay of the means of gradients.
    pub beta1: f64,
    /// Decay of the means of squared gradients.
    pub beta2: f64,
    /// Keeps the divisor from zero.
    pub epsilon: f64,
}

impl AdamW {
    /// With betas 0.9 and 0.999, epsilon 1e-8.
    ///
    /// # Errors
    ///
    /// As candle's.
    pub fn new(groups: Vec<Group>) -> Result<Self> {
        let variables = || groups.iter().flat_map(|g| &g.variables);
        let zeros = || -> Result<Vec<Tensor>> {
            variables()
                .map(|var| Ok(var.zeros_like()?.detach()))
                .collect()
        };
        let (first, second) = (zeros()?, zeros()?);
        Ok(Self {
            groups,
            state: State {
                steps: 0,
                first,
                second,
            },
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
        })
    }

    /// What [`AdamW::resume`] needs to go on from here; to be stored with a checkpoint.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Goes on from a stored state.
    ///
    /// # Errors
    ///
    /// [`crate::DoraError::Shape`] if it belongs to other variables.
    pub fn resume(&mut self, state: State) -> Result<()> {
        let kinds = [
            ("first", &state.first, &self.state.first),
            ("second", &state.second, &self.state.second),
        ];
        for (name, given, own) in kinds {
            check_shape(name, &[given.len()], &[own.len()])?;
            for (given, own) in given.iter().zip(own) {
                check_shape(name, given.dims(), own.dims())?;
            }
        }
        self.state = state;
        Ok(())
    }

    /// One step with every rate times `factor`. Variables without a gradient stay as they are.
    ///
    /// # Errors
    ///
    /// As candle's.
    pub fn step(&mut self, gradients: &Gradients, factor: f64) -> Result<()> {
        self.state.steps = self.state.steps.saturating_add(1);
        let steps = self.state.steps as f64;
        let (b1, b2) = (self.beta1, self.beta2);
        let (unbias1, unbias2) = (1.0 - b1.powf(steps), 1.0 - b2.powf(steps));
        let mut index = 0;
        for group in &self.groups {
            let rate = group.rate * factor;
            for var in &group.variables {
                let (first, second) = (&mut self.state.first[index], &mut self.state.second[index]);
                index += 1;
                let Some(gradient) = gradients.get(var) else {
                    continue;
                };
                *first = ((&*first * b1)? + (gradient * (1.0 - b1))?)?;
                *second = ((&*second * b2)? + (gradient.sqr()? * (1.0 - b2))?)?;
                let divisor = ((&*second / unbias2)?.sqrt()? + self.epsilon)?;
                let change = ((&*first / unbias1)? / divisor)?;
                let kept = (var.as_detached_tensor() * (1.0 - rate * group.weight_decay))?;
                var.set(&(kept - (change * rate)?)?)?;
            }
        }
        Ok(())
    }
}
