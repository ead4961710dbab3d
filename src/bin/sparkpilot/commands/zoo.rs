//! `sparkpilot zoo`: networks of openpilot's shapes with random weights, as ONNX files.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use spark_program::{output, postponed};
use sparkpilot::onnx::file;
use sparkpilot::zoo::ZooModel;

use crate::tables;

/// List networks of openpilot's shapes with random weights, or write them as ONNX files
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot zoo\n  \
    sparkpilot zoo --folder models --seed 1")]
pub(crate) struct Arguments {
    /// Write the networks here, made if it is missing
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Seed of the weights
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
}

/// Lists the networks, or writes them.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let Some(folder) = &arguments.folder else {
        print!("{}", list(arguments.seed));
        return Ok(ExitCode::SUCCESS);
    };
    output::folder(folder)?;
    let path = |model: ZooModel| folder.join(format!("{}.onnx", model.name()));
    for model in ZooModel::ALL {
        let graph = model.build(arguments.seed);
        postponed(|| file::save(&graph, &path(model)))?;
    }
    // Files before words, which nobody may read.
    for model in ZooModel::ALL {
        println!("wrote {} (random weights)", path(model).display());
    }
    Ok(ExitCode::SUCCESS)
}

fn list(seed: u64) -> String {
    let mut rows = vec![["network", "nodes", "weights", "inputs"].map(str::to_owned)];
    for model in ZooModel::ALL {
        let graph = model.build(seed);
        let constants = graph
            .values
            .iter()
            .filter_map(|value| value.constant.as_ref());
        let n_bytes: usize = constants.map(|tensor| tensor.size_bytes()).sum();
        let names = graph.inputs.iter().map(|&id| graph.value(id).name.clone());
        rows.push([
            model.name().to_owned(),
            graph.nodes.len().to_string(),
            tables::bytes(n_bytes),
            names.collect::<Vec<_>>().join(", "),
        ]);
    }
    tables::columns(&rows)
}
