//! Rollouts on a GPU: one kernel drives a group of scenarios from start to end.
//!
//! ```text
//! start   block (start state, roads, requests) --> tables --> GPU: a thread per scenario, all its steps
//!                                                              |
//! finish  metrics, or why it failed <-- totals, extremes, ends +
//! ```
//!
//! Groups (of one vehicle model and integrator) have streams of their own: while the kernel of one
//! runs, the tables of the next are made, and kernels that leave room on the GPU run side by side.
//!
//! The kernels do the operations of the CPU path in its order, without fused multiply-adds, so
//! results have the same bits. The tests say so on a stand-in driver that runs the same
//! sources on the CPU; `kernels/rollout.cuh` describes them.
//!
//! Not here: scenarios with other road users, the drift model, noise other than bias and white noise
//! at every step, recordings of drives, deadlines and update times.

#![allow(unsafe_code, reason = "launches kernels")]

mod lanes;
mod source;

use std::time::{Duration, Instant};

use super::block::{Block, BlockOptions, LaneOutcome};
use super::outcome::ScenarioError;
use super::tables::Prepared;
use crate::control::CudaControl;
use crate::metric::{Extreme, Totals};
use crate::scenario::ChannelNoise;
use lanes::{Tables, settings};
use spark_hal::config::DeviceChoice;
use spark_mem::{
    Buffer, Device, DeviceOptions, Element, KernelSource, LaunchShape, MemError, Read, Stream,
    Write,
};

pub use source::rollout_source;

const N_SUMS: usize = 19;
const N_EXTREMES: usize = 6;
/// As the kernels' launch bounds say.
const THREADS_PER_BLOCK: u32 = 128;

type Arguments = (
    Read<f32>,
    Read<f64>,
    Read<u32>,
    Read<f64>,
    Read<f64>,
    Read<f32>,
    Write<f32>,
    Write<f64>,
    Write<f32>,
    Write<u32>,
    u32,
    u32,
);

/// Why a group could not be driven, in words.
struct Failure(String);

impl From<MemError> for Failure {
    fn from(error: MemError) -> Self {
        Self(match error {
            MemError::Compile { log, .. } => format!("the controller does not compile: {log}"),
            other => other.to_string(),
        })
    }
}

/// A GPU that runs scenarios.
#[derive(Debug, Clone)]
pub(super) struct Gpu {
    device: Device,
}

impl Gpu {
    pub(super) fn new(device: Device) -> Self {
        Self { device }
    }

    /// The GPU that can be used here, if one can, or why the one that is asked for, by name or by the
    /// environment, cannot be had.
    pub(super) fn open(asked: Option<DeviceChoice>) -> Result<Option<Self>, String> {
        let mut options = DeviceOptions::default();
        options.device = asked;
        let device = Device::open_with(options).map_err(|error| error.to_string())?;
        let is_gpu = matches!(device.info().kind, spark_mem::DeviceKind::Cuda(_));
        Ok(is_gpu.then_some(Self { device }))
    }

    pub(super) fn name(&self) -> &str {
        &self.device.info().name
    }

    /// Why this scenario cannot be driven here, if it cannot.
    pub(super) fn refusal(lane: &Prepared<'_>) -> Option<&'static str> {
        let vehicle = &lane.scenario.vehicle;
        if !lane.scenario.actors.is_empty() {
            return Some("the GPU does not drive scenarios with other road users");
        }
        if !source::has_kernel(vehicle.model, vehicle.integrator) {
            return Some("the GPU does not drive this vehicle model");
        }
        // Channels of a car ahead are not looked at: there is none.
        let mut channels = lane.scenario.environment.noise.channels().into_iter();
        let is_plain = |noise: &ChannelNoise| noise.frames().are_steps() && noise.ar1_sd == 0.0;
        if !channels.all(|(name, noise)| name.starts_with("lead_") || is_plain(noise)) {
            return Some(
                "the GPU's sensors have bias and white noise at every step, not AR(1) noise, a frame rate, latency or dropouts",
            );
        }
        None
    }

    /// Starts driving scenarios of one model and rule; the work goes on while this returns.
    pub(super) fn start(
        &self,
        lanes: &[Prepared<'_>],
        options: BlockOptions,
        control: &CudaControl,
    ) -> Result<Rollout, String> {
        self.queue(lanes, options, control)
            .map_err(|Failure(message)| message)
    }

    fn queue(
        &self,
        lanes: &[Prepared<'_>],
        options: BlockOptions,
        control: &CudaControl,
    ) -> Result<Rollout, Failure> {
        let started = Instant::now();
        let block = Block::new(lanes, options);
        let too_many =
            || Failure("roads and requests have more parts than 32 bits count".to_owned());
        let tables = Tables::new(&block).ok_or_else(too_many)?;
        let source = source::source(control, block.cars.model, block.cars.integrator);
        let source = source.ok_or_else(too_many)?;
        let kernel: KernelSource<Arguments> =
            KernelSource::from_text(source.file, source.text, source.entry)
                .with_headers(source::HEADERS)
                .with_options(source::OPTIONS);
        let kernel = self.device.kernel(&kernel)?;
        let stream = self.device.new_stream()?;
        let prepared = Instant::now();

        let n = lanes.len();
        let inputs = Inputs {
            cars: self.filled(&stream, &tables.cars)?,
            exact: self.filled(&stream, &tables.exact)?,
            whole: self.filled(&stream, &tables.whole)?,
            pieces: self.filled(&stream, &tables.pieces)?,
            lines: self.filled(&stream, &tables.lines)?,
            settings: self.filled(&stream, &settings(&options.planner, control))?,
        };
        let mut rollout = Rollout {
            n,
            ring: self.device.shared::<f32>(2 * tables.n_rows * n)?,
            totals: self.device.shared::<f64>((N_SUMS + 1) * n)?,
            extremes: self.device.shared::<f32>(N_EXTREMES * n)?,
            ends: self.device.shared::<u32>(3 * n)?,
            inputs,
            stream,
            prepare: prepared - started,
            upload: prepared.elapsed(),
        };
        let shape = LaunchShape::for_elements(n, THREADS_PER_BLOCK)?;
        let count = |n: usize| u32::try_from(n).map_err(|_| too_many());
        let inputs = &rollout.inputs;
        let arguments = (
            inputs.cars.view(),
            inputs.exact.view(),
            inputs.whole.view(),
            inputs.pieces.view(),
            inputs.lines.view(),
            inputs.settings.view(),
            rollout.ring.view_mut(),
            rollout.totals.view_mut(),
            rollout.extremes.view_mut(),
            rollout.ends.view_mut(),
            count(n)?,
            count(tables.n_rows)?,
        );
        // SAFETY: `Arguments` are the parameters of every rollout's entry, which `source` writes.
        // Tables and results have the fields of `rollout.cuh` for `n` lanes, the ring
        // `n_rows` rows, and the kernel leaves other lanes alone. Places in `pieces` and
        // `lines` lie inside: they were counted when those were filled, the last piece of a
        // road is infinitely long and the last line of a profile has no successor. A controller
        // reads and writes its own arguments only: those built in by their sources, with the
        // parameters that `CudaControl`'s own constructors give them, and a snippet because
        // whoever called `CudaControl::new` promised it for these parameters; fields are private.
        unsafe { kernel.launch(&rollout.stream, shape, arguments) }?;
        Ok(rollout)
    }

    fn filled<T: Element>(&self, stream: &Stream, from: &[T]) -> Result<Buffer<T>, MemError> {
        // Kernels get no empty tables: a settings table is never empty, others have lanes.
        let mut buffer = self.device.shared::<T>(from.len())?;
        buffer.upload(stream, from)?;
        Ok(buffer)
    }
}

/// What a kernel reads, as long as it runs.
#[derive(Debug)]
struct Inputs {
    cars: Buffer<f32>,
    exact: Buffer<f64>,
    whole: Buffer<u32>,
    pieces: Buffer<f64>,
    lines: Buffer<f64>,
    settings: Buffer<f32>,
}

/// A group under way.
#[derive(Debug)]
pub(super) struct Rollout {
    n: usize,
    inputs: Inputs,
    ring: Buffer<f32>,
    totals: Buffer<f64>,
    extremes: Buffer<f32>,
    ends: Buffer<u32>,
    stream: Stream,
    /// What the host took for tables and code, and for bringing them there.
    prepare: Duration,
    upload: Duration,
}

impl Rollout {
    /// Waits for the group; `lanes` are those that it was started with.
    pub(super) fn finish(self, lanes: &[Prepared<'_>]) -> Result<Vec<LaneOutcome>, String> {
        self.outcomes(lanes).map_err(|Failure(message)| message)
    }

    fn outcomes(self, lanes: &[Prepared<'_>]) -> Result<Vec<LaneOutcome>, Failure> {
        let (n, stream) = (self.n, &self.stream);
        let started = Instant::now();
        stream.synchronize()?;
        let waited = started.elapsed();
        let mut totals = vec![0.0; self.totals.len()];
        let mut extremes = vec![0.0; self.extremes.len()];
        let mut ends = vec![0; self.ends.len()];
        self.totals.download(stream, &mut totals)?;
        self.extremes.download(stream, &mut extremes)?;
        self.ends.download(stream, &mut ends)?;
        stream.synchronize()?;
        let outcome = |lane: usize| {
            let column = |from: usize| totals[from * n + lane];
            let ending = [0, 1, 2].map(|field: usize| ends[field * n + lane]);
            if let Some(failure) = failure(ending) {
                return (Err(failure), None);
            }
            let sums = Totals::from_sums(std::array::from_fn(column));
            let most = |field: usize| extremes[field * n + lane];
            let extreme = Extreme {
                offset: most(0),
                lateral_acceleration: most(1),
                lateral_jerk: most(2),
                deceleration: most(3),
                jerk: most(4),
                margin: most(5),
                ttc: f32::INFINITY,
                gap: f32::INFINITY,
                headway: f32::INFINITY,
            };
            let scenario = lanes[lane].scenario;
            let distance = column(N_SUMS) - scenario.start.distance;
            (Ok(sums.metrics(&extreme, scenario.dt_s, distance)), None)
        };
        let outcomes = (0..n).map(outcome).collect();
        tracing::debug!(
            "{n} scenarios on the GPU: {:.1} ms for tables and code, {:.1} for uploads, {:.1} waited for the kernel, {:.1} for results",
            1e3 * self.prepare.as_secs_f64(),
            1e3 * self.upload.as_secs_f64(),
            1e3 * waited.as_secs_f64(),
            1e3 * (started.elapsed() - waited).as_secs_f64(),
        );
        Ok(outcomes)
    }
}

/// Why a lane ended before its time; `sim::Ending` in `rollout.cuh`.
fn failure([ending, step, bits]: [u32; 3]) -> Option<ScenarioError> {
    let step_idx = step as usize;
    let not_finite = |what| {
        Some(ScenarioError::ActionNotFinite {
            what,
            step_idx,
            got: f32::from_bits(bits),
        })
    };
    match ending {
        0 => None,
        1 => not_finite("steering"),
        2 => not_finite("acceleration"),
        _ => Some(ScenarioError::StateNotFinite { step_idx }),
    }
}
