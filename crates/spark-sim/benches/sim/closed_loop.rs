//! The whole loop: road, planner, controller, actuators, vehicle, metrics.

use crate::timing::Timing;
use spark_sim::control::{
    Combined, LateralPid, LateralPidConfig, Longitudinal, LongitudinalConfig, named,
};
use spark_sim::integrate::Integrator;
use spark_sim::road::{RoadDescription, Segment};
use spark_sim::run::{RunOptions, RunReport, Simulator};
use spark_sim::scenario::Scenario;
use spark_sim::traffic::{Actor, Lateral, Longitudinal as Speed, Shape, Trigger};

const N_SCENARIOS: usize = 512;
const DURATION_S: f64 = 20.0;

pub(crate) fn run(timing: &Timing) {
    let plain = scenarios(false);
    let traffic = scenarios(true);
    for (name, n_threads, scenarios) in [
        ("sim/closed_loop_pid_metrics/1t", 1, &plain),
        ("sim/closed_loop_pid_metrics/2t", 2, &plain),
        ("sim/closed_loop_pid_metrics_lead/1t", 1, &traffic),
    ] {
        if !timing.wants(name) {
            continue;
        }
        check(name, scenarios);
        let n_steps = drive(1, 64, scenarios).n_agent_steps as f64;
        timing.measure(name, "agent_steps", n_steps, || {
            drive(n_threads, 64, scenarios);
        });
    }
    one_by_one(timing, &plain);
}

/// The same scenarios, one lane per block: what batching gains.
fn one_by_one(timing: &Timing, scenarios: &[Scenario]) {
    let name = "sim/closed_loop_pid_metrics_one_by_one/1t";
    if timing.wants(name) {
        let few = &scenarios[..32];
        let n_steps = drive(1, 1, few).n_agent_steps as f64;
        timing.measure(name, "agent_steps", n_steps, || {
            drive(1, 1, few);
        });
    }
    let name = "sim/closed_loop_pid_metrics_batch_over_one_by_one/1t";
    if timing.wants(name) {
        let few = &scenarios[..32];
        let steps = |report: RunReport| report.n_agent_steps as f64;
        let (n_all, n_few) = (steps(drive(1, 64, scenarios)), steps(drive(1, 1, few)));
        let mut batch = || drop(drive(1, 64, scenarios));
        let mut one_by_one = || drop(drive(1, 1, few));
        timing.compare(name, (n_all, &mut batch), (n_few, &mut one_by_one));
    }
}

fn scenarios(with_lead: bool) -> Vec<Scenario> {
    (0..N_SCENARIOS)
        .map(|i| {
            let mut scenario =
                Scenario::straight(format!("s{i}"), 15.0 + (i % 16) as f64, DURATION_S);
            scenario.vehicle.integrator = Integrator::Euler;
            scenario.start.offset = (i % 7) as f64 * 0.1 - 0.3;
            // Well within what the default car's steering torque holds at the fastest start.
            let bend = 0.0002 * ((i % 5) as f64 - 2.0);
            scenario.road = RoadDescription {
                segments: vec![
                    Segment::straight(100.0),
                    Segment::clothoid(80.0, 0.0, bend),
                    Segment::arc(200.0, bend),
                    Segment::clothoid(80.0, bend, 0.0),
                ],
                ..RoadDescription::default()
            };
            if with_lead {
                scenario.actors.push(Actor {
                    shape: Shape::CAR,
                    distance: 60.0,
                    offset: 0.0,
                    speed: 15.0,
                    longitudinal: Speed::Brake {
                        trigger: Trigger::At(5.0),
                        deceleration: 2.0,
                        final_speed: 5.0,
                    },
                    lateral: Lateral::Keep,
                });
            }
            scenario
        })
        .collect()
}

fn drive(n_threads: usize, block_size: usize, scenarios: &[Scenario]) -> RunReport {
    let factory = named("pid and long control", || {
        Combined::new(
            LateralPid::new(LateralPidConfig::default()),
            Longitudinal::new(LongitudinalConfig::default()),
        )
    });
    let options = RunOptions::default()
        .with_threads(n_threads)
        .with_block_size(block_size);
    Simulator::new(options)
        .expect("valid options")
        .run(scenarios, &factory)
}

/// Every scenario finishes, tracks its road, and has the same bits when run alone.
fn check(name: &str, scenarios: &[Scenario]) {
    let batch = drive(1, 64, &scenarios[..64]);
    let alone = drive(1, 1, &scenarios[..64]);
    for (b, a) in batch.results.iter().zip(&alone.results) {
        let metrics = b.outcome.as_ref().expect("a finished drive");
        assert!(metrics.lateral_error_max < 1.0, "{name}: {metrics:?}");
        assert_eq!(
            format!("{:?}", b.outcome),
            format!("{:?}", a.outcome),
            "{name}"
        );
    }
}
