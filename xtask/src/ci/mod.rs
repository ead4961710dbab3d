//! `cargo xtask ci`: every check of a commit, timed, stopping at the first failure.
//!
//! ```text
//! first row, its output as it comes
//! fmt             rustfmt finds nothing to change
//! test            the README's test command
//! tidy            what compilers cannot check
//! onnx-suite      the ONNX project's tests, every one with its listed outcome; needs PyPI the first time
//! test-optimised  with every feature, and what computes as users have it, optimised and without debug assertions: integration
//!                 tests of what computes and of the program; the CUDA paths on the stand-in driver, kernels as PTX. All else is
//!                 what `test` has built
//! example         the main example on the zoo and, with SPARK_TEST_DATA, on the real models,
//!                 whose outputs must agree with their goldens
//! dist            the program that `test-optimised` built, packed as a release is; terms and sources of every crate
//! book            every command on the pages, what they say that it prints, the book and its links; needs crates.io the first time
//!
//! second row, beside the first; its output, when it has ended
//! clippy          no warning in any target with every feature, nor in a library with the default ones and with none
//! doc             rustdoc, no warning
//! mpi             the program for training in several processes, built with this machine's Open MPI, on 1 to 8 real ranks
//! sanitize        memory, kernels and threads under address and thread sanitisers, the CUDA paths among them
//! fuzz            every fuzz target builds and runs for a second
//! kernels         every kernel through NVIDIA's compiler, for the architectures that programs are made for first; needs PyPI too
//! aarch64         tests of Arm's vector code under qemu
//! units           unit tests of some crates and tests in documentation as `test-optimised` has the others: beside `book`, which
//!                 has one processor busy
//! ```
//!
//! Compilers and tests alone leave a third of two cores idle. The second row begins when `test` has ended, which may be all that
//! somebody waits for; with `CI` set nobody waits, and it begins at once. It builds in folders of its own, but for its last
//! step: cargo lets one of two builds in a folder wait for the other, and the first row builds most of the time.
//! `onnx-suite` runs what `test` has built, `example`, `dist` and `book` what `test-optimised` has.
//!
//! A machine may lack what a step needs: an emulator, a component of rustup, the reference data.
//! For a person that part is left out, and the summary says so. With `CI` set it fails the step:
//! a check that nobody sees is no check.

mod beside;
mod summary;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use beside::Beside;
use summary::Summary;

use crate::aarch64;
use crate::bench::supercombo::{self, Build, Effort};
use crate::book;
use crate::build_and_test;
use crate::command::{self, cargo, is_set};
use crate::dist;
use crate::error::{Error, LeftOut};
use crate::fuzz;
use crate::kernels;
use crate::mpi;
use crate::onnx_suite;
use crate::sanitize;
use crate::tidy;
use crate::workspace::Workspace;

enum Run {
    /// All of it, on every machine.
    Whole(fn(&Workspace) -> Result<(), Error>),
    /// What this machine can run.
    Possible(fn(&Workspace) -> Result<LeftOut, Error>),
}

impl Run {
    fn run(&self, workspace: &Workspace) -> Result<LeftOut, Error> {
        match self {
            Self::Whole(run) => run(workspace).map(|()| LeftOut::new()),
            Self::Possible(run) => run(workspace),
        }
    }
}

struct Step {
    name: &'static str,
    run: Run,
}

/// One after the other.
const FIRST_ROW: [Step; 8] = [
    Step {
        name: "fmt",
        run: Run::Whole(fmt),
    },
    Step {
        name: "test",
        run: Run::Whole(test),
    },
    Step {
        name: "tidy",
        run: Run::Whole(|workspace| tidy::run(workspace, false)),
    },
    Step {
        name: "onnx-suite",
        run: Run::Whole(onnx_suite::run_after_test),
    },
    Step {
        name: "test-optimised",
        run: Run::Whole(test_optimised),
    },
    Step {
        name: "example",
        run: Run::Possible(example),
    },
    Step {
        name: "dist",
        run: Run::Possible(dist::quick_if_possible),
    },
    Step {
        name: "book",
        run: Run::Possible(book::run_after_optimised_tests),
    },
];

/// The step behind which the second row begins, where somebody may wait for it; the first one elsewhere.
const BEFORE_SECOND_ROW: &str = "test";

/// One after the other, beside the first row: about as much work.
const SECOND_ROW: [Step; 8] = [
    Step {
        name: "clippy",
        run: Run::Whole(clippy),
    },
    Step {
        name: "doc",
        run: Run::Whole(doc),
    },
    Step {
        name: "mpi",
        run: Run::Possible(mpi::run_if_possible),
    },
    Step {
        name: "sanitize",
        run: Run::Possible(sanitize::run),
    },
    Step {
        name: "fuzz",
        run: Run::Possible(fuzz::run_if_possible),
    },
    Step {
        name: "kernels",
        run: Run::Whole(kernels::run_for_ends),
    },
    Step {
        name: "aarch64",
        run: Run::Possible(aarch64::run_if_possible),
    },
    Step {
        name: "units",
        run: Run::Whole(units_optimised),
    },
];

/// A few runs show that the example works; the benchmark measures it.
const FEW: Effort = Effort {
    n_runs: 3,
    n_warm_up: 1,
    build: Build::OfOptimisedTests,
};

/// Which steps are asked for.
#[derive(Default)]
pub(crate) struct Asked {
    /// Names of steps that are left out.
    pub(crate) skipped: Vec<String>,
    /// This process is the second row of another one.
    pub(crate) is_beside: bool,
}

/// Runs every step that is asked for.
///
/// # Errors
///
/// [`Error::Usage`] for an unknown name; [`Error::Step`] naming the first step that failed.
pub(crate) fn run(workspace: &Workspace, asked: &Asked) -> Result<(), Error> {
    let names = || FIRST_ROW.iter().chain(&SECOND_ROW).map(|step| step.name);
    let is_step = |name: &String| names().any(|step| step == name);
    if let Some(unknown) = asked.skipped.iter().find(|name| !is_step(name)) {
        let names: Vec<&str> = names().collect();
        return Err(Error::Usage(format!(
            "no step `{unknown}`; there are {}",
            names.join(", ")
        )));
    }
    // With these the kernels that ship would not be run, and their wrong twins not be tried.
    let of_stand_in = ["SPARK_STAND_IN_KERNELS", "SPARK_STAND_IN_SANITIZE"];
    if let Some(name) = of_stand_in.into_iter().find(|name| is_set(name)) {
        return Err(Error::Usage(format!(
            "{name} is set: the tests would run other kernels than those that ship"
        )));
    }
    let mut summary = Summary::default();
    if asked.is_beside {
        beside::end_with_parent();
        return row(&SECOND_ROW, workspace, asked, &mut summary, &mut || Ok(()));
    }
    let of_second = SECOND_ROW.iter().map(|step| step.name);
    let wanted: Vec<&str> = of_second
        .filter(|name| !asked.skipped.iter().any(|skipped| skipped == name))
        .collect();
    let mut second = None;
    row(&FIRST_ROW, workspace, asked, &mut summary, &mut || {
        if second.is_none() && !wanted.is_empty() {
            second = Some(Beside::start(workspace, &asked.skipped, &wanted)?);
        }
        // What has failed beside is told at the end of the step that runs, not of all.
        second.as_mut().map_or(Ok(()), Beside::failure)
    })?;
    second.map_or(Ok(()), Beside::finish)
}

/// Runs what is wanted of a row; `between` is called after [`BEFORE_SECOND_ROW`] (with `CI` set after the first step) and each later one.
fn row(
    steps: &[Step],
    workspace: &Workspace,
    asked: &Asked,
    summary: &mut Summary,
    between: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let is_automatic = is_set("CI");
    let mut is_behind = false;
    for step in steps {
        if asked.skipped.iter().any(|name| name == step.name) {
            summary.skip(step.name);
        } else {
            println!("== {}", step.name);
            let started = Instant::now();
            let result = judged(step.run.run(workspace), is_automatic);
            summary.add(step.name, started.elapsed(), &result);
            if let Err(cause) = result {
                println!("{}", summary.text());
                return Err(Error::Step {
                    name: step.name,
                    cause: Box::new(cause),
                });
            }
        }
        is_behind |= is_automatic || step.name == BEFORE_SECOND_ROW;
        if is_behind {
            between()?;
        }
    }
    println!("{}", summary.text());
    Ok(())
}

/// What was left out is an error where nobody looks at the summary.
fn judged(result: Result<LeftOut, Error>, is_automatic: bool) -> Result<LeftOut, Error> {
    match result {
        Ok(left_out) if is_automatic && !left_out.is_empty() => Err(Error::LeftOut(left_out)),
        result => result,
    }
}

fn fmt(workspace: &Workspace) -> Result<(), Error> {
    command::run(cargo(&["fmt", "--all", "--check"]).current_dir(&workspace.root))
}

/// Cargo, building where `clippy` and `doc` do: both look at dependencies without compiling them.
fn checking(workspace: &Workspace, args: &[&str]) -> Command {
    let mut check = cargo(args);
    check.env("CARGO_TARGET_DIR", workspace.target.join("check"));
    check.current_dir(&workspace.root);
    check
}

fn clippy(workspace: &Workspace) -> Result<(), Error> {
    let deny = ["--", "-D", "warnings"];
    let whole = ["clippy", "--workspace", "--all-targets", "--all-features"];
    command::run(checking(workspace, &whole).args(deny))?;
    // As most build it: what only a feature uses is unused then.
    command::run(checking(workspace, &["clippy", "--workspace"]).args(deny))?;
    for package in workspace
        .packages
        .iter()
        .filter(|package| package.has_default_features)
    {
        let bare = ["clippy", "-p", &package.name, "--no-default-features"];
        command::run(checking(workspace, &bare).args(deny))?;
    }
    Ok(())
}

fn test(workspace: &Workspace) -> Result<(), Error> {
    build_and_test::test(workspace, &[])
}

fn doc(workspace: &Workspace) -> Result<(), Error> {
    let whole = ["doc", "--workspace", "--no-deps", "--all-features"];
    command::run(checking(workspace, &whole).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Crates whose unit tests are run optimised too, for features that the plain tests lack. For the unit tests of each other crate
/// it would be compiled once more.
const OPTIMISED_UNITS: [&str; 4] = ["spark-mem", "spark-onnx", "spark-sim", "sparkpilot"];

/// Crates whose integration tests are not run once more: they read files and words, or `test` has them optimised, and no feature
/// adds to what it has run.
const READING: [&str; 5] = [
    "xtask",
    "spark-bench",
    "spark-data",
    "spark-hal",
    "spark-ptx",
];

/// Crates with documentation behind a feature, whose tests `test` has not run, and the facade, on whose dependencies cargo takes
/// the features of all.
const FEATURED_DOCUMENTATION: [&str; 6] = [
    "spark-mem",
    "spark-quant",
    "spark-onnx",
    "spark-sim",
    "spark-train",
    "sparkpilot",
];

/// Tests start the examples, which `cargo test --examples` would build as tests of their own.
fn test_optimised(workspace: &Workspace) -> Result<(), Error> {
    // Kernels run as what NVIDIA's compiler makes of them.
    kernels::Toolchain::get(&workspace.target.join("kernels"))?;
    let mut build = cargo(&["build", "--workspace", "--examples"]);
    command::run(build_and_test::optimised(&mut build, workspace))?;
    mpi::main_program_has_none(workspace)?;
    let mut whole = cargo(&["test", "--workspace", "--test", "*"]);
    whole.args(READING.iter().flat_map(|name| ["--exclude", name]));
    let counts = command::run_tests(build_and_test::optimised(&mut whole, workspace))?;
    println!("{counts}");
    Ok(())
}

/// Other doc tests are left out: `test` has run them.
fn units_optimised(workspace: &Workspace) -> Result<(), Error> {
    kernels::Toolchain::get(&workspace.target.join("kernels"))?;
    let mut units = cargo(&["test", "--lib", "--bin", "sparkpilot"]);
    // `--all-features` speaks of the named members alone: those beneath would be built again with fewer.
    units.arg("--features").arg(workspace.features().join(","));
    units.args(OPTIMISED_UNITS.iter().flat_map(|name| ["-p", name]));
    let mut documentation = cargo(&["test", "--doc"]);
    documentation.args(FEATURED_DOCUMENTATION.iter().flat_map(|name| ["-p", name]));
    documentation
        .arg("--features")
        .arg(workspace.features().join(","));
    for test in [&mut units, &mut documentation] {
        let counts = command::run_tests(build_and_test::optimised(test, workspace))?;
        println!("{counts}");
    }
    Ok(())
}

fn example(workspace: &Workspace) -> Result<LeftOut, Error> {
    supercombo::zoo(workspace, FEW, None)?;
    let Some(data) = std::env::var_os("SPARK_TEST_DATA").filter(|data| !data.is_empty()) else {
        return Ok(vec![
            "the real models: SPARK_TEST_DATA is not set".to_owned(),
        ]);
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
    Ok(LeftOut::new())
}

/// Largest error relative to the output's largest value: f32 arithmetic, or fp16 weights.
fn golden_bound(model: &str) -> f64 {
    if model.ends_with("_fp16") { 1e-3 } else { 1e-4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_lacks_fails_the_automatic_check() {
        let lacking = || Ok(vec!["threads: no rust-src".to_owned()]);
        let Err(Error::LeftOut(what)) = judged(lacking(), true) else {
            panic!("a step that was not run passes");
        };
        assert_eq!(what, ["threads: no rust-src"]);
        assert!(judged(lacking(), false).is_ok());
        assert!(judged(Ok(LeftOut::new()), true).is_ok());
    }

    #[test]
    fn help_names_every_step() {
        for step in FIRST_ROW.iter().chain(&SECOND_ROW) {
            assert!(crate::args::HELP.contains(step.name), "{}", step.name);
        }
    }

    #[test]
    fn fp16_weights_have_a_wider_bound() {
        assert!(golden_bound("supercombo_0_7_4_random_fp16") > golden_bound("dmonitoring_0_8_9"));
    }
}
