//! openpilot's VehicleModel: the linear single-track model its controllers invert.
//!
//! ```text
//! sf        = m (cF aF - cR aR) / (l^2 cF cR)                      slip factor
//! curvature = (1 - chi) / (1 - sf u^2) / l * steer / sR + g roll / (1/sf - u^2)
//! d/dt [v r] = A(u) [v r] + B(u) [steer roll]                      v lateral, r yaw rate
//! ```
//!
//! `steer` is the steering wheel angle. Source: commaai/opendbc 7343a66d,
//! `opendbc/car/vehicle_model.py` (MIT). Its scaling laws for unknown cars are not here.

use super::GRAVITY;
use crate::real::Real;

/// Parameters under openpilot's names; SI units, stiffness in N/rad.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenpilotVehicleParameters {
    /// Mass of the car, kg.
    pub mass: f64,
    /// Moment of inertia about the vertical axis, kg m^2.
    pub rotational_inertia: f64,
    /// Distance between the axles, m.
    pub wheelbase: f64,
    /// Distance from the centre of gravity to the front axle, m.
    pub center_to_front: f64,
    /// Cornering stiffness of the front axle, N/rad.
    pub tire_stiffness_front: f64,
    /// Cornering stiffness of the rear axle, N/rad.
    pub tire_stiffness_rear: f64,
    /// Steering wheel angle over front wheel angle.
    pub steer_ratio: f64,
    /// Share of the steering that the rear wheels do.
    pub steer_ratio_rear: f64,
}

impl OpenpilotVehicleParameters {
    /// Honda Civic, as in the upstream unit test.
    pub const HONDA_CIVIC: Self = Self {
        mass: 1462.0,
        rotational_inertia: 2500.0,
        wheelbase: 2.7,
        center_to_front: 1.08,
        tire_stiffness_front: 192_150.0,
        tire_stiffness_rear: 202_500.0,
        steer_ratio: 15.38,
        steer_ratio_rear: 0.0,
    };
}

/// The model with its parameters in the precision of `R`.
#[derive(Debug, Clone, Copy)]
pub struct OpenpilotVehicle<R> {
    m: R,
    j: R,
    l: R,
    front: R,
    rear: R,
    c_front: R,
    c_rear: R,
    ratio: R,
    chi: R,
    slip_factor: R,
    /// `1 / slip_factor`, or 0 with `has_slip` false.
    inverse_slip: R,
    has_slip: bool,
}

impl<R: Real> OpenpilotVehicle<R> {
    /// Takes over the parameters.
    pub fn new(p: &OpenpilotVehicleParameters) -> Self {
        let rear = p.wheelbase - p.center_to_front;
        let slip_factor = p.mass
            * (p.tire_stiffness_front * p.center_to_front - p.tire_stiffness_rear * rear)
            / (p.wheelbase.powi(2) * p.tire_stiffness_front * p.tire_stiffness_rear);
        let has_slip = slip_factor.abs() >= 1e-6;
        Self {
            m: R::splat(p.mass),
            j: R::splat(p.rotational_inertia),
            l: R::splat(p.wheelbase),
            front: R::splat(p.center_to_front),
            rear: R::splat(rear),
            c_front: R::splat(p.tire_stiffness_front),
            c_rear: R::splat(p.tire_stiffness_rear),
            ratio: R::splat(p.steer_ratio),
            chi: R::splat(p.steer_ratio_rear),
            slip_factor: R::splat(slip_factor),
            inverse_slip: R::splat(if has_slip { 1.0 / slip_factor } else { 0.0 }),
            has_slip,
        }
    }

    /// Understeer of the car, s^2/m^2; negative when it understeers.
    pub fn slip_factor(&self) -> R {
        self.slip_factor
    }

    /// Curvature per rad of front wheel angle at speed `u`, 1/m.
    #[inline(always)]
    pub fn curvature_factor(&self, u: R) -> R {
        (R::one() - self.chi) / (R::one() - self.slip_factor * u * u) / self.l
    }

    /// Curvature that a road roll (rad) causes at speed `u`, 1/m.
    #[inline(always)]
    pub fn roll_compensation(&self, roll: R, u: R) -> R {
        if self.has_slip {
            R::splat(GRAVITY) * roll / (self.inverse_slip - u * u)
        } else {
            R::zero()
        }
    }

    /// Curvature, 1/m, at a steering wheel angle (rad), speed (m/s) and road roll (rad).
    #[inline(always)]
    pub fn curvature(&self, steer: R, u: R, roll: R) -> R {
        self.curvature_factor(u) * steer / self.ratio + self.roll_compensation(roll, u)
    }

    /// Steering wheel angle, rad, that holds a curvature.
    #[inline(always)]
    pub fn steer_from_curvature(&self, curvature: R, u: R, roll: R) -> R {
        (curvature - self.roll_compensation(roll, u)) * self.ratio / self.curvature_factor(u)
    }

    /// Steering wheel angle, rad, that holds a yaw rate (rad/s).
    #[inline(always)]
    pub fn steer_from_yaw_rate(&self, yaw_rate: R, u: R, roll: R) -> R {
        self.steer_from_curvature(yaw_rate / u, u, roll)
    }

    /// Yaw rate, rad/s, at a steering wheel angle (rad), speed (m/s) and bank (rad).
    #[inline(always)]
    pub fn yaw_rate(&self, steer: R, u: R, roll: R) -> R {
        self.curvature(steer, u, roll) * u
    }

    /// The matrices A (2 by 2) and B (2 by 2) of the linear model at speed `u`, which must not be 0.
    pub fn state_space(&self, u: R) -> ([[R; 2]; 2], [[R; 2]; 2]) {
        let (cf, cr, af, ar) = (self.c_front, self.c_rear, self.front, self.rear);
        let moment = cf * af - cr * ar;
        let a = [
            [-(cf + cr) / (self.m * u), -moment / (self.m * u) - u],
            [
                -moment / (self.j * u),
                -(cf * af * af + cr * ar * ar) / (self.j * u),
            ],
        ];
        let b = [
            [
                (cf + self.chi * cr) / self.m / self.ratio,
                -R::splat(GRAVITY),
            ],
            [
                (cf * af - self.chi * cr * ar) / self.j / self.ratio,
                R::zero(),
            ],
        ];
        (a, b)
    }

    /// Steady `[v, r]` at a speed above 0.1 m/s: `-A^-1 B [steer, roll]`; below it the kinematic answer.
    pub fn steady_state(&self, steer: R, u: R, roll: R) -> [R; 2] {
        let slow = u.le(R::splat(0.1));
        let safe = R::select(slow, R::one(), u);
        let (a, b) = self.state_space(safe);
        let push = [
            b[0][0] * steer + b[0][1] * roll,
            b[1][0] * steer + b[1][1] * roll,
        ];
        let determinant = a[0][0] * a[1][1] - a[0][1] * a[1][0];
        let v = -(a[1][1] * push[0] - a[0][1] * push[1]) / determinant;
        let r = -(a[0][0] * push[1] - a[1][0] * push[0]) / determinant;
        let kinematic = u * steer / (self.ratio * self.l);
        [
            R::select(slow, self.rear * kinematic, v),
            R::select(slow, kinematic, r),
        ]
    }
}

/// Exact discretisation over `dt` s with inputs held constant: `x(t+dt) = Ad x + Bd w`.
///
/// Returns `(Ad, Bd)`. `Bd = A^-1 (Ad - I) B`; A must be invertible, which it is
/// for every speed above 0.
pub fn hold_inputs(a: [[f64; 2]; 2], b: [[f64; 2]; 2], dt: f64) -> ([[f64; 2]; 2], [[f64; 2]; 2]) {
    let multiply = |p: [[f64; 2]; 2], q: [[f64; 2]; 2]| {
        let entry = |i: usize, j: usize| p[i][0] * q[0][j] + p[i][1] * q[1][j];
        [[entry(0, 0), entry(0, 1)], [entry(1, 0), entry(1, 1)]]
    };
    // exp(A dt) for 2 by 2: exp(s) (cosh(q) I + sinh(q)/q (A dt - s I)), s = trace/2, q^2 = s^2 - det.
    let s = (a[0][0] + a[1][1]) * dt / 2.0;
    let determinant = (a[0][0] * a[1][1] - a[0][1] * a[1][0]) * dt * dt;
    let q_squared = s * s - determinant;
    let q = q_squared.abs().sqrt();
    let (even, odd) = match q {
        q if q < 1e-9 => (1.0, 1.0),
        q if q_squared > 0.0 => (q.cosh(), q.sinh() / q),
        q => (q.cos(), q.sin() / q),
    };
    let growth = s.exp();
    let ad = [
        [
            growth * (even + odd * (a[0][0] * dt - s)),
            growth * odd * a[0][1] * dt,
        ],
        [
            growth * odd * a[1][0] * dt,
            growth * (even + odd * (a[1][1] * dt - s)),
        ],
    ];
    let det_a = a[0][0] * a[1][1] - a[0][1] * a[1][0];
    let inverse = [
        [a[1][1] / det_a, -a[0][1] / det_a],
        [-a[1][0] / det_a, a[0][0] / det_a],
    ];
    let change = [[ad[0][0] - 1.0, ad[0][1]], [ad[1][0], ad[1][1] - 1.0]];
    (ad, multiply(multiply(inverse, change), b))
}
