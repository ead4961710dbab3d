//! Many scenarios on many threads, in chunks of bounded memory.
//!
//! ```text
//! iterator --pull a chunk--> validate, group by model --> blocks --threads--> slots
//!          <--hand results over in order-----------------------------------------+
//! ```

use super::block::{Block, BlockOptions, LaneOutcome, Prepared};
use super::latency::Latency;
use super::outcome::{ScenarioError, ScenarioResult};
use crate::SimError;
use crate::control::AlgorithmFactory;
use crate::control::planner::PlannerConfig;
use crate::integrate::Integrator;
use crate::real::SimdLevel;
use crate::scenario::Scenario;
use crate::vehicle::VehicleModel;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How to run.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// Threads; all cores this process may use when absent.
    pub n_threads: Option<usize>,
    /// Scenarios per block, 1 to 4096.
    pub block_size: usize,
    /// Scenarios in memory at a time.
    pub chunk_size: usize,
    /// Between the world and the controller.
    pub planner: PlannerConfig,
    /// `Some(true)` asks for the GPU, which this version cannot use; `None` and `Some(false)` run on the CPU.
    pub use_gpu: Option<bool>,
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
            n_threads: None,
            block_size: 64,
            chunk_size: 4096,
            planner: PlannerConfig::default(),
            use_gpu: None,
            deadline: None,
            measure_latency: false,
            record_interval_s: None,
        }
    }
}

/// All results of a run.
#[derive(Debug)]
pub struct RunReport {
    /// Name of the algorithm.
    pub algorithm: String,
    /// In the order of the scenarios.
    pub results: Vec<ScenarioResult>,
    /// Update times, if they were measured.
    pub latency: Latency,
    /// Wall-clock time, s.
    pub wall_s: f64,
    /// Steps of all scenarios together.
    pub n_agent_steps: u64,
    /// What it ran on.
    pub device: String,
}

/// Runs scenarios against algorithms.
#[derive(Debug, Clone)]
pub struct Simulator {
    options: RunOptions,
    n_threads: usize,
}

impl Simulator {
    /// Checks the options.
    ///
    /// # Errors
    ///
    /// [`SimError::NoGpu`] for `use_gpu: Some(true)`; [`SimError::OutOfRange`] for a
    /// block or chunk size of 0, no thread, or an interval that is not positive.
    pub fn new(options: RunOptions) -> Result<Self, SimError> {
        if options.use_gpu == Some(true) {
            return Err(SimError::NoGpu);
        }
        let available = || std::thread::available_parallelism().map_or(1, usize::from);
        let n_threads = options.n_threads.unwrap_or_else(available);
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
        tracing::info!(
            n_threads,
            "scenarios run on the CPU: there is no GPU path in this version"
        );
        Ok(Self { options, n_threads })
    }

    /// What scenarios run on.
    pub fn device(&self) -> String {
        let level = match SimdLevel::detect() {
            SimdLevel::Scalar => "scalar",
            SimdLevel::Neon => "NEON",
            SimdLevel::Avx2 => "AVX2",
            SimdLevel::Avx512 => "AVX-512",
        };
        format!("cpu, {level}, threads: {}", self.n_threads)
    }

    /// Runs every scenario and keeps the results.
    pub fn run(&self, scenarios: &[Scenario], factory: &dyn AlgorithmFactory) -> RunReport {
        let start = Instant::now();
        let mut results = Vec::with_capacity(scenarios.len());
        let mut latency = Latency::default();
        for (chunk_idx, chunk) in scenarios.chunks(self.options.chunk_size).enumerate() {
            let first = chunk_idx * self.options.chunk_size;
            latency.merge(&self.run_chunk(chunk, first, factory, &mut |r| results.push(r)));
        }
        self.report(factory, results, latency, start)
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
        let (mut n_done, mut latency) = (0, Latency::default());
        loop {
            let chunk: Vec<Scenario> = scenarios.by_ref().take(self.options.chunk_size).collect();
            if chunk.is_empty() {
                return (n_done, latency);
            }
            latency.merge(&self.run_chunk(&chunk, n_done, factory, &mut on_result));
            n_done += chunk.len();
            progress(n_done);
        }
    }

    fn report(
        &self,
        factory: &dyn AlgorithmFactory,
        results: Vec<ScenarioResult>,
        latency: Latency,
        start: Instant,
    ) -> RunReport {
        let steps = results.iter().filter_map(|r| r.outcome.as_ref().ok());
        RunReport {
            algorithm: factory.name().to_owned(),
            n_agent_steps: steps.map(|metrics| metrics.n_steps).sum(),
            results,
            latency,
            wall_s: start.elapsed().as_secs_f64(),
            device: self.device(),
        }
    }

    fn run_chunk(
        &self,
        chunk: &[Scenario],
        first_idx: usize,
        factory: &dyn AlgorithmFactory,
        on_result: &mut dyn FnMut(ScenarioResult),
    ) -> Latency {
        let mut slots: Vec<Option<LaneOutcome>> = (0..chunk.len()).map(|_| None).collect();
        let mut groups: BTreeMap<(VehicleModel, Integrator), Vec<(usize, Prepared<'_>)>> =
            BTreeMap::new();
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
        let mut blocks: Vec<(Vec<usize>, Vec<Prepared<'_>>)> = Vec::new();
        for mut group in groups.into_values() {
            // Scenarios of a length share a block, so that few lanes idle at its end.
            group.sort_by_key(|(place, prepared)| (prepared.scenario.n_steps(), *place));
            let mut group = group.into_iter().peekable();
            while group.peek().is_some() {
                blocks.push(group.by_ref().take(self.options.block_size).unzip());
            }
        }

        let latency = Mutex::new(Latency::default());
        let done = Mutex::new(&mut slots);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut own_latency = Latency::default();
            loop {
                let block_idx = next.fetch_add(1, Ordering::Relaxed);
                let Some((places, lanes)) = blocks.get(block_idx) else {
                    break;
                };
                let outcomes = self.run_block(lanes, factory, &mut own_latency);
                let mut slots = done.lock().unwrap_or_else(|e| e.into_inner());
                for (&place, outcome) in places.iter().zip(outcomes) {
                    slots[place] = Some(outcome);
                }
            }
            let mut all = latency.lock().unwrap_or_else(|e| e.into_inner());
            all.merge(&own_latency);
        };
        let n_threads = self.n_threads.min(blocks.len());
        if n_threads <= 1 {
            work();
        } else {
            std::thread::scope(|scope| {
                for _ in 1..n_threads {
                    scope.spawn(work);
                }
                work();
            });
        }

        for (place, slot) in slots.into_iter().enumerate() {
            let (outcome, trace) = slot.expect("every block filled its slots");
            on_result(ScenarioResult {
                index: first_idx + place,
                name: chunk[place].name.clone(),
                outcome,
                trace,
            });
        }
        latency.into_inner().unwrap_or_else(|e| e.into_inner())
    }

    fn run_block(
        &self,
        lanes: &[Prepared<'_>],
        factory: &dyn AlgorithmFactory,
        latency: &mut Latency,
    ) -> Vec<LaneOutcome> {
        let options = BlockOptions {
            planner: self.options.planner,
            deadline: self.options.deadline,
            measure_latency: self.options.measure_latency,
            record_interval_s: self.options.record_interval_s,
        };
        let drive = AssertUnwindSafe(|| {
            let mut algorithm = factory.create();
            Block::new(lanes, options).run(algorithm.as_mut(), &mut *latency)
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
