//! Variables sorted by what an optimiser should do with them.

use candle_core::{Tensor, Var};

use super::Group;
use crate::layer::Factors;

/// Variables by kind.
#[derive(Debug, Clone, Default)]
pub struct VariableGroups {
    /// All A.
    pub a: Vec<Var>,
    /// All B.
    pub b: Vec<Var>,
    /// All magnitudes.
    pub magnitude: Vec<Var>,
}

impl VariableGroups {
    /// The variables of these layers; tensors that are not variables are left out.
    pub fn of<'a>(factors: impl IntoIterator<Item = &'a Factors>) -> Self {
        let mut groups = Self::default();
        let push = |group: &mut Vec<Var>, tensor: Option<&Tensor>| {
            let var = tensor.filter(|t| t.is_variable());
            group.extend(var.and_then(|t| Var::from_tensor(t).ok()));
        };
        for factors in factors {
            push(&mut groups.a, factors.a());
            push(&mut groups.b, factors.b());
            push(&mut groups.magnitude, factors.magnitude());
        }
        groups
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Var> {
        self.a.iter().chain(&self.b).chain(&self.magnitude)
    }
}

/// Learning rates and decays of the three kinds.
///
/// LoRA+ gives B a higher rate than A: S. Hayou et al., "LoRA+: Efficient Low Rank Adaptation of Large
/// Models", arXiv 2402.12354. Magnitudes are lengths, which decay would pull to zero: they get none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoraPlus {
    /// Learning rate of A.
    pub rate: f64,
    /// Learning rate of B over that of A: 1 for plain LoRA; the paper finds 16 good.
    pub ratio: f64,
    /// Learning rate of magnitudes over that of A.
    pub magnitude_ratio: f64,
    /// Weight decay of A and B.
    pub weight_decay: f64,
}

impl Default for LoraPlus {
    fn default() -> Self {
        Self {
            rate: 1e-4,
            ratio: 1.0,
            magnitude_ratio: 1.0,
            weight_decay: 0.0,
        }
    }
}

impl VariableGroups {
    /// Optimiser groups: A, B, magnitudes. Empty ones are left out.
    pub fn optimiser_groups(&self, rates: LoraPlus) -> Vec<Group> {
        let kinds = [
            (&self.a, rates.rate, rates.weight_decay),
            (&self.b, rates.rate * rates.ratio, rates.weight_decay),
            (&self.magnitude, rates.rate * rates.magnitude_ratio, 0.0),
        ];
        let group = |(variables, rate, weight_decay): (&Vec<Var>, f64, f64)| Group {
            variables: variables.clone(),
            rate,
            weight_decay,
        };
        let used = kinds
            .into_iter()
            .filter(|(variables, ..)| !variables.is_empty());
        used.map(group).collect()
    }
}
