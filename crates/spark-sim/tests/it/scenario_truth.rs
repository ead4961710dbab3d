//! Traffic, planner and scenario families against outside truth.

use crate::support::{assert_close, numbers, truth};
use serde_json::Value;
use spark_sim::control::minimum_following_distance;
use spark_sim::control::planner::Personality;
use spark_sim::scenario::alks;
use spark_sim::scenario::maneuver::{self, GapPlanner, Maneuver};
use spark_sim::scenario::ncap::{self, CarToCarRear, Protocol};
use spark_sim::traffic::Idm;

fn number(value: &Value, key: &str) -> f64 {
    value[key]
        .as_f64()
        .unwrap_or_else(|| panic!("`{key}` is not a number"))
}

fn idm(parameters: &Value) -> Idm {
    Idm {
        desired_speed: number(parameters, "v0"),
        time_gap: number(parameters, "T"),
        standstill_gap: number(parameters, "s0"),
        acceleration: number(parameters, "a"),
        deceleration: number(parameters, "b"),
    }
}

#[test]
fn idm_matches_its_analytic_equilibrium_and_accelerations() {
    let Some(data) = truth("idm_equilibrium.json") else {
        return;
    };
    for case in data["equilibrium"].as_array().expect("cases") {
        let idm = idm(&data["parameter_sets"][case["set"].as_str().expect("a set")]);
        let (v, gap) = (number(case, "v"), number(case, "gap"));
        assert_close("equilibrium gap", idm.equilibrium_gap(v), gap, 1e-12, 1e-12);
        assert_close("rest", idm.acceleration_at(v, 0.0, gap), 0.0, 1e-12, 0.0);
    }
    for case in data["accelerations"].as_array().expect("cases") {
        let idm = idm(&data["parameter_sets"][case["set"].as_str().expect("a set")]);
        let got = idm.acceleration_at(number(case, "v"), number(case, "dv"), number(case, "gap"));
        assert_close(
            "acceleration",
            got,
            number(case, "acceleration"),
            1e-12,
            1e-12,
        );
    }
}

#[test]
fn minimum_distances_are_those_of_un_r157() {
    let Some(data) = truth("r157_min_distance.json") else {
        return;
    };
    for (key, tolerance) in [("published", 1e-3), ("table", 1e-12)] {
        for case in data[key].as_array().expect("cases") {
            let v = case["v_mps"]
                .as_f64()
                .unwrap_or_else(|| number(case, "v_kph") / 3.6);
            let got = minimum_following_distance(v);
            assert_close(key, got, number(case, "distance_m"), tolerance, 1e-12);
        }
    }
}

#[test]
fn steady_following_gaps_are_openpilots() {
    let Some(data) = truth("longitudinal_maneuvers.json") else {
        return;
    };
    for case in data["following_distance"]["cases"]
        .as_array()
        .expect("cases")
    {
        let personality = match case["personality"].as_str() {
            Some("relaxed") => Personality::Relaxed,
            Some("standard") => Personality::Standard,
            Some("aggressive") => Personality::Aggressive,
            other => panic!("unknown personality {other:?}"),
        };
        let got = maneuver::following_gap(number(case, "v_lead"), &mut GapPlanner { personality });
        // The rule allows 10 % and 0.5 m.
        assert_close("gap", got, number(case, "gap"), 0.05, 0.002);
    }
}

/// A profile of the data at time `t`: linear between breakpoints, constant outside.
fn at(case: &Value, key: &str, default: f64, t: f64) -> f64 {
    let Some(values) = case[key].as_array() else {
        return default;
    };
    let value = |i: usize| values[i].as_f64().unwrap_or(f64::NAN);
    let times = case["breakpoints"].as_array().map_or_else(
        || vec![0.0, number(case, "duration")],
        |_| numbers(&case["breakpoints"]),
    );
    let after = times.partition_point(|&time| time <= t);
    if after == 0 {
        value(0)
    } else if after == times.len() {
        value(after - 1)
    } else {
        let share = (t - times[after - 1]) / (times[after] - times[after - 1]);
        value(after - 1) + share * (value(after) - value(after - 1))
    }
}

fn ours(points: &[[f64; 2]], t: f64) -> f64 {
    let after = points.partition_point(|p| p[0] <= t);
    match (after, points.get(after)) {
        (0, Some(first)) => first[1],
        (_, None) => points[points.len() - 1][1],
        (_, Some(next)) => {
            let last = points[after - 1];
            last[1] + (next[1] - last[1]) * (t - last[0]) / (next[0] - last[0])
        }
    }
}

#[track_caller]
fn check_maneuver(ours_is: &Maneuver, case: &Value) {
    let title = ours_is.title;
    assert_eq!(title, case["title"].as_str().expect("a title"));
    let or = |key: &str, default: f64| case[key].as_f64().unwrap_or(default);
    let flag = |key: &str, default: bool| case[key].as_bool().unwrap_or(default);
    assert_eq!(ours_is.duration, number(case, "duration"), "{title}");
    assert_eq!(ours_is.initial_speed, or("initial_speed", 0.0), "{title}");
    assert_eq!(ours_is.lead, flag("lead", false), "{title}");
    assert_eq!(
        ours_is.initial_gap,
        or("initial_distance_lead", 200.0),
        "{title}"
    );
    assert_eq!(
        ours_is.only_second_lead,
        flag("only_lead2", false),
        "{title}"
    );
    assert_eq!(ours_is.only_radar, flag("only_radar", false), "{title}");
    assert_eq!(ours_is.ensure_start, flag("ensure_start", false), "{title}");
    assert_eq!(
        ours_is.ensure_slowdown,
        flag("ensure_slowdown", false),
        "{title}"
    );
    assert_eq!(ours_is.enabled, flag("enabled", true), "{title}");
    let profiles: [(&str, f64, &[[f64; 2]]); 5] = [
        ("speed_lead", 0.0, &ours_is.lead_speed),
        ("prob_lead", 1.0, &ours_is.lead_probability),
        ("prob_throttle", 1.0, &ours_is.throttle_probability),
        ("cruise", 50.0, &ours_is.cruise),
        ("pitch", 0.0, &ours_is.pitch),
    ];
    for (key, default, points) in profiles {
        for step in 0..(ours_is.duration / maneuver::DT) as usize {
            let t = step as f64 * maneuver::DT;
            let (got, want) = (ours(points, t), at(case, key, default, t));
            let same = (got - want).abs() < 1e-9 || (got.is_nan() && want.is_nan());
            assert!(same, "{title}: {key} at {t} is {got}, expected {want}");
        }
    }
}

#[test]
fn the_fifteen_maneuvers_are_the_published_ones_and_pass() {
    let Some(data) = truth("longitudinal_maneuvers.json") else {
        return;
    };
    let cases = data["maneuvers"].as_array().expect("cases");
    let maneuvers = maneuver::all();
    assert_eq!(maneuvers.len(), cases.len());
    for (maneuver, case) in maneuvers.iter().zip(cases) {
        check_maneuver(maneuver, case);
        for force_decel in [false, true] {
            if force_decel && case["only_when"].is_string() {
                continue;
            }
            let mut planner = GapPlanner {
                personality: Personality::Aggressive,
            };
            let run = maneuver::run(maneuver, &mut planner, force_decel);
            assert!(
                run.broken.is_empty(),
                "{} forced {force_decel}: {:?}",
                maneuver.title,
                run.broken
            );
        }
    }
}

#[test]
fn cut_in_combinations_and_the_avoidance_criterion_are_those_of_un_r157() {
    let Some(data) = truth("alks_cut_in.json") else {
        return;
    };
    let counts = &data["cut_in"]["combinations_per_side_and_vehicle"];
    let raw = alks::CutIn::raw();
    assert_eq!(raw.len() as f64, number(counts, "raw"));
    let admissible = raw.iter().filter(|c| c.is_admissible()).count();
    assert_eq!(admissible as f64, number(counts, "satisfying_constraints"));
    for case in data["avoidance_criterion"]["thresholds"]
        .as_array()
        .expect("cases")
    {
        let (v, ttc) = (number(case, "v_rel_mps"), number(case, "ttc_threshold_s"));
        assert!(alks::must_be_avoided(v, ttc + 1e-9) && !alks::must_be_avoided(v, ttc - 1e-9));
    }
}

/// Speeds (ego, target), offsets, braking: as sorted text, so that sets compare.
fn canonical(tests: impl IntoIterator<Item = CarToCarRear>) -> Vec<String> {
    let mut all: Vec<String> = tests
        .into_iter()
        .map(|t| {
            let braking = t
                .braking
                .map_or_else(String::new, |[h, d]| format!(" {h:.6} {d:.3}"));
            format!(
                "{:.1} {:.1} {:+.6}{braking}",
                t.ego_kph,
                t.target_kph,
                t.offset + 0.0
            )
        })
        .collect();
    all.sort();
    all
}

/// The same from the data: the product of its lists and joint sets.
fn from_data(family: &Value, is_2023: bool) -> Vec<String> {
    let list = |key: &str| -> Vec<f64> {
        family["parameters"][key]["values"]
            .as_array()
            .map_or_else(Vec::new, |v| v.iter().filter_map(Value::as_f64).collect())
    };
    let names = if is_2023 {
        ("Ego_speed_kph", "GVT_init_speed_kph", "Overlap")
    } else {
        ("Ego_speed_kph", "Target_init_speed_kph", "ImpactLocation")
    };
    let mut rows: Vec<(f64, f64, Vec<f64>)> = Vec::new();
    if let Some(joint) = family["joint_sets"][0].as_array() {
        for set in joint {
            let places = set[names.2]
                .as_f64()
                .map_or_else(|| list(names.2), |p| vec![p]);
            rows.push((number(set, names.0), number(set, names.1), places));
        }
    } else {
        for ego in list(names.0) {
            rows.push((ego, list(names.1)[0], list(names.2)));
        }
    }
    let mut tests = Vec::new();
    for (ego_kph, target_kph, places) in rows {
        for place in places {
            let offset = if is_2023 {
                ncap::offset_for_overlap(place)
            } else {
                ncap::offset_for_location(place)
            };
            let one = |braking| CarToCarRear {
                ego_kph,
                target_kph,
                offset,
                braking,
            };
            let headways = list("GVT_headway");
            if is_2023 && !headways.is_empty() {
                for headway in headways {
                    for deceleration in list("GVT_deceleration") {
                        tests.push(one(Some([headway, deceleration])));
                    }
                }
            } else if let Some(&deceleration) = list("Target_deceleration").first() {
                let headway = list("Target_time_headway")[0] * ego_kph / 3.6;
                tests.push(one(Some([headway, deceleration])));
            } else {
                tests.push(one(None));
            }
        }
    }
    canonical(tests)
}

#[test]
fn ncap_families_are_the_published_ranges() {
    let Some(data) = truth("ncap_ccr.json") else {
        return;
    };
    for (key, protocol) in [
        ("2023", Protocol::V2023),
        ("2026_standard", Protocol::V2026),
        ("2026_extended", Protocol::V2026Extended),
    ] {
        let ranges = &data["ranges"][key];
        let is_2023 = protocol == Protocol::V2023;
        let check = |family: &str, tests: Vec<CarToCarRear>| {
            let want = from_data(&ranges[family], is_2023);
            assert_eq!(canonical(tests), want, "{key} {family}");
        };
        check("CCRs", ncap::standing(protocol));
        check("CCRs_FCW", ncap::standing_warning(protocol));
        check("CCRm", ncap::moving(protocol));
        check("CCRb", ncap::braking(protocol));
    }
}
