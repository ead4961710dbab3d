//! Vision and policy chained as openpilot runs them, against the clock.
//!
//! One timed step takes new pictures in, runs both networks with their histories and reads
//! the outputs: [`DrivingPipeline::step`]. Making the pictures is not counted.

use std::time::{Duration, Instant};

use spark_openpilot::frame::FRAME_BYTES;
use spark_openpilot::zoo::Stream;
use spark_openpilot::{DrivingInput, DrivingOutput, DrivingPipeline, OpenpilotError};

use crate::driving;
use crate::error::{BenchError, no_runs};
use crate::machine::resident_bytes;
use crate::one_model::{Loaded, MeasureOptions};
use crate::options::Setting;
use crate::progress::Progress;
use crate::report::{CombinedReport, MemoryReport};
use crate::statistics::Latency;

/// Pictures the steps cycle through; more than the pipeline remembers.
const PICTURES: u64 = 6;
/// Steps between two changes of the desire.
const STEPS_PER_DESIRE: usize = 40;

/// Measures `vision` and `policy` together, and gives the outputs of a sequence of pictures if that
/// was asked for.
///
/// # Errors
///
/// [`BenchError::Chain`] if they are not openpilot's pair or fail.
pub(crate) fn measure(
    vision: Loaded,
    policy: Loaded,
    setting: Setting,
    options: &MeasureOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(CombinedReport, Vec<DrivingOutput>), BenchError> {
    let models = vec![vision.name.clone(), policy.name.clone()];
    let is_random = vision.weights == "random" || policy.weights == "random";
    let memories = [vision.runner.memory(), policy.runner.memory()];
    let mut pipeline =
        DrivingPipeline::new(vision.runner, policy.runner).map_err(BenchError::Chain)?;
    let pictures: Vec<Vec<u8>> = (0..PICTURES).map(|i| picture(options.seed, i)).collect();

    let label = format!("vision + policy {}", setting.name());
    let total = options.warmup.saturating_add(options.runs);
    let mut samples = Vec::new();
    for step in 0..total {
        let elapsed = timed_step(&mut pipeline, &pictures, step).map_err(BenchError::Chain)?;
        if step >= options.warmup {
            samples.push(elapsed);
        }
        progress(Progress {
            label: &label,
            done: step + 1,
            total,
        });
    }
    let latency = Latency::of(&samples).ok_or_else(no_runs)?;
    let device_bytes = memories
        .iter()
        .map(|m| m.device_bytes.map(|bytes| bytes as u64))
        .sum();
    let (rss_bytes, peak_rss_bytes) = resident_bytes();
    let report = CombinedReport {
        models,
        weights: if is_random { "random" } else { "file" },
        precision: setting.name(),
        device: pipeline.vision().device().to_owned(),
        threads: pipeline.vision().threads(),
        latency: latency.into(),
        memory: MemoryReport {
            rss_bytes,
            peak_rss_bytes,
            arena_bytes: memories.iter().map(|m| m.arena_bytes as u64).sum(),
            weight_bytes: memories.iter().map(|m| m.weight_bytes as u64).sum(),
            device_bytes,
        },
    };
    let mut driven = Vec::new();
    if options.drive_frames > 0 {
        let label = format!("driving {}", setting.name());
        let seen = |done| {
            progress(Progress {
                label: &label,
                done,
                total: options.drive_frames,
            });
        };
        driven = driving::sequence(&mut pipeline, options.seed, options.drive_frames, seen)
            .map_err(BenchError::Chain)?;
    }
    Ok((report, driven))
}

fn picture(seed: u64, number: u64) -> Vec<u8> {
    let stream = Stream::new(seed, "picture");
    let first = number * FRAME_BYTES as u64;
    (0..FRAME_BYTES as u64)
        .map(|i| stream.bits(first + i) as u8)
        .collect()
}

fn timed_step(
    pipeline: &mut DrivingPipeline,
    pictures: &[Vec<u8>],
    step: usize,
) -> Result<Duration, OpenpilotError> {
    let mut desire = [0.0; 8];
    desire[step / STEPS_PER_DESIRE % desire.len()] = 1.0;
    let input = DrivingInput {
        road: &pictures[step % pictures.len()],
        wide: &pictures[(step + 1) % pictures.len()],
        desire,
        traffic_convention: [1.0, 0.0],
    };
    let start = Instant::now();
    let output = pipeline.step(&input)?;
    let elapsed = start.elapsed();
    std::hint::black_box(output);
    Ok(elapsed)
}
