//! `eval` and `merge`.

use std::error::Error;
use std::process::ExitCode;

use spark_program::{about, output, place, postponed};
use sparkpilot::onnx::file;
use sparkpilot::train::{AdaptedNetwork, Deployment, compare};

use crate::data::{Material, described};
use crate::{Merge, Run};

pub(crate) fn eval(run: &Run) -> Result<ExitCode, Box<dyn Error>> {
    let material = Material::read(run)?;
    let network = material.opened(run)?;
    println!("{}", described(network.adapter()));
    judge(run, &material, &network)
}

/// Prints the errors on the frames that are held back.
pub(crate) fn judge(
    run: &Run,
    material: &Material,
    network: &AdaptedNetwork,
) -> Result<ExitCode, Box<dyn Error>> {
    if material.held_back.is_empty() {
        println!("no frame is held back: nothing is judged");
        return Ok(ExitCode::SUCCESS);
    }
    let result = compare(
        network,
        &material.graph,
        &material.heads,
        [&material.training, &material.held_back],
        &material.options(),
    )?;
    println!(
        "root mean square error on {} frames held back",
        material.held_back.len()
    );
    for (name, error) in [
        ("untouched", result.untouched),
        ("with a bias", result.bias),
        ("constant", result.constant),
        ("trained", result.trained),
    ] {
        println!("  {name:12} {error:.5}");
    }
    println!("trained / best without training: {:.3}", result.ratio());
    if let Some(path) = &run.json {
        let size = network.adapter().size();
        let json = serde_json::json!({
            "schema": "spark-finetune/1",
            "model": run.model.display().to_string(),
            "qat": material.deployment.precision().map(|precision| precision.to_string()),
            "frames": material.training.len(),
            "held_back": material.held_back.len(),
            "untouched": result.untouched,
            "bias": result.bias,
            "constant": result.constant,
            "trained": result.trained,
            "adapter_fraction": size.fraction,
            "trainable": size.trainable,
        });
        output::write(path, format!("{json:#}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn merge(merge: &Merge) -> Result<ExitCode, Box<dyn Error>> {
    output::keep_apart([merge.model.as_path()], [merge.merged.as_path()])?;
    place::file(&merge.merged)?;
    let graph = file::load(&merge.model).map_err(about(&merge.model))?;
    let n_nodes = graph.nodes.len();
    let network = AdaptedNetwork::open(graph, &merge.adapter, &Deployment::exact())?;
    println!("{}", described(network.adapter()));
    let merged = network.merged()?;
    let largest = merged.report.layers.values().map(|layer| layer.max_change);
    println!(
        "{} weights changed, by {:.3e} at most; {} nodes as before",
        merged.report.layers.len() + merged.report.replaced.len(),
        largest.fold(0.0, f64::max),
        n_nodes
    );
    let bytes = file::to_bytes(&merged.graph)?;
    postponed(|| output::write(&merge.merged, bytes))?;
    Ok(ExitCode::SUCCESS)
}
