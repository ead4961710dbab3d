//! `calibrate_model`: a choice that `bench_supercombo` runs, and what does not fit is said before any work.

use std::path::{Path, PathBuf};

use serde_json::Value;
use sparkpilot::bench::{TensorMap, write_tensors};
use sparkpilot::onnx::graph::{Dim, Graph, MatMul, Op};
use sparkpilot::onnx::{DType, Tensor, file};

use super::{Folder, Outcome, Program};

const ROWS: usize = 64;
const DEPTH: usize = 32;

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 31 + seed * 17) % 97) as f32 / 97.0 - 0.5;
    (0..n).map(number).collect()
}

fn network(folder: &Folder) -> PathBuf {
    let mut graph = Graph::default();
    let shape = vec![Dim::Known(ROWS), Dim::Known(DEPTH)];
    let mut x = graph.add_input("x", DType::F32, shape);
    for layer in 0..2 {
        let w = Tensor::from_f32([DEPTH, DEPTH], numbers(DEPTH * DEPTH, layer)).expect("fits");
        let w = graph.add_constant(format!("w{layer}"), w);
        x = graph.add_node(
            format!("product{layer}"),
            Op::MatMul(MatMul),
            &[Some(x), Some(w)],
        );
    }
    graph.outputs.push(x);
    let path = folder.path("net.onnx");
    file::save(&graph, &path).expect("a writable folder");
    path
}

/// Inputs of `n` frames under `input`.
fn frames(folder: &Folder, name: &str, n: usize, input: &str) -> PathBuf {
    let frame = |seed| Tensor::from_f32([ROWS, DEPTH], numbers(ROWS * DEPTH, seed)).expect("fits");
    let tensors = (0..n).map(|case| (format!("case{case}/in/{input}"), frame(3 * case + 5)));
    let path = folder.path(name);
    write_tensors(&path, &tensors.collect::<TensorMap>()).expect("a writable folder");
    path
}

fn calibrate(model: &Path, batches: &Path, args: &[&str]) -> Outcome {
    let program = Program::new("calibrate_model").args([model, Path::new("--batches"), batches]);
    program.args(args).run()
}

#[test]
fn what_it_chose_runs_in_the_benchmark() {
    let folder = Folder::new();
    let (model, batches) = (
        network(&folder),
        frames(&folder, "frames.safetensors", 8, "x"),
    );
    let (chosen, json, plot) = (
        folder.path("chosen.safetensors"),
        folder.path("report.json"),
        folder.path("layers.svg"),
    );
    let shown = |path: &PathBuf| path.display().to_string();
    for wanted in [&["--precision", "fp4"][..], &["--mix", "20"]] {
        let files = [
            "--output",
            &shown(&chosen),
            "--json",
            &shown(&json),
            "--plot",
            &shown(&plot),
        ];
        let outcome = calibrate(&model, &batches, &[wanted, &files].concat());
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let text = &outcome.stdout;
        assert!(
            text.contains("calibrated on 4 batches, judged on 4 held back"),
            "{text}"
        );
        let report = std::fs::read_to_string(&json).expect("written");
        let report: Value = serde_json::from_str(&report).expect("JSON");
        let db = |run: &str| report[run]["total_sqnr_db"].as_f64();
        assert_eq!(db("fp32"), None, "no error, no ratio");
        let (before, after) = (db("uncalibrated"), db("calibrated"));
        assert!(
            after > Some(12.0) && after >= before,
            "{before:?} {after:?}"
        );
        let drawing = std::fs::read_to_string(&plot).expect("written");
        assert!(drawing.contains("product0 fp"), "{drawing}");

        let bench = Program::new("bench_supercombo")
            .args([
                Path::new("--model"),
                &model,
                Path::new("--calibration"),
                &chosen,
            ])
            .args(["--runs", "2", "--warmup", "0", "--explain"])
            .run();
        assert_eq!(bench.code, Some(0), "{}", bench.stderr);
        assert!(bench.stdout.contains("as calibrated"), "{}", bench.stdout);
    }
}

#[test]
fn a_network_of_integers_is_a_file_that_the_benchmark_runs() {
    let folder = Folder::new();
    let (model, batches) = (
        network(&folder),
        frames(&folder, "frames.safetensors", 8, "x"),
    );
    let [written, json, plot] =
        ["net.int8.onnx", "report.json", "layers.svg"].map(|name| folder.path(name));
    let [written_to, json_to, plot_to] =
        [&written, &json, &plot].map(|path| path.display().to_string());
    let files = [
        "--output",
        &written_to,
        "--json",
        &json_to,
        "--plot",
        &plot_to,
    ];
    let outcome = calibrate(
        &model,
        &batches,
        &[&["--precision", "int8"][..], &files].concat(),
    );
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let text = &outcome.stdout;
    assert!(
        text.contains("in fp32: product1: its result is an output"),
        "{text}"
    );
    assert!(!text.contains("without"), "{text}");
    let report = std::fs::read_to_string(&json).expect("written");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["uncalibrated"], Value::Null);
    assert_eq!(report["left_alone"], serde_json::json!(["product1"]));
    assert_eq!(report["layers"][0]["precision"], "int8");
    assert!(
        report["calibrated"]["total_sqnr_db"].as_f64() > Some(30.0),
        "{report}"
    );
    let drawing = std::fs::read_to_string(&plot).expect("written");
    assert!(drawing.contains("product0 int8"), "{drawing}");

    let bench = |args: &[&Path]| {
        let program = Program::new("bench_supercombo").args(args.iter());
        program
            .args(["--runs", "2", "--warmup", "0", "--explain"])
            .run()
    };
    let of_file = bench(&[Path::new("--model"), &written]);
    assert_eq!(of_file.code, Some(0), "{}", of_file.stderr);
    let text = &of_file.stdout;
    assert!(text.contains("product0  int8_linear"), "{text}");
    assert!(text.contains("cpu in int8 ("), "{text}");
    let note = "1 of its products are of 8-bit integers in the file, and so in every precision";
    assert!(text.contains(note), "{text}");
    let int8 = Path::new("--precision=int8");
    let of_file = bench(&[Path::new("--model"), &written, int8]);
    assert_eq!(of_file.code, Some(0), "{}", of_file.stderr);
    assert!(!of_file.stdout.contains(note), "{}", of_file.stdout);

    // The same products by a calibration, and none without.
    let chosen = folder.path("chosen.safetensors");
    let chosen_to = chosen.display().to_string();
    let args = ["--precision", "int8", "--output", &chosen_to];
    let outcome = calibrate(&model, &batches, &args);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let with = [
        Path::new("--model"),
        &model,
        Path::new("--calibration"),
        &chosen,
    ];
    let calibrated = bench(&with);
    assert_eq!(calibrated.code, Some(0), "{}", calibrated.stderr);
    let text = &calibrated.stdout;
    assert!(text.contains("layers of net in calibrated:"), "{text}");
    assert!(text.contains("as calibrated"), "{text}");
    let page = folder.path("page.html");
    let more = ["--precision=fp32,int8", "--html"].map(Path::new);
    let asked = bench(&[&with[..], &more, &[&page]].concat());
    assert_eq!(asked.code, Some(0), "{}", asked.stderr);
    let text = &asked.stdout;
    assert!(text.contains("accuracy: net int8 against fp32"), "{text}");
    assert!(text.contains("product0  int8_linear"), "{text}");
    assert!(!text.contains("net in calibrated"), "{text}");
    let page = std::fs::read_to_string(&page).expect("written");
    assert!(page.contains("<td class=\"l\">int8</td>"), "{page}");
    let without = bench(&[Path::new("--model"), &model, int8]);
    assert_eq!(without.code, Some(1), "{}", without.stdout);
    assert!(
        without.stderr.contains("int8") && without.stderr.contains("calibrate_model"),
        "{}",
        without.stderr
    );
    let environment = Program::new("bench_supercombo")
        .args([Path::new("--model"), &model])
        .env("OPENPILOT_DGX_PRECISION", "int8")
        .run();
    assert_eq!(environment.code, Some(1), "{}", environment.stdout);
    assert!(
        environment.stderr.contains("--calibration"),
        "{}",
        environment.stderr
    );
}

#[test]
fn what_does_not_fit_is_said_in_a_sentence_and_leaves_no_file() {
    let folder = Folder::new();
    let model = network(&folder);
    let (four, one) = (
        frames(&folder, "four.safetensors", 4, "x"),
        frames(&folder, "one.safetensors", 1, "x"),
    );
    let other = frames(&folder, "other.safetensors", 4, "y");
    let shown = four.display().to_string();
    for (batches, args, code, words) in [
        (&one, &[][..], 2, "one case cannot both calibrate and judge"),
        (&other, &[], 1, "case 0 has no input `x`"),
        (&folder.path("absent"), &[], 1, "absent"),
        (&four, &["--percentile", "99"], 2, "--scales percentile"),
        (&four, &["--mix=-3"], 2, "--mix"),
        (
            &four,
            &["--mix", "20", "--precision", "fp4"],
            2,
            "--precision",
        ),
        (&four, &["--output", &shown], 2, "four.safetensors"),
        (&four, &["--held-back", &shown], 2, "cannot judge"),
        (
            &four,
            &["--output", "chosen.onnx"],
            2,
            "its file is .safetensors",
        ),
        (
            &four,
            &["--precision", "int8", "--exact-activations"],
            2,
            "--exact-activations",
        ),
    ] {
        let outcome = calibrate(&model, batches, args);
        assert_eq!(outcome.code, Some(code), "{args:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(words),
            "{args:?}: {}",
            outcome.stderr
        );
        assert!(
            outcome.stdout.is_empty() && outcome.files.is_empty(),
            "{args:?}"
        );
    }
}
