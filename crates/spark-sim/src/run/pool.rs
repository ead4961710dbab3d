//! Many scenarios on many threads, in chunks of bounded memory.
//!
//! ```text
//! iterator --pull a chunk--> validate, group by model --+--> GPU: what it can ------> slots
//!                                                       +--> blocks --threads-----> slots
//!          <--hand results over in order------------------------------------------------+
//! ```

use super::block::{Block, BlockOptions, LaneOutcome};
#[cfg(feature = "cuda")]
use super::gpu::Gpu;
use super::latency::Latency;
use super::outcome::{ScenarioError, ScenarioResult};
use super::report::RunReport;
use super::tables::Prepared;
use crate::SimError;
use crate::control::AlgorithmFactory;
use crate::control::planner::PlannerConfig;
use crate::integrate::Integrator;
use crate::metric::Metrics;
use crate::real::Isa;
use crate::scenario::Scenario;
use crate::vehicle::VehicleModel;
use spark_hal::config::DeviceChoice;
use spark_simd::InstructionSet;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Where, on how many threads and how closely watched scenarios are run.
///
/// # Examples
///
/// ```
/// use spark_sim::run::{RunOptions, Simulator};
///
/// let options = RunOptions::default().with_threads(2).with_record_interval_s(0.1);
/// let simulator = Simulator::new(options)?; // keeps a row of every drive each tenth of a second
/// # Ok::<(), spark_sim::SimError>(())
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RunOptions {
    /// Threads at most, of those that the process shares ([`spark_parallel::shared`]); all cores this
    /// process may use when absent.
    pub threads: Option<usize>,
    /// Scenarios per block, 1 to 4096.
    pub block_size: usize,
    /// Scenarios in memory at a time.
    pub chunk_size: usize,
    /// Between the world and the controller.
    pub planner: PlannerConfig,
    /// `Some(Cuda(..))`: on that GPU, and what cannot run there fails. `Some(Cpu)`: on the CPU.
    /// `Some(Auto)`: on a GPU what can, where there is one; the rest on the CPU. `None`: as `Auto`,
    /// but a GPU that the environment asks for (`SPARK_DEVICE=cuda`, `CUDA=1`) and that cannot be had
    /// is an error, with the feature `cuda`, and `SPARK_DEVICE=cpu` keeps all on the CPU.
    pub device: Option<DeviceChoice>,
    /// Longest wall-clock time of one update, per scenario in the block; exceeding it fails the block's scenarios.
    pub deadline: Option<Duration>,
    /// Whether to time every update. Times differ from run to run; results do not.
    pub measure_latency: bool,
    /// Keep a trace of every scenario, one row per this many seconds.
    pub record_interval_s: Option<f64>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            threads: None,
            block_size: 64,
            chunk_size: 4096,
            planner: PlannerConfig::default(),
            device: None,
            deadline: None,
            measure_latency: false,
            record_interval_s: None,
        }
    }
}

impl RunOptions {
    /// With at most this many threads.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// With this many scenarios per block; results do not depend on it.
    #[must_use]
    pub fn with_block_size(mut self, block_size: usize) -> Self {
        self.block_size = block_size;
        self
    }

    /// With this many scenarios in memory at a time; results do not depend on it.
    #[must_use]
    pub fn with_chunk_size(mut self, chunk_size: usize) -> Self {
        self.chunk_size = chunk_size;
        self
    }

    /// With this planner between the world and the controller.
    #[must_use]
    pub fn with_planner(mut self, planner: PlannerConfig) -> Self {
        self.planner = planner;
        self
    }

    /// On this device, whatever the environment says.
    #[must_use]
    pub fn with_device(mut self, device: DeviceChoice) -> Self {
        self.device = Some(device);
        self
    }

    /// With this longest wall-clock time of one update, per scenario in the block.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// With every update timed.
    #[must_use]
    pub fn with_measured_latency(mut self) -> Self {
        self.measure_latency = true;
        self
    }

    /// With a trace of every scenario, one row per this many seconds.
    #[must_use]
    pub fn with_record_interval_s(mut self, interval_s: f64) -> Self {
        self.record_interval_s = Some(interval_s);
        self
    }

    /// Whether only a GPU will do.
    fn needs_gpu(&self) -> bool {
        matches!(self.device, Some(DeviceChoice::Cuda(_)))
    }
}

/// Runs scenarios against algorithms.
///
/// # Examples
///
/// ```
/// use spark_sim::control::{PurePursuit, PurePursuitConfig, named};
/// use spark_sim::run::{RunOptions, Simulator};
/// use spark_sim::scenario::Scenario;
///
/// let simulator = Simulator::new(RunOptions::default())?;
/// let follower = named("follower", || PurePursuit::new(PurePursuitConfig::default()));
/// let report = simulator.run(&[Scenario::straight("straight", 20.0, 5.0)], &follower);
/// let metrics = report.results[0].outcome.as_ref().expect("it can be driven");
/// assert!((metrics.distance_m - 100.0).abs() < 1.0); // 5 s at 20 m/s
/// # Ok::<(), spark_sim::SimError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Simulator {
    options: RunOptions,
    n_threads: usize,
    #[cfg(feature = "cuda")]
    gpu: Option<Gpu>,
}

/// Scenarios of a chunk with their places in it.
type Group<'a> = Vec<(usize, Prepared<'a>)>;

/// How a chunk went, beyond its results.
#[derive(Default)]
struct ChunkReport {
    latency: Latency,
    n_on_gpu: usize,
}

impl ChunkReport {
    fn add(&mut self, other: Self) {
        self.latency.merge(&other.latency);
        self.n_on_gpu += other.n_on_gpu;
    }
}

/// What these options ask for that no GPU does.
fn cpu_only(options: &RunOptions) -> Option<&'static str> {
    let asked = [
        (options.deadline.is_some(), "a deadline"),
        (options.measure_latency, "measuring update times"),
        (options.record_interval_s.is_some(), "recording drives"),
    ];
    asked.into_iter().find_map(|(on, what)| on.then_some(what))
}

fn refuse_cpu_only(options: &RunOptions) -> Result<(), SimError> {
    match cpu_only(options) {
        Some(what) => Err(SimError::CpuOnly { what }),
        None => Ok(()),
    }
}

/// Logs why no GPU is used. Programs make many simulators; the first one's reason is enough.
fn say_once_why_on_the_cpu(reason: &str) {
    static SAID: std::sync::Once = std::sync::Once::new();
    SAID.call_once(|| tracing::info!("scenarios run on the CPU: {reason}"));
}

/// Why a GPU did not drive this scenario.
fn not_on_gpu(lane: &Prepared<'_>, factory: &dyn AlgorithmFactory) -> &'static str {
    if factory.cuda().is_none() {
        return "the controller has no version for the GPU";
    }
    #[cfg(feature = "cuda")]
    if let Some(reason) = Gpu::refusal(lane) {
        return reason;
    }
    let _ = lane;
    "there is no GPU"
}

/// The metrics with what the scenario requests, which progress is measured against.
fn beside_requests(mut metrics: Metrics, scenario: &Scenario) -> Metrics {
    metrics.duration_requested_s = Some(scenario.n_steps() as f64 * scenario.dt_s);
    metrics.distance_requested_m = Some(scenario.requested_distance_m());
    metrics
}

/// Metrics that say something about a drive.
fn finite(metrics: Metrics) -> Result<Metrics, ScenarioError> {
    match metrics.not_finite() {
        None => Ok(metrics),
        Some((metric, got)) => Err(ScenarioError::MetricNotFinite { metric, got }),
    }
}

impl Simulator {
    /// Checks the options and, unless told otherwise, looks for a GPU.
    ///
    /// # Errors
    ///
    /// [`SimError::NoGpu`] if a GPU was asked for and cannot be had: by [`RunOptions::device`], or,
    /// where that is `None`, by the environment (`SPARK_DEVICE=cuda`, `CUDA=1`);
    /// [`SimError::CpuOnly`] if `device` asks for one together with what it does not do;
    /// [`SimError::OutOfRange`] for a
    /// block or chunk size of 0, no thread, an interval that is not positive, or a planner's figure
    /// outside [`PlannerConfig::check`](crate::control::planner::PlannerConfig::check).
    pub fn new(options: RunOptions) -> Result<Self, SimError> {
        #[cfg_attr(not(feature = "cuda"), allow(unused_mut, reason = "no GPU to add"))]
        let mut simulator = Self::on_cpu(options)?;
        if options.needs_gpu() {
            refuse_cpu_only(&options)?;
        }
        #[cfg(feature = "cuda")]
        match (options.device, cpu_only(&options)) {
            (Some(DeviceChoice::Cpu), _) => {}
            (None | Some(DeviceChoice::Auto), Some(what)) => {
                say_once_why_on_the_cpu(&format!("{what} exists there only"));
            }
            (asked, _) => match Gpu::open(asked).map_err(|reason| SimError::NoGpu { reason })? {
                Some(gpu) => simulator.gpu = Some(gpu),
                None => {
                    let reason = "no GPU can be used here".to_owned();
                    if options.needs_gpu() {
                        return Err(SimError::NoGpu { reason });
                    }
                    say_once_why_on_the_cpu(&reason);
                }
            },
        }
        #[cfg(not(feature = "cuda"))]
        if options.device.unwrap_or(spark_hal::config().device) != DeviceChoice::Cpu {
            let reason = "this program was built without the feature `cuda`".to_owned();
            if options.needs_gpu() {
                return Err(SimError::NoGpu { reason });
            }
            say_once_why_on_the_cpu(&reason);
        }
        Ok(simulator)
    }

    /// Runs on this device, which is a GPU.
    ///
    /// # Errors
    ///
    /// As [`Simulator::new`]; [`SimError::NoGpu`] for another kind of device.
    #[cfg(feature = "cuda")]
    pub fn on_device(options: RunOptions, device: spark_mem::Device) -> Result<Self, SimError> {
        refuse_cpu_only(&options)?;
        if !matches!(device.info().kind, spark_mem::DeviceKind::Cuda(_)) {
            let reason = format!("{} is none", device.info().name);
            return Err(SimError::NoGpu { reason });
        }
        let gpu = Some(Gpu::new(device));
        Ok(Self {
            gpu,
            ..Self::on_cpu(options)?
        })
    }

    fn on_cpu(options: RunOptions) -> Result<Self, SimError> {
        let available = || spark_parallel::usable_threads().get();
        let n_threads = options.threads.unwrap_or_else(available);
        let sizes = [
            ("threads", n_threads, 1..=4096, "between 1 and 4096"),
            (
                "block size",
                options.block_size,
                1..=4096,
                "between 1 and 4096",
            ),
            (
                "chunk size",
                options.chunk_size,
                1..=1 << 20,
                "between 1 and 1048576",
            ),
        ];
        for (what, got, range, want) in sizes {
            if !range.contains(&got) {
                let got = got as f64;
                return Err(SimError::OutOfRange { what, got, want });
            }
        }
        if let Some(got) = options.record_interval_s
            && !(got.is_finite() && got > 0.0)
        {
            return Err(SimError::OutOfRange {
                what: "recording interval (s)",
                got,
                want: "a finite number above zero",
            });
        }
        options.planner.check()?;
        Ok(Self {
            options,
            n_threads,
            #[cfg(feature = "cuda")]
            gpu: None,
        })
    }

    /// What scenarios run on, or can: the GPU takes what it can drive.
    pub fn device(&self) -> String {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            return format!("{}, else {}", gpu.name(), self.cpu());
        }
        self.cpu()
    }

    fn cpu(&self) -> String {
        let level = match Isa::detect().set() {
            InstructionSet::Scalar => "scalar",
            InstructionSet::Neon => "NEON",
            InstructionSet::Avx2 => "AVX2",
            InstructionSet::Avx512 => "AVX-512",
        };
        format!("cpu, {level}")
    }

    /// Threads at most that drive, beside a GPU.
    pub fn n_threads(&self) -> usize {
        self.n_threads.min(spark_parallel::usable_threads().get())
    }

    /// Runs every scenario and keeps the results.
    pub fn run(&self, scenarios: &[Scenario], factory: &dyn AlgorithmFactory) -> RunReport {
        self.run_with_progress(scenarios, factory, |_| {})
    }

    /// As [`Simulator::run`]; `progress` gets the number done so far after every chunk.
    pub fn run_with_progress(
        &self,
        scenarios: &[Scenario],
        factory: &dyn AlgorithmFactory,
        mut progress: impl FnMut(usize),
    ) -> RunReport {
        let start = Instant::now();
        let mut results = Vec::with_capacity(scenarios.len());
        let mut report = ChunkReport::default();
        for (chunk_idx, chunk) in scenarios.chunks(self.options.chunk_size).enumerate() {
            let first = chunk_idx * self.options.chunk_size;
            report.add(self.run_chunk(chunk, first, factory, &mut |r| results.push(r)));
            progress(results.len());
        }
        self.report(factory, results, report, start)
    }

    /// Runs every scenario `n_replicates` times, each time with other noise, and keeps the
    /// results: those of a scenario lie side by side and share its index. Replicate 0 has the
    /// scenario's own seed, so one replicate is [`Simulator::run`]; the seeds of the others are
    /// [`Scenario::with_replicate_seed`]. A scenario in which nothing is drawn
    /// ([`Scenario::is_random`]) is driven alike each time. No replicate gives no result.
    pub fn run_replicates(
        &self,
        scenarios: &[Scenario],
        n_replicates: usize,
        factory: &dyn AlgorithmFactory,
    ) -> RunReport {
        self.run_replicates_with_progress(scenarios, n_replicates, factory, |_| {})
    }

    /// As [`Simulator::run_replicates`]; `progress` gets the number of drives done so far after every chunk.
    pub fn run_replicates_with_progress(
        &self,
        scenarios: &[Scenario],
        n_replicates: usize,
        factory: &dyn AlgorithmFactory,
        progress: impl FnMut(usize),
    ) -> RunReport {
        let drives = 0..scenarios.len().saturating_mul(n_replicates);
        self.run_drives(scenarios, n_replicates, drives, factory, progress)
    }

    /// Runs some of the drives of [`Simulator::run_replicates`], by their numbers there: drive `d` is replicate
    /// `d % n_replicates` of scenario `d / n_replicates`. Each result is the one that the whole run has
    /// in that place, bit for bit. Numbers beyond the last drive give no result.
    pub fn run_drives(
        &self,
        scenarios: &[Scenario],
        n_replicates: usize,
        drives: impl IntoIterator<Item = usize>,
        factory: &dyn AlgorithmFactory,
        mut progress: impl FnMut(usize),
    ) -> RunReport {
        let start = Instant::now();
        let mut results = Vec::new();
        let mut report = ChunkReport::default();
        let mut places = drives.into_iter().filter_map(|drive| {
            let index = drive.checked_div(n_replicates)?;
            let scenario = scenarios.get(index)?;
            Some((index, drive % n_replicates, scenario))
        });
        loop {
            let chunk: Vec<_> = places.by_ref().take(self.options.chunk_size).collect();
            if chunk.is_empty() {
                break;
            }
            let seeded = |&(_, replicate, scenario): &(usize, usize, &Scenario)| {
                scenario.with_replicate_seed(replicate as u64)
            };
            let seeded: Vec<Scenario> = chunk.iter().map(seeded).collect();
            report.add(self.run_chunk(&seeded, 0, factory, &mut |mut result| {
                (result.index, result.replicate, _) = chunk[result.index];
                results.push(result);
            }));
            progress(results.len());
        }
        self.report(factory, results, report, start)
    }

    /// Runs scenarios as an iterator yields them, at most a chunk at a time in memory, and
    /// hands over every result in order. `progress` gets the number done so far.
    ///
    /// Returns the number of scenarios and the update times.
    pub fn stream(
        &self,
        scenarios: impl IntoIterator<Item = Scenario>,
        factory: &dyn AlgorithmFactory,
        mut on_result: impl FnMut(ScenarioResult),
        mut progress: impl FnMut(usize),
    ) -> (usize, Latency) {
        let mut scenarios = scenarios.into_iter();
        let (mut n_done, mut report) = (0, ChunkReport::default());
        loop {
            let chunk: Vec<Scenario> = scenarios.by_ref().take(self.options.chunk_size).collect();
            if chunk.is_empty() {
                return (n_done, report.latency);
            }
            report.add(self.run_chunk(&chunk, n_done, factory, &mut on_result));
            n_done += chunk.len();
            progress(n_done);
        }
    }

    fn report(
        &self,
        factory: &dyn AlgorithmFactory,
        results: Vec<ScenarioResult>,
        how: ChunkReport,
        start: Instant,
    ) -> RunReport {
        let steps = results.iter().filter_map(|r| r.outcome.as_ref().ok());
        RunReport {
            algorithm: factory.name().to_owned(),
            n_agent_steps: steps.map(|metrics| metrics.n_steps).sum(),
            n_on_gpu: how.n_on_gpu,
            scenarios: None,
            results,
            latency: how.latency,
            wall_s: Some(start.elapsed().as_secs_f64()),
            device: self.device(),
            n_threads: Some(self.n_threads()),
        }
    }

    fn run_chunk(
        &self,
        chunk: &[Scenario],
        first_idx: usize,
        factory: &dyn AlgorithmFactory,
        on_result: &mut dyn FnMut(ScenarioResult),
    ) -> ChunkReport {
        let mut slots: Vec<Option<LaneOutcome>> = (0..chunk.len()).map(|_| None).collect();
        let mut groups: BTreeMap<(VehicleModel, Integrator), Group<'_>> = BTreeMap::new();
        for (place, scenario) in chunk.iter().enumerate() {
            match scenario.validate() {
                Ok(road) => {
                    let key = (scenario.vehicle.model, scenario.vehicle.integrator);
                    let prepared = Prepared { scenario, road };
                    groups.entry(key).or_default().push((place, prepared));
                }
                Err(error) => slots[place] = Some((Err(ScenarioError::Invalid(error)), None)),
            }
        }
        let mut report = ChunkReport::default();
        let mut groups: Vec<Group<'_>> = groups.into_values().collect();
        for group in &mut groups {
            // Scenarios of a length lie side by side, so that few lanes idle at their end.
            group.sort_by_key(|(place, prepared)| (prepared.scenario.n_steps(), *place));
        }
        #[cfg(feature = "cuda")]
        let groups = self.run_on_gpu(groups, factory, &mut slots, &mut report.n_on_gpu);
        if self.options.needs_gpu() {
            for (place, lane) in groups.into_iter().flatten() {
                let reason = not_on_gpu(&lane, factory);
                slots[place] = Some((Err(ScenarioError::NotOnDevice { reason }), None));
            }
        } else {
            report.latency = self.run_on_cpu(groups, factory, &mut slots);
        }
        for (place, slot) in slots.into_iter().enumerate() {
            let (outcome, trace) = slot.expect("every scenario was run or refused");
            let scenario = &chunk[place];
            on_result(ScenarioResult {
                index: first_idx + place,
                replicate: 0,
                name: scenario.name.clone(),
                family: scenario.family.clone(),
                seed: scenario.seed,
                outcome: outcome
                    .and_then(finite)
                    .map(|metrics| beside_requests(metrics, scenario)),
                trace,
            });
        }
        report
    }

    /// Drives what the GPU can, all groups at once, and returns the rest.
    #[cfg(feature = "cuda")]
    fn run_on_gpu<'a>(
        &self,
        groups: Vec<Group<'a>>,
        factory: &dyn AlgorithmFactory,
        slots: &mut [Option<LaneOutcome>],
        n_on_gpu: &mut usize,
    ) -> Vec<Group<'a>> {
        let (Some(gpu), Some(control)) = (&self.gpu, factory.cuda()) else {
            return groups;
        };
        let start = |group: Group<'a>| {
            let (taken, left): (Group<'a>, Group<'a>) = group
                .into_iter()
                .partition(|(_, lane)| Gpu::refusal(lane).is_none());
            // Scenarios with other road users have kernels of their own.
            let (busy, alone): (Group<'a>, Group<'a>) = taken
                .into_iter()
                .partition(|(_, lane)| !lane.scenario.actors.is_empty());
            let rollout = |group: Group<'a>| {
                let (places, lanes): (Vec<usize>, Vec<Prepared<'a>>) = group.into_iter().unzip();
                let rollout = gpu.start(&lanes, self.block_options(), control);
                (places, lanes, rollout)
            };
            let groups = [alone, busy].into_iter().filter(|group| !group.is_empty());
            (left, groups.map(rollout).collect::<Vec<_>>())
        };
        let started: Vec<_> = groups.into_iter().map(start).collect();
        let mut all_left = Vec::with_capacity(started.len());
        for (mut left, rollouts) in started {
            for (places, lanes, rollout) in rollouts {
                match rollout.and_then(|rollout| rollout.finish(&lanes)) {
                    Ok(outcomes) => {
                        *n_on_gpu += lanes.len();
                        for (place, outcome) in places.into_iter().zip(outcomes) {
                            slots[place] = Some(outcome);
                        }
                    }
                    Err(message) if self.options.needs_gpu() => {
                        for place in places {
                            let message = message.clone();
                            slots[place] = Some((Err(ScenarioError::Gpu { message }), None));
                        }
                    }
                    Err(message) => {
                        let n = lanes.len();
                        tracing::warn!(
                            "{n} scenarios run on the CPU instead of the GPU: {message}"
                        );
                        left.extend(places.into_iter().zip(lanes));
                    }
                }
            }
            left.sort_by_key(|(place, prepared)| (prepared.scenario.n_steps(), *place));
            all_left.push(left);
        }
        all_left
    }

    /// Drives groups in blocks, on all threads.
    fn run_on_cpu(
        &self,
        groups: Vec<Group<'_>>,
        factory: &dyn AlgorithmFactory,
        slots: &mut [Option<LaneOutcome>],
    ) -> Latency {
        let mut blocks: Vec<(Vec<usize>, Vec<Prepared<'_>>)> = Vec::new();
        for group in groups {
            let mut group = group.into_iter().peekable();
            while group.peek().is_some() {
                blocks.push(group.by_ref().take(self.options.block_size).unzip());
            }
        }
        let latency = Mutex::new(Latency::default());
        let done = Mutex::new(slots);
        // The process's threads and none of its own: programs make many simulators.
        spark_parallel::shared().run_on(self.n_threads, blocks.len(), |block_idx| {
            let (places, lanes) = &blocks[block_idx];
            let mut own_latency = Latency::default();
            let outcomes = self.run_block(lanes, factory, &mut own_latency);
            let mut slots = done.lock().unwrap_or_else(|e| e.into_inner());
            for (&place, outcome) in places.iter().zip(outcomes) {
                slots[place] = Some(outcome);
            }
            drop(slots);
            let mut all = latency.lock().unwrap_or_else(|e| e.into_inner());
            all.merge(&own_latency);
        });
        latency.into_inner().unwrap_or_else(|e| e.into_inner())
    }

    fn block_options(&self) -> BlockOptions {
        BlockOptions {
            planner: self.options.planner,
            deadline: self.options.deadline,
            measure_latency: self.options.measure_latency,
            record_interval_s: self.options.record_interval_s,
        }
    }

    fn run_block(
        &self,
        lanes: &[Prepared<'_>],
        factory: &dyn AlgorithmFactory,
        latency: &mut Latency,
    ) -> Vec<LaneOutcome> {
        let options = self.block_options();
        let drive = AssertUnwindSafe(|| match factory.create() {
            Some(mut algorithm) => Block::new(lanes, options).run(algorithm.as_mut(), latency),
            None => {
                let reason = "the controller exists in CUDA C only";
                let refused = || (Err(ScenarioError::NotOnDevice { reason }), None);
                lanes.iter().map(|_| refused()).collect()
            }
        });
        match catch_unwind(drive) {
            Ok(outcomes) => outcomes,
            Err(payload) if lanes.len() == 1 => {
                let message = payload
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
                    .or_else(|| payload.downcast_ref::<String>().cloned())
                    .unwrap_or_else(|| "no message".to_owned());
                vec![(Err(ScenarioError::Panicked { message }), None)]
            }
            // Somebody in this block panicked: one by one, only they fail.
            Err(_) => (0..lanes.len())
                .flat_map(|lane| self.run_block(&lanes[lane..=lane], factory, latency))
                .collect(),
        }
    }
}
