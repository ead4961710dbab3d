//! Sums and extremes of many lanes while they drive.

use super::{Collision, Metrics};
use crate::columns::lane_tiles;

/// Steps after which f32 sums move to f64 totals: their rounding stays near 1e-6.
pub(crate) const WINDOW_STEPS: usize = 64;

macro_rules! sums {
    ($($field:ident),* $(,)?) => {
        lane_tiles! {
            /// Sums over a window of steps.
            pub(crate) struct Sum;
            /// Sums of many lanes.
            pub(crate) struct Sums;
            { $($field),* }
        }

        /// Sums over all steps.
        #[derive(Debug, Clone, Copy, Default)]
        pub(crate) struct Totals { $($field: f64),* }

        impl Totals {
            /// From sums in the order of the fields.
            #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "a GPU's sums"))]
            pub(crate) fn from_sums(sums: [f64; Sum::<f32>::NAMES.len()]) -> Self {
                let [$($field),*] = sums;
                Self { $($field),* }
            }

            fn take(&mut self, window: &mut Sums, lane: usize) {
                $(
                    self.$field += f64::from(std::mem::take(window.$field(lane)));
                )*
            }
        }
    };
}

sums!(
    steps,
    rate_steps,
    offset_squared,
    offset_size,
    heading_squared,
    speed_squared,
    curvature_squared,
    steer,
    steer_squared,
    steer_rate_squared,
    accel_rate_squared,
    lateral_jerk_squared,
    acceleration_squared,
    jerk_squared,
    uncomfortable,
    saturated,
    off_lane,
    off_road,
    at_grip_limit,
);

lane_tiles! {
    /// Largest and smallest values so far.
    pub(crate) struct Extreme;
    /// Extremes of many lanes.
    pub(crate) struct Extremes;
    {
        offset,
        lateral_acceleration,
        lateral_jerk,
        deceleration,
        jerk,
        margin,
        ttc,
        gap,
        headway,
    }
}

/// Everything needed to make [`Metrics`] of every lane.
#[derive(Debug, Clone)]
pub(crate) struct Accumulator {
    pub(crate) sums: Sums,
    pub(crate) extremes: Extremes,
    pub(crate) collisions: Vec<Option<Collision>>,
    totals: Vec<Totals>,
    steps_in_window: usize,
}

impl Accumulator {
    pub(crate) fn new(n_lanes: usize) -> Self {
        let far = f32::INFINITY;
        Self {
            sums: Sums::filled(n_lanes, Sum::default()),
            extremes: Extremes::filled(
                n_lanes,
                Extreme {
                    margin: far,
                    ttc: far,
                    gap: far,
                    headway: far,
                    ..Extreme::default()
                },
            ),
            collisions: vec![None; n_lanes],
            totals: vec![Totals::default(); n_lanes],
            steps_in_window: 0,
        }
    }

    /// To be called after every step.
    pub(crate) fn end_step(&mut self) {
        self.steps_in_window += 1;
        if self.steps_in_window == WINDOW_STEPS {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.steps_in_window = 0;
        for (lane, totals) in self.totals.iter_mut().enumerate() {
            totals.take(&mut self.sums, lane);
        }
    }

    /// The metrics of one lane that stepped by `dt` and drove `distance_m`.
    pub(crate) fn metrics(&mut self, lane: usize, dt: f64, distance_m: f64) -> Metrics {
        self.totals[lane].take(&mut self.sums, lane);
        let mut metrics = self.totals[lane].metrics(&self.extremes.get(lane), dt, distance_m);
        metrics.collision = self.collisions[lane];
        metrics
    }
}

impl Totals {
    /// The metrics of a drive of steps of `dt` over `distance_m`, without a collision.
    pub(crate) fn metrics(&self, extreme: &Extreme<f32>, dt: f64, distance_m: f64) -> Metrics {
        let total = self;
        let n = total.steps.max(1.0);
        let n_rates = total.rate_steps.max(1.0);
        let mean = |sum: f64| sum / n;
        let rms = |sum: f64| (sum / n).sqrt();
        let rate_rms = |sum: f64| (sum / n_rates).sqrt();
        let reached = |x: f32| x.is_finite().then(|| f64::from(x));
        let steer_mean = mean(total.steer);
        Metrics {
            n_steps: total.steps as u64,
            duration_s: total.steps * dt,
            distance_m,
            duration_requested_s: None,
            distance_requested_m: None,
            lateral_error_rmse: rms(total.offset_squared),
            lateral_error_mean: mean(total.offset_size),
            lateral_error_max: f64::from(extreme.offset),
            heading_error_rmse: rms(total.heading_squared),
            speed_error_rmse: rms(total.speed_squared),
            curvature_error_rmse: rms(total.curvature_squared),
            steer_smoothness: rate_rms(total.steer_rate_squared),
            steer_std: (mean(total.steer_squared) - steer_mean * steer_mean)
                .max(0.0)
                .sqrt(),
            accel_smoothness: rate_rms(total.accel_rate_squared),
            lateral_acceleration_max: f64::from(extreme.lateral_acceleration),
            lateral_jerk_rms: rate_rms(total.lateral_jerk_squared),
            lateral_jerk_max: f64::from(extreme.lateral_jerk),
            acceleration_rms: rms(total.acceleration_squared),
            deceleration_max: f64::from(extreme.deceleration),
            jerk_rms: rate_rms(total.jerk_squared),
            jerk_max: f64::from(extreme.jerk),
            discomfort_ratio: mean(total.uncomfortable),
            saturation_ratio: mean(total.saturated),
            safety_margin_min: reached(extreme.margin).unwrap_or(0.0),
            off_lane_ratio: mean(total.off_lane),
            off_road_ratio: mean(total.off_road),
            grip_limit_ratio: mean(total.at_grip_limit),
            ttc_min: reached(extreme.ttc),
            gap_min: reached(extreme.gap),
            headway_min: reached(extreme.headway),
            collision: None,
        }
    }
}
