//! From derivatives to motion: Euler, RK4, the exact arc; one vehicle or a batch.
//!
//! ```text
//! Euler  x + dt f(x)
//! RK4    x + dt/6 (k1 + 2 k2 + 2 k3 + k4)
//! arc    KS with steering and acceleration held over the step: a circle's chord, exact
//! ```
//!
//! The frame says what position means. In the world, `x, y, heading` are Cartesian.
//! Along a road, they are distance along its centre line, offset to the left, and
//! heading relative to it; the right-hand side is then turned into
//! `s' = x' / (1 - k d)`, `d' = y'`, `heading' = psi' - k s'` with the road's curvature `k(s)`.
//!
//! KS is stable at 0.01 s with either rule; Euler is off by centimetres per second
//! there on ordinary drives (RK4: nanometres). ST needs 1 ms near standstill, STD always.

use crate::SimError;
use crate::real::{Column, Element, Kernel, Lanes, Real};
use crate::vehicle::{
    Direction, DriftSingleTrack, DynamicSingleTrack, Dynamics, KinematicSingleTrack,
    KinematicTrailer, N_INPUTS, ParameterBatch, Parameters, VehicleModel, limited_acceleration,
    limited_steering_rate,
};
use serde::{Deserialize, Serialize};

/// Rule for one time step.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "snake_case")]
pub enum Integrator {
    /// Explicit Euler: first order, one evaluation per step.
    Euler,
    /// Classical Runge-Kutta, fourth order.
    #[default]
    Rk4,
    /// Exact for the kinematic model in the world frame, steering and acceleration held.
    ExactArc,
}

impl Integrator {
    /// The most that a decay may do in one step, as rate times step, so that it stays a decay:
    /// below the limits of stability, 2.8 and 2, by what load transfer adds to a rate.
    pub(crate) const fn most_decay(self) -> f64 {
        match self {
            Self::Rk4 => 2.0,
            Self::Euler | Self::ExactArc => 1.2,
        }
    }
}

/// What the first, second and fifth state variable mean.
pub trait Frame<R: Real>: Copy {
    /// Turns a derivative in Cartesian axes into one in this frame.
    fn transform<const N: usize>(&self, x: &[R; N], dx: [R; N]) -> [R; N];
}

/// Positions in Cartesian axes: x, y and heading.
#[derive(Debug, Clone, Copy)]
pub struct World;

impl<R: Real> Frame<R> for World {
    #[inline(always)]
    fn transform<const N: usize>(&self, _x: &[R; N], dx: [R; N]) -> [R; N] {
        dx
    }
}

/// Along a road whose curvature is `curvature + curvature_rate * s`.
#[derive(Debug, Clone, Copy)]
pub struct Road<R> {
    /// Curvature at s = 0, 1/m, positive to the left.
    pub curvature: R,
    /// Change of curvature per metre, 1/m^2.
    pub curvature_rate: R,
}

impl<R: Real> Frame<R> for Road<R> {
    #[inline(always)]
    fn transform<const N: usize>(&self, x: &[R; N], mut dx: [R; N]) -> [R; N] {
        let k = self.curvature + self.curvature_rate * x[0];
        let along = dx[0] / (R::one() - k * x[1]);
        dx[0] = along;
        dx[4] = dx[4] - k * along;
        dx
    }
}

/// A rule for one step of `dt` s of any model in any frame.
pub trait Rule {
    /// The state after the step, inputs held.
    fn step<R: Real, M: Dynamics<N>, F: Frame<R>, const N: usize>(
        frame: F,
        p: &Parameters<R>,
        x: [R; N],
        u: [R; N_INPUTS],
        dt: R,
    ) -> [R; N];

    /// The same bits, for a caller that has the [`Direction`] of `x` at hand.
    #[inline(always)]
    fn step_toward<R: Real, M: Dynamics<N>, F: Frame<R>, const N: usize>(
        frame: F,
        p: &Parameters<R>,
        x: [R; N],
        u: [R; N_INPUTS],
        dt: R,
        _direction: &Direction<R>,
    ) -> [R; N] {
        Self::step::<R, M, F, N>(frame, p, x, u, dt)
    }
}

/// Euler's rule: the derivative at the beginning holds for the whole step.
#[derive(Debug, Clone, Copy)]
pub struct Euler;

impl Rule for Euler {
    #[inline(always)]
    fn step<R: Real, M: Dynamics<N>, F: Frame<R>, const N: usize>(
        frame: F,
        p: &Parameters<R>,
        x: [R; N],
        u: [R; N_INPUTS],
        dt: R,
    ) -> [R; N] {
        let rate = frame.transform(&x, M::derivative(p, &x, u));
        advance(&x, &rate, dt)
    }

    #[inline(always)]
    fn step_toward<R: Real, M: Dynamics<N>, F: Frame<R>, const N: usize>(
        frame: F,
        p: &Parameters<R>,
        x: [R; N],
        u: [R; N_INPUTS],
        dt: R,
        direction: &Direction<R>,
    ) -> [R; N] {
        let rate = frame.transform(&x, M::derivative_toward(p, &x, u, direction));
        advance(&x, &rate, dt)
    }
}

/// The classical Runge-Kutta rule.
#[derive(Debug, Clone, Copy)]
pub struct Rk4;

impl Rule for Rk4 {
    #[inline(always)]
    fn step<R: Real, M: Dynamics<N>, F: Frame<R>, const N: usize>(
        frame: F,
        p: &Parameters<R>,
        x: [R; N],
        u: [R; N_INPUTS],
        dt: R,
    ) -> [R; N] {
        // A loop, so that a large right-hand side is compiled once and not four times.
        const REACH: [f64; 4] = [0.5, 0.5, 1.0, 0.0];
        const WEIGHT: [f64; 4] = [1.0, 2.0, 2.0, 1.0];
        let mut at = x;
        let mut sum = [R::zero(); N];
        for stage in 0..4 {
            let k = frame.transform(&at, M::derivative(p, &at, u));
            let (reach, weight) = (dt * R::splat(REACH[stage]), R::splat(WEIGHT[stage]));
            for i in 0..N {
                sum[i] = sum[i] + weight * k[i];
                at[i] = x[i] + reach * k[i];
            }
        }
        let sixth = dt / R::splat(6.0);
        let mut next = x;
        for i in 0..N {
            next[i] = x[i] + sixth * sum[i];
        }
        next
    }
}

/// One exact step of the kinematic model in the world frame.
///
/// Steering and acceleration act as held over the step; steering then moves to
/// its next angle. Speed does not cross the limit it is heading for.
#[inline(always)]
pub fn exact_arc<R: Real>(p: &Parameters<R>, x: [R; 5], u: [R; N_INPUTS], dt: R) -> [R; 5] {
    let [px, py, steer, speed, heading] = x;
    let rate = limited_steering_rate(p, steer, u[0]);
    let acceleration = limited_acceleration(p, speed, u[1]);
    let half = R::splat(0.5);
    let distance = speed * dt + half * acceleration * dt * dt;
    let half_turn = half * distance * steer.tan() / p.wheelbase();
    // sin(h)/h, by its series where the quotient loses digits
    let small = half_turn.abs().lt(R::splat(1e-2));
    let square = half_turn * half_turn;
    let series = R::one()
        - square
            * (R::splat(1.0 / 6.0) - square * (R::splat(1.0 / 120.0) - square / R::splat(5040.0)));
    let divisor = R::select(small, R::one(), half_turn);
    let chord = distance * R::select(small, series, half_turn.sin_cos().0 / divisor);
    let (sin, cos) = (heading + half_turn).sin_cos();
    [
        px + chord * cos,
        py + chord * sin,
        (steer + rate * dt).clamp(p.steer_min, p.steer_max),
        (speed + acceleration * dt).clamp(p.speed_min, p.speed_max),
        heading + half_turn + half_turn,
    ]
}

#[inline(always)]
fn advance<R: Real, const N: usize>(x: &[R; N], rate: &[R; N], dt: R) -> [R; N] {
    let mut next = *x;
    for i in 0..N {
        next[i] = x[i] + dt * rate[i];
    }
    next
}

/// Vehicles of one model as a structure of arrays; columns in the order of [`crate::vehicle`].
#[derive(Debug, Clone, PartialEq)]
pub struct VehicleBatch<E = f32> {
    model: VehicleModel,
    n_lanes: usize,
    columns: Vec<Column<E>>,
}

/// An element for which [`VehicleBatch::step`] is compiled, once, in this crate: f32 and f64.
pub trait StepElement: Element {
    /// Makes a checked step.
    #[doc(hidden)]
    fn make(step: WorldStep<'_, Self>);
}

impl StepElement for f32 {
    fn make(step: WorldStep<'_, f32>) {
        f32::dispatch(step);
    }
}

impl StepElement for f64 {
    fn make(step: WorldStep<'_, f64>) {
        f64::dispatch(step);
    }
}

impl<E: StepElement> VehicleBatch<E> {
    /// `n_lanes` vehicles with every state variable 0.
    pub fn new(model: VehicleModel, n_lanes: usize) -> Self {
        Self {
            model,
            n_lanes,
            columns: vec![Column::filled(n_lanes, E::default()); model.n_states()],
        }
    }

    /// The vehicle model, which decides what the columns mean.
    pub fn model(&self) -> VehicleModel {
        self.model
    }

    /// Number of vehicles, without padding.
    pub fn n_lanes(&self) -> usize {
        self.n_lanes
    }

    /// One state variable of every vehicle, padding included.
    pub fn column(&self, state_idx: usize) -> &[E] {
        &self.columns[state_idx]
    }

    /// One state variable of every vehicle, padding included.
    pub fn column_mut(&mut self, state_idx: usize) -> &mut [E] {
        &mut self.columns[state_idx]
    }

    /// Replaces one vehicle's state.
    ///
    /// # Errors
    ///
    /// [`SimError::LengthMismatch`] unless `state` has one number per state variable.
    pub fn set(&mut self, lane: usize, state: &[E]) -> Result<(), SimError> {
        if state.len() != self.columns.len() {
            return Err(SimError::LengthMismatch {
                what: "vehicle state",
                got: state.len(),
                want: self.columns.len(),
            });
        }
        for (column, &value) in self.columns.iter_mut().zip(state) {
            column[lane] = value;
        }
        Ok(())
    }

    /// The state of one vehicle, one number per state variable of the model.
    pub fn get(&self, lane: usize) -> Vec<E> {
        self.columns.iter().map(|column| column[lane]).collect()
    }

    #[inline(always)]
    pub(crate) fn load<L: Lanes<Elem = E>, const N: usize>(&self, first: usize) -> [L; N] {
        // Not `array::from_fn`: its closure is not inlined into the vector code.
        let mut x = [L::zero(); N];
        // A known number of columns: one check, no loop.
        let columns: &[Column<E>; N] = self.columns.first_chunk().expect("a column per state");
        for i in 0..N {
            x[i] = L::load(&columns[i], first);
        }
        x
    }

    #[inline(always)]
    pub(crate) fn store<L: Lanes<Elem = E>, const N: usize>(&mut self, first: usize, x: [L; N]) {
        let columns: &mut [Column<E>; N] =
            self.columns.first_chunk_mut().expect("a column per state");
        for i in 0..N {
            x[i].store(&mut columns[i], first);
        }
    }

    /// Moves every vehicle on by `dt` s in the world frame, inputs held.
    ///
    /// # Shapes and units
    ///
    /// `steering_rate` (rad/s) and `acceleration` (m/s^2) hold one number per
    /// vehicle, padded like the columns ([`crate::real::padded_len`]).
    ///
    /// # Errors
    ///
    /// [`SimError::LengthMismatch`] if an input's or the parameters' length differs;
    /// [`SimError::OutOfRange`] unless `dt` is finite and above zero;
    /// [`SimError::NoExactStep`] for [`Integrator::ExactArc`] with a model that has none.
    /// Nothing moves on error.
    pub fn step(
        &mut self,
        integrator: Integrator,
        parameters: &ParameterBatch<E>,
        steering_rate: &[E],
        acceleration: &[E],
        dt: f64,
    ) -> Result<(), SimError> {
        let padded = crate::real::padded_len(self.n_lanes);
        for (what, got) in [
            ("steering rate", steering_rate.len()),
            ("acceleration", acceleration.len()),
            ("vehicle parameters", parameters.n_padded()),
        ] {
            if got != padded {
                let want = padded;
                return Err(SimError::LengthMismatch { what, got, want });
            }
        }
        if !(dt.is_finite() && dt > 0.0) {
            return Err(SimError::OutOfRange {
                what: "time step (s)",
                got: dt,
                want: "a finite number above zero",
            });
        }
        if integrator == Integrator::ExactArc && self.model != VehicleModel::Kinematic {
            return Err(SimError::NoExactStep { model: self.model });
        }
        E::make(WorldStep {
            batch: self,
            integrator,
            parameters,
            steering_rate,
            acceleration,
            dt,
        });
        Ok(())
    }
}

/// [`VehicleBatch::step`] for any number of lanes at a time.
#[doc(hidden)]
pub struct WorldStep<'a, E: StepElement> {
    batch: &'a mut VehicleBatch<E>,
    integrator: Integrator,
    parameters: &'a ParameterBatch<E>,
    steering_rate: &'a [E],
    acceleration: &'a [E],
    dt: f64,
}

impl<E: StepElement> WorldStep<'_, E> {
    #[inline(always)]
    fn model<L: Lanes<Elem = E>, M: Dynamics<N>, const N: usize>(self) {
        match self.integrator {
            Integrator::Rk4 => self.rule::<L, M, Rk4, N>(),
            Integrator::Euler | Integrator::ExactArc => self.rule::<L, M, Euler, N>(),
        }
    }

    #[inline(always)]
    fn rule<L: Lanes<Elem = E>, M: Dynamics<N>, S: Rule, const N: usize>(self) {
        let dt = L::splat(self.dt);
        for first in (0..self.parameters.n_lanes()).step_by(L::N) {
            let p = self.parameters.load::<L>(first);
            let u = self.inputs::<L>(first);
            let x = self.batch.load::<L, N>(first);
            let next = S::step::<L, M, World, N>(World, &p, x, u, dt);
            self.batch.store(first, next);
        }
    }

    #[inline(always)]
    fn arc<L: Lanes<Elem = E>>(self) {
        let dt = L::splat(self.dt);
        for first in (0..self.parameters.n_lanes()).step_by(L::N) {
            let p = self.parameters.load::<L>(first);
            let u = self.inputs::<L>(first);
            let x = self.batch.load::<L, 5>(first);
            self.batch.store(first, exact_arc(&p, x, u, dt));
        }
    }

    #[inline(always)]
    fn inputs<L: Lanes<Elem = E>>(&self, first: usize) -> [L; N_INPUTS] {
        [
            L::load(self.steering_rate, first),
            L::load(self.acceleration, first),
        ]
    }
}

impl<E: StepElement> Kernel for WorldStep<'_, E> {
    type Elem = E;
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<Elem = E>>(self) {
        match self.batch.model {
            VehicleModel::Kinematic if self.integrator == Integrator::ExactArc => self.arc::<L>(),
            VehicleModel::Kinematic => self.model::<L, KinematicSingleTrack, 5>(),
            VehicleModel::KinematicTrailer => self.model::<L, KinematicTrailer, 6>(),
            VehicleModel::SingleTrack => self.model::<L, DynamicSingleTrack, 7>(),
            VehicleModel::Drift => self.model::<L, DriftSingleTrack, 9>(),
        }
    }
}
