//! Many segments at once through one model.
//!
//! ```text
//! for step in 20 .. length:
//!   every segment: append roll, speed, acceleration and target; ask its controller
//!                  (before step 100 the logged steering is used instead)
//!   one call of the model for all segments that still run
//!   every segment: softmax(logits / 0.8), one uniform number, bin, at most 0.5 m/s^2 per step
//!                  (before step 100 the target is taken instead)
//! cost = 50 * 100 mean((target - lateral)^2) + 100 mean((change of lateral / 0.1 s)^2)
//!        over steps 100 .. 500
//! ```

use super::random::{Draws, seed_of};
use super::tokenizer::{N_BINS, decode, encode};
use super::{CONTEXT, CONTROL_START, COST_END, DT, STATE_SIZE, Segment};
use crate::SimError;

/// Temperature of the softmax.
const TEMPERATURE: f32 = 0.8;
/// Largest change of lateral acceleration per step, m/s^2.
const MAX_CHANGE: f64 = 0.5;
/// Largest steering command either way; more is cut off.
const STEER_LIMIT: f64 = 2.0;
/// Samples of the future that a controller sees.
const FUTURE: usize = 49;
/// Weight of the tracking cost.
const TRACKING_WEIGHT: f64 = 50.0;

/// Predicts the next lateral acceleration of `n` cars at once.
pub trait LearnedDynamics {
    /// # Shapes
    ///
    /// `states` is `[n, 20, 4]` (steering, roll acceleration, speed, acceleration), `tokens`
    /// `[n, 20]`; `logits` is `[n, 1024]`, the last step's. All row-major.
    ///
    /// # Errors
    ///
    /// Whatever kept the model from answering, as text for the report.
    fn predict(
        &mut self,
        n: usize,
        states: &[f32],
        tokens: &[i64],
        logits: &mut [f32],
    ) -> Result<(), String>;
}

/// What a controller sees of the car.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChallengeState {
    /// Lateral acceleration by the road's roll, m/s^2.
    pub roll_lataccel: f64,
    /// Speed of the car, m/s.
    pub v_ego: f64,
    /// Longitudinal acceleration of the car, m/s^2.
    pub a_ego: f64,
}

/// What a controller sees of the next 4.9 s; shorter at the end of a segment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FuturePlan {
    /// Lateral acceleration to drive at each step, m/s^2.
    pub lataccel: Vec<f64>,
    /// Lateral acceleration by the road's roll at each step, m/s^2.
    pub roll_lataccel: Vec<f64>,
    /// Speed at each step, m/s.
    pub v_ego: Vec<f64>,
    /// Longitudinal acceleration at each step, m/s^2.
    pub a_ego: Vec<f64>,
}

/// A controller of one segment.
pub trait ChallengeController {
    /// Steering for the next step, in [-2, 2] after clipping.
    fn update(
        &mut self,
        target: f64,
        current: f64,
        state: &ChallengeState,
        future: &FuturePlan,
    ) -> f64;
}

/// The PID controller that ships with the challenge.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChallengePid {
    integral: f64,
    last_error: f64,
}

impl ChallengeController for ChallengePid {
    fn update(&mut self, target: f64, current: f64, _: &ChallengeState, _: &FuturePlan) -> f64 {
        let error = target - current;
        self.integral += error;
        let change = error - self.last_error;
        self.last_error = error;
        0.195 * error + 0.1 * self.integral - 0.053 * change
    }
}

/// What a drive costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChallengeCost {
    /// 100 times the mean squared error.
    pub lataccel: f64,
    /// 100 times the mean squared jerk, (m/s^3)^2.
    pub jerk: f64,
    /// 50 times the first plus the second.
    pub total: f64,
}

/// How one segment was driven.
#[derive(Debug, Clone)]
pub struct Rollout {
    /// Name of the segment.
    pub name: String,
    /// Lateral acceleration at every step, m/s^2.
    pub lataccel: Vec<f64>,
    /// Steering at every step.
    pub steer: Vec<f64>,
    /// What the drive costs by the challenge's rules.
    pub cost: ChallengeCost,
}

/// Drives segments of the challenge with a learned model of the car.
pub struct Challenge<'a> {
    model: &'a mut dyn LearnedDynamics,
    seed_offset: u64,
}

/// One segment on its way.
struct Drive<'a> {
    segment: &'a Segment,
    random: Draws,
    steer: Vec<f64>,
    lataccel: Vec<f64>,
    future: FuturePlan,
}

impl<'a> Challenge<'a> {
    /// The challenge's own seeds.
    pub fn new(model: &'a mut dyn LearnedDynamics) -> Self {
        Self {
            model,
            seed_offset: 0,
        }
    }

    /// Other seeds: a controller that has learnt the challenge's own by heart shows here.
    #[must_use]
    pub fn with_seed_offset(mut self, offset: u64) -> Self {
        self.seed_offset = offset;
        self
    }

    /// Drives every segment, all in one batch. `make` gives each its own controller.
    ///
    /// # Errors
    ///
    /// [`SimError::Segment`] for a segment that [`Segment::check`] refuses, or whose controller answers NaN; [`SimError::Model`] if the model
    /// fails or answers NaN.
    pub fn run<C: ChallengeController>(
        &mut self,
        segments: &[Segment],
        make: impl Fn() -> C,
    ) -> Result<Vec<Rollout>, SimError> {
        let mut drives = Vec::with_capacity(segments.len());
        for segment in segments {
            drives.push(self.start(segment)?);
        }
        let mut controllers: Vec<C> = segments.iter().map(|_| make()).collect();
        let longest = segments.iter().map(|s| s.rows.len()).max().unwrap_or(0);
        let (mut states, mut tokens, mut logits) = (Vec::new(), Vec::new(), Vec::new());
        for step in CONTEXT..longest {
            let running: Vec<usize> = (0..drives.len())
                .filter(|&i| step < drives[i].segment.rows.len())
                .collect();
            for &i in &running {
                drives[i].control(step, &mut controllers[i])?;
            }
            // The model's answers before step 100 are thrown away; the draw is not.
            if step >= CONTROL_START {
                states.clear();
                tokens.clear();
                for &i in &running {
                    drives[i].history(step, &mut states, &mut tokens);
                }
                logits.clear();
                logits.resize(running.len() * N_BINS, 0.0);
                self.model
                    .predict(running.len(), &states, &tokens, &mut logits)
                    .map_err(|reason| SimError::Model { step, reason })?;
            }
            for (row, &i) in running.iter().enumerate() {
                let drive = &mut drives[i];
                let uniform = drive.random.uniform();
                if step < CONTROL_START {
                    let target = drive.segment.rows[step].target_lataccel;
                    drive.lataccel.push(target);
                    continue;
                }
                let row = &logits[row * N_BINS..(row + 1) * N_BINS];
                let token = sample(row, uniform).ok_or_else(|| SimError::Model {
                    step,
                    reason: "the logits are not numbers".to_owned(),
                })?;
                drive.take(decode(token));
            }
        }
        Ok(drives.into_iter().map(Drive::finish).collect())
    }

    fn start<'s>(&self, segment: &'s Segment) -> Result<Drive<'s>, SimError> {
        segment.check()?;
        let seed = seed_of(&segment.name) + self.seed_offset;
        let history = &segment.rows[..CONTEXT];
        Ok(Drive {
            segment,
            random: Draws::new(seed as u32),
            steer: history.iter().map(|row| row.steer).collect(),
            lataccel: history.iter().map(|row| row.target_lataccel).collect(),
            future: FuturePlan::default(),
        })
    }
}

impl Drive<'_> {
    fn control(
        &mut self,
        step: usize,
        controller: &mut dyn ChallengeController,
    ) -> Result<(), SimError> {
        let rows = &self.segment.rows;
        let row = &rows[step];
        let ahead = &rows[step + 1..(step + 1 + FUTURE).min(rows.len())];
        self.future.lataccel.clear();
        self.future.roll_lataccel.clear();
        self.future.v_ego.clear();
        self.future.a_ego.clear();
        for next in ahead {
            self.future.lataccel.push(next.target_lataccel);
            self.future.roll_lataccel.push(next.roll_lataccel);
            self.future.v_ego.push(next.v_ego);
            self.future.a_ego.push(next.a_ego);
        }
        let state = ChallengeState {
            roll_lataccel: row.roll_lataccel,
            v_ego: row.v_ego,
            a_ego: row.a_ego,
        };
        let current = self.lataccel[step - 1];
        let answer = controller.update(row.target_lataccel, current, &state, &self.future);
        let used = if step < CONTROL_START {
            row.steer
        } else {
            answer
        };
        if !used.is_finite() {
            return Err(SimError::Segment {
                name: self.segment.name.clone(),
                reason: "the controller's answer is not finite",
            });
        }
        self.steer.push(used.clamp(-STEER_LIMIT, STEER_LIMIT));
        Ok(())
    }

    /// Appends the last twenty steps, this one's steering included, to the model's inputs.
    fn history(&self, step: usize, states: &mut Vec<f32>, tokens: &mut Vec<i64>) {
        let first = step + 1 - CONTEXT;
        for i in first..=step {
            let row = &self.segment.rows[i];
            let state: [f64; STATE_SIZE] = [self.steer[i], row.roll_lataccel, row.v_ego, row.a_ego];
            states.extend(state.map(|x| x as f32));
        }
        // The tokens lag by one: this step's lateral acceleration is what is asked for.
        for lataccel in &self.lataccel[first - 1..step] {
            tokens.push(encode(*lataccel) as i64);
        }
    }

    fn take(&mut self, predicted: f64) {
        let last = self.lataccel[self.lataccel.len() - 1];
        let next = predicted.clamp(last - MAX_CHANGE, last + MAX_CHANGE);
        self.lataccel.push(next);
    }

    fn finish(self) -> Rollout {
        let end = COST_END.min(self.lataccel.len());
        let driven = &self.lataccel[CONTROL_START..end];
        let targets = self.segment.rows[CONTROL_START..end].iter();
        let n = driven.len() as f64;
        let squared: f64 = targets
            .zip(driven)
            .map(|(row, x)| (row.target_lataccel - x).powi(2))
            .sum();
        let jerk: f64 = driven
            .windows(2)
            .map(|pair| ((pair[1] - pair[0]) / DT).powi(2))
            .sum();
        let lataccel = 100.0 * squared / n;
        let jerk = 100.0 * jerk / (n - 1.0);
        Rollout {
            name: self.segment.name.clone(),
            cost: ChallengeCost {
                lataccel,
                jerk,
                total: TRACKING_WEIGHT * lataccel + jerk,
            },
            lataccel: self.lataccel,
            steer: self.steer,
        }
    }
}

/// The bin in which a uniform number falls: `searchsorted(cumsum(softmax), u, side='right')`.
///
/// `None` if a logit is NaN. The softmax is f32 as the challenge computes it, the cumulative
/// sum f64 as numpy's `choice` does.
pub(super) fn sample(logits: &[f32], uniform: f64) -> Option<usize> {
    let scaled: Vec<f32> = logits.iter().map(|x| x / TEMPERATURE).collect();
    let largest = scaled.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if scaled.iter().any(|x| x.is_nan()) || !largest.is_finite() {
        return None;
    }
    let weights: Vec<f32> = scaled.iter().map(|x| (x - largest).exp()).collect();
    let total: f32 = weights.iter().sum();
    let mut sum = 0.0;
    let cumulative: Vec<f64> = weights
        .iter()
        .map(|w| {
            sum += f64::from(w / total);
            sum
        })
        .collect();
    let below = |c: &f64| c / sum <= uniform;
    Some(cumulative.partition_point(below).min(logits.len() - 1))
}
