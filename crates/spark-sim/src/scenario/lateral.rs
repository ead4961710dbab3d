//! openpilot's on-road manoeuvres: steps of lateral and of longitudinal acceleration.
//!
//! ```text
//! lateral       +-0.3 m/s^2 for 1.5 s at 60 and 70 mph, asked as curvature a / v^2
//! longitudinal  come to a stop, start, creep, steps of -4 to +4 m/s^2
//! ```
//!
//! The manoeuvres ask for a curvature or an acceleration outright; there is no path to
//! come back to, so the errors that count are those of curvature and speed.
//!
//! Figures: commaai/openpilot 0101e8c9 and montge/openpilot 0450b81a, tools (MIT).

use super::Scenario;
use crate::Profile;

const MPH: f64 = 0.447_04;

fn profile(points: Vec<[f64; 2]>) -> Profile {
    Profile::new(points).expect("ordered, finite points")
}

/// Steps of 0.3 m/s^2 to the left and to the right, at two speeds.
pub fn lateral_steps() -> Vec<Scenario> {
    let mut all = Vec::new();
    for mph in [60.0, 70.0] {
        for acceleration in [0.3, -0.3] {
            let v: f64 = mph * MPH;
            let k = acceleration / v.max(1.0).powi(2);
            let mut scenario = Scenario::straight(
                format!("lateral_step {mph} mph {acceleration:+} m/s2"),
                v,
                6.0,
            );
            // Left and right mirror each other.
            scenario.family = Some(format!("lateral_step {mph} mph"));
            scenario.requests.curvature =
                Some(profile(vec![[1.0, 0.0], [1.0, k], [2.5, k], [2.5, 0.0]]));
            all.push(scenario);
        }
    }
    all
}

/// Name, start speed (m/s), and accelerations (m/s^2) with the time for which each is asked (s).
type Plan = (&'static str, f64, Vec<(f64, f64)>);

/// Coming to a stop, starting, creeping, and steps of acceleration from 20 mph.
pub fn longitudinal_steps() -> Vec<Scenario> {
    let mph20 = 20.0 * MPH;
    let creep = [1.0, -1.0, 1.0, -1.0, 1.0, -1.0].map(|a| (a, 3.0));
    let plans: [Plan; 7] = [
        ("come to stop", 5.0, vec![(-0.5, 12.0)]),
        ("start from stop", 0.0, vec![(1.5, 6.0)]),
        ("creep", 0.0, creep.to_vec()),
        ("brake step -1", mph20, vec![(-1.0, 3.0)]),
        ("brake step -4", mph20, vec![(-4.0, 3.0)]),
        ("gas step +1", mph20, vec![(1.0, 3.0)]),
        ("gas step +4", mph20, vec![(4.0, 3.0)]),
    ];
    plans
        .into_iter()
        .map(|(name, speed, steps)| {
            let mut points = vec![[1.0, 0.0]];
            let mut t = 1.0;
            for (acceleration, duration) in steps {
                points.push([t, acceleration]);
                t += duration;
                points.push([t, acceleration]);
            }
            points.push([t, 0.0]);
            let mut scenario = Scenario::straight(format!("longitudinal {name}"), speed, t + 2.0);
            scenario.requests.acceleration = Some(profile(points));
            scenario
        })
        .collect()
}
