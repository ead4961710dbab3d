//! What the networks say, head by head.
//!
//! ```text
//! regression head     [means..., log deviations...]      deviation = exp(min(x, 11))
//! several hypotheses  n x [means..., log deviations..., selection logits...]
//!                     for each selection: the hypothesis with the largest logit
//! probability head    sigmoid(x) = 1 / (1 + exp(min(-x, 11)))
//! category head       softmax over the last axis
//! ```
//!
//! The limit 11 keeps the exponential inside f16. Source: `Parser` of openpilot's
//! `selfdrive/modeld/parse_model_outputs.py` and `parse_model_output` of
//! `dmonitoringmodeld.py`.

use crate::OpenpilotError;
use crate::plan::{COLUMNS, POINTS, Plan};
use crate::slices::OutputLayout;

/// Largest exponent taken: exp(11) is just below the largest f16.
const MAX_EXPONENT: f32 = 11.0;

/// `exp(x)`, with `x` limited from above to 11.
pub fn safe_exp(x: f32) -> f32 {
    x.min(MAX_EXPONENT).exp()
}

/// `1 / (1 + exp(-x))`, never below `1 / (1 + e^11)`.
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + safe_exp(-x))
}

/// Softmax of `x`; empty for an empty slice.
pub fn softmax(x: &[f32]) -> Vec<f32> {
    let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = x.iter().map(|&v| (v - largest).exp()).collect();
    let sum: f32 = powers.iter().sum();
    powers.into_iter().map(|p| p / sum).collect()
}

/// A regression head: what is expected and how sure the network is.
#[derive(Debug, Clone, PartialEq)]
pub struct Regression {
    /// Expected values, in the head's unit and order.
    pub mean: Vec<f32>,
    /// Their standard deviations, in the same unit and order.
    pub deviation: Vec<f32>,
}

impl Regression {
    /// The values of a head without hypotheses.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::Length`] if the head has an odd number of values.
    pub fn parse(raw: &[f32]) -> Result<Self, OpenpilotError> {
        expect_length("regression head", raw, raw.len() / 2 * 2)?;
        let (mean, log_deviation) = raw.split_at(raw.len() / 2);
        Ok(Self {
            mean: mean.to_vec(),
            deviation: log_deviation.iter().map(|&x| safe_exp(x)).collect(),
        })
    }

    /// For each of `selections`, the values of the likeliest of `hypotheses`, joined: the
    /// first of equals. Each hypothesis ends with one logit per selection.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::Length`] unless `raw` divides into `hypotheses` of `2 n + selections` values.
    pub fn parse_hypotheses(
        raw: &[f32],
        hypotheses: usize,
        selections: usize,
    ) -> Result<Self, OpenpilotError> {
        let per_hypothesis = raw.len() / hypotheses.max(1);
        let n_values = per_hypothesis.saturating_sub(selections) / 2;
        let want = hypotheses * (2 * n_values + selections);
        expect_length("hypotheses", raw, want)?;
        let mut joined = Self {
            mean: Vec::new(),
            deviation: Vec::new(),
        };
        if raw.is_empty() {
            return Ok(joined);
        }
        for selection in 0..selections {
            let logit = |hypothesis: &[f32]| hypothesis[2 * n_values + selection];
            let mut best = &raw[..per_hypothesis];
            for hypothesis in raw.chunks_exact(per_hypothesis) {
                if logit(hypothesis) > logit(best) {
                    best = hypothesis;
                }
            }
            joined.mean.extend(&best[..n_values]);
            joined
                .deviation
                .extend(best[n_values..2 * n_values].iter().map(|&x| safe_exp(x)));
        }
        Ok(joined)
    }
}

/// What the vision network says about one pair of frames.
#[derive(Debug, Clone, PartialEq)]
pub struct VisionPrediction {
    /// Probabilities of engagement, disengagement, braking, blinkers; 55.
    pub meta: Vec<f32>,
    /// Probability of each of 8 desires, 4 times ahead.
    pub desire_prediction: Vec<Vec<f32>>,
    /// Velocity m/s x y z and rotation rad/s roll pitch yaw of the device; 6.
    pub pose: Regression,
    /// Rotation from the device to the wide camera, rad; 3.
    pub wide_from_device_euler: Regression,
    /// Position and rotation of the device over the road; 6.
    pub road_transform: Regression,
    /// y and z in metres at [`super::plan::X_IDXS`], `[4 lines, 33, 2]`.
    pub lane_lines: Regression,
    /// Two probabilities for each of 4 lines.
    pub lane_line_probabilities: Vec<f32>,
    /// y and z in metres at [`super::plan::X_IDXS`], `[2 edges, 33, 2]`.
    pub road_edges: Regression,
    /// x, y in metres, speed m/s, acceleration m/s^2, at 0, 2, ..., 10 s: `[3 leads, 6, 4]`.
    pub leads: Regression,
    /// Probability of a lead now, in 2 s, in 4 s.
    pub lead_probabilities: Vec<f32>,
    /// What the policy network remembers of these frames; 512.
    pub hidden_state: Vec<f32>,
}

impl VisionPrediction {
    /// Reads `output` by `layout`. Both generations of the lead head are understood.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::MissingSlice`] or [`OpenpilotError::Length`] if a head is missing or
    /// has another size.
    pub fn parse(layout: &OutputLayout, output: &[f32]) -> Result<Self, OpenpilotError> {
        let head = |name: &str| layout.slice(output, name);
        let regression = |name: &str, n: usize| {
            let raw = head(name)?;
            expect_length(name, raw, 2 * n)?;
            Regression::parse(raw)
        };
        let lead = head("lead")?;
        let leads = if lead.len() == 2 * 3 * 6 * 4 {
            Regression::parse(lead)?
        } else {
            expect_length("lead", lead, 2 * (2 * 6 * 4 + 3))?;
            Regression::parse_hypotheses(lead, 2, 3)?
        };
        Ok(Self {
            meta: head("meta")?.iter().map(|&x| sigmoid(x)).collect(),
            desire_prediction: head("desire_pred")?.chunks(8).map(softmax).collect(),
            pose: regression("pose", 6)?,
            wide_from_device_euler: regression("wide_from_device_euler", 3)?,
            road_transform: regression("road_transform", 6)?,
            lane_lines: regression("lane_lines", 4 * POINTS * 2)?,
            lane_line_probabilities: probabilities(head("lane_lines_prob")?),
            road_edges: regression("road_edges", 2 * POINTS * 2)?,
            leads,
            lead_probabilities: probabilities(head("lead_prob")?),
            hidden_state: head("hidden_state")?.to_vec(),
        })
    }
}

/// What the policy network says.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyPrediction {
    /// Where the car is expected to be driven.
    pub plan: Plan,
    /// Standard deviations of the same.
    pub plan_deviation: Plan,
    /// Probability of each of 8 desires being carried out now.
    pub desire_state: Vec<f32>,
}

impl PolicyPrediction {
    /// Reads `output` by `layout`. A plan of five hypotheses gives the likeliest.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::MissingSlice`] or [`OpenpilotError::Length`] if a head is missing or
    /// has another size.
    pub fn parse(layout: &OutputLayout, output: &[f32]) -> Result<Self, OpenpilotError> {
        let raw = layout.slice(output, "plan")?;
        let n_values = POINTS * COLUMNS;
        let plan = if raw.len() == 2 * n_values {
            Regression::parse(raw)?
        } else {
            expect_length("plan", raw, 5 * (2 * n_values + 1))?;
            Regression::parse_hypotheses(raw, 5, 1)?
        };
        Ok(Self {
            plan: Plan::from_values(&plan.mean)?,
            plan_deviation: Plan::from_values(&plan.deviation)?,
            desire_state: softmax(layout.slice(output, "desire_state")?),
        })
    }
}

/// A driver on one seat.
#[derive(Debug, Clone, PartialEq)]
pub struct SeatPrediction {
    /// Face: roll, pitch, yaw in rad, then x, y in the picture, then one unused value.
    pub face: Regression,
    /// A face is seen.
    pub face_probability: f32,
    /// Left and right eye are seen.
    pub eye_probabilities: [f32; 2],
    /// Left and right eye are closed.
    pub blink_probabilities: [f32; 2],
    /// Probability that sunglasses are worn.
    pub sunglasses_probability: f32,
    /// A phone is in use.
    pub phone_probability: f32,
}

/// What the driver-monitoring network says.
#[derive(Debug, Clone, PartialEq)]
pub struct DriverPrediction {
    /// Driver on the left seat.
    pub left: SeatPrediction,
    /// Driver on the right seat.
    pub right: SeatPrediction,
    /// The steering wheel is on the right.
    pub wheel_on_right: f32,
}

impl DriverPrediction {
    /// Reads `output` by `layout`.
    ///
    /// # Errors
    ///
    /// [`OpenpilotError::MissingSlice`] or [`OpenpilotError::Length`] if a head is missing or
    /// has another size.
    pub fn parse(layout: &OutputLayout, output: &[f32]) -> Result<Self, OpenpilotError> {
        let probability = |name: &str| {
            let raw = layout.slice(output, name)?;
            expect_length(name, raw, 1)?;
            Ok::<f32, OpenpilotError>(sigmoid(raw[0]))
        };
        let seat = |side: &str| {
            let raw = layout.slice(output, &format!("face_descs_{side}"))?;
            expect_length("face_descs", raw, 12)?;
            Ok::<SeatPrediction, OpenpilotError>(SeatPrediction {
                face: Regression::parse(raw)?,
                face_probability: probability(&format!("face_prob_{side}"))?,
                eye_probabilities: [
                    probability(&format!("left_eye_prob_{side}"))?,
                    probability(&format!("right_eye_prob_{side}"))?,
                ],
                blink_probabilities: [
                    probability(&format!("left_blink_prob_{side}"))?,
                    probability(&format!("right_blink_prob_{side}"))?,
                ],
                sunglasses_probability: probability(&format!("sunglasses_prob_{side}"))?,
                phone_probability: probability(&format!("using_phone_prob_{side}"))?,
            })
        };
        Ok(Self {
            left: seat("lhd")?,
            right: seat("rhd")?,
            wheel_on_right: probability("wheel_on_right")?,
        })
    }
}

fn probabilities(raw: &[f32]) -> Vec<f32> {
    raw.iter().map(|&x| sigmoid(x)).collect()
}

fn expect_length(what: &str, raw: &[f32], want: usize) -> Result<(), OpenpilotError> {
    if raw.len() == want {
        return Ok(());
    }
    Err(OpenpilotError::Length {
        what: what.to_owned(),
        got: raw.len(),
        want,
    })
}

#[cfg(test)]
mod tests;
