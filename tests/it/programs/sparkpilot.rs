//! The program `sparkpilot`, command by command: what it prints, what it refuses, how it ends.

use std::fs::{self, File};
use std::path::Path;

use serde_json::Value;

use super::files::{open_model, small_model};
use super::{Folder, Outcome, Program};

/// Every command, with arguments that are enough for it.
fn commands(model: &str) -> Vec<Vec<&str>> {
    let always = vec![
        vec!["info"],
        vec!["doctor"],
        vec!["cluster", "doctor", "this", "this"],
        vec!["monitor", "--status"],
        vec!["run", model],
        vec!["inspect", model],
        vec!["compare", model, "--against", "golden.safetensors"],
        vec!["bench", "--model", model, "--runs", "1", "--warmup", "0"],
        vec!["quantize"],
        vec!["logs", "."],
        vec!["sim", "list"],
        vec!["zoo"],
        vec!["completions", "bash"],
        vec!["man"],
    ];
    let of_training = vec![vec!["finetune", "eval", "--output", "no run"]];
    let of_training = of_training.into_iter().filter(|_| cfg!(feature = "train"));
    let of_adapters = vec![vec!["adapter", "inspect", "no adapter"]];
    let of_adapters = of_adapters.into_iter().filter(|_| cfg!(feature = "dora"));
    always
        .into_iter()
        .chain(of_training)
        .chain(of_adapters)
        .collect()
}

fn program<'a>(args: impl IntoIterator<Item = &'a str>) -> Program {
    Program::at(Path::new(env!("CARGO_BIN_EXE_sparkpilot"))).args(args)
}

fn run<'a>(args: impl IntoIterator<Item = &'a str>) -> Outcome {
    program(args).run()
}

#[track_caller]
fn json(args: &[&str], schema: &str) -> Value {
    let outcome = run(args.iter().copied());
    assert_eq!(outcome.code, Some(0), "{args:?}: {}", outcome.stderr);
    let value: Value = serde_json::from_str(&outcome.stdout).expect("JSON and nothing else");
    assert_eq!(value["schema"], schema);
    value
}

#[test]
fn every_command_has_help_with_examples_and_a_page_of_the_manual() {
    let folder = Folder::new();
    let pages = folder.0.to_string_lossy();
    assert_eq!(run(["man", "--folder", &*pages]).code, Some(0));
    let top = run(["--help"]);
    let mut wanted = vec!["sparkpilot.1".to_owned()];
    for args in commands("m.onnx") {
        let name = args[0];
        assert!(top.stdout.contains(&format!("  {name} ")), "{}", top.stdout);
        let outcome = run([name, "--help"]);
        assert_eq!(outcome.code, Some(0), "{name}: {}", outcome.stderr);
        let sentence = outcome.stdout.lines().next().unwrap_or_default();
        assert!(sentence.len() > 25, "{name} says what it does: {sentence}");
        let example = format!("  sparkpilot {name}");
        assert!(
            outcome.stdout.contains(&example),
            "{name}: {}",
            outcome.stdout
        );
        assert_eq!(outcome.stderr, "", "{name}");
        let page = fs::read_to_string(folder.path(&format!("sparkpilot-{name}.1"))).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(name), "{page}");
        wanted.push(format!("sparkpilot-{name}.1"));
    }
    let of_training = ["eval", "frames", "merge", "resume", "train"].iter();
    let of_training = of_training.map(|below| format!("sparkpilot-finetune-{below}.1"));
    wanted.extend(of_training.filter(|_| cfg!(feature = "train")));
    let of_adapters = ["convert", "diff", "inspect"].iter();
    let of_adapters = of_adapters.map(|below| format!("sparkpilot-adapter-{below}.1"));
    wanted.extend(of_adapters.filter(|_| cfg!(feature = "dora")));
    for below in ["doctor", "record"] {
        wanted.push(format!("sparkpilot-cluster-{below}.1"));
    }
    for below in [
        "bench", "compare", "list", "merge", "replay", "report", "run", "search",
    ] {
        wanted.push(format!("sparkpilot-sim-{below}.1"));
    }
    wanted.sort();
    assert_eq!(folder.names(), wanted, "no command is missing here");
}

#[test]
fn without_a_command_it_says_what_there_is() {
    let outcome = run([]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("Commands:"), "{}", outcome.stderr);
    let version = run(["--version"]).stdout;
    assert_eq!(
        version.trim(),
        concat!("sparkpilot ", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn wrong_usage_ends_with_2() {
    for args in commands("m.onnx") {
        let outcome = run(args.iter().copied().chain(["--no-such-option"]));
        assert_eq!(outcome.code, Some(2), "{args:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("--no-such-option"));
        assert_eq!(outcome.stdout, "", "{args:?}");
    }
    for args in [
        &["nonsense"][..],
        &["run", "m.onnx", "--precision", "fp3"],
        &["inspect", "m.onnx", "--threads", "0"],
        &["compare", "m.onnx"],
        &["compare", "m.onnx", "--against", "g", "--within", "NaN"],
        &["run", "m.onnx", "--seed", "1", "--inputs", "i"],
        &["monitor", "--status", "--duration", "1"],
        // An output in the place of an input.
        &["run", "m.onnx", "--outputs", "m.onnx"],
    ] {
        let outcome = run(args.iter().copied());
        assert_eq!(outcome.code, Some(2), "{args:?}: {}", outcome.stderr);
        assert!(outcome.files.is_empty(), "{args:?}");
    }
}

#[test]
fn the_exit_code_says_what_was_wrong() {
    let folder = Folder::new();
    let model = small_model(&folder);
    let model = &*model.to_string_lossy();
    let garbage = folder.write("garbage.onnx", "this is no model");
    let garbage = &*garbage.to_string_lossy();
    let open = open_model(&folder);
    let open = &*open.to_string_lossy();
    let cases: [(&[&str], i32, &str); 11] = [
        (&["run", "missing.onnx"], 5, "missing.onnx"),
        (&["inspect", garbage], 3, "garbage.onnx"),
        (&["run", garbage], 3, "garbage.onnx"),
        (&["run", model, "--inputs", garbage], 3, "safetensors"),
        (&["run", model, "--inputs", "none"], 5, "none"),
        (&["run", model, "--outputs", "no/folder/o"], 5, "no/folder"),
        (&["run", model, "--device", "cuda"], 4, "cuda"),
        (&["inspect", model, "--precision", "int8"], 4, "int8"),
        (&["inspect", open, "--precision", "int8"], 4, "int8"),
        (&["inspect", open, "--device", "cuda:7"], 4, "cuda:7"),
        (&["info", "--record", "no/folder/r"], 5, "no/folder"),
    ];
    for (args, code, told) in cases {
        let outcome = run(args.iter().copied());
        assert_eq!(outcome.code, Some(code), "{args:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(told),
            "{args:?}: {}",
            outcome.stderr
        );
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{args:?}");
        assert!(outcome.files.is_empty(), "{args:?}: {:?}", outcome.files);
    }
    for args in [
        &["run", model][..],
        &["inspect", model],
        &["bench", "--model", model],
        &["quantize", model],
        #[cfg(feature = "train")]
        &["finetune", "eval", "--output", "no run"],
        &["sim", "run", "--suite", "built-in", "--controller", "pid"],
        &[
            "sim",
            "compare",
            "--suite",
            "built-in",
            "--baseline",
            "pid",
            "--candidate",
            "pid",
        ],
    ] {
        for (name, value) in [("CUDA", "1"), ("SPARK_DEVICE", "cuda")] {
            let promised = program(args.iter().copied()).env(name, value).run();
            // A benchmark lists what was refused, and its answer is no.
            let is_listed = args[0] == "bench" && name == "SPARK_DEVICE";
            let code = if is_listed { 1 } else { 4 };
            assert_eq!(
                promised.code,
                Some(code),
                "{args:?} {name}: {}",
                promised.stderr
            );
        }
    }
    // Without a GPU there is a machine to watch.
    let watched = run(["monitor", "--status", "--output", "looks.csv"]);
    assert_eq!(watched.code, Some(0), "{}", watched.stderr);
    assert_eq!(watched.files, ["looks.csv"]);
}

#[test]
fn a_model_runs_and_agrees_with_what_it_gave() {
    let folder = Folder::new();
    let model = small_model(&folder);
    let model = &*model.to_string_lossy();
    let outputs = folder.path("outputs.safetensors");
    let outputs = &*outputs.to_string_lossy();
    let outcome = run(["run", model, "--seed", "3", "--outputs", outputs]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("shape"), "{}", outcome.stdout);
    assert!(fs::metadata(outputs).unwrap().len() > 8);

    // What the benchmark dumps is a golden file of the same model.
    let golden = folder.path("golden.safetensors");
    let golden = &*golden.to_string_lossy();
    let bench = [
        "bench",
        "--model",
        model,
        "--runs",
        "1",
        "--warmup",
        "0",
        "--dump-outputs",
        golden,
    ];
    assert_eq!(run(bench).code, Some(0));
    let same = ["compare", model, "--against", golden, "--json"];
    let value = json(&same, "sparkpilot-compare/1");
    let compared = value["outputs"].as_array().unwrap();
    assert!(!compared.is_empty());
    for output in compared {
        assert_eq!(output["within"], true, "{value:#}");
        assert_eq!(output["max_abs"], 0.0, "{value:#}");
    }
    // In four bits it is further away, and the answer is no.
    let far = run([
        "compare",
        model,
        "--against",
        golden,
        "--precision",
        "fp4",
        "--within",
        "0",
    ]);
    assert_eq!(far.code, Some(1), "{} {}", far.stdout, far.stderr);
    assert!(
        far.stdout.contains("too far") && far.stdout.contains("0 of "),
        "{}",
        far.stdout
    );
}

#[test]
fn reports_for_programs_have_their_schemas() {
    let folder = Folder::new();
    let model = small_model(&folder);
    let model = &*model.to_string_lossy();
    let info = json(&["info", "--json"], "sparkpilot-info/1");
    assert!(info["machine"]["cpu"].is_object(), "{info:#}");
    json(&["doctor", "--json"], "spark-doctor/2");
    let inspected = json(&["inspect", model, "--json"], "sparkpilot-inspect/1");
    let (inputs, operators) = (&inspected["inputs"], &inspected["operators"]);
    assert!(!inputs.as_array().unwrap().is_empty());
    assert!(!operators.as_object().unwrap().is_empty());
    let steps = inspected["plan"]["steps"].as_array().unwrap();
    assert!(steps.iter().all(|step| step["kernel"].is_string()));
    let text = run(["inspect", model, "--layers"]).stdout;
    for step in steps {
        assert!(text.contains(step["name"].as_str().unwrap()), "{text}");
    }
}

#[test]
fn a_closed_pipe_and_a_full_disk_end_every_command_quietly() {
    let folder = Folder::new();
    let model = small_model(&folder);
    let model = &*model.to_string_lossy();
    for args in commands(model) {
        // These end before they print to stdout here.
        if ["compare", "logs", "finetune", "adapter"].contains(&args[0]) {
            continue;
        }
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let closed = program(args.iter().copied())
            .start_with_stdout(writer)
            .end();
        assert_eq!(
            closed.signal,
            Some(13),
            "{args:?}: {:?} {}",
            closed.code,
            closed.stderr
        );
        assert!(
            !closed.stderr.contains("error"),
            "{args:?}: {}",
            closed.stderr
        );
        let Ok(full) = File::options().write(true).open("/dev/full") else {
            eprintln!("skipped: this system has no /dev/full");
            continue;
        };
        let full = program(args.iter().copied()).start_with_stdout(full).end();
        assert_eq!(full.code, Some(5), "{args:?}: {}", full.stderr);
        assert!(
            full.stderr.contains("No space left"),
            "{args:?}: {}",
            full.stderr
        );
    }
}

#[test]
fn scenarios_are_driven_compared_and_drawn() {
    let list = json(&["sim", "list", "--json"], "sparkpilot-sim-list/1");
    let named = |what: &str| -> Vec<String> {
        let all = list[what].as_array().unwrap().iter();
        all.map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let (suites, controllers) = (named("suites"), named("controllers"));
    assert!(suites.contains(&"ncap-braking".to_owned()) && controllers.len() > 5);
    for controller in &controllers {
        let drive = [
            "sim",
            "run",
            "--suite",
            "ncap-braking",
            "--controller",
            controller,
            "--json",
            "d.json",
        ];
        let outcome = run(drive);
        assert_eq!(outcome.code, Some(0), "{controller}: {}", outcome.stderr);
        assert_eq!(outcome.files, ["d.json"]);
        assert!(
            outcome.stdout.contains(&format!("# {controller}")),
            "{}",
            outcome.stdout
        );
        assert!(
            outcome.stdout.contains("4 drives, 0 failed"),
            "{}",
            outcome.stdout
        );
    }
    let folder = Folder::new();
    let out = &*folder.0.to_string_lossy();
    let of = ["--suite", "random", "--scenarios", "40", "--folder", out];
    let compare = |baseline: &str, candidate: &str| {
        let both = ["--baseline", baseline, "--candidate", candidate];
        run(["sim", "compare"].into_iter().chain(of).chain(both))
    };
    let worse = compare("perfect", "pid");
    assert_eq!(worse.code, Some(1), "{} {}", worse.stdout, worse.stderr);
    assert!(worse.stdout.contains("**fail**"), "{}", worse.stdout);
    let same = compare("perfect", "perfect");
    assert_eq!(same.code, Some(0), "{}", same.stdout);
    assert_eq!(folder.names(), ["report.html", "report.json", "report.md"]);
    assert_eq!(
        fs::read_to_string(folder.path("report.md")).unwrap(),
        same.stdout
    );

    let drawn = folder.path("drive.svg");
    let drawn = &*drawn.to_string_lossy();
    let of = [
        "sim",
        "replay",
        "--suite",
        "built-in",
        "--controller",
        "pid",
        "--output",
        drawn,
    ];
    let outcome = run(of.iter().copied().chain(["--index", "4"]));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(fs::read_to_string(drawn).unwrap().starts_with("<svg"));
    for (more, code) in [
        (&["--index", "5"][..], 3),
        (&["--name", "none"], 3),
        (&["--index", "1", "--name", "none"], 2),
        (&["--scenarios", "3"], 2),
        (&["--file", "x.toml"], 2),
    ] {
        let outcome = run(of.iter().copied().chain(more.iter().copied()));
        assert_eq!(outcome.code, Some(code), "{more:?}: {}", outcome.stderr);
    }
    let missing = run([
        "sim",
        "run",
        "--file",
        "missing.toml",
        "--controller",
        "pid",
    ]);
    assert_eq!(missing.code, Some(5), "{}", missing.stderr);
    let bad = folder.write("bad.toml", "[[scenario]]\nname = 3\n");
    let bad = run([
        "sim",
        "run",
        "--file",
        &*bad.to_string_lossy(),
        "--controller",
        "pid",
    ]);
    assert_eq!(bad.code, Some(3), "{}", bad.stderr);
}

#[test]
fn recorded_drives_are_summed_up_and_cut_ones_told() {
    let Some(drives) = spark_testing::test_data("data/drive") else {
        return;
    };
    let drives = &*drives.to_string_lossy();
    let all = json(&["logs", drives, "--json"], "spark-data/drives/1");
    let segment = &all["segments"][0];
    assert_eq!(segment["events"], 11_388, "{segment:#}");
    let videos = segment["videos"].as_array().unwrap();
    assert!(videos[0].as_str().unwrap().ends_with("qcamera.ts"));
    let told = run(["logs", drives]);
    assert!(
        told.stdout.contains("videos: qcamera.ts"),
        "{}",
        told.stdout
    );

    let folder = Folder::new();
    let name = "a2a0ccea32023010_2023-07-27--13-01-19--0";
    let log = fs::read(format!("{drives}/demo_{name}/qlog.bz2")).unwrap();
    fs::create_dir(folder.path(name)).unwrap();
    folder.write(&format!("{name}/qlog.bz2"), &log[..log.len() / 2]);
    let cut = run(["logs", &*folder.0.to_string_lossy()]);
    assert_eq!(cut.code, Some(1), "{}", cut.stderr);
    assert!(
        cut.stdout.contains("not whole") && cut.stdout.contains("no video"),
        "{}",
        cut.stdout
    );
    assert!(cut.stderr.contains("1 of 1 logs"), "{}", cut.stderr);
    // A drive is not drawn over, nor printed onto a full disk for ever.
    let log = folder.path(name).join("qlog.bz2");
    let log = &*log.to_string_lossy();
    let over = run(["logs", &*folder.0.to_string_lossy(), "--picture", log]);
    assert_eq!(over.code, Some(2), "{}", over.stderr);
    if let Ok(full) = File::options().write(true).open("/dev/full") {
        let full = program(["logs", log]).start_with_stdout(full).end();
        assert_eq!(full.code, Some(5), "{}", full.stderr);
    }
    if let Ok(full) = File::options().write(true).open("/dev/full") {
        let help = program(["--help"]).start_with_stdout(full).end();
        assert_eq!(help.code, Some(5), "{}", help.stderr);
    }
    let none = run(["logs", &*folder.path("nothing").to_string_lossy()]);
    assert_eq!(none.code, Some(5), "{}", none.stderr);
}

#[test]
fn a_log_without_an_event_is_not_whole_and_another_file_is_none() {
    let folder = Folder::new();
    for name in ["qlog", "qlog.bz2", "qlog.zst"] {
        let empty = folder.write(name, "");
        let told = run(["logs", &*empty.to_string_lossy()]);
        assert_eq!(told.code, Some(1), "{name}: {}", told.stderr);
        let said = "not whole: there is no event in it";
        assert!(told.stdout.contains(said), "{}", told.stdout);
    }
    let model = small_model(&folder);
    let told = run(["logs", &*model.to_string_lossy()]);
    assert_eq!(told.code, Some(3), "{}", told.stderr);
    assert!(told.stderr.contains("it is no log"), "{}", told.stderr);
}

#[test]
fn a_copy_of_a_model_under_another_name_is_given_the_same_inputs() {
    let folder = Folder::new();
    let model = small_model(&folder);
    let copy = folder.write("copy.onnx", fs::read(&model).unwrap());
    let [first, second] = [&model, &copy].map(|path| {
        let outcome = run(["run", &*path.to_string_lossy(), "--seed", "3"]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        outcome.stdout
    });
    assert_eq!(first, second);
}

#[test]
fn what_is_said_of_every_recorded_machine_follows_its_schema() {
    let machines =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/spark-hal/tests/machines");
    let mut n_machines = 0;
    for folder in fs::read_dir(machines).expect("recorded machines").flatten() {
        let tree = folder.path().join("tree.txt");
        if !tree.is_file() {
            continue; // parts that several machines have
        }
        let tree = &*tree.to_string_lossy();
        let machine = json(&["info", "--json", "--from", tree], "sparkpilot-info/1");
        super::schema::check(&machine);
        n_machines += 1;
    }
    assert!(n_machines >= 20, "{n_machines}");
}

#[test]
fn a_recorded_machine_is_looked_at_elsewhere() {
    let folder = Folder::new();
    let record = folder.path("machine.txt");
    let record = &*record.to_string_lossy();
    assert_eq!(run(["info", "--record", record]).code, Some(0));
    // Figures of memory change meanwhile.
    let first = |text: &str| text.lines().next().map(str::to_owned);
    let printed = run(["info", "--record", "-"]).stdout;
    assert_eq!(first(&printed), first(&fs::read_to_string(record).unwrap()));
    let here = json(&["info", "--json"], "sparkpilot-info/1");
    let there = json(&["info", "--json", "--from", record], "sparkpilot-info/1");
    assert_eq!(there["machine"]["cpu"], here["machine"]["cpu"]);
    assert_eq!(there["machine"]["platform"], here["machine"]["platform"]);

    let spark = "== /sys/class/dmi/id/product_family\nDGX Spark\n== /sys/class/dmi/id/sys_vendor\nNVIDIA\n\
        == /sys/class/dmi/id/product_name\nNVIDIA_DGX_Spark\n";
    let spark = folder.write("spark.txt", spark);
    let spark = &*spark.to_string_lossy();
    assert!(run(["info", "--from", spark]).stdout.contains("DGX Spark"));
    let examined = run(["doctor", "--from", spark]);
    assert_eq!(examined.code, Some(0), "{}", examined.stderr);
    assert!(examined.stdout.contains("DGX Spark"), "{}", examined.stdout);

    let none = folder.write("none.txt", "no record\n");
    for (path, code) in [(&*none.to_string_lossy(), 3), ("missing.txt", 5)] {
        for command in ["info", "doctor"] {
            let refused = run([command, "--from", path]);
            assert_eq!(
                refused.code,
                Some(code),
                "{command} {path}: {}",
                refused.stderr
            );
            assert!(refused.stderr.contains(path), "{}", refused.stderr);
        }
    }
    let all = run(["doctor", "--explain", "all"]).stdout;
    let one = all
        .lines()
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    let told = run(["doctor", "--explain", &one]).stdout;
    assert!(
        told.starts_with(&one) && told.contains("described in"),
        "{told}"
    );
    assert_eq!(run(["doctor", "--explain", "nothing"]).code, Some(2));
}
