//! `sparkpilot compare`: a model's outputs beside those that another engine gave for the same inputs.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use spark_program::{about, number, printable};
use sparkpilot::bench::{
    Accuracy, GoldenCase, OutputDistance, golden_distances, maker_of_value, read_golden,
    with_inner_values,
};
use sparkpilot::onnx::graph::Graph;
use sparkpilot::onnx::{Model, Tensor, file};

use crate::engine_options::EngineOptions;
use crate::tables;

/// Compare a model's outputs with a file of inputs and the outputs that they must give
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot compare dmonitoring_model.onnx --against golden.safetensors\n  \
    sparkpilot compare driving_vision.onnx --against torch.safetensors --within 2e-3 --precision fp16\n\n\
    The file, safetensors or .npz, holds caseN/in/NAME and caseN/out/NAME (caseN/out64/NAME where there are results in\n\
    double precision), or in.NAME and out.NAME for one case. Where it also holds caseN/inner/VALUE or inner.VALUE, values\n\
    between layers, the first layer that is further away than --within is named; for that the network runs once more, its\n\
    layers not fused across those values. The exit code is 1 if an output is further away than --within.")]
pub(crate) struct Arguments {
    /// ONNX file
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// Inputs and outputs of another engine
    #[arg(long, value_name = "FILE")]
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
    let inner = inner_distances(arguments, &name, &cases)?;
    let first = inner.as_ref().and_then(|inner| inner.first(is_near));
    if arguments.json {
        let told = as_json(arguments, cases.len(), &distances, inner.as_ref(), first);
        println!("{told:#}");
    } else {
        let mut text = table("output", &distances, is_near);
        text += &format!(
            "{} of {} outputs within {:e} over {} cases\n",
            distances.len() - far,
            distances.len(),
            arguments.within,
            cases.len()
        );
        if let Some(inner) = &inner {
            text += "\n";
            text += &table("layer by layer", &inner.distances, is_near);
            text += &match first {
                Some(layer) => format!("the first layer that diverges is {layer}\n"),
                None => "no layer diverges\n".to_owned(),
            };
        }
        print!("{}", printable(&text));
    }
    Ok(ExitCode::from(u8::from(far > 0)))
}

/// How far values between layers are, in the order in which they are made.
struct Inner {
    graph: Graph,
    distances: Vec<OutputDistance>,
}

/// A node by its name, its operator and what it makes.
struct Layer<'a> {
    node: &'a str,
    operator: &'a str,
    value: &'a str,
}

impl std::fmt::Display for Layer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            node,
            operator,
            value,
        } = self;
        write!(f, "`{node}` ({operator}), which makes `{value}`")
    }
}

impl Inner {
    fn first(&self, is_near: impl Fn(&Accuracy) -> bool) -> Option<Layer<'_>> {
        let far = self.distances.iter().find(|it| !is_near(&it.worst))?;
        let (node, operator) = maker_of_value(&self.graph, &far.name)?;
        let value = &far.name;
        Some(Layer {
            node,
            operator,
            value,
        })
    }
}

/// Runs the cases once more with the values between layers as outputs, if the file has any.
fn inner_distances(
    arguments: &Arguments,
    name: &str,
    cases: &[GoldenCase],
) -> Result<Option<Inner>, Box<dyn Error>> {
    let has_inner = cases.iter().any(GoldenCase::has_inner_values);
    if !has_inner {
        return Ok(None);
    }
    let options = arguments.engine.run_options()?;
    // Once more, as a model gives the constants of its own up.
    let graph = file::load_with(&arguments.model, &options.read_options());
    let graph = with_inner_values(&graph.map_err(about(&arguments.model))?, cases);
    let model = Model::from_graph(graph.clone(), &options).map_err(about(&arguments.model))?;
    let mut session = model.session();
    let run = |inputs: &[(&str, &Tensor)]| session.run(inputs);
    let distances = golden_distances(&arguments.against, name, cases, run)?;
    Ok(Some(Inner { graph, distances }))
}

fn table(what: &str, distances: &[OutputDistance], is_near: impl Fn(&Accuracy) -> bool) -> String {
    let heading = [
        what,
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
    inner: Option<&Inner>,
    first: Option<Layer<'_>>,
) -> Value {
    let one = |OutputDistance { name, worst }: &OutputDistance| {
        json!({
            "name": name,
            "max_abs": worst.max_abs,
            "max_rel": worst.max_rel,
            "cosine": worst.cosine,
            "sqnr_db": worst.sqnr_db,
            "non_finite": worst.non_finite,
            "within": worst.max_rel <= arguments.within,
        })
    };
    let all = |distances: &[OutputDistance]| distances.iter().map(one).collect::<Vec<_>>();
    let layer = |layer: Layer<'_>| json!({ "node": layer.node, "operator": layer.operator, "value": layer.value });
    json!({
        "schema": "sparkpilot-compare/1",
        "model": arguments.model.display().to_string(),
        "against": arguments.against.display().to_string(),
        "within": arguments.within,
        "cases": n_cases,
        "outputs": all(distances),
        "layers": inner.map(|inner| all(&inner.distances)),
        "first_divergent_layer": first.map(layer),
    })
}
