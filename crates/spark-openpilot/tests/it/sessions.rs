//! Driving networks in several sessions and shapes: one set of weights, the same bits.

use std::sync::Arc;

use spark_onnx::graph::{Dim, Op};
use spark_onnx::{DType, Model, Precision, RunOptions, Tensor};
use spark_openpilot::zoo::ZooModel;

/// `model` for any batch.
fn open(model: ZooModel) -> spark_onnx::graph::Graph {
    let mut graph = model.build(0);
    for id in graph.inputs.clone() {
        if let Some(first) = graph.values[id.0]
            .shape
            .as_mut()
            .and_then(|s| s.first_mut())
        {
            *first = Dim::Symbol("batch".to_owned());
        }
    }
    for id in graph.outputs.clone() {
        graph.values[id.0].shape = None;
    }
    // Reshapes keep the batch, whatever it is.
    for node in graph.nodes.clone() {
        let (Op::Reshape(_), Some(Some(shape))) = (&node.op, node.inputs.get(1)) else {
            continue;
        };
        let constant = graph.values[shape.0].constant.as_ref();
        let values = constant.and_then(|tensor| tensor.as_i64());
        let mut shape_values = values.expect("a constant").to_vec();
        assert_eq!(shape_values[0], 1);
        shape_values[0] = 0;
        let tensor = Tensor::from_i64([shape_values.len()], shape_values).expect("fits");
        graph.values[shape.0].constant = Some(Arc::new(tensor));
    }
    graph
}

#[test]
fn eight_shapes_and_sessions_of_driving_vision_hold_one_set_of_weights() {
    let options = RunOptions::new()
        .with_precision(Precision::Fp32)
        .with_threads(2);
    let model = Model::from_graph(open(ZooModel::DrivingVision), &options).expect("any batch");
    let mut sessions: Vec<_> = (0..8).map(|_| model.session()).collect();
    let mut of_one = 0;
    for (i, session) in sessions.iter_mut().enumerate() {
        let shape = [i + 1, 12, 128, 256];
        let values: Vec<f64> = (0..shape.iter().product())
            .map(|p| f64::from((p * 31 % 251) as u8))
            .collect();
        let picture = Tensor::from_f64(DType::U8, shape, values).expect("fits");
        let inputs = [("img", &picture), ("big_img", &picture)];
        session.run(&inputs).expect("runs");
        let memory = model.memory();
        assert_eq!(memory.plans, i + 1);
        if i == 0 {
            of_one = memory.weight_bytes;
        }
        // Biases are each plan's own: a third of a megabyte beside 93.
        let allowed = of_one + i * of_one / 200;
        assert!(memory.weight_bytes <= allowed, "{memory:?}");
    }
}
