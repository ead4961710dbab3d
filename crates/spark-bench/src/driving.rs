//! What a precision does to driving: a sequence of pictures through both networks, against fp32.
//!
//! ```text
//! frames --> pipeline in fp32      --> outputs, kept
//!        --> pipeline in precision --> outputs; per frame, the distance of what a driver would notice
//!              position of the plan at 1, 2, 3, 5 s       m
//!              own lane's lines, out to 100 m             m
//!              lead: distance now                         m
//!              desired curvature, acceleration            1/m, m/s^2
//! ```
//!
//! Histories are part of it: an error in a hidden state is remembered for five seconds. With
//! random weights the units mean nothing; precisions still compare.

use serde::Serialize;
use spark_openpilot::plan::{POINTS, X_IDXS, interpolate};
use spark_openpilot::{DrivingInput, DrivingOutput, DrivingPipeline, OpenpilotError};

use crate::scene::{Camera, planes};

/// Seconds ahead at which positions are compared.
pub(crate) const AHEAD_S: [f32; 4] = [1.0, 2.0, 3.0, 5.0];
/// Metres ahead to which lane lines are compared.
const LANES_TO_M: f32 = 100.0;
/// Delay of steering and of pedals, s.
const ACTION_S: f32 = 0.2;
/// Speed of the car, m/s.
const SPEED: f32 = 20.0;

/// Mean and largest distance over a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Distance {
    /// Mean over the frames of the sequence.
    pub mean: f64,
    /// Largest over the frames of the sequence; NaN if one is.
    pub max: f64,
}

impl Distance {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (mut sum, mut max, mut n) = (0.0, 0.0f64, 0usize);
        for value in values {
            sum += value;
            // Written so that NaN stays.
            max = if max.is_nan() || value <= max {
                max
            } else {
                value
            };
            n += 1;
        }
        Self {
            mean: sum / n.max(1) as f64,
            max,
        }
    }
}

/// How far one precision drives from fp32.
#[derive(Debug, Clone, Serialize)]
pub struct DrivingReport {
    /// Number format of both networks.
    pub precision: &'static str,
    /// Frames of the sequence.
    pub frames: usize,
    /// Position of the plan 1, 2, 3 and 5 s ahead, m.
    pub plan_m: [Distance; 4],
    /// The two lines of the own lane, mean over points to 100 m ahead, m to the side.
    pub lane_lines_m: Distance,
    /// Distance of the first lead, m.
    pub lead_m: Distance,
    /// Curvature to steer, 1/m.
    pub curvature_per_m: Distance,
    /// Acceleration to command, m/s^2.
    pub acceleration_m_s2: Distance,
}

/// The outputs of a sequence of `frames` pictures from `seed`, from an empty memory on.
///
/// # Errors
///
/// As [`DrivingPipeline::step`].
pub(crate) fn sequence(
    pipeline: &mut DrivingPipeline,
    seed: u64,
    frames: usize,
    mut progress: impl FnMut(usize),
) -> Result<Vec<DrivingOutput>, OpenpilotError> {
    pipeline.reset();
    let mut outputs = Vec::new();
    for frame in 0..frames {
        let mut desire = [0.0; 8];
        // A wish to turn left in the last third.
        desire[if (frame as u128) < 2 * frames as u128 / 3 {
            0
        } else {
            1
        }] = 1.0;
        let road = planes(seed, frame as u64, Camera::Road)?;
        let wide = planes(seed, frame as u64, Camera::Wide)?;
        outputs.push(pipeline.step(&DrivingInput {
            road: &road,
            wide: &wide,
            desire,
            traffic_convention: [1.0, 0.0],
        })?);
        progress(frame + 1);
    }
    Ok(outputs)
}

/// The distance of `got` from `want`, frame by frame.
pub(crate) fn compare(
    precision: &'static str,
    got: &[DrivingOutput],
    want: &[DrivingOutput],
) -> DrivingReport {
    let over = |distance: fn(&DrivingOutput, &DrivingOutput) -> f64| {
        Distance::of(got.iter().zip(want).map(|(g, w)| distance(g, w)))
    };
    DrivingReport {
        precision,
        frames: got.len().min(want.len()),
        plan_m: AHEAD_S
            .map(|t| Distance::of(got.iter().zip(want).map(|(g, w)| plan_distance(g, w, t)))),
        lane_lines_m: over(lane_distance),
        lead_m: over(|g, w| apart(g.vision.leads.mean[0], w.vision.leads.mean[0])),
        curvature_per_m: over(|g, w| apart(curvature(g), curvature(w))),
        acceleration_m_s2: over(|g, w| apart(acceleration(g), acceleration(w))),
    }
}

fn apart(a: f32, b: f32) -> f64 {
    (f64::from(a) - f64::from(b)).abs()
}

fn curvature(output: &DrivingOutput) -> f32 {
    output.policy.plan.desired_curvature(SPEED, ACTION_S)
}

fn acceleration(output: &DrivingOutput) -> f32 {
    output.policy.plan.desired_acceleration(ACTION_S).0
}

fn plan_distance(got: &DrivingOutput, want: &DrivingOutput, t: f32) -> f64 {
    let at = |output: &DrivingOutput, axis: usize| {
        let along: [f32; POINTS] = output.policy.plan.position.map(|p| p[axis]);
        interpolate(t, &along)
    };
    let squares = [0, 1, 2].map(|axis| apart(at(got, axis), at(want, axis)).powi(2));
    squares.iter().sum::<f64>().sqrt()
}

/// Lines 1 and 2 of four, left to right, are those of the own lane.
fn lane_distance(got: &DrivingOutput, want: &DrivingOutput) -> f64 {
    let points = X_IDXS.iter().take_while(|&&x| x <= LANES_TO_M).count();
    let side = |output: &DrivingOutput, line: usize, point: usize| {
        output.vision.lane_lines.mean[(line * POINTS + point) * 2]
    };
    let distances = [1, 2].into_iter().flat_map(|line| {
        (0..points).map(move |point| apart(side(got, line, point), side(want, line, point)))
    });
    distances.sum::<f64>() / (2 * points) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use spark_onnx::Precision;
    use spark_onnx::{ModelRunner, RunOptions};
    use spark_openpilot::zoo;

    #[test]
    fn equal_outputs_are_no_distance_apart_and_nan_is_seen() {
        let options = RunOptions::new().with_precision(Precision::Fp32);
        let load = |graph| ModelRunner::from_graph(graph, &options).expect("fp32");
        let (vision, policy) = (load(zoo::driving_vision(0)), load(zoo::driving_policy(0)));
        let mut pipeline = DrivingPipeline::new(vision, policy).expect("openpilot's pair");
        let road = planes(0, 0, Camera::Road).expect("fixed extents");
        let step = |pipeline: &mut DrivingPipeline| {
            pipeline.step(&DrivingInput {
                road: &road,
                wide: &road,
                desire: [0.0; 8],
                traffic_convention: [1.0, 0.0],
            })
        };
        let one = step(&mut pipeline).expect("sound inputs");
        let same = compare(
            "fp32",
            std::slice::from_ref(&one),
            std::slice::from_ref(&one),
        );
        assert_eq!((same.plan_m[3].max, same.lane_lines_m.max), (0.0, 0.0));
        let mut moved = one.clone();
        for position in &mut moved.policy.plan.position {
            position[1] += 0.5;
        }
        moved.vision.leads.mean[0] = f32::NAN;
        let far = compare("fp8", &[moved], std::slice::from_ref(&one));
        assert!((far.plan_m[0].mean - 0.5).abs() < 1e-5);
        assert!(far.lead_m.max.is_nan());
    }
}
