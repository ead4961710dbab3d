//! The way between ranks is measured on real ones, here on one machine, which is no link and is not taken for one.

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use sparkpilot::hal::cluster::{Cluster, Host, Measurement, examine};
use sparkpilot::hal::doctor::Verdict;
use sparkpilot::hal::{Machine, Root, Sources};

use crate::process::{Material, Running, mpirun, run, signal, succeed, texts};

fn options(material: &Material, more: &[&str]) -> Vec<OsString> {
    let mut all: Vec<OsString> = ["measure", "--seconds", "1", "--output"]
        .map(Into::into)
        .into();
    all.push(material.path("measured.json").into());
    all.extend(more.iter().map(Into::into));
    all
}

fn read(material: &Material) -> Measurement {
    let text = fs::read_to_string(material.path("measured.json")).expect("is written");
    Measurement::parse(&text).expect("is a measurement")
}

#[test]
fn two_ranks_of_one_machine_are_measured_and_are_no_link() {
    let material = Material::new();
    let out = succeed(2, &options(&material, &["--message-bytes", "65536"]));
    let measured = read(&material);
    assert!(
        out.contains("Gb/s") && out.contains("measured.json"),
        "{out}"
    );
    let [a, b] = &measured.ranks[..] else {
        panic!("{measured:?}");
    };
    assert_eq!(
        (a, measured.pairs.len()),
        (b, 1),
        "one machine, one library, the same variables"
    );
    assert!(
        a.mpi.starts_with("Open MPI v") && a.build.starts_with(&a.mpi),
        "{a:?}"
    );
    let btl = a.environment.get("OMPI_MCA_btl").map(String::as_str);
    assert_eq!(btl, Some("self,vader,tcp"));
    assert_eq!((measured.message_bytes, &measured.rail), (65536, &None));
    let pair = measured.pairs[0];
    assert_eq!((pair.a, pair.b, pair.round_trip_us.n), (0, 1, 200));
    // It is one clock: further apart than the error it cannot be.
    assert!(
        pair.clock.ahead_us.abs() <= pair.clock.within_us,
        "{pair:?}"
    );
    for rate in [pair.from_a_gbps, pair.from_b_gbps] {
        assert!(rate.n >= 5 && rate.min > 0.0, "{rate:?}");
    }

    let host = |name| {
        let root = Root::at("a-folder-without-files");
        Host::read(name, &root, Machine::read(&Sources::files(root.clone())))
    };
    let report = examine(&Cluster {
        hosts: vec![host("one"), host("other")],
        measurements: vec![("measured.json".to_owned(), measured)],
    });
    for id in [
        "cluster.bandwidth",
        "cluster.rails",
        "cluster.mpi",
        "cluster.clocks",
    ] {
        let verdict = report.verdict(id);
        let Some(Verdict::NotExamined(why)) = verdict else {
            panic!("{id}: {verdict:?}");
        };
        assert!(why.contains("one host, which is not a link"), "{why}");
    }
}

#[test]
fn every_two_of_four_ranks_are_measured_by_the_options_of_the_first() {
    let material = Material::new();
    let first = options(&material, &["--message-bytes", "8192"]);
    let others = options(&material, &["--message-bytes", "4096", "--seconds", "500"]);
    // Clap takes an option once.
    let others: Vec<OsString> = others
        .into_iter()
        .enumerate()
        .filter(|(at, _)| ![1, 2].contains(at))
        .map(|(_, word)| word)
        .collect();
    let output = mpirun(&[(1, &first), (3, &others)])
        .output()
        .expect("mpirun is there");
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}\n{err}");
    let measured = read(&material);
    let pairs: Vec<_> = measured.pairs.iter().map(|pair| (pair.a, pair.b)).collect();
    let mut sorted = pairs.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]);
    assert_eq!(measured.message_bytes, 8192);
}

#[test]
fn what_cannot_be_measured_or_written_is_said_before() {
    let material = Material::new();
    let lone = run(1, &options(&material, &[]));
    let (_, err) = texts(&lone);
    assert!(
        !lone.status.success() && err.contains("1 ranks; 2 to 64"),
        "{err}"
    );
    let nowhere: Vec<OsString> = ["measure", "--output", "/no such folder/x.json"]
        .map(Into::into)
        .into();
    let began = Instant::now();
    let output = run(2, &nowhere);
    let (_, err) = texts(&output);
    assert!(
        !output.status.success() && err.contains("/no such folder/x.json"),
        "{err}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
    for wrong in ["4095", "33554433", "-1", "many"] {
        let output = run(2, &options(&material, &["--message-bytes", wrong]));
        assert!(!output.status.success(), "{wrong}");
    }
    for (wrong, words) in [
        (["--rail", ""], "--rail"),
        (["--rail", " "], "without --rail for all together"),
    ] {
        let output = run(2, &options(&material, &wrong));
        let (_, err) = texts(&output);
        assert!(!output.status.success() && err.contains(words), "{err}");
    }
    let to_stdout = run(2, &["measure", "--output", "-"].map(OsString::from));
    let (_, err) = texts(&to_stdout);
    assert!(
        !to_stdout.status.success() && err.contains("a file: mpirun mixes"),
        "{err}"
    );
    assert!(!material.path("measured.json").exists());
}

#[test]
fn a_stopped_or_killed_rank_ends_all_and_leaves_no_file() {
    for name in ["STOP", "KILL"] {
        let material = Material::new();
        let mut all: Vec<OsString> = [
            "measure",
            "--seconds",
            "500",
            "--stall-timeout",
            "3",
            "--output",
        ]
        .map(Into::into)
        .into();
        let file = material.path("measured.json");
        all.push(file.clone().into());
        let running = Running::start(2, &all, file.clone());
        let began = Instant::now();
        while running.ranks().len() < 2 {
            assert!(began.elapsed() < Duration::from_secs(20), "no ranks");
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_secs(1));
        signal(running.pid(1), name);
        let (_, output) = running.end(Duration::from_secs(10));
        let (_, err) = texts(&output);
        assert!(!output.status.success(), "{err}");
        let is_said =
            err.contains("nothing has moved for 3 s, it waits for others: all ranks are ended\n");
        assert!(is_said || name == "KILL", "{err}");
        assert!(!file.exists());
    }
}
