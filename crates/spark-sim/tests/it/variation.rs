//! What varies: parameters that change a scenario and those that cannot, replicates that are other drives and those
//! that would be the same.

use spark_sim::SimError;
use spark_sim::control::{
    Combined, LateralPid, LateralPidConfig, Longitudinal as LongitudinalControl,
    LongitudinalConfig, named,
};
use spark_sim::run::{RunOptions, Simulator};
use spark_sim::scenario::{
    Axis, ChannelNoise, Environment, Fuzzer, Parameter, PresenceNoise, Scenario, Search,
    SensorNoise, Sweep, Vehicle, alks, built_in, road_from_curvature,
};
use spark_sim::traffic::{Krauss, Longitudinal};

#[test]
fn a_parameter_that_changes_nothing_is_refused_with_what_lacks() {
    let empty = || Scenario::straight("empty", 20.0, 5.0);
    let vehicle = empty().vehicle;
    let own_car = Scenario {
        vehicle: Vehicle {
            parameters: Some(vehicle.parameters()),
            actuators: Some(vehicle.actuators()),
            ..vehicle
        },
        ..empty()
    };
    let mut standing = alks::blocking_target().remove(0);
    standing.actors[0].speed = 0.0;
    let level = Scenario {
        road: road_from_curvature(5.0, 1.0, |_| 0.0, |_| 20.0),
        ..empty()
    };
    let bend = Scenario {
        road: road_from_curvature(5.0, 1.0, |_| 0.01, |_| 20.0),
        actors: alks::lead_brake().remove(0).actors,
        ..empty()
    };
    for (parameter, without, lacks) in [
        (Parameter::ActorDistance, empty(), "no other road user"),
        (Parameter::ActorSpeedScale, standing, "with a speed"),
        (Parameter::Grade, empty(), "no segment of road"),
        (Parameter::Bank, empty(), "no segment of road"),
        (Parameter::CurvatureScale, level, "no bend"),
        (Parameter::Preset, own_car, "stated"),
    ] {
        let refusal = parameter.check_in(&without).expect_err("nothing changes");
        let told = refusal.to_string();
        assert!(
            told.contains(lacks) && told.contains(&parameter.name()),
            "{told}"
        );
        assert!(parameter.check_in(&bend).is_ok(), "{parameter:?}");
        let sweep = Sweep {
            base: without.clone(),
            axes: vec![Axis {
                parameter,
                values: vec![0.1, 2.0],
            }],
        };
        assert!(sweep.n_scenarios().is_err() && sweep.iter().is_err());
        let search = Search {
            base: without,
            bounds: vec![(parameter, [0.0, 1.0])],
            population: 5,
            n_rounds: 1,
            seed: 1,
        };
        let simulator = Simulator::new(RunOptions::default()).expect("valid options");
        let pid = named("pid", || LateralPid::new(LateralPidConfig::default()));
        let found = search.run(&simulator, &pid, |m| m.lateral_error_rmse);
        assert!(matches!(found, Err(SimError::NothingToVary { .. })));
    }
    for parameter in Parameter::ALL {
        let (mut with, value) = (bend.clone(), 0.7);
        assert!(parameter.check_in(&with).is_ok(), "{parameter:?}");
        parameter.apply(&mut with, value);
        assert_ne!(with, bend, "{parameter:?}");
    }
}

#[test]
fn a_scenario_is_random_where_replicates_are_other_drives() {
    let lead = alks::lead_brake().remove(0);
    let told = |noise: SensorNoise, of: &Scenario| Scenario {
        environment: Environment {
            noise,
            ..Environment::default()
        },
        ..of.clone()
    };
    let offset = |offset: ChannelNoise| SensorNoise {
        offset,
        ..SensorNoise::default()
    };
    let of_lead = SensorNoise {
        lead_distance: 2.0.into(),
        ..SensorNoise::default()
    };
    let lost = SensorNoise {
        lead_presence: PresenceNoise {
            dropout: 0.1,
            ..PresenceNoise::NONE
        },
        ..SensorNoise::default()
    };
    let late = ChannelNoise {
        bias: 0.2,
        latency_s: 0.1,
        rate_hz: Some(20.0),
        ..ChannelNoise::NONE
    };
    let behind_krauss = |imperfection: f64| {
        let mut scenario = lead.clone();
        scenario.actors[0].longitudinal = Longitudinal::Krauss(Krauss {
            imperfection,
            desired_speed: 10.0,
            ..Krauss::default()
        });
        scenario
    };
    let empty = Scenario::straight("empty", 20.0, 10.0);
    let one = |of: fn(&mut ChannelNoise)| {
        let mut noise = late;
        of(&mut noise);
        offset(noise)
    };
    let mut cases = vec![
        (empty.clone(), false),
        (lead.clone(), false),
        (told(offset(late), &empty), false),
        (told(of_lead, &empty), false),
        (told(lost, &empty), false),
        (told(of_lead, &lead), true),
        (told(lost, &lead), true),
        (told(one(|it| it.bias_sd = 0.1), &empty), true),
        (told(one(|it| it.white_sd = 0.1), &empty), true),
        (told(one(|it| it.ar1_sd = 0.1), &empty), true),
        (behind_krauss(0.0), false),
        (behind_krauss(0.8), true),
        (Fuzzer::new(1).scenario(0), true),
    ];
    // A lost frame leaves the last reading, which is another one where the car moves sideways.
    let mut beside = told(one(|it| it.dropout = 0.3), &empty);
    beside.start.offset = 0.5;
    cases.push((beside, true));
    cases.extend(built_in(1).into_iter().map(|it| (it, false)));
    let simulator = Simulator::new(RunOptions::default()).expect("valid options");
    let both = named("both", || {
        Combined::new(
            LateralPid::new(LateralPidConfig::default()),
            LongitudinalControl::new(LongitudinalConfig::default()),
        )
    });
    for (number, (scenario, is_random)) in cases.into_iter().enumerate() {
        assert_eq!(scenario.is_random(), is_random, "case {number}");
        let name = scenario.name.clone();
        let report = simulator.run_replicates(&[scenario], 2, &both);
        let metrics = report
            .results
            .iter()
            .map(|it| it.outcome.as_ref().expect("driven"));
        let metrics: Vec<_> = metrics.collect();
        assert_eq!(metrics[0] != metrics[1], is_random, "case {number}, {name}");
    }
}
