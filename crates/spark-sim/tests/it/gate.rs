//! The gate on the simulator itself: same against same, and known changes. The rates at full
//! length are printed by the example `check_gate`.

use spark_hal::config::DeviceChoice;
use spark_sim::compare::{CompareOptions, Comparison, Decision, NewEvents, Verdict, compare};
use spark_sim::control::{AlgorithmFactory, LateralPid, LateralPidConfig, Table, named};
use spark_sim::run::{RunOptions, RunReport, Simulator};
use spark_sim::scenario::{Axis, Fuzzer, Parameter, Scenario, Sweep};

fn simulator() -> Simulator {
    let options = RunOptions::default().with_device(DeviceChoice::Cpu);
    Simulator::new(options).expect("valid options")
}

fn suite(n: u64, duration_s: f64) -> Vec<Scenario> {
    let shortened = |mut scenario: Scenario| {
        scenario.duration_s = duration_s;
        scenario
    };
    Fuzzer::new(42).iter(n).map(shortened).collect()
}

fn with_noise(suite: &[Scenario], k: u64) -> Vec<Scenario> {
    let mut suite = suite.to_vec();
    for scenario in &mut suite {
        scenario.seed ^= k.wrapping_mul(0xD1B5_4A32_D192_ED03);
    }
    suite
}

fn pid(factor: f64) -> impl AlgorithmFactory {
    const KP: [(f64, f64); 4] = [(5.0, 0.001), (10.0, 0.004), (20.0, 0.017), (30.0, 0.04)];
    named("pid", move || {
        LateralPid::new(LateralPidConfig {
            kp: Table::new(KP.map(|(v, gain)| (v, gain * factor)).to_vec()),
            kf: 1.4e-4 * factor,
            ..LateralPidConfig::default()
        })
    })
}

fn fails(comparison: &Comparison) -> bool {
    matches!(comparison.decision, Decision::Fail { .. })
}

fn default(baseline: &RunReport, candidate: &RunReport) -> Comparison {
    compare(baseline, candidate, &CompareOptions::default()).expect("comparable")
}

#[test]
fn a_controller_against_itself_with_other_noise_rarely_fails() {
    let (simulator, suite) = (simulator(), suite(12, 4.0));
    let n_trials = 60;
    let failed = (0..n_trials).filter(|t| {
        let run = |k| simulator.run(&with_noise(&suite, k), &pid(1.0));
        fails(&default(&run(2 * t + 1), &run(2 * t + 2)))
    });
    // 5 % of 60 and three standard errors.
    let n_failed = failed.count();
    assert!(n_failed <= 8, "{n_failed} of {n_trials}");
}

#[test]
fn a_controller_against_itself_with_the_same_noise_passes() {
    let (simulator, suite) = (simulator(), suite(12, 4.0));
    let found = default(
        &simulator.run(&suite, &pid(1.0)),
        &simulator.run(&suite, &pid(1.0)),
    );
    assert!(found.passes(), "{:?}", found.decision);
    assert!(found.metrics.iter().all(|m| m.delta == 0.0));
}

#[test]
fn a_gain_changed_by_one_per_cent_is_different_within_the_margin() {
    let (simulator, suite) = (simulator(), suite(50, 8.0));
    let found = default(
        &simulator.run(&suite, &pid(1.0)),
        &simulator.run(&suite, &pid(0.99)),
    );
    let metric = found.metric("lateral_error_rmse").expect("measured");
    let [low, high] = metric.interval.expect("fifty families");
    assert!(low > 0.0 || high < 0.0, "{metric:?}");
    assert_eq!(metric.verdict, Verdict::WithinMargin, "{metric:?}");
}

#[test]
fn a_worsening_of_one_and_a_half_margins_fails() {
    let (simulator, suite) = (simulator(), suite(50, 4.0));
    for t in 0..10 {
        let run = |k| simulator.run(&with_noise(&suite, k), &pid(1.0));
        let (baseline, mut candidate) = (run(2 * t + 1), run(2 * t + 2));
        for result in &mut candidate.results {
            if let Ok(metrics) = &mut result.outcome {
                metrics.lateral_error_rmse += 1.5 * 0.03;
            }
        }
        let found = default(&baseline, &candidate);
        assert!(fails(&found), "{:?}", found.decision);
    }
}

#[test]
fn replicates_have_noise_of_their_own_and_keep_their_place() {
    let (simulator, suite) = (simulator(), suite(6, 3.0));
    let once = simulator.run(&suite, &pid(1.0));
    let thrice = simulator.run_replicates(&suite, 3, &pid(1.0));
    assert_eq!(thrice.results.len(), 18);
    for (i, result) in thrice.results.iter().enumerate() {
        assert_eq!((result.index, result.replicate), (i / 3, i % 3));
        assert_eq!(result.name, suite[i / 3].name);
    }
    let metrics = |report: &RunReport, i: usize| match &report.results[i].outcome {
        Ok(metrics) => metrics.clone(),
        Err(error) => panic!("{error}"),
    };
    for i in 0..6 {
        // The first replicate is the scenario itself; the others are not.
        assert_eq!(metrics(&thrice, 3 * i), metrics(&once, i));
        assert_ne!(metrics(&thrice, 3 * i + 1), metrics(&once, i));
        assert_ne!(metrics(&thrice, 3 * i + 2), metrics(&thrice, 3 * i + 1));
    }
    // Small chunks change nothing.
    let chunked = Simulator::new(
        RunOptions::default()
            .with_chunk_size(4)
            .with_device(DeviceChoice::Cpu),
    );
    let again = chunked.expect("valid").run_replicates(&suite, 3, &pid(1.0));
    for i in 0..18 {
        assert_eq!(metrics(&again, i), metrics(&thrice, i));
        assert_eq!(again.results[i].index, thrice.results[i].index);
    }
    let found = default(&thrice, &thrice);
    assert_eq!((found.n_scenarios, found.n_drives), (6, 18));
    assert!(
        simulator
            .run_replicates(&suite, 0, &pid(1.0))
            .results
            .is_empty()
    );
}

#[test]
fn the_scenarios_of_a_sweep_are_one_family() {
    let sweep = Sweep {
        base: Scenario::straight("road", 20.0, 2.0),
        axes: vec![Axis {
            parameter: Parameter::StartOffset,
            values: (0..20).map(|i| 0.01 * f64::from(i)).collect(),
        }],
    };
    let suite: Vec<Scenario> = sweep.iter().expect("few").collect();
    assert!(suite.iter().all(|s| s.family.as_deref() == Some("road")));
    let run = simulator().run(&suite, &pid(1.0));
    let found = default(&run, &run);
    assert_eq!((found.n_scenarios, found.n_families), (20, 1));
    assert!(matches!(
        found.decision,
        Decision::Undecided {
            families_needed: Some(5),
            ..
        }
    ));
}

/// A driver that follows the lane and lets the car roll out, more gently than anybody minds.
struct RollsOut(spark_sim::control::LateralPid);

impl spark_sim::control::Algorithm for RollsOut {
    fn reset(&mut self, lanes: &[spark_sim::control::LaneSetup]) {
        self.0.reset(lanes);
    }
    fn update(
        &mut self,
        state: &spark_sim::control::StateBatch,
        action: &mut spark_sim::control::ActionBatch,
    ) {
        self.0.update(state, action);
        for (lane, accel) in action.accel.iter_mut().enumerate() {
            let gently = (0.06 * state.time[lane]).min(0.12 * state.v_ego[lane]);
            *accel = -gently.min(0.6);
        }
    }
    fn steer_interface(&self) -> Option<spark_sim::vehicle::SteerInterface> {
        self.0.steer_interface()
    }
    fn controls_speed(&self) -> bool {
        true
    }
}

#[test]
fn a_car_that_rolls_out_gently_fails() {
    let suite: Vec<Scenario> = (0..12)
        .map(|i| Scenario::straight(format!("road {i}"), 15.0 + f64::from(i), 20.0))
        .collect();
    let rolls_out = named("rolls out", || {
        RollsOut(LateralPid::new(LateralPidConfig::default()))
    });
    let simulator = simulator();
    let baseline = simulator.run(&suite, &pid(1.0));
    for result in &baseline.results {
        let metrics = result.outcome.as_ref().expect("driven");
        let requested = metrics.distance_requested_m.expect("known");
        assert_eq!(metrics.duration_requested_s, Some(metrics.duration_s));
        assert!((metrics.distance_m - requested).abs() < 0.01 * requested);
    }
    let found = default(&baseline, &simulator.run(&suite, &rolls_out));
    assert!(fails(&found), "{:?}", found.decision);
    let progress = found.metric("progress_error").expect("measured");
    assert_eq!(progress.verdict, Verdict::WorseBeyondMargin);
    assert!(progress.candidate > 0.1, "{progress:?}");
}

#[test]
fn a_controller_that_fails_where_the_other_did_not_fails_the_gate() {
    struct Broken;
    impl spark_sim::control::LaneAlgorithm for Broken {
        fn reset(&mut self, _: &spark_sim::control::LaneSetup) {}
        fn update(
            &mut self,
            state: &spark_sim::control::State<f32>,
        ) -> spark_sim::control::Action<f32> {
            let steer = if state.time > 1.0 { f32::NAN } else { 0.0 };
            spark_sim::control::Action {
                steer,
                ..Default::default()
            }
        }
    }
    let interface = Some(spark_sim::vehicle::SteerInterface::Torque);
    let broken = named("broken", move || {
        spark_sim::control::PerLane::new(interface, false, || Broken)
    });
    let (simulator, suite) = (simulator(), suite(12, 2.0));
    let baseline = simulator.run(&suite, &pid(1.0));
    let candidate = simulator.run(&suite, &broken);
    let options = CompareOptions::default().with_new_events(NewEvents::Test);
    let found = compare(&baseline, &candidate, &options).expect("comparable");
    assert!(fails(&found), "{:?}", found.decision);
    // The other way round nothing is left to compare, so nothing passes.
    assert!(!default(&candidate, &baseline).passes());
}
