//! Initial values taken from the weight: PiSSA and OLoRA.
//!
//! ```text
//! PiSSA   W = U S V^T     A = sqrt(S / s) V^T    B = U sqrt(S / s)    of the `rank` largest singular values
//! OLoRA   W = Q R         A = R                  B = Q                their first `rank` rows and columns
//! base    W - s B A, which is trained on in place of W: the layer begins as W
//! ```
//!
//! F. Meng et al., "PiSSA", NeurIPS 2024 (arXiv 2404.02948); K. Büyükakyüz, "OLoRA", arXiv 2406.01775; both as PEFT 0.21.2
//! has them.
//!
//! An adapter is written for the weight W, of twice the rank, as PEFT converts it: `W - s B0 A0 + s B A = W + s [B, -B0]
//! [A; A0]`. That holds under DoRA too, whose norm is of this very sum.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;

use crate::base::Base;
use crate::config::{Init, LayerConfig, Method};
use crate::error::{DoraError, Result};
use crate::kernel::decompose::{self, Svd};
use crate::kernel::{LowRank, effective};
use crate::random::Random;

/// A and B as a layer began with them, `[rank, in]` and `[out, rank]`, and the base they were taken from.
#[derive(Clone, Debug)]
pub(crate) struct Initial {
    pub(crate) a: Tensor,
    pub(crate) b: Tensor,
    pub(crate) base: Base,
}

fn values(tensor: &Tensor) -> Result<Vec<f64>> {
    let host = tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
    Ok(host.flatten_all()?.to_vec1()?)
}

/// The initial values for `base`; nothing if the settings ask for none from the weight.
pub(crate) fn of_weight(
    base: &Base,
    config: &LayerConfig,
    vb: &VarBuilder<'_>,
) -> Result<Option<Initial>> {
    if config.method == Method::MagnitudeOnly || !config.init.is_of_weight() {
        return Ok(None);
    }
    let &[rows, columns] = base.dims() else {
        return Err(unsupported(
            config.init,
            "it is for linear layers only, as in PEFT",
        ));
    };
    let Base::Dense(weight) = base else {
        return Err(unsupported(config.init, "a packed base cannot be changed"));
    };
    let layer = vb.prefix();
    config.check(&layer, rows, columns)?;
    let (rank, scaling) = (config.rank, config.scaling());
    if scaling <= 0.0 {
        return Err(DoraError::Setting {
            name: format!("lora_alpha of `{layer}`"),
            value: config.alpha,
            want: "above 0, to take initial values from the weight",
        });
    }
    let w = values(weight)?;
    let shape = (rows, columns);
    let halves = |svd: Svd| {
        let roots: Vec<f64> = svd.s.iter().map(|s| (s / scaling).sqrt()).collect();
        let a = svd.vt.chunks(columns).zip(&roots);
        let a = a.flat_map(|(row, root)| row.iter().map(move |v| v * root));
        let b = svd.u.iter().enumerate();
        let b = b.map(|(at, u)| u * roots[at % rank]);
        (b.collect(), a.collect())
    };
    let (b, a): (Vec<f64>, Vec<f64>) = match config.init {
        Init::Pissa => halves(decompose::svd(&w, shape, rank)),
        Init::PissaNiter(iterations) => {
            let mut random = Random::new(config.seed, &layer);
            let svd = decompose::svd_randomised(&w, shape, rank, iterations, &mut random);
            halves(svd)
        }
        Init::Olora => decompose::qr(&w, shape, rank),
        Init::Kaiming | Init::Gaussian | Init::Random => return Ok(None),
    };
    let tensor = |values, shape| -> Result<Tensor> {
        let tensor = Tensor::from_vec(values, shape, &Device::Cpu)?;
        Ok(tensor.to_dtype(vb.dtype())?.to_device(vb.device())?)
    };
    Ok(Some(Initial {
        a: tensor(a, (rank, columns))?,
        b: tensor(b, (rows, rank))?,
        base: base.clone(),
    }))
}

/// That `init` cannot be had.
pub(crate) fn unsupported(init: Init, reason: &'static str) -> DoraError {
    DoraError::Unsupported {
        name: "init",
        value: format!("{init:?}"),
        reason,
    }
}

impl Initial {
    /// `W - s B A`, formed in f64 of the values as they are kept, and rounded once to the type of W.
    pub(crate) fn residual(&self, weight: &Tensor, scaling: f64) -> Result<Tensor> {
        let (a, b) = (values(&self.a)?, values(&self.b)?);
        let [rank, columns] = [0, 1].map(|axis| self.a.dims()[axis]);
        let low = LowRank {
            a: &a,
            b: &b,
            rank,
            scaling: -scaling,
        };
        let residual = effective::updated(&values(weight)?, low, columns);
        let residual = Tensor::from_vec(residual, weight.dims(), &Device::Cpu)?;
        let residual = residual.to_dtype(weight.dtype())?;
        Ok(residual.to_device(weight.device())?)
    }

    /// `[A; A0]` and `[B, -B0]`: the update of W itself.
    pub(crate) fn converted(&self, a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
        let (a, b) = (a.detach(), b.detach());
        Ok((
            Tensor::cat(&[&a, &self.a], 0)?,
            Tensor::cat(&[&b, &self.b.neg()?], 1)?,
        ))
    }
}

/// The reverse of [`Initial::converted`]: `(A, B)` and `(A0, B0)`.
pub(crate) fn halves(a: &Tensor, b: &Tensor) -> Result<[(Tensor, Tensor); 2]> {
    let rank = a.dim(0)? / 2;
    let at = |first| -> Result<(Tensor, Tensor)> {
        let (a, b) = (a.narrow(0, first, rank)?, b.narrow(1, first, rank)?);
        Ok((a.contiguous()?, b.contiguous()?))
    };
    let (a0, b0) = at(rank)?;
    Ok([at(0)?, (a0, b0.neg()?)])
}

/// Shared by copies of a layer.
pub(crate) type Kept = Option<Arc<Initial>>;
