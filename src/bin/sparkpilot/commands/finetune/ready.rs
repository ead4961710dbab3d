//! Frames that `frames` made ready, as the samples of a run.

use std::error::Error;
use std::path::{Path, PathBuf};

use spark_program::{Pulse, about, progress};
use sparkpilot::shards::{Difference, Differences, Merge, Run};
use sparkpilot::train::{PackedSamples, SAMPLES_FORMAT, Sample, Samples};

use super::drives::{Untaken, none_below};
use super::frames::{LOGS_CUT, MODEL, SAMPLES, TEACHER, WORK};
use super::lacking::Lacking;
use super::run::{Done, plain, usage};

/// Hands over all samples of a folder of chunks, in their order.
///
/// `hashes` tell the model and its teacher from others: frames of other networks are refused.
pub(crate) fn each(
    folder: &Path,
    hashes: [&str; 2],
    take: &mut dyn FnMut(&Sample) -> Done,
) -> Result<Untaken, Box<dyn Error>> {
    let bar = progress(None).with_message("frames are checked");
    let pulse = Pulse::of(&bar);
    let merge = Merge::of(&[folder])?;
    drop(pulse);
    bar.finish_and_clear();
    let run = merge.run();
    check(run, folder, hashes)?;
    let bar = progress(Some(run.plan.n_items())).with_message("frames");
    let pulse = Pulse::of(&bar);
    let cut = run.identity.value(LOGS_CUT).and_then(|n| n.parse().ok());
    let mut untaken = Untaken {
        left_out: Vec::new(),
        n_cut: cut.ok_or("the chunks do not say how many logs end early")?,
    };
    let (mut n_taken, mut lacking) = (0, Lacking::default());
    for (chunk, (path, payload)) in (0..).zip(merge.paths().zip(merge.payloads())) {
        let samples = PackedSamples::from_bytes(&payload?).map_err(about(path))?;
        let items = run.plan.items(chunk);
        let n_items = items.end - items.start;
        let broken = samples.left_out().iter();
        let n_broken = broken.fold(0, |sum: u64, it| sum.saturating_add(it.n_frames));
        // Frames before which a video has too few pictures are neither.
        if (samples.len() as u64).saturating_add(n_broken) > n_items {
            let why = "the chunk holds more frames than it says";
            return Err(about(path)(why).into());
        }
        for index in 0..samples.len() {
            take(&samples.sample(index).map_err(plain)?)?;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        lacking.add(&name, samples.left_out());
        for it in samples.left_out() {
            let name = PathBuf::from(&it.name);
            if !untaken.left_out.contains(&name) {
                untaken.left_out.push(name);
            }
        }
        n_taken += samples.len();
        bar.inc(n_items);
    }
    drop(pulse);
    bar.finish_and_clear();
    lacking.tell();
    match n_taken {
        0 if !lacking.is_empty() => Err(format!(
            "{}: all were left out; once the videos can be decoded, remove the folder, and `frames` makes it again",
            none_below(folder)
        )
        .into()),
        0 => usage(&format!("--data: {}", none_below(folder))),
        _ => Ok(untaken),
    }
}

/// Refuses chunks of other work, and frames that other networks are to be trained on.
fn check(run: &Run, folder: &Path, [model, teacher]: [&str; 2]) -> Result<(), Box<dyn Error>> {
    let own = [
        ("work", WORK.to_owned()),
        (SAMPLES, SAMPLES_FORMAT.to_string()),
        (MODEL, model.to_owned()),
        (TEACHER, teacher.to_owned()),
    ];
    let differences = differences(&own, run);
    match differences.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "the frames in `{}` are not for this run ({differences}): `frames` makes others, in another folder",
            folder.display()
        )
        .into()),
    }
}

/// Which of these lines a run's chunks do not have.
pub(crate) fn differences(own: &[(impl AsRef<str>, String)], run: &Run) -> Differences {
    let list = own.iter().filter_map(|(name, here)| {
        let name = name.as_ref();
        let there = run.identity.value(name);
        (there != Some(here)).then(|| Difference {
            name: name.to_owned(),
            here: vec![here.clone()],
            there: there.map(str::to_owned).into_iter().collect(),
        })
    });
    Differences {
        list: list.collect(),
        is_reordered: false,
    }
}
