//! `train` and `resume`.

use std::error::Error;
use std::fs::File;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use spark_program::{output, place, postponed, progress, sleep};
use sparkpilot::dora::optim::LoraPlus;
use sparkpilot::onnx::RunOptions;
use sparkpilot::train::{Event, Go, Trainer, TrainerSettings, TrainingStep};

use crate::Run;
use crate::data::{Material, described};
use crate::judge;

pub(crate) fn train(run: &Run, resumes: bool) -> Result<ExitCode, Box<dyn Error>> {
    output::keep_apart(
        [run.model.as_path(), run.data.as_path()],
        run.json.iter().map(|path| path.as_path()),
    )?;
    if let Some(path) = &run.json {
        place::file(path)?;
    }
    let material = Material::read(run)?;
    let network = material.adapted(run)?;
    println!("{}", described(network.adapter()));
    if run.dry_run {
        return dry_run(run, &material);
    }
    output::folder(&run.output)?;
    if run.create_adapter {
        let folder = run.output.join("adapter");
        postponed(|| network.adapter().save(&folder))?;
        println!("written: {}", folder.display());
        return Ok(ExitCode::SUCCESS);
    }
    let held_back = (!material.held_back.is_empty()).then_some(&material.held_back);
    let mut trainer = Trainer::new(
        network,
        material.heads.clone(),
        &material.training,
        held_back.map(|samples| samples as _),
        settings(run),
        RunOptions::new(),
    )?;
    let path = run.output.join("metrics.jsonl");
    let mut told = Told {
        metrics: File::options().create(true).append(true).open(&path)?,
        bar: progress(None).with_message("training"),
        signal: None,
    };
    let began = Instant::now();
    let outcome = postponed(|| -> Result<_, Box<dyn Error>> {
        if resumes {
            let step = trainer.resume(&mut |event: &Event| told.event(event))?;
            println!("resumed after step {step}");
        }
        let outcome = trainer.run(&mut |event: &Event| told.event(event))?;
        trainer.take_best()?;
        trainer
            .network()
            .adapter()
            .save(&run.output.join("adapter"))?;
        Ok(outcome)
    });
    told.bar.finish_and_clear();
    let outcome = outcome?;
    println!(
        "{} steps in {:.1} s, ended: {:?}",
        outcome.steps,
        began.elapsed().as_secs_f64(),
        outcome.ended
    );
    if let Some((loss, step)) = outcome.best {
        println!("best epoch: loss {loss:.3e}, after step {step}");
    }
    if let Some(code) = told.signal {
        return Ok(ExitCode::from(code));
    }
    judge::judge(run, &material, trainer.network())
}

fn settings(run: &Run) -> TrainerSettings {
    TrainerSettings {
        batch: run.batch_size,
        epochs: run.epochs as u64,
        max_steps: run.max_steps.map(|steps| steps as u64),
        rates: LoraPlus {
            rate: run.lr,
            ..LoraPlus::default()
        },
        seed: run.seed,
        folder: Some(run.output.join("checkpoints")),
        save_every: Some(run.save_every as u64),
        ..TrainerSettings::default()
    }
}

/// Where events go.
struct Told {
    metrics: File,
    bar: spark_program::ProgressBar,
    /// Exit code of the signal that ended the run.
    signal: Option<u8>,
}

impl Told {
    fn event(&mut self, event: &Event) -> Go {
        // A record that cannot be written is no reason to lose what is learnt.
        if let Ok(line) = serde_json::to_string(event) {
            let _ = writeln!(self.metrics, "{line}");
        }
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
                self.bar
                    .set_message(format!("loss {loss:.3e}, {samples_per_second:.0} frames/s"));
            }
            Event::Damaged { folder, reason } => {
                spark_program::tell(format!("{}: {reason}; passed over", folder.display()));
            }
            Event::Skipped { step, loss, .. } => {
                spark_program::tell(format!("step {step} skipped: loss {loss}"));
            }
            _ => {}
        }
        self.signal = self.signal.or_else(|| sleep(Duration::ZERO));
        match self.signal {
            None => Go::On,
            Some(_) => Go::Stop,
        }
    }
}

/// What a run would be, without running it.
fn dry_run(run: &Run, material: &Material) -> Result<ExitCode, Box<dyn Error>> {
    let network = material.adapted(run)?;
    let n = material.training.len();
    let steps = n / run.batch_size * run.epochs;
    let steps = steps.min(run.max_steps.unwrap_or(usize::MAX));
    println!(
        "{n} frames to train on, {} held back; {steps} steps of {} frames",
        material.held_back.len(),
        run.batch_size
    );
    let sample = &material.training[0];
    let shapes = sample.inputs.iter().map(|(name, tensor)| {
        let mut shape = tensor.shape().to_vec();
        shape[0] = run.batch_size;
        (name.as_str(), shape)
    });
    let shapes: Vec<_> = shapes.collect();
    let mut step = TrainingStep::new(&network, &material.heads, &shapes, &RunOptions::new())?;
    let inputs = zeros(&shapes)?;
    let targets = step.targets().map(|(name, shape)| (name, shape.to_vec()));
    let shapes: Vec<_> = targets.collect();
    let targets = zeros(&shapes)?;
    let shapes: Vec<String> = shapes.iter().map(|(name, _)| (*name).to_owned()).collect();
    let inputs: Vec<_> = inputs.iter().map(|(name, t)| (name.as_str(), t)).collect();
    let targets: Vec<_> = shapes.iter().map(String::as_str).zip(&targets).collect();
    let targets: Vec<_> = targets.iter().map(|(name, (_, t))| (*name, t)).collect();
    step.run(&network, &inputs, &targets)?;
    let began = Instant::now();
    step.run(&network, &inputs, &targets)?;
    let took = began.elapsed().as_secs_f64();
    println!(
        "a step takes {:.0} ms and {} MB: {:.1} minutes in all; nothing is written",
        1e3 * took,
        step.session().arena_bytes() / 1_000_000,
        took * steps as f64 / 60.0
    );
    Ok(ExitCode::SUCCESS)
}

fn zeros(
    shapes: &[(&str, Vec<usize>)],
) -> Result<Vec<(String, sparkpilot::onnx::Tensor)>, Box<dyn Error>> {
    use sparkpilot::onnx::{DType, Tensor};
    let mut zeros = Vec::new();
    for (name, shape) in shapes {
        zeros.push((
            (*name).to_owned(),
            Tensor::zeros(DType::F32, shape.clone())?,
        ));
    }
    Ok(zeros)
}
