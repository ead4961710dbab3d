//! Training behind a trunk that it cannot change: the trunk is run once for each frame.

use std::error::Error;

use spark_program::{Pulse, progress};
use sparkpilot::onnx::RunOptions;
use sparkpilot::train::{AdaptedNetwork, Samples, StoredSamples, TrainError, Trunk};

use super::kept;
use super::run::{plain, usage};

/// Whether there is a trunk: before anything is written.
pub(crate) fn check(network: AdaptedNetwork, frames: &dyn Samples) -> Result<(), Box<dyn Error>> {
    parts(network, frames)?;
    Ok(())
}

fn parts(
    network: AdaptedNetwork,
    frames: &dyn Samples,
) -> Result<(Trunk, AdaptedNetwork), Box<dyn Error>> {
    let first = frames.sample(0).map_err(plain)?;
    let shapes = first.inputs.iter();
    let shapes: Vec<_> = shapes
        .map(|(name, tensor)| (name.as_str(), tensor.shape().to_vec()))
        .collect();
    match network.cut(&shapes) {
        Err(error @ TrainError::NoTrunk) => usage(&format!(
            "--cache-trunk: {error}; fewer --targets, and no --biases of layers in front of them, leave a trunk"
        )),
        cut => Ok(cut?),
    }
}

/// What is left of the network, and its samples: what the trunk makes of each of these.
pub(crate) fn cut<const N: usize>(
    network: AdaptedNetwork,
    frames: [&dyn Samples; N],
) -> Result<(AdaptedNetwork, [StoredSamples; N]), Box<dyn Error>> {
    let some = frames.iter().find(|frames| !frames.is_empty());
    let (trunk, rest) = parts(network, *some.ok_or("there are no frames")?)?;
    let n: usize = frames.iter().map(|frames| frames.len()).sum();
    let bar = progress(Some(n as u64)).with_message("trunk");
    let pulse = Pulse::of(&bar);
    let mut kept = Vec::with_capacity(N);
    let options = RunOptions::new();
    for frames in frames {
        let cached =
            kept::in_folder(|folder| trunk.cached(frames, folder, &options, |_| bar.inc(1)));
        kept.push(cached.map_err(kept::unkept)?);
    }
    drop(pulse);
    bar.finish_and_clear();
    let kept = kept
        .try_into()
        .map_err(|_| "a part of the frames is missing")?;
    Ok((rest, kept))
}
