//! The zoo's networks through files. Their values are held against onnxruntime's where they are
//! measured, in `spark-bench`.

use spark_onnx::graph::{Graph, Op};
use spark_onnx::{Tensor, file};
use spark_openpilot::zoo::{self, ZooModel};

#[test]
fn files_are_read_back_as_the_same_network() {
    let dir = std::env::temp_dir().join(format!("spark-zoo-{}", std::process::id()));
    let files = zoo::write_all(&dir, 4).expect("a writable folder");
    for (model, file) in ZooModel::ALL.into_iter().zip(&files) {
        let (built, read) = (model.build(4), file::load(file).expect("own file"));
        assert_eq!(read.metadata, built.metadata);
        let names = |graph: &Graph| -> Vec<String> {
            let ids = graph.inputs.iter().chain(&graph.outputs);
            ids.map(|&id| graph.value(id).name.clone()).collect()
        };
        assert_eq!(names(&read), names(&built));
        let ops = |graph: &Graph| {
            graph
                .nodes
                .iter()
                .map(|n| n.op.clone())
                .collect::<Vec<Op>>()
        };
        assert_eq!(ops(&read), ops(&built));
        let weights = |graph: &Graph| -> Vec<(String, Tensor)> {
            let constants = graph
                .values
                .iter()
                .filter_map(|v| Some((v.name.clone(), v.constant.clone()?)));
            let mut all: Vec<_> = constants
                .map(|(name, tensor)| (name, (*tensor).clone()))
                .collect();
            all.sort_by(|a, b| a.0.cmp(&b.0));
            all
        };
        assert!(
            weights(&read) == weights(&built),
            "{}: weights differ",
            model.name()
        );
    }
    std::fs::remove_dir_all(&dir).expect("own folder");
}
