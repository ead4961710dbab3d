//! `train` and `resume`.

use std::error::Error;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use spark_program::{LastWords, Pulse, about, place, postponed, progress, sleep, tell};
use sparkpilot::dora::optim::LoraPlus;
use sparkpilot::onnx::{DType, RunOptions, Tensor};
use sparkpilot::train::{
    AdaptedNetwork, Ended, Event, Go, Observer as _, Outcome, Samples, Sum, TensorBoard,
    TrainError, Trainer, TrainerSettings, TrainingStep,
};

use super::arguments::{Resume, Train};
use super::begun::{begun, check};
use super::calibrated;
use super::data::{Material, described_for_steps, described_heads};
use super::judge;
use super::ranks::{Ranks, Voice};
use super::run::{InitOf, METRICS, Run, Source, plain, usage};
use super::trunk;

pub(crate) fn begin(train: Train, mut ranks: Ranks) -> Result<ExitCode, Box<dyn Error>> {
    let voice = ranks.voice();
    let [json, tensorboard] =
        [train.json, train.tensorboard].map(|at| at.filter(|_| voice.is_first));
    let mut run = Run::new(train.options, train.output, json, tensorboard)?;
    run.ranks = ranks.launched();
    ranks.check(&run)?;
    let writes = voice.is_first && !train.dry_run;
    if writes && run.is_begun() {
        return usage(&format!(
            "there is a run in `{}`: `resume` goes on with it, or take another folder",
            run.folder.display()
        ));
    }
    if writes {
        run.keep_files()?;
        place::folder(&run.folder)?;
    }
    let last = match run.options.source()? {
        Source::Drives => {
            "stopped, nothing was written; videos that were decoded to their end need not be again"
        }
        Source::File | Source::Ready => "stopped, nothing was written",
    };
    let words = voice.is_first.then(|| LastWords::new(last));
    let mut material = Material::read(&run)?;
    if !train.dry_run {
        material.calibrate(&run, true)?;
    }
    let mut network = material.adapted(&run)?;
    check(&network, &run)?;
    material.check_biases(&run, &network)?;
    check_batches(&run, &network)?;
    if !train.dry_run {
        network = begun(network, &run, &material, voice, false)?;
    }
    voice.say(format_args!("{}", described_for_steps(network.adapter())));
    voice.say(format_args!("{}", described_heads(&material.heads)));
    if let Some(line) = passed_over(&run, material.training().len()) {
        voice.say(format_args!("{line}"));
    }
    if train.dry_run {
        return dry_run(&run, &material, network);
    }
    if run.options.cache_trunk {
        trunk::check(material.adapted(&run)?, &material.training())?;
    }
    let frames = material.frames()?;
    ranks.agree(&run, &material, &network)?;
    drop(words);
    if voice.is_first {
        run.begin(frames, network.fingerprint(), material.left_out.clone())?;
    }
    if voice.is_first && material.uncalibrated.is_some() {
        let kept = postponed(|| calibrated::keep(&material.graph, &run.folder));
        kept.inspect_err(|_| run.forget())?;
    }
    if train.create_adapter {
        let saved = postponed(|| network.adapter().save(&run.adapter()));
        saved.inspect_err(|_| run.forget())?;
        println!("written: {}", run.adapter().display());
        return Ok(ExitCode::SUCCESS);
    }
    let mut has_learnt = false;
    let trained = train_on(&run, &material, network, ranks, false, &mut has_learnt);
    if trained.is_err() && voice.is_first && !has_learnt {
        run.forget();
    }
    trained
}

/// Refuses several frames at once for a network that takes one, before anything is written.
fn check_batches(run: &Run, network: &AdaptedNetwork) -> Result<(), Box<dyn Error>> {
    match network.layers_without_batches() {
        [layer, ..] if run.options.frames_at_once() > 1 => usage(&format!(
            "--qat-activations: `{layer}` does not read the frames of a batch one after the other, so that they would share scales; \
             with `--virtual-shards {}` they go through the network one at a time",
            run.options.batch_size
        )),
        _ => Ok(()),
    }
}

/// What steps of whole batches leave over of each epoch.
fn passed_over(run: &Run, n: usize) -> Option<String> {
    let (batch, epochs) = (run.options.batch_size, run.options.epochs);
    let (rest, taken) = (n % batch, n - n % batch);
    let others = match epochs {
        1 => "and this is the only one (--epochs)",
        _ => "others each time",
    };
    let line = format!(
        "an epoch takes {taken} of the {n} frames in steps of {batch} (--batch-size) and passes over {rest}, {others}"
    );
    (rest > 0).then_some(line)
}

pub(crate) fn resume(resume: &Resume, mut ranks: Ranks) -> Result<ExitCode, Box<dyn Error>> {
    let (of_run, voice) = (&resume.begun, ranks.voice());
    let own = [&of_run.json, &resume.tensorboard];
    let [json, board] = own.map(|at| at.clone().filter(|_| voice.is_first));
    let file = match voice.is_first {
        true => Run::file(&of_run.output)?,
        false => Vec::new(),
    };
    let mut run = Run::of_file(&ranks.share(&file)?, &of_run.output, json, board)?;
    run.ranks = ranks.launched();
    ranks.check(&run)?;
    if voice.is_first {
        place::folder(&run.folder)?;
    }
    let folder = run.folder.display();
    let last = format!(
        "stopped: the run in `{folder}` is as it was; `{}` goes on",
        run.command("resume")
    );
    let words = voice.is_first.then(|| LastWords::new(last));
    let mut material = Material::read(&run)?;
    // Another rank's folder may have no network, and its weights come out the same again.
    material.calibrate(&run, !voice.is_first)?;
    let network = material.adapted(&run)?;
    run.hold_against(&material.frames()?, &network.fingerprint())?;
    let network = begun(network, &run, &material, voice, true)?;
    ranks.agree(&run, &material, &network)?;
    voice.say(format_args!("{}", described_for_steps(network.adapter())));
    drop(words);
    if voice.is_first && material.uncalibrated.is_some() {
        postponed(|| calibrated::keep(&material.graph, &run.folder))?;
    }
    train_on(&run, &material, network, ranks, true, &mut false)
}

fn train_on(
    run: &Run,
    material: &Material,
    network: AdaptedNetwork,
    ranks: Ranks,
    resumes: bool,
    has_learnt: &mut bool,
) -> Result<ExitCode, Box<dyn Error>> {
    let voice = ranks.voice();
    let last = format!("stopped: `{}` goes on", run.command("resume"));
    let _words = voice.is_first.then(|| LastWords::new(last));
    let (training, held_back) = (material.training(), material.held_back());
    let (network, behind) = match run.options.cache_trunk {
        true => {
            let (rest, behind) = trunk::cut(network, [&training, &held_back])?;
            (rest, Some(behind))
        }
        false => (network, None),
    };
    let frames: [&dyn Samples; 2] = match &behind {
        Some([training, held_back]) => [training, held_back],
        None => [&training, &held_back],
    };
    let trainer = Trainer::new(
        network,
        material.heads.clone(),
        frames[0],
        Some(frames[1]),
        settings(run, voice),
        ranks.options(),
    );
    let trainer = trainer.map_err(|error| of_teacher(run, error))?;
    let mut trainer = ranks.joined(trainer)?;
    let path = run.folder.join(METRICS);
    let metrics = match voice.is_first {
        true => {
            let metrics = File::options().create(true).append(true).open(&path);
            Some(metrics.map_err(about(&path))?)
        }
        false => None,
    };
    let board = run.tensorboard.as_deref().map(TensorBoard::new);
    let mut told = Told {
        voice,
        metrics,
        board: board.transpose()?,
        bar: match voice.is_first {
            true => progress(None).with_message("training"),
            false => spark_program::ProgressBar::hidden(),
        },
        is_unheard: false,
        epochs: run.options.epochs,
        checkpoint: None,
        has_seen_damage: false,
        has_learnt: false,
        signal: None,
    };
    let pulse = voice.is_first.then(|| Pulse::of(&told.bar));
    let began = Instant::now();
    let result = postponed(|| -> Result<_, Box<dyn Error>> {
        let resumed = match resumes {
            true => trainer.resume(&mut |event: &Event| told.event(event)),
            false => Ok(0),
        };
        let before = match resumed {
            // Stopped before it had written any: everything else stands in `run.json`.
            Err(TrainError::NoCheckpoint { .. }) if !told.has_seen_damage => 0,
            Err(error @ TrainError::NoCheckpoint { .. }) => {
                return Err(format!(
                    "{error}: without those that are there, `{}` begins again",
                    run.command("resume")
                )
                .into());
            }
            Err(TrainError::OtherRun { what, was, is, .. }) if what == Sum::SETTING => {
                return usage(&format!(
                    "{what} was {was} and is {is}: a run with --fast-sum goes on with it and on as many ranks, one without it without it"
                ));
            }
            resumed => resumed?,
        };
        if resumes {
            voice.say(format_args!("goes on after step {before}"));
        }
        let outcome = trainer.run(&mut |event: &Event| told.event(event));
        let outcome = outcome.map_err(|error| of_teacher(run, error))?;
        if voice.is_first {
            run.is_still_there()?;
        }
        if told.signal.is_none() {
            trainer.leave()?;
        }
        let best = trainer.take_best()?;
        if voice.is_first {
            trainer.network().adapter().save(&run.adapter())?;
        }
        Ok((before, outcome, best))
    });
    drop(pulse);
    told.bar.finish_and_clear();
    *has_learnt = told.has_learnt;
    let (before, outcome, best) = result?;
    if !voice.is_first {
        return Ok(ExitCode::from(told.signal.unwrap_or_default()));
    }
    say(before, &outcome, best, began.elapsed());
    if material.uncalibrated.is_some() {
        let model = calibrated::path(&run.folder);
        println!("it is an adapter of `{}`", model.display());
    }
    if let Some(code) = told.signal {
        if let Some(folder) = &told.checkpoint {
            println!("the checkpoint to go on from: {}", folder.display());
        }
        println!("go on with: {}", run.command("resume"));
        return Ok(ExitCode::from(code));
    }
    let _words = LastWords::new(format!(
        "stopped: the adapter is written, and `{}` judges it",
        run.command("eval")
    ));
    match behind {
        // It takes the frames themselves again.
        Some(_) => judge::judge(run, material, &material.opened(run)?),
        None => judge::judge(run, material, trainer.network()),
    }
}

/// An error, with the teacher that it is about: heads lie in what the teacher says.
fn of_teacher(run: &Run, error: TrainError) -> Box<dyn Error> {
    match (&run.options.teacher, &error) {
        (Some(teacher), TrainError::Head { .. }) => format!(
            "--teacher: what `{}` says is not what the network says: {error}",
            teacher.display()
        )
        .into(),
        _ => error.into(),
    }
}

fn say(before: u64, outcome: &Outcome, best: Option<u64>, took: Duration) {
    let (steps, took) = (outcome.steps, took.as_secs_f64());
    match outcome.ended {
        Ended::Done if steps == before => println!("all {steps} steps had been made"),
        Ended::Done => println!("{} steps in {took:.1} s", steps - before),
        Ended::Patience => println!("nothing has got better any more, after step {steps}"),
        Ended::Stopped => println!("stopped after step {steps}"),
    }
    if steps > before {
        println!(
            "waiting for frames took {:.1} % of the steps' time",
            1e2 * outcome.waiting
        );
    }
    match (outcome.best, best) {
        (Some((loss, step)), Some(_)) => {
            println!("the adapter is that of the best epoch: loss {loss:.3e}, after step {step}");
        }
        (Some((loss, step)), None) => println!(
            "the checkpoint of the best epoch (loss {loss:.3e}, step {step}) is not there: the adapter is the last step's"
        ),
        (None, _) => {
            println!(
                "the adapter is the last step's: no epoch has ended, none with a finite loss, or no frames are held back"
            );
        }
    }
}

fn settings(run: &Run, voice: Voice) -> TrainerSettings {
    let options = &run.options;
    TrainerSettings {
        batch: options.frames_at_once(),
        accumulate: options.virtual_shards(),
        epochs: options.epochs as u64,
        max_steps: options.max_steps.map(|steps| steps as u64),
        rates: LoraPlus {
            rate: options.lr,
            ..LoraPlus::default()
        },
        recompute: options.recompute,
        seed: options.seed,
        folder: voice.is_first.then(|| run.folder.join("checkpoints")),
        save_every: Some(options.save_every as u64),
        ..TrainerSettings::default()
    }
}

/// Where events go.
struct Told {
    voice: Voice,
    /// Nothing after it could not be written to.
    metrics: Option<File>,
    /// The same.
    board: Option<TensorBoard>,
    bar: spark_program::ProgressBar,
    /// Whether a line on stdout could not be written.
    is_unheard: bool,
    epochs: usize,
    /// The last one that was written.
    checkpoint: Option<PathBuf>,
    /// Whether a checkpoint was passed over.
    has_seen_damage: bool,
    /// Whether a step was made.
    has_learnt: bool,
    /// Exit code of the signal that ended the run.
    signal: Option<u8>,
}

impl Told {
    fn event(&mut self, event: &Event) -> Go {
        self.record(event);
        self.show(event);
        match event {
            Event::Step {
                step,
                total,
                loss,
                samples_per_second,
                ..
            } => {
                self.has_learnt = true;
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
                self.say(&line);
            }
            Event::Saved { folder, .. } => self.checkpoint = Some(folder.clone()),
            Event::Damaged { folder, reason } => {
                self.has_seen_damage = true;
                tell(format!("{}: {reason}; passed over", folder.display()));
            }
            Event::Skipped { step, loss, .. } if self.voice.is_first => {
                tell(format!("step {step} is left out: its loss is {loss}"));
            }
            Event::FastSum { step, deviation } => {
                let line = format!(
                    "step {step}: the fast sum lies {deviation:.1e} of its length from that in order"
                );
                self.say(&line);
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

    /// A line on stdout with the bar out of the way. Not by `println!`, whose panic on a full disk would tell of itself while the bar is
    /// held, and wait for the bar for ever.
    fn say(&mut self, line: &str) {
        if !self.voice.is_first {
            return;
        }
        let said = self.bar.suspend(|| writeln!(io::stdout(), "{line}"));
        if let Err(error) = said
            && !std::mem::replace(&mut self.is_unheard, true)
        {
            tell(format!("stdout: {error}; the run goes on"));
        }
    }

    /// The same for TensorBoard.
    fn show(&mut self, event: &Event) {
        let Some(board) = &mut self.board else {
            return;
        };
        let _ = board.event(event); // it never stops a run
        if let Some(error) = board.failure() {
            let path = board.path().display();
            tell(format!("{path}: {error}; nothing more is written to it"));
            self.board = None;
        }
    }
}

/// What a run would be, without running it.
fn dry_run(
    run: &Run,
    material: &Material,
    network: AdaptedNetwork,
) -> Result<ExitCode, Box<dyn Error>> {
    let (n, options) = (material.training().len(), &run.options);
    let steps = n / options.batch_size * options.epochs;
    let steps = steps.min(options.max_steps.unwrap_or(usize::MAX));
    println!(
        "{n} frames to train on, {} held back; {steps} steps of {} frames",
        material.held_back().len(),
        options.batch_size
    );
    let one = material.training().sample(0).map_err(plain)?;
    let (network, first) = match options.cache_trunk {
        true => {
            let (rest, [behind]) = trunk::cut(network, [&vec![one]])?;
            (rest, behind.sample(0).map_err(plain)?)
        }
        false => (network, one),
    };
    let shapes = first.inputs.iter().map(|(name, tensor)| {
        let mut shape = tensor.shape().to_vec();
        shape[0] = options.frames_at_once();
        (name.as_str(), shape)
    });
    let shapes: Vec<_> = shapes.collect();
    let planned = match options.recompute {
        true => TrainingStep::recomputing,
        false => TrainingStep::new,
    };
    let mut step = planned(&network, &material.heads, &shapes, &RunOptions::new())?;
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
    step.run_pass(&network, 0, &inputs, &targets)?;
    let began = Instant::now();
    step.run_pass(&network, 0, &inputs, &targets)?;
    let took = began.elapsed().as_secs_f64() * options.virtual_shards() as f64;
    let besides = [
        (options.calibrate.is_some(), "calibrating"),
        (options.init == Some(InitOf::Eva), "EVA"),
        (options.cache_trunk, "the trunk"),
    ];
    let besides = besides.into_iter().filter(|(is_done, _)| *is_done);
    let besides: Vec<&str> = besides.map(|(_, what)| what).collect();
    let besides = match besides.as_slice() {
        [] => String::new(),
        besides => format!(", besides {}", besides.join(" and ")),
    };
    if options.init == Some(InitOf::Eva) {
        println!("EVA shares ranks out anew: parameters are then others than these");
    }
    println!(
        "a step takes {:.0} ms and {} MB, all of them {:.0} s{besides}; nothing is written",
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
