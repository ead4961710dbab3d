//! Vehicle models alone: one step of every lane, limits included.

use crate::timing::Timing;
use spark_sim::integrate::{Integrator, StepElement, VehicleBatch};
use spark_sim::real::padded_len;
use spark_sim::vehicle::{CommonRoadVehicle, ParameterBatch, VehicleModel};

const DT: f64 = 0.01;

pub(crate) fn run(timing: &Timing) {
    let (ks, st, std) = (
        VehicleModel::Kinematic,
        VehicleModel::SingleTrack,
        VehicleModel::Drift,
    );
    case(timing, "sim/ks_euler/1t", ks, Integrator::Euler, 1024);
    case(timing, "sim/ks_rk4/1t", ks, Integrator::Rk4, 1024);
    case(timing, "sim/ks_arc/1t", ks, Integrator::ExactArc, 1024);
    case(timing, "sim/st_euler/1t", st, Integrator::Euler, 1024);
    case(timing, "sim/st_rk4/1t", st, Integrator::Rk4, 1024);
    case(timing, "sim/std_rk4/1t", std, Integrator::Rk4, 1024);
    case(
        timing,
        "sim/ks_euler_dram/1t",
        ks,
        Integrator::Euler,
        4 << 20,
    );
}

struct Fleet<E> {
    batch: VehicleBatch<E>,
    parameters: ParameterBatch<E>,
    rate: Vec<E>,
    acceleration: Vec<E>,
}

impl<E: StepElement> Fleet<E> {
    fn new(model: VehicleModel, n: usize) -> Self {
        let mut batch = VehicleBatch::new(model, n);
        let car = CommonRoadVehicle::Bmw320i.parameters();
        for lane in 0..padded_len(n) {
            let spread = lane as f64 % 97.0 / 97.0;
            let speed = 5.0 + 20.0 * spread;
            let mut state = vec![0.0, 0.0, 0.1 * spread - 0.05, speed, spread];
            let wheel = speed / car.wheel_radius;
            state.extend([0.0, 0.0, wheel, wheel].iter().take(model.n_states() - 5));
            for (i, value) in state.into_iter().enumerate() {
                batch.column_mut(i)[lane] = E::from_f64(value);
            }
        }
        let signal = |scale: f64| {
            (0..padded_len(n))
                .map(|lane| E::from_f64(scale * ((lane % 13) as f64 - 6.0)))
                .collect()
        };
        Self {
            batch,
            parameters: ParameterBatch::filled(n, car.rounded()),
            rate: signal(0.002),
            acceleration: signal(0.01),
        }
    }

    fn step(&mut self, integrator: Integrator, dt: f64) {
        self.batch
            .step(
                integrator,
                &self.parameters,
                &self.rate,
                &self.acceleration,
                dt,
            )
            .expect("valid inputs");
    }
}

fn case(timing: &Timing, name: &str, model: VehicleModel, integrator: Integrator, n: usize) {
    if !timing.wants(name) {
        return;
    }
    let dt = DT.min(model.longest_step_s());
    check(name, model, integrator, dt);
    let mut fleet = Fleet::<f32>::new(model, n);
    timing.measure(name, "agent_steps", n as f64, || fleet.step(integrator, dt));
}

/// Half a second of f32 against the f64 oracle.
fn check(name: &str, model: VehicleModel, integrator: Integrator, dt: f64) {
    let n = 64;
    let (mut fast, mut oracle) = (Fleet::<f32>::new(model, n), Fleet::<f64>::new(model, n));
    for _ in 0..(0.5 / dt) as usize {
        fast.step(integrator, dt);
        oracle.step(integrator, dt);
    }
    for lane in 0..n {
        for (i, (g, w)) in fast
            .batch
            .get(lane)
            .into_iter()
            .zip(oracle.batch.get(lane))
            .enumerate()
        {
            let difference = (f64::from(g) - w).abs();
            assert!(
                difference <= 2e-3 + 2e-3 * w.abs(),
                "{name}: lane {lane} state {i}: {g} != {w}"
            );
        }
    }
}
