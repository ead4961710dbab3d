//! Rollouts on the stand-in driver, which runs the kernels' sources on the CPU: the same bits as
//! the CPU path, and every failure in its place.

use spark_mem::{Device, DeviceOptions};
use spark_sim::SimError;
use spark_sim::control::{
    Action, AlgorithmFactory, Combined, CudaControl, DoNothing, LaneAlgorithm, LaneSetup,
    LateralPid, LateralPidConfig, Longitudinal, LongitudinalConfig, PerLane, PerfectTracking,
    State, cuda_only, named,
};
use spark_sim::integrate::Integrator;
use spark_sim::run::{RunOptions, RunReport, ScenarioError, Simulator, rollout_source};
use spark_sim::scenario::{Fuzzer, Scenario, built_in};
use spark_sim::vehicle::{SteerInterface, VehicleModel};
use spark_testing::driver::{Build, Persona, Posed, StandInDriver};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Steers with an integral; its answer is NaN once it has driven `gains[2]` seconds.
const OWN: &str = r"
struct Control {
  struct Memory { float integral; };
  __device__ static void update(const sim::State& s, const sim::Car& car, const float* gains,
                                Memory& memory, sim::Action& action) {
    memory.integral = memory.integral + s.lateral_offset * s.dt;
    action.steer = s.road_curvature - gains[0] * s.lateral_offset - gains[1] * memory.integral;
    if (s.time > gains[2]) action.steer = (action.steer - action.steer) / 0.0f;
  }
};
";

/// The same in Rust.
struct Own {
    integral: f32,
    gains: [f32; 3],
}

impl LaneAlgorithm for Own {
    fn reset(&mut self, _setup: &LaneSetup) {
        self.integral = 0.0;
    }
    fn update(&mut self, s: &State<f32>) -> Action<f32> {
        self.integral += s.lateral_offset * s.dt;
        let [proportional, integral, end] = self.gains;
        let mut steer =
            s.road_curvature - proportional * s.lateral_offset - integral * self.integral;
        if s.time > end {
            steer = f32::NAN;
        }
        Action {
            steer,
            ..Action::default()
        }
    }
}

fn own_control(gains: [f32; 3]) -> CudaControl {
    let steer = Some(SteerInterface::Curvature);
    CudaControl::new(OWN, gains.to_vec(), steer, false).expect("a valid snippet")
}

fn own(gains: [f32; 3]) -> impl AlgorithmFactory {
    named("own", move || {
        let make = move || Own {
            integral: 0.0,
            gains,
        };
        PerLane::new(Some(SteerInterface::Curvature), false, make)
    })
    .with_cuda(own_control(gains))
}

fn pid_and_long() -> impl AlgorithmFactory {
    let lateral = LateralPidConfig::default();
    let longitudinal = LongitudinalConfig::default();
    let control = CudaControl::lateral_pid_and_longitudinal(&lateral, &longitudinal);
    named("pid and long", move || {
        let lateral = LateralPid::new(LateralPidConfig::default());
        Combined::new(lateral, Longitudinal::new(longitudinal))
    })
    .with_cuda(control)
}

fn driver() -> &'static StandInDriver {
    static DRIVER: OnceLock<StandInDriver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rollout_own.cu");
        std::fs::write(&own, rollout_source(&own_control([0.0; 3]))).expect("a writable folder");
        let files = [
            "rollout_perfect.cu",
            "rollout_pid.cu",
            "rollout_pid_long.cu",
        ];
        let mut files: Vec<PathBuf> = files.iter().map(|name| folder.join(name)).collect();
        files.push(own);
        let kernels: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let build = Build {
            kernels: &kernels,
            includes: &[&folder],
            ..Build::default()
        };
        StandInDriver::load(&build).expect("the stand-in driver builds")
    })
}

/// Runs a test on a device of this persona and asserts that nothing is left behind.
#[track_caller]
fn with_gpu(persona: Persona, test: impl FnOnce(&Posed<'_>, &Device)) {
    let posed = driver().pose(persona);
    let options = DeviceOptions {
        use_unified_memory: true,
        budget_bytes: None,
        cache_dir: None,
    };
    let device = Device::cuda(0, options).expect("the stand-in driver has a device");
    test(&posed, &device);
    drop(device);
    posed.assert_clean();
}

fn on(device: &Device, use_gpu: Option<bool>) -> Simulator {
    let options = RunOptions {
        use_gpu,
        chunk_size: 50,
        ..RunOptions::default()
    };
    Simulator::on_device(options, device.clone()).expect("valid options")
}

fn on_cpu() -> Simulator {
    let options = RunOptions {
        use_gpu: Some(false),
        ..RunOptions::default()
    };
    Simulator::new(options).expect("valid options")
}

/// Both models and rules, roads with grade and bank, wind, noise, delays, requests.
fn scenarios() -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = Fuzzer::new(7).iter(80).collect();
    scenarios.extend(built_in(3));
    for (i, scenario) in scenarios.iter_mut().enumerate() {
        scenario.actors.clear();
        scenario.duration_s = scenario.duration_s.min(12.0);
        scenario.vehicle.integrator = match i % 3 {
            0 => Integrator::Euler,
            _ => Integrator::Rk4,
        };
    }
    scenarios
}

fn outcomes(report: &RunReport) -> Vec<String> {
    let results = report.results.iter();
    results
        .map(|r| format!("{} {} {:?}", r.index, r.name, r.outcome))
        .collect()
}

#[track_caller]
fn check_same_bits(device: &Device, factory: &dyn AlgorithmFactory, scenarios: &[Scenario]) {
    let cpu = on_cpu().run(scenarios, factory);
    let gpu = on(device, Some(true)).run(scenarios, factory);
    assert_eq!(gpu.n_on_gpu, scenarios.len());
    assert_eq!(cpu.n_on_gpu, 0);
    for (g, c) in outcomes(&gpu).iter().zip(outcomes(&cpu)) {
        assert_eq!(*g, c, "{}", factory.name());
    }
}

#[test]
fn rollouts_have_the_bits_of_the_cpu() {
    let scenarios = scenarios();
    let models = scenarios.iter().map(|s| s.vehicle.model);
    assert!(models.clone().any(|m| m == VehicleModel::SingleTrack));
    assert!(models.clone().any(|m| m == VehicleModel::Kinematic));
    let pid = named("pid", || LateralPid::new(LateralPidConfig::default()))
        .with_cuda(CudaControl::lateral_pid(&LateralPidConfig::default()));
    let perfect = named("perfect", || PerfectTracking).with_cuda(CudaControl::perfect_tracking());
    for persona in [Persona::Spark, Persona::Card] {
        with_gpu(persona, |_, device| {
            check_same_bits(device, &pid_and_long(), &scenarios);
            check_same_bits(device, &pid, &scenarios);
            check_same_bits(device, &perfect, &scenarios);
        });
    }
}

#[test]
fn a_snippet_of_ones_own_drives_like_its_twin_and_fails_like_it() {
    let scenarios = scenarios();
    with_gpu(Persona::Spark, |_, device| {
        check_same_bits(device, &own([1e-3, 1e-5, 100.0]), &scenarios);
        check_same_bits(device, &own([1e-3, 1e-5, 6.0]), &scenarios);
        let gpu = on(device, Some(true)).run(&scenarios, &own([1e-3, 1e-5, 6.0]));
        let failed = gpu.results.iter().filter(|r| {
            let outcome = r.outcome.as_ref();
            matches!(outcome, Err(ScenarioError::ActionNotFinite { step_idx, .. }) if *step_idx >= 600)
        });
        assert!(failed.count() > 50);
    });
}

#[test]
fn what_a_gpu_does_not_drive_runs_on_the_cpu_or_fails_by_name() {
    let mut scenarios: Vec<Scenario> = Fuzzer::new(1).iter(20).collect();
    scenarios[3].vehicle.model = VehicleModel::Drift;
    scenarios[3].dt_s = 0.001;
    scenarios[4].dt_s = f64::NAN;
    let n_plain = scenarios.iter().filter(|s| s.actors.is_empty()).count();
    with_gpu(Persona::Spark, |_, device| {
        let cpu = on_cpu().run(&scenarios, &pid_and_long());
        let mixed = on(device, None).run(&scenarios, &pid_and_long());
        assert_eq!(outcomes(&mixed), outcomes(&cpu));
        assert!(mixed.n_on_gpu > 0 && mixed.n_on_gpu < scenarios.len());
        assert!(mixed.n_on_gpu <= n_plain);

        let strict = on(device, Some(true)).run(&scenarios, &pid_and_long());
        for (result, scenario) in strict.results.iter().zip(&scenarios) {
            let refused = matches!(result.outcome, Err(ScenarioError::NotOnDevice { .. }));
            let invalid = matches!(result.outcome, Err(ScenarioError::Invalid(_)));
            let plain = scenario.actors.is_empty() && scenario.vehicle.model != VehicleModel::Drift;
            assert_eq!(refused, !plain && !invalid, "{result:?}");
        }
        // A controller without CUDA C, the other way round, and neither.
        let idle = named("idle", || DoNothing);
        let report = on(device, None).run(&scenarios, &idle);
        assert_eq!(report.n_on_gpu, 0);
        assert!(report.results[0].outcome.is_ok());
        let gpu_only = cuda_only("own", own_control([1e-3, 0.0, 100.0]));
        let report = on(device, None).run(&scenarios, &gpu_only);
        assert_eq!(report.n_on_gpu, mixed.n_on_gpu);
        let report = on_cpu().run(&scenarios, &gpu_only);
        let refused = report
            .results
            .iter()
            .filter(|r| matches!(r.outcome, Err(ScenarioError::NotOnDevice { .. })));
        assert_eq!(refused.count(), scenarios.len() - 1);
    });
}

#[test]
fn a_gpu_that_fails_is_named_or_replaced() {
    let scenarios = &scenarios()[..10];
    with_gpu(Persona::Card, |posed, device| {
        posed.fail_allocation(1);
        let report = on(device, Some(true)).run(scenarios, &pid_and_long());
        let failed = |r: &&spark_sim::run::ScenarioResult| {
            matches!(r.outcome, Err(ScenarioError::Gpu { .. }))
        };
        assert!(report.results.iter().filter(failed).count() > 0);
        posed.fail_allocation(1);
        let report = on(device, None).run(scenarios, &pid_and_long());
        let cpu = on_cpu().run(scenarios, &pid_and_long());
        assert_eq!(outcomes(&report), outcomes(&cpu));
        assert!(report.n_on_gpu < scenarios.len());
    });
    with_gpu(Persona::Spark, |_, device| {
        let broken = "#error not today\nstruct Control {};";
        let control = CudaControl::new(broken, Vec::new(), None, false).expect("some text");
        let factory = cuda_only("broken", control);
        let report = on(device, Some(true)).run(scenarios, &factory);
        for result in &report.results {
            let said = format!("{}", result.outcome.as_ref().expect_err("does not compile"));
            assert!(
                said.contains("does not compile") && said.contains("not today"),
                "{said}"
            );
        }
    });
}

#[test]
fn options_that_no_gpu_has_are_refused_with_it() {
    with_gpu(Persona::Spark, |_, device| {
        let options = RunOptions {
            record_interval_s: Some(0.1),
            ..RunOptions::default()
        };
        let refused = Simulator::on_device(options, device.clone());
        assert!(matches!(refused, Err(SimError::CpuOnly { .. })));
    });
    let refused = Simulator::on_device(RunOptions::default(), Device::host());
    assert!(matches!(refused, Err(SimError::NoGpu { .. })));
    for snippet in ["", "struct Other {};", "struct Control {}; \0"] {
        let refused = CudaControl::new(snippet, Vec::new(), None, false);
        assert!(
            matches!(refused, Err(SimError::Snippet { .. })),
            "{snippet:?}"
        );
    }
}
