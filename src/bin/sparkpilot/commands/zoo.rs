//! `sparkpilot zoo`: networks of openpilot's shapes with random weights, as ONNX files.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use spark_program::{output, postponed};
use sparkpilot::bench;
use sparkpilot::zoo::ZooModel;

use crate::tables;

/// List networks of openpilot's shapes with random weights, or write them as ONNX files
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot zoo\n  \
    sparkpilot zoo --json\n  \
    sparkpilot zoo --folder models --seed 1")]
pub(crate) struct Arguments {
    /// Write the networks here, made if it is missing; other files of their names are kept, and it is refused
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Print the list as JSON (schema sparkpilot-zoo/1)
    #[arg(long, conflicts_with = "folder")]
    json: bool,
    /// Seed of the weights that are written
    #[arg(long, default_value_t = 0, value_name = "N", requires = "folder")]
    seed: u64,
}

/// Lists the networks, or writes them.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let Some(folder) = &arguments.folder else {
        let listed = ZooModel::ALL.map(|model| Listed::of(model, arguments.seed));
        match arguments.json {
            true => println!("{:#}", as_json(&listed)),
            false => print!("{}", as_text(&listed)),
        }
        return Ok(ExitCode::SUCCESS);
    };
    output::folder(folder)?;
    for file in postponed(|| bench::write_zoo(folder, arguments.seed))? {
        println!("wrote {} (random weights)", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// What the list says of a network.
struct Listed {
    name: &'static str,
    nodes: usize,
    weight_bytes: usize,
    inputs: Vec<String>,
}

impl Listed {
    fn of(model: ZooModel, seed: u64) -> Self {
        let graph = model.build(seed);
        let constants = graph
            .values
            .iter()
            .filter_map(|value| value.constant.as_ref());
        let names = graph.inputs.iter().map(|&id| graph.value(id).name.clone());
        Self {
            name: model.name(),
            nodes: graph.nodes.len(),
            weight_bytes: constants.map(|tensor| tensor.size_bytes()).sum(),
            inputs: names.collect(),
        }
    }
}

fn as_text(listed: &[Listed]) -> String {
    let mut rows = vec![["network", "nodes", "weights", "inputs"].map(str::to_owned)];
    rows.extend(listed.iter().map(|it| {
        [
            it.name.to_owned(),
            it.nodes.to_string(),
            tables::bytes(it.weight_bytes),
            it.inputs.join(", "),
        ]
    }));
    tables::columns(&rows)
}

fn as_json(listed: &[Listed]) -> Value {
    let network = |it: &Listed| {
        json!({
            "name": it.name,
            "nodes": it.nodes,
            "weight_bytes": it.weight_bytes,
            "inputs": it.inputs,
        })
    };
    json!({
        "schema": "sparkpilot-zoo/1",
        "networks": listed.iter().map(network).collect::<Vec<_>>(),
    })
}
