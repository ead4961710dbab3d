//! `finetune` that begins with calibrated weights, behind a trunk that is run once, with dropout, and by EVA.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor, safetensors};
use serde_json::Value;
use sparkpilot::onnx::graph::{Dim, Graph, MatMul, Op, Reshape, Transpose};
use sparkpilot::onnx::{DType, file};

use super::tuning::made;
use super::{Folder, Outcome, Program};

fn train(paths: &[PathBuf; 2], run: &Path, more: &[&str]) -> Outcome {
    let begin = ["train", "--batch-size", "3", "--epochs", "6"];
    let program = Program::new("finetune").args(begin);
    let program = program.args(["--model".as_ref(), paths[0].as_os_str()]);
    let program = program.args(["--data".as_ref(), paths[1].as_os_str()]);
    program
        .args(["--output".as_ref(), run.as_os_str()])
        .args(more)
        .run()
}

fn of_run(command: &str, run: &Path) -> Outcome {
    let program = Program::new("finetune").args([command]);
    program.args(["--output".as_ref(), run.as_os_str()]).run()
}

fn merge(model: &Path, run: &Path, merged: &Path) -> Outcome {
    let adapter = run.join("adapter");
    let paths: [&OsStr; 6] = [
        "--model".as_ref(),
        model.as_os_str(),
        "--adapter".as_ref(),
        adapter.as_os_str(),
        "--merged".as_ref(),
        merged.as_os_str(),
    ];
    Program::new("finetune").args(["merge"]).args(paths).run()
}

/// Means of the epochs' losses, as they were recorded.
fn losses(run: &Path) -> Vec<[f64; 2]> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).expect("was written");
    let events = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("is JSON"));
    let epochs = events.filter(|event| event["event"] == "epoch");
    let of = |event: Value| {
        ["training", "validation"].map(|name| event[name].as_f64().expect("is a number"))
    };
    epochs.map(of).collect()
}

/// 96 frames whose numbers move together, so that one makes up for another's rounding.
fn frames(folder: &Folder) -> PathBuf {
    let frames = (0..96).map(|at| {
        let all = spark_testing::numbers(4, 500 + at);
        let own = spark_testing::numbers(32, 900 + at);
        let x = own
            .iter()
            .enumerate()
            .map(|(i, own)| all[i % 4] + 0.2 * own);
        let tensor = Tensor::from_vec(x.collect::<Vec<f32>>(), (1, 32), &Device::Cpu);
        (format!("case{at}/in/desire"), tensor.expect("fits"))
    });
    let data = folder.path("together.safetensors");
    safetensors::save(&frames.collect::<HashMap<_, _>>(), &data).expect("a writable folder");
    data
}

#[test]
fn calibrated_weights_are_trained_on_kept_and_merged() {
    let folder = Folder::new();
    let paths = [made(&folder)[0].clone(), frames(&folder)];
    let (run, json) = (folder.path("run"), folder.path("result.json"));
    let json_text = json.display().to_string();
    let options = ["--qat", "fp4", "--calibrate", "60", "--json", &json_text];
    let outcome = train(&paths, &run, &options);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let calibrated = run.join("calibrated.onnx");
    let names = format!("it is an adapter of `{}`", calibrated.display());
    assert!(outcome.stdout.contains(&names), "{}", outcome.stdout);
    let result: Value =
        serde_json::from_slice(&fs::read(&json).expect("is written")).expect("is JSON");
    let square = &result["root_mean_square"];
    let before = &result["uncalibrated"]["root_mean_square"];
    let of = |value: &Value| value.as_f64().expect("is a number");
    assert!(
        of(before) > 0.0 && of(&square["untouched"]) < 0.9 * of(before),
        "{result}"
    );

    // The run goes on with the weights that it began with, and is judged on them.
    let kept = fs::read(&calibrated).expect("is kept");
    let judged = of_run("eval", &run);
    assert_eq!(judged.code, Some(0), "{}", judged.stderr);
    let last = |outcome: &Outcome| outcome.stdout.lines().last().map(str::to_owned);
    assert_eq!(last(&judged), last(&outcome));
    fs::remove_file(&calibrated).expect("is there");
    let resumed = of_run("resume", &run);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    assert_eq!(fs::read(&calibrated).expect("is made again"), kept);

    let merged = folder.path("merged.onnx");
    let other = merge(&paths[0], &run, &merged);
    assert_ne!(
        other.code,
        Some(0),
        "it is no adapter of the uncalibrated network"
    );
    assert!(!merged.exists());
    let own = merge(&calibrated, &run, &merged);
    assert_eq!(own.code, Some(0), "{}", own.stderr);
    assert!(merged.exists());
}

#[test]
fn a_trunk_that_is_run_once_gives_the_losses_of_the_whole_network() {
    let folder = Folder::new();
    let paths = made(&folder);
    let (whole, behind) = (folder.path("whole"), folder.path("behind"));
    let targets = ["--qat", "fp4", "--targets", "second"];
    let outcome = train(&paths, &whole, &targets);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let more = [&targets[..], &["--cache-trunk", "--recompute"]].concat();
    let cut = train(&paths, &behind, &more);
    assert_eq!(cut.code, Some(0), "{}", cut.stderr);
    let (want, got) = (losses(&whole), losses(&behind));
    assert_eq!(want.len(), 6);
    assert!(want[0][0] > 0.0 && want.len() == got.len());
    for (want, got) in want.iter().zip(&got) {
        for (want, got) in want.iter().zip(got) {
            assert!((want - got).abs() <= 1e-5 * want, "{want} and {got}");
        }
    }
    let last = |outcome: &Outcome| outcome.stdout.lines().last().map(str::to_owned);
    assert_eq!(last(&cut), last(&outcome));
    assert_eq!(last(&of_run("resume", &behind)), last(&outcome));
    let said = train(
        &paths,
        &folder.path("dry"),
        &[&more[..], &["--dry-run"]].concat(),
    );
    assert!(said.stdout.contains("a step takes"), "{}", said.stderr);

    let all = train(
        &paths,
        &folder.path("all"),
        &["--qat", "fp4", "--cache-trunk"],
    );
    assert_eq!(all.code, Some(2), "{}", all.stderr);
    assert!(
        all.stderr.contains("--cache-trunk: every node hangs on"),
        "{}",
        all.stderr
    );
    assert!(!folder.path("all").join("run.json").exists());
    let model = paths[0].display().to_string();
    let exact = train(
        &paths,
        &folder.path("exact"),
        &["--teacher", &model, "--calibrate", "3"],
    );
    assert_eq!(exact.code, Some(2), "{}", exact.stderr);
}

/// A run keeps its dropout; what is judged and merged has none.
#[test]
fn dropout_is_gone_on_with_and_is_not_in_what_is_shipped() {
    let folder = Folder::new();
    let paths = made(&folder);
    let run = |name: &str, more: &[&str]| {
        let run = folder.path(name);
        let outcome = train(&paths, &run, &[&["--qat", "fp4"], more].concat());
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        (run, outcome)
    };
    let dropout = ["--lora-dropout", "0.3"];
    let (whole, outcome) = run("whole", &dropout);
    let says = "; dropout of 0.3 in steps\n";
    assert!(outcome.stdout.contains(says), "{}", outcome.stdout);
    let (plain, of_plain) = run("plain", &[]);
    assert!(!of_plain.stdout.contains("drop"), "{}", of_plain.stdout);
    assert_eq!(
        losses(&plain),
        losses(&run("none", &["--lora-dropout", "0"]).0)
    );
    assert_ne!(losses(&whole), losses(&plain), "dropout acts");
    let (_, dry) = run("dry", &[&dropout[..], &["--dry-run"]].concat());
    assert!(dry.stdout.contains(says), "{}", dry.stdout);
    for (file, name) in [
        ("run.json", "lora_dropout"),
        ("adapter/adapter_config.json", "lora_dropout"),
    ] {
        let text = fs::read(whole.join(file)).expect("is written");
        let json: Value = serde_json::from_slice(&text).expect("is JSON");
        assert_eq!(json[name].as_f64(), Some(0.3), "{file}");
        let text = fs::read(plain.join(file)).expect("is written");
        let json: Value = serde_json::from_slice(&text).expect("is JSON");
        assert!(
            json[name].is_null() || json[name].as_f64() == Some(0.0),
            "{file}"
        );
    }

    // A run that was only begun goes on with the masks of the whole one.
    let (begun, _) = run("begun", &[&dropout[..], &["--create-adapter"]].concat());
    let resumed = of_run("resume", &begun);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    assert!(resumed.stdout.contains(says), "{}", resumed.stdout);
    assert_eq!(losses(&begun), losses(&whole));
    let last = |outcome: &Outcome| outcome.stdout.lines().last().map(str::to_owned);
    assert_eq!(last(&of_run("eval", &begun)), last(&outcome));
    let merged = folder.path("merged.onnx");
    let outcome = merge(&paths[0], &begun, &merged);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let (was, is) = [&paths[0], &merged]
        .map(|path| file::load(path).expect("reads").nodes.len())
        .into();
    assert_eq!(was, is, "nodes of the file alone");

    for wrong in ["1", "-0.1", "nan", "much"] {
        let option = format!("--lora-dropout={wrong}");
        let refused = train(&paths, &folder.path("wrong"), &["--qat", "fp4", &option]);
        assert_eq!(refused.code, Some(2), "{wrong}: {}", refused.stderr);
        let says = "expected a number from 0 up to below 1";
        assert!(refused.stderr.contains(says), "{}", refused.stderr);
    }
    let alone = [&["--qat", "fp4", "--biases", "alone"], &dropout[..]].concat();
    let refused = train(&paths, &folder.path("wrong"), &alone);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("has no adapters"),
        "{}",
        refused.stderr
    );
}

#[test]
fn adapters_that_begin_by_eva_share_out_their_ranks_and_are_gone_on_with() {
    let folder = Folder::new();
    let paths = [made(&folder)[0].clone(), frames(&folder)];
    let run = |name: &str, more: &[&str]| {
        let run = folder.path(name);
        let outcome = train(&paths, &run, &[&["--qat", "fp4"], more].concat());
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        (run, outcome)
    };
    let eva = ["--init", "eva", "--init-frames", "40"];
    let (whole, outcome) = run("whole", &eva);
    let says = "begun by EVA on 40 frames: 2 linear layers of rank";
    assert!(outcome.stdout.starts_with(says), "{}", outcome.stdout);
    let (plain, _) = run("plain", &[]);
    assert_eq!(
        losses(&plain),
        losses(&run("default", &["--init", "default"]).0)
    );
    assert_ne!(losses(&whole), losses(&plain), "EVA acts");
    let config = |run: &Path| -> Value {
        let text = fs::read(run.join("adapter/adapter_config.json")).expect("is written");
        serde_json::from_slice(&text).expect("is JSON")
    };
    assert_eq!(config(&whole)["init_lora_weights"], "eva");
    assert_eq!(config(&plain)["init_lora_weights"], true);
    let ranks = |run: &Path| -> usize {
        let config = config(run);
        let of = |name: &str| match &config["rank_pattern"][name] {
            Value::Null => config["r"].as_u64(),
            rank => rank.as_u64(),
        };
        let ranks = ["first", "second"].map(|name| of(name).expect("a number"));
        ranks.into_iter().sum::<u64>() as usize
    };
    assert_eq!((ranks(&whole), ranks(&plain)), (8, 8));
    let (dry, said) = run("dry", &[&eva[..], &["--dry-run"]].concat());
    assert!(
        said.stdout.contains("parameters are then others")
            && said.stdout.contains(", besides EVA; nothing"),
        "{}",
        said.stdout
    );
    assert!(!dry.exists());

    // A run that was only begun goes on as the whole one went.
    let (begun, _) = run("begun", &[&eva[..], &["--create-adapter"]].concat());
    let resumed = of_run("resume", &begun);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    assert!(resumed.stdout.contains(says), "{}", resumed.stdout);
    assert_eq!(losses(&begun), losses(&whole));
    let adapter = |run: &Path| fs::read(run.join("adapter/adapter_model.safetensors"));
    assert_eq!(
        adapter(&begun).expect("reads"),
        adapter(&whole).expect("reads")
    );
    let last = |outcome: &Outcome| outcome.stdout.lines().last().map(str::to_owned);
    assert_eq!(last(&of_run("eval", &begun)), last(&outcome));
    let merged = folder.path("merged.onnx");
    let outcome = merge(&paths[0], &begun, &merged);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    // A file that somebody changed.
    let options = begun.join("run.json");
    let text = fs::read_to_string(&options).expect("is written");
    let text = text.replace("\"init_frames\": 40", "\"init_frames\": 1");
    fs::write(&options, text).expect("a writable folder");
    let refused = of_run("resume", &begun);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    let says = "is not what `train` wrote: init_frames";
    assert!(refused.stderr.contains(says), "{}", refused.stderr);
    // More frames than there are: all of them.
    let (_, outcome) = run(
        "many",
        &["--init", "eva", "--init-frames", "5000", "--create-adapter"],
    );
    let says = "there are 72 frames to train on, and all of them are taken";
    assert!(outcome.stderr.contains(says), "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("EVA on 72 frames"),
        "{}",
        outcome.stdout
    );

    for (wrong, says) in [
        (&["--init-frames", "9"][..], "--init <HOW>"),
        (
            &["--init", "default", "--init-frames", "9"],
            "--init-frames is of `--init eva`",
        ),
        (&["--init", "eva", "--init-frames", "1"], "--init-frames"),
        (&["--init", "eva", "--biases", "alone"], "has no adapters"),
        (&["--init", "pissa"], "possible values: default, eva"),
    ] {
        let wrong = [&["--qat", "fp4"], wrong].concat();
        let refused = train(&paths, &folder.path("wrong"), &wrong);
        assert_eq!(refused.code, Some(2), "{wrong:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(says),
            "{wrong:?}: {}",
            refused.stderr
        );
    }
    assert!(!folder.path("wrong").exists());
}

/// Settings that would do nothing say so, and nothing is begun.
#[test]
fn what_would_change_nothing_is_refused() {
    let folder = Folder::new();
    let paths = made(&folder);
    let x = Tensor::from_vec(spark_testing::numbers(32, 7), (1, 32), &Device::Cpu);
    let x = x.expect("fits");
    let same = (0..12).map(|at| (format!("case{at}/in/desire"), x.clone()));
    let data = folder.path("same.safetensors");
    safetensors::save(&same.collect::<HashMap<_, _>>(), &data).expect("a writable folder");
    let of_same = [paths[0].clone(), data];
    let absent = [paths[0].clone(), folder.path("absent")];
    let still = "what linear layers read does not vary in 9 frames";
    let biases = "--biases: none of the 2 layers has a bias";
    for (paths, options, code, says) in [
        (&of_same, &["--init", "eva"][..], 2, still),
        (&paths, &["--biases", "all"], 2, biases),
        (&paths, &["--biases", "adapted"], 2, biases),
        (&paths, &["--biases", "alone"], 2, biases),
        (&absent, &["--every", "2"], 1, "absent`: No such file"),
    ] {
        let options = [&["--qat", "fp4"], options].concat();
        let refused = train(paths, &folder.path("run"), &options);
        assert_eq!(refused.code, Some(code), "{options:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(says),
            "{options:?}: {}",
            refused.stderr
        );
        assert!(!folder.path("run").exists(), "{options:?}");
    }
}

/// Frames that would share scales go through the network one at a time, or not at all.
#[test]
fn frames_that_would_share_scales_are_taken_one_at_a_time() {
    let folder = Folder::new();
    let mut graph = Graph::default();
    let x = graph.add_input("desire", DType::F32, vec![Dim::Known(1), Dim::Known(32)]);
    let shape = sparkpilot::onnx::Tensor::from_i64([3], vec![-1, 2, 16]).expect("fits");
    let shape = graph.add_constant("shape", shape);
    let halves = Op::Reshape(Reshape { allow_zero: false });
    let y = graph.add_node("halves", halves, &[Some(x), Some(shape)]);
    let turn = |graph: &mut Graph, name: &str, y| {
        let turn = Transpose {
            perm: Some(vec![1, 0, 2]),
        };
        graph.add_node(name, Op::Transpose(turn), &[Some(y)])
    };
    let y = turn(&mut graph, "turned", y);
    let weight = sparkpilot::onnx::Tensor::from_f32([16, 4], spark_testing::numbers(64, 3));
    let w = graph.add_constant("fc.weight", weight.expect("fits"));
    let y = graph.add_node("fc", Op::MatMul(MatMul), &[Some(y), Some(w)]);
    let y = turn(&mut graph, "outputs", y);
    graph.outputs.push(y);
    let model = folder.write("across.onnx", file::to_bytes(&graph).expect("is written"));
    let paths = [model, frames(&folder)];
    let activations = ["--qat", "fp4", "--qat-activations", "--dora-rank", "2"];
    for (name, more) in [("dry", &["--dry-run"][..]), ("run", &[])] {
        let refused = train(&paths, &folder.path(name), &[&activations, more].concat());
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        let says = "`fc` does not read the frames of a batch one after the other";
        assert!(refused.stderr.contains(says), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("`--virtual-shards 3`"),
            "{}",
            refused.stderr
        );
    }
    assert!(!folder.path("run").exists());
    let one_by_one = [&activations[..], &["--virtual-shards", "3"]].concat();
    let outcome = train(&paths, &folder.path("run"), &one_by_one);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(of_run("eval", &folder.path("run")).code, Some(0));
}

#[test]
fn a_layer_that_holds_the_rank_means_no_other_whose_name_ends_alike() {
    let folder = Folder::new();
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(1), Dim::Known(32)]);
    let mut y = x;
    for (name, out) in [("fc", 32), ("calib.fc", 2)] {
        let weight = spark_testing::numbers(out * 32, 3);
        let weight = sparkpilot::onnx::Tensor::from_f32([32, out], weight).expect("fits");
        let w = graph.add_constant(format!("{name}.weight"), weight);
        y = graph.add_node(name, Op::MatMul(MatMul), &[Some(y), Some(w)]);
    }
    graph.outputs.push(y);
    let model = folder.write("ends.onnx", file::to_bytes(&graph).expect("is written"));
    let frames = (0..12).map(|at| {
        let tensor = Tensor::from_vec(spark_testing::numbers(32, at), (1, 32), &Device::Cpu);
        (format!("case{at}/in/x"), tensor.expect("fits"))
    });
    let data = folder.path("x.safetensors");
    safetensors::save(&frames.collect::<HashMap<_, _>>(), &data).expect("a writable folder");
    let options = ["--qat", "fp4", "--dora-rank", "4", "--dry-run"];
    let outcome = train(&[model, data], &folder.path("run"), &options);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.starts_with("1 layers"), "{}", outcome.stdout);
}

#[test]
fn layers_are_trained_whole_and_merged() {
    let folder = Folder::new();
    let paths = made(&folder);
    let run = folder.path("run");
    let outcome = train(&paths, &run, &["--qat", "fp4", "--whole", "second"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let tensors = run.join("adapter/adapter_model.safetensors");
    let saved = safetensors::load(&tensors, &Device::Cpu).expect("is written");
    let names: Vec<&str> = saved.keys().map(String::as_str).collect();
    let has = |end: &str| names.iter().any(|name| name.ends_with(end));
    assert!(
        has("first.lora_A.weight") && has("second.weight"),
        "{names:?}"
    );
    assert!(!has("second.lora_A.weight"), "{names:?}");
    let merged = folder.path("merged.onnx");
    let outcome = merge(&paths[0], &run, &merged);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("2 weights changed"),
        "{}",
        outcome.stdout
    );
    let [before, after] = [&paths[0], &merged].map(|path| file::load(path).expect("loads"));
    let mut largest = 0.0f64;
    for value in &before.values {
        let Some(was) = &value.constant else {
            continue;
        };
        let mut values = after.values.iter();
        let is = values.find(|is| is.name == value.name);
        let is = is.and_then(|is| is.constant.as_ref()).expect("is there");
        let pairs = was.to_f64().into_iter().zip(is.to_f64());
        largest = pairs.fold(largest, |most, (was, is)| most.max((was - is).abs()));
    }
    let said = format!("by {largest:.3e} at most");
    assert!(outcome.stdout.contains(&said), "{said}: {}", outcome.stdout);
    // Where nothing is adapted, no rank is advised.
    let run = folder.path("alone");
    let options = ["--qat", "fp4", "--whole", "second", "--targets", "second"];
    let outcome = train(&paths, &run, &options);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    for advice in ["rank 1", "fewer layers", "would stay"] {
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(!said.contains(advice), "{said}");
    }
    let outcome = merge(&paths[0], &run, &merged);
    assert!(
        outcome.stdout.contains("1 weights changed, by ") && !outcome.stdout.contains("0.000e0"),
        "{}",
        outcome.stdout
    );
}

/// A run that has no checkpoint yet knows its frames and its network all the same.
#[test]
fn a_run_without_a_checkpoint_goes_on_with_its_own_frames_and_network() {
    let folder = Folder::new();
    let paths = [made(&folder)[0].clone(), frames(&folder)];
    let run = folder.path("run");
    let options = ["--qat", "fp4", "--calibrate", "1000", "--create-adapter"];
    let outcome = train(&paths, &run, &options);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("there are 72 frames"),
        "{}",
        outcome.stderr
    );

    let calibrated = run.join("calibrated.onnx");
    let kept = fs::read(&calibrated).expect("is kept");
    fs::copy(&paths[0], &calibrated).expect("is copied");
    for command in ["resume", "eval"] {
        let refused = of_run(command, &run);
        assert_eq!(refused.code, Some(1), "{command}: {}", refused.stderr);
        let says = ["calibrated.onnx` is not the network", "makes it again"];
        let says = says.iter().all(|text| refused.stderr.contains(text));
        assert!(says, "{command}: {}", refused.stderr);
    }
    fs::write(&calibrated, &kept).expect("is written");

    let data = fs::read(&paths[1]).expect("is there");
    fs::copy(&made(&folder)[1], &paths[1]).expect("is copied");
    let refused = of_run("resume", &run);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("are not those that the run was begun with"),
        "{}",
        refused.stderr
    );
    assert!(!run.join("metrics.jsonl").exists());
    fs::write(&paths[1], data).expect("is written");
    // The table stands although the file cannot be written.
    let full = Program::new("finetune")
        .args(["eval", "--json", "/dev/full"])
        .args(["--output".as_ref(), run.as_os_str()])
        .run();
    assert_eq!(full.code, Some(1), "{}", full.stderr);
    assert!(full.stdout.contains("  trained  "), "{}", full.stdout);
    let resumed = of_run("resume", &run);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
}
