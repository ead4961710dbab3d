//! The interpreter beside a GPU: the answers of an H100 to every probe, kept as hashes.
//!
//! ```text
//! h100.txt   name of a probe, FNV-1a of what the GPU answered       (where every bit is promised)
//! ```
//!
//! One H100 80GB HBM3, driver 580.159.04, which compiled the probes for sm_90a, on 2026-11-27. `cargo run
//! --release -p spark-ptx --example probes` writes the probes and says, of another GPU's answers, which
//! words differ. Not kept: approximations, whose bound `near` holds them to on the GPU itself, and what
//! the manual leaves open.

use std::collections::HashMap;

use spark_ptx::Target;

use crate::probes::{self, Agreement};

const H100: &str = include_str!("h100.txt");

#[test]
fn an_h100_answers_alike() {
    let kept: HashMap<&str, u64> = H100
        .lines()
        .map(|line| {
            let (name, hash) = line.split_once(' ').expect("a name and a hash");
            (name, u64::from_str_radix(hash, 16).expect("a hash"))
        })
        .collect();
    let mut n_compared = 0;
    for probe in probes::all(Target::Sm90a) {
        let answers = probe.interpret(Target::Sm90a);
        let answers = answers.unwrap_or_else(|why| panic!("{}: {why}", probe.name));
        let Some(hash) = probe.hash(&answers) else {
            continue;
        };
        let want = kept.get(probe.name.as_str());
        let want = want.unwrap_or_else(|| panic!("{}: the GPU was not asked", probe.name));
        assert_eq!(hash, *want, "{}: the GPU answers otherwise", probe.name);
        n_compared += 1;
    }
    assert_eq!(n_compared, kept.len(), "answers of probes that are gone");
}

/// Other targets have no answers yet; what they have is at least interpreted.
#[test]
fn probes_of_every_target_are_interpreted() {
    for target in [Target::Sm80, Target::Sm120f, Target::Sm121a] {
        for probe in probes::all(target) {
            let answers = probe.interpret(target);
            let answers = answers.unwrap_or_else(|why| panic!("{target}, {}: {why}", probe.name));
            assert!(probe.differences(&answers, &answers).is_empty());
            let mut other = answers.clone();
            other[0] ^= 1;
            let is_judged = !matches!(probe.agreement, Agreement::Open | Agreement::Near { .. });
            // A NaN may hold anything.
            let is_nan = probe.with_one_nan(&answers) == probe.with_one_nan(&other);
            assert!(!is_judged || is_nan || !probe.differences(&answers, &other).is_empty());
        }
    }
}
