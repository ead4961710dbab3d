//! `controls_challenge` on files, on folders, and on folders with something bad inside.

use std::fmt::Write as _;

use super::{Folder, Program};

/// A segment of the challenge that can be driven; `phase` makes another one.
fn segment(phase: f64) -> String {
    let mut text = "t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand\n".to_owned();
    for i in 0..150 {
        let target = (f64::from(i) * 0.06 + phase).sin() * 0.5;
        let row = writeln!(
            text,
            "{},25.0,0.0,0.01,{target},{}",
            f64::from(i) * 0.1,
            -0.5 * target
        );
        row.expect("a String takes all");
    }
    text
}

#[track_caller]
fn costs(args: &[&str]) -> String {
    let outcome = Program::new("controls_challenge").args(args).run();
    assert_eq!(
        (outcome.code, outcome.stderr.as_str()),
        (Some(0), ""),
        "{args:?}"
    );
    assert_eq!(outcome.stdout.lines().count(), 3, "{}", outcome.stdout);
    outcome.stdout
}

#[test]
fn a_folder_is_its_files_and_a_file_is_seeded_by_its_name_wherever_it_lies() {
    let (here, there) = (Folder::new(), Folder::new());
    let one = here.write("00000.csv", segment(0.0));
    let two = here.write("00001.csv", segment(1.0));
    here.write("notes.txt", "no segment");
    let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
    assert_eq!(costs(&[&path(&here.0)]), costs(&[&path(&one), &path(&two)]));

    let moved = there.write("00000.csv", segment(0.0));
    assert_eq!(costs(&[&path(&moved)]), costs(&[&path(&one)]));
    let renamed = there.write("00007.csv", segment(0.0));
    assert_ne!(costs(&[&path(&renamed)]), costs(&[&path(&one)]));
}

#[test]
fn a_file_that_is_given_twice_counts_once_and_says_so() {
    let folder = Folder::new();
    let file = folder.write("00000.csv", segment(0.0));
    let (file, all) = (file.to_string_lossy(), folder.0.to_string_lossy());
    let once = costs(&[&file]);
    for twice in [[&*file, &*file], [&*file, &*all]] {
        let outcome = Program::new("controls_challenge").args(twice).run();
        assert_eq!((outcome.code, &outcome.stdout), (Some(0), &once));
        let lines = outcome.stderr.lines().count();
        assert!(
            lines == 1 && outcome.stderr.contains("counts once"),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn a_bad_file_is_reported_and_the_others_are_driven() {
    let folder = Folder::new();
    let good = folder
        .write("00000.csv", segment(0.0))
        .to_string_lossy()
        .into_owned();
    folder.write("00001.csv", "no header\n1,2,3\n");
    folder.write("00002.csv", &segment(0.0)[..2000]);
    folder.write("00003.csv", "");
    let all = folder.0.to_string_lossy().into_owned();
    let outcome = Program::new("controls_challenge").args([&all]).run();
    assert_eq!(outcome.code, Some(1));
    assert_eq!(outcome.stdout, costs(&[&good]), "the good one alone");
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), 4, "{}", outcome.stderr);
    for (line, name) in lines.iter().zip(["00001.csv", "00002.csv", "00003.csv"]) {
        assert!(line.starts_with("error: ") && line.contains(name), "{line}");
    }
    assert!(
        lines[3].contains("3 files could not be driven"),
        "{}",
        lines[3]
    );
}

#[test]
fn a_folder_without_segments_is_an_error() {
    let folder = Folder::new();
    let path = folder.0.to_string_lossy().into_owned();
    let outcome = Program::new("controls_challenge").args([&path]).run();
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome.stderr.contains("no file that ends in .csv"),
        "{}",
        outcome.stderr
    );
}
