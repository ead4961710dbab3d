//! `eval` by one process, and `merge`.

use std::error::Error;
use std::process::ExitCode;

use spark_program::{Pulse, about, output, place, postponed, progress, tell};
use sparkpilot::onnx::{Precision, file};
use sparkpilot::train::{AdaptedNetwork, Comparison, Deployment, Errors, Samples, compare};

use super::arguments::Merge;
use super::data::{Material, described};
use super::run::{Run, Taught};

/// Below it there is nothing that training could win back.
const NOTHING: f64 = 1e-7;

/// Judges a run's adapter.
pub(crate) fn eval(run: &Run) -> Result<ExitCode, Box<dyn Error>> {
    let (material, network) = begun(run)?;
    println!("{}", described(network.adapter()));
    judge(run, &material, &network)
}

/// What a run was begun with, and its adapter.
pub(crate) fn begun(run: &Run) -> Result<(Material, AdaptedNetwork), Box<dyn Error>> {
    let mut material = Material::read(run)?;
    material.calibrate(run, false)?;
    let fingerprint = material.adapted(run)?.fingerprint();
    run.hold_against(&material.frames()?, &fingerprint)?;
    let network = material.opened(run)?;
    Ok((material, network))
}

/// What is told of a run beside the errors of its adapter.
pub(crate) struct Judged {
    pub(crate) n_training: usize,
    pub(crate) n_held_back: usize,
    /// What weights are rounded to.
    pub(crate) precision: Option<Precision>,
}

/// Judges an adapter, and prints its errors on the frames that are held back.
pub(crate) fn judge(
    run: &Run,
    material: &Material,
    network: &AdaptedNetwork,
) -> Result<ExitCode, Box<dyn Error>> {
    let (training, held_back) = (material.training(), material.held_back());
    if held_back.is_empty() {
        println!("no frame is held back: nothing is judged");
        return Ok(ExitCode::SUCCESS);
    }
    let bar = progress(None).with_message("judging");
    let pulse = Pulse::of(&bar);
    let result = compare(
        network,
        &material.graph,
        &material.judged,
        [&training, &held_back],
        &material.options(),
    )?;
    // What calibrating gained alone.
    let before = match &material.uncalibrated {
        None => None,
        Some(graph) => {
            let frames: [&dyn Samples; 2] = [&training, &held_back];
            let options = material.options();
            Some(compare(network, graph, &material.judged, frames, &options)?)
        }
    };
    drop(pulse);
    bar.finish_and_clear();
    let judged = Judged {
        n_training: training.len(),
        n_held_back: held_back.len(),
        precision: material.deployment.precision(),
    };
    print(run, &judged, network, &result, before.as_ref())
}

/// Prints what a comparison came to, and what one of the network before it was calibrated did.
pub(crate) fn print(
    run: &Run,
    judged: &Judged,
    network: &AdaptedNetwork,
    result: &Comparison,
    before: Option<&Comparison>,
) -> Result<ExitCode, Box<dyn Error>> {
    let (loss, n) = (result.loss, judged.n_held_back);
    let what = match run.options.heads {
        Taught::Numbers => "root mean square error",
        Taught::Driving => "loss",
    };
    println!("{what} on the frames held back, {n}");
    if result.heads.len() > 1 {
        let [a, b, c, d] = named(&result.all).map(|(name, _)| name);
        println!("  {:24} {a:>11} {b:>11} {c:>11} {d:>11}", "");
        for head in &result.heads {
            let [a, b, c, d] = named(of(run, (&head.all, &head.loss))).map(|(_, error)| error);
            println!("  {:24} {a:11.5} {b:11.5} {c:11.5} {d:11.5}", head.name);
        }
    }
    let whole = result;
    let result = *of(run, (&result.all, &result.loss));
    if let Some(before) = before {
        let before = of(run, (&before.all, &before.loss)).untouched;
        println!("  before it was calibrated {before:.5}; calibrated:");
        if result.untouched > before {
            tell(format!(
                "warning: calibrating has made the network worse on the frames held back ({before:.5} before, {:.5} after): without --calibrate, or on other frames, it may be better",
                result.untouched
            ));
        }
    }
    for (name, error) in named(&result) {
        println!("  {name:12} {error:.5}");
    }
    if !result.trained.is_finite() || !loss.trained.is_finite() {
        let why = match result.untouched.is_finite() && loss.untouched.is_finite() {
            true => "the trained network gives no finite numbers: a lower --lr may help",
            false => {
                "neither the network nor the trained one gives finite numbers: frames held back may be too large"
            }
        };
        return Err(why.into());
    }
    match result.best_without() {
        best if best < NOTHING => println!("there is nothing to win: without training it is exact"),
        _ if result.ratio() < 1.0 => {
            println!("trained / best without training: {:.3}", result.ratio());
        }
        _ => println!("training is no better than what is had without it"),
    }
    // Behind the table: a place that cannot be written to does not take that away.
    if let Some(path) = &run.json {
        let mut result = json(run, judged, network, whole);
        if let Some(before) = before {
            result["uncalibrated"] = serde_json::json!({
                "root_mean_square": before.all.untouched,
                "loss": before.loss.untouched,
            });
        }
        let written = output::write(path, format!("{result:#}\n"));
        written.inspect_err(|_| {
            println!(
                "the adapter is written: `{}` judges it again",
                run.command("eval")
            );
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Numbers are judged by their errors, heads of driving models by what is taught: their losses.
fn of<'e>(run: &Run, (all, loss): (&'e Errors, &'e Errors)) -> &'e Errors {
    match run.options.heads {
        Taught::Numbers => all,
        Taught::Driving => loss,
    }
}

fn named(errors: &Errors) -> [(&'static str, f64); 4] {
    [
        ("untouched", errors.untouched),
        ("with a bias", errors.bias),
        ("constant", errors.constant),
        ("trained", errors.trained),
    ]
}

fn json(
    run: &Run,
    judged: &Judged,
    network: &AdaptedNetwork,
    result: &Comparison,
) -> serde_json::Value {
    let size = network.adapter().size();
    let errors = |errors: &Errors| {
        serde_json::json!({
            "untouched": errors.untouched,
            "bias": errors.bias,
            "constant": errors.constant,
            "trained": errors.trained,
        })
    };
    let heads = result.heads.iter();
    let heads: Vec<_> = heads
        .map(|head| {
            serde_json::json!({
                "head": head.name,
                "root_mean_square": errors(&head.all),
                "loss": errors(&head.loss),
            })
        })
        .collect();
    serde_json::json!({
        "schema": "spark-finetune/2",
        "model": run.options.model.display().to_string(),
        "qat": judged.precision.map(|precision| precision.to_string()),
        "qat_activations": run.options.qat_activations,
        "frames": judged.n_training,
        "held_back": judged.n_held_back,
        "root_mean_square": errors(&result.all),
        "loss": errors(&result.loss),
        "heads": heads,
        "adapter_fraction": size.fraction,
        "trainable": size.trainable,
    })
}

pub(crate) fn merge(merge: &Merge) -> Result<ExitCode, Box<dyn Error>> {
    let own = ["adapter_config.json", "adapter_model.safetensors"];
    let own = own.map(|name| merge.adapter.join(name));
    let inputs = [merge.model.as_path(), own[0].as_path(), own[1].as_path()];
    output::keep_apart(inputs, [merge.merged.as_path()])?;
    place::file(&merge.merged)?;
    let graph = file::load(&merge.model).map_err(about(&merge.model))?;
    let n_nodes = graph.nodes.len();
    let network = AdaptedNetwork::open(graph, &merge.adapter, &Deployment::exact());
    let network = network.map_err(about(&merge.adapter))?;
    println!("{}", described(network.adapter()));
    let merged = network.merged()?;
    println!(
        "{} weights changed, by {:.3e} at most; {} nodes as before",
        merged.report.layers.len() + merged.report.replaced.len(),
        merged.report.max_change(),
        n_nodes
    );
    let bytes = file::to_bytes(&merged.graph)?;
    postponed(|| output::write(&merge.merged, bytes))?;
    Ok(ExitCode::SUCCESS)
}
