//! Options and files that would have given something else than they say: each is refused, and the refusal names it.

use std::fs::{self, File};

use sparkpilot::bench::{TensorMap, write_tensors};
use sparkpilot::onnx::{Tensor, TensorData};

use super::files::small_model;
use super::matrix::sparkpilot;
use super::{Folder, Outcome};

/// What the program says of these arguments, with the code that it must end with.
#[track_caller]
fn told(args: &[&str], code: i32) -> Outcome {
    let outcome = sparkpilot(args).run();
    assert_eq!(outcome.code, Some(code), "{args:?}: {}", outcome.stderr);
    outcome
}

#[test]
fn options_that_undo_each_other_or_do_nothing_are_wrong_usage() {
    let folder = Folder::new();
    let model = &*small_model(&folder).to_string_lossy().into_owned();
    let search = [
        "sim",
        "search",
        "--suite",
        "ncap-braking",
        "--controller",
        "perfect",
        "--vary",
        "speed=5..30",
        "--vary",
        "speed=9..10",
    ];
    for (args, words) in [
        (&search[..], "--vary speed is given twice"),
        (&["run", model, "--outputs", "out.txt"], ".safetensors"),
        (&["inspect", model, "--svg", "out.png"], ".svg"),
        (&["quantize", model, "--plot", "out.png"], ".svg"),
        (&["monitor", "--status", "--prometheus", "0"], "--status"),
        (
            &["monitor", "--status", "--record-anomalies", "kept"],
            "--status",
        ),
        (&["doctor", "--explain", "all", "--output", "a"], "--output"),
        (&["zoo", "--seed", "3"], "--folder"),
        (&["logs", ".", "--events", "--json"], "--json"),
    ] {
        let outcome = told(args, 2);
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
        assert_eq!((&*outcome.stdout, outcome.files.len()), ("", 0), "{args:?}");
    }
}

/// A report may lie in the folder that is made for the checkpoint, and not in its place.
#[test]
fn a_report_lies_in_the_folder_of_its_checkpoint_or_elsewhere() {
    let folder = Folder::new();
    let model = &*small_model(&folder).to_string_lossy().into_owned();
    let path = |name: &str| folder.path(name).to_string_lossy().into_owned();
    let (new, report) = (path("new"), path("new/report.json"));
    let quantize = ["quantize", model, "--format", "nvfp4", "--layout", "native"];
    let of = |output: &str, json: &str, code| {
        let places = ["--output", output, "--json", json];
        told(&[&quantize[..], &places].concat(), code)
    };
    let refused = of(&new, &new, 2);
    assert!(
        refused.stderr.contains("which is written"),
        "{}",
        refused.stderr
    );
    for name in ["new/model.safetensors", "new/config.json"] {
        let refused = of(&new, &path(name), 2);
        assert!(
            refused.stderr.contains("which is written"),
            "{}",
            refused.stderr
        );
    }
    assert!(!folder.path("new").exists());
    of(&new, &report, 0);
    for name in ["new/report.json", "new/model.safetensors"] {
        assert!(folder.path(name).is_file(), "{name}");
    }
    of(&new, &report, 0);
    assert!(
        of(&path("other"), &path("none/report.json"), 5)
            .stderr
            .contains("none")
    );
}

#[test]
fn endings_in_capitals_say_the_same() {
    let folder = Folder::new();
    let model = &*small_model(&folder).to_string_lossy().into_owned();
    let out = folder.path("OUT.NPY");
    let path = &*out.to_string_lossy();
    told(&["run", model, "--outputs", path], 0);
    assert!(fs::read(&out).expect("written").starts_with(b"\x93NUMPY"));
    // A name need not be text.
    use std::os::unix::ffi::OsStrExt as _;
    let odd = folder
        .path("x")
        .with_file_name(std::ffi::OsStr::from_bytes(b"\xff.npy"));
    let outcome = sparkpilot(&["run", model, "--outputs"]).args([&odd]).run();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(odd.is_file());
}

#[test]
fn a_folder_for_anomalies_that_is_none_is_told_before_the_watch() {
    let folder = Folder::new();
    let file = folder.write("a-file", "kept");
    let path = &*file.to_string_lossy();
    let outcome = told(
        &["monitor", "--duration", "1h", "--record-anomalies", path],
        5,
    );
    assert!(outcome.stderr.contains(path), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "");
    assert_eq!(fs::read(&file).expect("as before"), b"kept");
}

#[test]
fn inputs_of_another_kind_cost_nothing_and_are_named() {
    let folder = Folder::new();
    let model = &*small_model(&folder).to_string_lossy().into_owned();
    let holes = folder.path("holes");
    // As long as no file of inputs is, and longer than memory.
    for n_bytes in [3 << 30, 1 << 42] {
        let file = File::create(&holes).expect("a writable folder");
        file.set_len(n_bytes).expect("a file of holes");
        let path = &*holes.to_string_lossy();
        let outcome = told(&["run", model, "--inputs", path], 3);
        assert!(outcome.stderr.contains(path), "{}", outcome.stderr);
    }
    let nothing = folder.write(
        "nothing.npz",
        b"PK\x05\x06"
            .iter()
            .chain(&[0; 18])
            .copied()
            .collect::<Vec<u8>>(),
    );
    let path = &*nothing.to_string_lossy();
    let outcome = told(&["run", model, "--inputs", path], 3);
    assert!(outcome.stderr.contains(path), "{}", outcome.stderr);
    // An input of another shape is the file's fault.
    let open = super::files::open_model(&folder);
    let wide = folder.path("wide.npy");
    let path = &*wide.to_string_lossy();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    let padded = format!("{header:<117}\n");
    bytes.extend((padded.len() as u16).to_le_bytes());
    bytes.extend(padded.as_bytes());
    bytes.extend([0; 12]);
    fs::write(&wide, bytes).expect("a writable folder");
    let outcome = told(&["run", &open.to_string_lossy(), "--inputs", path], 3);
    let told = &outcome.stderr;
    assert!(told.contains(path) && told.contains("[1, 3]"), "{told}");
}

#[test]
fn help_on_a_full_disk_says_what_could_not_be_written() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        eprintln!("skipped: this system has no /dev/full");
        return;
    };
    let outcome = sparkpilot(&["--help"]).start_with_stdout(full).end();
    assert_eq!(outcome.code, Some(5));
    assert!(
        outcome.stderr.contains("cannot write `stdout`"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn the_doctor_writes_every_form_of_its_answer_where_it_is_asked_to() {
    let folder = Folder::new();
    let record = folder.path("record.txt");
    let record = &*record.to_string_lossy();
    told(&["info", "--record", record], 0);
    let out = folder.path("out");
    let path = &*out.to_string_lossy();
    for form in [
        &[][..],
        &["--json"],
        &["--report"],
        &["--hardware"],
        &["--hardware", "--json"],
    ] {
        let args = [&["doctor", "--from", record][..], form].concat();
        let printed = sparkpilot(&args).run();
        let written = sparkpilot(&[&args[..], &["--output", path]].concat()).run();
        assert_eq!(written.code, printed.code, "{form:?}: {}", written.stderr);
        assert_eq!(written.stdout, "", "{form:?}");
        assert_eq!(
            fs::read_to_string(&out).expect("written"),
            printed.stdout,
            "{form:?}"
        );
        assert!(!printed.stdout.is_empty(), "{form:?}");
    }
    let verified = told(&["doctor", "--verify", "--json", "--output", path], 0);
    assert_eq!(verified.stdout, "");
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(&out).expect("written")).expect("JSON");
    assert_eq!(json["schema"], "spark-verify/1");
}

#[test]
fn a_record_and_lines_go_through_pipes() {
    let folder = Folder::new();
    let record = folder.path("record.txt");
    told(&["info", "--record", &record.to_string_lossy()], 0);
    let file = File::open(&record).expect("written");
    let mut piped = sparkpilot(&["doctor", "--from", "-", "--json"]);
    piped.command.stdin(file);
    let piped = piped.run();
    let read = told(
        &["doctor", "--from", &record.to_string_lossy(), "--json"],
        0,
    );
    assert_eq!(piped.code, Some(0), "{}", piped.stderr);
    assert_eq!(piped.stdout, read.stdout);
    let lines = told(
        &["monitor", "--status", "--form", "csv", "--output", "-"],
        0,
    );
    assert!(lines.stdout.lines().count() >= 1, "{}", lines.stdout);
    assert_eq!(lines.files.len(), 0, "{:?}", lines.files);
}

#[test]
fn what_is_read_is_not_written_over() {
    let folder = Folder::new();
    let record = folder.path("record.txt");
    let path = &*record.to_string_lossy();
    told(&["info", "--record", path], 0);
    let before = fs::read(&record).expect("written");
    let link = folder.path("link");
    std::os::unix::fs::symlink(&record, &link).expect("a link");
    let link = &*link.to_string_lossy();
    let netplan = folder.write("netplan.yaml", "network: {version: 2}\n");
    let netplan = &*netplan.to_string_lossy();
    for args in [
        &["doctor", "--from", path, "--output", path][..],
        &["doctor", "--from", path, "--report", "--output", link],
        &["cluster", "record", "--netplan", netplan, netplan],
    ] {
        let outcome = told(args, 2);
        assert!(
            outcome.stderr.contains("which is read"),
            "{}",
            outcome.stderr
        );
    }
    assert_eq!(fs::read(&record).expect("as before"), before);
    assert_eq!(
        fs::read(netplan).expect("as before"),
        b"network: {version: 2}\n"
    );
}

#[test]
fn the_systems_names_of_stdout_are_stdout() {
    let folder = Folder::new();
    let model = &*small_model(&folder).to_string_lossy().into_owned();
    let file = folder.path("out.safetensors");
    let stdout = File::create(&file).expect("a writable folder");
    let args = ["run", model, "--outputs", "/dev/stdout"];
    let outcome = sparkpilot(&args).start_with_stdout(stdout).end();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("least"), "{}", outcome.stderr);
    let tensors = sparkpilot::bench::read_tensors(&file).expect("tensors and nothing else");
    assert_eq!(tensors.len(), 1);
    told(&["run", model, "--outputs", "/dev/stdout", "--json"], 2);
}

#[test]
fn numbers_beyond_the_models_type_are_refused() {
    let folder = Folder::new();
    let model = &*small_model(&folder).to_string_lossy().into_owned();
    let values = vec![1e300f64; 64];
    let tensor = Tensor::new(vec![1, 64], TensorData::F64(values)).expect("fills its shape");
    let tensors = TensorMap::from([("x".to_owned(), tensor)]);
    let path = folder.path("large.safetensors");
    write_tensors(&path, &tensors).expect("a writable folder");
    let path = &*path.to_string_lossy();
    let outcome = told(&["run", model, "--inputs", path], 3);
    let told = &outcome.stderr;
    assert!(told.contains(path) && told.contains("64 values"), "{told}");
}

#[test]
fn a_record_that_says_nothing_of_buses_has_no_verdict_on_gpus() {
    let folder = Folder::new();
    let text =
        "== /sys/class/dmi/id/product_family\nDGX Spark\n== /sys/class/dmi/id/sys_vendor\nNVIDIA\n";
    let record = folder.write("dmi.txt", text);
    let outcome = told(
        &["doctor", "--from", &record.to_string_lossy(), "--json"],
        0,
    );
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    for id in ["driver.loaded", "gpu.usable", "driver.installed"] {
        let of = |list: &str| report[list].to_string().contains(&format!("\"{id}\""));
        assert!(!of("findings") && !of("passed"), "{id}: {report:#}");
    }
}
