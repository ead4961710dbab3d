//! What noisy sensors tell: the readings that planner and controllers get instead of the truth.
//!
//! ```text
//! truth --frame--> + error --> lost? --> latency --> held until the next one --> told
//! ```
//!
//! Noisy lanes are few and frames come at a camera's rate, so this is done lane by lane; what is
//! told lies in tiles where a channel that tells the truth is NaN. `scenario/noise.rs` describes
//! the errors.

use super::tables::{Motion, Prepared, RoadLanes};
use crate::columns::lane_tiles;
use crate::integrate::VehicleBatch;
use crate::random::Philox;
use crate::real::Real;
use crate::scenario::{ChannelNoise, Frames, Scenario};
use std::collections::VecDeque;

#[cfg(test)]
mod tests;

lane_tiles! {
    /// What a lane's sensors tell; NaN where it is the truth.
    pub(super) struct ToldLane;
    /// What many lanes' sensors tell.
    pub(super) struct Told;
    {
        offset,
        heading,
        /// Of the road here, and at the preview point.
        curvature,
        preview_curvature,
        speed,
        yaw_rate,
        /// Of the steering wheel, degrees.
        steering_angle,
        roll,
        lead_distance,
        /// Relative to the car.
        lead_speed,
        lead_acceleration,
        /// 1 if a car ahead is reported, else 0.
        lead_presence,
    }
}

impl ToldLane<f32> {
    const TRUTH: Self = Self {
        offset: f32::NAN,
        heading: f32::NAN,
        curvature: f32::NAN,
        preview_curvature: f32::NAN,
        speed: f32::NAN,
        yaw_rate: f32::NAN,
        steering_angle: f32::NAN,
        roll: f32::NAN,
        lead_distance: f32::NAN,
        lead_speed: f32::NAN,
        lead_acceleration: f32::NAN,
        lead_presence: f32::NAN,
    };
}

/// What is read; numbers are places in `SensorNoise::channels` and parts of random streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    Offset = 0,
    Heading = 1,
    Curvature = 2,
    Speed = 3,
    YawRate = 4,
    SteeringAngle = 5,
    Roll = 6,
    LeadDistance = 7,
    LeadSpeed = 8,
    LeadAcceleration = 9,
    LeadPresence = 10,
}

impl Channel {
    const NUMBERS: [Self; 10] = [
        Self::Offset,
        Self::Heading,
        Self::Curvature,
        Self::Speed,
        Self::YawRate,
        Self::SteeringAngle,
        Self::Roll,
        Self::LeadDistance,
        Self::LeadSpeed,
        Self::LeadAcceleration,
    ];

    fn is_of_lead(self) -> bool {
        self as usize >= Self::LeadDistance as usize
    }
}

/// Base of the streams of random numbers for sensor noise.
const NOISE_STREAM: u64 = 0x006E_6F69_7365;

/// What is drawn from a stream of its own.
#[derive(Debug, Clone, Copy)]
pub(super) enum Draw {
    Bias = 1,
    White = 2,
    Ar1 = 3,
    Loss = 4,
}

/// The random stream of one kind of draw of one channel; the counter is the frame.
pub(super) fn stream(channel: usize, draw: Draw) -> u64 {
    NOISE_STREAM | ((channel as u64) << 51) | ((draw as u64) << 48)
}

/// The constant error of a run.
pub(super) fn bias(noise: &ChannelNoise, channel: usize, seed: u64) -> f64 {
    if noise.bias_sd == 0.0 {
        return noise.bias;
    }
    let drawn = Philox::new(seed, stream(channel, Draw::Bias)).next_normal();
    noise.bias + noise.bias_sd * drawn
}

/// One channel of one lane.
#[derive(Debug, Clone)]
struct Sensor {
    channel: Channel,
    seed: u64,
    bias: f64,
    white_sd: f64,
    ar1_sd: f64,
    /// Share of the wandering error that is left after a frame, and of the new one.
    ar1_kept: f64,
    ar1_new: f64,
    /// Frames per second; none if every step is one.
    rate_hz: Option<f64>,
    dt: f64,
    latency_steps: usize,
    dropout: f64,
    dropout_frames: usize,

    last_frame: Option<u64>,
    ar1: f64,
    /// Frames that are still lost.
    n_lost: usize,
    told: [f32; 2],
    /// Readings on their way, with the step at which they are told.
    pending: VecDeque<(usize, [f32; 2])>,
}

impl Sensor {
    fn new(channel: Channel, noise: &ChannelNoise, scenario: &Scenario) -> Self {
        let mut sensor = Self::of_frames(channel, noise.frames(), scenario);
        let period_s = sensor.rate_hz.map_or(scenario.dt_s, |rate| 1.0 / rate);
        // The exponential of this crate, which has the same bits everywhere.
        sensor.ar1_kept = f64::from(Real::exp((-period_s / noise.ar1_time_s) as f32));
        sensor.ar1_new = (1.0 - sensor.ar1_kept * sensor.ar1_kept).sqrt();
        sensor.bias = bias(noise, channel as usize, scenario.seed);
        sensor.white_sd = noise.white_sd;
        sensor.ar1_sd = noise.ar1_sd;
        sensor
    }

    fn of_frames(channel: Channel, frames: Frames, scenario: &Scenario) -> Self {
        let dt = scenario.dt_s;
        Self {
            channel,
            seed: scenario.seed,
            bias: 0.0,
            white_sd: 0.0,
            ar1_sd: 0.0,
            ar1_kept: 0.0,
            ar1_new: 0.0,
            rate_hz: frames.rate_hz.filter(|rate| rate * dt < 1.0),
            dt,
            latency_steps: (frames.latency_s / dt).round() as usize,
            dropout: frames.dropout,
            dropout_frames: frames.dropout_frames as usize,
            last_frame: None,
            ar1: 0.0,
            n_lost: 0,
            told: [0.0; 2],
            pending: VecDeque::new(),
        }
    }

    fn random(&self, draw: Draw) -> Philox {
        Philox::new(self.seed, stream(self.channel as usize, draw))
    }

    /// The newest reading that is old enough; `truth` is looked at in new frames.
    fn read(&mut self, step_idx: usize, truth: impl FnOnce() -> [f32; 2]) -> [f32; 2] {
        let frame = match self.rate_hz {
            None => step_idx as u64,
            // A little more, so that a frame due at a step is not one step late by rounding.
            Some(rate) => (step_idx as f64 * self.dt * rate + 1e-6) as u64,
        };
        if self.last_frame != Some(frame) {
            let is_first = self.last_frame.is_none();
            self.last_frame = Some(frame);
            self.take_frame(step_idx, frame, is_first, truth);
        }
        while let Some(&(due, reading)) = self.pending.front() {
            if due > step_idx {
                break;
            }
            self.told = reading;
            self.pending.pop_front();
        }
        self.told
    }

    fn take_frame(
        &mut self,
        step_idx: usize,
        frame: u64,
        is_first: bool,
        truth: impl FnOnce() -> [f32; 2],
    ) {
        let error = self.error(frame, is_first) as f32;
        let is_lost = self.is_lost(frame);
        let mut reading = truth();
        if self.channel == Channel::LeadPresence {
            if is_lost {
                reading = [0.0; 2];
            }
        } else {
            // Before the first frame nothing is known: it is never lost.
            if is_lost && !is_first {
                return;
            }
            reading = reading.map(|x| x + error);
        }
        // The first reading counts as known since ever.
        let latency_steps = if is_first { 0 } else { self.latency_steps };
        self.pending.push_back((step_idx + latency_steps, reading));
    }

    fn error(&mut self, frame: u64, is_first: bool) -> f64 {
        let mut error = self.bias;
        if self.white_sd > 0.0 {
            error += self.white_sd * self.random(Draw::White).at(frame).next_normal();
        }
        if self.ar1_sd > 0.0 {
            let drawn = self.ar1_sd * self.random(Draw::Ar1).at(frame).next_normal();
            self.ar1 = if is_first {
                drawn
            } else {
                self.ar1_kept * self.ar1 + self.ar1_new * drawn
            };
            error += self.ar1;
        }
        error
    }

    fn is_lost(&mut self, frame: u64) -> bool {
        if self.dropout == 0.0 {
            return false;
        }
        self.n_lost = self.n_lost.saturating_sub(1);
        let mut random = self.random(Draw::Loss).at(2 * frame);
        if random.next_uniform() < self.dropout {
            let n_frames = 1 + random.next_index(self.dropout_frames);
            self.n_lost = self.n_lost.max(n_frames);
        }
        self.n_lost > 0
    }
}

/// The truth that sensors read.
#[derive(Clone, Copy)]
pub(super) struct World<'a> {
    pub(super) vehicle: &'a VehicleBatch,
    pub(super) motion: &'a Motion,
    pub(super) road: &'a RoadLanes,
    pub(super) preview: &'a RoadLanes,
    pub(super) preview_s: f32,
}

impl World<'_> {
    /// The operations of [`super::sense`], in their order.
    fn truth(&self, channel: Channel, lane: usize, steer_ratio_deg: f32) -> [f32; 2] {
        let state = |i: usize| self.vehicle.column(i)[lane];
        let both = |value: f32| [value; 2];
        match channel {
            Channel::Offset => both(state(1)),
            Channel::Heading => both(state(4)),
            Channel::Curvature => {
                let (road, preview) = (self.road.get(lane), self.preview.get(lane));
                let ahead = state(0) + state(3) * self.preview_s - preview.ahead;
                [
                    road.curvature + road.curvature_rate * state(0),
                    preview.curvature + preview.curvature_rate * ahead,
                ]
            }
            Channel::Speed => both(state(3)),
            Channel::YawRate => both(self.motion.get(lane).yaw_rate),
            Channel::SteeringAngle => both(state(2) * steer_ratio_deg),
            Channel::Roll => both(self.road.get(lane).bank),
            Channel::LeadDistance => both(self.motion.get(lane).lead_gap),
            Channel::LeadSpeed => both(self.motion.get(lane).lead_speed - state(3)),
            Channel::LeadAcceleration => both(self.motion.get(lane).lead_acceleration),
            Channel::LeadPresence => both(self.motion.get(lane).lead_present),
        }
    }
}

/// The noisy sensors of a lane.
#[derive(Debug, Clone)]
struct NoisyLane {
    lane: usize,
    steer_ratio_deg: f32,
    sensors: Vec<Sensor>,
}

/// The noisy sensors of a block.
#[derive(Debug, Clone)]
pub(super) struct Perception {
    lanes: Vec<NoisyLane>,
    pub(super) told: Told,
}

impl Perception {
    pub(super) fn new(block: &[Prepared<'_>]) -> Self {
        let noisy = block.iter().enumerate().filter_map(|(lane, prepared)| {
            let scenario = prepared.scenario;
            let sensors = sensors(scenario);
            (!sensors.is_empty()).then(|| NoisyLane {
                lane,
                steer_ratio_deg: scenario.vehicle.parameters().steer_ratio.to_degrees() as f32,
                sensors,
            })
        });
        let lanes: Vec<NoisyLane> = noisy.collect();
        let n_lanes = if lanes.is_empty() { 0 } else { block.len() };
        Self {
            lanes,
            told: Told::filled(n_lanes, ToldLane::TRUTH),
        }
    }

    /// Whether every lane is told the truth.
    pub(super) fn is_true(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Takes the frames of this step.
    pub(super) fn update(&mut self, world: World<'_>, step_idx: usize) {
        for NoisyLane {
            lane,
            steer_ratio_deg,
            sensors,
        } in &mut self.lanes
        {
            for sensor in sensors {
                let channel = sensor.channel;
                let [value, ahead] =
                    sensor.read(step_idx, || world.truth(channel, *lane, *steer_ratio_deg));
                let told = &mut self.told;
                *match channel {
                    Channel::Offset => told.offset(*lane),
                    Channel::Heading => told.heading(*lane),
                    Channel::Curvature => {
                        *told.preview_curvature(*lane) = ahead;
                        told.curvature(*lane)
                    }
                    Channel::Speed => told.speed(*lane),
                    Channel::YawRate => told.yaw_rate(*lane),
                    Channel::SteeringAngle => told.steering_angle(*lane),
                    Channel::Roll => told.roll(*lane),
                    Channel::LeadDistance => told.lead_distance(*lane),
                    Channel::LeadSpeed => told.lead_speed(*lane),
                    Channel::LeadAcceleration => told.lead_acceleration(*lane),
                    Channel::LeadPresence => told.lead_presence(*lane),
                } = value;
            }
        }
    }
}

/// The channels of a scenario that do not tell the truth. Without others there is no lead to see.
fn sensors(scenario: &Scenario) -> Vec<Sensor> {
    let noise = &scenario.environment.noise;
    let mut sensors = Vec::new();
    for (channel, (_, own)) in Channel::NUMBERS.into_iter().zip(noise.channels()) {
        if own.is_none() || (channel.is_of_lead() && scenario.actors.is_empty()) {
            continue;
        }
        sensors.push(Sensor::new(channel, own, scenario));
    }
    if !noise.lead_presence.is_none() && !scenario.actors.is_empty() {
        let frames = noise.lead_presence.frames();
        sensors.push(Sensor::of_frames(Channel::LeadPresence, frames, scenario));
    }
    sensors
}
