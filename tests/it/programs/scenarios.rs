//! `sim search`, `sim report` and `sim bench`: what is found is driven again, what was saved is told again.

use std::fs;
use std::path::Path;

use super::matrix::sparkpilot as program;
use super::{Folder, Outcome};

fn run(args: &[&str]) -> Outcome {
    program(args).run()
}

#[test]
fn the_worst_scenario_that_is_found_is_driven_again() {
    let folder = Folder::new();
    let place = |name: &str| folder.path(name).to_string_lossy().into_owned();
    let (scenario, svg, json) = (place("worst.toml"), place("worst.svg"), place("worst.json"));
    let search = [
        "sim",
        "search",
        "--suite",
        "ncap-standing",
        "--controller",
        "nothing",
        "--population",
        "20",
        "--rounds",
        "3",
    ];
    let files = ["--scenario", &*scenario, "--svg", &svg, "--json", &json];
    let outcome = run(&[&search[..], &["--vary", "speed=10..20"], &files].concat());
    assert_eq!(
        outcome.code,
        Some(1),
        "it ends in a collision: {}",
        outcome.stderr
    );
    assert!(
        outcome.stdout.contains("by danger in 60 drives"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome.stdout.contains("at speed ") && outcome.stdout.contains("a collision"),
        "{}",
        outcome.stdout
    );
    let found: serde_json::Value =
        serde_json::from_slice(&fs::read(&json).expect("there")).expect("JSON");
    let speed = found["varied"][0]["value"].as_f64().expect("a number");
    // Whoever neither steers nor brakes hits hardest who drives fastest.
    assert!((18.0..=20.0).contains(&speed), "{found:#}");
    assert!(
        found["score"].as_f64().expect("a number") > 110.0,
        "{found:#}"
    );
    assert!(fs::read_to_string(&svg).expect("there").starts_with("<svg"));
    let again = [
        "sim",
        "replay",
        "--file",
        &scenario,
        "--controller",
        "nothing",
        "--output",
        "-",
    ];
    let again = run(&again);
    assert_eq!(
        again.stdout,
        fs::read_to_string(&svg).expect("there"),
        "{}",
        again.stderr
    );
    let same = run(&[&search[..], &["--vary", "speed=10..20", "--json", "-"]].concat());
    assert_eq!(
        same.stdout,
        fs::read_to_string(&json).expect("there"),
        "the same seed finds the same"
    );

    for (more, told) in [
        (
            &["--vary", "colour=1..2"][..],
            "no parameter `colour`; there are speed,",
        ),
        (&["--vary", "speed=2..1"], "2 is above 1"),
        (&["--vary", "speed=nan..1"], "no finite number"),
        (&["--vary", "speed"], "PARAMETER=LOW..HIGH"),
        (
            &["--vary", "speed=1..2", "--worst", "beauty"],
            "danger or a metric: ",
        ),
        (
            &["--vary", "speed=1..2", "--scenario", "worst.yaml"],
            ".toml or .json",
        ),
        (&[], "--vary"),
    ] {
        let outcome = run(&[&search[..], more].concat());
        assert_eq!(outcome.code, Some(2), "{more:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(told),
            "{more:?}: {}",
            outcome.stderr
        );
        assert!(outcome.files.is_empty(), "{more:?}: {:?}", outcome.files);
    }
    let none = [
        "--vary",
        "speed=1..2",
        "--worst",
        "headway_min",
        "--controller",
        "pid",
        "--suite",
        "beyond-the-car",
    ];
    let none = run(&[
        &["sim", "search", "--population", "5", "--rounds", "1"],
        &none[..],
    ]
    .concat());
    assert!(
        none.code == Some(3) && none.stderr.contains("no drive has `headway_min`"),
        "{}",
        none.stderr
    );
}

#[test]
fn a_saved_run_is_told_as_it_was_and_written_as_the_same_file() {
    let folder = Folder::new();
    let place = |name: &str| folder.path(name).to_string_lossy().into_owned();
    let (saved, html, markdown, again) = (
        place("run.json"),
        place("run.html"),
        place("run.md"),
        place("again.json"),
    );
    let drive = [
        "sim",
        "run",
        "--suite",
        "random",
        "--scenarios",
        "12",
        "--controller",
        "pid",
        "--json",
        &saved,
    ];
    let driven = run(&drive);
    assert_eq!(driven.code, Some(0), "{}", driven.stderr);
    let report = [
        "sim",
        "report",
        &saved,
        "--html",
        &html,
        "--markdown",
        &markdown,
        "--json",
        &again,
    ];
    let told = run(&report);
    assert_eq!(
        (told.code, &told.stdout),
        (Some(0), &driven.stdout),
        "{}",
        told.stderr
    );
    let text = |path: &str| fs::read_to_string(path).expect("was written");
    assert_eq!(text(&again), text(&saved));
    assert_eq!(text(&markdown), driven.stdout);
    assert!(text(&html).contains("12 drives, 0 failed") && text(&html).contains("<svg"));
    let mut piped = program(&["sim", "report", "-", "--json", "-"]);
    piped.command.stdin(fs::File::open(&saved).expect("there"));
    let piped = piped.run();
    assert_eq!(
        (piped.code, &piped.stdout),
        (Some(0), &text(&saved)),
        "{}",
        piped.stderr
    );
    assert!(
        piped.stderr.contains("# pid"),
        "words go to stderr: {}",
        piped.stderr
    );

    let other = text(&saved).replace("spark-sim-run/1", "spark-sim-run/9");
    let other = folder
        .write("other.json", other)
        .to_string_lossy()
        .into_owned();
    let failed = text(&saved).replacen("\"metrics\": {", "\"was\": {", 1);
    let failed = folder
        .write("wrong.json", failed)
        .to_string_lossy()
        .into_owned();
    for (path, code, why) in [
        (
            &*other,
            3,
            "its schema is `spark-sim-run/9`, and `spark-sim-run/1` is read",
        ),
        (&failed, 3, "unknown field `was`"),
        ("missing.json", 5, "missing.json"),
    ] {
        let refused = run(&["sim", "report", path]);
        assert_eq!(refused.code, Some(code), "{}", refused.stderr);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
    let over = run(&["sim", "report", &saved, "--html", &saved]);
    assert_eq!(over.code, Some(2), "{}", over.stderr);
}

#[test]
fn steps_a_second_are_measured() {
    let bench = [
        "sim",
        "bench",
        "--suite",
        "built-in",
        "--controller",
        "pid",
        "--runs",
        "2",
        "--threads",
        "1",
    ];
    let outcome = run(&bench);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome
            .stdout
            .contains("steps a second in the median of 2 runs"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome.stdout.contains("threads: 1, 5 drives, 0 failed"),
        "{}",
        outcome.stdout
    );
    assert_eq!(
        run(&[&bench[..], &["--threads", "0"]].concat()).code,
        Some(2)
    );
}

#[test]
fn what_is_wrong_with_a_file_of_scenarios_names_file_and_place() {
    let folder = Folder::new();
    let drive = |path: &Path| {
        let file = ["sim", "run", "--controller", "nothing", "--file"];
        let program = program(&file).args([path.as_os_str()]);
        let outcome = program.run();
        assert_eq!(outcome.code, Some(3), "{}", outcome.stderr);
        outcome.stderr
    };
    let empty = folder.write("empty.toml", "");
    let said = drive(&empty);
    let words = format!("`{}`: there is no scenario to drive", empty.display());
    assert!(said.contains(&words), "{said}");
    let long = format!("sweep = []\n[[scenario]]\n{} = 1\n", "x".repeat(1 << 20));
    for (name, text) in [
        ("long.toml", long),
        ("long.json", format!("{{\"{}\": 1}}", "x".repeat(1 << 20))),
    ] {
        let said = drive(&folder.write(name, text));
        assert!(said.len() < 2000, "{name}: {} bytes", said.len());
        assert!(said.contains(name) && said.contains("line "), "{said}");
    }
    let said = drive(&folder.write("open.toml", "sweep = []\n  [[scenario]\n"));
    assert!(said.contains("at line 2 column "), "{said}");
}

/// A file of scenarios without actors, the second with noise.
const QUIET_AND_NOISY: &str = "[[scenario]]\nname = \"quiet\"\nduration_s = 2\nstart = { speed = 20 }\n\
    [[scenario]]\nname = \"noisy\"\nduration_s = 2\nstart = { speed = 20 }\nenvironment.noise.offset = 0.1\n";

#[test]
fn drives_that_would_be_the_same_to_the_last_bit_are_refused_or_told_of() {
    for suite in ["built-in", "ncap-braking", "lateral-steps"] {
        let several = ["--suite", suite, "--replicates", "3"];
        let run_ = [&["sim", "run", "--controller", "pid"], &several[..]].concat();
        let compare = ["sim", "compare", "--baseline", "pid", "--candidate", "lqr"];
        for command in [run_, [&compare, &several[..]].concat()] {
            let outcome = run(&command);
            assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
            assert!(outcome.stdout.is_empty(), "{}", outcome.stdout);
            let told = "--replicates 3: the drives of a scenario would be the same, for none of";
            assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
        }
    }
    let folder = Folder::new();
    let file = folder.write("two.toml", QUIET_AND_NOISY);
    let json = folder.path("drives.json");
    let args = ["sim", "run", "--controller", "pid", "--replicates", "2"];
    let files = [Path::new("--file"), &file, Path::new("--json"), &json];
    let mixed = program(&args).args(files).run();
    assert_eq!(mixed.code, Some(0), "{}", mixed.stderr);
    let told = "warning: --replicates 2: 1 of 2 scenarios have no noise";
    assert!(mixed.stderr.contains(told), "{}", mixed.stderr);
    let drives: serde_json::Value =
        serde_json::from_slice(&fs::read(&json).expect("there")).expect("JSON");
    let drives = drives["drives"].as_array().expect("a list");
    let same = |a: usize, b: usize| drives[a]["metrics"] == drives[b]["metrics"];
    assert!(drives.len() == 4 && same(0, 1) && !same(2, 3));
    let random = ["--suite", "random", "--scenarios", "3"];
    let noisy = run(&[&args[..], &random].concat());
    assert_eq!((noisy.code, &*noisy.stderr), (Some(0), ""));
}

#[test]
fn what_would_change_nothing_about_a_search_is_refused_or_told_of() {
    let folder = Folder::new();
    let file = folder.write("two.toml", QUIET_AND_NOISY);
    let search = |more: &[&str]| {
        let some = ["--controller", "pid", "--population", "5", "--rounds", "1"];
        let args = [&["sim", "search"], &some[..], more].concat();
        program(&args).args([Path::new("--file"), &file]).run()
    };
    for (more, told) in [
        (
            &["--vary", "speed=10..20", "--vary", "actor-distance=-9..9"][..],
            "--vary actor-distance changes nothing: in `quiet` there is no other road user",
        ),
        (
            &["--vary", "grade=0..0.1", "--worst", "lateral_error_max"],
            "--vary grade changes nothing: in `quiet` there is no segment of road",
        ),
        (
            &["--vary", "speed=10..20"],
            "--worst danger: in `quiet` there is no other road user",
        ),
    ] {
        let outcome = search(more);
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
    }
    // Wind does not push a kinematic car aside.
    let by = ["--worst", "lateral_error_max"];
    let alike = search(&[&by[..], &["--vary", "crosswind=0..20"]].concat());
    assert_eq!(alike.code, Some(0), "{}", alike.stderr);
    let told = "warning: all drives are equally bad by lateral_error_max";
    assert!(alike.stderr.contains(told), "{}", alike.stderr);
    let other = search(&[&by[..], &["--vary", "start-offset=0..1"]].concat());
    assert_eq!((other.code, &*other.stderr), (Some(0), ""));
    let swept = "[[sweep]]\naxes = [{ parameter = \"bank\", values = [0, 0.1] }]\n\
        [sweep.base]\nname = \"level\"\nduration_s = 1\n";
    let swept = folder.write("swept.toml", swept);
    let args = ["sim", "run", "--controller", "pid", "--file"];
    let outcome = program(&args).args([&swept]).run();
    assert_eq!(outcome.code, Some(3), "{}", outcome.stderr);
    let told = "(`level`): `bank` changes nothing: there is no segment of road";
    assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
}

#[test]
fn threads_that_a_machine_lacks_are_told_of() {
    let there = std::thread::available_parallelism().map_or(1, |n| n.get());
    let of = ["--suite", "built-in", "--threads", "1024"];
    let vary = [
        "--vary",
        "speed=10..20",
        "--population",
        "5",
        "--rounds",
        "1",
    ];
    let compare = ["sim", "compare", "--baseline", "pid", "--candidate", "pid"];
    for command in [
        &["sim", "run", "--controller", "pid"][..],
        &["sim", "bench", "--controller", "pid", "--runs", "1"],
        &[
            &[
                "sim",
                "search",
                "--controller",
                "pid",
                "--worst",
                "jerk_rms",
            ],
            &vary[..],
        ]
        .concat(),
        &compare,
    ] {
        let outcome = run(&[command, &of].concat());
        let told = format!("warning: --threads 1024: threads that drive: {there}, ");
        let is_told = outcome.stderr.contains(&told);
        assert_eq!(is_told, there < 1024, "{command:?}: {}", outcome.stderr);
    }
}
