//! What the libraries log reaches stderr, once, as `DEBUG` asks, and never stdout.

use super::{Outcome, Program};

/// A program that is quick and uses no setting itself.
fn quick() -> Program {
    Program::new("marl_random").args(["1"])
}

#[track_caller]
fn lines_with<'a>(outcome: &'a Outcome, words: &str) -> Vec<&'a str> {
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(!outcome.stdout.contains(words), "{}", outcome.stdout);
    let lines = outcome.stderr.lines();
    lines.filter(|line| line.contains(words)).collect()
}

#[test]
fn without_anything_to_say_stderr_is_empty() {
    let outcome = quick().run();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
}

#[test]
fn an_invalid_value_of_any_variable_is_a_warning_that_names_the_default() {
    for declaration in sparkpilot::hal::config::DECLARATIONS {
        let name = declaration.name;
        let outcome = quick().env(name, "no-such-value").run();
        let lines = lines_with(&outcome, name);
        assert_eq!(lines.len(), 1, "{name}: {}", outcome.stderr);
        let line = lines[0];
        assert!(line.starts_with(&format!("warning: {name}=")), "{line}");
        assert!(line.contains("using the default: "), "{line}");
        assert!(!line.contains('\x1b'), "colours in a file: {line}");
    }
}

#[test]
fn several_invalid_values_are_told_one_by_one() {
    let outcome = quick()
        .env("DEBUG", "9")
        .env("CUDA", "yes")
        .env("SPARK_DEVICE", "tpu")
        .run();
    assert_eq!(
        lines_with(&outcome, "warning: ").len(),
        3,
        "{}",
        outcome.stderr
    );
}

#[test]
fn fp4_is_said_to_be_experimental_under_either_name() {
    for name in ["fp4", "nvfp4", "NVFP4"] {
        let outcome = quick().env("OPENPILOT_DGX_PRECISION", name).run();
        let lines = lines_with(&outcome, "experimental");
        assert_eq!(lines.len(), 1, "{}", outcome.stderr);
        assert!(lines[0].starts_with("warning: "), "{}", lines[0]);
    }
    let outcome = quick().env("OPENPILOT_DGX_PRECISION", "bf16").run();
    assert_eq!(outcome.stderr, "");
}

#[test]
fn the_first_explicit_copy_on_a_device_is_a_warning() {
    // An emulated card where there is no GPU; a real one, whose copies are the same, where there is.
    let outcome = Program::new("explicit_copy").run();
    let lines = lines_with(&outcome, "are copied for an access of the host");
    assert_eq!(lines.len(), 1, "one for all buffers: {}", outcome.stderr);
    assert!(
        lines[0].starts_with("warning: performance: "),
        "{}",
        lines[0]
    );
}

#[test]
fn the_reason_to_use_the_cpu_is_information() {
    let share = |debug: &str| {
        Program::new("zero_copy")
            .env("CUDA", "0")
            .env("DEBUG", debug)
            .run()
    };
    assert_eq!(share("0").stderr, "");
    for debug in ["1", "2", "3"] {
        let outcome = share(debug);
        let lines = lines_with(&outcome, "switched off by CUDA=0");
        assert_eq!(lines.len(), 1, "{}", outcome.stderr);
        assert!(lines[0].starts_with("info: "), "{}", lines[0]);
        // From 2 on a line names its module.
        assert_eq!(
            lines[0].contains("spark_mem::device"),
            debug != "1",
            "{}",
            lines[0]
        );
    }
    let bench = Program::new("detect")
        .env("CUDA", "0")
        .env("DEBUG", "1")
        .run();
    assert_eq!(
        lines_with(&bench, "work runs on the CPU: ").len(),
        1,
        "{}",
        bench.stderr
    );
}

#[test]
fn simulations_say_once_why_they_run_on_the_cpu() {
    let folder = super::Folder::new();
    let out = folder.path("out").to_string_lossy().into_owned();
    let args = ["20", &out];
    let outcome = Program::new("simulate_batch")
        .args(args)
        .env("CUDA", "0")
        .env("DEBUG", "1")
        .run();
    let lines = lines_with(&outcome, "scenarios run on the CPU: ");
    assert_eq!(lines.len(), 1, "{}", outcome.stderr);
}

#[test]
fn the_switches_of_spark_features_are_told_and_the_rollback_wins() {
    let debug = || quick().env("DEBUG", "1");
    let off = debug().env("OPENPILOT_DGX_ENABLED", "0").run();
    assert_eq!(
        lines_with(&off, "info: OPENPILOT_DGX_ENABLED=0").len(),
        1,
        "{}",
        off.stderr
    );
    let both = debug()
        .env("OPENPILOT_DGX_ENABLED", "1")
        .env("OPENPILOT_DISABLE_DGX", "1")
        .run();
    assert_eq!(
        lines_with(&both, "info: OPENPILOT_DISABLE_DGX=1").len(),
        1,
        "{}",
        both.stderr
    );
    assert_eq!(lines_with(&debug().run(), "DGX").len(), 0);
}

#[test]
fn a_device_that_is_not_there_is_an_error_that_says_why() {
    let outcome = Program::new("zero_copy")
        .env("SPARK_DEVICE", "cuda:99")
        .run();
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.starts_with("error: "), "{}", outcome.stderr);
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
}

/// Those that open devices say what is wrong with this one, the others that they use none;
/// `bench_supercombo` has a row for each model that was not run.
#[test]
fn every_program_that_works_refuses_a_device_that_it_cannot_have() {
    let bench = quick().env("SPARK_DEVICE", "cuda:99").run();
    assert_eq!(bench.code, Some(1), "{}", bench.stderr);
    let said = bench.stdout + &bench.stderr;
    assert!(said.contains("CPU only"), "{said}");

    let others = ["detect", "doctor", "gpu_monitor", "bench_supercombo"];
    for name in super::programs().filter(|name| !others.contains(name)) {
        for device in ["cuda:99", "cuda"] {
            // Without CUDA no machine has it; the two settings contradict each other.
            let args = match name {
                "merge_adapter" => ["--exchange", "made_up"].as_slice(),
                "calibrate_model" => &["net.onnx", "--batches", "frames.safetensors"],
                "finetune" => &["eval", "--output", "run"],
                _ => &[],
            };
            let program = Program::new(name).args(args).env("CUDA", "0");
            let outcome = program.env("SPARK_DEVICE", device).run();
            let context = format!("{name}, {device}: {}", outcome.stderr);
            assert_eq!(outcome.code, Some(1), "{context}");
            assert!(outcome.stderr.starts_with("error: "), "{context}");
            assert_eq!(outcome.stderr.lines().count(), 1, "{context}");
            assert_eq!(
                (outcome.stdout.as_str(), outcome.files.len()),
                ("", 0),
                "{context}"
            );
        }
    }
}

#[test]
fn a_program_for_the_cpu_says_so_where_a_gpu_is_asked_for() {
    let outcome = Program::new("marl_random")
        .args(["1"])
        .env("SPARK_DEVICE", "cuda:7")
        .run();
    let why = "error: SPARK_DEVICE=cuda:7 cannot be had: this program works on the CPU only\n";
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), why));
    let on_the_cpu = |device: &str| {
        let program = Program::new("marl_random").args(["1"]);
        program.env("SPARK_DEVICE", device).run()
    };
    for device in ["cpu", "auto"] {
        assert_eq!(on_the_cpu(device).code, Some(0), "{device}");
    }
    for name in ["detect", "doctor"] {
        let outcome = Program::new(name).env("SPARK_DEVICE", "cuda:7").run();
        assert_eq!(outcome.code, Some(0), "{name}: {}", outcome.stderr);
    }
}

#[test]
fn cuda_that_is_required_and_not_there_ends_programs_but_not_the_doctor() {
    if sparkpilot::hal::is_nvidia_available() {
        eprintln!("skipped: this machine has CUDA");
        return;
    }
    let outcome = quick().env("CUDA", "1").run();
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome.stderr.starts_with("error: CUDA=1 requires CUDA: "),
        "{}",
        outcome.stderr
    );
    assert_eq!(
        (outcome.stderr.lines().count(), outcome.stdout.as_str()),
        (1, "")
    );
    let doctor = Program::new("doctor").env("CUDA", "1").run();
    assert_eq!(doctor.code, Some(0), "{}", doctor.stderr);
}
