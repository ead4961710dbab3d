//! An adapter's folder as one unit: killed saves, refused writes, mixed files, other files.

#![allow(
    clippy::print_stdout,
    reason = "what each kill left is what a person runs it for"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use candle_core::{DType, Device, Tensor, Var};
use spark_dora::adapter::{CONFIG_FILE, TENSOR_FILE};
use spark_dora::{Adapter, DoraConfig, DoraError};

use crate::adapter::{Folder, linear, open, saved};
use crate::data::{noise, values};

/// Tells a child of these tests which folder to save into, over and over.
const CHILD: &str = "SPARK_DORA_TEST_SAVES";

/// Layers of the adapters saved by children: enough bytes to be interrupted while they are written.
const LAYERS: usize = 24;

/// Run number `run`: all of its B are `run`, its alpha is `10 run`, its dropout `run / 10`.
fn run(run: usize) -> Adapter {
    let config = DoraConfig::builder(8)
        .alpha(10.0 * run as f64)
        .dropout(run as f64 / 10.0);
    let mut adapter =
        Adapter::new(config.build().unwrap(), DType::F32, &Device::Cpu).expect("an adapter");
    let base = linear(256, 256, 1);
    for layer in 0..LAYERS {
        adapter
            .linear(&format!("layers.{layer}.fc"), &base)
            .unwrap();
    }
    for b in adapter.variables().b {
        b.set(&(Tensor::ones_like(&b).unwrap() * run as f64).unwrap())
            .unwrap();
    }
    adapter
}

/// Which run the folder holds.
fn held(folder: &Path) -> Result<usize, DoraError> {
    let mut adapter = open(folder)?;
    let alpha = adapter.config().lora_alpha;
    let dropout = adapter.config().lora_dropout;
    let mut runs = Vec::new();
    let base = linear(256, 256, 1);
    for layer in 0..LAYERS {
        let name = format!("layers.{layer}.fc");
        adapter.linear(&name, &base)?;
        let b = adapter
            .factors(&name)
            .expect("an adapted layer")
            .b()
            .unwrap()
            .clone();
        runs.extend(values(&b));
    }
    adapter.finish()?;
    assert!(runs.iter().all(|&b| b == runs[0]), "tensors of two runs");
    assert_eq!(
        alpha,
        10.0 * runs[0],
        "one run's tensors with another's alpha"
    );
    assert_eq!(
        dropout,
        runs[0] / 10.0,
        "one run's tensors with another's dropout"
    );
    Ok(runs[0] as usize)
}

#[test]
fn the_same_adapter_is_the_same_bytes() {
    let save = || {
        let folder = Folder::new("same");
        run(3).save(&folder.0).expect("is written");
        std::fs::read(folder.0.join(TENSOR_FILE)).expect("is there")
    };
    let first = save();
    // Its metadata have two dozen names: an order by chance would not come twice.
    assert!((0..4).all(|_| save() == first));
}

/// What a child does; as a test of its own, nothing.
#[test]
fn child_that_saves_two_adapters_in_turns() {
    let Some(folder) = std::env::var_os(CHILD) else {
        return;
    };
    let runs = [run(1), run(2)];
    loop {
        for run in &runs {
            if let Err(error) = run.save(Path::new(&folder)) {
                println!("refused: {error}");
                return;
            }
        }
    }
}

fn child(command: &mut Command, folder: &Path) -> Child {
    command
        .env(CHILD, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child")
}

fn this_test(name: &str) -> Vec<String> {
    [name, "--exact", "--nocapture", "--test-threads=1"]
        .map(str::to_owned)
        .to_vec()
}

const SAVES: &str = "saving::child_that_saves_two_adapters_in_turns";

/// Waits until `done` or fails.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_killed_save_leaves_one_runs_adapter_and_the_next_cleans_up() {
    let full = spark_testing::settings::full_tests();
    let kills = if full { 200 } else { 10 };
    let folder = Folder::new("killed");
    std::fs::write(folder.0.join("README.md"), "kept").unwrap();
    run(1).save(&folder.0).unwrap();
    let delays = noise(kills, 77);
    let (mut interrupted, mut held_by) = (0, [0; 3]);
    for delay in delays {
        let before = std::fs::metadata(folder.0.join(TENSOR_FILE))
            .unwrap()
            .modified()
            .unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut saving = child(command.args(this_test(SAVES)), &folder.0);
        wait_for("the child saves", || {
            let tensors = std::fs::metadata(folder.0.join(TENSOR_FILE));
            tensors.is_ok_and(|m| m.modified().unwrap() != before)
        });
        std::thread::sleep(Duration::from_micros((20_000.0 * (1.0 + delay)) as u64));
        saving.kill().unwrap();
        saving.wait().unwrap();
        let files = std::fs::read_dir(&folder.0).unwrap().count();
        let has_config = folder.0.join(CONFIG_FILE).exists();
        interrupted += usize::from(files != 3 || !has_config);
        held_by[held(&folder.0).expect("never refused: the tensors hold their settings")] += 1;
    }
    println!("{kills} kills, {interrupted} within a save; runs held: {held_by:?}");
    if full {
        assert!(
            interrupted > kills / 10,
            "kills must meet saves: {interrupted} did"
        );
    }
    run(2).save(&folder.0).unwrap();
    assert_eq!(held(&folder.0).unwrap(), 2);
    let mut names: Vec<_> = std::fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["README.md", CONFIG_FILE, TENSOR_FILE]);
}

#[test]
fn an_adapter_is_readable_at_every_moment_while_others_save() {
    let folder = Folder::new("concurrent");
    run(1).save(&folder.0).unwrap();
    let savers: Vec<Child> = (0..2)
        .map(|_| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            child(command.args(this_test(SAVES)), &folder.0)
        })
        .collect();
    let start = Instant::now();
    let mut seen = [0; 3];
    while start.elapsed() < Duration::from_millis(1500) {
        seen[held(&folder.0).expect("one run's adapter")] += 1;
    }
    for mut saver in savers {
        saver.kill().unwrap();
        saver.wait().unwrap();
    }
    assert!(seen[1] > 0 && seen[2] > 0, "both runs are seen: {seen:?}");
}

/// What cut-off saves of earlier versions and of this one leave behind.
#[test]
fn leftovers_of_dead_saves_go_and_other_files_stay() {
    let folder = saved("leftovers");
    let path = |name: &str| folder.0.join(name);
    let ours = [
        format!("{TENSOR_FILE}.123.new"),
        format!("{CONFIG_FILE}.123.new"),
        format!("{TENSOR_FILE}.99-0.new"),
        format!("{CONFIG_FILE}.99-0.old"),
    ];
    let theirs = [
        "README.md".to_owned(),
        format!("{TENSOR_FILE}.mine.new"),
        format!("{CONFIG_FILE}.old"),
        "training_args.bin".to_owned(),
    ];
    for name in ours.iter().chain(&theirs) {
        std::fs::write(path(name), "x").unwrap();
    }
    std::fs::create_dir(path("checkpoint-5")).unwrap();
    let mut adapter = open(&folder.0).unwrap();
    adapter.linear("a.fc", &linear(6, 5, 1)).unwrap();
    adapter.linear("b.fc", &linear(7, 6, 2)).unwrap();
    adapter.save(&folder.0).unwrap();
    for name in &ours {
        assert!(!path(name).exists(), "{name} is left over");
    }
    for name in &theirs {
        assert_eq!(std::fs::read(path(name)).unwrap(), b"x", "{name}");
    }
    assert!(path("checkpoint-5").is_dir());
}

/// The folder `saved` makes with other values of alpha.
fn two_saves() -> (Folder, Folder) {
    let save = |alpha: f64| {
        let folder = Folder::new("mixed");
        let config = DoraConfig::builder(2).alpha(alpha).build().unwrap();
        let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
        adapter.linear("a.fc", &linear(6, 5, 1)).unwrap();
        adapter.save(&folder.0).unwrap();
        folder
    };
    (save(4.0), save(40.0))
}

#[test]
fn settings_of_another_save_are_refused_and_the_setting_is_named() {
    let (one, two) = two_saves();
    std::fs::copy(two.0.join(CONFIG_FILE), one.0.join(CONFIG_FILE)).unwrap();
    let error = open(&one.0).err().expect("mixed files");
    assert!(
        matches!(
            &error,
            DoraError::MixedSaves {
                setting: "lora_alpha",
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("lora_alpha"), "{error}");

    // Notes that change nothing may be edited, as tools do that publish an adapter.
    let (one, _two) = two_saves();
    let path = one.0.join(CONFIG_FILE);
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace(
        "\"base_model_name_or_path\": null",
        "\"base_model_name_or_path\": \"a network\"",
    );
    std::fs::write(&path, text).unwrap();
    assert_eq!(
        open(&one.0).unwrap().config().other["base_model_name_or_path"],
        "a network"
    );
}

#[test]
fn a_save_that_was_cut_off_between_its_files_is_found() {
    // Tensors of this crate: their own settings.
    let (one, two) = two_saves();
    std::fs::remove_file(one.0.join(CONFIG_FILE)).unwrap();
    assert_eq!(open(&one.0).unwrap().config().lora_alpha, 4.0);
    // Even beside what an earlier save moved away.
    let moved = one.0.join(format!("{CONFIG_FILE}.7-0.old"));
    std::fs::copy(two.0.join(CONFIG_FILE), &moved).unwrap();
    assert_eq!(open(&one.0).unwrap().config().lora_alpha, 4.0);
    // Tensors of PEFT, which have none: those moved away.
    let tensors = candle_core::safetensors::load(one.0.join(TENSOR_FILE), &Device::Cpu).unwrap();
    candle_core::safetensors::save(&tensors, one.0.join(TENSOR_FILE)).unwrap();
    assert_eq!(open(&one.0).unwrap().config().lora_alpha, 40.0);
    std::fs::remove_file(&moved).unwrap();
    match open(&one.0).err().expect("no settings") {
        DoraError::Io { path, source } => {
            assert_eq!(path, one.0.join(CONFIG_FILE));
            assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_folder_in_a_files_place_is_an_error_and_the_other_file_stays() {
    let folder = saved("obstacle");
    let before = std::fs::read(folder.0.join(CONFIG_FILE)).unwrap();
    std::fs::remove_file(folder.0.join(TENSOR_FILE)).unwrap();
    std::fs::create_dir(folder.0.join(TENSOR_FILE)).unwrap();
    let error = run(1).save(&folder.0).unwrap_err().to_string();
    assert!(
        error.contains(TENSOR_FILE) && error.contains("folder"),
        "{error}"
    );
    assert_eq!(std::fs::read(folder.0.join(CONFIG_FILE)).unwrap(), before);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2);
}

/// The child's folder after it was refused, and what it said.
fn refused(command: &mut Command, folder: &Path) -> String {
    let output = child(command, folder).wait_with_output().expect("a child");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("refused: "));
    line.unwrap_or_else(|| panic!("not refused: {text}"))
        .to_owned()
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_an_error_with_its_cause_and_the_old_adapter_stays() {
    let folder = Folder::new("full");
    run(2).save(&folder.0).unwrap();
    let binary = std::env::current_exe().unwrap();
    // Files of at most 4 KiB stand for a disk with no more room.
    let script = "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .arg(binary)
        .args(this_test(SAVES));
    let line = refused(&mut command, &folder.0);
    assert!(
        line.contains(TENSOR_FILE) && line.contains("File too large"),
        "{line}"
    );
    assert_eq!(held(&folder.0).unwrap(), 2);
    assert_eq!(
        std::fs::read_dir(&folder.0).unwrap().count(),
        2,
        "nothing is left over"
    );
}

#[cfg(unix)]
#[test]
fn a_read_only_folder_is_an_error_with_its_cause_and_can_be_opened() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;

    let folder = Folder::new("read-only");
    run(2).save(&folder.0).unwrap();
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    let mode = |mode| {
        std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(0o555);
    let mut command = Command::new("/proc/self/exe");
    if is_root {
        // Root may write anywhere; somebody else then plays the user.
        command.uid(65534);
    }
    let line = refused(command.args(this_test(SAVES)), &folder.0);
    mode(0o755);
    assert!(line.contains("Permission denied"), "{line}");
    assert_eq!(held(&folder.0).unwrap(), 2);
}

#[test]
fn the_seed_of_the_dropout_is_found_again() {
    let folder = Folder::new("seed");
    let config = DoraConfig::builder(2)
        .dropout(0.5)
        .seed(u64::MAX - 5)
        .build()
        .unwrap();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    adapter.linear("a.fc", &linear(6, 5, 1)).unwrap();
    adapter.save(&folder.0).unwrap();
    assert_eq!(open(&folder.0).unwrap().config().seed, u64::MAX - 5);
}

#[test]
fn layers_that_were_not_offered_are_not_lost_by_saving() {
    let folder = saved("partial");
    let before = std::fs::read(folder.0.join(TENSOR_FILE)).unwrap();
    let mut adapter = open(&folder.0).unwrap();
    adapter.linear("a.fc", &linear(6, 5, 1)).unwrap();
    match adapter.save(&folder.0).unwrap_err() {
        DoraError::Tensors { unexpected, .. } => {
            assert!(
                unexpected.iter().all(|name| name.starts_with("b.fc.")),
                "{unexpected:?}"
            );
        }
        other => panic!("{other}"),
    }
    assert_eq!(std::fs::read(folder.0.join(TENSOR_FILE)).unwrap(), before);
}

#[test]
fn a_variable_that_is_no_number_is_refused_before_anything_is_written() {
    let folder = Folder::new("nan");
    let adapter = run(1);
    let b: &Var = &adapter.variables().b[0];
    b.set(&(Tensor::ones_like(b).unwrap() * f64::NAN).unwrap())
        .unwrap();
    let target = folder.0.join("new");
    match adapter.save(&target).unwrap_err() {
        DoraError::NotFinite { name, index } => {
            assert_eq!((name.as_str(), index), ("layers.0.fc.lora_B.weight", 0));
        }
        other => panic!("{other}"),
    }
    assert!(!target.exists());
}
