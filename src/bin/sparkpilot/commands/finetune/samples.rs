//! The samples of a run, from wherever its options say.

use std::error::Error;

use spark_program::{Pulse, about, progress};
use sparkpilot::bench::read_batches;
use sparkpilot::onnx::{Precision, RunOptions};
use sparkpilot::train::{StoredSamples, Teacher};

use super::drives::{self, Drives, EVERY, Untaken};
use super::kept;
use super::networks::Network;
use super::ready;
use super::run::{Done, Run, Source};

/// Reads and keeps them, and says what was left out.
pub(crate) fn read(
    run: &Run,
    [model, teacher]: [&Network; 2],
) -> Result<(StoredSamples, Untaken), Box<dyn Error>> {
    let options = &run.options;
    let of_teacher = options.teacher.as_ref().unwrap_or(&options.model);
    let mut samples = kept::samples()?;
    let source = options.source()?;
    if source == Source::Ready {
        let hashes = [model, teacher].map(|network| network.hash.as_str());
        let untaken = ready::each(&options.data, hashes, &mut |sample| {
            samples.push(sample).map_err(kept::unkept)
        })?;
        return Ok((samples.finish().map_err(kept::unkept)?, untaken));
    }
    let exact = RunOptions::new().with_precision(Precision::Fp32);
    let mut teacher = Teacher::new(&teacher.graph, &exact).map_err(about(of_teacher))?;
    let untaken = match source {
        Source::Drives => {
            let drives = Drives {
                folder: &options.data,
                camera: options.camera.unwrap_or_default(),
                every: options.every.unwrap_or(EVERY),
                left_out: options.left_out.as_deref(),
            };
            let mut teach = |inputs| -> Done {
                let sample = teacher.sample(inputs).map_err(about(of_teacher))?;
                samples.push(&sample).map_err(kept::unkept)
            };
            drives::each(&model.graph, &drives, &mut teach)?
        }
        Source::File | Source::Ready => {
            let name = options.model.display().to_string();
            let all = read_batches(&options.data, &name, &model.graph)?;
            let bar = progress(Some(all.len() as u64)).with_message("teacher");
            let _pulse = Pulse::of(&bar);
            for (number, inputs) in all.into_iter().enumerate() {
                // The file is at fault where the network can be run at all.
                let of_frame = |why| {
                    let of_teacher = of_teacher.display();
                    let why = format!("frame {number}, from 0, is none of `{of_teacher}`: {why}");
                    about(&options.data)(why)
                };
                let sample = teacher.sample(inputs).map_err(of_frame)?;
                samples.push(&sample).map_err(kept::unkept)?;
                bar.inc(1);
            }
            bar.finish_and_clear();
            Untaken::default()
        }
    };
    Ok((samples.finish().map_err(kept::unkept)?, untaken))
}
