//! Built-in networks: interfaces and sizes of the shipped ones, weights from the seed alone.

use super::*;
use crate::slices::OutputLayout;
use spark_onnx::DType;
use spark_onnx::graph::{Dim, Op};

fn parameters(graph: &Graph) -> usize {
    let weights = graph.values.iter().filter_map(|v| v.constant.as_ref());
    weights
        .filter(|t| t.dtype() == DType::F32)
        .map(|t| t.len())
        .sum()
}

fn declared(graph: &Graph) -> Vec<(&str, Option<DType>, Vec<usize>)> {
    let ids = graph.inputs.iter().chain(&graph.outputs);
    ids.map(|&id| {
        let value = graph.value(id);
        let dims = value.shape.iter().flatten().map(|dim| match dim {
            Dim::Known(extent) => *extent,
            other => panic!("{other:?} in {}", value.name),
        });
        (value.name.as_str(), value.dtype, dims.collect())
    })
    .collect()
}

/// FNV-1a over the bits of every f32 constant, in order.
fn fingerprint(graph: &Graph) -> u64 {
    let weights = graph
        .values
        .iter()
        .filter_map(|v| v.constant.as_ref()?.as_f32());
    weights
        .flatten()
        .fold(0xcbf2_9ce4_8422_2325, |hash, weight| {
            (hash ^ u64::from(weight.to_bits())).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

#[test]
fn interfaces_are_those_of_openpilot() {
    let f32 = Some(DType::F32);
    let u8 = Some(DType::U8);
    assert_eq!(
        declared(&driving_vision(0)),
        [
            ("img", u8, vec![1, 12, 128, 256]),
            ("big_img", u8, vec![1, 12, 128, 256]),
            ("outputs", f32, vec![1, 1576]),
        ]
    );
    assert_eq!(
        declared(&driving_policy(0)),
        [
            ("desire_pulse", f32, vec![1, 25, 8]),
            ("traffic_convention", f32, vec![1, 2]),
            ("features_buffer", f32, vec![1, 25, 512]),
            ("outputs", f32, vec![1, 1000]),
        ]
    );
    assert_eq!(
        declared(&dmonitoring(0)),
        [
            ("input_img", u8, vec![1, 1_382_400]),
            ("calib", f32, vec![1, 3]),
            ("outputs", f32, vec![1, 551]),
        ]
    );
}

#[test]
fn sizes_match_the_files_openpilot_ships() {
    // Bytes of openpilot's files, which hold f16 weights and little else.
    let files = [46_877_473, 14_060_847, 6_954_249];
    for (model, bytes) in ZooModel::ALL.into_iter().zip(files) {
        let ratio = parameters(&model.build(0)) as f64 / (bytes as f64 / 2.0);
        assert!((0.97..1.03).contains(&ratio), "{}: {ratio}", model.name());
    }
}

#[test]
fn the_trunk_has_the_known_blocks() {
    let graph = driving_vision(0);
    let count = |part: &str| {
        graph
            .nodes
            .iter()
            .filter(|n| n.name.ends_with(part))
            .count()
    };
    assert_eq!(count(".mlp.gelu"), 2 + 2 + 6 + 2);
    assert_eq!(count(".mixer"), 2 + 2 + 6);
    assert_eq!(count(".attn.softmax"), 2);
    assert_eq!(count(".se.gate"), 4);
}

#[test]
fn weights_depend_on_the_seed_only() {
    assert_eq!(
        fingerprint(&driving_policy(5)),
        fingerprint(&driving_policy(5))
    );
    assert_ne!(
        fingerprint(&driving_policy(5)),
        fingerprint(&driving_policy(6))
    );
}

#[test]
fn weights_are_the_same_bytes_on_every_machine() {
    let got = ZooModel::ALL.map(|model| format!("{:016x}", fingerprint(&model.build(0))));
    assert_eq!(
        got,
        ["cba18ebc4c9d1e27", "d41c04f0285de419", "f82db7cd946ac07d"]
    );
}

#[test]
fn graphs_keep_their_invariants() {
    for model in ZooModel::ALL {
        let graph = model.build(0);
        let mut names = std::collections::HashSet::new();
        assert!(
            graph.values.iter().all(|v| names.insert(v.name.as_str())),
            "{}",
            model.name()
        );
        let mut made: Vec<bool> = graph.values.iter().map(|v| v.constant.is_some()).collect();
        graph.inputs.iter().for_each(|id| made[id.0] = true);
        for node in &graph.nodes {
            assert!(
                node.inputs.iter().flatten().all(|id| made[id.0]),
                "{}",
                node.name
            );
            for id in node.outputs.iter().flatten() {
                assert!(!std::mem::replace(&mut made[id.0], true), "{}", node.name);
            }
        }
    }
}

#[test]
fn both_spellings_of_an_activation_occur() {
    let uses = |graph: &Graph, name: &str| {
        graph
            .nodes
            .iter()
            .filter(|n| matches!(&n.op, Op::Unary(u) if format!("{u:?}").starts_with(name)))
            .count()
    };
    assert_eq!(uses(&driving_vision(0), "Gelu"), 18);
    assert_eq!(uses(&driving_policy(0), "Gelu"), 0);
    assert_eq!(uses(&driving_policy(0), "Erf"), 2);
    assert!(uses(&dmonitoring(0), "Sigmoid") > 20);
}

#[test]
fn metadata_names_the_slices_and_owns_up_to_random_weights() {
    for model in ZooModel::ALL {
        let graph = model.build(3);
        assert!(has_random_weights(&graph));
        assert_eq!(graph.metadata[SEED_KEY], "3");
        let layout = OutputLayout::of(&graph)
            .expect("own metadata")
            .expect("one output");
        assert_eq!(layout, OutputLayout::of_table(model.output_slices()));
    }
    assert!(!has_random_weights(&Graph::default()));
}
