//! Driving models: loading, and one run at a time.
//!
//! ```text
//! load/<model>        ONNX bytes in memory -> graph -> plan with packed weights
//! run/<model>/t<n>    inputs in, outputs out, on n threads; caches warm
//! ```
//!
//! The zoo's networks are checked against the reference kept for their tests
//! (onnxruntime's outputs), the trained driver-monitoring network against its golden.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::Criterion;
use sparkpilot::bench::{Accuracy, Inputs, made_up_inputs, read_tensors};
use sparkpilot::onnx::{ModelRunner, RunOptions, Tensor, file};
use sparkpilot::zoo::ZooModel;

/// Error allowed, relative to the scale of the output.
const MAX_REL: f64 = 1e-5;

/// Loading each of the zoo's files.
pub(crate) fn load(criterion: &mut Criterion) {
    let options = RunOptions::new();
    for model in ZooModel::ALL {
        let file = file::to_bytes(&model.build(0)).expect("the zoo can be written");
        let graph = file::parse(&file, None).expect("own bytes");
        assert!(
            run_once(&mut runner(graph, &options), &inputs(model)) < MAX_REL,
            "{}",
            model.name()
        );
        criterion.bench_function(&format!("load/{}", model.name()), |bencher| {
            bencher.iter(|| runner(file::parse(&file, None).expect("own bytes"), &options));
        });
    }
}

/// Running each of the zoo's networks.
pub(crate) fn run(criterion: &mut Criterion) {
    for model in ZooModel::ALL {
        for threads in thread_counts() {
            let mut runner = runner(model.build(0), &RunOptions::new().with_threads(threads));
            let checked = inputs(model);
            assert!(
                run_once(&mut runner, &checked) < MAX_REL,
                "{}",
                model.name()
            );
            time_runs(
                criterion,
                &format!("run/{}/t{threads}", model.name()),
                &mut runner,
                &checked.inputs,
            );
        }
    }
}

/// The trained driver-monitoring network, where the reference data are there.
pub(crate) fn real(criterion: &mut Criterion) {
    let Some(data) = std::env::var_os("SPARK_TEST_DATA")
        .filter(|data| !data.is_empty())
        .map(PathBuf::from)
    else {
        eprintln!("skipped: SPARK_TEST_DATA is not set, so there is no trained model");
        return;
    };
    let name = "dmonitoring_0_8_9";
    let models = data.join("data/models");
    let tensors =
        read_tensors(&models.join(format!("goldens/{name}.safetensors"))).expect("a golden");
    let picture = &tensors["case0/in/input_img"];
    let picture = Tensor::from_f32(picture.shape(), picture.to_f32()).expect("the same shape");
    let checked = Checked {
        inputs: vec![("input_img".to_owned(), picture)],
        outputs: tensors["case0/out64/outputs"].clone(),
    };
    for threads in thread_counts() {
        let options = RunOptions::new().with_threads(threads);
        let path = models.join(format!("{name}.onnx"));
        let mut runner = ModelRunner::load(&path, &options).expect("a trained model");
        assert!(run_once(&mut runner, &checked) < MAX_REL, "{name}");
        time_runs(
            criterion,
            &format!("run/{name}/t{threads}"),
            &mut runner,
            &checked.inputs,
        );
    }
}

/// Inputs with the outputs they must give.
struct Checked {
    inputs: Inputs,
    outputs: Tensor,
}

fn inputs(model: ZooModel) -> Checked {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("crates/spark-bench/tests/it/zoo_goldens.safetensors");
    let goldens = read_tensors(&goldens).expect("part of the repository");
    let (inputs, _) = made_up_inputs(model.name(), &model.build(0), 0).expect("declared inputs");
    Checked {
        inputs,
        outputs: goldens[&format!("{}/outputs", model.name())].clone(),
    }
}

/// One thread, and all that may be used.
fn thread_counts() -> Vec<usize> {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    if all == 1 { vec![1] } else { vec![1, all] }
}

fn runner(graph: sparkpilot::onnx::graph::Graph, options: &RunOptions) -> ModelRunner {
    ModelRunner::from_graph(graph, options).expect("fp32 runs everywhere")
}

fn borrowed(inputs: &Inputs) -> Vec<(&str, &Tensor)> {
    inputs
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect()
}

/// Runs once and gives the error relative to the output's scale.
fn run_once(runner: &mut ModelRunner, checked: &Checked) -> f64 {
    let outputs = runner
        .run(&borrowed(&checked.inputs))
        .expect("inputs that fit");
    Accuracy::of(&outputs[0].1.to_f64(), &checked.outputs.to_f64()).max_rel
}

fn time_runs(criterion: &mut Criterion, name: &str, runner: &mut ModelRunner, inputs: &Inputs) {
    let inputs = borrowed(inputs);
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| black_box(runner.run(&inputs).expect("inputs that fit")));
    });
}
