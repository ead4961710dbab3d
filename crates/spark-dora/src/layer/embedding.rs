//! An embedding under DoRA, the norm taken per embedding dimension, as PEFT does.
//!
//! ```text
//! W [V, D]    A [r, V]    B [D, r]    m [D]
//! y[t] = g (W[id(t)] + s B A[:, id(t)])      g_d = m_d / |column d of W + s (B A)^T|
//! ```

use candle_core::{DType, Result as CandleResult, Tensor};
use candle_nn::{Embedding, Module, VarBuilder};

use super::composed;
use super::factors::{FactorShapes, Factors, MAGNITUDE_NAME, named};
use super::train::TrainModule;
use crate::base::{Base, check_shape};
use crate::config::LayerConfig;
use crate::error::Result;
use crate::finite;
use crate::merge::Merged;

/// Names PEFT gives to the variables of embeddings.
pub(crate) const NAMES: [&str; 3] = ["lora_embedding_A", "lora_embedding_B", MAGNITUDE_NAME];

/// An embedding under DoRA, LoRA, or a trained magnitude.
///
/// # Shapes
///
/// Input `[..]` of u8, u32 or i64 indices, output `[.., D]`; variables as in the module. Variables are
/// f32, or f64 beside a base of f64; the result has the base's type.
#[derive(Clone, Debug)]
pub struct DoraEmbedding {
    weight: Tensor,
    factors: Factors,
}

pub(crate) fn shapes(weight: &Tensor) -> Result<FactorShapes> {
    let dims = weight.dims();
    let &[entries, dimensions] = dims else {
        check_shape("weight", dims, &[0, 0])?;
        unreachable!("a shape of other than two axes was refused");
    };
    Ok(FactorShapes {
        rows: dimensions,
        columns: entries,
        a_tail: vec![entries],
        ones: 0,
        names: NAMES,
    })
}

/// Embedding dimensions as rows.
fn rows(weight: &Tensor) -> Result<Base> {
    Base::dense(&weight.t()?)
}

impl DoraEmbedding {
    /// Adapts `embedding`, with variables taken from `vb` or made in it.
    ///
    /// # Errors
    ///
    /// As [`crate::DoraLinear::from_linear`].
    pub fn from_embedding(
        embedding: &Embedding,
        config: &LayerConfig,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        let weight = embedding.embeddings().detach();
        let shapes = shapes(&weight)?;
        finite::check(&named(&vb.prefix(), "weight"), &weight)?;
        let factors = Factors::new(|| rows(&weight), &shapes, config, &vb, None)?;
        Ok(Self { weight, factors })
    }

    /// A layer of given tensors; see [`crate::DoraLinear::from_tensors`].
    ///
    /// # Errors
    ///
    /// [`crate::DoraError::Shape`] for tensors that do not fit the weight.
    pub fn from_tensors(
        embedding: &Embedding,
        low_rank: Option<(Tensor, Tensor)>,
        magnitude: Option<Tensor>,
        scaling: f64,
    ) -> Result<Self> {
        let weight = embedding.embeddings().detach();
        finite::check("weight", &weight)?;
        let factors = Factors::from_parts(&shapes(&weight)?, low_rank, magnitude, scaling)?;
        Ok(Self { weight, factors })
    }

    /// The trained variables: A, B and the magnitude, as far as the layer has them.
    pub fn factors(&self) -> &Factors {
        &self.factors
    }

    pub(crate) fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// A plain embedding that gives the same; see [`crate::DoraLinear::merge`].
    ///
    /// # Errors
    ///
    /// [`crate::DoraError::NotFinite`] if a merged weight is not a finite number.
    pub fn merge(&self) -> Result<Merged<Embedding>> {
        let base = rows(&self.weight)?;
        let (effective, report) = crate::merge::effective(&base, &self.factors)?;
        let weight = effective.t()?.contiguous()?;
        let dimensions = weight.dim(1)?;
        Ok(Merged {
            layer: Embedding::new(weight, dimensions),
            report,
        })
    }

    /// The embedding as it was before adaptation.
    ///
    /// # Errors
    ///
    /// As candle's.
    pub fn base(&self) -> Result<Embedding> {
        Ok(Embedding::new(self.weight.clone(), self.weight.dim(1)?))
    }
}

/// Training is as evaluation: an index has no elements to drop, and PEFT drops none.
impl TrainModule for DoraEmbedding {}

impl Module for DoraEmbedding {
    fn forward(&self, ids: &Tensor) -> CandleResult<Tensor> {
        let shape = [ids.dims(), &[self.weight.dim(1)?]].concat();
        let ids = ids.flatten_all()?;
        let own = self.weight.dtype();
        let dtype = match own {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        let mut y = self.weight.index_select(&ids, 0)?.to_dtype(dtype)?;
        if let (Some(a), Some(b)) = (self.factors.a(), self.factors.b()) {
            let picked = a.to_dtype(dtype)?.index_select(&ids, 1)?.t()?;
            let update = picked.matmul(&b.to_dtype(dtype)?.t()?)?;
            y = (y + (update * self.factors.scaling())?)?;
        }
        let rows = || rows(&self.weight);
        if let Some(dora_scale) = composed::dora_scale(&self.factors, rows, dtype, ids.device())? {
            y = y.broadcast_mul(&dora_scale)?;
        }
        y.to_dtype(own)?.reshape(shape)
    }
}
