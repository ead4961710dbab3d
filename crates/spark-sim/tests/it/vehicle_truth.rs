//! Vehicle models against the published package and openpilot's closed forms.

use crate::support::{assert_close, numbers, truth};
use serde_json::Value;
use spark_sim::integrate::{Integrator, StepElement, VehicleBatch};
use spark_sim::real::{Element, Real, padded_len};
use spark_sim::vehicle::{
    CommonRoadVehicle, DriftSingleTrack, DynamicSingleTrack, Dynamics, KinematicSingleTrack,
    KinematicTrailer, OpenpilotVehicle, OpenpilotVehicleParameters, ParameterBatch, Parameters,
    VehicleModel, hold_inputs,
};

fn model(name: &str) -> Option<VehicleModel> {
    match name {
        "KS" => Some(VehicleModel::Kinematic),
        "KST" => Some(VehicleModel::KinematicTrailer),
        "ST" => Some(VehicleModel::SingleTrack),
        "STD" => Some(VehicleModel::Drift),
        // Not in this crate: the multi-body model, and the older drift model, to which the published vector belongs.
        "MB" | "STD_no_load_transfer" => None,
        other => panic!("unknown model {other}"),
    }
}

fn parameters<E: Element>(case: &Value) -> Parameters<E> {
    let number = case["vehicle"].as_u64().expect("a vehicle number") as usize;
    CommonRoadVehicle::ALL[number - 1].parameters().rounded()
}

fn derivative<R: Real>(m: VehicleModel, p: &Parameters<R>, x: &[R], u: [R; 2]) -> Vec<R> {
    fn of<R: Real, M: Dynamics<N>, const N: usize>(
        p: &Parameters<R>,
        x: &[R],
        u: [R; 2],
    ) -> Vec<R> {
        M::derivative(p, x.try_into().expect("one number per state"), u).to_vec()
    }
    match m {
        VehicleModel::Kinematic => of::<R, KinematicSingleTrack, 5>(p, x, u),
        VehicleModel::KinematicTrailer => of::<R, KinematicTrailer, 6>(p, x, u),
        VehicleModel::SingleTrack => of::<R, DynamicSingleTrack, 7>(p, x, u),
        VehicleModel::Drift => of::<R, DriftSingleTrack, 9>(p, x, u),
        other => panic!("no derivative for {other:?}"),
    }
}

/// Checks a list of derivative vectors; returns how many belonged to our models.
#[track_caller]
fn check_derivatives(cases: &Value, abs: f64, rel: f64) -> usize {
    let mut n_checked = 0;
    for case in cases.as_array().expect("a list of cases") {
        let Some(m) = model(case["model"].as_str().expect("a model name")) else {
            continue;
        };
        let u = numbers(&case["input"]);
        let got = derivative(
            m,
            &parameters::<f64>(case),
            &numbers(&case["state"]),
            [u[0], u[1]],
        );
        for (i, (g, w)) in got.iter().zip(numbers(&case["derivative"])).enumerate() {
            let context = format!("{m:?} {} state {i}", case["note"]);
            assert_close(&context, *g, w, abs, rel);
        }
        n_checked += 1;
    }
    n_checked
}

#[test]
fn f64_derivatives_equal_the_published_vectors_to_14_places() {
    let Some(data) = truth("vehicle_models.json") else {
        return;
    };
    assert_eq!(
        check_derivatives(&data["published_derivatives"], 1e-14, 1e-14),
        4
    );
}

#[test]
fn f64_derivatives_equal_the_package_at_every_limit() {
    let Some(data) = truth("vehicle_models.json") else {
        return;
    };
    let n_checked = check_derivatives(&data["wheel_derivatives"]["cases"], 1e-13, 5e-13);
    assert_eq!(n_checked, 100);
}

/// One vehicle driven for a second with a constant input.
fn drive<E: StepElement>(case: &Value, integrator: Integrator, dt: f64) -> Vec<f64> {
    let m = model(case["model"].as_str().expect("a model name")).expect("a model we have");
    let mut batch = VehicleBatch::<E>::new(m, 1);
    let start: Vec<E> = numbers(&case["initial_state"])
        .into_iter()
        .map(E::from_f64)
        .collect();
    batch.set(0, &start).expect("one number per state");
    let input = numbers(&case["input"]);
    let column = |value: f64| vec![E::from_f64(value); padded_len(1)];
    let fleet = ParameterBatch::filled(1, parameters::<E>(case));
    for _ in 0..(1.0 / dt).round() as usize {
        batch
            .step(integrator, &fleet, &column(input[0]), &column(input[1]), dt)
            .expect("valid inputs");
    }
    batch.get(0).into_iter().map(E::to_f64).collect()
}

#[test]
fn f64_end_states_equal_the_reference_integrations() {
    let Some(data) = truth("vehicle_models.json") else {
        return;
    };
    let mut n_checked = 0;
    for case in data["reference_end_states"]["cases"]
        .as_array()
        .expect("cases")
    {
        if model(case["model"].as_str().expect("a name")).is_none() {
            continue;
        }
        // The fixed-step columns use the same rule at the same step: only the rounding of sums differs.
        let runs = [
            ("end_state_rk4_dt_0.01", Integrator::Rk4, 0.01),
            ("end_state_rk4_dt_0.001", Integrator::Rk4, 0.001),
            ("end_state_euler_dt_0.01", Integrator::Euler, 0.01),
        ];
        for (key, integrator, dt) in runs {
            let Some(want) = case[key].as_array() else {
                continue;
            };
            if want.iter().any(|v| !v.is_number()) {
                continue;
            }
            let want = numbers(&case[key]);
            if dt > 0.001 && case["rk4_dt_0.01_is_stable"] != true {
                continue; // too long a step for this run: rounding errors grow, nothing to agree on
            }
            for (i, (g, w)) in drive::<f64>(case, integrator, dt)
                .iter()
                .zip(&want)
                .enumerate()
            {
                let context = format!("{} {} {key} state {i}", case["model"], case["note"]);
                assert_close(&context, *g, *w, 1e-9, 1e-9);
            }
            n_checked += 1;
        }
    }
    assert!(n_checked >= 60, "only {n_checked} runs checked");
}

#[test]
fn published_end_states_are_met_within_their_tolerance() {
    let Some(data) = truth("vehicle_models.json") else {
        return;
    };
    let mut n_checked = 0;
    for case in data["published_end_states"]["cases"]
        .as_array()
        .expect("cases")
    {
        let ours = model(case["model"].as_str().expect("a name")).is_some();
        if !ours || case["reproduced_by_package"] != true {
            continue;
        }
        let got = drive::<f64>(case, Integrator::Rk4, 0.001);
        for (g, w) in got.iter().zip(numbers(&case["end_state"])) {
            assert_close(&case["case"].to_string(), *g, w, 1e-2, 0.0);
        }
        n_checked += 1;
    }
    assert!(n_checked >= 7, "only {n_checked} cases checked");
}

#[test]
fn f32_end_states_stay_near_the_f64_oracle() {
    let Some(data) = truth("vehicle_models.json") else {
        return;
    };
    for case in data["reference_end_states"]["cases"]
        .as_array()
        .expect("cases")
    {
        let Some(m) = model(case["model"].as_str().expect("a name")) else {
            continue;
        };
        if m == VehicleModel::Drift {
            continue; // wheel speeds hunt around zero slip; compared through ST instead
        }
        let oracle = drive::<f64>(case, Integrator::Rk4, 0.001);
        let fast = drive::<f32>(case, Integrator::Rk4, 0.001);
        for (i, (g, w)) in fast.iter().zip(&oracle).enumerate() {
            let context = format!("{m:?} {} state {i}", case["note"]);
            assert_close(&context, *g, *w, 2e-3, 1e-4);
        }
    }
}

#[test]
fn openpilot_yaw_rates_match_to_ten_places_on_the_upstream_grid() {
    let Some(data) = truth("openpilot_vehicle_model.json") else {
        return;
    };
    let car = OpenpilotVehicle::<f64>::new(&OpenpilotVehicleParameters::HONDA_CIVIC);
    let slip = data["slip_factor"].as_f64().expect("a number");
    assert_close("slip factor", car.slip_factor(), slip, 1e-17, 1e-14);
    for case in data["curvature_factor"].as_array().expect("cases") {
        let (u, want) = (
            case["u"].as_f64().expect("u"),
            case["value"].as_f64().expect("value"),
        );
        assert_close(
            "curvature factor",
            car.curvature_factor(u),
            want,
            1e-10,
            0.0,
        );
    }
    for case in data["roll_compensation_roll_0.1"]
        .as_array()
        .expect("cases")
    {
        let (u, want) = (
            case["u"].as_f64().expect("u"),
            case["value"].as_f64().expect("value"),
        );
        assert_close(
            "roll compensation",
            car.roll_compensation(0.1, u),
            want,
            1e-10,
            0.0,
        );
    }
    let grid = &data["grid"];
    let angles = numbers(&grid["steering_angle"]);
    let mut n_checked = 0;
    for row in grid["values"].as_array().expect("rows") {
        let (u, roll) = (
            row["u"].as_f64().expect("u"),
            row["roll"].as_f64().expect("roll"),
        );
        for (&angle, want) in angles.iter().zip(numbers(&row["yaw_rate"])) {
            let got = car.yaw_rate(angle, u, roll);
            assert_close("yaw rate", got, want, 1e-10, 0.0);
            let back = car.steer_from_yaw_rate(got, u, roll);
            assert_close("steering round trip", back, angle, 1e-10, 0.0);
            let steady = car.steady_state(angle, u, roll)[1];
            assert_close("steady state", steady, want, 1e-10, 0.0);
            n_checked += 1;
        }
    }
    assert_eq!(n_checked, 1210);
}

#[test]
fn openpilot_state_space_and_its_exact_discretisation_match() {
    let Some(data) = truth("openpilot_vehicle_model.json") else {
        return;
    };
    let car = OpenpilotVehicle::<f64>::new(&OpenpilotVehicleParameters::HONDA_CIVIC);
    for case in data["state_space"].as_array().expect("cases") {
        let u = case["u"].as_f64().expect("u");
        let (a, b) = car.state_space(u);
        let (ad, bd) = hold_inputs(a, b, 0.01);
        for (name, got) in [("A", a), ("B", b), ("Ad_dt_0.01", ad), ("Bd_dt_0.01", bd)] {
            for (got, want) in got.iter().zip(case[name].as_array().expect("rows")) {
                for (g, w) in got.iter().zip(numbers(want)) {
                    assert_close(name, *g, w, 1e-12, 1e-12);
                }
            }
        }
        let steer = case["steering_angle"].as_f64().expect("angle");
        let roll = case["roll"].as_f64().expect("roll");
        let steady = car.steady_state(steer, u, roll);
        for (g, w) in steady.iter().zip(numbers(&case["steady_state_v_r"])) {
            assert_close("steady state", *g, w, 1e-10, 0.0);
        }
        let mut x = [0.0; 2];
        for _ in 0..100 {
            x = std::array::from_fn(|i| {
                ad[i][0] * x[0] + ad[i][1] * x[1] + bd[i][0] * steer + bd[i][1] * roll
            });
        }
        for (g, w) in x.iter().zip(numbers(&case["after_1s_from_zero_v_r"])) {
            assert_close("state after 1 s", *g, w, 1e-10, 0.0);
        }
    }
    for case in data["kinematic"].as_array().expect("cases") {
        let (u, angle) = (
            case["u"].as_f64().expect("u"),
            case["steering_angle"].as_f64().expect("a"),
        );
        let got = car.steady_state(angle, u, 0.0);
        for (g, w) in got.iter().zip(numbers(&case["v_r"])) {
            assert_close("kinematic", *g, w, 1e-14, 0.0);
        }
    }
}
