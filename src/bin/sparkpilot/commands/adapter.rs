//! `sparkpilot adapter`: adapters as they lie on the disk, without the networks that they belong to.
//!
//! ```text
//! inspect   which modules, of which rank and scale, and how large all that is beside their weights
//! convert   the same adapter in another element type, or with its scale computed otherwise, if that is exact
//! diff      two adapters, tensor by tensor
//! ```

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use spark_program::{Usage, about, number, output, place, postponed, printable};
use sparkpilot::dora::adapter::{CONFIG_FILE, TENSOR_FILE};
use sparkpilot::dora::{
    AdapterDifference, AdapterFiles, Change, Method, ModuleReport, Rounding, StorageType,
};

use crate::tables::{self, on_one_line};

/// What a training run keeps beside the adapter of a checkpoint, and holds against its bytes.
const OF_CHECKPOINT: &str = "manifest.json";

/// Look at adapters, convert and compare them
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot adapter inspect run/adapter\n  \
    sparkpilot adapter convert run/adapter --storage bf16 --output small\n  \
    sparkpilot adapter diff run/adapter small\n\n\
    Adapters are folders as PEFT writes them: adapter_config.json and adapter_model.safetensors. `finetune merge` puts\n\
    one into a network.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Inspect(Inspect),
    Convert(Convert),
    Diff(Diff),
}

/// Say which modules an adapter changes, of which rank and scale, and how large it is
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot adapter inspect run/adapter\n  \
    sparkpilot adapter inspect style.safetensors --json\n\n\
    A file is taken for one of kohya's kind. The part of the base is that of the weights that are adapted, for the\n\
    adapter says nothing of the others.")]
struct Inspect {
    /// Folder of the adapter, or its file
    #[arg(value_name = "ADAPTER")]
    adapter: PathBuf,
    /// Print it as JSON (schema sparkpilot-adapter/1)
    #[arg(long)]
    json: bool,
}

/// Write an adapter in another element type, or with its scale computed otherwise
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot adapter convert run/adapter --storage bf16 --output small\n  \
    sparkpilot adapter convert run/adapter --rslora true --output stabilised\n\n\
    --rslora changes the alphas so that every scale stays what it is, to the last bit, and refuses what has no such\n\
    alpha. What rounding changed is said.")]
struct Convert {
    /// Folder of the adapter
    #[arg(value_name = "ADAPTER")]
    adapter: PathBuf,
    /// Element type of all tensors; as they are by default
    #[arg(long, value_enum, value_name = "TYPE")]
    storage: Option<Storage>,
    /// Whether scales are alpha / sqrt(rank), or alpha / rank; as they are by default
    #[arg(long, value_name = "true|false")]
    rslora: Option<bool>,
    /// Folder to write, made if it is missing
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Storage {
    F32,
    F16,
    Bf16,
}

/// Compare two adapters, tensor by tensor
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot adapter diff run/adapter small\n  \
    sparkpilot adapter diff run/adapter small --within 0.004 --json\n\n\
    The exit code is 1 if settings, names or shapes differ, or an element by more than --within.")]
struct Diff {
    /// Folder of the first adapter, or its file
    #[arg(value_name = "FIRST")]
    first: PathBuf,
    /// The same of the second
    #[arg(value_name = "SECOND")]
    second: PathBuf,
    /// Largest difference of an element that is none, as a part of the largest element of its tensor
    #[arg(long, default_value_t = 0.0, value_name = "X", value_parser = number(0.0, 1e9))]
    within: f64,
    /// Print it as JSON (schema sparkpilot-adapter-diff/2)
    #[arg(long)]
    json: bool,
}

/// Looks, converts or compares.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    match &arguments.command {
        Command::Inspect(inspect) => look(inspect),
        Command::Convert(wanted) => convert(wanted),
        Command::Diff(diff) => compare(diff),
    }
}

fn look(arguments: &Inspect) -> Result<ExitCode, Box<dyn Error>> {
    let adapter = AdapterFiles::open(&arguments.adapter).map_err(about(&arguments.adapter))?;
    let modules = adapter.modules().map_err(about(&arguments.adapter))?;
    if modules.is_empty() && adapter.whole().next().is_none() {
        let path = arguments.adapter.display();
        return Err(format!("`{path}`: it holds no tensors: no module is adapted").into());
    }
    let size = Size::of(&adapter, &modules);
    if arguments.json {
        let path = arguments.adapter.display().to_string();
        println!("{:#}", inspected_as_json(&path, &adapter, &modules, &size)?);
    } else {
        print!(
            "{}",
            printable(&inspected_as_text(&adapter, &modules, &size))
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// How large an adapter is.
struct Size {
    parameters: usize,
    bytes: usize,
    /// Numbers of the weights that are adapted, where the tensors say their shapes.
    base: usize,
    /// Numbers of the tensors of those.
    beside_base: usize,
}

impl Size {
    fn of(adapter: &AdapterFiles, modules: &[ModuleReport]) -> Self {
        let n_elements = |shape: &[usize]| {
            shape
                .iter()
                .fold(1, |n: usize, &axis| n.saturating_mul(axis))
        };
        let whole = |of: fn(&[usize], usize) -> usize| -> usize {
            adapter
                .whole()
                .map(|(_, shape, bytes)| of(shape, bytes))
                .sum()
        };
        let known = || {
            modules
                .iter()
                .filter_map(|it| Some((it, it.weight.as_deref()?)))
        };
        Self {
            parameters: modules.iter().map(|it| it.parameters).sum::<usize>()
                + whole(|shape, _| shape.iter().product()),
            bytes: modules.iter().map(|it| it.bytes).sum::<usize>() + whole(|_, bytes| bytes),
            base: known().fold(0, |sum: usize, (_, shape)| {
                sum.saturating_add(n_elements(shape))
            }),
            beside_base: known().map(|(it, _)| it.parameters).sum(),
        }
    }

    /// Numbers of the tensors for each of the weights that they adapt.
    fn fraction(&self) -> Option<f64> {
        (self.base > 0).then(|| self.beside_base as f64 / self.base as f64)
    }
}

fn method_of(module: &ModuleReport) -> &'static str {
    match module.method {
        Method::Dora => "dora",
        Method::Lora => "lora",
        Method::MagnitudeOnly => "magnitude",
    }
}

fn inspected_as_text(adapter: &AdapterFiles, modules: &[ModuleReport], size: &Size) -> String {
    let heading = [
        "module", "method", "rank", "alpha", "scale", "weight", "type", "numbers",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    rows.extend(modules.iter().map(|it| {
        [
            it.name.clone(),
            method_of(it).to_owned(),
            it.rank.to_string(),
            it.alpha.to_string(),
            format!("{:.4}", it.scaling),
            it.weight
                .as_ref()
                .map_or("unknown".to_owned(), |shape| format!("{shape:?}")),
            it.storage.join(", "),
            it.parameters.to_string(),
        ]
    }));
    let mut text = tables::columns(&rows);
    for (name, shape, _) in adapter.whole() {
        text += &format!("{}: trained whole, {shape:?}\n", on_one_line(name));
    }
    let config = adapter.config();
    text += &format!(
        "{} modules, {} numbers in {}",
        modules.len(),
        size.parameters,
        tables::bytes(size.bytes)
    );
    if let Some(fraction) = size.fraction() {
        text += &format!(
            ", {:.3} % of the {} of the weights that it adapts",
            100.0 * fraction,
            size.base
        );
    }
    text + &format!(
        "\nscale {}, dropout {}\n",
        if config.use_rslora {
            "alpha / sqrt(rank)"
        } else {
            "alpha / rank"
        },
        config.lora_dropout
    )
}

fn inspected_as_json(
    path: &str,
    adapter: &AdapterFiles,
    modules: &[ModuleReport],
    size: &Size,
) -> Result<Value, Box<dyn Error>> {
    let config = adapter.config();
    let module = |it: &ModuleReport| {
        json!({
            "name": it.name,
            "method": method_of(it),
            "rank": it.rank,
            "alpha": it.alpha,
            "scale": it.scaling,
            "weight": it.weight,
            "storage": it.storage,
            "parameters": it.parameters,
            "bytes": it.bytes,
        })
    };
    let whole = adapter
        .whole()
        .map(|(name, shape, bytes)| json!({ "name": name, "shape": shape, "bytes": bytes }));
    Ok(json!({
        "schema": "sparkpilot-adapter/1",
        "adapter": path,
        "target_modules": serde_json::to_value(&config.target_modules)?,
        "rslora": config.use_rslora,
        "dropout": config.lora_dropout,
        "modules": modules.iter().map(module).collect::<Vec<_>>(),
        "trained_whole": whole.collect::<Vec<_>>(),
        "parameters": size.parameters,
        "bytes": size.bytes,
        "base_parameters": size.base,
        "fraction_of_base": size.fraction(),
    }))
}

fn convert(arguments: &Convert) -> Result<ExitCode, Box<dyn Error>> {
    if arguments.storage.is_none() && arguments.rslora.is_none() {
        return Err(Usage(
            "give --storage or --rslora: the adapter stays as it is without".to_owned(),
        )
        .into());
    }
    let own = |folder: &PathBuf| [CONFIG_FILE, TENSOR_FILE].map(|name| folder.join(name));
    let (read, written) = (own(&arguments.adapter), own(&arguments.output));
    output::keep_apart(
        read.iter().map(PathBuf::as_path),
        written.iter().map(PathBuf::as_path),
    )?;
    if arguments.output.join(OF_CHECKPOINT).exists() {
        return Err(Usage(format!(
            "--output: `{}` is a checkpoint that a run goes on from; take another folder",
            arguments.output.display()
        ))
        .into());
    }
    place::folder(&arguments.output)?;
    let adapter = AdapterFiles::open(&arguments.adapter).map_err(about(&arguments.adapter))?;
    let change = Change {
        storage: arguments.storage.map(|storage| match storage {
            Storage::F32 => StorageType::F32,
            Storage::F16 => StorageType::F16,
            Storage::Bf16 => StorageType::Bf16,
        }),
        rslora: arguments.rslora,
    };
    let roundings = postponed(|| adapter.save_as(&arguments.output, change));
    let roundings = roundings.map_err(about(&arguments.adapter))?;
    let changed: Vec<Rounding> = roundings
        .into_iter()
        .filter(|it| it.max_abs > 0.0)
        .collect();
    let mut text = match changed.is_empty() {
        true => "every number is what it was\n".to_owned(),
        false => table(&changed),
    };
    text += &format!("wrote {}\n", arguments.output.display());
    print!("{}", printable(&text));
    Ok(ExitCode::SUCCESS)
}

fn compare(arguments: &Diff) -> Result<ExitCode, Box<dyn Error>> {
    let open = |path: &PathBuf| AdapterFiles::open(path).map_err(about(path));
    let (first, second) = (open(&arguments.first)?, open(&arguments.second)?);
    let found = first.difference(&second)?;
    let is_within = found.is_within(arguments.within);
    if arguments.json {
        println!("{:#}", difference_as_json(arguments, &found, is_within));
    } else {
        print!("{}", printable(&difference_as_text(&found)));
        println!(
            "{} within {:e}",
            if is_within { "alike" } else { "not alike" },
            arguments.within
        );
    }
    Ok(ExitCode::from(u8::from(!is_within)))
}

fn table(roundings: &[Rounding]) -> String {
    let mut rows = vec![["tensor", "largest difference", "relative"].map(str::to_owned)];
    rows.extend(roundings.iter().map(|it| {
        [
            it.tensor.clone(),
            format!("{:.3e}", it.max_abs),
            format!("{:.3e}", it.relative),
        ]
    }));
    tables::columns(&rows)
}

fn difference_as_text(found: &AdapterDifference) -> String {
    let mut text = String::new();
    for setting in &found.settings {
        text += &format!("the setting {setting} differs\n");
    }
    for (names, what) in [
        (&found.only_in_first, "in the first alone"),
        (&found.only_in_second, "in the second alone"),
        (&found.other_shapes, "of another shape"),
    ] {
        for name in names {
            text += &format!("{}: {what}\n", on_one_line(name));
        }
    }
    text + &table(&found.tensors)
}

/// A relative difference that is not finite, of a tensor of zeros, is null.
fn difference_as_json(arguments: &Diff, found: &AdapterDifference, is_within: bool) -> Value {
    let tensor = |it: &Rounding| json!({ "name": it.tensor, "max_abs": it.max_abs, "relative": it.relative });
    json!({
        "schema": "sparkpilot-adapter-diff/2",
        "first": arguments.first.display().to_string(),
        "second": arguments.second.display().to_string(),
        "within": arguments.within,
        "alike": is_within,
        "settings": found.settings,
        "only_in_first": found.only_in_first,
        "only_in_second": found.only_in_second,
        "other_shapes": found.other_shapes,
        "tensors": found.tensors.iter().map(tensor).collect::<Vec<_>>(),
    })
}
