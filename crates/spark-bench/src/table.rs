//! The report as text: a table, then what the table cannot say.
//!
//! ```text
//! model           prec  device  load  first   mean    p50  ...  per s    RSS  ...      error
//! driving_vision  fp32  cpu     35.2   40.1  21.30  21.25  ...   46.9  301.0  ...  reference
//! ```
//!
//! Plain characters, no colours, so that it reads the same in a file. `n/a` means that
//! there is nothing to report: no GPU, or a figure the system does not tell.

use spark_drawing::{Align, Table};

use crate::report::{BenchReport, LatencyReport, MemoryReport, Refusal, RunReport};
use crate::{layers, profile, report};

/// Columns of words, aligned left.
const WORDS: [&str; 3] = ["model", "prec", "device"];
/// Columns of numbers, aligned right.
#[rustfmt::skip]
const NUMBERS: [&str; 15] = [
    "load", "first", "mean", "p50", "p95", "p99", "min", "max", "per s", "RSS", "arena", "weights",
    "GPU %", "GPU", "error",
];

/// `report` as lines of text, without a final line break.
pub fn render(report: &BenchReport) -> String {
    let words = WORDS.map(|heading| (heading, Align::Left));
    let numbers = NUMBERS.map(|heading| (heading, Align::Right));
    let mut table = Table::new(words.into_iter().chain(numbers));
    for run in &report.runs {
        table.row(run_row(run));
    }
    for combined in &report.combined_all {
        let name = [
            "vision + policy".to_owned(),
            combined.precision.to_owned(),
            combined.device.clone(),
        ];
        let load = [String::new(), String::new()];
        let (latency, memory) = (&combined.latency, &combined.memory);
        table.row(row(name, load, latency, memory, None, String::new()));
    }
    let mut lines = vec![heading(report)];
    if !report.runs.is_empty() {
        lines.extend(table.lines());
    }
    lines.extend(goldens(report));
    lines.extend(accuracies(report));
    lines.extend(steps(report));
    lines.extend(refusals("refused", &report.refused));
    lines.extend(refusals("failed", &report.failed));
    if report.settings.explain {
        lines.extend(layers::explained(report));
    }
    lines.extend(profile::rendered(report));
    if !report.combined_all.is_empty() {
        let text = "vision + policy: one step as openpilot chains them, with frame, feature and \
                    desire history and parsing of the outputs";
        lines.push(text.to_owned());
    }
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    lines.join("\n")
}

fn heading(report: &BenchReport) -> String {
    let machine = &report.machine;
    let settings = &report.settings;
    format!(
        "{} {}, {}, {} usable cores\n{} timed runs after {} to warm up; times in ms, memory in MB (10^6 bytes)",
        machine.os,
        machine.arch,
        machine.summary,
        machine.usable_cores,
        settings.runs,
        settings.warmup
    )
}

fn run_row(run: &RunReport) -> [String; 18] {
    let name = [
        run.model.clone(),
        run.precision.to_owned(),
        run.device.clone(),
    ];
    let load = [fixed(run.load_ms), fixed(run.first_ms)];
    let error = match &run.accuracy {
        Some(accuracy) => scientific(accuracy.max_rel),
        None if run.precision == "fp32" => "reference".to_owned(),
        None => "n/a".to_owned(),
    };
    row(
        name,
        load,
        &run.latency,
        &run.memory,
        run.gpu_utilisation_percent,
        error,
    )
}

fn row(
    [model, precision, device]: [String; 3],
    [load, first]: [String; 2],
    latency: &LatencyReport,
    memory: &MemoryReport,
    gpu_percent: Option<f64>,
    error: String,
) -> [String; 18] {
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "n/a".to_owned());
    [
        model,
        precision,
        device,
        load,
        first,
        fixed(latency.mean_ms),
        fixed(latency.p50_ms),
        fixed(latency.p95_ms),
        fixed(latency.p99_ms),
        fixed(latency.min_ms),
        fixed(latency.max_ms),
        format!("{:.1}", latency.throughput_per_s),
        or_none(memory.rss_bytes.map(megabytes)),
        megabytes(memory.arena_bytes),
        megabytes(memory.weight_bytes),
        or_none(gpu_percent.map(|percent| format!("{percent:.0}"))),
        or_none(memory.device_bytes.map(megabytes)),
        error,
    ]
}

/// Three digits that mean something: milliseconds from microseconds to minutes.
fn fixed(milliseconds: f64) -> String {
    let decimals = match milliseconds {
        v if v < 10.0 => 3,
        v if v < 100.0 => 2,
        _ => 1,
    };
    format!("{milliseconds:.decimals$}")
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

fn scientific(value: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else {
        format!("{value:.1e}")
    }
}

fn goldens(report: &BenchReport) -> impl Iterator<Item = String> {
    report.runs.iter().filter_map(|run| {
        let golden = run.golden.as_ref()?;
        Some(format!(
            "golden: {} {}: {} cases, largest error {} absolute, {} of its output's scale",
            run.model,
            run.precision,
            golden.cases,
            scientific(golden.max_abs),
            scientific(golden.max_rel)
        ))
    })
}

fn accuracies(report: &BenchReport) -> impl Iterator<Item = String> {
    report.runs.iter().filter_map(|run| {
        let accuracy = run.accuracy.as_ref()?;
        Some(format!(
            "accuracy: {} {} against {}: largest error {} absolute, {} of its output's scale, \
             cosine {:.6}, signal to error {:.1} dB",
            run.model,
            run.precision,
            accuracy.reference,
            scientific(accuracy.max_abs),
            scientific(accuracy.max_rel),
            accuracy.cosine,
            accuracy.sqnr_db
        ))
    })
}

/// One line per precision and reason, with all models it holds for.
fn refusals(word: &str, refusals: &[Refusal]) -> Vec<String> {
    let groups = report::grouped(refusals).into_iter();
    groups
        .map(|(precision, reason, models)| format!("{word}: {precision}: {reason} ({models})"))
        .collect()
}

fn steps(report: &BenchReport) -> impl Iterator<Item = String> {
    report
        .runs
        .iter()
        .filter(|run| !run.steps.is_empty())
        .map(|run| {
            let parts: Vec<String> = run
                .steps
                .iter()
                .map(|(what, n)| format!("{n} on {what}"))
                .collect();
            format!(
                "steps: {} {}: {}, {} threads",
                run.model,
                run.precision,
                parts.join(", "),
                run.threads
            )
        })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::*;

    fn latency() -> LatencyReport {
        LatencyReport {
            mean_ms: 21.3,
            p50_ms: 21.25,
            p95_ms: 22.0,
            p99_ms: 120.04,
            min_ms: 0.5,
            max_ms: 130.0,
            throughput_per_s: 46.9,
        }
    }

    fn report() -> BenchReport {
        let memory = MemoryReport {
            rss_bytes: Some(301_000_000),
            peak_rss_bytes: Some(302_000_000),
            arena_bytes: 2_500_000,
            weight_bytes: 93_000_000,
            device_bytes: None,
        };
        let run = RunReport {
            model: "driving_vision".to_owned(),
            weights: "random",
            precision: "fp32",
            device: "cpu".to_owned(),
            threads: 2,
            load_ms: 35.2,
            first_ms: 40.1,
            latency: latency(),
            memory,
            gpu_utilisation_percent: None,
            accuracy: None,
            golden: Some(GoldenReport {
                cases: 3,
                max_abs: 1e-6,
                max_rel: 2.5e-7,
                non_finite: 0,
            }),
            steps: BTreeMap::from([("cpu in fp32".to_owned(), 120)]),
            samples_ms: Vec::new(),
            slices: Vec::new(),
            layers: Vec::new(),
            non_finite_outputs: 0,
        };
        let combined = CombinedReport {
            models: vec!["driving_vision".to_owned(), "driving_policy".to_owned()],
            weights: "random",
            precision: "fp32",
            device: "cpu".to_owned(),
            threads: 2,
            latency: latency(),
            memory,
        };
        BenchReport {
            schema: SCHEMA,
            machine: MachineReport {
                os: "linux",
                arch: "x86_64",
                summary: "plain PC".to_owned(),
                usable_cores: 2,
            },
            settings: SettingsReport {
                runs: 100,
                warmup: 20,
                seed: 0,
                explain: false,
            },
            peaks: None,
            runs: vec![run],
            refused: ["driving_vision", "driving_policy"]
                .map(|model| Refusal {
                    model: model.to_owned(),
                    precision: "fp8",
                    reason: "not built".to_owned(),
                })
                .to_vec(),
            failed: Vec::new(),
            unwritten: Vec::new(),
            combined: Some(combined.clone()),
            combined_all: vec![combined],
            driving: Vec::new(),
            notes: vec!["weights are random".to_owned()],
        }
    }

    #[test]
    fn columns_line_up_and_fit_a_wide_terminal() {
        let text = render(&report());
        let lines: Vec<&str> = text.lines().collect();
        let end_of = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        assert_eq!(end_of(lines[2], "p99"), end_of(lines[3], "120.0"));
        assert_eq!(end_of(lines[2], "weights"), end_of(lines[3], "93.0"));
        assert!(
            lines[2..5].iter().all(|line| line.chars().count() <= 145),
            "{text}"
        );
    }

    #[test]
    fn what_does_not_fit_the_table_follows_it() {
        let text = render(&report());
        for want in [
            "golden: driving_vision fp32: 3 cases, largest error 1.0e-6 absolute, 2.5e-7 of its output's scale",
            "refused: fp8: not built (driving_vision, driving_policy)",
            "steps: driving_vision fp32: 120 on cpu in fp32, 2 threads",
            "note: weights are random",
            "vision + policy",
        ] {
            assert!(text.contains(want), "{want}\n{text}");
        }
    }

    #[test]
    fn the_json_has_the_fields_of_its_schema() {
        let json = serde_json::to_value(report()).expect("plain data");
        assert_eq!(json["schema"], "spark-bench/1");
        let run = &json["runs"][0];
        for field in [
            "model",
            "weights",
            "precision",
            "device",
            "threads",
            "load_ms",
            "first_ms",
            "mean_ms",
            "p50_ms",
            "p95_ms",
            "p99_ms",
            "min_ms",
            "max_ms",
            "throughput_per_s",
            "memory",
            "gpu_utilisation_percent",
            "accuracy",
            "golden",
        ] {
            assert!(run.get(field).is_some(), "{field}");
        }
        assert!(run["gpu_utilisation_percent"].is_null() && run["accuracy"].is_null());
        assert_eq!(run["memory"]["arena_bytes"], 2_500_000);
        assert_eq!(run["golden"]["cases"], 3);
        assert_eq!(json["combined"]["p50_ms"], 21.25);
        assert_eq!(json["refused"][0]["precision"], "fp8");
    }
}
