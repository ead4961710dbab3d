//! Properties that every vehicle model must have, on random cars and states.

use crate::support::worse;
use proptest::prelude::*;
use spark_sim::integrate::{Integrator, VehicleBatch};
use spark_sim::real::padded_len;
use spark_sim::vehicle::{
    CommonRoadVehicle, ParameterBatch, VehicleModel, VehiclePreset, slowest_slip,
};

/// Drives one vehicle for a second; `x` is the first five states.
fn drive(model: VehicleModel, rule: Integrator, x: [f64; 5], u: [f64; 2], dt: f64) -> Vec<f64> {
    let car = CommonRoadVehicle::Bmw320i.parameters();
    let mut batch = VehicleBatch::<f64>::new(model, 1);
    let wheel = x[3] / car.wheel_radius;
    let mut state = x.to_vec();
    state.extend([0.0, 0.0, wheel, wheel].iter().take(model.n_states() - 5));
    batch.set(0, &state).expect("one number per state");
    let fleet = ParameterBatch::filled(1, car.rounded());
    let column = |value: f64| vec![value; padded_len(1)];
    for _ in 0..(1.0 / dt).round() as usize {
        batch
            .step(rule, &fleet, &column(u[0]), &column(u[1]), dt)
            .expect("valid inputs");
    }
    batch.get(0)
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, worse)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn mirrored_inputs_give_mirrored_motion(
        steer in -0.2..0.2, speed in 1.0..30.0, heading in -1.0..1.0, rate in -0.1..0.1, a in -3.0..3.0,
    ) {
        for model in [VehicleModel::Kinematic, VehicleModel::SingleTrack] {
            let x = [0.0, 0.0, steer, speed, heading];
            let left = drive(model, Integrator::Rk4, x, [rate, a], 0.01);
            let mirrored = [0.0, 0.0, -steer, speed, -heading];
            let right = drive(model, Integrator::Rk4, mirrored, [-rate, a], 0.01);
            for (i, (l, r)) in left.iter().zip(&right).enumerate() {
                // x and speed keep their sign, everything else turns it.
                let sign = if i == 0 || i == 3 { 1.0 } else { -1.0 };
                prop_assert_eq!(*l, sign * r, "{:?} state {}", model, i);
            }
        }
    }

    #[test]
    fn rk4_errors_shrink_sixteenfold_and_euler_errors_by_half(
        steer in 0.05..0.2, speed in 8.0..20.0, a in 0.5..3.0,
    ) {
        let x = [0.0, 0.0, steer, speed, 0.3];
        let u = [0.0, a];
        let exact = drive(VehicleModel::Kinematic, Integrator::Rk4, x, u, 0.0005);
        let error = |rule, dt| largest_difference(&drive(VehicleModel::Kinematic, rule, x, u, dt), &exact);
        let order = |rule| (error(rule, 0.05) / error(rule, 0.025)).log2();
        // a_max v_switch / v limits the fastest cars within the step; allow for that kink.
        prop_assert!((order(Integrator::Euler) - 1.0).abs() < 0.15, "{}", order(Integrator::Euler));
        prop_assert!(order(Integrator::Rk4) > 3.5, "{}", order(Integrator::Rk4));
    }

    #[test]
    fn the_exact_arc_is_exact_for_held_steering(
        steer in -0.3..0.3, speed in 2.0..20.0, a in -1.0..1.0,
    ) {
        let x = [0.0, 0.0, steer, speed, 0.3];
        let fine = drive(VehicleModel::Kinematic, Integrator::Rk4, x, [0.0, a], 0.001);
        // One step of a whole second.
        let arc = drive(VehicleModel::Kinematic, Integrator::ExactArc, x, [0.0, a], 1.0);
        prop_assert!(largest_difference(&fine, &arc) < 1e-8, "{:?} {:?}", fine, arc);
    }

    #[test]
    fn a_coasting_kinematic_car_keeps_speed_and_turns_on_a_circle(
        steer in 0.02..0.3, speed in 1.0..20.0,
    ) {
        let car = CommonRoadVehicle::Bmw320i.parameters();
        let x = drive(VehicleModel::Kinematic, Integrator::Rk4, [0.0, 0.0, steer, speed, 0.0], [0.0, 0.0], 0.01);
        prop_assert_eq!(x[3], speed);
        // The rear axle stays at the circle's radius from its centre, to the left.
        let radius = car.wheelbase() / steer.tan();
        prop_assert!((x[0].hypot(x[1] - radius) - radius).abs() < 1e-6);
    }

    #[test]
    fn tyres_only_take_energy_out_of_a_coasting_drift(
        speed in 5.0..30.0, steer in -0.3..0.3,
    ) {
        let car = CommonRoadVehicle::Bmw320i.parameters();
        let wheels = |f: f64, r: f64| 0.5 * car.wheel_inertia * (f * f + r * r);
        let energy = |x: &[f64]| {
            0.5 * car.mass * x[3] * x[3] + 0.5 * car.yaw_inertia * x[5] * x[5] + wheels(x[7], x[8])
        };
        let w = speed / car.wheel_radius;
        let start = [0.0, 0.0, steer, speed, 0.0, 0.0, 0.0, w, w];
        let end = drive(VehicleModel::Drift, Integrator::Rk4, [0.0, 0.0, steer, speed, 0.0], [0.0, 0.0], 0.001);
        // The tyre's ply steer and shifts pull a little even at zero slip.
        prop_assert!(energy(&end) < 1.002 * energy(&start), "{} {}", energy(&end), energy(&start));
    }
}

/// Size of a disturbance of yaw rate and slip after 2 s at a speed, relative to before, RK4.
fn disturbance_left(preset: VehiclePreset, speed: f64, dt: f64) -> f64 {
    let car = preset.parameters();
    let mut batch = VehicleBatch::<f64>::new(VehicleModel::SingleTrack, 1);
    let start = [0.0, 0.0, 0.0, speed, 0.0, 1e-6, 1e-6];
    batch.set(0, &start).expect("seven states");
    let fleet = ParameterBatch::filled(1, car.rounded());
    let zero = vec![0.0; padded_len(1)];
    for _ in 0..(2.0 / dt).round() as usize {
        batch
            .step(Integrator::Rk4, &fleet, &zero, &zero, dt)
            .expect("valid inputs");
    }
    let state = batch.get(0);
    state[5].abs().max(state[6].abs()) / 1e-6
}

#[test]
fn linear_tyres_settle_above_the_slowest_speed_and_run_away_well_below_it() {
    for preset in VehiclePreset::ALL {
        for dt in [0.005, 0.01] {
            let slowest = slowest_slip(&preset.parameters(), dt, 2.0);
            assert!((0.2..3.0).contains(&slowest), "{preset:?}: {slowest} m/s");
            for factor in [1.0, 1.2, 2.0, 5.0] {
                let left = disturbance_left(preset, factor * slowest, dt);
                assert!(
                    left < 1e-3,
                    "{preset:?}, dt {dt}, {factor} x {slowest} m/s: {left}"
                );
            }
            // 2.0 / 0.6 is beyond RK4's limit of 2.79.
            let left = disturbance_left(preset, 0.6 * slowest, dt);
            assert!(
                left > 1e3,
                "{preset:?}, dt {dt}, below {slowest} m/s: {left}"
            );
        }
    }
}
