//! `sparkpilot compare`: a model's outputs beside those that another engine gave for the same inputs.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use spark_program::{number, printable};
use sparkpilot::bench::{Accuracy, OutputDistance, golden_distances, read_golden};

use crate::engine_options::EngineOptions;
use crate::tables;

/// Compare a model's outputs with a file of inputs and the outputs that they must give
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot compare dmonitoring_model.onnx --against golden.safetensors\n  \
    sparkpilot compare driving_vision.onnx --against torch.safetensors --within 2e-3 --precision fp16\n\n\
    The file holds caseN/in/NAME and caseN/out/NAME (caseN/out64/NAME where there are results in double precision),\n\
    or in.NAME and out.NAME for one case. The exit code is 1 if an output is further away than --within.")]
pub(crate) struct Arguments {
    /// ONNX file
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// Inputs and outputs of another engine
    #[arg(long, value_name = "FILE.safetensors")]
    against: PathBuf,
    /// Largest error of an output that is none, relative to its largest value
    #[arg(long, default_value_t = 1e-3, value_name = "X", value_parser = number(0.0, 1e9))]
    within: f64,
    /// Print the distances as JSON (schema sparkpilot-compare/1)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineOptions,
}

/// Runs every case and prints how far each output is.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let (model, name) = arguments.engine.load(&arguments.model)?;
    let cases = read_golden(&arguments.against, &name, model.graph())?;
    let mut session = model.session();
    let distances = golden_distances(&arguments.against, &name, &cases, |inputs| {
        session.run(inputs)
    })?;
    // NaN is within nothing: `Accuracy` counts it as infinitely far.
    let is_near = |it: &Accuracy| it.max_rel <= arguments.within;
    let far = distances.iter().filter(|it| !is_near(&it.worst)).count();
    if arguments.json {
        println!("{:#}", as_json(arguments, cases.len(), &distances));
    } else {
        print!("{}", printable(&table(&distances, is_near)));
        println!(
            "{} of {} outputs within {:e} over {} cases",
            distances.len() - far,
            distances.len(),
            arguments.within,
            cases.len()
        );
    }
    Ok(ExitCode::from(u8::from(far > 0)))
}

fn table(distances: &[OutputDistance], is_near: impl Fn(&Accuracy) -> bool) -> String {
    let heading = [
        "output",
        "largest error",
        "relative",
        "cosine",
        "SQNR dB",
        "not finite",
        "",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    for OutputDistance { name, worst } in distances {
        rows.push([
            name.clone(),
            format!("{:.3e}", worst.max_abs),
            format!("{:.3e}", worst.max_rel),
            format!("{:.9}", worst.cosine),
            format!("{:.1}", worst.sqnr_db),
            worst.non_finite.to_string(),
            if is_near(worst) { "" } else { "too far" }.to_owned(),
        ]);
    }
    tables::columns(&rows)
}

/// Figures that are not finite are null, as JSON has no other word for them; `within` says what they mean.
fn as_json(
    arguments: &Arguments,
    n_cases: usize,
    distances: &[OutputDistance],
) -> serde_json::Value {
    let outputs = distances.iter().map(|OutputDistance { name, worst }| {
        json!({
            "name": name,
            "max_abs": worst.max_abs,
            "max_rel": worst.max_rel,
            "cosine": worst.cosine,
            "sqnr_db": worst.sqnr_db,
            "non_finite": worst.non_finite,
            "within": worst.max_rel <= arguments.within,
        })
    });
    json!({
        "schema": "sparkpilot-compare/1",
        "model": arguments.model.display().to_string(),
        "against": arguments.against.display().to_string(),
        "within": arguments.within,
        "cases": n_cases,
        "outputs": outputs.collect::<Vec<_>>(),
    })
}
