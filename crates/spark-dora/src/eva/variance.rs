//! What is known of the inputs of layers, by name.
//!
//! ```text
//! observe(layer, x)          adds to what the layer reads
//! reads_as(layer, other)     both read the same
//! directions(layer, n)       computed when they are asked for, and kept until more is observed
//! ```

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};

use super::directions::Directions;
use super::moments::Moments;
use crate::base::check_shape;
use crate::error::{DoraError, Result};
use crate::finite;

/// Most elements that inputs may have: the sums of such a layer take 256 MiB, and its directions 1.5 GiB more for a while.
pub const MOST_COLUMNS: usize = 8192;

/// Squares of larger numbers could not be summed.
const LARGEST: f64 = 1e100;

/// How layers begin: PEFT's `EvaConfig`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EvaSettings {
    /// A layer gets at most this times its rank, or times the largest rank of those that read the same; where all of these have
    /// one rank, 1 leaves ranks as they are.
    pub rho: f64,
    /// Whether directions are divided by the root of their singular value.
    pub whiten: bool,
    /// Whether alpha follows a rank that changes, so that `alpha / rank` stays.
    pub adjust_alpha: bool,
}

impl Default for EvaSettings {
    /// Twice the ranks, no whitening, alpha adjusted: PEFT's.
    fn default() -> Self {
        Self {
            rho: 2.0,
            whiten: false,
            adjust_alpha: true,
        }
    }
}

/// What is known of the inputs of layers, of which an adapter can begin.
///
/// Takes `4 n^2` bytes for inputs of `n` elements, and at most `512 n` more, however many there are; layers that read the same share them
/// ([`ExplainedVariance::reads_as`]).
///
/// # Examples
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::Linear;
/// use spark_dora::{Adapter, DoraConfig, EvaSettings, ExplainedVariance};
///
/// let w = Tensor::new(&[[1f32, 2., 3.], [4., -5., 6.], [7., 8., -9.], [0.5, 0., 1.]], &Device::Cpu)?;
/// let base = Linear::new(w, None);
/// let mut adapter = Adapter::new(DoraConfig::builder(1).lora().build()?, DType::F32, &Device::Cpu)?;
/// let layer = adapter.linear("fc", &base)?;
///
/// // Inputs that vary along (0, 3, 4).
/// let x = Tensor::new(&[[1f32, 0., 0.], [1., 3., 4.], [1., -3., -4.]], &Device::Cpu)?;
/// let mut variance = ExplainedVariance::new(EvaSettings::default())?;
/// variance.observe("fc", &x)?;
/// variance.begin(&mut adapter)?;
///
/// let a = adapter.factors("fc").and_then(|factors| factors.a()).expect("it has an A");
/// let a = a.flatten_all()?.to_vec1::<f32>()?;
/// assert!(a.iter().zip([0.0, 0.6, 0.8]).all(|(a, want)| (a - want).abs() < 1e-6));
/// let merged = layer.adapted().expect("it was adapted").merge()?.layer;
/// assert_eq!(merged.weight().to_vec2::<f32>()?, base.weight().to_vec2::<f32>()?); // B is zero
/// # Ok::<(), spark_dora::DoraError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ExplainedVariance {
    pub(super) settings: EvaSettings,
    layers: BTreeMap<String, Reads>,
    pub(super) inputs: Vec<Inputs>,
}

/// What a layer reads.
#[derive(Debug, Clone, Copy)]
struct Reads {
    /// Its position.
    inputs: usize,
    /// Whether it is observed under another layer's name.
    as_another: bool,
}

/// Inputs of one layer, or of several that read the same.
#[derive(Debug, Clone)]
pub(super) struct Inputs {
    pub(super) moments: Moments,
    /// The directions that were last computed, and how many were asked for.
    directions: Option<(usize, Directions)>,
}

impl ExplainedVariance {
    /// Before anything is observed.
    ///
    /// # Errors
    ///
    /// [`DoraError::Setting`] for a rho that is below 1 or no number.
    pub fn new(settings: EvaSettings) -> Result<Self> {
        if !(settings.rho >= 1.0 && settings.rho.is_finite()) {
            return Err(DoraError::Setting {
                name: "rho".to_owned(),
                value: settings.rho,
                want: "a finite number from 1 on",
            });
        }
        Ok(Self {
            settings,
            layers: BTreeMap::new(),
            inputs: Vec::new(),
        })
    }

    /// Takes in inputs of a layer, `[.., in]`. What there is of earlier batches counts as much; a batch of none adds nothing, and a layer of
    /// which there are no others stays unknown.
    ///
    /// The same inputs in the same order give the same bits, however they are cut into batches.
    ///
    /// # Errors
    ///
    /// [`DoraError::NotFinite`], [`DoraError::ElementType`] and [`DoraError::BeyondType`] naming `layer.input`, for elements that are no
    /// real numbers or above 1e100; [`DoraError::Shape`] for inputs of no elements each, or of another length than before;
    /// [`DoraError::TooManyColumns`] above [`MOST_COLUMNS`]; [`DoraError::Duplicate`] for a layer that reads as another one does. Nothing of the batch
    /// is then taken.
    pub fn observe(&mut self, layer: &str, x: &Tensor) -> Result<()> {
        let name = || format!("{layer}.input");
        let columns = x.dims().last().copied().unwrap_or(0);
        if columns == 0 {
            return check_shape(&name(), x.dims(), &[1, 1]);
        }
        match self.layers.get(layer) {
            Some(reads) if reads.as_another => {
                return Err(DoraError::Duplicate {
                    name: layer.to_owned(),
                });
            }
            Some(reads) => {
                let before = self.inputs[reads.inputs].moments.columns();
                check_shape(&name(), &[columns], &[before])?;
            }
            None if columns > MOST_COLUMNS => {
                return Err(DoraError::TooManyColumns {
                    layer: layer.to_owned(),
                    columns,
                    limit: MOST_COLUMNS,
                });
            }
            None => {}
        }
        if x.elem_count() == 0 {
            return Ok(());
        }
        finite::check(&name(), x)?;
        let host = x.detach().to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
        let values: Vec<f64> = host.flatten_all()?.to_vec1()?;
        if let Some(index) = values.iter().position(|v| v.abs() > LARGEST) {
            return Err(DoraError::BeyondType {
                name: name(),
                index,
                storage: "sums of squares in f64",
            });
        }
        let next = Reads {
            inputs: self.inputs.len(),
            as_another: false,
        };
        let position = self.layers.entry(layer.to_owned()).or_insert(next).inputs;
        if position == self.inputs.len() {
            self.inputs.push(Inputs {
                moments: Moments::new(columns),
                directions: None,
            });
        }
        let inputs = &mut self.inputs[position];
        inputs.moments.add(&values);
        inputs.directions = None;
        Ok(())
    }

    /// Says that a layer reads what `other` reads, whose inputs are observed: before or after this, for both.
    ///
    /// # Errors
    ///
    /// [`DoraError::Duplicate`] for a layer that is known already, [`DoraError::NotObserved`] if the other one is not.
    pub fn reads_as(&mut self, layer: &str, other: &str) -> Result<()> {
        if self.layers.contains_key(layer) {
            return Err(DoraError::Duplicate {
                name: layer.to_owned(),
            });
        }
        let inputs = self.reads(other)?;
        let reads = Reads {
            inputs,
            as_another: true,
        };
        self.layers.insert(layer.to_owned(), reads);
        Ok(())
    }

    /// Whether inputs of this layer were observed.
    pub(super) fn knows(&self, layer: &str) -> bool {
        self.layers.contains_key(layer)
    }

    /// Layers whose inputs were observed.
    pub fn layers(&self) -> impl Iterator<Item = &str> {
        self.layers.keys().map(String::as_str)
    }

    /// The first `count` directions of a layer's inputs, or as many as they vary in. They are kept for the next call.
    ///
    /// # Errors
    ///
    /// [`DoraError::NotObserved`].
    pub fn directions(&mut self, layer: &str, count: usize) -> Result<Directions> {
        let position = self.reads(layer)?;
        Ok(self.solved(position, count).first(count))
    }

    pub(super) fn reads(&self, layer: &str) -> Result<usize> {
        let reads = self.layers.get(layer);
        let reads = reads.ok_or_else(|| DoraError::NotObserved {
            layers: vec![layer.to_owned()],
        });
        Ok(reads?.inputs)
    }

    /// At least the first `count` directions, if there are so many.
    pub(super) fn solved(&mut self, position: usize, count: usize) -> &Directions {
        let Inputs {
            moments,
            directions,
        } = &mut self.inputs[position];
        let kept = directions.take().filter(|(asked, _)| *asked >= count);
        let kept = kept.unwrap_or_else(|| (count, Directions::of(moments, count)));
        &directions.insert(kept).1
    }
}
