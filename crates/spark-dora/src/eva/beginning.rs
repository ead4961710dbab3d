//! A of an adapter's layers, set to the directions of their inputs.
//!
//! ```text
//! adapted, observed               A = its first `rank` directions, whitened if the settings say so
//! adapted, not observed           an error; convolutions and embeddings keep their A and are named
//! observed, not adapted           named: `ranks` may have left it out
//! observed, not known             an error
//! B that is not zero              an error: the layer would no longer compute what it did
//! ```

use candle_core::{DType, Device, Tensor, Var};
use serde_json::json;

use super::directions::Directions;
use super::variance::ExplainedVariance;
use crate::adapter::Adapter;
use crate::base::check_shape;
use crate::config::LayerConfig;
use crate::error::{DoraError, Result};
use crate::layer::Factors;
use crate::layer::factors::NAMES;

/// What the largest element of a direction may lose in A's type: more than any of them rounds away, bf16 1/256.
const MOST_LOST: f64 = 1.0 / 64.0;

/// What became of an adapter's layers.
#[derive(Debug, Clone, PartialEq)]
pub struct Begun {
    /// Layers whose A was set, by name.
    pub layers: Vec<BegunLayer>,
    /// Adapted convolutions and embeddings, which begin as their settings say.
    pub others: Vec<String>,
    /// Layers that were observed and have no A.
    pub without_a: Vec<String>,
}

/// A layer whose A was set.
#[derive(Debug, Clone, PartialEq)]
pub struct BegunLayer {
    /// Name of the layer.
    pub name: String,
    /// Rows of A.
    pub rank: usize,
    /// Rows that were set: fewer if the inputs vary in fewer directions.
    pub directions: usize,
    /// The part of the inputs' variance that these explain.
    pub explained: f64,
    /// Inputs that were observed.
    pub inputs: u64,
}

/// Whether a layer is linear and has an A.
pub(super) fn is_linear(factors: &Factors) -> bool {
    let is_matrix = factors.a().is_some_and(|a| a.rank() == 2);
    is_matrix && factors.is_of(&NAMES)
}

impl ExplainedVariance {
    /// Sets A of every linear layer of the adapter to the directions of its inputs. B is zero and stays so: each layer computes what it
    /// did before, bit for bit. The adapter's settings say so from here on, as PEFT's do: `init_lora_weights` is `eva`.
    ///
    /// # Errors
    ///
    /// [`DoraError::NotObserved`] for linear layers of the adapter without inputs; [`DoraError::UnknownLayer`] for a layer that was observed
    /// and is not in the adapter, [`DoraError::Shape`] for inputs of another length than the layer's, [`DoraError::AlreadyTrained`] for a B that
    /// is not zero, [`DoraError::Unsupported`] for convolutions and embeddings that were observed, and for A and B taken from the weight;
    /// [`DoraError::BeyondType`] for a whitened direction whose largest element is too large or too small for A's type. Nothing is then set.
    pub fn begin(&mut self, adapter: &mut Adapter) -> Result<Begun> {
        let mut begun = self.checked(adapter)?;
        let mut values = Vec::new();
        for (name, config, factors) in adapter.adapted_layers() {
            let (true, Some(a)) = (is_linear(factors), factors.a()) else {
                continue;
            };
            let directions = self.directions(name, config.rank)?;
            values.push((a.clone(), self.a_of(name, a, &directions)?));
            let position = self.reads(name)?;
            begun.layers.push(BegunLayer {
                name: name.to_owned(),
                rank: config.rank,
                directions: directions.count(),
                // Not `sum`, which is -0 of none.
                explained: directions.shares.iter().fold(0.0, |sum, share| sum + share),
                inputs: self.inputs[position].moments.count(),
            });
        }
        for (a, values) in values {
            Var::from_tensor(&a)?.set(&values)?;
        }
        let settings = self.settings;
        adapter.note_setting("init_lora_weights", json!("eva"));
        let noted = json!({
            "rho": settings.rho,
            "whiten": settings.whiten,
            "adjust_scaling_factors": settings.adjust_alpha,
        });
        adapter.note_setting("eva_config", noted);
        Ok(begun)
    }

    /// What there is to be done, with everything that could be refused looked at.
    pub(super) fn checked(&self, adapter: &Adapter) -> Result<Begun> {
        let mut begun = Begun {
            layers: Vec::new(),
            others: Vec::new(),
            without_a: Vec::new(),
        };
        let mut with_a: Vec<&str> = Vec::new();
        let mut unseen = Vec::new();
        for (name, config, factors) in adapter.adapted_layers() {
            if factors.a().is_none() {
                continue;
            }
            with_a.push(name);
            match (is_linear(factors), self.knows(name)) {
                (true, true) => self.check(name, config, factors)?,
                (true, false) => unseen.push(name.to_owned()),
                (false, true) => return Err(unsupported(name, "it is for linear layers only")),
                (false, false) => begun.others.push(name.to_owned()),
            }
        }
        if !unseen.is_empty() {
            return Err(DoraError::NotObserved { layers: unseen });
        }
        for name in self.layers() {
            if !adapter.was_offered(name) {
                return Err(DoraError::UnknownLayer {
                    name: name.to_owned(),
                });
            }
            if !with_a.contains(&name) {
                begun.without_a.push(name.to_owned());
            }
        }
        Ok(begun)
    }

    fn check(&self, name: &str, config: &LayerConfig, factors: &Factors) -> Result<()> {
        if config.init.is_of_weight() {
            let reason = "its A and B are taken from the weight";
            return Err(unsupported(name, reason));
        }
        let (Some(a), Some(b)) = (factors.a(), factors.b()) else {
            return Ok(());
        };
        let columns = self.inputs[self.reads(name)?].moments.columns();
        check_shape(&format!("{name}.input"), &[columns], &a.dims()[1..])?;
        let largest = b.abs()?.flatten_all()?.max(0)?.to_dtype(DType::F64)?;
        if largest.to_scalar::<f64>()? != 0.0 {
            return Err(DoraError::AlreadyTrained {
                layer: name.to_owned(),
            });
        }
        Ok(())
    }

    /// A with its first rows replaced.
    fn a_of(&self, name: &str, a: &Tensor, directions: &Directions) -> Result<Tensor> {
        let host = a.detach().to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
        let mut values: Vec<f64> = host.flatten_all()?.to_vec1()?;
        let rows = values.chunks_exact_mut(directions.columns);
        for (index, row) in (0..directions.count()).zip(rows) {
            let by = match self.settings.whiten {
                true => directions.singular_values[index].sqrt(),
                false => 1.0,
            };
            let from = directions.vector(index).iter();
            row.iter_mut().zip(from).for_each(|(to, v)| *to = v / by);
        }
        let stored = Tensor::from_slice(&values, a.dims(), &Device::Cpu)?.to_dtype(a.dtype())?;
        let held: Vec<f64> = stored.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?;
        for row in 0..directions.count() {
            let of_row = row * directions.columns..(row + 1) * directions.columns;
            let largest = of_row.max_by(|&i, &j| values[i].abs().total_cmp(&values[j].abs()));
            let lost = |&index: &usize| {
                let (want, got) = (values[index], held[index]);
                // A NaN, of infinity less infinity, is lost too.
                let kept = (got - want).abs() <= MOST_LOST * want.abs();
                !kept
            };
            if let Some(index) = largest.filter(lost) {
                return Err(DoraError::BeyondType {
                    name: format!("{name}.lora_A"),
                    index,
                    storage: a.dtype().as_str(),
                });
            }
        }
        Ok(stored.to_device(a.device())?)
    }
}

fn unsupported(layer: &str, reason: &'static str) -> DoraError {
    DoraError::Unsupported {
        name: "EVA",
        value: format!("of `{layer}`"),
        reason,
    }
}
