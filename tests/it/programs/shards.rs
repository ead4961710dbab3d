//! Shards of `sparkpilot sim run` as processes: shared out, killed, damaged, mixed up, and merged.
//!
//! Every merged report is held against that of one process, byte for byte; the lines of its time and
//! threads are the only ones that may be missing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::sparkpilot::shards::{Identity, Launcher, decode, encode, file_name};
use ::sparkpilot::sim::run::{drives_from_bytes, drives_to_bytes};

use super::{Folder, Outcome, Program};

/// 330 drives, of which the last are two to a scenario: six chunks.
const SWEEP: [&str; 8] = [
    "--suite",
    "random",
    "--scenarios",
    "165",
    "--replicates",
    "2",
    "--controller",
    "pid",
];
const N_CHUNKS: u64 = 6;

/// What launchers set; none of it comes from whoever runs these tests.
const OF_LAUNCHERS: [&str; 15] = [
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "RANK",
    "WORLD_SIZE",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_ARRAY_TASK_MIN",
    "SLURM_ARRAY_TASK_MAX",
    "SLURM_ARRAY_TASK_STEP",
    "SLURM_ARRAY_TASK_COUNT",
    "JOB_COMPLETION_INDEX",
];

fn program(args: &[&str]) -> Program {
    let mut program = Program::at(Path::new(env!("CARGO_BIN_EXE_sparkpilot"))).args(args);
    for name in OF_LAUNCHERS {
        program.command.env_remove(name);
    }
    program
}

/// A shard of the sweep.
fn shard(shard: &str, folder: &Path) -> Program {
    let to = folder.to_string_lossy();
    let args = [&["sim", "run"], &SWEEP[..]].concat();
    program(&args).args(["--shard", shard, "--folder", &*to])
}

#[track_caller]
fn done(outcome: &Outcome) {
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.files.is_empty(), "{:?}", outcome.files);
}

/// The reports of one process.
fn of_one_process() -> [String; 2] {
    let place = Folder::new();
    let json = place.path("d.json");
    let args = [&["sim", "run"], &SWEEP[..]].concat();
    let outcome = program(&args).args([Path::new("--json"), &json]).run();
    done(&outcome);
    let json = fs::read_to_string(json).unwrap();
    let times = ["  \"wall_s\": ", "  \"threads\": "];
    let without =
        json.lines().map(
            |line| match times.iter().find(|time| line.starts_with(**time)) {
                Some(time) => format!("{time}null,\n"),
                None => format!("{line}\n"),
            },
        );
    let json: String = without.collect();
    let told: String = outcome
        .stdout
        .split_inclusive("\n\n")
        .filter(|paragraph| !paragraph.starts_with("Took "))
        .collect();
    assert!(told.len() < outcome.stdout.len() && json.contains("\"wall_s\": null"));
    [told, json.trim_end().to_owned()]
}

fn merge(folders: &[&Path]) -> Outcome {
    program(&["sim", "merge"]).args(folders).run()
}

#[track_caller]
fn is_merged_to(folders: &[&Path], want: &[String; 2]) {
    let place = Folder::new();
    let json = place.path("d.json");
    let outcome = program(&["sim", "merge"])
        .args(folders)
        .args([Path::new("--json"), &json])
        .run();
    done(&outcome);
    assert_eq!(outcome.stdout, want[0]);
    assert!(
        fs::read_to_string(json).unwrap() == want[1],
        "other figures"
    );
}

#[track_caller]
fn is_refused(outcome: &Outcome, code: i32, words: &[&str]) {
    assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "");
    for word in words {
        assert!(outcome.stderr.contains(word), "{word}: {}", outcome.stderr);
    }
}

fn chunk(folder: &Folder, number: u64) -> PathBuf {
    folder.path(&file_name(number))
}

#[test]
fn any_number_of_processes_comes_to_the_report_of_one() {
    let want = of_one_process();
    for of in [1, 2, 3, 7, 64] {
        let (one, two) = (Folder::new(), Folder::new());
        // As on two machines that share no folder; all at once, as a launcher starts them.
        let numbers: Vec<u64> = (1..=of).collect();
        for some in numbers.chunks(8) {
            let started: Vec<_> = some
                .iter()
                .map(|k| {
                    let folder = if k % 2 == 0 { &two } else { &one };
                    shard(&format!("{k}/{of}"), &folder.0).start()
                })
                .collect();
            started.into_iter().for_each(|it| done(&it.end()));
        }
        let n_chunks = one.names().len() + two.names().len();
        assert_eq!(n_chunks as u64, N_CHUNKS, "{of} shards");
        is_merged_to(&[&one.0, &two.0], &want);
    }
}

#[test]
fn killed_processes_are_gone_on_with_and_done_work_is_skipped() {
    let want = of_one_process();
    let folder = Folder::new();
    for ms in [3, 30, 90, 150, 240, 400] {
        let mut running = shard("1/1", &folder.0).start();
        std::thread::sleep(Duration::from_millis(ms));
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        let early = merge(&[&folder.0]);
        let is_whole = early.code == Some(0);
        assert!(is_whole || early.code == Some(3), "{}", early.stderr);
    }
    done(&shard("1/1", &folder.0).run());
    is_merged_to(&[&folder.0], &want);
    let again = shard("1/1", &folder.0).run();
    done(&again);
    let told = "6 of 6 chunks; 6 were there, 0 driven (0 drives)";
    assert!(again.stdout.contains(told), "{}", again.stdout);
}

#[test]
fn two_processes_on_one_shard_do_no_harm() {
    let want = of_one_process();
    let folder = Folder::new();
    let both = [(); 2].map(|()| shard("1/1", &folder.0).start());
    both.into_iter().for_each(|it| done(&it.end()));
    assert_eq!(folder.names().len() as u64, N_CHUNKS);
    is_merged_to(&[&folder.0], &want);
}

#[test]
fn damage_and_gaps_are_refused_and_mended() {
    let want = of_one_process();
    let folder = Folder::new();
    done(&shard("1/2", &folder.0).run());
    is_refused(&merge(&[&folder.0]), 3, &["3 of 6 chunks", "1, 3, 5"]);
    done(&shard("2/2", &folder.0).run());
    let whole = fs::read(chunk(&folder, 3)).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for (bytes, word) in [
        (&whole[..whole.len() / 3], "checksum"),
        (&whole[..9], "9 bytes"),
        (&flipped, "checksum"),
    ] {
        fs::write(chunk(&folder, 3), bytes).unwrap();
        let words = ["chunk-00000003.shard", "damaged", word];
        is_refused(&merge(&[&folder.0]), 3, &words);
        let mended = shard("1/1", &folder.0).run();
        done(&mended);
        assert!(mended.stdout.contains("5 were there, 1 driven (64 drives)"));
        assert!(mended.stderr.contains("chunk-00000003.shard"));
        assert!(fs::read(chunk(&folder, 3)).unwrap() == whole);
    }
    is_merged_to(&[&folder.0], &want);
    // No shard would write it anew.
    fs::write(chunk(&folder, 6), &whole).unwrap();
    let words = ["chunk-00000006.shard", "it is chunk 3", "remove it"];
    is_refused(&merge(&[&folder.0]), 3, &words);
    is_refused(&shard("1/1", &folder.0).run(), 3, &words);
    fs::remove_file(chunk(&folder, 6)).unwrap();
    is_merged_to(&[&folder.0], &want);
    // The last chunk is shorter.
    fs::remove_file(chunk(&folder, 5)).unwrap();
    let mended = shard("6/6", &folder.0).run();
    assert!(
        mended.stdout.contains("1 driven (10 drives)"),
        "{}",
        mended.stdout
    );
}

#[test]
fn other_runs_and_other_programs_are_refused_with_the_difference() {
    let (folder, beside) = (Folder::new(), Folder::new());
    done(&shard("1/2", &folder.0).run());
    for (option, value, words) in [
        (
            "--controller",
            "torque",
            &["controller: torque here, pid there"][..],
        ),
        (
            "--replicates",
            "3",
            &["replicates: 3 here, 2 there", "items: 495 here"],
        ),
        ("--scenarios", "166", &["scenarios: 166, ", "here, 165, "]),
    ] {
        let place = SWEEP.iter().position(|it| *it == option).unwrap();
        let mut sweep = SWEEP;
        sweep[place + 1] = value;
        let args = [&["sim", "run"], &sweep[..]].concat();
        let to = folder.0.to_string_lossy();
        let other = program(&args)
            .args(["--shard", "2/2", "--folder", &*to])
            .run();
        is_refused(&other, 3, words);
        let to = beside.0.to_string_lossy();
        done(
            &program(&args)
                .args(["--shard", "2/2", "--folder", &*to])
                .run(),
        );
        is_refused(&merge(&[&beside.0, &folder.0]), 3, &["different runs"]);
        fs::remove_dir_all(&beside.0).unwrap();
    }
    // Neither is there yet when the other looks: whoever ends later finds the other's chunks.
    let args = [&["sim", "run"], &SWEEP[..6], &["--controller", "torque"]].concat();
    let to = beside.0.to_string_lossy();
    let other = program(&args).args(["--shard", "2/2", "--folder", &*to]);
    let both = [shard("1/2", &beside.0).start(), other.start()].map(|it| it.end());
    let is_told = |it: &Outcome| it.code == Some(3) && it.stderr.contains("controller: ");
    assert!(
        both.iter().any(is_told),
        "{} {}",
        both[0].stderr,
        both[1].stderr
    );
    fs::remove_dir_all(&beside.0).unwrap();
    // What another version would have written: the same chunk with another line, whole.
    done(&shard("2/2", &beside.0).run());
    let written = decode(&fs::read(chunk(&beside, 1)).unwrap()).unwrap();
    let mut run = written.run.clone();
    let mut lines = written.run.identity.lines();
    let work = lines.next().expect("the line of the work").1;
    run.identity = lines.fold(Identity::new(work), |it, (name, value)| match name {
        "program" => it.with(name, "sparkpilot 0.0.9"),
        name => it.with(name, value),
    });
    let bytes = encode(&run, written.number, &written.payload).unwrap();
    fs::write(chunk(&beside, 1), bytes).unwrap();
    let words = ["different runs (program: sparkpilot ", "sparkpilot 0.0.9"];
    is_refused(&merge(&[&folder.0, &beside.0]), 3, &words);
    is_refused(
        &shard("2/2", &beside.0).run(),
        3,
        &["program: ", "0.0.9 there"],
    );
    // Whole chunks of other work are not taken for drives.
    let other = Folder::new();
    run.identity = Identity::new("squares");
    for number in 0..N_CHUNKS {
        fs::write(chunk(&other, number), encode(&run, number, b"").unwrap()).unwrap();
    }
    is_refused(&merge(&[&other.0]), 3, &["`squares`"]);
    run.identity = written.run.identity.clone();
    for number in 0..N_CHUNKS {
        let bytes = encode(&run, number, &written.payload).unwrap();
        fs::write(chunk(&other, number), bytes).unwrap();
    }
    is_refused(
        &merge(&[&other.0]),
        3,
        &["chunk-00000000.shard", "other drives than it says"],
    );
}

#[test]
fn launchers_say_which_shard_it_is() {
    let folder = Folder::new();
    let open_mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "3")];
    let with = |asked: &str, set: &[(&str, &str)]| {
        let program = shard(asked, &folder.0);
        set.iter()
            .fold(program, |it, (name, value)| it.env(name, value))
    };
    let outcome = with("auto", &open_mpi).run();
    done(&outcome);
    assert!(
        outcome.stdout.starts_with("shard 2/3: 2 of 6"),
        "{}",
        outcome.stdout
    );
    let outcome = with("auto/4", &[("JOB_COMPLETION_INDEX", "3")]).run();
    assert!(
        outcome.stdout.starts_with("shard 4/4: 1 of 6"),
        "{}",
        outcome.stdout
    );
    let both = [&open_mpi[..], &[("PMI_RANK", "0"), ("PMI_SIZE", "3")]].concat();
    is_refused(
        &with("auto", &both).run(),
        2,
        &["OMPI_COMM_WORLD_RANK", "PMI_RANK"],
    );
    is_refused(&with("auto", &[]).run(), 2, &["no launcher"]);
    let names = Launcher::ALL.map(Launcher::name);
    for wrong in ["0/2", "3/2", "2", "1/x", "junk", "auto/0", "openmpi"] {
        let words = [&[wrong, "auto/N"], &names[..]].concat();
        is_refused(&shard(wrong, &folder.0).run(), 2, &words);
    }
    let help = program(&["sim", "run", "--help"]).run().stdout;
    for name in names.iter().chain(&["auto/N"]) {
        assert!(help.contains(name), "{name}: {help}");
    }
    let args = [&["sim", "run", "--shard", "1/2"], &SWEEP[..]].concat();
    is_refused(&program(&args).run(), 2, &["--folder"]);
    let json = shard("1/2", &folder.0).args(["--json", "d.json"]).run();
    is_refused(&json, 2, &["--json"]);
    is_refused(&program(&["sim", "merge"]).run(), 2, &["DIR"]);
    is_refused(&merge(&[Path::new("absent")]), 5, &["absent"]);
    is_refused(&merge(&[&Folder::new().0]), 3, &["no chunk"]);
}

#[test]
fn what_cannot_be_written_leaves_nothing_and_is_gone_on_with() {
    let want = of_one_process();
    let folder = Folder::new();
    let to = folder.0.to_string_lossy();
    // Files may not grow beyond 4 KiB: writing fails half way, as on a full disk.
    let script = "trap '' XFSZ; ulimit -f 4; exec \"$@\"";
    let mut limited = Program::at(Path::new("/bin/bash"));
    for name in OF_LAUNCHERS {
        limited.command.env_remove(name);
    }
    let outcome = limited
        .args([
            "-c",
            script,
            "bash",
            env!("CARGO_BIN_EXE_sparkpilot"),
            "sim",
            "run",
        ])
        .args(SWEEP)
        .args(["--shard", "1/1", "--folder", &*to])
        .run();
    is_refused(&outcome, 5, &["cannot write `", "chunk-00000000.shard"]);
    assert!(folder.names().is_empty(), "{:?}", folder.names());
    done(&shard("1/1", &folder.0).run());
    is_merged_to(&[&folder.0], &want);
    // Nothing is left to write. (Root may write all the same, and the test says less.)
    let set = |mode| fs::set_permissions(&folder.0, fs::Permissions::from_mode(mode)).unwrap();
    set(0o555);
    let complete = shard("1/1", &folder.0).run();
    set(0o755);
    done(&complete);
    assert!(
        complete.stdout.contains("6 were there, 0 driven"),
        "{}",
        complete.stdout
    );
}

#[test]
fn no_report_takes_the_place_of_a_chunk() {
    let (folder, other) = (Folder::new(), Folder::new());
    done(&shard("1/1", &folder.0).run());
    let before = fs::read(chunk(&folder, 0)).unwrap();
    let link = other.path("link.json");
    std::os::unix::fs::symlink(chunk(&folder, 0), &link).unwrap();
    let elsewhere = chunk(&other, 7);
    for json in [&chunk(&folder, 0), &chunk(&folder, 6), &link, &elsewhere] {
        let json = [Path::new("--json"), json];
        let merged = program(&["sim", "merge"])
            .args([&folder.0])
            .args(json)
            .run();
        is_refused(&merged, 2, &["name of a shard's chunk"]);
        let args = [&["sim", "run"], &SWEEP[..]].concat();
        is_refused(
            &program(&args).args(json).run(),
            2,
            &["name of a shard's chunk"],
        );
    }
    assert!(fs::read(chunk(&folder, 0)).unwrap() == before);
    // A chunk that lies elsewhere and is linked to.
    let away = other.path("away.json");
    fs::rename(chunk(&folder, 0), &away).unwrap();
    std::os::unix::fs::symlink(&away, chunk(&folder, 0)).unwrap();
    let merged = program(&["sim", "merge"]).args([&folder.0]);
    is_refused(
        &merged.args([Path::new("--json"), &away]).run(),
        2,
        &["which is read"],
    );
    assert!(fs::read(&away).unwrap() == before);
    assert_eq!(folder.names().len() as u64, N_CHUNKS);
}

#[test]
fn figures_that_are_no_numbers_are_failures_and_payloads_that_are_no_drives_name_their_file() {
    let folder = Folder::new();
    done(&shard("1/1", &folder.0).run());
    let written = decode(&fs::read(chunk(&folder, 4)).unwrap()).unwrap();
    let mut drives = drives_from_bytes(&written.payload).unwrap();
    drives[3].outcome.as_mut().unwrap().jerk_rms = f64::NAN;
    let put = |payload: &[u8]| {
        let bytes = encode(&written.run, 4, payload).unwrap();
        fs::write(chunk(&folder, 4), bytes).unwrap();
    };
    put(&drives_to_bytes(&drives));
    let json = folder.path("d.json");
    let merged = program(&["sim", "merge"]).args([&folder.0]);
    let merged = merged.args([Path::new("--json"), &json]).run();
    assert_eq!(merged.code, Some(1), "{}", merged.stderr);
    for text in [&merged.stdout, &fs::read_to_string(&json).unwrap()] {
        assert!(text.contains("the drive's jerk_rms is NaN"), "{text}");
    }
    assert!(
        merged.stdout.contains("330 drives, 1 failed"),
        "{}",
        merged.stdout
    );
    put(&written.payload[1..]);
    let words = ["chunk-00000004.shard", "are not drives of a run"];
    is_refused(&merge(&[&folder.0]), 3, &words);
}

#[test]
fn runs_of_other_scenarios_under_the_same_names_are_not_compared() {
    let place = Folder::new();
    let scenarios = |name: &str, offset: f64| {
        let one = |idx| {
            format!(
                "[[scenario]]\nname = \"s{idx}\"\nduration_s = 2.0\nstart = {{ speed = 20.0, offset = {offset:?} }}\n"
            )
        };
        let file = place.write(name, (0..6).map(one).collect::<String>());
        file.to_string_lossy().into_owned()
    };
    let (left, middle) = (scenarios("left.toml", 0.5), scenarios("middle.toml", 0.0));
    let drive = |file: &str, controller: &str, name: &str| {
        let json = place.path(name).to_string_lossy().into_owned();
        let args = [
            "sim",
            "run",
            "--file",
            file,
            "--controller",
            controller,
            "--json",
            &json,
        ];
        done(&program(&args).run());
        json
    };
    let one = drive(&left, "pid", "one.json");
    let two = drive(&left, "perfect", "two.json");
    let other = drive(&middle, "perfect", "other.json");
    let compare = |args: &[&str]| program(&[&["sim", "compare"], args].concat()).run();
    let saved = |one: &str, two: &str| compare(&["--baseline-run", one, "--candidate-run", two]);
    let now = |file: &str| {
        let before = ["--baseline-run", &one];
        compare(&[&before[..], &["--candidate", "perfect", "--file", file]].concat())
    };
    for fine in [saved(&one, &two), now(&left)] {
        assert!(
            fine.code == Some(0) || fine.code == Some(1),
            "{}",
            fine.stderr
        );
        assert!(fine.stdout.contains("6 drives of each"), "{}", fine.stdout);
    }
    for refused in [saved(&one, &other), saved(&other, &one), now(&middle)] {
        is_refused(
            &refused,
            3,
            &["different scenarios (baseline: 6, ", "candidate: 6, "],
        );
    }
    let text = fs::read_to_string(&two).unwrap();
    let line = text
        .lines()
        .find(|it| it.starts_with("  \"scenarios\": "))
        .expect("a line");
    let silent = place.write("silent.json", text.replace(line, "  \"scenarios\": null,"));
    is_refused(
        &saved(&one, &silent.to_string_lossy()),
        3,
        &["silent.json", "which scenarios"],
    );
    // Long files and those of another kind cost nothing.
    let long = place.write("long.json", &text);
    let file = fs::File::options().append(true).open(&long).unwrap();
    file.set_len(1 << 40).unwrap();
    is_refused(
        &saved(&one, &long.to_string_lossy()),
        3,
        &["long.json", "at most"],
    );
    is_refused(
        &saved(&one, &left),
        3,
        &["left.toml", "does not begin as a run's JSON"],
    );
    let threads = [
        "--baseline-run",
        &one,
        "--candidate-run",
        &two,
        "--threads",
        "2",
    ];
    is_refused(&compare(&threads), 2, &["--threads"]);
}

#[test]
fn runs_that_were_driven_before_are_compared_as_those_that_are_driven_now() {
    let place = Folder::new();
    let of = |controller: &str| {
        let json = place.path(&format!("{controller}.json"));
        let to = place.path(controller);
        let sweep = [
            "--suite",
            "random",
            "--scenarios",
            "40",
            "--controller",
            controller,
        ];
        let args = [&["sim", "run", "--shard", "1/1"], &sweep[..]].concat();
        done(&program(&args).args([Path::new("--folder"), &to]).run());
        let merged = program(&["sim", "merge"]);
        done(&merged.args([&*to, Path::new("--json"), &json]).run());
        json.to_string_lossy().into_owned()
    };
    let (perfect, pid) = (of("perfect"), of("pid"));
    let compare = |more: &[&str]| program(&[&["sim", "compare"], more].concat()).run();
    let suite = ["--suite", "random", "--scenarios", "40"];
    let both = ["--baseline", "perfect", "--candidate", "pid"];
    let now = compare(&[&suite[..], &both].concat());
    assert_eq!(now.code, Some(1), "{}", now.stderr);
    let runs = ["--baseline-run", &perfect, "--candidate-run", &pid];
    let mixed = ["--baseline-run", &perfect, "--candidate", "pid"];
    let out = place.path("out");
    let to = out.to_string_lossy();
    let to_folder = [&runs[..], &["--folder", &*to]].concat();
    for args in [&runs[..], &[&suite[..], &mixed].concat(), &to_folder] {
        let before = compare(args);
        assert_eq!(before.code, Some(1), "{}", before.stderr);
        assert_eq!(before.stdout, now.stdout, "{args:?}");
    }
    assert!(out.join("report.html").is_file());
    let one = ["--baseline-run", &perfect];
    is_refused(&compare(&one), 2, &["--candidate"]);
    is_refused(&compare(&[&runs[..], &suite].concat()), 2, &["name none"]);
    is_refused(
        &compare(&[&one[..], &both].concat()),
        2,
        &["--baseline-run"],
    );
    let bad = place.write("bad.json", "{}");
    let bad = bad.to_string_lossy();
    let with_bad = ["--candidate-run", &*bad];
    is_refused(
        &compare(&[&one[..], &with_bad].concat()),
        3,
        &["bad.json", "no report"],
    );
    let absent = ["--candidate-run", "absent.json"];
    is_refused(&compare(&[&one[..], &absent].concat()), 5, &["absent.json"]);
    // Of other scenarios.
    let few = ["--suite", "random", "--scenarios", "39"];
    is_refused(&compare(&[&few[..], &mixed].concat()), 3, &["40", "39"]);
}
