//! Inputs of shapes that a model does not admit.

use spark_onnx::graph::Dim;
use spark_onnx::{ModelError, ModelRunner, RunOptions, Tensor};
use spark_openpilot::zoo;

fn inputs(runner: &ModelRunner) -> Vec<(String, Tensor)> {
    let graph = runner.graph();
    let ids = graph.inputs.iter().map(|&id| graph.value(id));
    ids.map(|value| {
        let dims = value.shape.iter().flatten().map(|dim| match dim {
            Dim::Known(extent) => *extent,
            _ => 1,
        });
        let zeros = Tensor::zeros(value.dtype.expect("declared"), dims.collect::<Vec<_>>());
        (value.name.clone(), zeros.expect("small"))
    })
    .collect()
}

fn run(runner: &mut ModelRunner, inputs: &[(String, Tensor)]) -> Result<(), ModelError> {
    let given: Vec<_> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    runner.run(&given).map(drop)
}

#[test]
fn a_shape_that_the_model_does_not_admit_is_named_and_harms_nothing() {
    let need = {
        let options = RunOptions::new().with_threads(1);
        let runner = ModelRunner::from_graph(zoo::driving_policy(0), &options).expect("loads");
        let memory = runner.memory();
        memory.arena_bytes + memory.weight_bytes
    };
    // With room for one plan and without a bound, as the plan that is there cannot be made again.
    for budget in [None, Some(need + need / 4)] {
        let options = RunOptions::new().with_threads(1);
        let options = match budget {
            Some(bytes) => options.with_memory_budget(bytes),
            None => options,
        };
        let mut runner = ModelRunner::from_graph(zoo::driving_policy(0), &options).expect("loads");
        let good = inputs(&runner);
        for (i, (name, tensor)) in good.iter().enumerate() {
            let shape = tensor.shape().to_vec();
            let longer: Vec<usize> = shape.iter().map(|n| n + 1).collect();
            let batch = [&[2], &shape[1..]].concat();
            let none = [&[0], &shape[1..]].concat();
            for wrong in [longer, batch, none, shape[1..].to_vec(), Vec::new()] {
                let mut bad = good.clone();
                bad[i].1 = Tensor::zeros(tensor.dtype(), wrong.clone()).expect("small");
                let error = run(&mut runner, &bad).expect_err("does not fit");
                let ModelError::InputShape {
                    name: named, got, ..
                } = &error
                else {
                    panic!("{name} {wrong:?}: {error}");
                };
                assert_eq!((named, got), (name, &wrong));
            }
        }
        run(&mut runner, &good).expect("still runs");
    }
}
