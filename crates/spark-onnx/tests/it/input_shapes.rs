//! Graphs that are none. Inputs of shapes that a model does not admit are tested on whole networks,
//! in `spark-openpilot`.

use spark_onnx::graph::{Dim, Graph, Op, Unary, ValueId};
use spark_onnx::{DType, ModelError, ModelRunner, RunOptions};

#[test]
fn a_graph_that_is_none_is_refused_by_the_runner_whatever_its_shapes() {
    for dim in [Dim::Known(4), Dim::Symbol("n".to_owned())] {
        let graph = || {
            let mut graph = Graph::default();
            let x = graph.add_input("x", DType::F32, vec![dim.clone()]);
            let y = graph.add_node("y", Op::Unary(Unary::Relu), &[Some(x)]);
            graph.outputs.push(y);
            graph
        };
        let spoilt: [fn(&mut Graph); 4] = [
            |graph| graph.inputs.push(ValueId(99)),
            |graph| graph.outputs.push(ValueId(99)),
            |graph| graph.nodes[0].inputs[0] = Some(ValueId(99)),
            |graph| graph.nodes.clear(),
        ];
        for (i, spoil) in spoilt.iter().enumerate() {
            let mut graph = graph();
            spoil(&mut graph);
            let error = ModelRunner::from_graph(graph, &RunOptions::new());
            let error = error.expect_err("refused");
            assert!(matches!(error, ModelError::Graph { .. }), "{i}: {error}");
        }
        assert!(ModelRunner::from_graph(graph(), &RunOptions::new()).is_ok());
    }
}
