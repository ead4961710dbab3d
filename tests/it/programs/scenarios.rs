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
