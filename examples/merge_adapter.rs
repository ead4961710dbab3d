//! Merges an adapter in PEFT's files into the weights of its network.
//!
//! Run: `cargo run --release --features dora --example merge_adapter -- BASE.safetensors ADAPTER_FOLDER
//! MERGED.safetensors`. Weights of two axes are taken as linear layers, of four as convolutions (merging does
//! not depend on stride or padding); tensors without an adapter are copied. `-- --exchange FOLDER` instead
//! writes a made-up network with an adapter for `benches/rivals/peft/exchange.py`, which loads it in PEFT.

#![allow(clippy::print_stdout, reason = "an example says what it does")]

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

use candle_core::{DType, Device, Tensor, safetensors};
use candle_nn::{Conv2d, Conv2dConfig, Linear, Module};
use spark::dora::{Adapter, DoraConfig, Init, Offered};

type Tensors = HashMap<String, Tensor>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--exchange", folder] => exchange(Path::new(folder)),
        [base, adapter, merged] => merge(Path::new(base), Path::new(adapter), Path::new(merged)),
        _ => Err("give BASE.safetensors ADAPTER_FOLDER MERGED.safetensors".into()),
    }
}

fn merge(base: &Path, folder: &Path, merged: &Path) -> Result<(), Box<dyn Error>> {
    let mut tensors = safetensors::load(base, &Device::Cpu)?;
    let mut adapter = Adapter::open(folder, DType::F32, &Device::Cpu)?;
    let mut names: Vec<String> = tensors.keys().cloned().collect();
    names.sort();
    for name in names {
        let Some(module) = name.strip_suffix(".weight") else {
            continue;
        };
        let weight = tensors[&name].clone();
        let result = match weight.rank() {
            2 => match adapter.linear(module, &Linear::new(weight, None))? {
                Offered::Adapted(layer) => layer
                    .merge()
                    .map(|m| (m.layer.weight().clone(), m.report))?,
                Offered::Plain(_) => continue,
            },
            4 => {
                let conv = Conv2d::new(weight, None, Conv2dConfig::default());
                match adapter.conv2d(module, &conv)? {
                    Offered::Adapted(layer) => layer
                        .merge()
                        .map(|m| (m.layer.weight().clone(), m.report))?,
                    Offered::Plain(_) => continue,
                }
            }
            _ => continue,
        };
        let (weight, report) = result;
        println!(
            "{module}: changed by {:.2} %, rounding at most {:.1e}",
            100.0 * report.relative_change,
            report.max_rounding
        );
        tensors.insert(name, weight);
    }
    adapter.finish()?;
    println!("{}", adapter.size());
    let beside = merged.with_extension("safetensors.new");
    safetensors::save(&tensors, &beside)?;
    Ok(std::fs::rename(beside, merged)?)
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
    adapter.save(folder)?;
    tensors.extend([("x".to_owned(), x), ("y".to_owned(), y)]);
    safetensors::save(&tensors, folder.join("exchange.safetensors"))?;
    println!("wrote {}", folder.display());
    Ok(())
}
