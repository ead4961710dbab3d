//! A layer as spark-dora has it: offered to the adapter, adapted, trained whole, or with a bias that is trained.

use candle_core::{DType, Device, Tensor as Candle, Var};
use candle_nn::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Linear};
use spark_dora::{
    Adapter, DoraConv1d, DoraConv2d, DoraError, DoraLinear, Dropout, Factors, Offered, SavedTensors,
};
use spark_onnx_graph::DType as Type;
use spark_onnx_graph::graph::Graph;

use super::layers::{Form, Layer};
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
    /// By its bias alone.
    Biased,
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

    /// What is dropped of its inputs in training.
    pub(super) fn dropout(&self) -> Dropout {
        match self {
            Self::Linear(layer) => layer.dropout(),
            Self::Conv1d(layer) => layer.dropout(),
            Self::Conv2d(layer) => layer.dropout(),
        }
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

    /// The weight under A and B, in f32.
    pub(super) fn frozen_weight(&self) -> Result<Vec<f32>> {
        Ok(match self.frozen()? {
            Some(values) => values,
            None => {
                let base = self.base_weight()?.to_dtype(DType::F32)?;
                base.flatten_all()?.to_vec1()?
            }
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
        .as_ref()
        .and_then(|bias| graph.value(bias.constant).constant.as_deref());
    let bias = bias
        .map(|tensor| Candle::from_vec(tensor.to_f32(), tensor.len(), &Device::Cpu))
        .transpose()?;
    let name = layer.name.as_str();
    let how = match &layer.form {
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
    };
    let is_biased = adapter.bias(name).is_some();
    Ok(how.or_else(|| is_biased.then_some(Trained::Biased)))
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

/// The variable of a layer's tensor.
pub(super) fn variable(tensor: &Candle) -> Result<Var> {
    Ok(Var::from_tensor(tensor).map_err(DoraError::from)?)
}
