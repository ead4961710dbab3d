//! Merges an adapter in PEFT's files into the weights of its network.
//!
//! Run: `cargo run --release --features dora --example merge_adapter -- BASE.safetensors ADAPTER_FOLDER
//! MERGED.safetensors`. Weights of two axes are taken as linear layers, or as embeddings where the adapter's
//! tensors are an embedding's; of three and four axes as convolutions (merging does not depend on stride or
//! padding). Modules that were trained whole (`modules_to_save`) replace those of the base; tensors without an
//! adapter are copied, and so is the metadata. `-- --exchange FOLDER` instead
//! writes a made-up network with an adapter for `benches/rivals/peft/exchange.py`, which loads it in PEFT.

#![allow(clippy::print_stdout, reason = "an example says what it does")]

use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use candle_core::{DType, Device, Tensor};
use candle_nn::{Conv2d, Conv2dConfig, Linear, Module};
use clap::Parser;
use safetensors::SafeTensors;
use spark_program::{about, input, output, place, postponed};
use sparkpilot::dora::{Adapter, DoraConfig, Init};

type Tensors = HashMap<String, Tensor>;

/// Merge an adapter in PEFT's files into the weights of its network
#[derive(Parser)]
#[command(
    name = "merge_adapter",
    after_help = "Examples:\n  \
        merge_adapter base.safetensors adapter merged.safetensors\n  \
        merge_adapter --exchange folder"
)]
struct Arguments {
    /// Weights of the network
    #[arg(value_name = "BASE.safetensors", required_unless_present = "exchange")]
    base: Option<PathBuf>,
    /// Folder with adapter_config.json and adapter_model.safetensors
    #[arg(value_name = "ADAPTER_FOLDER", required_unless_present = "exchange")]
    adapter: Option<PathBuf>,
    /// Where the merged weights go
    #[arg(
        value_name = "MERGED.safetensors",
        required_unless_present = "exchange"
    )]
    merged: Option<PathBuf>,
    /// Write a made-up network with an adapter for PEFT to load, instead of merging
    #[arg(long, value_name = "FOLDER", conflicts_with = "base")]
    exchange: Option<PathBuf>,
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| {
        match (
            &arguments.base,
            &arguments.adapter,
            &arguments.merged,
            &arguments.exchange,
        ) {
            (Some(base), Some(adapter), Some(merged), _) => merge(base, adapter, merged),
            (.., Some(folder)) => exchange(folder),
            _ => unreachable!("clap asks for the three or for the one"),
        }
    })
}

fn merge(base: &Path, folder: &Path, merged: &Path) -> Result<(), Box<dyn Error>> {
    let of_adapter = ["adapter_model.safetensors", "adapter_config.json"];
    let of_adapter = of_adapter.map(|name| folder.join(name));
    let inputs = of_adapter.iter().map(PathBuf::as_path).chain([base]);
    output::keep_apart(inputs, [merged])?;
    place::file(merged)?;
    let bytes = input::read(base)?;
    SafeTensors::deserialize(&bytes).map_err(about(base))?;
    let mut adapter = Adapter::open(folder, DType::F32, &Device::Cpu)?;
    let network = adapter.merge_safetensors(&bytes)?;
    output::write(merged, network.bytes)?;
    // The file before the words, which nobody may read.
    for (layer, report) in &network.report.layers {
        println!(
            "{layer}: changed by {:.2} %, rounding at most {:.1e}",
            100.0 * report.relative_change,
            report.max_rounding
        );
    }
    for name in &network.report.replaced {
        println!("{name}: replaced, having been trained whole");
    }
    println!("{}", adapter.size());
    Ok(())
}

/// A network of random weights under a random adapter, with an input and its output.
fn exchange(folder: &Path) -> Result<(), Box<dyn Error>> {
    let random = |shape: &[usize]| Tensor::randn(0f32, 0.2, shape, &Device::Cpu);
    let mut tensors = Tensors::new();
    for (name, shape) in [
        ("conv.weight", [8, 3, 3, 3].as_slice()),
        ("conv.bias", &[8]),
        ("head.weight", &[12, 160]),
        ("head.bias", &[12]),
        ("out.weight", &[6, 12]),
    ] {
        tensors.insert(format!("base.{name}"), random(shape)?);
    }
    let get = |name: &str| tensors[&format!("base.{name}")].clone();
    let config = DoraConfig::builder(4)
        .rslora()
        .rank("out", 2)
        .init(Init::Random)
        .build()?;
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu)?;
    let strided = Conv2dConfig {
        stride: 2,
        padding: 1,
        ..Default::default()
    };
    let conv = Conv2d::new(get("conv.weight"), Some(get("conv.bias")), strided);
    let conv = adapter.conv2d("conv", &conv)?;
    let head = adapter.linear(
        "head",
        &Linear::new(get("head.weight"), Some(get("head.bias"))),
    )?;
    let out = adapter.linear("out", &Linear::new(get("out.weight"), None))?;
    for magnitude in adapter.variables().magnitude {
        let factor = magnitude.rand_like(0.8, 1.2)?;
        magnitude.set(&(magnitude.as_detached_tensor() * factor)?)?;
    }
    let x = random(&[2, 3, 8, 10])?;
    let hidden = conv.forward(&x)?.relu()?.flatten_from(1)?;
    let y = out.forward(&head.forward(&hidden)?.relu()?)?.detach();
    postponed(|| adapter.save(folder))?;
    tensors.extend([("x".to_owned(), x), ("y".to_owned(), y)]);
    let path = folder.join("exchange.safetensors");
    output::write(&path, safetensors::serialize(&tensors, None)?)?;
    println!("wrote {}", folder.display());
    Ok(())
}
