//! `cargo xtask ci`: every check of a commit, timed, stopping at the first failure.
//!
//! ```text
//! fmt           rustfmt finds nothing to change
//! clippy        no warning in any target, with every feature and with none
//! test          the README's test command
//! doc           rustdoc, no warning
//! tidy          what compilers cannot check
//! cuda          the CUDA path on the stand-in driver
//! kernels       every kernel through NVIDIA's compiler; needs PyPI the first time
//! sanitize      spark-mem under address and thread sanitisers
//! aarch64       tests of Arm's vector code under qemu; left out, and said so, without it
//! test-release  the suite again as users build it: optimised, without debug assertions;
//!               with every feature
//! example       the main example on the zoo and, with SPARK_TEST_DATA, on the real models,
//!               whose outputs must agree with their goldens
//! ```
//!
//! `test-release` and `example` share one release build, which keeps a cold run short.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::aarch64;
use crate::bench::supercombo::{self, Effort};
use crate::command::{self, cargo};
use crate::error::Error;
use crate::kernels;
use crate::sanitize;
use crate::tidy;
use crate::workspace::Workspace;

/// The one step that a machine may be unable to run.
const AARCH64: &str = "aarch64";

struct Step {
    name: &'static str,
    run: fn(&Workspace) -> Result<(), Error>,
}

const STEPS: [Step; 11] = [
    Step {
        name: "fmt",
        run: fmt,
    },
    Step {
        name: "clippy",
        run: clippy,
    },
    Step {
        name: "test",
        run: test,
    },
    Step {
        name: "doc",
        run: doc,
    },
    Step {
        name: "tidy",
        run: |workspace| tidy::run(workspace, false),
    },
    Step {
        name: "cuda",
        run: cuda,
    },
    Step {
        name: "kernels",
        run: kernels::run,
    },
    Step {
        name: "sanitize",
        run: sanitize::run,
    },
    Step {
        name: AARCH64,
        run: aarch64::run,
    },
    Step {
        name: "test-release",
        run: test_release,
    },
    Step {
        name: "example",
        run: example,
    },
];

/// A few runs show that the example works; the benchmark measures it.
const FEW: Effort = Effort {
    n_runs: 3,
    n_warm_up: 1,
};

/// Runs every step whose name is not in `skipped`.
///
/// # Errors
///
/// [`Error::Usage`] for an unknown name; [`Error::Step`] naming the first step that failed.
pub(crate) fn run(workspace: &Workspace, skipped: &[String]) -> Result<(), Error> {
    let is_step = |name: &String| STEPS.iter().any(|step| step.name == name);
    if let Some(unknown) = skipped.iter().find(|name| !is_step(name)) {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        return Err(Error::Usage(format!(
            "no step `{unknown}`; there are {}",
            names.join(", ")
        )));
    }
    let mut summary = Summary::default();
    for step in &STEPS {
        if skipped.iter().any(|name| name == step.name) {
            summary.lines.push(format!("{:12}  skipped", step.name));
            continue;
        }
        println!("== {}", step.name);
        if step.name == AARCH64
            && let Some(what) = aarch64::missing()
        {
            println!("left out: {what}");
            let line = format!("{:12}  left out: {what}", step.name);
            summary.lines.push(line);
            continue;
        }
        let started = Instant::now();
        let result = (step.run)(workspace);
        summary.add(step.name, started.elapsed(), result.is_ok());
        if let Err(cause) = result {
            println!("{}", summary.text());
            return Err(Error::Step {
                name: step.name,
                cause: Box::new(cause),
            });
        }
    }
    println!("{}", summary.text());
    Ok(())
}

/// What is printed at the end.
#[derive(Default)]
struct Summary {
    lines: Vec<String>,
    total: Duration,
}

impl Summary {
    fn add(&mut self, name: &str, duration: Duration, is_ok: bool) {
        let outcome = if is_ok { "ok" } else { "FAILED" };
        self.lines.push(format!(
            "{name:12}  {:7.1} s  {outcome}",
            duration.as_secs_f64()
        ));
        self.total += duration;
    }

    fn text(&self) -> String {
        format!(
            "\n{}\n{:12}  {:7.1} s",
            self.lines.join("\n"),
            "total",
            self.total.as_secs_f64()
        )
    }
}

fn fmt(workspace: &Workspace) -> Result<(), Error> {
    command::run(cargo(&["fmt", "--all", "--check"]).current_dir(&workspace.root))
}

fn clippy(workspace: &Workspace) -> Result<(), Error> {
    let deny = ["--", "-D", "warnings"];
    let mut all = cargo(&["clippy", "--workspace", "--all-targets", "--all-features"]);
    command::run(all.args(deny).current_dir(&workspace.root))?;
    for package in workspace
        .packages
        .iter()
        .filter(|package| package.has_default_features)
    {
        let mut bare = cargo(&["clippy", "-p", &package.name, "--no-default-features"]);
        command::run(bare.args(deny).current_dir(&workspace.root))?;
    }
    Ok(())
}

fn test(workspace: &Workspace) -> Result<(), Error> {
    command::test(workspace, &[])
}

/// The default features leave the CUDA path and candle out; debug assertions are on here.
fn cuda(workspace: &Workspace) -> Result<(), Error> {
    for (package, features) in [
        ("spark-mem", "cuda,candle"),
        ("spark-quant", "cuda"),
        ("spark-sim", "cuda,model"),
    ] {
        let mut test = cargo(&["test", "-p", package, "--features", features]);
        let counts = command::run_tests(test.current_dir(&workspace.root))?;
        println!("{package}: {counts}");
    }
    Ok(())
}

fn doc(workspace: &Workspace) -> Result<(), Error> {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--all-features"]);
    command::run(
        doc.env("RUSTDOCFLAGS", "-D warnings")
            .current_dir(&workspace.root),
    )
}

/// The release profile turns debug assertions and overflow checks off. Doc tests are left
/// out: each is a program of its own, and `test` has run them.
fn test_release(workspace: &Workspace) -> Result<(), Error> {
    let mut test = cargo(&[
        "test",
        "--release",
        "--workspace",
        "--all-features",
        "--tests",
    ]);
    let counts = command::run_tests(test.current_dir(&workspace.root))?;
    println!("{counts}");
    Ok(())
}

fn example(workspace: &Workspace) -> Result<(), Error> {
    supercombo::zoo(workspace, FEW, None)?;
    let Some(data) = std::env::var_os("SPARK_TEST_DATA") else {
        println!("SPARK_TEST_DATA is not set: the real models are left out");
        return Ok(());
    };
    for real in supercombo::real_models(Path::new(&data))? {
        let model = real
            .model
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let bound = golden_bound(&model);
        for case in supercombo::against_golden(workspace, &real, FEW, None)? {
            // Written "inside or fail", so that a NaN fails.
            if !case.golden_max_rel.is_some_and(|got| got <= bound) {
                return Err(Error::Golden {
                    model: case.name,
                    got: case.golden_max_rel,
                    bound,
                });
            }
        }
    }
    Ok(())
}

/// Largest error relative to the output's largest value: f32 arithmetic, or fp16 weights.
fn golden_bound(model: &str) -> f64 {
    if model.ends_with("_fp16") { 1e-3 } else { 1e-4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_what_failed() {
        let mut summary = Summary::default();
        summary.add("fmt", Duration::from_millis(1500), true);
        summary.add("clippy", Duration::from_secs(2), false);
        let text = summary.text();
        assert!(text.contains("fmt               1.5 s  ok"), "{text}");
        assert!(
            text.contains("FAILED") && text.ends_with("total             3.5 s"),
            "{text}"
        );
    }

    #[test]
    fn help_names_every_step() {
        for step in &STEPS {
            assert!(crate::args::HELP.contains(step.name), "{}", step.name);
        }
    }

    #[test]
    fn fp16_weights_have_a_wider_bound() {
        assert!(golden_bound("supercombo_0_7_4_random_fp16") > golden_bound("dmonitoring_0_8_9"));
    }
}
