//! `sparkpilot run`: a model once, from files of inputs to a file of outputs.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use spark_program::output::Words;
use spark_program::{Usage, about, file_ending_in, input, output, place, printable};
use sparkpilot::bench::{
    TensorFormat, TensorMap, inputs_of_bytes, made_up_inputs, read_inputs, tensors_to_bytes,
};
use sparkpilot::onnx::{ModelError, Tensor};

use crate::engine_options::EngineOptions;
use crate::tables;

/// Run a model once on inputs from a file
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot run driving_policy.onnx --inputs frame.safetensors --outputs plan.safetensors\n  \
    sparkpilot run driving_vision.onnx --seed 1 --precision fp16\n  \
    sparkpilot run encoder.onnx --inputs picture.npy --outputs features.npz\n  \
    make-inputs | sparkpilot run driving_policy.onnx --inputs - --outputs - > plan.safetensors\n\n\
    Tensors of --inputs are found by the names of the model's inputs: NAME, in.NAME, MODEL/NAME or case0/in/NAME;\n\
    floating-point values are converted to the type that the model declares. Files are safetensors, or NumPy's .npz,\n\
    or .npy for a model's only input or output; read by what they begin with, written by the ending of their name.\n\
    NumPy has no bf16: such outputs are f32 there.")]
pub(crate) struct Arguments {
    /// ONNX file
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// Inputs by name, from a file or with `-` from stdin; made up from the seed by default
    #[arg(long, value_name = "FILE")]
    inputs: Option<PathBuf>,
    /// Write the outputs by name, in the types that the model gives them, here or with `-` to stdout as safetensors
    #[arg(long, value_name = "FILE", value_parser = file_ending_in(&["safetensors", "npz", "npy"]))]
    outputs: Option<PathBuf>,
    /// Print what the outputs are like as JSON (schema sparkpilot-run/1)
    #[arg(long)]
    json: bool,
    /// Seed of inputs that are made up
    #[arg(long, default_value_t = 0, value_name = "N", conflicts_with = "inputs")]
    seed: u64,
    #[command(flatten)]
    engine: EngineOptions,
}

/// Most bytes of inputs from stdin.
const MOST_BYTES: u64 = 4 << 30;

/// Runs the model, writes the outputs, and prints what they are.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let from_stdin = arguments.inputs.as_deref() == Some(Path::new("-"));
    let inputs = arguments.inputs.iter().filter(|_| !from_stdin);
    let read = std::iter::once(&arguments.model).chain(inputs);
    let written = arguments.outputs.as_deref();
    output::keep_apart(read.map(PathBuf::as_path), written)?;
    if let Some(path) = written {
        if arguments.json && output::is_stdout(path) {
            let why = "--json and --outputs - both write to stdout; name a file for the outputs";
            return Err(Usage(why.to_owned()).into());
        }
        place::file(path)?;
    }
    let (model, name) = arguments.engine.load(&arguments.model)?;
    let (given, notes) = match &arguments.inputs {
        Some(path) if from_stdin => {
            let bytes = input::stdin(MOST_BYTES)?;
            inputs_of_bytes(path, &bytes, &name, model.graph())?
        }
        Some(path) => read_inputs(path, &name, model.graph())?,
        None => made_up_inputs(&name, model.graph(), arguments.seed)?,
    };
    let borrowed: Vec<(&str, &Tensor)> =
        given.iter().map(|(name, it)| (name.as_str(), it)).collect();
    let outputs = model.session().run(&borrowed).map_err(|error| {
        match (&arguments.inputs, &error) {
            // Found only here, and the file's fault.
            (Some(path), ModelError::InputShape { .. } | ModelError::InputType { .. }) => {
                about(path)(error).into()
            }
            _ => Box::<dyn Error>::from(error),
        }
    })?;
    if let Some(path) = written {
        let tensors: TensorMap = outputs.iter().cloned().collect();
        output::write(
            path,
            tensors_to_bytes(path, TensorFormat::of_name(path), &tensors)?,
        )?;
    }
    let outputs: Vec<Told> = outputs.iter().map(Told::of).collect();
    if arguments.json {
        let model = arguments.model.display().to_string();
        println!("{:#}", as_json(&model, &notes, &outputs));
        return Ok(ExitCode::SUCCESS);
    }
    let notes: String = notes.iter().map(|note| format!("{note}\n")).collect();
    let words = printable(&(notes + &table(&outputs)));
    Words::beside(written).say(&words)?;
    Ok(ExitCode::SUCCESS)
}

/// What an output is like.
struct Told {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    /// The least, the mean and the largest of the finite values, if there are any.
    finite: Option<[f64; 3]>,
    not_finite: usize,
}

impl Told {
    fn of((name, tensor): &(String, Tensor)) -> Self {
        let values = tensor.to_f64();
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let n = finite().count();
        let figures = || {
            [
                finite().fold(f64::INFINITY, f64::min),
                finite().sum::<f64>() / n as f64,
                finite().fold(f64::NEG_INFINITY, f64::max),
            ]
        };
        Self {
            name: name.clone(),
            dtype: tensor.dtype().to_string(),
            shape: tensor.shape().to_vec(),
            finite: (n > 0).then(figures),
            not_finite: values.len() - n,
        }
    }
}

/// A line for each output: its shape, and what its values are like.
fn table(outputs: &[Told]) -> String {
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
    for told in outputs {
        let figures = told
            .finite
            .map(|all| all.map(|value| format!("{value:.6}")));
        let [least, mean, largest] = figures.unwrap_or_else(|| ["none"; 3].map(str::to_owned));
        rows.push([
            told.name.clone(),
            told.dtype.clone(),
            format!("{:?}", told.shape),
            least,
            mean,
            largest,
            told.not_finite.to_string(),
        ]);
    }
    tables::columns(&rows)
}

fn as_json(model: &str, notes: &[String], outputs: &[Told]) -> Value {
    let output = |told: &Told| {
        let [least, mean, largest] = told.finite.map_or([None; 3], |all| all.map(Some));
        json!({
            "name": told.name,
            "type": told.dtype,
            "shape": told.shape,
            "min": least,
            "mean": mean,
            "max": largest,
            "non_finite": told.not_finite,
        })
    };
    json!({
        "schema": "sparkpilot-run/1",
        "model": model,
        "notes": notes,
        "outputs": outputs.iter().map(output).collect::<Vec<_>>(),
    })
}
