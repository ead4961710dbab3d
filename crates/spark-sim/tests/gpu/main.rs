//! Rollouts on the GPU of this machine, if there is one.
//!
//! `SPARK_REQUIRE_GPU=1` turns a skip into a failure. `cargo xtask gpu` makes a bundle of this
//! binary for a machine without cargo. It never loads the stand-in driver.

#![cfg(feature = "cuda")]
#![allow(
    clippy::print_stdout,
    reason = "a skipped test says so, a timed one says how fast"
)]

#[path = "../it/device_cases.rs"]
mod device_cases;
#[path = "../it/traffic_cases.rs"]
mod traffic_cases;

use spark_hal::config;
use spark_hal::config::DeviceChoice;
use spark_mem::kernel::ComputeCapability;
use spark_mem::{Device, DeviceOptions};
use spark_sim::control::{
    CudaControl, LateralPidConfig, LateralTorqueConfig, LongitudinalConfig, LqrConfig,
    PurePursuitConfig,
};
use spark_sim::run::{RunOptions, Simulator, precompile_rollouts};
use spark_sim::scenario::{Fuzzer, Scenario};
use spark_testing::settings::{keep_kernels, require_gpu};

/// Runs a test on the first GPU.
#[track_caller]
fn with_gpu(name: &str, test: fn(&Device)) {
    // Tests of other threads would disturb a measurement, which is kept.
    let options = DeviceOptions::from_config(config()).with_measured_memory(false);
    match Device::cuda(0, options) {
        Ok(device) => test(&device),
        Err(why) if require_gpu() => panic!("{name}: {why}"),
        Err(why) => println!("skipped: {name} needs a GPU ({why})"),
    }
}

#[test]
fn rollouts_have_the_bits_of_the_cpu() {
    with_gpu(
        "rollouts_have_the_bits_of_the_cpu",
        device_cases::rollouts_have_the_bits_of_the_cpu,
    );
}

#[test]
fn torque_control_has_the_bits_of_the_cpu() {
    with_gpu(
        "torque_control_has_the_bits_of_the_cpu",
        device_cases::torque_control_has_the_bits_of_the_cpu,
    );
}

#[test]
fn standard_scenarios_with_other_road_users_have_the_bits_of_the_cpu() {
    with_gpu(
        "standard_scenarios_with_other_road_users_have_the_bits_of_the_cpu",
        traffic_cases::standard_scenarios_have_the_bits_of_the_cpu,
    );
}

#[test]
fn any_other_road_users_have_the_bits_of_the_cpu() {
    with_gpu(
        "any_other_road_users_have_the_bits_of_the_cpu",
        traffic_cases::any_actors_have_the_bits_of_the_cpu,
    );
}

#[test]
fn road_users_whose_figures_overflow_have_the_bits_of_the_cpu() {
    with_gpu(
        "road_users_whose_figures_overflow_have_the_bits_of_the_cpu",
        traffic_cases::actors_that_overflow_have_the_bits_of_the_cpu,
    );
}

#[test]
fn a_snippet_drives_like_its_twin_and_fails_like_it() {
    with_gpu(
        "a_snippet_drives_like_its_twin_and_fails_like_it",
        device_cases::a_snippet_drives_like_its_twin_and_fails_like_it,
    );
}

/// Prints agent steps per second of both, checking and loading of the scenarios included, after
/// a first run has compiled the kernels.
fn compare_and_time(device: &Device, scenarios: &[Scenario], what: &str, wanted: &str) {
    let options = RunOptions::default().with_chunk_size(32_768);
    let cpu = Simulator::new(options.with_device(DeviceChoice::Cpu));
    let gpu = Simulator::on_device(
        options.with_device(DeviceChoice::Cuda(None)),
        device.clone(),
    );
    let (cpu, gpu) = (cpu.expect("valid options"), gpu.expect("valid options"));
    let control = device_cases::pid_and_long();
    gpu.run(&scenarios[..64], &control);
    let (on_cpu, on_gpu) = (cpu.run(scenarios, &control), gpu.run(scenarios, &control));
    assert_eq!(on_gpu.n_on_gpu, scenarios.len());
    let pairs = device_cases::outcomes(&on_gpu).into_iter();
    for (got, want) in pairs.zip(device_cases::outcomes(&on_cpu)) {
        assert_eq!(got, want);
    }
    let rates = [&on_cpu, &on_gpu].map(|run| {
        let wall_s = run.wall_s.expect("one process drove");
        run.n_agent_steps as f64 / wall_s
    });
    println!(
        "{} {what}: {:.3e} agent steps/s on {}, {:.3e} on {}",
        scenarios.len(),
        rates[0],
        on_cpu.device,
        rates[1],
        on_gpu.device,
    );
    // The report of the bundle collects lines that begin like this.
    println!(
        "figure: {what} on the GPU over all CPU cores = {:.2} times{wanted}",
        rates[1] / rates[0]
    );
}

#[test]
fn many_scenarios_agree_and_are_timed() {
    with_gpu("many_scenarios_agree_and_are_timed", |device| {
        let mut scenarios: Vec<Scenario> = Fuzzer::new(3).iter(32_768).collect();
        for scenario in &mut scenarios {
            scenario.actors.clear();
        }
        let wanted = " (the aim is 5)";
        compare_and_time(device, &scenarios, "rollouts", wanted);
    });
}

#[test]
fn many_scenarios_with_a_car_ahead_agree_and_are_timed() {
    with_gpu(
        "many_scenarios_with_a_car_ahead_agree_and_are_timed",
        |device| {
            let mut scenarios: Vec<Scenario> = Fuzzer::new(4).iter(32_768).collect();
            scenarios.retain(|scenario| !scenario.actors.is_empty());
            compare_and_time(device, &scenarios, "rollouts with a car ahead", "");
        },
    );
}

/// Every controller that these tests drive with.
fn controls() -> Vec<CudaControl> {
    let (lateral, longitudinal) = (LateralPidConfig::default(), LongitudinalConfig::default());
    let torque = LateralTorqueConfig::default();
    vec![
        CudaControl::perfect_tracking(),
        CudaControl::lqr(&LqrConfig::default()),
        CudaControl::pure_pursuit(&PurePursuitConfig::default()),
        CudaControl::lateral_pid(&lateral),
        CudaControl::lateral_pid_and_longitudinal(&lateral, &longitudinal),
        CudaControl::lateral_torque(&torque),
        CudaControl::lateral_torque_and_longitudinal(&torque, &longitudinal),
        device_cases::own_control([0.0; 3]),
        traffic_cases::radar_control(),
    ]
}

/// What a bundle brings along, so that nothing is compiled where it runs.
#[test]
fn kernels_are_kept_for_other_machines() {
    let Some(folder) = keep_kernels() else {
        return;
    };
    for (major, minor) in [(8, 0), (9, 0), (12, 0), (12, 1)] {
        let compute = ComputeCapability { major, minor };
        for control in controls() {
            precompile_rollouts(&control, compute, &folder).expect("NVRTC takes its own sources");
        }
    }
}
