//! What a run may not do: take memory, or depend on the number of threads.

use std::sync::Arc;

use spark_model::cpu::{Executor, Isa, Pool};
use spark_model::graph::{Graph, bind};
use spark_model::plan::lower;
use spark_model::{DType, Tensor, zoo};

use crate::allocator::Watch;

/// The networks of the zoo, each with every kind of step it has.
fn networks() -> [(&'static str, Graph); 3] {
    [
        ("driving_vision", zoo::driving_vision(1)),
        ("driving_policy", zoo::driving_policy(1)),
        ("dmonitoring", zoo::dmonitoring(1)),
    ]
}

fn executor(graph: &Graph, isa: Isa, threads: usize) -> Executor {
    let bound = bind(graph, &[]).expect("the zoo's shapes are fixed");
    let plan = lower(&bound).expect("lowers");
    let mut executor = Executor::new(plan, isa, Arc::new(Pool::new(threads))).expect("fits");
    for i in 0..executor.plan().inputs.len() {
        let port = &executor.plan().inputs[i];
        let (dtype, shape) = (port.dtype, port.shape.clone());
        let n: usize = shape.iter().product();
        let scale = if dtype == DType::U8 { 1.0 } else { 251.0 };
        let values: Vec<f64> = (0..n).map(|i| (i * 37 % 251) as f64 / scale).collect();
        let tensor = Tensor::from_f64(dtype, shape, values).expect("fits");
        executor.set_input(i, &tensor).expect("fits");
    }
    executor
}

#[test]
fn a_run_takes_no_memory() {
    for (name, graph) in networks() {
        for isa in Isa::available() {
            let mut executor = executor(&graph, isa, 1);
            let watch = Watch::start();
            executor.run().expect("runs");
            assert_eq!(watch.requests(), 0, "{name} on {isa:?}");
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    for (name, graph) in networks() {
        let outputs = |threads| -> Vec<Vec<u32>> {
            let mut executor = executor(&graph, Isa::detect(), threads);
            executor.run().expect("runs");
            let ports = 0..executor.plan().outputs.len();
            let bits = |i| {
                let tensor = executor.output(i).expect("fits");
                tensor.to_f32().iter().map(|v| v.to_bits()).collect()
            };
            ports.map(bits).collect()
        };
        let want = outputs(1);
        assert!(want.iter().flatten().any(|&bits| bits != 0));
        for threads in [2, 3, 7] {
            assert!(outputs(threads) == want, "{name} on {threads} threads");
        }
    }
}
