//! What controllers are told: vehicle, road, lead and requests, and what the planner makes of them.
//!
//! Planner and controllers get the readings of noisy sensors, where there are some, and else the truth.

use super::cars::Cars;
use super::course::Course;
use super::perception::{Told, ToldLane};
use super::tables::{LineLane, LineLanes, NO_LEAD_GAP};
use crate::control::StateBatch;
use crate::control::planner::{self, PlannerConfig};
use crate::real::{Kernel, Lanes};
use crate::vehicle::GRAVITY;

/// Fills the state batch of a cars.
pub(super) struct Sense<'a> {
    /// Their headings' sines, and what is wanted of them, are kept for the step.
    pub(super) cars: &'a mut Cars,
    pub(super) course: &'a Course,
    /// What noisy sensors tell, if any lane has some.
    pub(super) told: Option<&'a Told>,
    pub(super) has_traffic: bool,
    pub(super) planner: PlannerConfig,
    pub(super) step_idx: usize,
    pub(super) state: &'a mut StateBatch,
}

#[inline(always)]
fn line<L: Lanes<Elem = f32>>(lines: &LineLanes, first: usize, t: L) -> L {
    let LineLane {
        value,
        slope,
        start,
        ..
    } = lines.load::<L>(first);
    // A line that starts "now" because it is constant has slope 0.
    value + slope * (t - start)
}

/// What is known of car and road.
struct Seen<L> {
    offset: L,
    heading: L,
    sin_heading: L,
    curvature: L,
    preview_curvature: L,
    speed: L,
    yaw_rate: L,
    steering_angle: L,
    roll: L,
}

/// What is known of the car ahead.
struct Lead<L> {
    present: L,
    gap: L,
    relative_speed: L,
    speed: L,
    acceleration: L,
}

/// What is told, or the truth where that is NaN.
#[inline(always)]
fn heard<L: Lanes>(told: L, truth: L) -> L {
    L::select(told.le(told), told, truth)
}

impl<L: Lanes<Elem = f32>> Seen<L> {
    #[inline(always)]
    fn listen(&mut self, told: &ToldLane<L>) {
        self.offset = heard(told.offset, self.offset);
        self.heading = heard(told.heading, self.heading);
        // The same bits where the heading is the true one.
        self.sin_heading = self.heading.sin_cos().0;
        self.curvature = heard(told.curvature, self.curvature);
        self.preview_curvature = heard(told.preview_curvature, self.preview_curvature);
        self.speed = heard(told.speed, self.speed);
        self.yaw_rate = heard(told.yaw_rate, self.yaw_rate);
        self.steering_angle = heard(told.steering_angle, self.steering_angle);
        self.roll = heard(told.roll, self.roll);
    }
}

impl<L: Lanes<Elem = f32>> Lead<L> {
    /// A radar measures speeds relative to the car's, whose own speed is known less exactly.
    #[inline(always)]
    fn listen(&mut self, told: &ToldLane<L>, true_v: L) {
        let v = heard(told.speed, true_v);
        let is_told = told.speed.le(told.speed) | told.lead_speed.le(told.lead_speed);
        let half = L::splat(0.5);
        self.present = heard(told.lead_presence, self.present);
        let present = self.present.gt(half);
        let relative = heard(told.lead_speed, self.relative_speed);
        let absent = L::splat(NO_LEAD_GAP);
        self.gap = L::select(present, heard(told.lead_distance, self.gap), absent);
        self.relative_speed = L::select(present, relative, L::zero());
        self.speed = L::select(is_told, v + relative, self.speed);
        let acceleration = heard(told.lead_acceleration, self.acceleration);
        self.acceleration = L::select(present, acceleration, L::zero());
    }
}

impl Kernel for Sense<'_> {
    type Elem = f32;
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes<Elem = f32>>(self) {
        let Self {
            cars,
            course,
            state,
            ..
        } = self;
        let config = self.planner;
        let preview_s = L::splat(config.preview_s);
        let time_gap = L::splat(config.personality.time_gap());
        let (zero, one, half) = (L::zero(), L::one(), L::splat(0.5));
        // What no lane of the block needs is left out; where one needs it, masks choose.
        let has_traffic = self.has_traffic;
        let has_curvature_requests = course.has_curvature_requests;
        let has_acceleration_requests = course.has_acceleration_requests;
        for first in (0..cars.fixed.n_lanes()).step_by(L::N) {
            let fixed = cars.fixed.load::<L>(first);
            let mut motion = cars.motion.load::<L>(first);
            let road = course.road.load::<L>(first);
            let preview = course.preview.load::<L>(first);
            let [s, d, steer, v, heading] = cars.vehicle.load::<L, 5>(first);
            let t = fixed.dt * L::splat(self.step_idx as f64);

            let preview_s = s + v * preview_s - preview.ahead;
            (motion.sin_heading, motion.cos_heading) = heading.sin_cos();
            let mut seen = Seen {
                offset: d,
                heading,
                sin_heading: motion.sin_heading,
                curvature: road.curvature + road.curvature_rate * s,
                preview_curvature: preview.curvature + preview.curvature_rate * preview_s,
                speed: v,
                yaw_rate: motion.yaw_rate,
                steering_angle: steer * fixed.steer_ratio_deg,
                roll: road.bank,
            };
            let mut lead = Lead {
                present: motion.lead_present,
                gap: motion.lead_gap,
                relative_speed: L::select(
                    motion.lead_present.gt(half),
                    motion.lead_speed - v,
                    zero,
                ),
                speed: motion.lead_speed,
                acceleration: motion.lead_acceleration,
            };
            if let Some(told) = self.told {
                let told = told.load::<L>(first);
                lead.listen(&told, v);
                seen.listen(&told);
            }
            let v = seen.speed;
            let offset_target = line(&course.requests.offset, first, t);
            let v_target = line(&course.requests.cruise, first, t);
            let offset = seen.offset - offset_target;
            let back = planner::path_curvature(
                &config,
                seen.preview_curvature,
                offset,
                seen.sin_heading,
                v,
            );
            let mut wanted = back;
            if has_curvature_requests {
                let requested = line(&course.requests.curvature, first, t);
                wanted = L::select(fixed.has_curvature_request.gt(half), requested, back);
            }
            let gravity_share = L::splat(-GRAVITY) * seen.roll;
            let last = motion.desired_curvature;
            let desired = planner::clip_curvature(wanted, last, v, gravity_share, fixed.dt);
            let limited = (desired - wanted).abs().gt(L::splat(1e-6));

            let mut a_target = planner::cruise(v, v_target);
            let mut v_wanted = v_target;
            if has_traffic {
                let behind = lead.present.gt(half);
                let follow = planner::follow(v, lead.gap, lead.speed, lead.acceleration, time_gap);
                let safe = planner::speed_for_gap(lead.gap, lead.speed, time_gap);
                a_target = L::select(behind, a_target.minimum(follow), a_target);
                v_wanted = L::select(behind, v_wanted.minimum(safe), v_wanted);
            }
            if has_acceleration_requests {
                let by_request = fixed.has_acceleration_request.gt(half);
                let asked = line(&course.requests.acceleration, first, t);
                a_target = L::select(by_request, asked, a_target);
                v_wanted = L::select(by_request, L::select(asked.lt(zero), zero, v), v_wanted);
            }
            a_target = a_target.clamp(
                L::load(&state.accel_min, first),
                L::load(&state.accel_max, first),
            );
            let stop = planner::should_stop(v, v_wanted);

            motion.desired_curvature = desired;
            motion.offset_target = offset_target;
            cars.motion.store(first, motion);
            // The step, flags of the driver and limits stay as they are; so does an absent lead.
            t.store(&mut state.time, first);
            v.store(&mut state.v_ego, first);
            motion.acceleration.store(&mut state.a_ego, first);
            seen.yaw_rate.store(&mut state.yaw_rate, first);
            seen.steering_angle
                .store(&mut state.steering_angle_deg, first);
            (motion.steer_rate * fixed.steer_ratio_deg).store(&mut state.steering_rate_deg, first);
            seen.roll.store(&mut state.roll, first);
            offset.store(&mut state.lateral_offset, first);
            seen.heading.store(&mut state.heading_error, first);
            seen.curvature.store(&mut state.road_curvature, first);
            desired.store(&mut state.desired_curvature, first);
            L::select(limited, one, zero).store(&mut state.curvature_limited, first);
            v_target.store(&mut state.v_target, first);
            a_target.store(&mut state.a_target, first);
            L::select(stop, one, zero).store(&mut state.should_stop, first);
            if has_traffic {
                lead.present.store(&mut state.lead_present, first);
                lead.gap.store(&mut state.lead_d_rel, first);
                lead.relative_speed.store(&mut state.lead_v_rel, first);
                lead.acceleration.store(&mut state.lead_a_rel, first);
            }
        }
    }
}
