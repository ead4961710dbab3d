//! Variables sorted by what an optimiser should do with them.

use candle_core::{Tensor, Var};

use super::Group;
use crate::layer::{Factors, SavedTensors};

/// Variables of adapted layers, by what they are, for optimisers that treat them differently.
///
/// # Examples
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{Linear, VarBuilder, VarMap};
/// use spark_dora::optim::{AdamW, LoraPlus, VariableGroups};
/// use spark_dora::{DoraLinear, LayerConfig};
///
/// let base = Linear::new(Tensor::randn(0f32, 1.0, (12, 8), &Device::Cpu)?, None);
/// let variables = VarMap::new();
/// let vb = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
/// let layer = DoraLinear::from_linear(&base, &LayerConfig::dora(4), vb)?;
/// let rates = LoraPlus { rate: 1e-4, ratio: 16.0, ..Default::default() };
/// let groups = VariableGroups::of([layer.factors()]).optimiser_groups(rates);
/// assert_eq!((groups.len(), groups[1].rate), (3, 1.6e-3)); // B learns faster
/// let optimiser = AdamW::new(groups)?;
/// # Ok::<(), spark_dora::DoraError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct VariableGroups {
    /// A of every low-rank layer.
    pub a: Vec<Var>,
    /// B of every low-rank layer.
    pub b: Vec<Var>,
    /// Magnitudes of every layer that trains one.
    pub magnitude: Vec<Var>,
    /// Tensors of modules that are trained whole.
    pub whole: Vec<Var>,
    /// Biases that are trained beside the adapters.
    pub bias: Vec<Var>,
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

    /// Adds the variables of a module that is trained whole.
    pub(crate) fn add_whole(&mut self, saved: &SavedTensors) {
        let variables = saved.variables();
        let variables = variables.filter_map(|(_, tensor)| Var::from_tensor(tensor).ok());
        self.whole.extend(variables);
    }

    /// Adds a bias that is trained.
    pub(crate) fn add_bias(&mut self, bias: Option<&Tensor>) {
        self.bias
            .extend(bias.and_then(|bias| Var::from_tensor(bias).ok()));
    }

    /// All variables: A, then B, then magnitudes, then those of whole modules, then biases.
    pub fn all(&self) -> impl Iterator<Item = &Var> {
        let of_layers = self.a.iter().chain(&self.b).chain(&self.magnitude);
        of_layers.chain(&self.whole).chain(&self.bias)
    }
}

/// Learning rates and decays of the five kinds.
///
/// LoRA+ gives B a higher rate than A: S. Hayou et al., "LoRA+: Efficient Low Rank Adaptation of Large
/// Models", arXiv 2402.12354. Magnitudes are lengths, which decay would pull to zero: they get none, and nor do biases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoraPlus {
    /// Learning rate of A.
    pub rate: f64,
    /// Learning rate of B over that of A: 1 for plain LoRA; the paper finds 16 good.
    pub ratio: f64,
    /// Learning rate of magnitudes over that of A.
    pub magnitude_ratio: f64,
    /// Learning rate of modules trained whole over that of A.
    pub whole_ratio: f64,
    /// Learning rate of biases over that of A.
    pub bias_ratio: f64,
    /// Weight decay of A, B and of modules trained whole.
    pub weight_decay: f64,
}

impl Default for LoraPlus {
    fn default() -> Self {
        Self {
            rate: 1e-4,
            ratio: 1.0,
            magnitude_ratio: 1.0,
            whole_ratio: 1.0,
            bias_ratio: 1.0,
            weight_decay: 0.0,
        }
    }
}

impl VariableGroups {
    /// Optimiser groups: A, B, magnitudes, modules trained whole, biases. Empty ones are left out.
    pub fn optimiser_groups(&self, rates: LoraPlus) -> Vec<Group> {
        let kinds = [
            (&self.a, rates.rate, rates.weight_decay),
            (&self.b, rates.rate * rates.ratio, rates.weight_decay),
            (&self.magnitude, rates.rate * rates.magnitude_ratio, 0.0),
            (
                &self.whole,
                rates.rate * rates.whole_ratio,
                rates.weight_decay,
            ),
            (&self.bias, rates.rate * rates.bias_ratio, 0.0),
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
