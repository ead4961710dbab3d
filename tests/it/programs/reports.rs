//! Every report of the program against its schema.
//!
//! ```text
//! sparkpilot … --json ──> report ──schema──> docs/schemas/NAME.json
//! help of each command: a --json says which schema, which has a file; each file has a report here
//! ```

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::files::{open_model, small_model};
use super::matrix::{leaves, sparkpilot};
use super::{Folder, schema};

/// A report on stdout, held against the schema that it names.
#[track_caller]
fn report(args: &[&str], codes: &[i32]) -> Value {
    let outcome = sparkpilot(args).run();
    let is_expected = outcome.code.is_some_and(|code| codes.contains(&code));
    assert!(
        is_expected,
        "{args:?}: {:?} {}",
        outcome.code, outcome.stderr
    );
    let report = serde_json::from_str(&outcome.stdout);
    let report = report.unwrap_or_else(|error| panic!("{args:?}: {error} in {}", outcome.stdout));
    schema::check(&report);
    report
}

/// A report in a file, held against the schema that it names.
#[track_caller]
fn in_file(path: &std::path::Path) -> Value {
    let report = fs::read(path).expect("it was written");
    let report = serde_json::from_slice(&report).expect("JSON");
    schema::check(&report);
    report
}

#[test]
fn every_report_is_as_its_schema_says() {
    let folder = Folder::new();
    let text = |name: &str| folder.path(name).to_string_lossy().into_owned();
    let model = &*small_model(&folder).to_string_lossy().into_owned();
    let open = &*open_model(&folder).to_string_lossy().into_owned();
    let (golden, record, out) = (
        &*text("golden.safetensors"),
        &*text("record.txt"),
        &*text("out"),
    );
    let mut all = vec![
        report(&["info", "--json"], &[0]),
        report(&["doctor", "--json"], &[0]),
        report(&["doctor", "--load", "1s", "--json"], &[0, 4]),
        report(&["doctor", "--hardware", "--json"], &[0, 1]),
        report(&["doctor", "--verify", "--json"], &[0]),
        report(&["monitor", "--status", "--form", "json"], &[0]),
        report(&["inspect", model, "--json"], &[0]),
        report(&["inspect", open, "--json"], &[0]),
        report(&["run", model, "--json"], &[0]),
        report(&["run", open, "--json"], &[0]),
        report(&["zoo", "--json"], &[0]),
        report(&["sim", "list", "--json"], &[0]),
        report(&["quantize", model, "--json", "-"], &[0]),
    ];
    assert_eq!(
        sparkpilot(&["cluster", "record", record]).run().code,
        Some(0)
    );
    all.push(report(
        &["cluster", "doctor", record, "this", "--json"],
        &[0],
    ));
    let bench = [
        "bench",
        "--model",
        model,
        "--runs",
        "2",
        "--warmup",
        "0",
        "--dump-outputs",
        golden,
    ];
    all.push(report(&[&bench[..], &["--json", "-"]].concat(), &[0]));
    let more = [
        "--precision",
        "fp32,bf16,fp8,int8",
        "--explain",
        "--profile",
        "--compare",
        golden,
        "--mix",
        "40",
    ];
    let bench = [
        "bench", "--model", model, "--runs", "2", "--warmup", "0", "--json", "-",
    ];
    let refused = report(&[&bench[..], &more].concat(), &[1]);
    assert!(!refused["refused"].as_array().expect("a list").is_empty());
    assert!(refused["peaks"].is_object() && refused["runs"][1]["accuracy"].is_object());
    all.push(refused);
    all.push(report(
        &["compare", model, "--against", golden, "--json"],
        &[0],
    ));
    let drive = ["--suite", "beyond-the-car", "--controller", "perfect"];
    all.push(report(
        &[&["sim", "run", "--json", "-"], &drive[..]].concat(),
        &[0, 1],
    ));
    all.push(report(
        &[&["sim", "bench", "--runs", "1", "--json", "-"], &drive[..]].concat(),
        &[0, 1],
    ));
    let search = [
        "sim",
        "search",
        "--vary",
        "speed=5..30",
        "--population",
        "5",
        "--rounds",
        "2",
        "--json",
        "-",
    ];
    let meets = ["--suite", "ncap-braking", "--controller", "perfect"];
    all.push(report(&[&search[..], &meets].concat(), &[0, 1]));
    let both = ["sim", "compare", "--suite", "ncap-braking", "--folder", out];
    for pair in [
        ["perfect", "nothing"],
        ["perfect", "perfect"],
        ["nothing", "careful"],
    ] {
        let pair = ["--baseline", pair[0], "--candidate", pair[1]];
        let outcome = sparkpilot(&[&both[..], &pair].concat()).run();
        assert!(
            outcome.code.is_some_and(|code| code < 2),
            "{}",
            outcome.stderr
        );
        all.push(in_file(&folder.path("out").join("report.json")));
    }
    if let Some(drives) = spark_testing::test_data("data/drive") {
        all.push(report(&["logs", &drives.to_string_lossy(), "--json"], &[0]));
    }
    let named = all
        .iter()
        .map(|report| report["schema"].as_str().expect("a name").to_owned());
    let mut named: BTreeSet<String> = named.collect();
    // Held against their files where networks are trained, where adapters are, where machines are in trouble, and where the
    // reference data are.
    let elsewhere = [
        "sparkpilot-anomaly/1",
        "spark-finetune/2",
        "sparkpilot-adapter/1",
        "sparkpilot-adapter-diff/2",
    ];
    named.extend(elsewhere.map(str::to_owned));
    named.insert("spark-data/drives/1".to_owned());
    let files: BTreeSet<String> = schema::names().into_iter().collect();
    assert_eq!(
        files, named,
        "each schema has a report here, and each report a schema"
    );
}

#[test]
fn every_json_says_in_its_help_which_schema_it_has() {
    let mut told = BTreeSet::new();
    for leaf in leaves() {
        let words: Vec<&str> = leaf.split(' ').chain(["--help"]).collect();
        let help = sparkpilot(&words).run().stdout;
        // As one line, whatever its width.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for option in ["--json ", "report.json "] {
            let Some((_, behind)) = help.split_once(option) else {
                continue;
            };
            if option == "--json "
                && !help.contains("--json <FILE>")
                && !help.contains(" --json Print")
            {
                continue;
            }
            let name = behind
                .split_once("(schema ")
                .and_then(|(_, behind)| behind.split_once(')'));
            let (name, _) =
                name.unwrap_or_else(|| panic!("{leaf}: {option}names no schema: {help}"));
            assert!(
                schema::file_of(name).is_file(),
                "{leaf}: {name} has no file"
            );
            told.insert(name.to_owned());
        }
        // Of another option, or of lines.
        let others = help.split("schema ").skip(1);
        let names = others.filter_map(|behind| behind.split([')', ',']).next());
        for name in names.filter(|name| name.starts_with("spark")) {
            assert!(
                schema::file_of(name).is_file(),
                "{leaf}: {name} has no file"
            );
            told.insert(name.to_owned());
        }
    }
    let files: BTreeSet<String> = schema::names().into_iter().collect();
    let missing: Vec<&String> = files.difference(&told).collect();
    let is_of_training =
        |name: &&&String| name.as_str() == "spark-finetune/2" && cfg!(not(feature = "train"));
    assert!(
        missing.iter().all(|name| is_of_training(&name)),
        "no help names {missing:?}"
    );
}
