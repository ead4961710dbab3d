//! `train` and `resume`.

use std::error::Error;
use std::fs::File;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use spark_program::{about, postponed, progress, sleep, tell};
use sparkpilot::dora::optim::LoraPlus;
use sparkpilot::onnx::{DType, RunOptions, Tensor};
use sparkpilot::train::{
    AdaptedNetwork, Ended, Event, Go, Outcome, Samples, TrainError, Trainer, TrainerSettings,
    TrainingStep,
};

use super::arguments::{Begun, Train};
use super::data::{Material, described, described_heads, plain};
use super::judge;
use super::run::{Run, usage};

pub(crate) fn begin(train: Train) -> Result<ExitCode, Box<dyn Error>> {
    let mut run = Run::new(train.options, train.output, train.json)?;
    if !train.dry_run && run.is_begun() {
        return usage(&format!(
            "there is a run in `{}`: `resume` goes on with it, or take another folder",
            run.folder.display()
        ));
    }
    let material = Material::read(&run)?;
    let network = material.adapted(&run)?;
    println!("{}", described(network.adapter()));
    println!("{}", described_heads(&material.heads));
    if train.dry_run {
        return dry_run(&run, &material, &network);
    }
    run.begin(material.frames()?, material.left_out.clone())?;
    if train.create_adapter {
        postponed(|| network.adapter().save(&run.adapter()))?;
        println!("written: {}", run.adapter().display());
        return Ok(ExitCode::SUCCESS);
    }
    train_on(&run, &material, network, false)
}

pub(crate) fn resume(begun: &Begun) -> Result<ExitCode, Box<dyn Error>> {
    let run = Run::begun(&begun.output, begun.json.clone())?;
    let material = Material::read(&run)?;
    let network = material.adapted(&run)?;
    println!("{}", described(network.adapter()));
    train_on(&run, &material, network, true)
}

fn train_on(
    run: &Run,
    material: &Material,
    network: AdaptedNetwork,
    resumes: bool,
) -> Result<ExitCode, Box<dyn Error>> {
    let (training, held_back) = (material.training(), material.held_back());
    let mut trainer = Trainer::new(
        network,
        material.heads.clone(),
        &training,
        Some(&held_back),
        settings(run),
        RunOptions::new(),
    )?;
    let path = run.folder.join("metrics.jsonl");
    let metrics = File::options().create(true).append(true).open(&path);
    let mut told = Told {
        metrics: Some(metrics.map_err(about(&path))?),
        bar: progress(None).with_message("training"),
        epochs: run.options.epochs,
        signal: None,
    };
    let began = Instant::now();
    let result = postponed(|| -> Result<_, Box<dyn Error>> {
        let resumed = match resumes {
            true => trainer.resume(&mut |event: &Event| told.event(event)),
            false => Ok(0),
        };
        let before = match resumed {
            // Stopped before it had written any: everything else stands in `run.json`.
            Err(TrainError::NoCheckpoint { .. }) => 0,
            resumed => resumed?,
        };
        if resumes {
            println!("goes on after step {before}");
        }
        let outcome = trainer.run(&mut |event: &Event| told.event(event))?;
        let best = trainer.take_best()?;
        trainer.network().adapter().save(&run.adapter())?;
        Ok((before, outcome, best))
    });
    told.bar.finish_and_clear();
    let (before, outcome, best) = result?;
    say(run, before, &outcome, best, began.elapsed());
    match told.signal {
        Some(code) => Ok(ExitCode::from(code)),
        None => judge::judge(run, material, trainer.network()),
    }
}

fn say(run: &Run, before: u64, outcome: &Outcome, best: Option<u64>, took: Duration) {
    let (steps, folder) = (outcome.steps, run.folder.display());
    let took = took.as_secs_f64();
    match outcome.ended {
        Ended::Done if steps == before => println!("all {steps} steps had been made"),
        Ended::Done => println!("{} steps in {took:.1} s", steps - before),
        Ended::Patience => println!("nothing has got better any more, after step {steps}"),
        Ended::Stopped => {
            println!("stopped after step {steps}: `finetune resume --output {folder}` goes on");
        }
    }
    match (outcome.best, best) {
        (Some((loss, step)), Some(_)) => {
            println!("the adapter is that of the best epoch: loss {loss:.3e}, after step {step}");
        }
        (Some((loss, step)), None) => println!(
            "the checkpoint of the best epoch (loss {loss:.3e}, step {step}) is not there: the adapter is the last step's"
        ),
        (None, _) => {
            println!("the adapter is the last step's: no epoch has ended with a finite loss");
        }
    }
}

fn settings(run: &Run) -> TrainerSettings {
    let options = &run.options;
    TrainerSettings {
        batch: options.batch_size,
        epochs: options.epochs as u64,
        max_steps: options.max_steps.map(|steps| steps as u64),
        rates: LoraPlus {
            rate: options.lr,
            ..LoraPlus::default()
        },
        seed: options.seed,
        folder: Some(run.folder.join("checkpoints")),
        save_every: Some(options.save_every as u64),
        ..TrainerSettings::default()
    }
}

/// Where events go.
struct Told {
    /// Nothing after it could not be written to.
    metrics: Option<File>,
    bar: spark_program::ProgressBar,
    epochs: usize,
    /// Exit code of the signal that ended the run.
    signal: Option<u8>,
}

impl Told {
    fn event(&mut self, event: &Event) -> Go {
        self.record(event);
        match event {
            Event::Step {
                step,
                total,
                loss,
                samples_per_second,
                ..
            } => {
                self.bar.set_length(*total);
                self.bar.set_position(*step);
                let speed = format!("{samples_per_second:.0} frames/s");
                self.bar.set_message(format!("loss {loss:.3e}, {speed}"));
            }
            Event::Epoch {
                epoch,
                training,
                validation,
                is_best,
            } => {
                let held_back =
                    validation.map_or(String::new(), |v| format!(", held back {v:.3e}"));
                let best = if *is_best { ", the best so far" } else { "" };
                let line = format!(
                    "epoch {} of {}: loss {training:.3e}{held_back}{best}",
                    epoch + 1,
                    self.epochs
                );
                self.bar.suspend(|| println!("{line}"));
            }
            Event::Damaged { folder, reason } => {
                tell(format!("{}: {reason}; passed over", folder.display()));
            }
            Event::Skipped { step, loss, .. } => {
                tell(format!("step {step} is left out: its loss is {loss}"));
            }
            _ => {}
        }
        self.signal = self.signal.or_else(|| sleep(Duration::ZERO));
        match self.signal {
            None => Go::On,
            Some(_) => Go::Stop,
        }
    }

    /// A record that cannot be written is no reason to lose what is learnt.
    fn record(&mut self, event: &Event) {
        let (Some(metrics), Ok(line)) = (&mut self.metrics, serde_json::to_string(event)) else {
            return;
        };
        if let Err(error) = writeln!(metrics, "{line}") {
            tell(format!(
                "metrics.jsonl: {error}; nothing more is written to it"
            ));
            self.metrics = None;
        }
    }
}

/// What a run would be, without running it.
fn dry_run(
    run: &Run,
    material: &Material,
    network: &AdaptedNetwork,
) -> Result<ExitCode, Box<dyn Error>> {
    let (n, options) = (material.training().len(), &run.options);
    let steps = n / options.batch_size * options.epochs;
    let steps = steps.min(options.max_steps.unwrap_or(usize::MAX));
    println!(
        "{n} frames to train on, {} held back; {steps} steps of {} frames",
        material.held_back().len(),
        options.batch_size
    );
    let first = material.training().sample(0).map_err(plain)?;
    let shapes = first.inputs.iter().map(|(name, tensor)| {
        let mut shape = tensor.shape().to_vec();
        shape[0] = options.batch_size;
        (name.as_str(), shape)
    });
    let shapes: Vec<_> = shapes.collect();
    let mut step = TrainingStep::new(network, &material.heads, &shapes, &RunOptions::new())?;
    let targets = step
        .targets()
        .map(|(name, shape)| (name.to_owned(), shape.to_vec()));
    let targets: Vec<(String, Vec<usize>)> = targets.collect();
    let inputs = shapes.iter().map(|(name, shape)| (*name, shape.clone()));
    let inputs = zeros(inputs)?;
    let targets = zeros(
        targets
            .iter()
            .map(|(name, shape)| (name.as_str(), shape.clone())),
    )?;
    let inputs: Vec<_> = inputs.iter().map(|(name, t)| (*name, t)).collect();
    let targets: Vec<_> = targets.iter().map(|(name, t)| (*name, t)).collect();
    step.run(network, &inputs, &targets)?;
    let began = Instant::now();
    step.run(network, &inputs, &targets)?;
    let took = began.elapsed().as_secs_f64();
    println!(
        "a step takes {:.0} ms and {} MB, all of them {:.0} s; nothing is written",
        1e3 * took,
        step.session().arena_bytes() / 1_000_000,
        took * steps as f64
    );
    Ok(ExitCode::SUCCESS)
}

fn zeros<'n>(
    shapes: impl Iterator<Item = (&'n str, Vec<usize>)>,
) -> Result<Vec<(&'n str, Tensor)>, Box<dyn Error>> {
    let mut zeros = Vec::new();
    for (name, shape) in shapes {
        zeros.push((name, Tensor::zeros(DType::F32, shape)?));
    }
    Ok(zeros)
}
