//! Ranks that are not of one mind say so, all of them, and write nothing.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Output;

use crate::process::{Material, mpirun, run, texts};

#[track_caller]
fn refused(material: &Material, output: &Output, run: &str, what: &[&str]) {
    let (out, err) = texts(output);
    assert!(!output.status.success(), "{out}\n{err}");
    for what in what {
        assert!(err.contains(what), "`{what}` in\n{err}");
    }
    assert!(!material.path(run).join("run.json").exists());
}

/// The options with another value of one of them.
fn with(options: &[OsString], name: &str, value: PathBuf) -> Vec<OsString> {
    let at = options.iter().position(|word| word == name);
    let mut others = options.to_vec();
    others[at.expect("an option") + 1] = value.into();
    others
}

/// Two ranks of different options.
fn mixed(one: &[OsString], other: &[OsString]) -> Output {
    let output = mpirun(&[(1, one), (1, other)]).output();
    output.expect("mpirun is there")
}

#[test]
fn other_options_are_refused_by_every_rank() {
    let material = Material::new();
    let [one, other] = ["0.001", "0.002"].map(|rate| material.train("run", &["--lr", rate]));
    let output = mixed(&one, &other);
    let said = [
        "rank 0 is here, rank 1 there, and their runs are not the same (lr: 0.001 here, 0.002 there)",
        "rank 1 is here, rank 0 there, and their runs are not the same (lr: 0.002 here, 0.001 there)",
    ];
    refused(&material, &output, "run", &said);
}

#[test]
fn other_frames_are_refused_even_if_they_are_as_many() {
    let material = Material::new();
    let other = material.frames("other.safetensors", 40, 11);
    let options = material.train("run", &[]);
    let others = with(&options, "--data", other);
    let output = mixed(&options, &others);
    refused(
        &material,
        &output,
        "run",
        &["frames: ", "frames held back: "],
    );
}

#[test]
fn one_fast_sum_is_no_agreement() {
    let material = Material::new();
    let (options, fast) = (
        material.train("run", &[]),
        material.train("run", &["--fast-sum"]),
    );
    let output = mixed(&options, &fast);
    let said = ["sum of gradients: InOrder here, Fast there"];
    refused(&material, &output, "run", &said);
}

#[test]
fn ranks_that_cannot_share_out_a_step_are_wrong_usage() {
    let material = Material::new();
    let output = run(3, &material.train("run", &[]));
    let said = ["--virtual-shards: 3 ranks cannot share out the 8 batches of a step evenly"];
    refused(&material, &output, "run", &said);
    assert_eq!(output.status.code(), Some(2));
    let output = run(2, &material.train("run", &["--virtual-shards", "3"]));
    let said = ["the 8 frames of a step (--batch-size) do not make 3 parts of one size"];
    refused(&material, &output, "run", &said);
}

#[test]
fn ranks_told_to_do_different_things_say_so() {
    let material = Material::new();
    let (train, resume) = (material.train("run", &[]), material.resume("run"));
    let output = mixed(&train, &resume);
    let said = [
        "rank 0: this rank was told to train, rank 1 to resume",
        "rank 1: this rank was told to resume, rank 0 to train",
    ];
    refused(&material, &output, "run", &said);
}

#[test]
fn errors_have_the_exit_codes_of_the_main_program_and_name_their_rank() {
    let material = Material::new();
    let options = material.train("run", &[]);
    let others = with(&options, "--model", material.path("nowhere.onnx"));
    let output = run(1, &others);
    refused(&material, &output, "run", &["nowhere.onnx"]);
    assert_eq!(output.status.code(), Some(5));
    let output = mixed(&options, &others);
    refused(
        &material,
        &output,
        "run",
        &["error: rank 1: ", "nowhere.onnx"],
    );
    assert_eq!(output.status.code(), Some(5));
    let few = material.frames("few.safetensors", 3, 10);
    let others = with(&options, "--data", few);
    let output = mixed(&options, &others);
    refused(&material, &output, "run", &["error: rank 1: of 3 frames"]);
}

#[test]
fn a_precision_that_has_no_effect_is_told_of_once() {
    let material = Material::new();
    let mut command = mpirun(&[(2, &material.train("run", &["--epochs", "1"]))]);
    let output = command.env("OPENPILOT_DGX_PRECISION", "int8").output();
    let (_, err) = texts(&output.expect("mpirun is there"));
    let warned = "OPENPILOT_DGX_PRECISION=int8 has no effect here";
    assert_eq!(err.matches(warned).count(), 1, "{err}");
}

#[test]
fn the_mpirun_of_another_mpi_is_noticed() {
    let material = Material::new();
    // What MPICH's sets, of which Open MPI's library knows nothing.
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_sparkpilot-mpi"))
        .args(material.train("run", &[]))
        .envs([("PMI_RANK", "1"), ("PMI_SIZE", "2")])
        .output();
    let output = output.expect("starts");
    let said = ["2 processes were started, and MPI knows of 1"];
    refused(&material, &output, "run", &said);
}
