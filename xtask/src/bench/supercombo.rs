//! The main example as a benchmark: how it is started, and reading its JSON.
//!
//! ```text
//! zoo                       with one thread and with all
//! $SPARK_TEST_DATA/data/models/*.onnx    the same, each against its golden
//! case name                 supercombo/<model>/<precision>/<device>/t<threads>
//! ```
//!
//! The JSON is the example's schema `spark-bench/1`. A field that this reads and that is
//! missing is an error: a record with holes would look like a measurement.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::options::{Choice, FAMILY, Options};
use super::record::Case;
use super::targets;
use crate::build_and_test;
use crate::command;
use crate::error::Error;
use crate::workspace::Workspace;

const EXAMPLE: &str = "bench_supercombo";

/// How often the example runs each model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) n_runs: u32,
    pub(crate) n_warm_up: u32,
    pub(crate) build: Build,
}

/// Which build of the example is run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Build {
    /// As people start it.
    AsPeopleDo,
    /// As optimised tests are built.
    OfOptimisedTests,
}

const FULL: Effort = Effort {
    n_runs: 100,
    n_warm_up: 20,
    build: Build::AsPeopleDo,
};
const QUICK: Effort = Effort {
    n_runs: 10,
    n_warm_up: 2,
    build: Build::AsPeopleDo,
};

/// A real model and the outputs it must give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RealModel {
    pub(crate) model: PathBuf,
    pub(crate) golden: PathBuf,
}

/// Runs the example as often as the options ask for.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<Vec<Case>, Error> {
    if matches!(
        options.choice(FAMILY, &targets::names(workspace)),
        Choice::Nothing
    ) {
        return Ok(Vec::new());
    }
    let effort = if options.quick { QUICK } else { FULL };
    let n_processors = std::thread::available_parallelism().map_or(1, usize::from);
    let thread_counts = if n_processors == 1 {
        vec![1]
    } else {
        vec![1, n_processors]
    };
    let real_models = match std::env::var_os("SPARK_TEST_DATA").filter(|data| !data.is_empty()) {
        Some(data) => real_models(Path::new(&data))?,
        None => {
            println!("SPARK_TEST_DATA is not set: the real models are left out");
            Vec::new()
        }
    };
    let mut cases = Vec::new();
    for n_threads in thread_counts {
        cases.extend(zoo(workspace, effort, Some(n_threads))?);
        for real in &real_models {
            cases.extend(against_golden(workspace, real, effort, Some(n_threads))?);
        }
    }
    Ok(cases)
}

/// Every model below the reference data that has a golden, sorted.
pub(crate) fn real_models(data: &Path) -> Result<Vec<RealModel>, Error> {
    let folder = data.join("data/models");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(Error::io("list", &folder))? {
        let model = entry.map_err(Error::io("list", &folder))?.path();
        let stem = model.file_stem().unwrap_or_default();
        let mut golden = folder.join("goldens").join(stem).into_os_string();
        golden.push(".safetensors");
        let golden = PathBuf::from(golden);
        if model
            .extension()
            .is_some_and(|extension| extension == "onnx")
            && golden.is_file()
        {
            found.push(RealModel { model, golden });
        }
    }
    found.sort_by(|a, b| a.model.cmp(&b.model));
    Ok(found)
}

/// The zoo's models and the combined step.
pub(crate) fn zoo(
    workspace: &Workspace,
    effort: Effort,
    n_threads: Option<usize>,
) -> Result<Vec<Case>, Error> {
    example(workspace, effort, n_threads, &[])
}

/// A real model, its outputs compared with the golden.
pub(crate) fn against_golden(
    workspace: &Workspace,
    real: &RealModel,
    effort: Effort,
    n_threads: Option<usize>,
) -> Result<Vec<Case>, Error> {
    let words = [
        "--model".as_ref(),
        real.model.as_os_str(),
        "--compare".as_ref(),
        real.golden.as_os_str(),
    ];
    example(workspace, effort, n_threads, &words)
}

fn example(
    workspace: &Workspace,
    effort: Effort,
    n_threads: Option<usize>,
    words: &[&std::ffi::OsStr],
) -> Result<Vec<Case>, Error> {
    let folder = workspace.target.join("xtask-bench");
    std::fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    let json = folder.join("supercombo.json");
    match std::fs::remove_file(&json) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io("remove", &json)(error));
        }
        _ => {}
    }
    let mut run: Command = match effort.build {
        Build::AsPeopleDo => command::cargo(&["run", "--release", "--example", EXAMPLE, "--"]),
        Build::OfOptimisedTests => {
            let mut build = command::cargo(&["build", "--workspace", "--example", EXAMPLE]);
            command::run(build_and_test::optimised(&mut build, workspace))?;
            let folder = workspace.target.join(build_and_test::OPTIMISED);
            Command::new(folder.join("examples").join(EXAMPLE))
        }
    };
    run.current_dir(&workspace.root)
        .arg("--runs")
        .arg(effort.n_runs.to_string());
    run.arg("--warmup").arg(effort.n_warm_up.to_string());
    if let Some(n_threads) = n_threads {
        run.arg("--threads").arg(n_threads.to_string());
    }
    run.args(words).arg("--json").arg(&json);
    println!("== {}", command::shown(&run));
    command::run(&mut run)?;
    let text = std::fs::read_to_string(&json).map_err(Error::io("read", &json))?;
    parse(&text)
}

/// Reads a document of schema `spark-bench/1`.
fn parse(text: &str) -> Result<Vec<Case>, Error> {
    let json: Value = serde_json::from_str(text).map_err(|source| Error::Json {
        what: format!("the output of {EXAMPLE}"),
        source,
    })?;
    if json["schema"] != "spark-bench/1" {
        return Err(broken("schema"));
    }
    let n_runs = json["settings"]["runs"]
        .as_u64()
        .ok_or_else(|| broken("settings.runs"))?;
    let runs = json["runs"].as_array().filter(|runs| !runs.is_empty());
    let runs = runs.ok_or_else(|| broken("runs"))?;
    let mut cases = Vec::new();
    for run in runs {
        cases.push(case(run, &text_of(run, "model")?, n_runs)?);
    }
    if json["combined"].is_object() {
        cases.push(case(&json["combined"], "combined", n_runs)?);
    }
    Ok(cases)
}

fn case(run: &Value, model: &str, n_runs: u64) -> Result<Case, Error> {
    let number = |field: &str| run[field].as_f64().ok_or_else(|| broken(field));
    let (precision, device) = (text_of(run, "precision")?, text_of(run, "device")?);
    let threads = run["threads"].as_u64().ok_or_else(|| broken("threads"))?;
    // Spaces, commas and slashes would read as something else in a case's name.
    let plain = |text: &str| text.replace([' ', ',', '/'], "_");
    Ok(Case {
        name: format!(
            "{FAMILY}/{}/{}/{}/t{threads}",
            plain(model),
            plain(&precision),
            plain(&device)
        ),
        n_runs,
        unit: "ms".to_owned(),
        min: number("min_ms")?,
        median: number("p50_ms")?,
        p95: Some(number("p95_ms")?),
        max: number("max_ms")?,
        load_ms: run["load_ms"].as_f64(),
        weight_bytes: run["memory"]["weight_bytes"].as_u64(),
        arena_bytes: run["memory"]["arena_bytes"].as_u64(),
        golden_max_rel: run["golden"]["max_rel"].as_f64(),
    })
}

fn text_of(run: &Value, field: &str) -> Result<String, Error> {
    run[field]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| broken(field))
}

fn broken(field: &str) -> Error {
    Error::Shape {
        what: format!("the output of {EXAMPLE}"),
        field: field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document() -> Value {
        json!({
            "schema": "spark-bench/1",
            "settings": {"runs": 100, "warmup": 20, "seed": 0},
            "runs": [{
                "model": "dmonitoring 0.8.9", "weights": "file", "precision": "fp32",
                "device": "cpu", "threads": 2, "load_ms": 40.0, "p50_ms": 3.5, "p95_ms": 4.0,
                "min_ms": 3.0, "max_ms": 9.0,
                "memory": {"arena_bytes": 10, "weight_bytes": 20},
                "golden": {"cases": 3, "max_abs": 1e-6, "max_rel": 3e-7},
            }],
            "combined": null,
        })
    }

    #[test]
    fn a_run_becomes_a_case() {
        let cases = parse(&document().to_string()).unwrap();
        assert_eq!(cases.len(), 1);
        assert_eq!(cases[0].name, "supercombo/dmonitoring_0.8.9/fp32/cpu/t2");
        assert_eq!((cases[0].n_runs, cases[0].weight_bytes), (100, Some(20)));
        assert_eq!(cases[0].golden_max_rel, Some(3e-7));
    }

    #[test]
    fn the_combined_step_is_a_case() {
        let mut document = document();
        document["combined"] = document["runs"][0].clone();
        let cases = parse(&document.to_string()).unwrap();
        assert_eq!(cases[1].name, "supercombo/combined/fp32/cpu/t2");
    }

    #[test]
    fn holes_are_errors() {
        for field in ["model", "precision", "p50_ms", "threads"] {
            let mut document = document();
            document["runs"][0][field] = Value::Null;
            assert!(parse(&document.to_string()).is_err(), "{field}");
        }
        assert!(parse(r#"{"schema": "spark-bench/2", "runs": []}"#).is_err());
        assert!(parse("{}").is_err());
        let mut refused = document();
        refused["runs"] = json!([]);
        assert!(parse(&refused.to_string()).is_err());
    }

    #[test]
    fn models_without_a_golden_are_left_out() {
        let data = std::env::temp_dir().join(format!("spark-onnxs-{}", std::process::id()));
        let models = data.join("data/models");
        std::fs::create_dir_all(models.join("goldens")).unwrap();
        for name in [
            "b.onnx",
            "a.onnx",
            "c.onnx",
            "notes.md",
            "goldens/a.safetensors",
            "goldens/b.safetensors",
        ] {
            std::fs::write(models.join(name), "").unwrap();
        }
        let found = real_models(&data).unwrap();
        std::fs::remove_dir_all(&data).unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|real| real.model.file_name().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["a.onnx", "b.onnx"]);
    }
}
