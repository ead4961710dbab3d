//! The page on files of scenarios against the code: names, defaults and limits of all fields.
//!
//! ```text
//! | field of `start` |      the table in EXAMPLE at this place has these fields and no others
//!   default               left out, the file says the same as with this value; required: it is refused
//!   limits                a value at a limit is taken, one beyond it refused; words are all that there are
//! ```

use serde_json::{Value, json};
use spark_sim::scenario::file::ScenarioFile;

/// Where the tables of the page stand in [`example`].
const TABLES: [(&str, &str); 22] = [
    ("a file", ""),
    ("`scenario`", "/scenario/0"),
    ("`vehicle`", "/scenario/0/vehicle"),
    ("`vehicle.parameters`", "/scenario/0/vehicle/parameters"),
    ("`vehicle.actuators`", "/scenario/0/vehicle/actuators"),
    ("`start`", "/scenario/0/start"),
    ("`requests`", "/scenario/0/requests"),
    ("`road`", "/scenario/0/road"),
    ("`road.segments`", "/scenario/0/road/segments/0"),
    ("`environment`", "/scenario/0/environment"),
    ("`environment.noise`", "/scenario/0/environment/noise"),
    ("a channel", "/scenario/0/environment/noise/offset"),
    (
        "`lead_presence`",
        "/scenario/0/environment/noise/lead_presence",
    ),
    ("`actors`", "/scenario/0/actors/0"),
    ("`shape`", "/scenario/0/actors/0/shape"),
    ("`brake`", "/scenario/0/actors/1/longitudinal/brake"),
    ("`idm`", "/scenario/0/actors/2/longitudinal/idm"),
    ("`krauss`", "/scenario/0/actors/3/longitudinal/krauss"),
    ("`replay`", "/scenario/0/actors/4/longitudinal/replay/0"),
    ("`change`", "/scenario/0/actors/1/lateral/change"),
    ("`sweep`", "/sweep/0"),
    ("`axes`", "/sweep/0/axes/0"),
];

/// A file that has every field.
fn example() -> Value {
    let profile = |value: f64| json!([[0.0, value]]);
    let channel = json!({
        "bias": 0.0, "bias_sd": 0.0, "white_sd": 0.0, "ar1_sd": 0.0, "ar1_time_s": 1.0, "rate_hz": 20.0,
        "latency_s": 0.0, "dropout": 0.0, "dropout_frames": 1,
    });
    let presence =
        json!({ "rate_hz": 20.0, "latency_s": 0.0, "dropout": 0.0, "dropout_frames": 1 });
    let noise = json!({
        "level": 0.0, "offset": channel, "heading": channel, "curvature": channel, "speed": channel,
        "yaw_rate": channel, "steering_angle": channel, "roll": channel, "lead_distance": channel,
        "lead_speed": channel, "lead_acceleration": channel, "lead_presence": presence,
    });
    let car = json!({
        "length": 4.7, "width": 1.85, "mass": 1500.0, "yaw_inertia": 2500.0, "front_axle": 1.35,
        "rear_axle": 1.35, "cog_height": 0.55, "friction": 1.0, "cornering_front": 27.0,
        "cornering_rear": 27.0, "steer_ratio": 15.0, "steer_max": 0.6, "steer_rate_max": 0.4,
        "speed_min": 0.0, "speed_max": 60.0, "switch_speed": 8.0, "acceleration_max": 11.5,
        "wheel_radius": 0.33, "wheel_inertia": 1.7, "brake_front": 0.66, "engine_front": 1.0,
        "trailer_wheelbase": 8.1,
    });
    let actuators = json!({
        "steer_delay_s": 0.1, "steer_lag_s": 0.1, "acceleration_delay_s": 0.2, "acceleration_lag_s": 0.2,
        "acceleration_max": 2.0, "deceleration_max": 4.0, "lateral_acceleration_at_full_torque": 2.45,
        "torque_friction": 0.31, "torque_lateral_acceleration_max": 2.0, "torque_damping": 21.0,
        "torque_understeer": 0.002, "torque_up": 1.0, "torque_down": 1.0,
    });
    let actor = |longitudinal: Value, lateral: Value| {
        json!({
            "shape": { "length": 4.0, "width": 1.7 }, "distance": 50.0, "offset": 0.5, "speed": 1.0,
            "longitudinal": longitudinal, "lateral": lateral,
        })
    };
    let brake =
        json!({ "brake": { "trigger": { "at": 1.0 }, "deceleration": 1.0, "final_speed": 0.0 } });
    let idm = json!({ "idm": {
        "desired_speed": 20.0, "time_gap": 1.5, "standstill_gap": 2.0, "acceleration": 1.0, "deceleration": 2.0,
    } });
    let krauss = json!({ "krauss": {
        "acceleration": 2.0, "deceleration": 4.0, "imperfection": 0.5, "reaction_time": 1.0,
        "standstill_gap": 2.0, "desired_speed": 20.0,
    } });
    let replay = json!({ "replay": [{ "t": 0.0, "s": 1.0, "d": 0.0 }] });
    let change = json!({ "change": {
        "trigger": { "gap_below": 9.0 }, "to": 0.0, "peak_speed": 1.0, "acceleration": 0.1, "speed_goal": 9.0,
    } });
    let scenario = json!({
        "name": "all", "description": "words", "family": "one", "kind": "cut_in", "difficulty": "hard",
        "duration_s": 2.0, "dt_s": 0.01, "seed": 3,
        "vehicle": {
            "preset": "suv", "parameters": car, "actuators": actuators, "model": "kinematic", "integrator": "rk4",
        },
        "road": {
            "segments": [{
                "length": 9.0, "curvature_start": 0.01, "curvature_end": 0.02, "grade": 0.01, "bank": 0.01,
            }],
            "lane_width": 3.0, "n_lanes_left": 1, "n_lanes_right": 1,
        },
        "start": { "speed": 0.5, "distance": 1.0, "offset": 0.1, "heading": 0.1 },
        "requests": {
            "cruise_speed": profile(9.0), "offset": profile(0.1), "curvature": profile(0.0),
            "acceleration": profile(0.0), "acceleration_limits": [-3.0, 2.0],
        },
        "actors": [
            actor(json!("hold"), json!("keep")), actor(brake, change), actor(idm, json!("keep")),
            actor(krauss, json!("keep")), actor(replay, json!("keep")),
        ],
        "environment": { "friction": 0.9, "headwind": 1.0, "crosswind": 1.0, "noise": noise },
    });
    let sweep = json!({ "base": scenario, "axes": [{ "parameter": "speed", "values": [0.1] }] });
    json!({ "scenario": [scenario], "sweep": [sweep] })
}

/// What a program does that reads the file.
fn read(file: &Value) -> Result<ScenarioFile, String> {
    let file: ScenarioFile = serde_json::from_value(file.clone()).map_err(|e| e.to_string())?;
    for scenario in &file.scenarios {
        scenario.validate().map_err(|e| e.to_string())?;
    }
    for sweep in &file.sweeps {
        sweep.n_scenarios().map_err(|e| e.to_string())?;
    }
    Ok(file)
}

/// The cells of the page's table whose title this is.
fn rows(title: &str) -> Vec<Vec<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenario-files.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let lines = page.lines();
    let lines = lines.skip_while(|line| !line.starts_with(&format!("| {title} |")));
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| {
        row.trim_matches('|')
            .split('|')
            .map(|it| it.trim().to_owned())
            .collect()
    };
    rows.map(cells).collect()
}

/// What stands in backticks.
fn words(text: &str) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

/// What the code could read where it was given something else.
#[track_caller]
fn expected(file: &Value) -> Vec<String> {
    let refusal = read(file).expect_err("refused");
    let (_, known) = refusal.split_once(", expected ").expect(&refusal);
    sorted(words(known))
}

/// The example with another value at a place, or with none.
fn with(place: &str, value: Option<Value>) -> Value {
    let mut file = example();
    let (table, field) = place.rsplit_once('/').expect("a place");
    let table = file.pointer_mut(table).expect("a table of the example");
    match (table, value) {
        (Value::Array(list), Some(value)) => {
            list[field.parse::<usize>().expect("a number")] = value
        }
        (table, Some(value)) => table[field] = value,
        (table, None) => {
            let fields = table.as_object_mut().expect("a table");
            fields.remove(field).expect("a field of the example");
        }
    }
    file
}

#[test]
fn the_page_names_the_fields_that_are_read() {
    assert!(read(&example()).is_ok(), "{:?}", read(&example()));
    for (of, place) in &TABLES {
        let named = rows(&format!("field of {of}"));
        let named = sorted(named.iter().flat_map(|row| words(&row[0])).collect());
        let known = expected(&with(&format!("{place}/no such"), Some(json!(0))));
        assert_eq!(named, known, "{of}");
        let there = example();
        let there = there.pointer(place).and_then(Value::as_object);
        let there = there.expect("a table").keys().cloned().collect();
        assert_eq!(sorted(there), known, "{of}: the example has them all");
    }
}

#[test]
fn the_page_names_the_words_and_forms_that_are_read() {
    let longitudinal = "/scenario/0/actors/0/longitudinal";
    for (title, place) in [
        ("form of `longitudinal`", longitudinal),
        ("form of `lateral`", "/scenario/0/actors/0/lateral"),
        (
            "form of `trigger`",
            "/scenario/0/actors/1/longitudinal/brake/trigger",
        ),
        ("parameter", "/sweep/0/axes/0/parameter"),
    ] {
        let named = rows(title).iter().flat_map(|row| words(&row[0])).collect();
        let known = expected(&with(place, Some(json!("no such"))));
        assert_eq!(sorted(named), known, "{title}");
    }
    let mut n_words = 0;
    for (of, place) in &TABLES[..20] {
        for row in rows(&format!("field of {of}")) {
            if row[1] != "word" {
                continue;
            }
            let place = format!("{place}/{}", words(&row[0])[0]);
            let known = expected(&with(&place, Some(json!("no such"))));
            assert_eq!(sorted(words(&row[3])), known, "{place}");
            n_words += 1;
        }
    }
    assert_eq!(n_words, 5);
}

/// The value of a cell: as TOML, or a quotient of two numbers.
fn value_of(cell: &str) -> Value {
    let text = cell.trim_matches('`');
    if let Some((over, under)) = text.split_once('/') {
        let number = |text: &str| -> f64 { text.parse().expect("a number") };
        return json!(number(over) / number(under));
    }
    let value: toml::Table = toml::from_str(&format!("value = {text}")).expect(cell);
    serde_json::to_value(&value["value"]).expect("JSON")
}

#[test]
fn a_field_that_is_left_out_is_what_the_page_says() {
    let mut n_defaults = 0;
    for (of, place) in &TABLES {
        for row in rows(&format!("field of {of}")) {
            let place = format!("{place}/{}", words(&row[0])[0]);
            let without = read(&with(&place, None));
            let default = match &*row[2] {
                "required" => {
                    let refusal = without.expect_err(&place);
                    assert!(refusal.contains("missing field"), "{place}: {refusal}");
                    continue;
                }
                "none" => Value::Null,
                cell => value_of(cell),
            };
            let stated = read(&with(&place, Some(default)));
            assert!(stated.is_ok() && without == stated, "{place}: {stated:?}");
            n_defaults += 1;
        }
    }
    assert!(n_defaults > 60, "{n_defaults}");
}

/// One end of a range, and whether it belongs to it.
type End = (f64, bool);

/// `A to B`, `above A to below B`, `at least A`, `above A`; what follows a semicolon is a further condition.
fn limits(cell: &str) -> Option<[Option<End>; 2]> {
    let cell = cell.split(';').next()?;
    let end = |text: &str| -> Option<End> {
        let outside = ["above ", "below "]
            .iter()
            .find_map(|it| text.strip_prefix(it));
        let number = outside.unwrap_or(text).replace(',', "");
        Some((number.trim().parse().ok()?, outside.is_none()))
    };
    if let Some((low, high)) = cell.split_once(" to ") {
        return Some([Some(end(low)?), Some(end(high)?)]);
    }
    let low = end(cell.strip_prefix("at least ").unwrap_or(cell))?;
    Some([Some(low), None])
}

#[test]
fn values_up_to_the_limits_of_the_page_are_taken_and_others_refused() {
    let mut n_ends = 0;
    for (of, place) in &TABLES {
        for row in rows(&format!("field of {of}")) {
            let Some(ends) = limits(&row[3]) else {
                continue;
            };
            let place = format!("{place}/{}", words(&row[0])[0]);
            let now = example().pointer(&place).cloned().expect("a field");
            let try_with = |number: f64| {
                let value = match &now {
                    Value::Array(_) => json!([[0.0, number]]),
                    Value::Number(it) if it.is_i64() => json!(number as i64),
                    _ => json!(number),
                };
                read(&with(&place, Some(value)))
            };
            let least = if now.is_i64() { 1.0 } else { 1e-6 };
            for (end, sign) in ends.into_iter().zip([-1.0, 1.0]) {
                let Some((number, is_inside)) = end else {
                    continue;
                };
                let beyond = number + sign * f64::max(least, 1e-6 * number.abs());
                assert!(try_with(beyond).is_err(), "{place}: {beyond}");
                match is_inside {
                    // Other limits stand behind a semicolon.
                    true if row[3].contains(';') => {}
                    true => assert!(try_with(number).is_ok(), "{place}: {:?}", try_with(number)),
                    false => assert!(try_with(number).is_err(), "{place}: {number}"),
                }
                n_ends += 1;
            }
        }
    }
    assert!(n_ends > 150, "{n_ends}");
    for (low, high, is_taken) in [
        (-12.0, 12.0, true),
        (-0.1, 0.1, true),
        (-12.1, 2.0, false),
        (-0.09, 2.0, false),
        (-3.0, 12.1, false),
        (-3.0, 0.09, false),
    ] {
        let limits = with(
            "/scenario/0/requests/acceleration_limits",
            Some(json!([low, high])),
        );
        assert_eq!(read(&limits).is_ok(), is_taken, "{low} {high}");
    }
}
