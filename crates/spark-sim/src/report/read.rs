//! A run's JSON read back, for programs that compare or draw a run that was driven before.
//!
//! The text is a stranger's: what is missing, unknown or does not fit is refused, and figures that
//! follow from others (the summary, percentiles) are made anew and not believed.
//!
//! Deliberately absent: traces, which are not written, and which error a failed drive had: its text is kept.

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::json::RUN_SCHEMA;
use crate::SimError;
use crate::metric::Metrics;
use crate::run::{Latency, RunReport, ScenarioError, ScenarioResult};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedRun {
    #[serde(rename = "schema", deserialize_with = "known_schema")]
    _schema: (),
    algorithm: String,
    device: String,
    scenarios: Option<String>,
    n_drives: usize,
    n_agent_steps: u64,
    n_on_gpu: usize,
    wall_s: Option<f64>,
    threads: Option<usize>,
    #[serde(rename = "summary")]
    _summary: IgnoredAny,
    #[serde(rename = "latency_p50_ms")]
    _latency_p50_ms: IgnoredAny,
    #[serde(rename = "latency_p99_ms")]
    _latency_p99_ms: IgnoredAny,
    latency: Option<Latency>,
    drives: Vec<SavedDrive>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedDrive {
    index: usize,
    name: String,
    replicate: usize,
    family: Option<String>,
    seed: u64,
    metrics: Option<Metrics>,
    error: Option<String>,
}

/// Refuses another schema. It stands first, so that a file of another version is told from one whose fields are wrong.
fn known_schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    let told = String::deserialize(deserializer)?;
    match told == RUN_SCHEMA {
        true => Ok(()),
        false => Err(D::Error::custom(format_args!(
            "its schema is `{told}`, and `{RUN_SCHEMA}` is read"
        ))),
    }
}

/// The report that [`run_json`](super::run_json) wrote; written once more it is the same text.
///
/// # Errors
///
/// [`SimError::SavedRun`] for other text, with the place, and for counts that its drives do not have.
pub fn read_run_json(text: &str) -> Result<RunReport, SimError> {
    let refused = |reason: String| SimError::SavedRun { reason };
    let saved: SavedRun = serde_json::from_str(text).map_err(|error| refused(error.to_string()))?;
    let drives = saved.drives.into_iter().map(drive);
    let results: Vec<ScenarioResult> = drives.collect::<Result<_, _>>().map_err(refused)?;
    let report = RunReport {
        scenarios: saved.scenarios,
        latency: saved.latency.unwrap_or_default(),
        wall_s: saved.wall_s,
        n_threads: saved.threads,
        n_on_gpu: saved.n_on_gpu,
        ..RunReport::of_drives(saved.algorithm, saved.device, results)
    };
    if saved.n_drives != report.results.len() {
        let (told, got) = (saved.n_drives, report.results.len());
        return Err(refused(format!("n_drives is {told}, and there are {got}")));
    }
    if saved.n_agent_steps != report.n_agent_steps {
        let (told, got) = (saved.n_agent_steps, report.n_agent_steps);
        let reason = format!("n_agent_steps is {told}, and the drives have {got}");
        return Err(refused(reason));
    }
    Ok(report)
}

fn drive(saved: SavedDrive) -> Result<ScenarioResult, String> {
    let outcome = match (saved.metrics, saved.error) {
        (Some(metrics), None) => Ok(metrics),
        (None, Some(text)) => Err(ScenarioError::ReadBack { text }),
        (metrics, _) => {
            let what = match metrics {
                Some(_) => "both metrics and an error",
                None => "neither metrics nor an error",
            };
            return Err(format!("`{}` has {what}", saved.name));
        }
    };
    Ok(ScenarioResult {
        index: saved.index,
        replicate: saved.replicate,
        name: saved.name,
        family: saved.family,
        seed: saved.seed,
        outcome,
        trace: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{PerfectTracking, named};
    use crate::report::{run_json, run_markdown};
    use crate::run::{RunOptions, Simulator};
    use crate::scenario::{Fuzzer, Scenario};

    fn written() -> (RunReport, String) {
        let mut scenarios: Vec<Scenario> = Fuzzer::new(3).iter(8).collect();
        scenarios[1].family = Some("bends".to_owned());
        scenarios[4].duration_s = -1.0;
        let options = RunOptions::default().with_measured_latency();
        let simulator = Simulator::new(options).expect("valid options");
        let perfect = named("perfect", || PerfectTracking);
        let mut report = simulator.run_replicates(&scenarios, 2, &perfect);
        report.scenarios = Some("8 of \"Fuzzer\" 3".to_owned());
        let text = run_json(&report).expect("expressible");
        (report, text)
    }

    #[test]
    fn a_run_read_back_is_written_as_the_same_text() {
        let (report, text) = written();
        let back = read_run_json(&text).expect("a run");
        assert_eq!(run_json(&back).expect("expressible"), text);
        assert_eq!(run_markdown(&back), run_markdown(&report));
        assert_eq!(back.latency, report.latency);
        assert_eq!(back.scenarios, report.scenarios);
        assert!(back.latency.n_updates() > 0 && text.contains("invalid"));
    }

    #[test]
    fn a_figure_that_is_not_finite_is_told_again_as_what_failed() {
        let (mut report, _) = written();
        let first = report.results[0].outcome.as_mut().expect("a drive");
        first.jerk_rms = f64::NAN;
        let report = RunReport::of_drives("a", "b", report.results);
        let text = run_json(&report).expect("expressible");
        let back = read_run_json(&text).expect("a run");
        let told = |of: &RunReport| of.results[0].outcome.as_ref().unwrap_err().to_string();
        assert!(told(&report).contains("jerk_rms") && told(&report).contains("NaN"));
        assert_eq!(told(&back), told(&report));
        assert_eq!(run_json(&back).expect("expressible"), text);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (report, text) = written();
        let steps = format!("\"n_agent_steps\": {}", report.n_agent_steps);
        let n_updates = format!("\"n_updates\": {}", report.latency.n_updates());
        for (from, to, want) in [
            ("\"n_drives\": 16", "\"n_drives\": 17", "there are 16"),
            (&*steps, "\"n_agent_steps\": 5", "n_agent_steps is 5"),
            (&*n_updates, "\"n_updates\": 1", "another number"),
            ("\"family\": \"bends\"", "\"colour\": 1", "colour"),
            (
                "\"error\": null",
                "\"error\": \"x\"",
                "both metrics and an error",
            ),
            (
                "\"distance_m\":",
                "\"distance\": 1, \"distance_m\":",
                "`distance`",
            ),
            ("\"wall_s\":", "\"walls\":", "walls"),
            ("\"seed\": ", "\"seed\": -", "line"),
            (
                "spark-sim-run/1",
                "spark-sim-run/2",
                "`spark-sim-run/1` is read",
            ),
            ("\"schema\": \"spark-sim-run/1\",", "", "schema"),
        ] {
            assert!(text.contains(from), "{from}");
            let other = text.replacen(from, to, 1);
            let told = read_run_json(&other).expect_err(to).to_string();
            assert!(told.contains(want), "{told}");
        }
        assert!(read_run_json("").is_err() && read_run_json("[]").is_err());
    }
}
