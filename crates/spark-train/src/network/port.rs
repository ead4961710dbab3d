//! Variables as inputs of the graph, and gradients back.
//!
//! ```text
//! variable          input                                      gradient of the variable
//! A [r, in..]       as it is, [in, r] for products             that, turned back
//! B [out, r..]      s B, [r, out] for products                 s times that, turned back
//! magnitude m       m / |W + s B A|, one factor for each row   that over |W + s B A|: the norm is held constant
//! weight, bias      as they are, in the file's layout          that, turned back
//! weight, rounded   its rounded values                         the same: the rounding is passed over
//! ```
//!
//! Rows of length zero have the factor 1 and no gradient, as in spark-dora.

use candle_core::{Device, Tensor as Candle, Var};
use spark_onnx_graph::Tensor;

use super::deployment::Rounding;
use super::formed::Formed;
use super::layer::Trained;
use super::layers::{Layer, transposed};
use crate::error::Result;

/// An input of the graph that variables are behind.
#[derive(Debug)]
pub(super) struct Port {
    /// Name of the input.
    pub(super) input: String,
    /// Shape of the input.
    pub(super) shape: Vec<usize>,
    /// Position of its layer among the trained ones.
    pub(super) layer: usize,
    pub(super) source: Source,
}

/// What an input is made of.
#[derive(Debug)]
pub(super) enum Source {
    /// One variable.
    Variable(Var, Way),
    /// The variables of a layer, as its weight.
    Formed(Box<Formed>),
    /// The weight of a layer that is trained whole, rounded.
    Rounded(Var, Rounding),
}

/// From a variable to an input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Way {
    /// Times a factor.
    Times(f32),
    /// Turned, and times a factor.
    Turned(f32),
    /// Over the norms of the layer's rows.
    OverNorms,
}

impl Port {
    /// The input for the present values of the variables.
    pub(super) fn value(&self, layer: &Layer, trained: &Trained) -> Result<Tensor> {
        match (&self.source, trained) {
            (Source::Variable(variable, way), _) => {
                let values = way.value(variable, trained)?;
                Ok(Tensor::from_f32(self.shape.clone(), values)?)
            }
            (Source::Formed(formed), Trained::Adapted(adapted)) => formed.value(layer, adapted),
            (Source::Rounded(variable, rounding), _) => {
                let values: Vec<f32> = variable.flatten_all()?.to_vec1()?;
                let rounded = rounding.round(&layer.form, variable.dims(), &values)?;
                let (shape, values) = layer.turned(variable.dims(), rounded);
                Ok(Tensor::from_f32(shape, values)?)
            }
            (Source::Formed(_), Trained::Saved(_) | Trained::Biased) => {
                unreachable!("made of adapted layers alone")
            }
        }
    }

    /// The gradients of the variables, from that of the input.
    pub(super) fn gradients(
        &self,
        layer: &Layer,
        trained: &Trained,
        gradient: &Tensor,
    ) -> Result<Vec<(Var, Candle)>> {
        match (&self.source, trained) {
            (Source::Variable(variable, way), _) => {
                let gradient = way.gradient(variable, trained, gradient)?;
                Ok(vec![(variable.clone(), gradient)])
            }
            (Source::Rounded(variable, _), _) => {
                let (_, values) = layer.turned(gradient.shape(), gradient.to_f32());
                let gradient = Candle::from_vec(values, variable.dims(), &Device::Cpu)?;
                Ok(vec![(variable.clone(), gradient)])
            }
            (Source::Formed(formed), Trained::Adapted(adapted)) => {
                formed.gradients(layer, &adapted.row_norms()?, gradient)
            }
            (Source::Formed(_), Trained::Saved(_) | Trained::Biased) => {
                unreachable!("made of adapted layers alone")
            }
        }
    }

    /// The name of a variable behind it.
    pub(super) fn name_of(&self, variable: &Var) -> Option<String> {
        match &self.source {
            Source::Variable(own, _) | Source::Rounded(own, _) => {
                (own.id() == variable.id()).then(|| self.input.clone())
            }
            Source::Formed(formed) => {
                let mut variables = formed.variables();
                let found = variables.find(|(_, own)| own.id() == variable.id());
                found.map(|(end, _)| format!("{}.{end}", self.input))
            }
        }
    }
}

impl Way {
    fn value(self, variable: &Var, trained: &Trained) -> Result<Vec<f32>> {
        let values: Vec<f32> = variable.flatten_all()?.to_vec1()?;
        Ok(match self {
            Self::Times(1.0) => values,
            Self::Times(factor) => values.iter().map(|v| v * factor).collect(),
            Self::Turned(factor) => {
                let turned = transposed(&values, variable.dims()[1]);
                turned.iter().map(|v| v * factor).collect()
            }
            Self::OverNorms => {
                let norms = norms(trained)?;
                let rows = values.iter().zip(norms);
                rows.map(|(m, norm)| if norm == 0.0 { 1.0 } else { m / norm })
                    .collect()
            }
        })
    }

    fn gradient(self, variable: &Var, trained: &Trained, gradient: &Tensor) -> Result<Candle> {
        let values = gradient.to_f32();
        let values = match self {
            Self::Times(1.0) => values,
            Self::Times(factor) => values.iter().map(|v| v * factor).collect(),
            Self::Turned(factor) => {
                let turned = transposed(&values, variable.dims()[0]);
                turned.iter().map(|v| v * factor).collect()
            }
            Self::OverNorms => {
                let norms = norms(trained)?;
                let rows = values.iter().zip(norms);
                rows.map(|(dg, norm)| if norm == 0.0 { 0.0 } else { dg / norm })
                    .collect()
            }
        };
        Ok(Candle::from_vec(values, variable.dims(), &Device::Cpu)?)
    }
}

/// In f32, so that a magnitude that was set to the norm gives exactly 1.
fn norms(trained: &Trained) -> Result<Vec<f32>> {
    let norms = match trained {
        Trained::Adapted(layer) => layer.row_norms()?,
        Trained::Saved(_) | Trained::Biased => Vec::new(),
    };
    Ok(norms.into_iter().map(|norm| norm as f32).collect())
}
