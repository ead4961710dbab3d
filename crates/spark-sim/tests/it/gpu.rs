//! Rollouts on the stand-in driver, which runs the kernels' sources on the CPU: the same bits as
//! the CPU path, and every failure in its place.

#![allow(unsafe_code, reason = "vouches for snippets of CUDA C")]

use crate::device_cases::{self, on, on_cpu, outcomes, own_control, pid_and_long, scenarios};
use crate::traffic_cases;
use spark_hal::config::DeviceChoice;
use spark_mem::{Device, DeviceOptions};
use spark_sim::SimError;
use spark_sim::control::{CudaControl, DoNothing, cuda_only, named};
use spark_sim::run::{
    RunOptions, ScenarioError, Simulator, rollout_source, rollout_traffic_source,
};
use spark_sim::scenario::{Fuzzer, Scenario};
use spark_sim::vehicle::VehicleModel;
use spark_testing::driver::{Build, Persona, Posed, StandInDriver};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

fn driver() -> &'static StandInDriver {
    static DRIVER: OnceLock<StandInDriver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let (own, radar) = (own_control([0.0; 3]), traffic_cases::radar_control());
        let own = [
            ("rollout_own.cu", rollout_source(&own)),
            ("rollout_own_traffic.cu", rollout_traffic_source(&own)),
            ("rollout_radar.cu", rollout_source(&radar)),
            ("rollout_radar_traffic.cu", rollout_traffic_source(&radar)),
        ];
        let own = own.map(|(name, text)| {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            std::fs::write(&path, text).expect("a writable folder");
            path
        });
        let tags = [
            "perfect",
            "pid",
            "pid_long",
            "torque",
            "torque_long",
            "lqr",
            "pure_pursuit",
        ];
        let files = tags.iter().flat_map(|tag| {
            ["", "_traffic"].map(|traffic| folder.join(format!("rollout_{tag}{traffic}.cu")))
        });
        let files: Vec<PathBuf> = files.chain(own).collect();
        let kernels: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let build = Build {
            kernels: &kernels,
            includes: &[&folder],
            // Assembling takes about as long as compiling; `cargo xtask kernels` does it.
            keeps_to_ptx: true,
            ..Build::default()
        };
        StandInDriver::load(&build).expect("the stand-in driver builds")
    })
}

/// Runs a test on a device of this persona and asserts that nothing is left behind.
#[track_caller]
fn with_gpu(persona: Persona, test: impl FnOnce(&Posed<'_>, &Device)) {
    let posed = driver().pose(persona);
    let options = DeviceOptions::new();
    let device = Device::cuda(0, options).expect("the stand-in driver has a device");
    test(&posed, &device);
    drop(device);
    posed.assert_clean();
}

#[test]
fn rollouts_have_the_bits_of_the_cpu() {
    for persona in [Persona::Spark, Persona::Card] {
        with_gpu(persona, |_, device| {
            device_cases::rollouts_have_the_bits_of_the_cpu(device);
        });
    }
}

/// One controller of the five: the others take the same ways through the device.
#[test]
fn rollouts_have_the_bits_of_the_cpu_on_older_gpus() {
    for persona in [Persona::Jetson, Persona::Ampere] {
        with_gpu(persona, |_, device| {
            device_cases::check_same_bits(device, &device_cases::pid(), &scenarios());
        });
    }
}

#[test]
fn torque_control_has_the_bits_of_the_cpu() {
    with_gpu(Persona::Spark, |_, device| {
        device_cases::torque_control_has_the_bits_of_the_cpu(device);
    });
}

#[test]
fn standard_scenarios_with_other_road_users_have_the_bits_of_the_cpu() {
    with_gpu(Persona::Spark, |_, device| {
        traffic_cases::standard_scenarios_have_the_bits_of_the_cpu(device);
    });
}

#[test]
fn any_other_road_users_have_the_bits_of_the_cpu() {
    with_gpu(Persona::Card, |_, device| {
        traffic_cases::any_actors_have_the_bits_of_the_cpu(device);
    });
}

#[test]
fn road_users_whose_figures_overflow_have_the_bits_of_the_cpu() {
    with_gpu(Persona::Spark, |_, device| {
        traffic_cases::actors_that_overflow_have_the_bits_of_the_cpu(device);
    });
}

#[test]
fn a_snippet_of_ones_own_drives_like_its_twin_and_fails_like_it() {
    with_gpu(Persona::Spark, |_, device| {
        device_cases::a_snippet_drives_like_its_twin_and_fails_like_it(device);
    });
}

#[test]
fn what_a_gpu_does_not_drive_runs_on_the_cpu_or_fails_by_name() {
    let mut scenarios: Vec<Scenario> = Fuzzer::new(1).iter(20).collect();
    scenarios[3].vehicle.model = VehicleModel::Drift;
    scenarios[3].dt_s = 0.001;
    scenarios[4].dt_s = f64::NAN;
    for scenario in &mut scenarios[5..8] {
        scenario.actors.clear();
    }
    scenarios[5].environment.noise.offset.ar1_sd = 0.1;
    scenarios[6].environment.noise.speed.rate_hz = Some(20.0);
    // Of no consequence where nobody is ahead.
    scenarios[7].environment.noise.lead_speed.latency_s = 0.1;
    scenarios[7].environment.noise.lead_presence.dropout = 0.1;
    let mut crowded = scenarios[8..].iter_mut().filter(|s| !s.actors.is_empty());
    let [late, unseen] = [0; 2].map(|_| crowded.next().expect("some have actors"));
    late.environment.noise.lead_speed.latency_s = 0.1;
    unseen.environment.noise.lead_presence.dropout = 0.1;
    let left: Vec<&str> = scenarios.iter().map(why_not).collect();
    assert_eq!(left.iter().filter(|why| !why.is_empty()).count(), 6);
    with_gpu(Persona::Spark, |_, device| {
        // First, as it says why a GPU fails.
        let strict = on(device, Some(DeviceChoice::Cuda(None))).run(&scenarios, &pid_and_long());
        for (result, why) in strict.results.iter().zip(&left) {
            match &result.outcome {
                Err(ScenarioError::Invalid(_)) => assert_eq!(*why, "invalid"),
                Err(refused @ ScenarioError::NotOnDevice { .. }) => {
                    let said = refused.to_string();
                    assert!(!why.is_empty() && said.contains(why), "{said}, not {why}");
                }
                outcome => assert!(outcome.is_ok() && why.is_empty(), "{outcome:?}, not {why}"),
            }
        }
        let cpu = on_cpu().run(&scenarios, &pid_and_long());
        let mixed = on(device, None).run(&scenarios, &pid_and_long());
        assert_eq!(outcomes(&mixed), outcomes(&cpu));
        assert_eq!(mixed.n_on_gpu, scenarios.len() - 6);
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

/// A word of the reason for which a GPU does not drive a scenario of the test above; none if it does.
fn why_not(scenario: &Scenario) -> &'static str {
    let noise = &scenario.environment.noise;
    let has_lead = !scenario.actors.is_empty();
    if scenario.validate().is_err() {
        "invalid"
    } else if scenario.vehicle.model == VehicleModel::Drift {
        "vehicle model"
    } else if has_lead && !noise.lead_presence.is_none() {
        "always see a car ahead"
    } else if noise.offset.ar1_sd != 0.0
        || noise.speed.rate_hz.is_some()
        || (has_lead && noise.lead_speed.latency_s != 0.0)
    {
        "AR(1) noise, a frame rate, latency"
    } else {
        ""
    }
}

#[test]
fn a_gpu_that_fails_is_named_or_replaced() {
    let scenarios = &scenarios()[..10];
    with_gpu(Persona::Card, |posed, device| {
        posed.fail_allocation(1);
        let report = on(device, Some(DeviceChoice::Cuda(None))).run(scenarios, &pid_and_long());
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
        // SAFETY: it does not compile.
        let control = unsafe { CudaControl::new(broken, Vec::new(), None, false) };
        let control = control.expect("some text");
        let factory = cuda_only("broken", control);
        let report = on(device, Some(DeviceChoice::Cuda(None))).run(scenarios, &factory);
        for result in &report.results {
            let said = format!("{}", result.outcome.as_ref().expect_err("does not compile"));
            assert!(
                said.contains("does not compile") && said.contains("not today"),
                "{said}"
            );
        }
    });
}

/// The environment is read once, so that another process of this test has it.
#[test]
fn a_gpu_that_the_environment_names_and_that_is_not_there_is_an_error() {
    let named = Some(97);
    if spark_hal::config().device == DeviceChoice::Cuda(named) {
        let opened = Simulator::new(RunOptions::default()).map(|simulator| simulator.device());
        assert!(matches!(opened, Err(SimError::NoGpu { .. })), "{opened:?}");
        let on_the_cpu = RunOptions::default().with_device(DeviceChoice::Cpu);
        assert!(
            Simulator::new(on_the_cpu).is_ok(),
            "the program's own word counts more"
        );
        return;
    }
    let own = "gpu::a_gpu_that_the_environment_names_and_that_is_not_there_is_an_error";
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", own])
        .env("SPARK_DEVICE", "cuda:97")
        .output()
        .expect("a child process");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[test]
fn options_that_no_gpu_has_are_refused_with_it() {
    with_gpu(Persona::Spark, |_, device| {
        let options = RunOptions::default().with_record_interval_s(0.1);
        let refused = Simulator::on_device(options, device.clone());
        assert!(matches!(refused, Err(SimError::CpuOnly { .. })));
    });
    let refused = Simulator::on_device(RunOptions::default(), Device::host());
    assert!(matches!(refused, Err(SimError::NoGpu { .. })));
    for snippet in ["", "struct Other {};", "struct Control {}; \0"] {
        // SAFETY: it is refused.
        let refused = unsafe { CudaControl::new(snippet, Vec::new(), None, false) };
        assert!(
            matches!(refused, Err(SimError::Snippet { .. })),
            "{snippet:?}"
        );
    }
}
