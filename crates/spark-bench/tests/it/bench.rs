//! The benchmark end to end, on small networks and on the real ones.

use std::path::{Path, PathBuf};

use spark_bench::{self as bench, BenchError, BenchOptions, BenchReport, Progress, TensorMap};
use spark_onnx::graph::{Binary, Dim, Graph, Op, Unary};
use spark_onnx::{DType, Precision, Tensor, file};
use spark_openpilot::zoo;

use spark_testing::test_data;

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("spark-it-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a writable folder");
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Left behind at worst.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `y = relu(x + [1, -2, 3])` on `[N, 3]`.
fn write_model(path: &Path) {
    let mut graph = Graph {
        name: "small".to_owned(),
        ..Graph::default()
    };
    let dims = vec![Dim::Symbol("N".to_owned()), Dim::Known(3)];
    let x = graph.add_input("x", DType::F32, dims.clone());
    let shift = Tensor::from_f32([3], vec![1.0, -2.0, 3.0]).expect("three");
    let shift = graph.add_constant("shift", shift);
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(x), Some(shift)]);
    let y = graph.add_node("y", Op::Unary(Unary::Relu), &[Some(sum)]);
    graph.values[y.0].dtype = Some(DType::F32);
    graph.values[y.0].shape = Some(dims);
    graph.outputs.push(y);
    file::save(&graph, path).expect("a writable folder");
}

fn row(values: [f32; 3]) -> Tensor {
    Tensor::from_f32([1, 3], values.to_vec()).expect("three")
}

fn options(model: &Path) -> BenchOptions {
    BenchOptions::default()
        .with_models([model.to_owned()])
        .with_runs(3)
        .with_warmup(1)
}

fn run(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    bench::run(options, &mut |_| {})
}

#[track_caller]
fn refused(options: &BenchOptions, exit_code: u8, words: &str) {
    let error = run(options).expect_err(words);
    let text = error.to_string();
    assert!(text.contains(words), "{text}");
    assert_eq!(error.exit_code(), exit_code, "{text}");
}

#[test]
fn a_small_model_is_measured_and_reported() {
    let folder = Folder::new("small");
    let model = folder.file("small.onnx");
    write_model(&model);
    let mut calls = Vec::new();
    let report = bench::run(&options(&model), &mut |progress: Progress<'_>| {
        calls.push((progress.label.to_owned(), progress.done, progress.total));
    })
    .expect("a sound model");
    assert_eq!(calls.first(), Some(&("small fp32".to_owned(), 1, 5)));
    assert_eq!(calls.last(), Some(&("small fp32".to_owned(), 5, 5)));
    let run = &report.runs[0];
    assert_eq!(
        (run.model.as_str(), run.weights, run.precision),
        ("small", "file", "fp32")
    );
    assert!(run.load_ms > 0.0 && run.first_ms > 0.0);
    assert!(run.latency.min_ms <= run.latency.p50_ms && run.latency.p50_ms <= run.latency.max_ms);
    assert!(run.memory.rss_bytes.is_none_or(|bytes| bytes > 1_000_000));
    assert!(run.memory.peak_rss_bytes >= run.memory.rss_bytes);
    assert!(report.combined.is_none());
    assert_eq!(
        report.notes,
        ["small: free axes of input `x` bound to 1: [1, 3]"]
    );
    let json = folder.file("report.json");
    bench::write_json(&report, &json).expect("a writable folder");
    let text = std::fs::read_to_string(&json).expect("own file");
    assert!(text.contains("\"schema\": \"spark-bench/1\""));
    assert!(bench::table::render(&report).contains("small"));
    let names: Vec<_> = std::fs::read_dir(&folder.0)
        .expect("own folder")
        .flatten()
        .collect();
    assert_eq!(names.len(), 2, "no temporary file stays behind: {names:?}");
}

#[test]
fn each_precision_is_measured_or_refused_with_a_reason() {
    let folder = Folder::new("precisions");
    let model = folder.file("small.onnx");
    write_model(&model);
    let mut options = options(&model);
    options.precisions = Precision::ALL.to_vec();
    let report = run(&options).expect("fp32 runs everywhere");
    assert_eq!(
        report.runs.len() + report.refused.len(),
        Precision::ALL.len()
    );
    let refused = report.refused.iter().map(|refusal| refusal.precision);
    assert!(refused.clone().any(|precision| precision == "int8"));
    assert_eq!(report.runs[0].precision, "fp32");
    assert!(
        report
            .refused
            .iter()
            .all(|refusal| !refusal.reason.is_empty())
    );
    assert!(report.runs[1..].iter().all(|run| run.accuracy.is_some()));
}

#[test]
fn dumped_outputs_are_right_and_serve_as_a_golden() {
    let folder = Folder::new("dump");
    let (model, inputs, dump) = (
        folder.file("small.onnx"),
        folder.file("in.safetensors"),
        folder.file("out.safetensors"),
    );
    write_model(&model);
    let given = TensorMap::from([("x".to_owned(), row([0.5, 0.5, -4.0]))]);
    bench::write_tensors(&inputs, &given).expect("a writable folder");
    let mut dumping = options(&model);
    dumping.inputs = Some(inputs);
    dumping.dump_outputs = Some(dump.clone());
    run(&dumping).expect("a sound model");
    let dumped = bench::read_tensors(&dump).expect("own file");
    assert_eq!(dumped["case0/in/x"], given["x"]);
    assert_eq!(dumped["case0/out/y"], row([1.5, 0.0, 0.0]));

    let mut comparing = options(&model);
    comparing.compare = Some(dump);
    let report = run(&comparing).expect("a golden of this model");
    let golden = report.runs[0].golden.expect("it was compared");
    assert_eq!(
        (golden.cases, golden.max_abs, golden.max_rel),
        (1, 0.0, 0.0)
    );
}

#[test]
fn a_file_that_cannot_be_written_after_all_takes_no_figure_away() {
    let folder = Folder::new("unwritten");
    let model = folder.file("small.onnx");
    write_model(&model);
    let inside = folder.file("inside");
    std::fs::create_dir(&inside).expect("a writable folder");
    let mut dumping = options(&model);
    dumping.dump_outputs = Some(inside.join("dump.safetensors"));
    // The folder goes while the model runs.
    let report = bench::run(&dumping, &mut |_| drop(std::fs::remove_dir_all(&inside)));
    let report = report.expect("the model ran");
    assert_eq!(report.runs.len(), 1);
    let [told] = &report.missing()[..] else {
        panic!("{:?}", report.missing());
    };
    assert!(told.contains("dump.safetensors"), "{told}");
    // Before that, it is told at once.
    let mut calls = 0;
    let error = bench::run(&dumping, &mut |_| calls += 1).expect_err("no folder");
    assert!(error.to_string().contains("dump.safetensors"), "{error}");
    assert_eq!(calls, 0);
}

#[test]
fn what_is_read_is_not_written_over() {
    let folder = Folder::new("clash");
    let (model, other) = (folder.file("small.onnx"), folder.file("other.onnx"));
    write_model(&model);
    write_model(&other);
    let link = folder.file("link");
    std::os::unix::fs::symlink(&model, &link).expect("a writable folder");
    let before = std::fs::read(&model).expect("own file");
    let place = Some(folder.file("t"));
    for (trace, dump, words) in [
        (Some(model.clone()), None, "is read"),
        (None, Some(model.clone()), "is read"),
        (None, Some(link), "is read"),
        (place.clone(), place, "is written too"),
    ] {
        let mut clashing = options(&model);
        (clashing.trace, clashing.dump_outputs) = (trace, dump);
        refused(&clashing, 2, words);
    }
    let mut clashing = options(&model);
    clashing.inputs = Some(other.clone());
    clashing.dump_outputs = Some(other);
    refused(&clashing, 2, "is read");
    assert_eq!(std::fs::read(&model).expect("own file"), before);
}

#[test]
fn the_double_reference_is_preferred_and_errors_are_measured() {
    let folder = Folder::new("golden");
    let (model, golden) = (folder.file("small.onnx"), folder.file("golden.safetensors"));
    write_model(&model);
    let half = Tensor::from_f64(DType::F16, [1, 3], vec![1.0, 4.0, 1.0]).expect("three");
    let double = Tensor::from_f64(DType::F64, [1, 3], vec![2.0, 2.0, 3.5]).expect("three");
    let tensors = TensorMap::from([
        ("case0/in/x".to_owned(), half),
        ("case0/out/y".to_owned(), row([9.0, 9.0, 9.0])),
        ("case0/out64/y".to_owned(), double),
    ]);
    bench::write_tensors(&golden, &tensors).expect("a writable folder");
    let mut options = options(&model);
    options.compare = Some(golden.clone());
    let report = run(&options).expect("a golden of this model");
    // The model gives 2, 2, 4: off by 0.5 in a tensor whose largest value is 3.5.
    let measured = report.runs[0].golden.expect("it was compared");
    assert_eq!(measured.max_abs, 0.5);
    assert!((measured.max_rel - 0.5 / 3.5).abs() < 1e-12);
    // The same as one case without a number.
    let plain = tensors.into_iter().map(|(name, tensor)| {
        let name = name.trim_start_matches("case0/").replace('/', ".");
        (name, tensor)
    });
    bench::write_tensors(&golden, &plain.collect()).expect("a writable folder");
    let report = run(&options).expect("a golden of this model");
    let plain = report.runs[0].golden.expect("it was compared");
    assert_eq!(
        (plain.max_abs, plain.max_rel),
        (measured.max_abs, measured.max_rel)
    );
}

#[test]
fn goldens_of_another_model_or_with_nan_are_refused() {
    let folder = Folder::new("misfits");
    let (model, golden) = (folder.file("small.onnx"), folder.file("golden.safetensors"));
    write_model(&model);
    let mut options = options(&model);
    options.compare = Some(golden.clone());
    let check = |tensors: &[(&str, Tensor)], words: &str| {
        let tensors = tensors
            .iter()
            .map(|(name, t)| ((*name).to_owned(), t.clone()))
            .collect();
        bench::write_tensors(&golden, &tensors).expect("a writable folder");
        refused(&options, 1, words);
    };
    let x = || ("case0/in/x", row([1.0; 3]));
    let y = || ("case0/out/y", row([2.0; 3]));
    check(&[("case0/in/img", row([1.0; 3])), y()], "has no input `x`");
    check(&[x()], "has no output `y`");
    check(&[x(), y(), ("case0/out/z", row([0.0; 3]))], "has `out/z`");
    check(
        &[x(), ("case0/out/y", row([f32::NAN, 0.0, 0.0]))],
        "1 values that are not finite",
    );
    check(
        &[("case0/in/x", row([f32::INFINITY; 3])), y()],
        "3 values that are not finite",
    );
    check(&[("x", row([0.0; 3]))], "is named neither caseN/in/...");
    check(&[("img.x", row([0.0; 3]))], "is named neither caseN/in/...");
    let both = [x(), ("in.x", row([0.0; 3])), y()];
    check(&both, "is there in both forms");
    check(&[("in.x", row([1.0; 3]))], "has no output `y`");
    check(&[], "holds no case");
    let wide = Tensor::from_f32([1, 4], vec![0.0; 4]).expect("four");
    check(&[x(), ("case0/out/y", wide)], "has shape [1, 4]");
    let bytes = Tensor::zeros(DType::U8, [1, 3]).expect("three");
    check(&[("case0/in/x", bytes), y()], "is u8, the model wants f32");
}

#[test]
fn vision_and_policy_are_also_measured_as_a_chain() {
    let folder = Folder::new("chain");
    let vision = ("driving_vision.onnx", zoo::driving_vision(0));
    for (name, mut graph) in [vision, ("driving_policy.onnx", zoo::driving_policy(0))] {
        graph.metadata.remove(zoo::WEIGHTS_KEY);
        file::save(&graph, &folder.file(name)).expect("a writable folder");
    }
    let options = BenchOptions::default()
        .with_models_dir(folder.0.clone())
        .with_precisions([Precision::Fp32])
        .with_runs(4)
        .with_warmup(1);
    let report = run(&options).expect("openpilot's interfaces");
    assert_eq!(report.runs.len(), 2);
    let combined = report.combined.as_ref().expect("both are there");
    assert_eq!(combined.models, ["driving_vision", "driving_policy"]);
    assert_eq!(combined.weights, "file");
    let alone: f64 = report.runs.iter().map(|run| run.latency.min_ms).sum();
    assert!(
        combined.latency.max_ms > 0.5 * alone,
        "the chain runs both networks"
    );
    assert!(bench::table::render(&report).contains("vision + policy"));
}

#[test]
fn bad_files_and_options_say_what_is_wrong() {
    let folder = Folder::new("bad");
    let model = folder.file("small.onnx");
    write_model(&model);
    let with = |change: &dyn Fn(&mut BenchOptions)| {
        let mut options = options(&model);
        change(&mut options);
        options
    };
    refused(&with(&|o| o.runs = 0), 2, "--runs");
    refused(&with(&|o| o.threads = Some(0)), 2, "--threads");
    let absent = folder.file("absent.onnx");
    refused(&with(&|o| o.models.push(absent.clone())), 1, "absent.onnx");
    refused(
        &with(&|o| o.models_dir = Some(folder.file("absent"))),
        1,
        "absent",
    );
    refused(
        &with(&|o| o.inputs = Some(absent.clone())),
        1,
        "absent.onnx",
    );
    let damaged = folder.file("damaged.onnx");
    let bytes = std::fs::read(&model).expect("own file");
    std::fs::write(&damaged, &bytes[..bytes.len() / 2]).expect("a writable folder");
    refused(
        &with(&|o| o.models = vec![damaged.clone()]),
        1,
        "model `damaged`",
    );
    refused(
        &with(&|o| o.inputs = Some(damaged.clone())),
        1,
        "not a safetensors",
    );
    refused(
        &with(&|o| o.dump_outputs = Some(folder.file("no/such/folder/x"))),
        1,
        "no/such/folder",
    );
}

#[test]
fn real_models_agree_with_their_goldens() {
    // fp16 weights are converted exactly, so all three are held to the f32 bar.
    for name in [
        "dmonitoring_0_8_9",
        "dmonitoring_0_8_5",
        "supercombo_0_7_4_random_fp16",
    ] {
        let Some(model) = test_data(&format!("data/models/{name}.onnx")) else {
            return;
        };
        let golden = test_data(&format!("data/models/goldens/{name}.safetensors"));
        let mut options = options(&model);
        (options.runs, options.warmup) = (1, 0);
        options.compare = golden;
        let report = run(&options).expect("a real model");
        let golden = report.runs[0].golden.expect("it was compared");
        assert_eq!(golden.cases, 3);
        assert!(golden.max_rel < 1e-4, "{name}: {golden:?}");
    }
}

#[test]
fn a_timeline_is_chromes_trace_format_with_every_step_of_every_run() {
    let folder = Folder::new("trace");
    let (model, trace) = (folder.file("small.onnx"), folder.file("trace.json"));
    write_model(&model);
    let mut options = options(&model);
    options.trace = Some(trace.clone());
    options.profile = true;
    let report = run(&options).expect("a sound model");
    let layers = &report.runs[0].layers;
    assert!(!layers.is_empty());
    assert!(
        layers
            .iter()
            .all(|layer| layer.mean_us.is_some_and(|us| us >= 0.0))
    );
    let peaks = report.peaks.expect("measured with the profile");
    assert!(peaks.gflops > 0.0 && peaks.gigabytes_per_s > 0.0);
    let text = bench::table::render(&report);
    assert!(text.contains("profile of small in fp32"), "{text}");

    let text = std::fs::read_to_string(&trace).expect("written");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let events = document["traceEvents"].as_array().expect("an array");
    let of_kind = |kind: &'static str| events.iter().filter(move |e| e["ph"] == kind);
    let names: Vec<_> = of_kind("M").map(|e| e["args"]["name"].as_str()).collect();
    assert_eq!(names, [Some("small fp32")]);
    let mut n_spans = 0;
    let mut end = 0.0;
    for event in of_kind("X") {
        assert!(
            event["name"].is_string() && event["cat"].is_string(),
            "{event}"
        );
        assert!(event["pid"] == 1 && event["tid"] == 1, "{event}");
        let (start, duration) = (event["ts"].as_f64(), event["dur"].as_f64());
        let (start, duration) = (start.expect("a number"), duration.expect("a number"));
        assert!(
            start >= end - 1e-3 && duration >= 0.0,
            "steps follow each other: {event}"
        );
        end = start + duration;
        n_spans += 1;
    }
    assert_eq!(n_spans, 3 * layers.len());
    assert_eq!(n_spans + 1, events.len());
}

#[test]
fn layers_are_explained_where_asked_for() {
    let folder = Folder::new("explain");
    let model = folder.file("small.onnx");
    write_model(&model);
    let mut options = options(&model);
    options.precisions = vec![Precision::Fp32, Precision::Fp4];
    options.explain = true;
    let report = run(&options).expect("a sound model");
    let text = bench::table::render(&report);
    assert!(text.contains("layers of small in fp4:"), "{text}");
    assert!(text.contains("steps without a product, in fp32"), "{text}");
    options.explain = false;
    let report = run(&options).expect("a sound model");
    assert!(!bench::table::render(&report).contains("layers of"));
    assert!(report.runs[0].layers.is_empty());
}

/// Tags that are opened and not closed, or the other way round.
fn unbalanced(page: &str) -> Vec<String> {
    let mut open: Vec<String> = Vec::new();
    let mut wrong = Vec::new();
    for piece in page.split('<').skip(1) {
        let tag = piece.split('>').next().unwrap_or_default();
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .unwrap_or_default();
        let alone = tag.ends_with('/') || matches!(name, "!doctype" | "meta" | "br");
        if tag.starts_with('/') {
            if open.pop().as_deref() != Some(name) {
                wrong.push(tag.to_owned());
            }
        } else if !alone {
            open.push(name.to_owned());
        }
    }
    wrong.extend(open);
    wrong
}

#[test]
fn the_page_compares_precisions_and_needs_nothing_else() {
    let folder = Folder::new("page");
    let (model, page) = (folder.file("a<b.onnx"), folder.file("page.html"));
    write_model(&model);
    let mut options = options(&model);
    options.precisions = Precision::ALL.to_vec();
    let report = run(&options).expect("a sound model");
    bench::html::write(&report, &page).expect("a writable folder");
    let text = std::fs::read_to_string(&page).expect("written");
    assert_eq!(unbalanced(&text), Vec::<String>::new());
    assert!(text.contains("a&lt;b") && !text.contains("a<b"));
    let measured = |precision: &Precision| !precision.needs_calibration();
    for precision in Precision::ALL.into_iter().filter(measured) {
        let cell = format!("<td class=\"l\">{precision}</td>");
        assert!(text.contains(&cell), "{precision}");
    }
    for elsewhere in ["<script", "<link", "<img", "src=", "href="] {
        assert!(!text.contains(elsewhere), "{elsewhere}");
    }
    assert!(
        !text.contains("NaN") && !text.contains("inf"),
        "no number is missing"
    );
}

#[test]
fn driving_in_a_precision_is_compared_with_fp32() {
    let folder = Folder::new("drive");
    let dir = folder.file("models");
    zoo::write_all(&dir, 0).expect("a writable folder");
    let mut options = BenchOptions::default()
        .with_models([
            dir.join("driving_vision.onnx"),
            dir.join("driving_policy.onnx"),
        ])
        .with_precisions([Precision::Bf16])
        .with_drive_frames(3)
        .with_runs(1)
        .with_warmup(0);
    options.threads = Some(2);
    let report = run(&options).expect("sound networks");
    let names: Vec<&str> = report.runs.iter().map(|run| run.precision).collect();
    assert_eq!(names, ["fp32", "bf16", "fp32", "bf16"]);
    let [bf16] = report.driving.as_slice() else {
        panic!("{:?}", report.driving);
    };
    assert_eq!((bf16.precision, bf16.frames), ("bf16", 3));
    for distance in bf16.plan_m.iter().chain([&bf16.lane_lines_m, &bf16.lead_m]) {
        assert!(distance.mean > 0.0 && distance.max < 0.2, "{distance:?}");
    }
    let slices: Vec<&str> = report.runs[1]
        .slices
        .iter()
        .map(|s| s.name.as_str())
        .collect();
    assert!(
        slices.contains(&"lane_lines") && slices.contains(&"hidden_state"),
        "{slices:?}"
    );
    let page = bench::html::render(&report);
    assert_eq!(unbalanced(&page), Vec::<String>::new());
    assert!(page.contains("Position of the plan"));
}

#[test]
fn a_zoo_leaves_files_of_its_names_alone() {
    let folder = Folder::new("zoo");
    let theirs = folder.file("driving_policy.onnx");
    std::fs::write(&theirs, b"trained").expect("a writable folder");
    let told = bench::write_zoo(&folder.0, 0).expect_err("a file of another's");
    let told = told.to_string();
    assert!(told.contains("driving_policy.onnx"), "{told}");
    assert!(told.contains("would be lost"), "{told}");
    assert_eq!(std::fs::read(&theirs).expect("still there"), b"trained");
    let entries = std::fs::read_dir(&folder.0).expect("the folder");
    assert_eq!(entries.count(), 1, "nothing is written beside it");

    std::fs::remove_file(&theirs).expect("an own file");
    let files = bench::write_zoo(&folder.0, 0).expect("an empty folder");
    assert_eq!(files.len(), zoo::ZooModel::ALL.len());
    assert!(files.iter().all(|file| file.is_file()));
    let again = bench::write_zoo(&folder.0, 0).expect("the same files");
    assert_eq!(again, files);
    assert!(bench::write_zoo(&folder.0, 1).is_err(), "other weights");
}
