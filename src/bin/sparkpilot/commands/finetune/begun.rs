//! Adapters that begin by what their layers read: `--init eva`.
//!
//! A run that is resumed begins so again, by the same frames, to the same bits: the ranks of its layers come of it, and its checkpoints hold
//! the rest.

use std::error::Error;

use spark_program::{Pulse, progress, tell};
use sparkpilot::dora::EvaSettings;
use sparkpilot::dora::eva::{Begun, MOST_COLUMNS};
use sparkpilot::onnx::RunOptions;
use sparkpilot::train::{AdaptedNetwork, Samples, TrainError, layers};

use super::data::Material;
use super::ranks::Voice;
use super::run::{InitOf, Run, usage};

/// Frames that are looked at unless `--init-frames` says otherwise.
const FRAMES: usize = 256;

/// Refuses layers that are too wide to begin so, before a frame is looked at.
pub(crate) fn check(network: &AdaptedNetwork, run: &Run) -> Result<(), Box<dyn Error>> {
    if run.options.init != Some(InitOf::Eva) {
        return Ok(());
    }
    for layer in layers(network.base()) {
        let [_, columns] = layer.shape[..] else {
            continue;
        };
        let factors = network.adapter().factors(&layer.name);
        let is_adapted = factors.is_some_and(|factors| factors.a().is_some());
        if is_adapted && columns > MOST_COLUMNS {
            return usage(&format!(
                "--init eva: `{}` reads {columns} numbers at a time, and directions are computed of at most {MOST_COLUMNS}: name others with --targets",
                layer.name
            ));
        }
    }
    Ok(())
}

/// The network as its options have it begin.
pub(crate) fn begun(
    network: AdaptedNetwork,
    run: &Run,
    material: &Material,
    voice: Voice,
    resumes: bool,
) -> Result<AdaptedNetwork, Box<dyn Error>> {
    if run.options.init != Some(InitOf::Eva) {
        return Ok(network);
    }
    let training = material.training();
    let asked = run.options.init_frames;
    if let Some(n) = asked
        && n > training.len()
        && voice.is_first
    {
        let n_training = training.len();
        tell(format!(
            "--init-frames: there are {n_training} frames to train on, and all of them are taken"
        ));
    }
    let n = asked.unwrap_or(FRAMES).min(training.len());
    let bar = match voice.is_first {
        true => progress(Some(n as u64)).with_message("inputs of layers"),
        false => spark_program::ProgressBar::hidden(),
    };
    let pulse = voice.is_first.then(|| Pulse::of(&bar));
    let settings = EvaSettings::default();
    let observed = network.observed(&training, n, settings, &RunOptions::new(), |_| bar.inc(1));
    drop(pulse);
    bar.finish_and_clear();
    let mut variance = match observed {
        Err(error @ TrainError::NothingObserved { .. }) => {
            return usage(&format!("--init eva: {error}"));
        }
        observed => observed?,
    };
    let ranks = variance.ranks(network.adapter())?;
    drop(network);
    let mut network =
        AdaptedNetwork::deployed(material.graph.clone(), ranks, &material.deployment)?;
    let begun = network.begin(&mut variance)?;
    let is_still = begun.layers.iter().all(|layer| layer.directions == 0);
    // A run that somebody has begun so goes on.
    if is_still && !resumes {
        let of = counted(n, "frame");
        return usage(&format!(
            "--init eva: what linear layers read does not vary in {of}, and says nothing of how to begin; there are {} to train on",
            training.len()
        ));
    }
    voice.say(format_args!("{}", described(&begun, n)));
    Ok(network)
}

/// So many things, as one writes it.
fn counted(n: usize, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// One line on how an adapter began.
fn described(begun: &Begun, n: usize) -> String {
    let ranks = begun.layers.iter().map(|layer| layer.rank);
    let ranks = match (ranks.clone().min(), ranks.max()) {
        (Some(least), Some(most)) if least < most => format!("ranks {least} to {most}"),
        (_, most) => format!("rank {}", most.unwrap_or(0)),
    };
    let explained: f64 = begun.layers.iter().map(|layer| layer.explained).sum();
    let explained = 100.0 * explained / begun.layers.len().max(1) as f64;
    let mut line = format!(
        "begun by EVA on {}: {} of {ranks}, which explain {explained:.0} % of what their inputs vary",
        counted(n, "frame"),
        counted(begun.layers.len(), "linear layer"),
    );
    let still = begun.layers.iter().filter(|layer| layer.directions == 0);
    let still: Vec<&str> = still.map(|layer| layer.name.as_str()).collect();
    if !still.is_empty() {
        line += &format!(
            "; at random, as what they read does not vary: {}",
            still.join(", ")
        );
    }
    if !begun.without_a.is_empty() {
        line += &format!("; no rank is left for {}", begun.without_a.join(", "));
    }
    match begun.others.len() {
        0 => {}
        1 => line += "; 1 convolution begins at random",
        n => line += &format!("; {n} convolutions begin at random"),
    }
    line
}
