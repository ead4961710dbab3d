//! `eval`, also by several processes: what networks say of frames chunk by chunk into a folder, and the judgement of all chunks.
//!
//! ```text
//! item = a frame that was trained on, then those held back      chunk = 64 frames      shard = every Nth chunk
//! --shard   frames ──networks without and with adapter──> answers ──> one file each
//! --merge   all chunks of this run and adapter ──answers in order──> what `eval` prints: no frame is read, no network asked
//! ```
//!
//! Every shard reads all frames: ready ones are cheap, those of drives are decoded by each shard anew.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use spark_program::shards::{Part, identity, this};
use spark_program::{Pulse, about, output, progress};
use sparkpilot::onnx::file;
use sparkpilot::onnx::graph::Graph;
use sparkpilot::shards::{Identity, Merge, Plan, Run as ShardedRun, Shard};
use sparkpilot::train::{
    ANSWERS_FORMAT, AdaptedNetwork, Comparison, Deployment, Examination, Judgement, PackedAnswers,
    Samples, answers_to_bytes, digest_of_all,
};

use super::arguments::{Begun, Eval};
use super::calibrated;
use super::data::{self, Material, described};
use super::judge::{self, Judged};
use super::ready::differences;
use super::run::{Run, plain, usage};

/// Frames of a chunk, whatever the number of processes.
const N_FRAMES_PER_CHUNK: u64 = 64;

/// What `--merge` reads, and what it reads of it.
const WORK: &str = "sparkpilot finetune eval";
const ANSWERS: &str = "format of answers";
const TRAINING: &str = "frames trained on";
const UNTOUCHED: &str = "networks without adapter";

pub(crate) fn eval(eval: &Eval) -> Result<ExitCode, Box<dyn Error>> {
    let Begun { output, json } = &eval.begun;
    let run = Run::begun(output, json.clone(), None)?;
    match (eval.shard, &eval.folder, eval.merge.is_empty()) {
        (Some(asked), Some(folder), _) => ask(&run, this(asked)?, folder),
        (_, _, false) => merge(&run, &eval.merge),
        _ => judge::eval(&run),
    }
}

/// Asks about what the shard still lacks, and says what it did.
fn ask(run: &Run, shard: Shard, folder: &Path) -> Result<ExitCode, Box<dyn Error>> {
    run.keep_off("--folder", folder)?;
    let (material, network) = judge::begun(run)?;
    let (training, held_back) = (material.training(), material.held_back());
    if held_back.is_empty() {
        return usage("--shard: no frame is held back, so that nothing is judged");
    }
    let untouched: Vec<&Graph> = [&material.graph]
        .into_iter()
        .chain(&material.uncalibrated)
        .collect();
    let sharded = run_of(run, &material, &network, untouched.len())?;
    let part = Part::open(folder, &sharded, shard, sharded.plan.chunks_of(shard))?;
    let bar = progress(Some(part.n_items(part.left()))).with_message("frames");
    let pulse = Pulse::of(&bar);
    let (heads, options) = (&material.judged, material.options());
    let mut examination = Examination::new(&network, &untouched, heads, &options)?;
    for &chunk in part.left() {
        let mut answers = Vec::new();
        for item in sharded.plan.items(chunk) {
            let item = item as usize;
            let (samples, index): (&dyn Samples, usize) = match item.checked_sub(training.len()) {
                None => (&training, item),
                Some(index) => (&held_back, index),
            };
            let is_held_back = item >= training.len();
            let sample = samples.sample(index).map_err(plain)?;
            answers.push(examination.answer(&sample, is_held_back)?);
            bar.inc(1);
        }
        part.write(chunk, &answers_to_bytes(&answers)?)?;
    }
    drop(pulse);
    bar.finish_and_clear();
    println!("{}", part.finish("asked about", "frames")?);
    Ok(ExitCode::SUCCESS)
}

/// Which run it is: all that an answer hangs on.
fn run_of(
    run: &Run,
    material: &Material,
    network: &AdaptedNetwork,
    n_untouched: usize,
) -> Result<ShardedRun, Box<dyn Error>> {
    let (training, held_back) = (material.training(), material.held_back());
    let identity = identity(WORK, (ANSWERS, ANSWERS_FORMAT), env!("CARGO_PKG_VERSION"))?
        .with("instruction set", spark_simd::Isa::detect().name())
        .with(TRAINING, training.len().to_string())
        .with("all frames trained on", digest_of_all(&training)?)
        .with("all frames held back", digest_of_all(&held_back)?)
        .with(UNTOUCHED, n_untouched.to_string());
    let with = |identity: Identity, (name, value)| identity.with(name, value);
    let identity = lines(run, network)?.into_iter().fold(identity, with);
    let n_items = training.len() + held_back.len();
    Ok(ShardedRun {
        identity,
        plan: Plan::new(n_items as u64, N_FRAMES_PER_CHUNK)?,
    })
}

/// What is known of a run and its adapter without its frames.
fn lines(run: &Run, network: &AdaptedNetwork) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let mut lines = vec![
        ("judged network".to_owned(), network.fingerprint()),
        (
            "judged adapter".to_owned(),
            network.fingerprint_of_variables()?,
        ),
    ];
    lines.extend(run.options.lines()?);
    Ok(lines)
}

/// Judges by the answers of all shards.
fn merge(run: &Run, folders: &[PathBuf]) -> Result<ExitCode, Box<dyn Error>> {
    let merge = Merge::of(folders)?;
    for path in merge.paths() {
        output::keep_apart([path], run.json.as_deref())?;
    }
    let model = &run.options.model;
    let graph = file::load(model).map_err(about(model))?;
    let calibrated = match run.options.calibrate {
        Some(_) => calibrated::kept(&run.folder)?,
        None => None,
    };
    // As a run deploys it: rounding is that of the network in its file.
    let deployment = data::deployment(run, &graph)?;
    let network = data::opened(
        run,
        calibrated.unwrap_or_else(|| graph.clone()),
        &deployment,
    )?;
    check(run, merge.run(), &network)?;
    let judged = judged(merge.run(), &deployment)?;
    let mut judgements: Vec<Judgement> = Vec::new();
    let [_, n_untouched] = counts(merge.run())?;
    let bar = progress(Some(merge.run().plan.n_items())).with_message("judging");
    let pulse = Pulse::of(&bar);
    for (chunk, (path, payload)) in (0..).zip(merge.paths().zip(merge.payloads())) {
        let answers = PackedAnswers::from_bytes(&payload?).map_err(about(path))?;
        let items = merge.run().plan.items(chunk);
        let n_training = items
            .end
            .min(judged.n_training as u64)
            .saturating_sub(items.start);
        let n_held_back = items.end - items.start - n_training;
        if answers.lens().map(|n| n as u64) != [n_training, n_held_back] {
            return Err(about(path)("the chunk holds other answers than it says").into());
        }
        for answer in answers.answers() {
            let answer = answer.map_err(about(path))?;
            if judgements.is_empty() {
                let heads = data::judged(run, &graph, &answer.targets)?;
                let numbers = [judged.n_training, judged.n_held_back];
                for _ in 0..n_untouched {
                    let options = data::options(&deployment);
                    judgements.push(Judgement::new(&heads, numbers, &options)?);
                }
            }
            for (which, judgement) in judgements.iter_mut().enumerate() {
                judgement.take(&answer, which).map_err(about(path))?;
            }
            bar.inc(1);
        }
    }
    drop(pulse);
    bar.finish_and_clear();
    let results = judgements.into_iter().map(Judgement::finish);
    let results: Vec<Comparison> = results.collect::<Result<_, _>>()?;
    let (result, before) = match &results[..] {
        [result] => (result, None),
        [result, before] => (result, Some(before)),
        _ => return Err("the chunks hold no answer".into()),
    };
    println!("{}", described(network.adapter()));
    judge::print(run, &judged, &network, result, before)
}

/// Refuses chunks of other work, of another run, and of another adapter than the run has now.
fn check(run: &Run, sharded: &ShardedRun, network: &AdaptedNetwork) -> Result<(), Box<dyn Error>> {
    let mut own = vec![
        ("work".to_owned(), WORK.to_owned()),
        (ANSWERS.to_owned(), ANSWERS_FORMAT.to_string()),
    ];
    own.extend(lines(run, network)?);
    let differences = differences(&own, sharded);
    match differences.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "the chunks are not of the adapter in `{}` ({differences})",
            run.folder.display()
        )
        .into()),
    }
}

/// How many frames were trained on, and how many networks without adapter were asked, as chunks say.
fn counts(sharded: &ShardedRun) -> Result<[usize; 2], Box<dyn Error>> {
    let number = |name: &str| -> Option<usize> { sharded.identity.value(name)?.parse().ok() };
    let known = number(TRAINING).zip(number(UNTOUCHED));
    // With and without calibration.
    match known.filter(|(_, n_untouched)| (1..=2).contains(n_untouched)) {
        Some((n_training, n_untouched)) => Ok([n_training, n_untouched]),
        None => Err("the chunks do not say what they hold".into()),
    }
}

fn judged(sharded: &ShardedRun, deployment: &Deployment) -> Result<Judged, Box<dyn Error>> {
    let [n_training, _] = counts(sharded)?;
    let n_items = usize::try_from(sharded.plan.n_items())?;
    Ok(Judged {
        n_training,
        n_held_back: n_items.saturating_sub(n_training),
        precision: deployment.precision(),
    })
}
