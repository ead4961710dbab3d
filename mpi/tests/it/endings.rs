//! Whatever ends one rank ends all, and leaves whole files.

use std::fs;
use std::time::Duration;

use crate::process::{Material, Running, checkpoints, run, signal, succeed, texts};

/// What remains to be done when a rank has gone.
const AT_MOST: Duration = Duration::from_secs(5);

/// A run that would take minutes, cut after two checkpoints.
fn long(material: &Material, more: &[&str]) -> Running {
    let mut options = material.train("run", &["--epochs", "100000"]);
    options.extend(more.iter().map(Into::into));
    let mut running = Running::start(4, &options, material.path("run"));
    running.wait_for_checkpoints(2);
    running
}

/// All checkpoints are whole, and the run goes on from the last of them.
#[track_caller]
fn goes_on(material: &Material) {
    let step = |path: &std::path::PathBuf| -> u64 {
        let name = path.file_name().expect("a name").to_string_lossy();
        name.trim_start_matches("step-").parse().expect("a number")
    };
    let last = checkpoints(&material.path("run")).last().map(step);
    let last = last.expect("a checkpoint");
    // It ends by itself, as soon as it has said where it goes on.
    let mut options = material.resume("run");
    options.extend(["--stall-timeout".into(), "30".into()]);
    let mut running = Running::start(2, &options, material.path("run"));
    let further = || checkpoints(&material.path("run")).last().map(step) > Some(last);
    let began = std::time::Instant::now();
    while !further() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "it does not go on"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    running.wait_for_checkpoints(1);
    signal(running.mpirun(), "TERM");
    let (_, output) = running.end(AT_MOST);
    let (out, err) = texts(&output);
    let said = format!("goes on after step {last}");
    assert!(out.contains(&said), "{said} in {out}\n{err}");
    assert!(!err.contains("passed over"), "{err}");
}

#[test]
fn a_killed_rank_ends_all() {
    for rank in [0, 3] {
        let material = Material::new();
        let running = long(&material, &[]);
        signal(running.pid(rank), "KILL");
        let (_, output) = running.end(AT_MOST);
        assert!(!output.status.success());
        goes_on(&material);
    }
}

#[test]
fn a_stopped_rank_ends_all_after_the_timeout() {
    for rank in [0, 2] {
        let material = Material::new();
        let running = long(&material, &["--stall-timeout", "3"]);
        signal(running.pid(rank), "STOP");
        let (took, output) = running.end(Duration::from_secs(3) + AT_MOST);
        let (_, err) = texts(&output);
        assert!(
            !output.status.success() && took > Duration::from_secs(2),
            "{took:?}"
        );
        assert!(
            err.contains("nothing has moved for 3 s, it waits for others"),
            "{err}"
        );
        goes_on(&material);
    }
}

#[test]
fn a_signal_to_one_rank_or_to_mpirun_ends_all_and_leaves_no_half_files() {
    for (rank, name) in [
        (Some(0), "TERM"),
        (Some(1), "INT"),
        (None, "TERM"),
        (None, "INT"),
    ] {
        let material = Material::new();
        let running = long(&material, &[]);
        let pid = rank.map_or(running.mpirun(), |rank| running.pid(rank));
        signal(pid, name);
        let (_, output) = running.end(AT_MOST);
        assert!(!output.status.success(), "{rank:?} {name}");
        let (out, err) = texts(&output);
        match rank {
            Some(0) => {
                let command = "go on with: mpirun -n 4 sparkpilot-mpi resume --output ";
                assert!(out.contains(command), "{out}");
                let share = out.lines().find_map(|line| line.strip_suffix(" %"));
                let share = share.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
                assert!(
                    share.is_some_and(|share| (0.0..=100.0).contains(&share)),
                    "{out}"
                );
            }
            Some(_) => assert!(err.contains("rank 1: ended by a signal"), "{err}"),
            None => {}
        }
        for entry in fs::read_dir(material.path("run")).expect("is listed") {
            let entry = entry.expect("is listed").file_name();
            let known = ["run.json", "metrics.jsonl", "checkpoints", "adapter"];
            assert!(known.iter().any(|known| entry == *known), "{entry:?}");
        }
        goes_on(&material);
    }
}

#[test]
fn a_checkpoint_that_cannot_be_written_ends_all() {
    let material = Material::new();
    let place = material.path("run").join("checkpoints");
    fs::create_dir_all(&place).expect("a writable folder");
    // Where the second checkpoint is filled.
    let in_the_way = place.join(".step-00000010.new");
    fs::write(&in_the_way, "not a folder").expect("a writable folder");
    let output = run(4, &material.train("run", &["--epochs", "100000"]));
    let (_, err) = texts(&output);
    assert!(!output.status.success());
    assert!(
        err.contains("rank 0: ") && err.contains(".step-00000010.new"),
        "{err}"
    );
    let whole = checkpoints(&material.path("run"));
    let is_before = |path: &std::path::PathBuf| *path < place.join("step-00000010");
    assert!(
        !whole.is_empty() && whole.iter().all(is_before),
        "{whole:?}"
    );
    fs::remove_file(in_the_way).expect("is there");
    goes_on(&material);
}

#[test]
fn a_rank_that_has_no_data_ends_all() {
    let material = Material::new();
    let options = material.train("run", &[]);
    let mut others = options.clone();
    let at = options.iter().position(|word| word == "--data");
    others[at.expect("an option") + 1] = material.path("nowhere.safetensors").into();
    let output = crate::process::mpirun(&[(1, &options), (1, &others)]).output();
    let output = output.expect("mpirun is there");
    let (_, err) = texts(&output);
    assert!(!output.status.success());
    assert!(
        err.contains("rank 1: ") && err.contains("nowhere.safetensors"),
        "{err}"
    );
    assert!(!material.path("run").join("run.json").exists());
    // Nothing is in the way of another try.
    succeed(2, &material.train("run", &["--epochs", "1"]));
}
