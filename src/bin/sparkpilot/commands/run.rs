//! `sparkpilot run`: a model once, from files of inputs to a file of outputs.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use spark_program::{output, place, postponed, printable};
use sparkpilot::bench::{TensorMap, made_up_inputs, read_inputs, write_tensors};
use sparkpilot::onnx::Tensor;

use crate::engine_options::EngineOptions;
use crate::tables;

/// Run a model once on inputs from a file
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot run driving_policy.onnx --inputs frame.safetensors --outputs plan.safetensors\n  \
    sparkpilot run driving_vision.onnx --seed 1 --precision fp16\n\n\
    Tensors of --inputs are found by the names of the model's inputs: NAME, in.NAME, case0/in/NAME or MODEL/NAME;\n\
    floating-point values are converted to the type that the model declares.")]
pub(crate) struct Arguments {
    /// ONNX file
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// Inputs by name; made up from the seed by default
    #[arg(long, value_name = "FILE.safetensors")]
    inputs: Option<PathBuf>,
    /// Write the outputs by name, in the types that the model gives them
    #[arg(long, value_name = "FILE.safetensors")]
    outputs: Option<PathBuf>,
    /// Seed of inputs that are made up
    #[arg(long, default_value_t = 0, value_name = "N", conflicts_with = "inputs")]
    seed: u64,
    #[command(flatten)]
    engine: EngineOptions,
}

/// Runs the model, writes the outputs, and prints what they are.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let read = std::iter::once(&arguments.model).chain(&arguments.inputs);
    let written = arguments.outputs.iter();
    output::keep_apart(read.map(PathBuf::as_path), written.map(PathBuf::as_path))?;
    if let Some(path) = &arguments.outputs {
        place::file(path)?;
    }
    let (model, name) = arguments.engine.load(&arguments.model)?;
    let (given, notes) = match &arguments.inputs {
        Some(path) => (read_inputs(path, &name, model.graph())?, Vec::new()),
        None => made_up_inputs(&name, model.graph(), arguments.seed)?,
    };
    let borrowed: Vec<(&str, &Tensor)> =
        given.iter().map(|(name, it)| (name.as_str(), it)).collect();
    let outputs = model.session().run(&borrowed)?;
    if let Some(path) = &arguments.outputs {
        let tensors: TensorMap = outputs.iter().cloned().collect();
        postponed(|| write_tensors(path, &tensors))?;
    }
    for note in notes {
        println!("{}", printable(&note));
    }
    print!("{}", printable(&table(&outputs)));
    Ok(ExitCode::SUCCESS)
}

/// A line for each output: its shape, and what its values are like.
fn table(outputs: &[(String, Tensor)]) -> String {
    let heading = [
        "output",
        "type",
        "shape",
        "least",
        "mean",
        "largest",
        "not finite",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    for (name, tensor) in outputs {
        let values = tensor.to_f64();
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let n = finite().count();
        let figure = |value: f64| match n {
            0 => "none".to_owned(),
            _ => format!("{value:.6}"),
        };
        rows.push([
            name.clone(),
            tensor.dtype().to_string(),
            format!("{:?}", tensor.shape()),
            figure(finite().fold(f64::INFINITY, f64::min)),
            figure(finite().sum::<f64>() / n as f64),
            figure(finite().fold(f64::NEG_INFINITY, f64::max)),
            (values.len() - n).to_string(),
        ]);
    }
    tables::columns(&rows)
}
