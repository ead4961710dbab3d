//! What one layer trains: A, B, the magnitude, and the norm that goes with them.
//!
//! ```text
//! DoRA            W' = m (W + s B A) / |W + s B A|      A, B, m
//! LoRA            W' = W + s B A                        A, B
//! magnitude only  W' = m W / |W|                        m
//! ```
//!
//! The norm depends on A and B alone. It is computed when a forward pass finds values other than
//! those it was last computed for, so micro-batches, evaluation and recomputation share one.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::VarBuilder;

use super::initial::{self, Initial};
use crate::base::{Base, check_shape};
use crate::config::{Init, LayerConfig, Method, check_scaling};
use crate::error::{DoraError, Result};
use crate::finite;
use crate::kernel::norm::{row_norms, squares};
use crate::kernel::{LowRank, Real};
use crate::random::Random;

/// Name of A in files and variable stores.
pub const A_NAME: &str = "lora_A.weight";
/// Name of B in files and variable stores.
pub const B_NAME: &str = "lora_B.weight";
/// Name of the magnitude in files and variable stores.
pub const MAGNITUDE_NAME: &str = "lora_magnitude_vector";

/// Shapes of a layer's variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FactorShapes {
    /// Outputs: rows of the weight.
    pub(crate) rows: usize,
    /// Elements of one row.
    pub(crate) columns: usize,
    /// What follows `rank` in the shape of A.
    pub(crate) a_tail: Vec<usize>,
    /// Ones that follow in the shapes of B and around the magnitude.
    pub(crate) ones: usize,
    /// Of A, B and the magnitude.
    pub(crate) names: Names,
}

/// Names of A, B and the magnitude.
pub(crate) type Names = [&'static str; 3];

/// Of layers with a weight.
pub(crate) const NAMES: Names = [A_NAME, B_NAME, MAGNITUDE_NAME];

impl FactorShapes {
    /// Of a layer whose weight is `[out, ..]`.
    pub(crate) fn of_weight(dims: &[usize]) -> Self {
        Self {
            rows: dims[0],
            columns: dims[1..].iter().product(),
            a_tail: dims[1..].to_vec(),
            ones: dims.len().saturating_sub(2),
            names: NAMES,
        }
    }

    /// Names with shapes, for this rank.
    pub(crate) fn named(&self, rank: usize) -> [(&'static str, Vec<usize>); 3] {
        let [a, b, magnitude] = self.names;
        [
            (a, self.a(rank)),
            (b, self.b(rank)),
            (magnitude, self.magnitude()),
        ]
    }

    fn a(&self, rank: usize) -> Vec<usize> {
        [&[rank], self.a_tail.as_slice()].concat()
    }

    fn b(&self, rank: usize) -> Vec<usize> {
        [&[self.rows, rank], vec![1; self.ones].as_slice()].concat()
    }

    fn magnitude(&self) -> Vec<usize> {
        match self.ones {
            0 => vec![self.rows],
            ones => [&[1, self.rows], vec![1; ones].as_slice()].concat(),
        }
    }
}

/// The variables of one layer.
#[derive(Clone, Debug)]
pub struct Factors {
    names: Names,
    method: Method,
    rank: usize,
    scaling: f64,
    a: Option<Tensor>,
    b: Option<Tensor>,
    magnitude: Option<Tensor>,
    norms: Arc<NormCache>,
    initial: initial::Kept,
}

impl Factors {
    /// Takes the variables from `vb`; those that were not there are initialised, by `initial` if the settings ask for
    /// values from the weight, of which `rows` then gives what remains.
    pub(crate) fn new(
        rows: impl FnOnce() -> Result<Base>,
        shapes: &FactorShapes,
        config: &LayerConfig,
        vb: &VarBuilder<'_>,
        initial: Option<Initial>,
    ) -> Result<Self> {
        let [a_name, b_name, magnitude_name] = shapes.names;
        let layer = vb.prefix();
        check_type(vb.dtype())?;
        // Stored factors may have any rank; new ones may not waste any.
        if vb.contains_tensor(a_name) {
            config.check_numbers(&layer)?;
        } else {
            config.check(&layer, shapes.rows, shapes.columns)?;
        }
        let mut random = Random::new(config.seed, &layer);
        let rank = config.rank;
        let low_rank = config.method != Method::MagnitudeOnly;
        let (mut a, mut b) = (None, None);
        if low_rank && config.init.is_of_weight() && initial.is_none() {
            let reason = "it is for linear layers only, as in PEFT";
            return Err(initial::unsupported(config.init, reason));
        }
        if let (true, Some(initial)) = (low_rank, &initial) {
            a = Some(taken(vb, a_name, shapes.a(rank), &initial.a)?);
            b = Some(taken(vb, b_name, shapes.b(rank), &initial.b)?);
        } else if low_rank {
            let len = rank * shapes.columns;
            a = Some(variable(vb, a_name, shapes.a(rank), || {
                match config.init {
                    // Uniform within the bound that kaiming_uniform(a = sqrt(5)) gives.
                    Init::Gaussian => random.normal(len, 1.0 / rank as f64),
                    _ => random.uniform(len, 1.0 / (shapes.columns as f64).sqrt()),
                }
            })?);
            let len = shapes.rows * rank;
            b = Some(variable(vb, b_name, shapes.b(rank), || {
                match config.init {
                    Init::Random => random.uniform(len, 1.0 / (rank as f64).sqrt()),
                    _ => vec![0.0; len],
                }
            })?);
        }
        let mut factors = Self {
            names: shapes.names,
            method: config.method,
            rank: if low_rank { rank } else { 0 },
            scaling: config.scaling(),
            a,
            b,
            magnitude: None,
            norms: Arc::default(),
            initial: initial.map(Arc::new),
        };
        if config.method != Method::Lora {
            let norms = factors.row_norms(rows)?;
            let shape = shapes.magnitude();
            factors.magnitude = Some(variable(vb, magnitude_name, shape, || norms.to_vec())?);
        }
        Ok(factors)
    }

    /// Variables given as they are.
    pub(crate) fn from_parts(
        shapes: &FactorShapes,
        low_rank: Option<(Tensor, Tensor)>,
        magnitude: Option<Tensor>,
        scaling: f64,
    ) -> Result<Self> {
        let [a_name, b_name, magnitude_name] = shapes.names;
        check_scaling("scaling", scaling, scaling)?;
        let mut rank = 0;
        if let Some((a, b)) = &low_rank {
            rank = a.dims().first().copied().unwrap_or(0);
            if rank == 0 {
                return Err(DoraError::RankZero {
                    layer: a_name.to_owned(),
                });
            }
            check_shape(a_name, a.dims(), &shapes.a(rank))?;
            check_shape(b_name, b.dims(), &shapes.b(rank))?;
        }
        let method = match (&low_rank, &magnitude) {
            (Some(_), Some(_)) => Method::Dora,
            (Some(_), None) => Method::Lora,
            (None, _) => Method::MagnitudeOnly,
        };
        if let Some(magnitude) = &magnitude {
            check_shape(magnitude_name, magnitude.dims(), &shapes.magnitude())?;
        }
        let (a, b) = low_rank.unzip();
        Ok(Self {
            names: shapes.names,
            method,
            rank,
            scaling,
            a,
            b,
            magnitude,
            norms: Arc::default(),
            initial: None,
        })
    }

    /// Nothing trained: the base alone.
    pub(crate) fn none() -> Self {
        Self {
            names: NAMES,
            method: Method::MagnitudeOnly,
            rank: 0,
            scaling: 1.0,
            a: None,
            b: None,
            magnitude: None,
            norms: Arc::default(),
            initial: None,
        }
    }

    /// What the layer began with, if that was taken from the weight.
    pub(crate) fn initial(&self) -> Option<&Initial> {
        self.initial.as_deref()
    }

    /// The variables with their names as they are written, for the weight that was adapted.
    pub(crate) fn written(&self) -> Result<Vec<(&'static str, Tensor)>> {
        let mut written: Vec<_> = self.named().map(|(n, t)| (n, t.detach())).collect();
        if let (Some(initial), Some(a), Some(b)) = (self.initial(), self.a(), self.b()) {
            let (a, b) = initial.converted(a, b)?;
            (written[0].1, written[1].1) = (a, b);
        }
        Ok(written)
    }

    /// Whether A, B and the magnitude have these names.
    pub(crate) fn is_of(&self, names: &Names) -> bool {
        self.names == *names
    }

    /// Which variables the layer has.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Rows of A; 0 for magnitude-only layers.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Factor `s` of the update `B A`.
    pub fn scaling(&self) -> f64 {
        self.scaling
    }

    /// A: `[rank, in]`, or `[rank, in, kernel..]`.
    pub fn a(&self) -> Option<&Tensor> {
        self.a.as_ref()
    }

    /// B: `[out, rank]`, or `[out, rank, 1..]`.
    pub fn b(&self) -> Option<&Tensor> {
        self.b.as_ref()
    }

    /// The magnitude: `[out]`, or `[1, out, 1..]`.
    pub fn magnitude(&self) -> Option<&Tensor> {
        self.magnitude.as_ref()
    }

    /// The variables with their names.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &Tensor)> {
        let tensors = [&self.a, &self.b, &self.magnitude];
        let named = self.names.into_iter().zip(tensors);
        named.filter_map(|(name, tensor)| Some((name, tensor.as_ref()?)))
    }

    /// Elements of all variables together.
    pub fn parameter_count(&self) -> usize {
        self.named().map(|(_, tensor)| tensor.elem_count()).sum()
    }

    /// All variables, flat, in the order A, B, magnitude, `bias`, so that one operation can take them.
    pub(crate) fn flat(&self, bias: Option<&Tensor>, dtype: DType) -> candle_core::Result<Tensor> {
        let parts = self.named().map(|(_, tensor)| tensor).chain(bias);
        let parts = parts
            .map(|tensor| tensor.flatten_all())
            .collect::<candle_core::Result<Vec<_>>>()?;
        match parts.first() {
            Some(_) => Tensor::cat(&parts, 0)?.to_dtype(dtype),
            None => Tensor::zeros(1, dtype, &Device::Cpu),
        }
    }

    /// Norms of the rows of `W + s B A`; `rows` gives `W` as `[out, ..]` if they must be computed.
    ///
    /// A and B come to the host for this.
    pub(crate) fn row_norms(&self, rows: impl FnOnce() -> Result<Base>) -> Result<Arc<[f64]>> {
        let host = |tensor: &Option<Tensor>| -> Result<Option<Tensor>> {
            let flat = tensor.as_ref().map(Tensor::flatten_all).transpose()?;
            Ok(flat.map(|t| t.to_device(&Device::Cpu)).transpose()?)
        };
        let (a, b) = (host(&self.a)?, host(&self.b)?);
        // In the type the layer computes in, so that a magnitude set from here gives a scale of 1.
        match self.a.as_ref().map_or(DType::F64, Tensor::dtype) {
            DType::F32 => self.norms_as::<f32>(rows, a, b),
            _ => self.norms_as::<f64>(rows, a, b),
        }
    }

    fn norms_as<T: Real>(
        &self,
        rows: impl FnOnce() -> Result<Base>,
        a: Option<Tensor>,
        b: Option<Tensor>,
    ) -> Result<Arc<[f64]>> {
        let values = |tensor: Option<Tensor>| -> Result<Vec<T>> {
            Ok(match tensor {
                Some(tensor) => tensor.to_dtype(T::TYPE)?.to_vec1()?,
                None => Vec::new(),
            })
        };
        let (a, b) = (values(a)?, values(b)?);
        let rows = || match rows()? {
            Base::Dense(w) => {
                let w = w.to_device(&Device::Cpu)?.to_dtype(T::TYPE)?;
                Base::dense(&w)
            }
            packed => Ok(packed),
        };
        self.norms.get(rows, self.low_rank(&a, &b))
    }

    /// The update on slices of A and B.
    pub(crate) fn low_rank<'a, T: Real>(&self, a: &'a [T], b: &'a [T]) -> LowRank<'a, T> {
        LowRank {
            a,
            b,
            rank: self.rank,
            scaling: T::from_f64(self.scaling),
        }
    }

    /// The norms kept for this layer.
    pub(crate) fn cache(&self) -> &Arc<NormCache> {
        &self.norms
    }

    /// How often the norm was computed.
    pub fn norm_computations(&self) -> usize {
        self.norms.lock().computations
    }
}

/// Refuses variables of another type than f32 and f64: steps of training are too small for fewer bits.
pub(crate) fn check_type(dtype: DType) -> Result<()> {
    match dtype {
        DType::F32 | DType::F64 => Ok(()),
        other => Err(DoraError::Unsupported {
            name: "the variables' type",
            value: format!("{other:?}"),
            reason: "A, B and magnitudes are f32 or f64, beside a base of any type",
        }),
    }
}

/// As [`variable`], with values given as a tensor.
fn taken(vb: &VarBuilder<'_>, name: &str, shape: Vec<usize>, values: &Tensor) -> Result<Tensor> {
    let values = values.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
    let values = values.flatten_all()?.to_vec1()?;
    variable(vb, name, shape, || values)
}

/// Takes `name` from `vb`, in f32 or f64; sets it to `values` if it was not there.
fn variable(
    vb: &VarBuilder<'_>,
    name: &str,
    shape: Vec<usize>,
    values: impl FnOnce() -> Vec<f64>,
) -> Result<Tensor> {
    if vb.contains_tensor(name) {
        let tensor = vb.get(shape.as_slice(), name)?;
        finite::check(&named(&vb.prefix(), name), &tensor)?;
        return Ok(tensor);
    }
    let tensor = vb.get_with_hints(shape.as_slice(), name, candle_nn::Init::Const(0.0))?;
    if tensor.is_variable() {
        let values = Tensor::from_vec(values(), shape, &Device::Cpu)?;
        let values = values
            .to_dtype(tensor.dtype())?
            .to_device(tensor.device())?;
        Var::from_tensor(&tensor)?.set(&values)?;
    }
    Ok(tensor)
}

/// Row norms with the A and B they were computed for.
#[derive(Debug, Default)]
pub(crate) struct NormCache(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// Squared norms of the base's rows, which never change.
    squares: Option<Arc<[f64]>>,
    /// `(A, B)` as `(Vec<T>, Vec<T>)`.
    factors: Option<Box<dyn Any + Send>>,
    norms: Option<Arc<[f64]>>,
    computations: usize,
}

impl NormCache {
    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The norms for these factors; `base` is read only if they are others than before.
    pub(crate) fn get<T: Real>(
        &self,
        base: impl FnOnce() -> Result<Base>,
        low: LowRank<'_, T>,
    ) -> Result<Arc<[f64]>> {
        if let Some(norms) = self.find(low) {
            return Ok(norms);
        }
        let base = base()?;
        let squares = self.squares::<T>(&base)?;
        let columns = base.dims()[1..].iter().product();
        let norms = base.with_rows(|rows| row_norms(rows, columns, &squares, low))?;
        Ok(self.keep(low, norms))
    }

    /// The norms, if they were last computed for these factors.
    pub(crate) fn find<T: Real>(&self, low: LowRank<'_, T>) -> Option<Arc<[f64]>> {
        let kept = self.lock();
        let (a, b) = kept.factors.as_ref()?.downcast_ref::<(Vec<T>, Vec<T>)>()?;
        match same(a, low.a) && same(b, low.b) {
            true => kept.norms.clone(),
            false => None,
        }
    }

    /// Squared norms of the rows of the base.
    pub(crate) fn squares<T: Real>(&self, base: &Base) -> Result<Arc<[f64]>> {
        let mut kept = self.lock();
        if let Some(known) = &kept.squares {
            return Ok(known.clone());
        }
        let columns = base.dims()[1..].iter().product();
        let known: Arc<[f64]> = base.with_rows(|rows| squares::<T>(rows, columns))?.into();
        kept.squares = Some(known.clone());
        Ok(known)
    }

    /// Keeps norms that were computed for these factors.
    pub(crate) fn keep<T: Real>(&self, low: LowRank<'_, T>, norms: Vec<f64>) -> Arc<[f64]> {
        let norms: Arc<[f64]> = norms.into();
        let mut kept = self.lock();
        let known = kept.factors.take();
        let known = known.and_then(|known| known.downcast::<(Vec<T>, Vec<T>)>().ok());
        // Into the memory of the last ones, which have the same size.
        let mut factors = known.unwrap_or_default();
        factors.0.clear();
        factors.0.extend_from_slice(low.a);
        factors.1.clear();
        factors.1.extend_from_slice(low.b);
        kept.factors = Some(factors);
        kept.norms = Some(norms.clone());
        kept.computations += 1;
        norms
    }
}

/// Whether all numbers are equal: some at a time, so that vectors compare them.
fn same<T: Real>(kept: &[T], now: &[T]) -> bool {
    const AT_ONCE: usize = 256;
    let parts = kept.chunks(AT_ONCE).zip(now.chunks(AT_ONCE));
    let equal = |(kept, now): (&[T], &[T])| {
        let pairs = kept.iter().zip(now);
        pairs.fold(true, |all, (kept, now)| all & (kept == now))
    };
    kept.len() == now.len() && parts.into_iter().all(equal)
}

/// The name of `what` in `layer`, which may have none.
pub(crate) fn named(layer: &str, what: &str) -> String {
    match layer {
        "" => what.to_owned(),
        layer => format!("{layer}.{what}"),
    }
}
