//! The size of adapters beside openpilot's networks, from the layer lists in their files.

use std::collections::HashMap;

use candle_core::{DType, Device, Tensor};
use candle_nn::{Conv2d, Conv2dConfig, Linear};
use spark_dora::{Adapter, DoraConfig, SizeReport};
use spark_onnx_graph::graph::{Graph, MatMul, Op, ValueId};
use spark_onnx_graph::tensor::DType as ModelType;
use spark_testing::test_data;

/// An adapter should take less than this part of its base.
const GOOD_FRACTION: f64 = 0.01;

/// A layer with a weight: its name, the weight's shape with outputs first, groups, element type.
struct Layer {
    name: String,
    shape: Vec<usize>,
    groups: usize,
    dtype: DType,
}

impl Layer {
    fn sides(&self) -> [usize; 2] {
        [self.shape[0], self.shape[1..].iter().product()]
    }

    /// Numbers that DoRA of `rank` trains.
    fn trained(&self, rank: usize) -> usize {
        let [out, depth] = self.sides();
        rank * (out + depth) + out
    }

    fn offer(&self, adapter: &mut Adapter) {
        let weight = Tensor::ones(self.shape.as_slice(), self.dtype, &Device::Cpu).unwrap();
        if self.shape.len() == 2 {
            adapter
                .linear(&self.name, &Linear::new(weight, None))
                .unwrap();
        } else {
            let config = Conv2dConfig {
                groups: self.groups,
                ..Conv2dConfig::default()
            };
            adapter
                .conv2d(&self.name, &Conv2d::new(weight, None, config))
                .unwrap();
        }
    }
}

/// Convolutions and products with constant weights, of which some lie behind a cast from fp16.
fn layers(graph: &Graph) -> Vec<Layer> {
    let mut cast = HashMap::new();
    for node in &graph.nodes {
        if let (Op::Cast(_), Some(&Some(from)), Some(&Some(to))) =
            (&node.op, node.inputs.first(), node.outputs.first())
        {
            cast.insert(to, from);
        }
    }
    let constant = |id: ValueId| graph.value(*cast.get(&id).unwrap_or(&id)).constant.as_ref();
    let mut layers = Vec::new();
    for node in &graph.nodes {
        let weight = node.inputs.get(1).copied().flatten().and_then(constant);
        let Some(weight) = weight else { continue };
        let mut shape = weight.shape().to_vec();
        let groups = match &node.op {
            Op::Conv(conv) => conv.groups,
            Op::Gemm(gemm) if gemm.trans_b => 1,
            Op::Gemm(_) | Op::MatMul(MatMul) if shape.len() == 2 => {
                shape.reverse();
                1
            }
            _ => continue,
        };
        layers.push(Layer {
            name: format!("layer{}", layers.len()),
            shape,
            groups,
            dtype: match weight.dtype() {
                ModelType::F16 => DType::F16,
                _ => DType::F32,
            },
        });
    }
    layers
}

/// DoRA of `rank` on the layers that `wanted` names, all of which have both sides that long.
fn size(layers: &[Layer], rank: usize, wanted: &[&str]) -> SizeReport {
    let config = DoraConfig::builder(rank)
        .targets(wanted.iter().copied())
        .build()
        .unwrap();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    layers.iter().for_each(|layer| layer.offer(&mut adapter));
    adapter.finish().unwrap();
    adapter.size()
}

/// Checks the default, rank 16 on every layer that admits it; gives the rank that fits.
fn check(model: &str, n_layers: usize) -> Option<Option<usize>> {
    let path = test_data(&format!("data/models/{model}"))?;
    let graph = spark_onnx_graph::file::load(&path).unwrap();
    let layers = layers(&graph);
    assert_eq!(layers.len(), n_layers, "{model}");
    let large = |l: &&Layer| l.sides().iter().all(|side| *side >= 16);
    let wanted: Vec<&Layer> = layers.iter().filter(large).collect();
    let names: Vec<&str> = wanted.iter().map(|l| l.name.as_str()).collect();
    let report = size(&layers, 16, &names);
    // Counted here again: f32 variables beside weights of the file's type.
    let bytes = |rank: usize| 4 * wanted.iter().map(|l| l.trained(rank)).sum::<usize>();
    let base: usize = layers
        .iter()
        .map(|l| l.sides().iter().product::<usize>() * l.dtype.size_in_bytes())
        .sum();
    assert_eq!((report.adapter_bytes, report.base_bytes), (bytes(16), base));
    let fits = (1..16)
        .rev()
        .find(|&rank| bytes(rank) as f64 <= GOOD_FRACTION * base as f64);
    assert!(report.fraction > GOOD_FRACTION);
    assert_eq!(report.rank_that_fits, fits, "{model}: {report}");
    eprintln!(
        "{model}: {} of {n_layers} layers, {report}, fits {fits:?}",
        names.len()
    );
    Some(fits)
}

#[test]
fn rank_16_everywhere_is_warned_about_for_the_small_driver_monitoring_networks() {
    for model in ["dmonitoring_0_8_9.onnx", "dmonitoring_0_8_5.onnx"] {
        let Some(fits) = check(model, 58) else { return };
        assert_eq!(fits, None, "{model}: fewer layers must be adapted");
    }
}

#[test]
fn rank_16_everywhere_is_warned_about_for_supercombo() {
    let Some(fits) = check("supercombo_0_7_4_random_fp16.onnx", 111) else {
        return;
    };
    assert_eq!(fits, None, "fewer layers must be adapted");
}

/// DoRA of rank 16 on the layer with most weights alone; afterwards of the rank that is said to fit.
#[track_caller]
fn check_largest(model: &str, rank: Option<usize>) {
    let Some(path) = test_data(&format!("data/models/{model}")) else {
        return;
    };
    let layers = layers(&spark_onnx_graph::file::load(&path).unwrap());
    let weights = |l: &&Layer| l.sides().iter().product::<usize>();
    let largest = layers.iter().max_by_key(weights).unwrap();
    let names = [largest.name.as_str()];
    let report = size(&layers, 16, &names);
    assert_eq!(report.rank_that_fits, rank, "{model}: {report}");
    let Some(rank) = rank else {
        assert!(report.fraction <= GOOD_FRACTION, "{report}");
        return;
    };
    let fitting = size(&layers, rank, &names);
    assert!(fitting.fraction <= GOOD_FRACTION, "{fitting}");
    assert_eq!(fitting.rank_that_fits, None, "nothing to warn about");
    assert!(size(&layers, rank + 1, &names).fraction > GOOD_FRACTION);
}

#[test]
fn the_largest_layer_alone_fits_with_the_rank_that_the_warning_names() {
    check_largest("dmonitoring_0_8_9.onnx", Some(10));
    check_largest("supercombo_0_7_4_random_fp16.onnx", None);
}
