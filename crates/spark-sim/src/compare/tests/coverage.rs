//! What the gate demands to be measured before it decides: every metric, to the end of the drive,
//! in scenarios that are not one another.

use super::*;

/// Fifty scenarios, the first `n_hit` of which end in a collision; the others have this error.
fn hits(seed: u64, n_hit: usize, lateral_error_rmse: f64) -> RunReport {
    let outcome = |i| {
        if i < n_hit {
            collision()
        } else {
            rmse(lateral_error_rmse)
        }
    };
    run(seed, (0..50).map(outcome))
}

#[test]
fn a_suite_in_which_every_drive_collides_measures_nothing_and_passes_nobody() {
    let found = default(&hits(1, 50, 0.2), &hits(1, 50, 0.2));
    assert_eq!((found.n_compared, found.metrics.len()), (50, 0));
    assert!(found.not_measured.contains(&"lateral_error_rmse"));
    // Nobody ever was behind anybody.
    assert_eq!(found.not_applicable, ["ttc_min", "gap_min", "headway_min"]);
    let primaries = crate::metric::CATALOGUE
        .iter()
        .filter(|info| info.role == crate::metric::Role::Primary);
    for info in primaries.filter(|info| !found.not_applicable.contains(&info.name)) {
        let doubt = Doubt::RarelyMeasured {
            metric: info.name,
            n_measured: 0,
            n_drives: 50,
            needed: 45,
        };
        assert!(doubts(&found).contains(&doubt), "{doubt:?}");
    }
}

#[test]
fn a_metric_measured_on_a_small_part_of_the_suite_is_a_doubt_by_name() {
    for n_hit in [6, 20, 44, 45, 49] {
        let found = default(&hits(1, n_hit, 0.2), &hits(1, n_hit, 0.2));
        let doubt = Doubt::RarelyMeasured {
            metric: "lateral_error_rmse",
            n_measured: 50 - n_hit,
            n_drives: 50,
            needed: 45,
        };
        assert!(doubts(&found).contains(&doubt), "{n_hit}");
        assert!(
            found.decision.reasons().iter().any(|reason| {
                reason.starts_with(&format!(
                    "lateral_error_rmse was measured in {} of 50 pairs of drives, at least 45",
                    50 - n_hit
                ))
            }),
            "{n_hit}: {:?}",
            found.decision
        );
    }
    assert!(default(&hits(1, 5, 0.2), &hits(1, 5, 0.2)).passes());
    // The share is an option, ...
    let options = CompareOptions {
        least_compared: 0.5,
        ..CompareOptions::default()
    };
    assert!(with(&options, &hits(1, 20, 0.2), &hits(1, 20, 0.2)).passes());
    // ... and collisions that the candidate avoids are no lack of evidence.
    assert!(default(&hits(1, 20, 0.2), &hits(1, 0, 0.2)).passes());
    // What was measured on few may still fail it.
    assert!(is_fail(&default(&hits(1, 40, 0.2), &hits(1, 40, 4.0))));
}

#[test]
fn a_metric_measured_in_too_few_families_is_a_doubt_by_name() {
    let in_families = |mut report: RunReport| {
        for result in &mut report.results {
            // Two families of ten scenarios each, and ten of one each that collide.
            let family = match result.index {
                i @ 0..20 => format!("bends {}", i % 2),
                i => format!("wall {i}"),
            };
            result.family = Some(family);
        }
        report
    };
    let suite = |seed| {
        let outcome = |i| if i < 20 { rmse(0.2) } else { collision() };
        in_families(run(seed, (0..30).map(outcome)))
    };
    let options = CompareOptions {
        least_compared: 0.5,
        ..CompareOptions::default()
    };
    let found = with(&options, &suite(1), &suite(1));
    assert_eq!(found.n_families, 12);
    let doubt = Doubt::MeasuredInTooFewFamilies {
        metric: "lateral_error_rmse",
        n_families: 2,
        needed: 5,
    };
    assert!(doubts(&found).contains(&doubt), "{:?}", found.decision);
    assert_eq!(needed(&found), Some(5));
}

fn drive(change: impl FnOnce(&mut Metrics)) -> Outcome {
    let mut metrics = Metrics {
        duration_s: 20.0,
        distance_m: 400.0,
        lateral_error_rmse: 0.2,
        ..Metrics::default()
    };
    change(&mut metrics);
    Ok(metrics)
}

fn drives(seed: u64, n: usize, change: impl Fn(usize, &mut Metrics)) -> RunReport {
    run(seed, (0..n).map(|i| drive(|metrics| change(i, metrics))))
}

#[test]
fn a_car_that_does_not_get_on_fails() {
    let requested = |distance_m: f64, requested_m: Option<f64>| {
        drives(1, 50, |_, m| {
            (m.distance_m, m.distance_requested_m) = (distance_m, requested_m);
        })
    };
    for known in [Some(400.0), None] {
        let baseline = requested(400.0, known);
        for distance_m in [0.0, 290.0, 388.0] {
            let found = default(&baseline, &requested(distance_m, known));
            assert!(is_fail(&found), "{distance_m} {known:?}");
            let progress = found.metric("progress_error").expect("measured");
            assert_eq!(progress.verdict, Verdict::WorseBeyondMargin);
            assert!((progress.candidate - (1.0 - distance_m / 400.0)).abs() < 1e-9);
        }
        // A last crossing of the margin of 2 %.
        assert!(default(&baseline, &requested(396.0, known)).passes());
    }
    // Faster than asked for is no progress either.
    let baseline = requested(400.0, Some(400.0));
    assert!(is_fail(&default(&baseline, &requested(500.0, Some(400.0)))));
    // Told to stand still, a car may roll a little.
    let standing = requested(0.0, Some(0.0));
    assert!(default(&standing, &requested(0.03, Some(0.0))).passes());
}

#[test]
fn a_drive_that_ends_early_without_a_collision_is_a_failure() {
    let lasting = |duration_s: f64, requested_s: Option<f64>| {
        drives(1, 50, |_, m| {
            (m.duration_s, m.duration_requested_s) = (duration_s, requested_s);
        })
    };
    let found = default(&lasting(20.0, None), &lasting(0.1, None));
    assert!(is_fail(&found), "{:?}", found.decision);
    let failure = found.event("failure").expect("counted");
    assert_eq!((failure.baseline, failure.candidate), (0, 50));
    let reason = failure.new[0].reason.as_deref();
    let says = "the drive ended after 0.1 s of 20 s without a collision";
    assert_eq!(reason, Some(says));
    // Both ended early: only the scenario's own length tells.
    let short = || lasting(0.1, Some(20.0));
    let found = default(&short(), &short());
    assert_eq!(found.failed_in_both.len(), 50);
    assert!(doubts(&found).contains(&Doubt::NothingCompared));
    // To the end, and up to a collision, is all that can be asked.
    let whole = || lasting(20.0, Some(20.0));
    assert!(default(&whole(), &whole()).passes());
    let hit = drives(1, 50, |i, m| {
        if i == 0 {
            m.duration_s = 1.0;
            m.collision = Some(Collision {
                time_s: 1.0,
                closing_speed: 2.0,
                actor_idx: 0,
            });
        }
    });
    assert_eq!(
        default(&hit, &hit).event("failure").map(|e| e.baseline),
        Some(0)
    );
}

#[test]
fn metrics_that_no_drive_has_are_failures() {
    type Edit = fn(&mut Metrics);
    let told: [(&str, Edit); 6] = [
        ("duration_requested_s is NaN", |m| {
            m.duration_requested_s = Some(f64::NAN);
        }),
        ("duration_requested_s is 0", |m| {
            m.duration_requested_s = Some(0.0)
        }),
        ("duration_s is -1", |m| m.duration_s = -1.0),
        ("progress_error is NaN", |m| {
            m.distance_requested_m = Some(f64::INFINITY);
        }),
        ("lateral_error_rmse is -", |m| m.lateral_error_rmse = -1e300),
        ("discomfort_ratio is -0.1", |m| m.discomfort_ratio = -0.1),
    ];
    for (says, edit) in told {
        let found = default(&drives(1, 50, |_, _| ()), &drives(1, 50, |_, m| edit(m)));
        assert!(is_fail(&found), "{says}: {:?}", found.decision);
        let failure = found.event("failure").expect("counted");
        let reason = failure.new[0].reason.as_deref().unwrap_or_default();
        assert!(reason.contains(says), "{reason}");
    }
}

#[test]
fn a_new_near_miss_breaks_the_policy_under_the_same_noise() {
    let near = |seed, n, miss: fn(&mut Metrics)| {
        drives(seed, n, |i, m| {
            m.headway_min = Some(2.0);
            if i == 0 {
                miss(m);
            }
        })
    };
    let far = |seed, n| near(seed, n, |_| {});
    for n in [50, 300, 1000] {
        let found = default(&far(1, n), &near(1, n, |m| m.ttc_min = Some(0.3)));
        let says = "policy: new ttc_below_1.5_s in 1 scenarios, first in s0";
        assert_eq!(found.decision.reasons(), [says], "{n}");
        assert!(is_fail(&default(
            &far(1, n),
            &near(1, n, |m| m.headway_min = Some(0.85))
        )));
    }
    // With other noise, and where the option says so, it is a test.
    let other = default(&far(1, 300), &near(2, 300, |m| m.ttc_min = Some(0.3)));
    assert!(!is_fail(&other), "{:?}", other.decision);
    let options = CompareOptions {
        new_near_misses: NewEvents::Test,
        ..CompareOptions::default()
    };
    let tested = with(
        &options,
        &far(1, 300),
        &near(1, 300, |m| m.ttc_min = Some(0.3)),
    );
    assert!(!is_fail(&tested), "{:?}", tested.decision);
    // Within its margin a metric may cross the line, and only crossing counts.
    let one = |ttc: fn(&mut Metrics)| near(1, 300, ttc);
    let slightly_above = one(|m| m.ttc_min = Some(1.55));
    let crossing = |ttc: fn(&mut Metrics)| default(&slightly_above, &one(ttc));
    assert!(crossing(|m| m.ttc_min = Some(1.46)).passes());
    assert!(is_fail(&crossing(|m| m.ttc_min = Some(1.44))));
    let near_already = one(|m| m.ttc_min = Some(1.4));
    assert!(default(&near_already, &one(|m| m.ttc_min = Some(1.2))).passes());
    assert!(default(&one(|m| m.ttc_min = Some(0.3)), &far(1, 300)).passes());
}

#[test]
fn one_scenario_listed_again_and_again_is_one_piece_of_evidence() {
    let listed = |n, family: Option<&str>| {
        let mut report = rmses(1, &vec![0.5; n]);
        for result in &mut report.results {
            result.name = "same".to_owned();
            result.family = family.map(str::to_owned);
        }
        report
    };
    for n in [8, 50] {
        let found = default(&listed(n, None), &listed(n, None));
        assert_eq!((found.n_scenarios, found.n_families), (n, 1));
        let doubt = Doubt::TooFewFamilies {
            n_families: 1,
            needed: 5,
            n_repeated: n - 1,
        };
        assert!(doubts(&found).contains(&doubt));
        let says = format!("{} scenarios bear the name of another", n - 1);
        assert!(found.decision.reasons()[0].contains(&says));
    }
    // Stated families are what counts, whatever the names.
    assert_eq!(
        default(&listed(8, Some("a")), &listed(8, Some("a"))).n_repeated,
        0
    );
    // Replicates of a scenario are no repetition.
    let mut replicates = rmses(1, &[0.5; 10]);
    for (i, result) in replicates.results.iter_mut().enumerate() {
        (result.index, result.replicate) = (i / 2, i % 2);
        result.name = format!("s{}", i / 2);
    }
    assert_eq!(default(&replicates, &replicates).n_repeated, 0);
}

#[test]
fn a_level_that_the_flips_cannot_reach_is_refused() {
    let [good, bad] = [0.2, 2.0].map(|error| rmses(1, &[error; 30]));
    let options = |alpha, n_flips| CompareOptions {
        alpha,
        n_flips,
        ..CompareOptions::default()
    };
    // Fifteen questions: nine metrics that decide, six events.
    for (alpha, n_flips, at_least) in [
        (0.05, 100, 300),
        (0.05, 299, 300),
        (1e-3, 9999, 15_000),
        (5e-5, 9999, 300_000),
        (1e-6, 1_000_000, 15_000_000),
    ] {
        let refused = compare(&good, &bad, &options(alpha, n_flips));
        assert!(
            matches!(refused, Err(SimError::TooFewFlips { least, .. }) if least == at_least),
            "{alpha} {n_flips}: {refused:?}"
        );
    }
    // What is accepted can pass and fail.
    for (alpha, n_flips) in [(0.05, 300), (0.4999, 100), (1e-3, 15_000), (2e-4, 75_000)] {
        let options = options(alpha, n_flips);
        assert!(with(&options, &good, &good).passes(), "{alpha} {n_flips}");
        assert!(is_fail(&with(&options, &good, &bad)), "{alpha} {n_flips}");
    }
}

#[test]
fn the_families_asked_for_suffice() {
    use crate::compare::verdict::{families_for_margin, least_families};
    for (n_questions, alpha, want) in [
        (1, 0.05, Some(5)),
        (3, 0.05, Some(6)),
        (8, 0.05, Some(8)),
        (14, 0.05, Some(9)),
        // Beyond fourteen families flips are drawn, and the smallest p is one in so many.
        (1, 5e-5, None),
    ] {
        let found = least_families(n_questions, alpha, 9999);
        assert_eq!(found, want, "{n_questions} {alpha}");
    }
    assert_eq!(least_families(1, 5e-5, 280_000), Some(15));
    // (z(0.99) + z(0.80))^2 = 10.04; a level of 5 % needs 6.18.
    assert_eq!(families_for_margin(0.0, 3.0, 1.0, 10, 0.01, 9999), Some(91));
    assert_eq!(families_for_margin(0.0, 3.0, 1.0, 10, 0.05, 9999), Some(56));
    // Without spread, as many as can show anything at this level.
    assert_eq!(
        families_for_margin(0.0, 0.0, 1.0, 3, 0.001, 99_999),
        Some(10)
    );
    assert_eq!(families_for_margin(0.0, 0.0, 1.0, 30, 5e-5, 9999), None);
}
