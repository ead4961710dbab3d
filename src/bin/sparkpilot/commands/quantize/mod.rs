//! Which number format should each weight of a network get, and what does that cost: `sparkpilot quantize`, and the example
//! `quantize_weights`, which is built of this file.
//!
//! Reads f32, f16 or bf16 weights (without a file: a built-in network with random weights), tries the
//! candidate formats on each, prints a table, and writes a checkpoint that vLLM, TensorRT-LLM or this
//! workspace can read. `--format auto` mixes formats under `--bits`. Nothing of it needs a GPU. Which
//! tensors are weights is for `weights` to say.

mod weights;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use spark_program::output::Words;
use spark_program::{Pulse, Usage, file_ending_in, number, output, place, postponed, printable};
use sparkpilot::quant::analysis::plan::Pick;
use sparkpilot::quant::analysis::{
    Candidate, Kept, Layer, NamedWeight, ParetoPoint, PlanBudget, PrecisionPlan, Sensitivity, plot,
};
use sparkpilot::quant::checkpoint::Layout;
use sparkpilot::quant::{ExecutionPolicy, QuantError, Quantizer, Recipe};

use weights::Found;

/// Bits per weight of `--format auto` where `--bits` does not say.
const DEFAULT_BITS: f64 = 5.0;

// What is written on it here would stand on every command that takes these options in.
#[derive(clap::Args)]
#[group(skip)] // the group that clap would make has the name of the example's own
pub(crate) struct Arguments {
    /// Weights: a safetensors or ONNX file; a built-in network by default
    input: Option<PathBuf>,
    /// Format of all weights, or auto for the best mix under --bits
    #[arg(long, value_enum, default_value_t = Format::Nvfp4Sweep)]
    format: Format,
    /// Bits per weight that --format auto may spend; 5 by default
    #[arg(long, value_name = "N", value_parser = number(0.01, 32.0))]
    bits: Option<f64>,
    /// Keep weights whose name contains this text in bf16; may be repeated
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    exclude: Vec<String>,
    /// Write a checkpoint: a folder with model.safetensors and its configuration
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Whose names and conventions the checkpoint of --output follows; modelopt by default
    #[arg(long, value_enum, requires = "output")]
    layout: Option<Convention>,
    /// Write the table and the trade-off as JSON (schema sparkpilot-quantize/1), here or with `-` to stdout
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Plot signal to noise against size
    #[arg(long, value_name = "FILE.svg", value_parser = file_ending_in(&["svg"]))]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    Auto,
    Nvfp4,
    Nvfp4Sweep,
    Mxfp4,
    Mxfp8,
    Fp8,
    Int8,
}

#[derive(Clone, Copy, ValueEnum)]
enum Convention {
    Modelopt,
    CompressedTensors,
    Native,
}

/// Tries the formats, writes what was asked for, and prints the table.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    spark_program::check_devices(spark_program::Devices::Cpu)?;
    let layout = match arguments.layout {
        None | Some(Convention::Modelopt) => Layout::ModelOpt,
        Some(Convention::CompressedTensors) => Layout::CompressedTensors,
        Some(Convention::Native) => Layout::Native,
    };
    let writes_modelopt = arguments.output.is_some() && layout == Layout::ModelOpt;
    if arguments.format == Format::Int8 && writes_modelopt {
        let why = "the ModelOpt layout has no INT8; use --layout compressed-tensors";
        return Err(Usage(why.to_owned()).into());
    }
    if arguments.bits.is_some() && arguments.format != Format::Auto {
        let why = "--bits is what --format auto may spend; the other formats have their own";
        return Err(Usage(why.to_owned()).into());
    }
    let in_folder = ["model.safetensors", "config.json", "hf_quant_config.json"];
    let folder = arguments.output.iter();
    let in_folder = folder.flat_map(|folder| in_folder.map(|name| folder.join(name)));
    let folder = arguments.output.iter().cloned();
    let outputs = [&arguments.json, &arguments.plot];
    let outputs: Vec<PathBuf> = outputs
        .into_iter()
        .flatten()
        .cloned()
        .chain(folder)
        .chain(in_folder)
        .collect();
    output::keep_apart(
        arguments.input.as_deref(),
        outputs.iter().map(PathBuf::as_path),
    )?;
    // Asked before the work, not after it.
    if let Some(folder) = &arguments.output {
        place::folder(folder)?;
    }
    for file in arguments.json.iter().chain(&arguments.plot) {
        // In a folder that is made before it.
        let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let folder = arguments.output.as_deref();
        let is_in_folder = folder
            .is_some_and(|to| !to.exists() && whole(file).parent() == Some(whole(to).as_path()));
        if !is_in_folder {
            place::file(file)?;
        }
    }
    let Found {
        weights,
        others,
        notes,
    } = weights::read(arguments.input.as_deref())?;
    for text in &arguments.exclude {
        let weights = weights.iter().map(|weight| &weight.name);
        let mut names = weights.chain(others.iter().map(|(name, _)| name));
        if !names.any(|name| name.contains(text)) {
            let why = format!("--exclude {text}: no name in the file contains this text");
            return Err(Usage(why).into());
        }
    }
    let recipes: Vec<(Format, Recipe)> = [
        (Format::Nvfp4, Recipe::NVFP4),
        (Format::Nvfp4Sweep, Recipe::NVFP4_SWEEP),
        (Format::Mxfp4, Recipe::MXFP4),
        (Format::Mxfp8, Recipe::MXFP8),
        (Format::Fp8, Recipe::FP8),
        (Format::Int8, Recipe::INT8),
    ]
    .into_iter()
    .filter(|(format, _)| {
        *format != Format::Int8 || layout != Layout::ModelOpt || arguments.format == Format::Int8
    })
    .collect();
    let quantizers = recipes
        .iter()
        .map(|(_, recipe)| Candidate::Quantize(Quantizer::new(*recipe)));
    let candidates: Vec<Candidate> = quantizers.chain([Candidate::Keep(Kept::Bf16)]).collect();

    let bar = spark_program::progress(Some(weights.len() as u64)).with_message("weights");
    let pulse = Pulse::of(&bar);
    let mut sensitivity =
        Sensitivity::of_weights(ExecutionPolicy::detect(), &weights, &candidates, |n| {
            bar.set_position(n as u64)
        })?;
    drop(pulse);
    bar.finish_and_clear();
    let is_excluded = |name: &str| arguments.exclude.iter().any(|text| name.contains(text));
    let excluded = |layer: &&mut Layer| is_excluded(&layer.name);
    for layer in sensitivity.layers.iter_mut().filter(excluded) {
        layer
            .choices
            .retain(|choice| choice.candidate == candidates.len() - 1);
    }
    let n_values: usize = weights.iter().map(|weight| weight.values.len()).sum();
    let plan = match recipes
        .iter()
        .position(|(format, _)| *format == arguments.format)
    {
        Some(candidate) => sensitivity.uniform(candidate)?,
        // Only auto is no recipe.
        None => {
            let bytes = (n_values as f64 * arguments.bits.unwrap_or(DEFAULT_BITS) / 8.0) as usize;
            sensitivity.plan(PlanBudget::Bytes(bytes))?
        }
    };
    // Files before the table: whoever reads only its first lines closes the pipe.
    if let Some(folder) = &arguments.output {
        let mut checkpoint = plan.apply(ExecutionPolicy::detect(), &weights, &candidates)?;
        checkpoint.entries.extend(others);
        output::folder(folder)?;
        postponed(|| checkpoint.write_folder(folder, layout, None))?;
    }
    let pareto = sensitivity.pareto()?;
    if let Some(path) = &arguments.json {
        let report = serde_json::json!({
            "schema": "sparkpilot-quantize/1",
            "plan": plan,
            "weights": sensitivity.layers,
            "pareto": pareto,
        });
        output::write(path, format!("{report:#}\n"))?;
    }
    if let Some(path) = &arguments.plot {
        output::write(path, drawing(&sensitivity, &candidates, &pareto, n_values)?)?;
    }

    let mut words = String::new();
    for note in &notes {
        words += &format!("{}\n", printable(note));
    }
    words += &table(&plan, &weights, n_values);
    // What was asked for by name and cannot be had for some weights is said.
    let asked = recipes
        .iter()
        .position(|(format, _)| *format == arguments.format);
    let is_other = |pick: &&Pick| asked.is_some_and(|asked| pick.candidate != asked);
    let n_others = plan.picks.iter().filter(is_other);
    let n_others = n_others.filter(|pick| !is_excluded(&pick.name)).count();
    if n_others > 0 {
        words += &format!(
            "in another format than the one asked for: {n_others}, whose rows are no whole blocks of it or \
             whose values would not be finite in it\n"
        );
    }
    if let Some(folder) = &arguments.output {
        words += &format!(
            "wrote {} ({})\n",
            folder.join("model.safetensors").display(),
            layout.name()
        );
    }
    let written = arguments.json.iter().chain(&arguments.plot);
    Words::beside(written.map(PathBuf::as_path)).say(&words)?;
    Ok(ExitCode::SUCCESS)
}

/// Every format alone and the best mixes, signal to noise against size.
fn drawing(
    sensitivity: &Sensitivity,
    candidates: &[Candidate],
    pareto: &[ParetoPoint],
    n_values: usize,
) -> Result<String, QuantError> {
    // The mean relative noise over weights, in decibels.
    let db = |cost: f64| -10.0 * (cost / sensitivity.layers.len() as f64).log10();
    let dots = (0..candidates.len())
        .map(|candidate| {
            let plan = sensitivity.uniform(candidate)?;
            Ok(plot::Dot {
                label: candidates[candidate].label(),
                bytes: plan.bytes as f64,
                sqnr_db: db(plan.cost),
            })
        })
        .collect::<Result<Vec<_>, QuantError>>()?;
    let line: Vec<(f64, f64)> = pareto
        .iter()
        .map(|point| (point.bytes as f64, db(point.cost)))
        .collect();
    let title = format!(
        "{} weights, {:.1} M values: one format (dots), best mix (line)",
        sensitivity.layers.len(),
        n_values as f64 / 1e6
    );
    Ok(plot::sqnr_against_bytes(&title, &dots, &line))
}

fn table(plan: &PrecisionPlan, weights: &[NamedWeight], n_values: usize) -> String {
    let width = plan
        .picks
        .iter()
        .map(|pick| printable(&pick.name).chars().count())
        .max()
        .unwrap_or(0)
        .min(60);
    let mut text = format!(
        "{:width$}  {:>18}  {:>12}  {:>10}  {:>8}\n",
        "weight", "shape", "format", "bytes", "SQNR dB"
    );
    for (pick, weight) in plan.picks.iter().zip(weights) {
        let shape = weight
            .shape
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("x");
        text += &format!(
            "{:width$.60}  {shape:>18}  {:>12}  {:>10}  {:>8.2}\n",
            printable(&pick.name),
            pick.label,
            pick.bytes,
            pick.sqnr_db
        );
    }
    let db = -10.0 * (plan.cost / plan.picks.len().max(1) as f64).log10();
    let bits = 8.0 * plan.bytes as f64 / n_values.max(1) as f64;
    text += &format!(
        "{} weights, {n_values} values, {} bytes, {bits:.3} bits per value, {db:.2} dB\n",
        plan.picks.len(),
        plan.bytes
    );
    text
}
