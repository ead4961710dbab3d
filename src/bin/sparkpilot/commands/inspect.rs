//! `sparkpilot inspect`: what a model is made of, and what this machine makes of it.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use spark_program::output::Words;
use spark_program::{Usage, about, file_ending_in, output, place, printable};
use sparkpilot::bench::network_picture;
use sparkpilot::onnx::graph::{Dim, Graph, ValueId};
use sparkpilot::onnx::{Model, ModelMemory, StepInfo, file};

use crate::engine_options::EngineOptions;
use crate::tables;

/// Say what a model is made of: inputs, outputs, operators, steps, number formats and memory
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot inspect driving_vision.onnx\n  \
    sparkpilot inspect driving_policy.onnx --layers --precision bf16\n  \
    sparkpilot inspect supercombo.onnx --json | jq .operators\n  \
    sparkpilot inspect supercombo.onnx --svg network.svg\n\n\
    Steps and memory are those of a plan, which is made where all shapes of the inputs are fixed.")]
pub(crate) struct Arguments {
    /// ONNX file
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// List every step with its format and what computes it
    #[arg(long)]
    layers: bool,
    /// Print everything as JSON (schema sparkpilot-inspect/1)
    #[arg(long)]
    json: bool,
    /// Draw the network from its inputs down to its outputs, here or with `-` to stdout
    #[arg(long, value_name = "FILE.svg", value_parser = file_ending_in(&["svg"]))]
    svg: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineOptions,
}

/// What is told of a model.
struct Inspected {
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    metadata: BTreeMap<String, String>,
    /// How often each operator stands in the file.
    operators: BTreeMap<String, usize>,
    parameters: usize,
    parameter_bytes: usize,
    /// None where shapes are open.
    plan: Option<Plan>,
}

struct Port {
    name: String,
    dtype: String,
    /// With symbols where sizes are open.
    shape: String,
}

struct Plan {
    device: &'static str,
    isa: String,
    threads: usize,
    memory: ModelMemory,
    steps: Vec<StepInfo>,
}

/// Reads the model, plans it, and prints both.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(path) = &arguments.svg {
        if arguments.json && output::is_stdout(path) {
            let why = "--json and --svg - both write to stdout; name a file for the picture";
            return Err(Usage(why.to_owned()).into());
        }
        output::keep_apart([arguments.model.as_path()], [path.as_path()])?;
        place::file(path)?;
    }
    let options = arguments.engine.run_options()?;
    let graph = file::load_with(&arguments.model, &options.read_options());
    let graph = graph.map_err(about(&arguments.model))?;
    let mut inspected = Inspected::of(&graph);
    let has_plan = has_fixed_shapes(&graph);
    let picture = arguments
        .svg
        .as_ref()
        .map(|path| (path, network_picture(&graph)));
    // Also where there is no plan to show: a device or a precision that cannot be had is refused here.
    let model = Model::from_graph(graph, &options).map_err(about(&arguments.model))?;
    if has_plan {
        let mut session = model.session();
        session.warm_up()?;
        inspected.plan = Some(Plan {
            device: model.device(),
            isa: model.isa().to_string(),
            threads: model.threads(),
            memory: model.memory(),
            steps: session.steps(),
        });
    }
    // The file before the words, which nobody may read.
    if let Some((path, picture)) = picture {
        output::write(path, picture.finish() + "\n")?;
    }
    if arguments.json {
        println!(
            "{:#}",
            inspected.as_json(&arguments.model.display().to_string())
        );
    } else {
        let words = Words::beside(arguments.svg.as_deref());
        words.say(&printable(&inspected.as_text(arguments.layers)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn has_fixed_shapes(graph: &Graph) -> bool {
    graph.inputs.iter().all(|&id| {
        let shape = graph.value(id).shape.as_ref();
        shape.is_some_and(|shape| shape.iter().all(|dim| matches!(dim, Dim::Known(_))))
    })
}

impl Inspected {
    fn of(graph: &Graph) -> Self {
        let port = |&id: &ValueId| {
            let value = graph.value(id);
            let dim = |dim: &Dim| match dim {
                Dim::Known(n) => n.to_string(),
                Dim::Symbol(name) => name.clone(),
                Dim::Unknown => "?".to_owned(),
            };
            let shape = value
                .shape
                .as_ref()
                .map(|dims| dims.iter().map(dim).collect::<Vec<_>>());
            Port {
                name: value.name.clone(),
                dtype: value
                    .dtype
                    .map_or("undeclared".to_owned(), |dtype| dtype.to_string()),
                shape: shape.map_or("undeclared".to_owned(), |dims| {
                    format!("[{}]", dims.join(", "))
                }),
            }
        };
        let mut operators = BTreeMap::new();
        for node in &graph.nodes {
            *operators.entry(node.op.name().to_owned()).or_insert(0) += 1;
        }
        let constants = || {
            graph
                .values
                .iter()
                .filter_map(|value| value.constant.as_ref())
        };
        Self {
            inputs: graph.inputs.iter().map(port).collect(),
            outputs: graph.outputs.iter().map(port).collect(),
            metadata: graph.metadata.clone(),
            operators,
            parameters: constants().map(|tensor| tensor.len()).sum(),
            parameter_bytes: constants().map(|tensor| tensor.size_bytes()).sum(),
            plan: None,
        }
    }

    fn as_text(&self, with_layers: bool) -> String {
        let mut text = String::new();
        for (kind, ports) in [("input", &self.inputs), ("output", &self.outputs)] {
            let mut rows = vec![[kind, "type", "shape"].map(str::to_owned)];
            rows.extend(
                ports
                    .iter()
                    .map(|it| [it.name.clone(), it.dtype.clone(), it.shape.clone()]),
            );
            text += &tables::columns(&rows);
            text += "\n";
        }
        let n_nodes: usize = self.operators.values().sum();
        let mut operators: Vec<(&String, &usize)> = self.operators.iter().collect();
        operators.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        let operators = operators.iter().map(|(name, n)| format!("{n} {name}"));
        text += &format!(
            "operators   {n_nodes}: {}\n",
            operators.collect::<Vec<_>>().join(", ")
        );
        let bytes = tables::bytes(self.parameter_bytes);
        text += &format!("parameters  {} in {bytes}\n", self.parameters);
        let keys: Vec<&str> = self.metadata.keys().map(String::as_str).collect();
        if !keys.is_empty() {
            text += &format!("metadata    {}\n", keys.join(", "));
        }
        let Some(plan) = &self.plan else {
            text += "plan        none: shapes of inputs are open\n";
            return text;
        };
        text += &plan.as_text(with_layers);
        text
    }

    fn as_json(&self, model: &str) -> Value {
        let ports = |ports: &[Port]| -> Vec<Value> {
            let one = |it: &Port| json!({ "name": it.name, "type": it.dtype, "shape": it.shape });
            ports.iter().map(one).collect()
        };
        json!({
            "schema": "sparkpilot-inspect/1",
            "model": model,
            "inputs": ports(&self.inputs),
            "outputs": ports(&self.outputs),
            "metadata": self.metadata,
            "operators": self.operators,
            "parameters": self.parameters,
            "parameter_bytes": self.parameter_bytes,
            "plan": self.plan.as_ref().map(Plan::as_json),
        })
    }
}

impl Plan {
    fn as_text(&self, with_layers: bool) -> String {
        let macs: u64 = self.steps.iter().map(|step| step.macs).sum();
        let mut formats: BTreeMap<String, usize> = BTreeMap::new();
        for step in self.steps.iter().filter(|step| step.macs > 0) {
            *formats.entry(step.precision.to_string()).or_insert(0) += 1;
        }
        let formats = formats.iter().map(|(format, n)| format!("{n} in {format}"));
        let mut text = format!(
            "plan        {} steps on {} ({}), {} threads; products: {}\n\
             work        {:.3} GMAC a run\n\
             memory      weights {}, a session {}\n",
            self.steps.len(),
            self.device,
            self.isa,
            self.threads,
            formats.collect::<Vec<_>>().join(", "),
            macs as f64 / 1e9,
            tables::bytes(self.memory.weight_bytes),
            tables::bytes(self.memory.session_bytes),
        );
        if with_layers {
            let mut rows =
                vec![["step", "kind", "format", "kernel", "MMAC", "weights"].map(str::to_owned)];
            rows.extend(self.steps.iter().map(|step| {
                [
                    step.name.clone(),
                    step.kind.to_owned(),
                    step.precision.to_string(),
                    step.kernel.clone(),
                    format!("{:.3}", step.macs as f64 / 1e6),
                    tables::bytes(step.weight_bytes),
                ]
            }));
            text += "\n";
            text += &tables::columns(&rows);
        }
        text
    }

    fn as_json(&self) -> Value {
        let step = |step: &StepInfo| {
            json!({
                "name": step.name,
                "kind": step.kind,
                "detail": step.detail,
                "precision": step.precision.to_string(),
                "reason": step.reason,
                "kernel": step.kernel,
                "macs": step.macs,
                "bytes": step.bytes,
                "weight_bytes": step.weight_bytes,
            })
        };
        json!({
            "device": self.device,
            "isa": self.isa,
            "threads": self.threads,
            "weight_bytes": self.memory.weight_bytes,
            "session_bytes": self.memory.session_bytes,
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
        })
    }
}
