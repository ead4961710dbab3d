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
//! Scenarios with other road users have kernels of their own (`kernels/traffic.cuh`), so that nothing of them costs
//! the others anything.
//!
//! Not here: the drift model, noise other than bias and white noise at every step, a car ahead that is reported late or
//! not at all, recordings of drives, deadlines and update times.

#![allow(unsafe_code, reason = "launches kernels")]

mod actors;
mod lanes;
mod lines;
mod source;

use std::time::{Duration, Instant};

use super::block::{Block, BlockOptions, LaneOutcome};
use super::outcome::ScenarioError;
use super::tables::Prepared;
use crate::control::CudaControl;
use crate::integrate::Integrator;
use crate::metric::{Collision, Extreme, Totals};
use crate::scenario::ChannelNoise;
use crate::vehicle::VehicleModel;
use actors::Actors;
use lanes::{Tables, settings};
use source::Source;
use spark_hal::config::DeviceChoice;
use spark_mem::{
    Buffer, Device, DeviceOptions, Element, KernelSource, LaunchShape, MemError, Parameters, Read,
    Stream, Write,
};

pub use source::{rollout_source, rollout_traffic_source};

const N_SUMS: usize = 19;
const N_EXTREMES: usize = 6;
/// How a lane ends whose car has hit somebody; `sim::Ending`.
const COLLIDED: u32 = 4;
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

/// The same, and other road users.
type TrafficArguments = (
    Arguments,
    (Read<f64>, Read<u32>, Read<u32>, Write<f64>, u32),
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
        if !source::has_kernel(vehicle.model, vehicle.integrator) {
            return Some("the GPU does not drive this vehicle model");
        }
        let has_actors = !lane.scenario.actors.is_empty();
        let noise = &lane.scenario.environment.noise;
        let is_plain = |noise: &ChannelNoise| noise.frames().are_steps() && noise.ar1_sd == 0.0;
        // Where nobody is ahead, the channels of a car ahead are not looked at.
        let is_read = |name: &str| has_actors || !name.starts_with("lead_");
        let mut read = noise
            .channels()
            .into_iter()
            .filter(|(name, _)| is_read(name));
        if has_actors && !noise.lead_presence.is_none() {
            return Some("the GPU's sensors always see a car ahead, and at once");
        }
        if !read.all(|(_, noise)| is_plain(noise)) {
            return Some(
                "the GPU's sensors have bias and white noise at every step, not AR(1) noise, a frame rate, latency or dropouts",
            );
        }
        None
    }

    /// Starts driving scenarios of one model and rule, all of which have other road users or none; the work
    /// goes on while this returns.
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
        let too_many = || {
            Failure("scenarios, roads and requests have more parts than 32 bits count".to_owned())
        };
        let tables = Tables::new(&block, control).ok_or_else(too_many)?;
        let (model, integrator) = (block.cars.model, block.cars.integrator);
        let source = source::source(control, model, integrator, tables.actors.is_some());
        let source = source.ok_or_else(too_many)?;
        let stream = self.device.new_stream()?;
        let prepared = Instant::now();

        let n = lanes.len();
        let inputs = Inputs {
            cars: self.filled(&stream, &tables.cars)?,
            exact: self.filled(&stream, &tables.exact)?,
            whole: self.filled(&stream, &tables.whole)?,
            pieces: self.filled(&stream, &tables.pieces)?,
            lines: self.filled(&stream, &tables.lines.0)?,
            settings: self.filled(&stream, &settings(&options.planner, control))?,
        };
        let others = match &tables.actors {
            Some(actors) => Some(self.others(&stream, actors)?),
            None => None,
        };
        // Who else is on the road adds a least time, gap and headway, the car ahead, and a collision.
        let (n_totals, n_extremes, n_ends) = match others {
            Some(_) => (N_SUMS + 3, N_EXTREMES + 3 + 4, 4),
            None => (N_SUMS + 1, N_EXTREMES, 3),
        };
        let mut rollout = Rollout {
            n,
            ring: self
                .device
                .shared::<f32>(tables.n_rings * tables.n_rows * n)?,
            totals: self.device.shared::<f64>(n_totals * n)?,
            extremes: self.device.shared::<f32>(n_extremes * n)?,
            ends: self.device.shared::<u32>(n_ends * n)?,
            inputs,
            others,
            stream,
            prepare: prepared - started,
            upload: prepared.elapsed(),
        };
        let count = |n: usize| u32::try_from(n).map_err(|_| too_many());
        // The kernel counts places of every table in 32 bits.
        let lengths = [
            rollout.inputs.cars.len(),
            rollout.inputs.exact.len(),
            rollout.inputs.whole.len(),
            rollout.ring.len(),
            rollout.totals.len(),
            rollout.extremes.len(),
        ];
        for length in lengths {
            count(length)?;
        }
        let n_rows = count(tables.n_rows)?;
        let uploaded = Instant::now();
        // SAFETY: `source` writes the kernel for these tables, which are those of `rollout.cuh` and `traffic.cuh` for
        // `n` lanes; every ring has `n_rows` rows, more than any delay or age of a request in the tables. Places in
        // `pieces` and `lines` lie inside: they were counted when those were filled, the last piece of a road is
        // infinitely long and the last line of a profile has no successor; so do places of actors, of which every lane
        // has its own. A controller reads and writes its own arguments only: those built in by their sources, with the
        // parameters that `CudaControl`'s own constructors give them, and a snippet because
        // whoever called `CudaControl::new` promised it for these parameters; fields are private.
        unsafe { rollout.launch(&self.device, source, count(n)?, n_rows) }?;
        rollout.prepare += uploaded.elapsed();
        Ok(rollout)
    }

    fn others(&self, stream: &Stream, actors: &Actors) -> Result<Others, Failure> {
        let too_many = |_| Failure("more other road users than 32 bits count".to_owned());
        Ok(Others {
            figures: self.filled(stream, &actors.figures)?,
            rules: self.filled(stream, &actors.rules)?,
            slots: self.filled(stream, &actors.slots)?,
            moving: self.filled(stream, &actors.moving)?,
            n_places: u32::try_from(actors.n_places).map_err(too_many)?,
        })
    }

    fn filled<T: Element>(&self, stream: &Stream, from: &[T]) -> Result<Buffer<T>, MemError> {
        // Kernels get no empty tables: a settings table is never empty, others have lanes or actors.
        let mut buffer = self.device.shared::<T>(from.len())?;
        buffer.upload(stream, from)?;
        Ok(buffer)
    }
}

fn kernel_source<P: Parameters>(source: Source) -> KernelSource<P> {
    KernelSource::from_text(source.file, source.text, source.entry)
        .with_headers(source::HEADERS)
        .with_options(source::OPTIONS)
}

/// Compiles the rollouts of a controller, with other road users and without, for a GPU that need not be there, into a
/// folder that is then a cache of kernels there: [`spark_mem::kernel::precompile`].
///
/// # Errors
///
/// [`MemError`]: there is no NVRTC, it refuses the controller, or the folder cannot be written to.
pub fn precompile_rollouts(
    control: &CudaControl,
    compute: spark_mem::kernel::ComputeCapability,
    cache_dir: &std::path::Path,
) -> Result<(), MemError> {
    // One image holds the entries of every model and rule.
    let (model, rule) = (VehicleModel::Kinematic, Integrator::Euler);
    if let Some(source) = source::source(control, model, rule, false) {
        let source: KernelSource<Arguments> = kernel_source(source);
        spark_mem::kernel::precompile(&source, compute, cache_dir)?;
    }
    if let Some(source) = source::source(control, model, rule, true) {
        let source: KernelSource<TrafficArguments> = kernel_source(source);
        spark_mem::kernel::precompile(&source, compute, cache_dir)?;
    }
    Ok(())
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

/// Other road users; the kernel moves them.
#[derive(Debug)]
struct Others {
    figures: Buffer<f64>,
    rules: Buffer<u32>,
    slots: Buffer<u32>,
    moving: Buffer<f64>,
    n_places: u32,
}

/// A group under way.
#[derive(Debug)]
pub(super) struct Rollout {
    n: usize,
    inputs: Inputs,
    others: Option<Others>,
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
    /// Compiles the kernel, if that has not been done yet, and starts it.
    ///
    /// # Safety
    ///
    /// The kernel is made for tables like these, and stays inside them and the results.
    unsafe fn launch(
        &mut self,
        device: &Device,
        source: Source,
        n: u32,
        n_rows: u32,
    ) -> Result<(), Failure> {
        let shape = LaunchShape::for_elements(self.n, THREADS_PER_BLOCK)?;
        let inputs = &self.inputs;
        let arguments = (
            inputs.cars.view(),
            inputs.exact.view(),
            inputs.whole.view(),
            inputs.pieces.view(),
            inputs.lines.view(),
            inputs.settings.view(),
            self.ring.view_mut(),
            self.totals.view_mut(),
            self.extremes.view_mut(),
            self.ends.view_mut(),
            n,
            n_rows,
        );
        if let Some(others) = &mut self.others {
            let kernel: KernelSource<TrafficArguments> = kernel_source(source);
            let kernel = device.kernel(&kernel)?;
            let traffic = (
                others.figures.view(),
                others.rules.view(),
                others.slots.view(),
                others.moving.view_mut(),
                others.n_places,
            );
            // SAFETY: the caller's promise; these are the parameters of every entry for traffic.
            unsafe { kernel.launch(&self.stream, shape, (arguments, traffic)) }?;
        } else {
            let kernel: KernelSource<Arguments> = kernel_source(source);
            let kernel = device.kernel(&kernel)?;
            // SAFETY: the caller's promise; these are the parameters of every other entry.
            unsafe { kernel.launch(&self.stream, shape, arguments) }?;
        }
        Ok(())
    }

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
            let others = self.others.is_some();
            let least = |field: usize| if others { most(field) } else { f32::INFINITY };
            let extreme = Extreme {
                offset: most(0),
                lateral_acceleration: most(1),
                lateral_jerk: most(2),
                deceleration: most(3),
                jerk: most(4),
                margin: most(5),
                ttc: least(N_EXTREMES),
                gap: least(N_EXTREMES + 1),
                headway: least(N_EXTREMES + 2),
            };
            let scenario = lanes[lane].scenario;
            let distance = column(N_SUMS) - scenario.start.distance;
            let mut metrics = sums.metrics(&extreme, scenario.dt_s, distance);
            metrics.collision = (ending[0] == COLLIDED).then(|| Collision {
                time_s: column(N_SUMS + 1),
                closing_speed: column(N_SUMS + 2),
                actor_idx: ends[3 * n + lane] as usize,
            });
            (Ok(metrics), None)
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
        0 | COLLIDED => None,
        1 => not_finite("steering"),
        2 => not_finite("acceleration"),
        _ => Some(ScenarioError::StateNotFinite { step_idx }),
    }
}
