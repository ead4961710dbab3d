//! Adapters exchanged with a live PEFT, over module names that nest and overlap.
//!
//! ```text
//! python benches/rivals/peft/exchange.py --write FOLDER      PEFT's adapters in FOLDER/peft/<case>
//! this test, FOLDER in SPARK_DORA_EXCHANGE                   reads those, writes FOLDER/ours/<case>
//! python benches/rivals/peft/exchange.py --check FOLDER      reads ours in PEFT
//! ```
//!
//! A case is an adapter's folder with `network.json` (kind and name of each layer, in order) and
//! `network.safetensors`: base weights as `base.<parameter>`, an input `x`, and the adapted outputs `y`, 16
//! columns for each layer. Errors are relative to the largest output of the layer.

#![allow(
    clippy::print_stdout,
    reason = "the errors of each case are what a person runs it for"
)]

use std::path::Path;

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Conv2d, Conv2dConfig, Embedding, Linear, Module};
use spark_dora::{Adapter, DoraConfig, DoraConfigBuilder, DoraError, Init};

use crate::adapter::{Tensors, open};
use crate::data::{relative, values};

const BOUND: f64 = 1e-6;

/// Layers of a case, `(kind, name)`.
fn layers(case: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(case.join("network.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The outputs of all layers under `adapter` for `base["x"]`, side by side.
fn run(
    adapter: &mut Adapter,
    layers: &[(String, String)],
    base: &Tensors,
) -> Result<Tensor, DoraError> {
    let x = &base["x"];
    let mut outputs = Vec::new();
    for (kind, name) in layers {
        let weight = base[&format!("base.{name}.weight")].clone();
        let bias = base.get(&format!("base.{name}.bias")).cloned();
        outputs.push(match kind.as_str() {
            "embedding" => {
                let ids = (0..x.dim(0)? as u32)
                    .map(|row| row % 20)
                    .collect::<Vec<_>>();
                let ids = Tensor::new(ids, &Device::Cpu)?;
                let layer = adapter.embedding(name, &Embedding::new(weight, 16))?;
                layer.forward(&ids)?
            }
            "conv" => {
                let padded = Conv2dConfig {
                    padding: 1,
                    ..Conv2dConfig::default()
                };
                let layer = adapter.conv2d(name, &Conv2d::new(weight, bias, padded))?;
                layer.forward(&x.reshape(((), 4, 2, 2))?)?.flatten_from(1)?
            }
            _ => adapter
                .linear(name, &Linear::new(weight, bias))?
                .forward(x)?,
        });
    }
    adapter.finish()?;
    Ok(Tensor::cat(&outputs, 1)?)
}

/// The largest relative error of a layer's outputs.
fn error(got: &Tensor, want: &Tensor) -> f64 {
    let layer = |t: &Tensor, at: usize| values(&t.narrow(1, at, 16).unwrap());
    assert_eq!(got.dims(), want.dims());
    let columns = (0..got.dim(1).unwrap()).step_by(16);
    let errors = columns.map(|at| relative(&layer(got, at), &layer(want, at)));
    // NaN is larger than any bound.
    errors.fold(0.0, |worst, e| if e <= worst { worst } else { e })
}

/// Adapters of this crate, each over the network of the case `names`.
fn ours() -> Vec<(&'static str, DoraConfigBuilder)> {
    let random = |rank| DoraConfig::builder(rank).init(Init::Random).seed(3);
    vec![
        ("every_layer", random(4).rslora()),
        (
            "suffixes",
            random(4)
                .alpha(6.0)
                .targets(["proj", "fc"])
                .rank("proj", 2)
                .rank("layers.1.proj", 3),
        ),
        (
            "overlapping",
            random(3)
                .rank("^proj", 2)
                .rank("layers.1.proj", 4)
                .alpha_of("^layers.11.proj", 9.0)
                .alpha_of("out.proj", 2.0)
                .alpha_of("proj", 5.0),
        ),
        (
            "expressions",
            random(4)
                .rslora()
                .rank(r"layers\.\d+\.(out_)?proj", 2)
                .alpha_of("my.*", 12.0)
                .alpha_of(r"(default|out)\.\w+", 3.0),
        ),
        // Plain modules whose names end in those of adapted ones: a list of names could not tell them.
        (
            "top_level_only",
            random(2)
                .targets(["proj", "fc"])
                .exclude(["out.proj", "default.fc"]),
        ),
        (
            "whole",
            random(2).targets(["fc", "layers.1.proj"]).modules_to_save([
                "out.proj",
                "ult_layer",
                "layers.11",
            ]),
        ),
        ("pissa", random(3).init(Init::Pissa).rank("fc", 2)),
        ("olora_rs", random(3).init(Init::Olora).rslora()),
        ("pissa_lora", random(3).init(Init::PissaNiter(4)).lora()),
        (
            "lora",
            random(4)
                .lora()
                .rank("fc", 1)
                .alpha_of("layers.1.out_proj", 1.5),
        ),
    ]
}

#[test]
#[ignore = "reads what a live PEFT wrote; see the module"]
fn peft_and_this_crate_read_each_others_adapters() {
    let folder = std::env::var_os("SPARK_DORA_EXCHANGE").expect("the folder of exchange.py");
    let folder = Path::new(&folder);
    let load = |case: &Path| {
        candle_core::safetensors::load(case.join("network.safetensors"), &Device::Cpu).unwrap()
    };
    let mut cases: Vec<_> = std::fs::read_dir(folder.join("peft"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    cases.sort();
    let store = |name: &str, case: &Path, adapter: &Adapter, tensors: &Tensors| {
        let to = folder.join("ours").join(name);
        adapter.save(&to).unwrap();
        std::fs::copy(case.join("network.json"), to.join("network.json")).unwrap();
        candle_core::safetensors::save(tensors, to.join("network.safetensors")).unwrap();
    };
    let mut worst = 0f64;
    for case in &cases {
        let name = case.file_name().unwrap().to_str().unwrap();
        let mut tensors = load(case);
        let mut adapter = open(case).unwrap();
        let y = run(&mut adapter, &layers(case), &tensors).unwrap();
        let error = error(&y, &tensors["y"]);
        println!("{name}: PEFT's adapter here, relative error {error:.1e}");
        assert!(error <= BOUND, "{name}: {error:e}");
        worst = worst.max(error);
        // Written again, it must be the same adapter to PEFT.
        tensors.insert("y".to_owned(), tensors["y"].clone());
        store(&format!("again_{name}"), case, &adapter, &tensors);
    }
    assert!(cases.len() >= 5, "the cases of exchange.py");
    println!(
        "{} adapters of PEFT, worst relative error {worst:.1e}",
        cases.len()
    );

    let names = folder.join("peft").join("names");
    for (name, config) in ours() {
        let mut tensors = load(&names);
        let config = config.build().unwrap();
        let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
        run(&mut adapter, &layers(&names), &tensors).unwrap();
        for (index, magnitude) in adapter.variables().magnitude.iter().enumerate() {
            let factor: Vec<f32> = (0..magnitude.elem_count())
                .map(|i| 1.0 + 0.3 * ((i * 7 + index) as f32).sin())
                .collect();
            let factor = Tensor::from_vec(factor, magnitude.shape(), &Device::Cpu).unwrap();
            let changed = (magnitude.as_detached_tensor() * factor).unwrap();
            Var::set(magnitude, &changed).unwrap();
        }
        for var in adapter.variables().b {
            let noise = var.as_tensor().detach().randn_like(0.0, 0.1).unwrap();
            var.set(&(var.as_tensor().detach() + noise).unwrap())
                .unwrap();
        }
        for var in adapter.variables().whole {
            let other = var.as_tensor().detach().randn_like(0.0, 0.3).unwrap();
            var.set(&other).unwrap();
        }
        let to = folder.join("ours").join(name);
        adapter.save(&to).unwrap();
        let mut again = open(&to).unwrap();
        let y = run(&mut again, &layers(&names), &tensors).unwrap();
        tensors.insert("y".to_owned(), y);
        store(name, &names, &again, &tensors);
    }
}
