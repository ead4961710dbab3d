//! Work on devices that are no GPU: results are right, and what is spoiled shows. With the feature `cuda` the same on the stand-in driver,
//! whose kernels are interpreted.

use std::time::Duration;

use spark_hal::Precision;
use spark_hal::doctor::load::{Results, Work};
use spark_hal::doctor::{Facts, Verdict, examine_facts};
use spark_hal::{Machine, Root, Sources};
use spark_mem::Device;

use crate::kernels;
use crate::options::{LoadOptions, Size};
use crate::run::{Watched, run_on};
use crate::verify::{Outcome, verify};

#[cfg(feature = "cuda")]
mod stand_in;

/// Small enough for a device that is emulated.
fn small(duration_ms: u64) -> LoadOptions {
    LoadOptions {
        duration: Duration::from_millis(duration_ms),
        size: Size {
            bytes: 64 << 10,
            products: vec![[64, 64, 256]],
        },
    }
}

fn emulated() -> Watched {
    Watched {
        device: Device::emulated(1 << 30),
        before: None,
        sampler: None,
    }
}

#[test]
fn every_piece_of_work_is_done_and_right() {
    let mut told = Vec::new();
    let load = run_on(Ok(emulated()), &small(300), &mut |progress| {
        told.push(progress.work.clone());
        true
    });
    assert!(!load.is_partial);
    let gpu = load.gpu.expect("a device");
    assert_eq!(gpu.failure, None);
    let product = |precision| Work::Product {
        precision,
        rows: 64,
        columns: 64,
        depth: 256,
    };
    let wanted = [
        Work::Read,
        Work::Copy,
        Work::Arithmetic,
        product(Precision::Fp16),
        product(Precision::Bf16),
        product(Precision::Fp8),
        product(Precision::Fp4),
    ];
    let done: Vec<Work> = gpu.phases.iter().map(|phase| phase.work).collect();
    assert_eq!(done, wanted);
    for phase in &gpu.phases {
        assert!(
            matches!(phase.results, Results::Right { .. }),
            "{}: {:?}",
            phase.work,
            phase.results
        );
        let rate = phase.rate;
        assert!(rate.n > 0 && 0.0 < rate.min && rate.min <= rate.median && rate.median <= rate.max);
        assert!(told.contains(&phase.work.to_string()), "{}", phase.work);
    }
    let host = &load.host;
    for rate in [host.copy_by_one_gb_per_s, host.read_gb_per_s, host.gflops] {
        assert!(rate.is_some_and(|rate| rate.min > 0.0), "{host:?}");
    }
}

#[test]
fn a_load_without_a_gpu_is_of_the_processors() {
    let load = run_on(Err("there is none".to_owned()), &small(200), &mut |_| true);
    assert_eq!(load.gpu, Err("there is none".to_owned()));
    assert!(load.host.gflops.is_some());
    assert!(load.took >= Duration::from_millis(200));
}

#[test]
fn what_is_stopped_says_what_it_has() {
    let begin = std::time::Instant::now();
    let options = LoadOptions {
        duration: Duration::from_secs(60),
        ..small(0)
    };
    // While the second piece of work is done.
    let load = run_on(Ok(emulated()), &options, &mut |progress| {
        // The processors' part is a sixth of the time: it is not waited for.
        progress.work != "copy" && begin.elapsed() < Duration::from_secs(20)
    });
    assert!(load.is_partial);
    assert!(begin.elapsed() < Duration::from_secs(40));
    let gpu = load.gpu.expect("a device");
    assert!(gpu.phases.len() < 7, "{}", gpu.phases.len());
    assert_eq!(gpu.failure, None);
}

/// Figures of what is no GPU are shown and not judged.
#[test]
fn an_emulated_card_gets_no_verdict_of_a_gpu() {
    let root = Root::at("a-folder-without-files");
    let mut facts = Facts::of(root.clone(), Machine::read(&Sources::files(root)));
    facts.load = Some(run_on(Ok(emulated()), &small(100), &mut |_| true));
    let report = examine_facts(facts);
    for outcome in &report.outcomes {
        if outcome.check.id.starts_with("load.") {
            let is_judged = matches!(outcome.verdict, Verdict::Passed | Verdict::Found(_));
            assert!(!is_judged, "{}: {:?}", outcome.check.id, outcome.verdict);
        }
    }
    assert!(report.to_text().contains("emulated discrete card"));
}

#[test]
fn memory_that_is_not_there_ends_the_load_with_a_reason() {
    let watched = Watched {
        device: Device::emulated(32 << 10),
        before: None,
        sampler: None,
    };
    let load = run_on(Ok(watched), &small(100), &mut |_| true);
    let failure = load.gpu.expect("a device").failure.expect("no memory");
    assert!(failure.contains("memory"), "{failure}");
}

#[test]
fn sums_of_words_are_those_of_words_one_by_one() {
    for n in [0, 1, 2, 3, 1000, 65_537, 1 << 20] {
        let words = (0..n).map(|idx: u32| idx.wrapping_mul(2_654_435_761));
        let sum = words.fold(0, u32::wrapping_add);
        assert_eq!(kernels::sum_of_words(n), sum, "{n}");
    }
}

/// A step more or less, or a wrong number, shows in every result.
#[test]
fn arithmetic_tells_steps_apart() {
    for thread in [0, 1, 777, 5000] {
        for rounds in [16, 100, 16_384] {
            let right = kernels::chains(thread, kernels::FACTOR, kernels::SUMMAND, rounds);
            for wrong in [
                kernels::chains(thread, kernels::FACTOR, kernels::SUMMAND, rounds - 1),
                kernels::chains(thread, kernels::FACTOR, kernels::SUMMAND, rounds + 1),
                kernels::chains(thread, -1.0, kernels::SUMMAND, rounds),
                kernels::chains(thread + 1, kernels::FACTOR, kernels::SUMMAND, rounds),
            ] {
                assert!(right.is_finite());
                assert_ne!(right, wrong, "thread {thread}, {rounds} rounds");
            }
        }
    }
}

#[test]
fn the_cpu_is_verified_by_its_network() {
    let verification = verify(&Device::host());
    assert!(verification.is_ok());
    let outcomes: Vec<&Outcome> = verification
        .lines
        .iter()
        .map(|line| &line.outcome)
        .collect();
    assert!(matches!(outcomes[0], Outcome::NotExamined(why) if why == "no GPU is used"));
    assert!(matches!(outcomes[1], Outcome::NotExamined(_)));
    assert_eq!(outcomes[2], &Outcome::Ok);
    let text = verification.to_text();
    assert!(
        text.contains("network") && text.trim_end().ends_with("ok"),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&verification.to_json()).expect("JSON");
    assert_eq!(json["schema"], "spark-verify/1");
    assert_eq!(json["is_ok"], true);
    assert_eq!(json["trials"][2]["outcome"], "ok");
}

#[test]
fn a_failed_trial_is_said() {
    let mut verification = verify(&Device::emulated(1 << 26));
    assert!(verification.is_ok(), "{verification:?}");
    assert_eq!(verification.lines[0].outcome, Outcome::Ok);
    assert_eq!(verification.lines[1].outcome, Outcome::Ok);
    verification.lines[1].outcome = Outcome::Failed("byte 3".to_owned());
    assert!(!verification.is_ok());
    assert!(verification.to_text().contains("FAILED: byte 3"));
    // One that has no room for it fails by itself.
    let verification = verify(&Device::emulated(1 << 10));
    let Outcome::Failed(why) = &verification.lines[1].outcome else {
        panic!("{verification:?}");
    };
    assert!(why.contains("memory"), "{why}");
}
