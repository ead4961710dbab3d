//! Families, sweeps, search, recordings and files of scenarios.

use super::*;
use crate::control::planner::Personality;
use crate::control::{
    AlgorithmFactory, LateralPid, LateralPidConfig, LateralTorque, LateralTorqueConfig,
    PerfectTracking, named,
};
use crate::run::{RunOptions, Simulator};
use crate::vehicle::GRAVITY;
use crate::{Profile, SimError};
use maneuver::GapPlanner;
use table::{COLUMNS, DriveMetadata, DriveRow, DriveTable};

fn aggressive() -> GapPlanner {
    GapPlanner {
        personality: Personality::Aggressive,
    }
}

#[test]
fn the_fifteen_maneuvers_pass_with_the_built_in_planner() {
    let maneuvers = maneuver::all();
    assert_eq!(maneuvers.len(), 15);
    for maneuver in &maneuvers {
        for force_decel in [false, true] {
            if maneuver.ensure_start && force_decel {
                continue; // openpilot leaves this combination out: the two contradict each other
            }
            let run = maneuver::run(maneuver, &mut aggressive(), force_decel);
            assert!(
                run.broken.is_empty(),
                "{}: {:?}",
                maneuver.title,
                run.broken
            );
        }
    }
}

#[test]
fn a_planner_that_ignores_leads_breaks_the_rules() {
    struct Blind;
    impl maneuver::LongitudinalPlanner for Blind {
        fn plan(&mut self, _: &maneuver::PlanInput) -> f64 {
            0.0
        }
    }
    let all = maneuver::all();
    let crash = maneuver::run(&all[0], &mut Blind, false);
    assert_eq!(crash.broken, [maneuver::BrokenRule::Crash]);
    let start = maneuver::run(&all[14], &mut Blind, false);
    assert_eq!(start.broken, [maneuver::BrokenRule::DidNotStart]);
    let slow = maneuver::run(&all[13], &mut Blind, true);
    assert_eq!(
        slow.broken,
        [
            maneuver::BrokenRule::DidNotSlowDown,
            maneuver::BrokenRule::DidNotObeyForcedDeceleration
        ]
    );
}

#[test]
fn following_gaps_are_six_metres_and_the_time_gap() {
    for personality in [
        Personality::Relaxed,
        Personality::Standard,
        Personality::Aggressive,
    ] {
        for v in [0.0, 10.0, 35.0] {
            let got = maneuver::following_gap(v, &mut GapPlanner { personality });
            let want = 6.0 + personality.time_gap() * v;
            assert!(
                (got - want).abs() < 0.1,
                "{personality:?} {v}: {got}, expected {want}"
            );
        }
    }
}

#[test]
fn suites_state_as_many_families_as_they_document() {
    let n_families = |suite: &[Scenario]| {
        let stated = suite.iter().map(|s| s.family.as_deref().expect("stated"));
        stated.collect::<std::collections::BTreeSet<_>>().len()
    };
    let tests = |tests: Vec<ncap::CarToCarRear>| -> Vec<Scenario> {
        tests.iter().map(ncap::CarToCarRear::scenario).collect()
    };
    let year = ncap::Protocol::V2023;
    for (what, suite, n_scenarios, n) in [
        ("cut-in", alks::cut_in(), 5950, 15),
        ("cut-out", alks::cut_out(), 1440, 12),
        ("brake", alks::lead_brake(), 56, 7),
        ("blocking", alks::blocking_target(), 360, 60),
        ("swerving", alks::swerving_lead(), 60, 60),
        ("free", alks::free_driving(), 12, 12),
        ("standing", tests(ncap::standing(year)), 45, 9),
        ("moving", tests(ncap::moving(year)), 55, 11),
        ("braking", tests(ncap::braking(year)), 4, 1),
        ("lateral", lateral::lateral_steps(), 4, 2),
    ] {
        assert_eq!(
            (suite.len(), n_families(&suite)),
            (n_scenarios, n),
            "{what}"
        );
    }
    // The harness's five and the longitudinal steps are different manoeuvres.
    let apart = built_in(42)
        .into_iter()
        .chain(lateral::longitudinal_steps());
    assert!(apart.into_iter().all(|scenario| scenario.family.is_none()));
}

#[test]
fn the_requested_distance_is_that_of_a_car_that_does_as_asked() {
    let mut scenario = Scenario::straight("road", 20.0, 10.0);
    assert!((scenario.requested_distance_m() - 200.0).abs() < 1e-9);
    let speeds = vec![[0.0, 0.0], [5.0, 10.0]];
    scenario.requests.cruise_speed = Some(Profile::new(speeds).expect("ordered"));
    assert!((scenario.requested_distance_m() - (25.0 + 50.0)).abs() < 1e-9);
    // From 20 m/s at -4 m/s^2, of which 3.5 are allowed, to a stop: v^2 / (2 a).
    scenario.requests.acceleration = Some(Profile::constant(-4.0));
    assert!((scenario.requested_distance_m() - 400.0 / 7.0).abs() < 0.01);
}

#[test]
fn every_family_is_valid_and_named_uniquely() {
    let ncap_tests = [
        ncap::Protocol::V2023,
        ncap::Protocol::V2026,
        ncap::Protocol::V2026Extended,
    ]
    .into_iter()
    .flat_map(|p| {
        [
            ncap::standing(p),
            ncap::standing_warning(p),
            ncap::moving(p),
            ncap::braking(p),
        ]
    })
    .flatten()
    .map(|test| test.scenario());
    let all: Vec<Scenario> = built_in(42)
        .into_iter()
        .chain(beyond_the_car())
        .chain(alks::cut_in())
        .chain(alks::lead_brake())
        .chain(alks::cut_out())
        .chain(alks::blocking_target())
        .chain(alks::swerving_lead())
        .chain(alks::free_driving())
        .chain(ncap_tests)
        .chain(lateral::lateral_steps())
        .chain(lateral::longitudinal_steps())
        .chain(Fuzzer::new(9).iter(500))
        .collect();
    let mut names = std::collections::BTreeSet::new();
    for scenario in &all {
        scenario
            .validate()
            .unwrap_or_else(|e| panic!("{}: {e}", scenario.name));
        names.insert(scenario.name.clone());
    }
    // A 2023 and a 2026 test may be the same one.
    assert!(
        all.len() - names.len() < 40,
        "{} of {}",
        names.len(),
        all.len()
    );
}

/// By a perfect controller, and by those that steer with torque.
#[test]
fn the_five_built_in_scenarios_can_be_driven() {
    let simulator = Simulator::new(RunOptions::default()).expect("valid options");
    let pid = named("pid", || LateralPid::new(LateralPidConfig::default()));
    let torque = named("torque", || {
        LateralTorque::new(LateralTorqueConfig::default())
    });
    let perfect = named("perfect", || PerfectTracking);
    let factories: [&dyn AlgorithmFactory; 3] = [&perfect, &torque, &pid];
    for factory in factories {
        let report = simulator.run(&built_in(42), factory);
        for result in &report.results {
            let metrics = result
                .outcome
                .as_ref()
                .unwrap_or_else(|e| panic!("{}: {e}", result.name));
            assert!(
                metrics.lateral_error_max < 0.6 && metrics.off_lane_ratio == 0.0,
                "{} {}: {metrics:?}",
                factory.name(),
                result.name
            );
        }
        let stop = report.results[4].outcome.as_ref().expect("driven");
        assert!((stop.deceleration_max - 6.0).abs() < 0.1, "{stop:?}");
    }
}

#[test]
fn what_no_torque_holds_is_named_so_and_leaves_the_lane() {
    let simulator = Simulator::new(RunOptions::default()).expect("valid options");
    let torque = named("torque", || {
        LateralTorque::new(LateralTorqueConfig::default())
    });
    for result in &simulator.run(&beyond_the_car(), &torque).results {
        let metrics = result.outcome.as_ref().expect("driven");
        assert!(result.name.ends_with("beyond the car"));
        assert!(metrics.off_lane_ratio > 0.1, "{}: {metrics:?}", result.name);
    }
}

/// What bends, bank and wind ask for is seven tenths of what the car holds by torque, and up to 0.85 where a
/// bank that changes with the bend adds to it. The bend before it under the new bank is not counted.
#[test]
fn drawn_roads_ask_no_more_than_the_car_holds() {
    let mut largest: f64 = 0.0;
    for scenario in Fuzzer::new(1).iter(1000) {
        let (car, v) = (scenario.vehicle.parameters(), scenario.start.speed);
        let actuators = scenario.vehicle.actuators();
        let lag_s = actuators.torque_lag_s(car.wheelbase(), v);
        let wind = scenario.environment.side_push(car.mass, v).abs();
        for segment in &scenario.road.segments {
            let carried = |k: f64| k * v * v + GRAVITY * segment.bank;
            let (from, to) = (
                carried(segment.curvature_start),
                carried(segment.curvature_end),
            );
            let turning = lag_s * (to - from).abs() * v / segment.length;
            let asked = to.abs() + turning + wind;
            let share = asked / actuators.held_lateral_acceleration();
            largest = largest.max(share);
        }
    }
    // The bank changes at once where a bend begins, which adds to what the clothoid asks for.
    assert!((0.6..0.85).contains(&largest), "{largest}");
}

#[test]
fn torque_and_pid_keep_the_car_on_drawn_roads() {
    let simulator = Simulator::new(RunOptions::default()).expect("valid options");
    let pid = named("pid", || LateralPid::new(LateralPidConfig::default()));
    let torque = named("torque", || {
        LateralTorque::new(LateralTorqueConfig::default())
    });
    let scenarios: Vec<Scenario> = Fuzzer::new(1).iter(300).collect();
    for factory in [&torque as &dyn AlgorithmFactory, &pid] {
        let report = simulator.run(&scenarios, factory);
        let outcomes = report
            .results
            .iter()
            .map(|r| r.outcome.as_ref().expect("driven"));
        let off_road = outcomes.filter(|m| m.off_road_ratio > 0.0).count();
        assert_eq!(off_road, 0, "{}", factory.name());
    }
}

#[test]
fn cut_ins_count_as_published() {
    let raw = alks::CutIn::raw();
    assert_eq!(raw.len(), 5250);
    assert_eq!(raw.iter().filter(|c| c.is_admissible()).count(), 2975);
}

#[test]
fn sweeps_are_products_and_lazy() {
    let sweep = Sweep {
        base: Scenario::straight("base", 20.0, 1.0),
        axes: vec![
            Axis {
                parameter: Parameter::Speed,
                values: vec![10.0, 20.0, 30.0],
            },
            Axis {
                parameter: Parameter::Friction,
                values: vec![1.0, 0.5],
            },
        ],
    };
    let all: Vec<Scenario> = sweep.iter().expect("small").collect();
    assert_eq!(all.len(), 6);
    assert_eq!(
        (all[1].start.speed, all[1].environment.friction),
        (10.0, 0.5)
    );
    assert_eq!(
        (all[4].start.speed, all[4].environment.friction),
        (30.0, 1.0)
    );
    let huge = Sweep {
        axes: vec![
            Axis {
                parameter: Parameter::Speed,
                values: vec![0.0; 100_000]
            };
            4
        ],
        ..sweep
    };
    assert!(huge.n_scenarios().is_err());
}

#[test]
fn fuzzed_scenarios_depend_on_seed_and_index_only() {
    let late = Fuzzer::new(3).scenario(77);
    let in_order = Fuzzer::new(3).iter(100).nth(77).expect("a hundred");
    assert_eq!(late, in_order);
    assert_ne!(late, Fuzzer::new(4).scenario(77));
}

#[test]
fn search_finds_a_worse_case_than_random_draws() {
    let mut base = built_in(1).remove(1);
    base.duration_s = 12.0;
    let search = Search {
        base,
        bounds: vec![
            (Parameter::SteerDelay, [0.0, 0.5]),
            (Parameter::StartOffset, [-1.0, 1.0]),
            (Parameter::MassScale, [0.7, 1.5]),
        ],
        population: 40,
        n_rounds: 6,
        seed: 5,
    };
    let simulator = Simulator::new(RunOptions::default()).expect("valid options");
    let pid = named("pid", || LateralPid::new(LateralPidConfig::default()));
    let found = search
        .run(&simulator, &pid, |m| m.lateral_error_rmse)
        .expect("a case");
    assert!(found.score >= found.rounds[0]);
    let rerun = simulator.run(std::slice::from_ref(&found.scenario), &pid);
    let again = rerun.results[0]
        .outcome
        .as_ref()
        .expect("driven")
        .lateral_error_rmse;
    assert_eq!(again, found.score, "the scenario can be run again");
    let no_number = search.run(&simulator, &pid, |_| f64::NAN);
    assert!(matches!(no_number, Err(crate::SimError::Score { .. })));
    let twice = vec![
        (Parameter::MassScale, [0.7, 1.5]),
        (Parameter::MassScale, [0.9, 1.0]),
    ];
    let endless = vec![(Parameter::MassScale, [-1e308, 1e308])];
    for refused in [
        Search {
            bounds: twice,
            ..search.clone()
        },
        Search {
            bounds: endless,
            ..search.clone()
        },
        Search {
            population: 1 << 40,
            ..search.clone()
        },
        Search {
            population: usize::MAX,
            ..search.clone()
        },
        Search {
            n_rounds: 1 << 40,
            ..search.clone()
        },
        Search {
            n_rounds: usize::MAX,
            ..search.clone()
        },
    ] {
        let told = refused.run(&simulator, &pid, |m| m.lateral_error_rmse);
        assert!(told.is_err(), "{refused:?}");
    }
    let beyond = Search {
        bounds: vec![(Parameter::Preset, [0.0, 88.1])],
        ..search.clone()
    };
    let told = beyond.run(&simulator, &pid, |m| m.lateral_error_rmse);
    let told = told.expect_err("no such vehicle").to_string();
    let indices = format!("0 to {}", crate::vehicle::VehiclePreset::ALL.len() - 1);
    assert!(
        told.contains("vehicle preset") && told.contains("88.1") && told.contains(&indices),
        "{told}"
    );
    let nothing = Search {
        bounds: Vec::new(),
        ..search
    };
    assert!(
        nothing
            .run(&simulator, &pid, |m| m.lateral_error_rmse)
            .is_err()
    );
}

#[test]
fn a_search_says_what_it_passed_over() {
    let search = Search {
        base: built_in(1).remove(0),
        // Half of these speeds are none.
        bounds: vec![
            (Parameter::Speed, [-20.0, 20.0]),
            (Parameter::Preset, [0.0, 2.0]),
        ],
        population: 20,
        n_rounds: 1,
        seed: 1,
    };
    let simulator = Simulator::new(RunOptions::default()).expect("valid options");
    let pid = named("pid", || LateralPid::new(LateralPidConfig::default()));
    let found = search.run(&simulator, &pid, |m| m.lateral_error_rmse);
    let found = found.expect("a case");
    assert!((1..20).contains(&found.n_invalid), "{}", found.n_invalid);
    assert!(found.first_invalid.is_some_and(|why| why.contains("speed")));
    let preset = found.values[1].1;
    assert!(
        [0.0, 1.0, 2.0].contains(&preset),
        "an index is whole: {preset}"
    );
    let between = Search {
        bounds: vec![(Parameter::Preset, [0.6, 0.9])],
        ..search.clone()
    };
    let told = between.run(&simulator, &pid, |m| m.lateral_error_rmse);
    assert!(told.is_err_and(|why| why.to_string().contains("whole number")));
    let never = Search {
        bounds: vec![(Parameter::Friction, [-5.0, -1.0])],
        ..search.clone()
    };
    let told = never.run(&simulator, &pid, |m| m.lateral_error_rmse);
    assert!(told.is_err_and(|why| why.to_string().contains("friction")));
    let sweep = |value: f64| Sweep {
        base: found.scenario.clone(),
        axes: vec![Axis {
            parameter: Parameter::Preset,
            values: vec![value],
        }],
    };
    assert_eq!(sweep(2.0).n_scenarios().ok(), Some(1));
    for value in [-1.0, 88.0, 0.5, f64::NAN] {
        assert!(sweep(value).n_scenarios().is_err(), "{value}");
    }
    let mut twice = sweep(2.0);
    twice.axes.push(twice.axes[0].clone());
    assert!(matches!(
        twice.n_scenarios(),
        Err(SimError::VariedTwice { .. })
    ));
}

#[test]
fn the_order_of_axes_changes_no_vehicle_and_no_noise() {
    let axis = |parameter, value| Axis {
        parameter,
        values: vec![value],
    };
    let axes = [
        axis(Parameter::MassScale, 1.5),
        axis(Parameter::SteerDelay, 0.3),
        axis(Parameter::OffsetNoise, 0.2),
        axis(Parameter::Preset, 2.0),
        axis(Parameter::NoiseLevel, 1.0),
    ];
    let made = |axes: Vec<Axis>| {
        let base = Scenario::straight("base", 20.0, 1.0);
        Sweep { base, axes }.scenario(0)
    };
    let forth = made(axes.to_vec());
    let back = made(axes.iter().rev().cloned().collect());
    assert_eq!(forth.vehicle, back.vehicle);
    assert_eq!(forth.environment, back.environment);
    let preset = made(vec![axis(Parameter::Preset, 2.0)]);
    let scaled = 1.5 * preset.vehicle.parameters().mass;
    assert_eq!(forth.vehicle.parameters().mass, scaled);
    assert_eq!(forth.vehicle.actuators().steer_delay_s, 0.3);
}

#[test]
fn time_stamps_as_far_apart_as_they_go_are_told_in_seconds() {
    let row = |timestamp_ns| DriveRow {
        timestamp_ns,
        ..DriveRow::default()
    };
    let table = DriveTable {
        rows: vec![row(i64::MIN), row(i64::MAX)],
        ..table()
    };
    assert!(table.validate().is_ok());
    assert!((table.time(1) - 2f64.powi(64) * 1e-9).abs() < 1.0);
}

fn temporary(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("spark-sim-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    folder.join(name)
}

#[test]
fn scenario_files_round_trip_in_both_formats() {
    let file = file::ScenarioFile {
        scenarios: built_in(1)
            .into_iter()
            .skip(4)
            .chain(Fuzzer::new(2).iter(20))
            .chain(alks::cut_in().into_iter().take(3))
            .collect(),
        sweeps: vec![Sweep {
            base: Scenario {
                road: road_from_curvature(1.0, 0.5, |_| 0.0, |_| 20.0),
                ..Scenario::straight("base", 20.0, 1.0)
            },
            axes: vec![Axis {
                parameter: Parameter::Bank,
                values: vec![0.01],
            }],
        }],
    };
    for name in ["round_trip.toml", "round_trip.json"] {
        let path = temporary(name);
        file.write(&path).expect("writable");
        assert_eq!(
            file::ScenarioFile::read(&path).expect("readable"),
            file,
            "{name}"
        );
    }
}

#[test]
fn scenario_files_that_lie_are_refused_with_a_reason() {
    let check = |name: &str, text: &str, reason: &str| {
        let path = temporary(name);
        std::fs::write(&path, text).expect("writable");
        let error = file::ScenarioFile::read(&path).expect_err("a refusal");
        let mut message = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            message.push_str(&format!(": {source}"));
        }
        assert!(message.contains(reason), "{message}");
        assert!(message.contains(name), "{message}");
    };
    let scenario = "[[scenario]]\nname = \"s\"\nduration_s = 5.0\n";
    check("unknown.toml", &format!("{scenario}colour = 3"), "colour");
    check(
        "negative.toml",
        "[[scenario]]\nname = \"s\"\nduration_s = -5.0",
        "duration",
    );
    check(
        "nan.toml",
        &format!("{scenario}start = {{ speed = nan }}"),
        "start speed",
    );
    check(
        "endless.toml",
        "[[scenario]]\nname = \"s\"\nduration_s = 1e6\ndt_s = 1e-5",
        "number of steps",
    );
    check("cut.json", "{\"scenario\": [", "line 1");
    check(
        "model.toml",
        &format!("{scenario}vehicle = {{ model = \"multi_body\" }}"),
        "expected one of `kinematic`",
    );
    check(
        "step.toml",
        &format!("{scenario}dt_s = 0.1\nvehicle = {{ model = \"drift\" }}"),
        "too long",
    );
    let missing = file::ScenarioFile::read(&temporary("nowhere.toml"));
    assert!(matches!(missing, Err(SimError::Io { .. })));
    let ending = file::ScenarioFile::read(&temporary("scenario.yaml"));
    assert!(matches!(ending, Err(SimError::FileFormat { .. })));
}

fn table() -> DriveTable {
    DriveTable {
        metadata: DriveMetadata::named("recorded"),
        rows: (0..500)
            .map(|i| DriveRow {
                timestamp_ns: i * 10_000_000,
                frame_id: i,
                v_ego: 20.0,
                active: true,
                desired_curvature: 0.002,
                lead_present: i > 100,
                lead_d_rel: 40.0,
                ..DriveRow::default()
            })
            .collect(),
    }
}

#[test]
fn the_schema_has_the_harness_columns() {
    assert_eq!(COLUMNS.len(), 28);
    let required: Vec<&str> = COLUMNS
        .iter()
        .filter(|c| c.required)
        .map(|c| c.name)
        .collect();
    assert_eq!(required, ["timestamp_ns", "v_ego", "a_ego", "active"]);
}

#[test]
fn recordings_are_validated_row_by_row() {
    let check = |change: fn(&mut Vec<DriveRow>), column: &str, row: Option<usize>| {
        let mut table = table();
        change(&mut table.rows);
        let (fault, at_column, at_row) = table.validate().expect_err("a fault");
        assert_eq!((at_column, at_row), (column, row), "{fault}");
    };
    assert!(table().validate().is_ok());
    check(Vec::clear, "timestamp_ns", None);
    check(
        |rows| rows[7].timestamp_ns = rows[6].timestamp_ns,
        "timestamp_ns",
        Some(7),
    );
    check(|rows| rows[3].v_ego = 101.0, "v_ego", Some(3));
    check(|rows| rows[9].roll = f64::NAN, "roll", Some(9));
    check(|rows| rows[2].gt_steer_cmd = 0.5, "gt_steer_cmd", None);
}

#[test]
fn a_recording_becomes_a_closed_loop_on_its_road() {
    let scenario = table().to_scenario().expect("convertible");
    let simulator = Simulator::new(RunOptions::default()).expect("valid options");
    let report = simulator.run(&[scenario], &named("perfect", || PerfectTracking));
    let metrics = report.results[0].outcome.as_ref().expect("driven");
    assert!(metrics.lateral_error_max < 0.2, "{metrics:?}");
    assert!(
        (metrics.gap_min.expect("a lead") - 40.0).abs() < 1.0,
        "{metrics:?}"
    );
    let short = DriveTable {
        rows: table().rows[..1].to_vec(),
        ..table()
    };
    assert!(short.to_scenario().is_err());
}

#[test]
fn open_loop_replay_changes_nothing_about_the_states() {
    let mut pid = LateralPid::new(LateralPidConfig::default());
    let answers = table::replay_open_loop(&table(), &mut pid);
    assert_eq!(answers.len(), 500);
    // The recorded wheel never turns, so the integral winds up: the sign of an open loop.
    assert!(answers[499].steer > answers[0].steer);
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_round_trip() {
    let mut table = table();
    for (i, row) in table.rows.iter_mut().enumerate() {
        row.gt_steer_cmd = i as f64 * 1e-3;
    }
    table.metadata.weather = Some("rain".to_owned());
    let path = temporary("drive.parquet");
    parquet::write_drive(&path, &table).expect("writable");
    let back = parquet::read_drive(&path).expect("readable");
    assert_eq!(back.metadata, table.metadata);
    // NaN stands for unknown and is not equal to itself, so compare as text.
    assert_eq!(format!("{:?}", back.rows), format!("{:?}", table.rows));
}

#[cfg(feature = "parquet")]
#[test]
fn damaged_parquet_files_are_errors() {
    let path = temporary("damaged.parquet");
    parquet::write_drive(&path, &table()).expect("writable");
    let whole = std::fs::read(&path).expect("readable");
    for length in [0, 3, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).expect("writable");
        assert!(parquet::read_drive(&path).is_err(), "{length} bytes");
    }
    let mut random = crate::random::Philox::new(1, 1);
    for _ in 0..200 {
        let mut bytes = whole.clone();
        for _ in 0..3 {
            let at = random.next_index(bytes.len());
            bytes[at] ^= 1 << random.next_index(8);
        }
        std::fs::write(&path, &bytes).expect("writable");
        // Any answer but a crash: some bits do not matter.
        let _ = parquet::read_drive(&path);
    }
    assert!(matches!(
        parquet::write_drive(
            &path,
            &DriveTable {
                rows: Vec::new(),
                ..table()
            }
        ),
        Err(SimError::Table {
            fault: table::TableFault::Empty,
            ..
        })
    ));
}

#[cfg(feature = "parquet")]
#[test]
fn files_of_pyarrow_are_read() {
    // Written by pyarrow: Snappy, float32 and int32 columns, nulls, a column that is not in the schema.
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/harness_pyarrow.parquet");
    let table = parquet::read_drive(&path).expect("readable");
    assert_eq!(table.metadata.name, "from pyarrow");
    assert_eq!(table.metadata.scenario_type, ScenarioKind::HighwayCurve);
    assert_eq!(table.rows.len(), 50);
    let row = &table.rows[30];
    assert_eq!((row.frame_id, row.timestamp_ns), (30, 300_000_000));
    assert!((row.v_ego - 20.3).abs() < 1e-5 && row.lead_present && row.active);
    assert_eq!(row.gt_steer_cmd, 0.3);
    assert!(row.gt_trajectory_x.is_nan());
    assert_eq!(row.lead_d_rel, 100.0, "a missing column has its default");
    assert!(table.to_scenario().is_ok());
}
