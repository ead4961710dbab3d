//! A weight that is formed and rounded before every step, and what its gradient is for A, B and the magnitude.
//!
//! ```text
//! V = W + s B A      W' = g V, g = m / |V| by row      the input is W' rounded
//! dV = g dW'         dA = s B^T dV      dB = s dV A^T      dm = <dW', V> / |V| by row
//! ```
//!
//! The norm is held constant, and the rounding passed over. Rows of length zero have `g` 1 and no gradient by `m`.

use candle_core::{DType, Device, Tensor as Candle, Var};
use spark_onnx_graph::Tensor;

use super::deployment::Rounding;
use super::layer::{Adapted, variable};
use super::layers::{Form, Layer};
use crate::error::Result;

/// The weight of one adapted layer as an input.
#[derive(Debug)]
pub(super) struct Formed {
    form: Form,
    rounding: Rounding,
    /// Under A and B, `[out, columns]` in f32.
    frozen: Candle,
    /// `[out, in, k..]`.
    dims: Vec<usize>,
    a: Option<Var>,
    b: Option<Var>,
    magnitude: Option<Var>,
    scaling: f64,
}

impl Formed {
    pub(super) fn new(layer: &Layer, adapted: &Adapted, rounding: Rounding) -> Result<Self> {
        let factors = adapted.factors();
        let base = adapted.base_weight()?;
        let dims = base.dims().to_vec();
        let columns: usize = dims[1..].iter().product();
        let frozen = adapted.frozen_weight()?;
        let frozen = Candle::from_vec(frozen, (dims[0], columns), &Device::Cpu)?;
        let of = |tensor: Option<&Candle>| tensor.map(variable).transpose();
        Ok(Self {
            form: layer.form.clone(),
            rounding,
            frozen,
            dims,
            a: of(factors.a())?,
            b: of(factors.b())?,
            magnitude: of(factors.magnitude())?,
            scaling: factors.scaling(),
        })
    }

    /// The variables with the ends of their names.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&'static str, &Var)> {
        let named = [
            ("lora_A", &self.a),
            ("lora_B", &self.b),
            ("scale", &self.magnitude),
        ];
        named
            .into_iter()
            .filter_map(|(name, var)| Some((name, var.as_ref()?)))
    }

    /// A and B as matrices.
    fn factors(&self) -> Result<Option<(Candle, Candle)>> {
        let (Some(a), Some(b)) = (&self.a, &self.b) else {
            return Ok(None);
        };
        let rank = a.dims()[0];
        let a = a.as_detached_tensor().reshape((rank, ()))?;
        let b = b.as_detached_tensor().reshape(((), rank))?;
        Ok(Some((a, b)))
    }

    /// `W + s B A`.
    fn direction(&self) -> Result<Candle> {
        Ok(match self.factors()? {
            Some((a, b)) => (&self.frozen + (b.matmul(&a)? * self.scaling)?)?,
            None => self.frozen.clone(),
        })
    }

    /// The weight as the file holds it, of the layer merged by spark-dora, and rounded.
    pub(super) fn value(&self, layer: &Layer, adapted: &Adapted) -> Result<Tensor> {
        let merged = adapted.merged_weight()?;
        let values: Vec<f32> = merged.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
        let rounded = self.rounding.round(&self.form, &self.dims, &values)?;
        let (shape, values) = layer.turned(&self.dims, rounded);
        Ok(Tensor::from_f32(shape, values)?)
    }

    /// Gradients of the variables from that of the weight as the file holds it.
    pub(super) fn gradients(
        &self,
        layer: &Layer,
        norms: &[f64],
        gradient: &Tensor,
    ) -> Result<Vec<(Var, Candle)>> {
        let (shape, values) = layer.turned(gradient.shape(), gradient.to_f32());
        let columns = shape[1..].iter().product::<usize>();
        let dw = Candle::from_vec(values, (shape[0], columns), &Device::Cpu)?;
        let mut found = Vec::with_capacity(3);
        let dv = match &self.magnitude {
            None => dw,
            Some(magnitude) => {
                let m: Vec<f32> = magnitude.flatten_all()?.to_vec1()?;
                let v = self.direction()?;
                let along: Vec<f32> = (&dw * v)?.sum(1)?.to_vec1()?;
                let rows = || m.iter().zip(norms).map(|(m, norm)| (*m, *norm as f32));
                let scale = |(m, norm)| if norm == 0.0 { 1.0 } else { m / norm };
                let scales: Vec<f32> = rows().map(scale).collect();
                let by_norm = along
                    .iter()
                    .zip(norms)
                    .map(|(dg, norm)| match *norm as f32 {
                        0.0 => 0.0,
                        norm => dg / norm,
                    });
                let dm = by_norm.collect::<Vec<f32>>();
                let dm = Candle::from_vec(dm, magnitude.dims(), &Device::Cpu)?;
                found.push((magnitude.clone(), dm));
                let scales = Candle::from_vec(scales, (shape[0], 1), &Device::Cpu)?;
                dw.broadcast_mul(&scales)?
            }
        };
        if let (Some(a), Some(b), Some((wide, tall))) = (&self.a, &self.b, self.factors()?) {
            let da = (tall.t()?.matmul(&dv)? * self.scaling)?;
            let db = (dv.matmul(&wide.t()?)? * self.scaling)?;
            found.push((a.clone(), da.reshape(a.dims())?));
            found.push((b.clone(), db.reshape(b.dims())?));
        }
        Ok(found)
    }
}
