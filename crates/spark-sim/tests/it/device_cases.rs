//! What rollouts on any GPU must do: the same bits as the CPU. Run on a stand-in driver by `it`
//! and on the GPU of the machine, where there is one, by `gpu`.

#![allow(unsafe_code, reason = "vouches for a snippet of CUDA C")]

use spark_hal::config::DeviceChoice;
use spark_mem::Device;
use spark_sim::Profile;
use spark_sim::control::{
    Action, AlgorithmFactory, Combined, CudaControl, LaneAlgorithm, LaneSetup, LateralPid,
    LateralPidConfig, LateralTorque, LateralTorqueConfig, Longitudinal, LongitudinalConfig, Lqr,
    LqrConfig, PerLane, PerfectTracking, PurePursuit, PurePursuitConfig, State, Table, named,
};
use spark_sim::integrate::Integrator;
use spark_sim::road::{RoadDescription, Segment};
use spark_sim::run::{RunOptions, RunReport, ScenarioError, Simulator};
use spark_sim::scenario::{Fuzzer, Scenario, built_in};
use spark_sim::vehicle::{SteerInterface, VehicleModel};

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

pub(crate) fn own_control(gains: [f32; 3]) -> CudaControl {
    let steer = Some(SteerInterface::Curvature);
    // SAFETY: the snippet writes its memory and action only, and reads the three gains.
    unsafe { CudaControl::new(OWN, gains.to_vec(), steer, false) }.expect("a valid snippet")
}

pub(crate) fn own(gains: [f32; 3]) -> impl AlgorithmFactory {
    named("own", move || {
        let make = move || Own {
            integral: 0.0,
            gains,
        };
        PerLane::new(Some(SteerInterface::Curvature), false, make)
    })
    .with_cuda(own_control(gains))
}

pub(crate) fn pid() -> impl AlgorithmFactory {
    named("pid", || LateralPid::new(LateralPidConfig::default()))
        .with_cuda(CudaControl::lateral_pid(&LateralPidConfig::default()))
}

pub(crate) fn pid_and_long() -> impl AlgorithmFactory {
    let lateral = LateralPidConfig::default();
    let longitudinal = LongitudinalConfig::default();
    let control = CudaControl::lateral_pid_and_longitudinal(&lateral, &longitudinal);
    named("pid and long", move || {
        let lateral = LateralPid::new(LateralPidConfig::default());
        Combined::new(lateral, Longitudinal::new(longitudinal))
    })
    .with_cuda(control)
}

fn torque(config: &LateralTorqueConfig) -> impl AlgorithmFactory {
    let own = config.clone();
    named("torque", move || LateralTorque::new(own.clone()))
        .with_cuda(CudaControl::lateral_torque(config))
}

fn torque_and_long() -> impl AlgorithmFactory {
    let lateral = LateralTorqueConfig::default();
    let longitudinal = LongitudinalConfig::default();
    let control = CudaControl::lateral_torque_and_longitudinal(&lateral, &longitudinal);
    named("torque and long", move || {
        let lateral = LateralTorque::new(lateral.clone());
        Combined::new(lateral, Longitudinal::new(longitudinal))
    })
    .with_cuda(control)
}

pub(crate) fn on(device: &Device, asked: Option<DeviceChoice>) -> Simulator {
    let mut options = RunOptions::default().with_chunk_size(50);
    options.device = asked;
    Simulator::on_device(options, device.clone()).expect("valid options")
}

pub(crate) fn on_cpu() -> Simulator {
    let options = RunOptions::default().with_device(DeviceChoice::Cpu);
    Simulator::new(options).expect("valid options")
}

/// Both models and rules, roads with grade and bank, wind, noise, delays, requests.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = Fuzzer::new(7).iter(80).collect();
    scenarios.extend(built_in(3));
    for (i, scenario) in scenarios.iter_mut().enumerate() {
        scenario.actors.clear();
        scenario.duration_s = scenario.duration_s.min(12.0);
        if i % 7 == 0 {
            // Little enough grip for the bends of some of them.
            scenario.environment.friction = 0.08;
        }
        if i % 5 == 1 {
            let noise = &mut scenario.environment.noise;
            noise.offset.bias_sd = 0.1;
            noise.heading.bias = -0.002;
            noise.curvature = 1e-4.into();
            noise.steering_angle = 0.1.into();
            noise.roll.white_sd = 0.002;
            noise.roll.bias_sd = 0.004;
        }
        scenario.vehicle.integrator = match i % 3 {
            0 => Integrator::Euler,
            _ => Integrator::Rk4,
        };
    }
    // Slow cars so far beside that the planner's angle of approach decides.
    for (speed, offset) in [(0.5, 3.0), (4.0, -5.0), (7.0, 5.0), (12.0, -8.0)] {
        let mut scenario = Scenario::straight(format!("{offset} m beside"), speed, 12.0);
        scenario.start.offset = offset;
        scenarios.push(scenario);
    }
    scenarios
}

/// Times and places on the boundary itself: requests that change exactly when lines are looked up, a preview point
/// that goes back over pieces while the car stops, and cars that drive back over them, over several in a step where these are short.
///
/// Lines are looked up a quarter of a step late; steps of a power of two make that time, and what follows, exact.
pub(crate) fn scenarios_on_boundaries() -> Vec<Scenario> {
    let step = 2_f64.powi(-7);
    let jumps = |values: [f64; 4]| {
        let times = [0.25, 0.25, 40.25, 40.25, 100.25, 100.25].map(|steps| steps * step);
        let [a, b, c, d] = values;
        let points = times.into_iter().zip([a, b, b, c, c, d]);
        let points = points.map(|(time, value)| [time, value]).collect();
        Some(Profile::new(points).expect("ordered, finite points"))
    };
    // Some bends a metre, a power of two, so that their ends are exact, and then straight on.
    let bends = |metres: usize, per_metre: usize| {
        let sides = (0..per_metre * metres).map(|i| if i % 2 == 0 { 0.01 } else { -0.02 });
        let length = 1.0 / per_metre as f64;
        let segments = sides.map(|curvature| Segment::arc(length, curvature));
        RoadDescription {
            segments: segments.collect(),
            ..RoadDescription::default()
        }
    };
    let mut scenarios = Vec::new();
    for model in [VehicleModel::Kinematic, VehicleModel::SingleTrack] {
        let new = |name: &str, speed: f64| {
            let mut scenario = Scenario::straight(format!("{name} {model:?}"), speed, 3.0);
            scenario.vehicle.model = model;
            scenario.dt_s = step;
            scenario
        };
        let mut asked = new("asked on the step", 10.0);
        asked.requests.cruise_speed = jumps([10.0, 14.0, 9.0, 12.0]);
        asked.requests.offset = jumps([0.0, 0.3, -0.2, 0.1]);
        let mut told = new("told on the step", 10.0);
        told.requests.curvature = jumps([0.0, 1e-3, -2e-3, 1e-3]);
        told.requests.acceleration = jumps([0.0, 1.0, -1.5, 0.5]);

        let mut stops = new("stops", 6.0);
        stops.road = bends(12, 16);
        stops.requests.acceleration = Some(Profile::constant(-6.0));
        stops.requests.acceleration_limits = Some([-8.0, 2.0]);
        let mut actuators = stops.vehicle.actuators();
        actuators.deceleration_max = 8.0;
        stops.vehicle.actuators = Some(actuators);

        let mut returns = new("drives back", 5.0);
        returns.road = bends(12, 16);
        returns.start.distance = 6.0;
        returns.start.heading = 1.5;
        returns.requests.curvature = Some(Profile::constant(0.12));

        // 5 m/s are two and a half bends of these a step.
        let mut returns_over_more = returns.clone();
        returns_over_more.name = format!("drives back over more than one a step {model:?}");
        returns_over_more.road = bends(12, 64);
        let mut passes_more = new("passes more than one a step", 5.0);
        passes_more.road = bends(12, 64);
        scenarios.extend([asked, told, stops, returns, returns_over_more, passes_more]);
    }
    for scenario in &scenarios {
        scenario.validate().expect("a valid scenario");
    }
    scenarios
}

pub(crate) fn outcomes(report: &RunReport) -> Vec<String> {
    let results = report.results.iter();
    results
        .map(|r| format!("{} {} {:?}", r.index, r.name, r.outcome))
        .collect()
}

#[track_caller]
pub(crate) fn check_same_bits(
    device: &Device,
    factory: &dyn AlgorithmFactory,
    scenarios: &[Scenario],
) {
    let cpu = on_cpu().run(scenarios, factory);
    let gpu = on(device, Some(DeviceChoice::Cuda(None))).run(scenarios, factory);
    let first = &outcomes(&gpu)[0];
    assert_eq!(gpu.n_on_gpu, scenarios.len(), "{}: {first}", factory.name());
    assert_eq!(cpu.n_on_gpu, 0);
    for (g, c) in outcomes(&gpu).iter().zip(outcomes(&cpu)) {
        assert_eq!(*g, c, "{}", factory.name());
    }
}

/// Both vehicle models, the built-in controllers.
pub(crate) fn rollouts_have_the_bits_of_the_cpu(device: &Device) {
    let mut scenarios = scenarios();
    scenarios.extend(scenarios_on_boundaries());
    let models = scenarios.iter().map(|s| s.vehicle.model);
    assert!(models.clone().any(|m| m == VehicleModel::SingleTrack));
    assert!(models.clone().any(|m| m == VehicleModel::Kinematic));
    let perfect = named("perfect", || PerfectTracking).with_cuda(CudaControl::perfect_tracking());
    check_same_bits(device, &pid_and_long(), &scenarios);
    let drives = on_cpu().run(&scenarios, &pid_and_long());
    let slipped = drives.results.iter().filter(|r| {
        let outcome = r.outcome.as_ref();
        outcome.is_ok_and(|metrics| metrics.grip_limit_ratio > 0.0)
    });
    assert!(
        slipped.count() > 3,
        "some cars are at the limit of their grip"
    );
    check_same_bits(device, &pid(), &scenarios);
    check_same_bits(device, &perfect, &scenarios);
    let lqr = named("lqr", || Lqr::new(LqrConfig::default()))
        .with_cuda(CudaControl::lqr(&LqrConfig::default()));
    let pursuit = named("pure pursuit", || {
        PurePursuit::new(PurePursuitConfig::default())
    })
    .with_cuda(CudaControl::pure_pursuit(&PurePursuitConfig::default()));
    check_same_bits(device, &lqr, &scenarios);
    check_same_bits(device, &pursuit, &scenarios);
}

/// LatControlTorque, alone and with LongControl: dead times and steps of many lengths side by side, so that
/// lanes look back at requests of many ages, and gains other than the defaults.
pub(crate) fn torque_control_has_the_bits_of_the_cpu(device: &Device) {
    let mut scenarios = scenarios();
    for (i, scenario) in scenarios.iter_mut().enumerate() {
        scenario.duration_s = scenario.duration_s.min(8.0);
        let longest = scenario.vehicle.model.longest_step_s();
        scenario.dt_s = longest.min([0.01, 0.004, 0.007, 0.02, 0.013][i % 5]);
        if i % 4 == 1 {
            let mut actuators = scenario.vehicle.actuators();
            actuators.steer_delay_s = 0.05 * (i % 9) as f64;
            scenario.vehicle.actuators = Some(actuators);
        }
    }
    scenarios.extend(scenarios_on_boundaries());
    check_same_bits(device, &torque_and_long(), &scenarios);
    check_same_bits(device, &torque(&LateralTorqueConfig::default()), &scenarios);
    let other = LateralTorqueConfig {
        kp: Table::new(vec![(0.0, 3.0), (12.0, 1.0)]),
        ki: 0.4,
        friction_share: 1.4,
        jerk_gain_s: 0.1,
        steer_limit_timer_s: 0.5,
    };
    check_same_bits(device, &torque(&other), &scenarios);
    // The gains act, and so does what is remembered: otherwise equal bits would show little.
    let run = |factory: &dyn AlgorithmFactory| outcomes(&on_cpu().run(&scenarios, factory));
    let default = run(&torque(&LateralTorqueConfig::default()));
    let changed = run(&torque(&other));
    let differ = default.iter().zip(&changed).filter(|(a, b)| a != b);
    assert!(differ.count() > scenarios.len() / 2);
    let no_jerk = LateralTorqueConfig {
        jerk_gain_s: 0.0,
        ..LateralTorqueConfig::default()
    };
    let no_jerk = run(&torque(&no_jerk));
    let differ = default.iter().zip(&no_jerk).filter(|(a, b)| a != b);
    assert!(differ.count() > scenarios.len() / 2);
}

/// A controller given as CUDA C; with NaN after six seconds it fails where its twin does.
pub(crate) fn a_snippet_drives_like_its_twin_and_fails_like_it(device: &Device) {
    let scenarios = scenarios();
    check_same_bits(device, &own([1e-3, 1e-5, 100.0]), &scenarios);
    check_same_bits(device, &own([1e-3, 1e-5, 6.0]), &scenarios);
    let gpu = on(device, Some(DeviceChoice::Cuda(None))).run(&scenarios, &own([1e-3, 1e-5, 6.0]));
    let failed = gpu.results.iter().filter(|r| {
        let outcome = r.outcome.as_ref();
        matches!(outcome, Err(ScenarioError::ActionNotFinite { step_idx, .. }) if *step_idx >= 600)
    });
    assert!(failed.count() > 50);
}
