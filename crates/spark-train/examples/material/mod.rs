//! Made-up inputs and targets of a network, and the adapter that the examples here put on it.

use std::error::Error;

use spark_dora::DoraConfig;
use spark_onnx::{Model, RunOptions};
use spark_onnx_graph::graph::{Dim, Graph};
use spark_onnx_graph::{DType, Tensor, TensorData};
use spark_train::{OutputHeads, layers, with_free_batch};

/// One batch.
pub(crate) struct Material {
    pub(crate) inputs: Vec<(String, Tensor)>,
    /// The network's own outputs, moved by 0.1.
    pub(crate) targets: Vec<(String, Tensor)>,
    /// All numbers of all outputs: mean squared differences.
    pub(crate) heads: Vec<OutputHeads>,
}

/// Numbers within a half of zero, by SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(crate) fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let number = |_| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..n).map(number).collect()
}

pub(crate) fn made_up(
    graph: &Graph,
    (batch, seed): (usize, u64),
    options: &RunOptions,
) -> Result<Material, Box<dyn Error>> {
    let mut inputs = Vec::new();
    for &id in &graph.inputs {
        let value = graph.value(id);
        let declared = value.shape.as_ref().ok_or("an input has no shape")?;
        let others = declared.iter().skip(1).map(|dim| match dim {
            Dim::Known(extent) => *extent,
            _ => 1,
        });
        let shape: Vec<usize> = std::iter::once(batch).chain(others).collect();
        let numbers = numbers(shape.iter().product(), seed + inputs.len() as u64);
        let bytes = |numbers: Vec<f32>| numbers.iter().map(|v| ((v + 0.5) * 255.0) as u8).collect();
        let tensor = match value.dtype {
            Some(DType::U8) => Tensor::new(shape, TensorData::U8(bytes(numbers)))?,
            _ => Tensor::from_f32(shape, numbers)?,
        };
        inputs.push((value.name.clone(), tensor));
    }
    let lent: Vec<_> = inputs.iter().map(|(name, t)| (name.as_str(), t)).collect();
    let model = Model::from_graph(with_free_batch(graph.clone()), options)?;
    let mut targets = Vec::new();
    for (name, output) in model.session().run(&lent)? {
        let moved = output.to_f32().iter().map(|v| v + 0.1).collect();
        targets.push((name, Tensor::from_f32(output.shape(), moved)?));
    }
    let heads = targets.iter();
    let heads = heads.map(|(name, tensor)| OutputHeads::squares(name, tensor));
    Ok(Material {
        heads: heads.collect(),
        inputs,
        targets,
    })
}

/// On every layer that is not in groups and holds the rank, or on those whose names end so.
pub(crate) fn adapter(
    graph: &Graph,
    rank: usize,
    targets: &[String],
) -> Result<DoraConfig, Box<dyn Error>> {
    let config = DoraConfig::builder(rank);
    if !targets.is_empty() {
        return Ok(config.targets(targets).build()?);
    }
    let all = layers(graph);
    let fit = all
        .iter()
        .filter(|layer| layer.groups == 1 && layer.largest_rank() >= rank);
    Ok(config
        .exact_targets(fit.map(|layer| layer.name.as_str()))
        .build()?)
}
