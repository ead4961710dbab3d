//! A layer under its adapter: variables as inputs of the graph, and gradients back.
//!
//! ```text
//! variable          input                                      gradient of the variable
//! A [r, in..]       as it is, [in, r] for products             that, turned back
//! B [out, r..]      s B, [r, out] for products                 s times that, turned back
//! magnitude m       m / |W + s B A|, one factor for each row   that over |W + s B A|: the norm is held constant
//! weight, bias      as they are, in the file's layout          that, turned back
//! ```
//!
//! Rows of length zero have the factor 1 and no gradient, as in spark-dora.

use candle_core::{DType, Device, Tensor as Candle, Var};
use candle_nn::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Linear};
use spark_dora::{
    Adapter, DoraConv1d, DoraConv2d, DoraError, DoraLinear, Factors, Offered, SavedTensors,
};
use spark_onnx_graph::graph::Graph;
use spark_onnx_graph::{DType as Type, Tensor};

use super::formed::Formed;
use super::layers::{Form, Layer, transposed};
use crate::error::Result;

/// A layer that is adapted, as spark-dora has it.
#[derive(Debug)]
pub(super) enum Adapted {
    Linear(DoraLinear),
    Conv1d(DoraConv1d),
    Conv2d(DoraConv2d),
}

/// How a layer is trained.
#[derive(Debug)]
pub(super) enum Trained {
    /// By an adapter.
    Adapted(Adapted),
    /// Whole.
    Saved(SavedTensors),
}

impl Adapted {
    pub(super) fn factors(&self) -> &Factors {
        match self {
            Self::Linear(layer) => layer.factors(),
            Self::Conv1d(layer) => layer.factors(),
            Self::Conv2d(layer) => layer.factors(),
        }
    }

    pub(super) fn row_norms(&self) -> Result<Vec<f64>> {
        Ok(match self {
            Self::Linear(layer) => layer.row_norms()?,
            Self::Conv1d(layer) => layer.row_norms()?,
            Self::Conv2d(layer) => layer.row_norms()?,
        })
    }

    /// The layer's own weight.
    pub(super) fn base_weight(&self) -> Result<Candle> {
        Ok(match self {
            Self::Linear(layer) => layer.base()?.weight().clone(),
            Self::Conv1d(layer) => layer.base()?.weight().clone(),
            Self::Conv2d(layer) => layer.base()?.weight().clone(),
        })
    }

    /// The weight with the adapter in it, as it is merged.
    pub(super) fn merged_weight(&self) -> Result<Candle> {
        Ok(match self {
            Self::Linear(layer) => layer.merge()?.layer.weight().clone(),
            Self::Conv1d(layer) => layer.merge()?.layer.weight().clone(),
            Self::Conv2d(layer) => layer.merge()?.layer.weight().clone(),
        })
    }

    /// The weight under A and B where it is not the file's.
    pub(super) fn frozen(&self) -> Result<Option<Vec<f32>>> {
        let frozen = match self {
            Self::Linear(layer) => layer.frozen()?,
            Self::Conv1d(_) | Self::Conv2d(_) => None,
        };
        let Some(frozen) = frozen else {
            return Ok(None);
        };
        Ok(Some(frozen.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?))
    }
}

/// Offers a layer to the adapter; nothing if the adapter does not mean it.
pub(super) fn offer(
    adapter: &mut Adapter,
    graph: &Graph,
    layer: &Layer,
) -> Result<Option<Trained>> {
    let Some(weight) = candle_weight(graph, layer)? else {
        return Ok(None);
    };
    let bias = layer
        .bias
        .and_then(|id| graph.value(id).constant.as_deref());
    let bias = bias
        .map(|tensor| Candle::from_vec(tensor.to_f32(), tensor.len(), &Device::Cpu))
        .transpose()?;
    let name = layer.name.as_str();
    Ok(match &layer.form {
        Form::Linear { .. } => taken(
            adapter.linear(name, &Linear::new(weight, bias))?,
            Adapted::Linear,
        ),
        // Neither variables nor norms depend on strides and padding.
        Form::Conv(conv) if weight.rank() == 3 => {
            let config = Conv1dConfig {
                groups: conv.groups,
                ..Conv1dConfig::default()
            };
            let offered = adapter.conv1d(name, &Conv1d::new(weight, bias, config))?;
            taken(offered, Adapted::Conv1d)
        }
        Form::Conv(conv) => {
            let config = Conv2dConfig {
                groups: conv.groups,
                ..Conv2dConfig::default()
            };
            let offered = adapter.conv2d(name, &Conv2d::new(weight, bias, config))?;
            taken(offered, Adapted::Conv2d)
        }
    })
}

fn taken<P: spark_dora::WholeLayer, D>(
    offered: Offered<P, D>,
    adapted: fn(D) -> Adapted,
) -> Option<Trained> {
    match offered {
        Offered::Plain(_) => None,
        Offered::Adapted(layer) => Some(Trained::Adapted(adapted(layer))),
        Offered::Saved(saved) => Some(Trained::Saved(saved.variables().clone())),
    }
}

/// The weight in the file's element type, as trainers have it.
pub(super) fn candle_weight(graph: &Graph, layer: &Layer) -> Result<Option<Candle>> {
    let Some((shape, values)) = layer.weight(graph) else {
        return Ok(None);
    };
    let stored = graph.value(layer.stored).constant.as_ref();
    let dtype = match stored.map(|tensor| tensor.dtype()) {
        Some(Type::F16) => DType::F16,
        Some(Type::BF16) => DType::BF16,
        _ => DType::F32,
    };
    let weight = Candle::from_vec(values, shape, &Device::Cpu)?;
    Ok(Some(weight.to_dtype(dtype)?))
}

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
            (Source::Formed(_), Trained::Saved(_)) => unreachable!("made of adapted layers alone"),
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
            (Source::Formed(formed), Trained::Adapted(adapted)) => {
                formed.gradients(layer, &adapted.row_norms()?, gradient)
            }
            (Source::Formed(_), Trained::Saved(_)) => unreachable!("made of adapted layers alone"),
        }
    }

    /// The name of a variable behind it.
    pub(super) fn name_of(&self, variable: &Var) -> Option<String> {
        match &self.source {
            Source::Variable(own, _) => (own.id() == variable.id()).then(|| self.input.clone()),
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
        Trained::Saved(_) => Vec::new(),
    };
    Ok(norms.into_iter().map(|norm| norm as f32).collect())
}

/// The variable of a layer's tensor.
pub(super) fn variable(tensor: &Candle) -> Result<Var> {
    Ok(Var::from_tensor(tensor).map_err(DoraError::from)?)
}
