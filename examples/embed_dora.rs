//! DoRA in somebody else's training loop: a network of plain candle layers is trained, frozen, adapted
//! to a changed task, and saved as PEFT reads it; one layer is merged and compared.
//!
//! Run: `cargo run --release --features dora --example embed_dora -- target/adapter`

#![allow(clippy::print_stdout, reason = "an example says what it does")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, conv2d, linear};
use candle_nn::{Conv2d, Conv2dConfig, Linear, Module, VarBuilder, VarMap};
use spark_program::place;
use sparkpilot::dora::optim::{self, LoraPlus, Schedule, clip_by_norm};
use sparkpilot::dora::{Adapter, DoraConfig, equivalence};

/// Any network: convolution, then two linear layers, whatever kind of layers those are.
struct Net<C, L>(C, L, L);

impl<C: Module, L: Module> Module for Net<C, L> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.0.forward(x)?.relu()?.flatten_from(1)?;
        self.2.forward(&self.1.forward(&x)?.relu()?)
    }
}

/// Pictures with a bright spot, and where it is, mirrored if `mirrored`.
fn batch(mirrored: bool) -> Result<(Tensor, Tensor)> {
    let (cpu, n) = (Device::Cpu, 64);
    let place = Tensor::rand(-0.8f32, 0.8, (n, 2), &cpu)?;
    let axis = Tensor::arange(0f32, 12.0, &cpu)?.affine(1.0 / 5.5, -1.0)?;
    let near = |column: usize| -> Result<Tensor> {
        let distance = axis
            .reshape((1, 12))?
            .broadcast_sub(&place.narrow(1, column, 1)?)?;
        (distance.sqr()? * -8.0)?.exp()
    };
    let picture = near(0)?
        .unsqueeze(2)?
        .broadcast_mul(&near(1)?.unsqueeze(1)?)?;
    let target = if mirrored { place.neg()? } else { place };
    Ok((picture.unsqueeze(1)?, target))
}

fn loss(net: &impl Module, mirrored: bool) -> Result<Tensor> {
    let (picture, target) = batch(mirrored)?;
    (net.forward(&picture)? - target)?.sqr()?.mean_all()
}

/// Train a small network, adapt it by DoRA to a changed task, merge and save the adapter
#[derive(clap::Parser)]
#[command(
    name = "embed_dora",
    after_help = "Example:\n  \
        embed_dora\n  \
        embed_dora my_adapter"
)]
struct Arguments {
    /// Folder for the adapter; one that is there is replaced
    #[arg(default_value = "target/adapter")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| {
        place::folder(&arguments.folder)?;
        train_and_adapt(&arguments.folder)
    })
}

fn train_and_adapt(folder: &Path) -> std::result::Result<(), Box<dyn std::error::Error>> {
    // Their network and their training.
    let weights = VarMap::new();
    let vb = VarBuilder::from_varmap(&weights, DType::F32, &Device::Cpu);
    let padded = Conv2dConfig {
        padding: 1,
        stride: 2,
        ..Default::default()
    };
    let conv: Conv2d = conv2d(1, 8, 3, padded, vb.pp("conv"))?;
    let (fc1, fc2): (Linear, Linear) =
        (linear(288, 64, vb.pp("fc1"))?, linear(64, 2, vb.pp("fc2"))?);
    let net = Net(conv.clone(), fc1.clone(), fc2.clone());
    let mut adamw = AdamW::new(
        weights.all_vars(),
        ParamsAdamW {
            lr: 3e-3,
            ..Default::default()
        },
    )?;
    for _ in 0..300 {
        adamw.backward_step(&loss(&net, false)?)?;
    }
    println!(
        "trained: loss {:.4}",
        loss(&net, false)?.to_scalar::<f32>()?
    );
    println!(
        "on the mirrored task: loss {:.4}",
        loss(&net, true)?.to_scalar::<f32>()?
    );

    // The adapter: each layer is offered by name and comes back adapted.
    let config = DoraConfig::builder(4).rank("fc2", 2).build()?;
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu)?;
    let adapted = Net(
        adapter.conv2d("conv", &conv)?,
        adapter.linear("fc1", &fc1)?,
        adapter.linear("fc2", &fc2)?,
    );
    adapter.finish()?;
    println!("{}", adapter.size());

    let variables = adapter.variables();
    let rates = LoraPlus {
        rate: 5e-3,
        ratio: 4.0,
        ..Default::default()
    };
    let mut optimiser = optim::AdamW::new(variables.optimiser_groups(rates))?;
    let mut accumulator = optim::Accumulator::new(variables.all().cloned());
    let schedule = Schedule::cosine(400).warm_up(20);
    for step in 0..400 {
        for _ in 0..2 {
            accumulator.add(&loss(&adapted, true)?.backward()?)?;
        }
        let mut gradients = accumulator.mean()?;
        clip_by_norm(&mut gradients, 1.0)?;
        optimiser.step(&gradients, schedule.factor(step))?;
    }
    let last = loss(&adapted, true)?.to_scalar::<f32>()?;
    println!("adapted: loss {last:.4} (below 0.01 is expected)");

    let merged = adapted.1.adapted().ok_or("fc1 is adapted")?.merge()?;
    let input = Tensor::randn(0f32, 1.0, (16, 288), &Device::Cpu)?;
    let apart = equivalence(&merged.layer, &adapted.1, &input)?;
    println!(
        "fc1 merged into a plain layer: {:.1e} relative apart",
        apart.relative
    );
    spark_program::postponed(|| adapter.save(folder))?;
    println!("saved as PEFT reads it: {}", folder.display());
    if last < 0.01 {
        Ok(())
    } else {
        Err("the adapted network did not learn the task".into())
    }
}
