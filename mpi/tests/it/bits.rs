//! Losses, adapters and checkpoints of 1, 2, 4 and 8 ranks.

use crate::process::{Material, Running, run, signal, succeed, texts};
use std::time::Duration;

#[test]
fn every_number_of_ranks_has_the_bits_of_one() {
    let material = Material::new();
    let said = succeed(1, &material.train("one", &["--epochs", "6"]));
    assert!(said.contains("1 rank, Open MPI"), "{said}");
    let one = material.bits("one");
    assert_eq!(one.0.len(), 18 + 6, "{:?}", one.0);
    for n in [2, 4, 8] {
        let run = format!("of-{n}");
        let said = succeed(n, &material.train(&run, &["--epochs", "6"]));
        assert!(said.contains(&format!("{n} ranks, Open MPI")), "{said}");
        assert_eq!(material.bits(&run), one, "{n} ranks");
        // Rank 0 speaks for all.
        assert_eq!(said.matches("epoch 6 of 6").count(), 1, "{said}");
        assert_eq!(said.matches("root mean square error").count(), 1, "{said}");
    }
}

#[test]
fn four_ranks_that_were_killed_go_on_as_two_with_the_same_bits() {
    let material = Material::new();
    let long = ["--epochs", "1000", "--max-steps", "2400"];
    succeed(1, &material.train("whole", &long));
    let mut running = Running::start(4, &material.train("cut", &long), material.path("cut"));
    running.wait_for_checkpoints(2);
    signal(running.pid(2), "KILL");
    let (took, output) = running.end(Duration::from_secs(5));
    assert!(!output.status.success(), "{took:?}");
    let said = succeed(2, &material.resume("cut"));
    assert!(said.contains("goes on after step"), "{said}");
    assert!(!said.contains("goes on after step 0"), "{said}");
    let (whole, cut) = (material.bits("whole"), material.bits("cut"));
    assert!(cut.1 == whole.1 && cut.2 == whole.2, "adapter and values");
    // Steps behind the last checkpoint were made twice, with the same losses.
    let mut steps = cut.0;
    let mut seen = std::collections::HashSet::new();
    steps.retain(|line| seen.insert(line.clone()));
    assert_eq!(steps, whole.0);
}

#[test]
fn the_fast_sum_says_how_far_it_lies_off() {
    let material = Material::new();
    succeed(1, &material.train("one", &["--epochs", "6"]));
    let said = succeed(4, &material.train("fast", &["--epochs", "6", "--fast-sum"]));
    assert_eq!(said.matches("the fast sum lies").count(), 3, "{said}");
    let (one, fast) = (material.bits("one"), material.bits("fast"));
    assert_eq!(one.0.len(), fast.0.len());
    // Another number of ranks would go on with other bits.
    let output = run(2, &material.resume("fast"));
    let (_, err) = texts(&output);
    let what = "sum of gradients was fast, 4 ranks and is not set: a run with --fast-sum goes on with it and on as many ranks";
    assert!(!output.status.success() && err.contains(what), "{err}");
}
