//! What the gate decides, one edge a test.

use super::*;
use crate::metric::Margin;

#[test]
fn an_empty_suite_is_undecided() {
    let found = default(&run(0, []), &run(0, []));
    assert!(!found.passes());
    assert_eq!(needed(&found), Some(5));
}

#[test]
fn a_suite_that_both_fail_is_undecided() {
    let fails = || run(0, (0..50).map(|_| failure()));
    let found = default(&fails(), &fails());
    assert!(matches!(found.decision, Decision::Undecided { .. }));
    assert_eq!((found.n_compared, found.failed_in_both.len()), (0, 50));
}

#[test]
fn a_suite_of_which_both_fail_a_part_is_undecided() {
    let partly = |seed| {
        run(
            seed,
            (0..50).map(|i| if i < 10 { failure() } else { rmse(0.2) }),
        )
    };
    let found = default(&partly(0), &partly(0));
    let few = Doubt::TooFewCompared {
        n_compared: 40,
        n_scenarios: 50,
    };
    assert!(matches!(&found.decision, Decision::Undecided { because, .. } if because[0] == few));
    let options = CompareOptions {
        least_compared: 0.8,
        ..CompareOptions::default()
    };
    assert!(with(&options, &partly(0), &partly(0)).passes());
}

#[test]
fn coming_near_for_the_first_time_in_every_scenario_fails() {
    let near = |ttc_min| {
        Ok(Metrics {
            ttc_min,
            ..Metrics::default()
        })
    };
    let baseline = run(0, (0..100).map(|_| near(None)));
    let found = default(&baseline, &run(0, (0..100).map(|_| near(Some(0.3)))));
    assert!(is_fail(&found), "{:?}", found.decision);
    let ttc = found.metric("ttc_min").expect("one side has it");
    assert_eq!(ttc.baseline, 10.0);
    assert!((ttc.candidate - 0.3).abs() < 1e-12);
    assert_eq!(ttc.n_none, [100, 0]);
    assert_eq!(ttc.verdict, Verdict::WorseBeyondMargin);

    // Half of them newly near, the other half a little further away: worse, not better.
    let half = |i, first, rest| near(if i < 50 { first } else { Some(rest) });
    let baseline = run(0, (0..100).map(|i| half(i, None, 2.0)));
    let candidate = run(0, (0..100).map(|i| half(i, Some(0.3), 2.01)));
    assert!(is_fail(&default(&baseline, &candidate)));
}

#[test]
fn using_all_the_grip_is_an_event_that_fails_where_it_becomes_more_frequent() {
    let at_limit = |grip_limit_ratio| {
        Ok(Metrics {
            grip_limit_ratio,
            ..Metrics::default()
        })
    };
    let baseline = run(0, (0..40).map(|_| at_limit(0.0)));
    // A moment of it, far within the margin of the ratio.
    let candidate = |n| {
        run(
            0,
            (0..40).map(move |i| at_limit(if i < n { 1e-4 } else { 0.0 })),
        )
    };
    let found = default(&baseline, &candidate(20));
    let Decision::Fail { because } = &found.decision else {
        panic!("{:?}", found.decision);
    };
    let is_grip = |f: &Finding| {
        matches!(
            f,
            Finding::MoreEvents {
                event: "grip_limit",
                ..
            }
        )
    };
    assert!(because.iter().any(is_grip), "{because:?}");
    assert!(
        !is_fail(&default(&baseline, &candidate(1))),
        "one is no evidence"
    );
    assert!(
        !is_fail(&default(&candidate(20), &baseline)),
        "fewer is no fault"
    );
    // Beyond the margin of the ratio one is enough, as a near miss is.
    let beyond = |i| at_limit(if i == 0 { 0.05 } else { 0.0 });
    let found = default(&baseline, &run(0, (0..40).map(beyond)));
    let because = found.decision.reasons();
    assert!(
        is_fail(&found) && because[0].contains("grip_limit"),
        "{because:?}"
    );
}

#[test]
fn suites_too_small_to_fail_anything_are_undecided_whatever_the_difference() {
    for n in 1..5 {
        for change in [0.0, 1e-7, 1.0, -1.0] {
            let (b, c) = (vec![1.0; n], vec![1.0 + change; n]);
            let found = default(&rmses(1, &b), &rmses(1, &c));
            assert_eq!(needed(&found), Some(5), "{n} {change}");
            assert_eq!(lateral(&found).verdict, Verdict::Undecided);
            assert_eq!(lateral(&found).interval, None);
        }
    }
}

#[test]
fn identical_runs_pass_and_differ_by_nothing() {
    for n in [5, 6, 8, 14, 15, 50] {
        let values: Vec<f64> = (0..n).map(|i| 0.1 * i as f64).collect();
        let found = default(&rmses(1, &values), &rmses(1, &values));
        assert!(found.passes(), "{n}: {:?}", found.decision);
        let metric = lateral(&found);
        assert_eq!((metric.delta, metric.p_difference), (0.0, 1.0));
        assert_eq!(metric.verdict, Verdict::NoDifferenceShown);
        assert!(found.regressions.is_empty());
    }
}

#[test]
fn a_difference_of_nanometres_is_shown_and_lies_within_the_margin() {
    let candidate = |i: usize| rmse(0.2 + 1e-9 * (1 + i % 2) as f64);
    let baseline = run(1, (0..2000).map(|_| rmse(0.2)));
    let found = default(&baseline, &run(1, (0..2000).map(candidate)));
    let metric = lateral(&found);
    let [low, high] = metric.interval.expect("many families");
    assert!(low > 1e-9 && high < 2e-9);
    assert_eq!(metric.verdict, Verdict::WithinMargin);
    assert_eq!(metric.verdict.words(), "different, within the margin");
    assert!(found.passes(), "{:?}", found.decision);
}

#[test]
fn every_verdict_is_reached() {
    let mut random = Philox::new(3, 0);
    let noise: Vec<f64> = (0..40).map(|_| random.next_normal()).collect();
    // Shift and spread in margins of 0.03 m.
    let verdict = |shift: f64, spread: f64| {
        let candidate: Vec<f64> = noise
            .iter()
            .map(|x| 1.0 + 0.03 * (shift + spread * x))
            .collect();
        let found = default(&rmses(1, &vec![1.0; 40]), &rmses(1, &candidate));
        let metric = lateral(&found);
        assert_eq!(is_fail(&found), metric.verdict.is_worse());
        metric.verdict
    };
    assert_eq!(verdict(-3.0, 1.0), Verdict::Better);
    assert_eq!(verdict(-0.3, 0.2), Verdict::WithinMargin);
    assert_eq!(verdict(0.3, 0.2), Verdict::WithinMargin);
    assert_eq!(verdict(0.0, 1.0), Verdict::NoDifferenceShown);
    assert_eq!(verdict(1.0, 0.6), Verdict::Worse);
    assert_eq!(verdict(3.0, 1.0), Verdict::WorseBeyondMargin);
    assert_eq!(verdict(0.0, 9.0), Verdict::Undecided);
}

#[test]
fn an_undecided_metric_says_how_many_families_would_do() {
    let mut random = Philox::new(5, 0);
    let candidate: Vec<f64> = (0..12).map(|_| 1.0 + 0.09 * random.next_normal()).collect();
    let found = default(&rmses(1, &[1.0; 12]), &rmses(1, &candidate));
    // A spread of about three margins: 6.2 * 3^2 = 56 families.
    let needed = needed(&found).expect("a number");
    assert!((25..110).contains(&needed), "{needed}");
}

#[test]
fn no_fewer_families_would_do_than_are_needed_at_all() {
    let options = CompareOptions {
        alpha: 0.01,
        ..CompareOptions::default()
    };
    let found = compare(
        &rmses(1, &[1.0; 3]),
        &rmses(1, &[1.0, 1.001, 1.002]),
        &options,
    )
    .expect("the same scenarios");
    let Decision::Undecided { because, .. } = &found.decision else {
        panic!("decided: {:?}", found.decision);
    };
    let few = because.iter().find_map(|doubt| match doubt {
        Doubt::TooFewFamilies { needed, .. } => Some(*needed),
        _ => None,
    });
    // 2^-7 is the first below 0.01.
    let few = few.expect("three families show nothing");
    assert!(few >= 7, "{few}");
    let would_do = because.iter().filter_map(|doubt| match doubt {
        Doubt::NotWithinMargin { needed, .. } => *needed,
        _ => None,
    });
    let would_do: Vec<usize> = would_do.collect();
    assert!(!would_do.is_empty(), "{because:?}");
    assert!(would_do.iter().all(|&n| n >= few), "{because:?}");
}

#[test]
fn a_metric_that_is_no_number_fails_its_scenario_and_is_no_verdict() {
    let good = rmses(1, &[1.0; 20]);
    let mut values = [1.0; 20];
    values[3] = f64::NAN;
    let bad = rmses(1, &values);
    let found = default(&bad, &good);
    let failure = found.event("failure").expect("counted");
    assert_eq!((failure.baseline, failure.candidate), (1, 0));
    assert_eq!(failure.fixed[0].scenario, "s3");
    assert_eq!(lateral(&found).n, 19);
    assert_eq!(lateral(&found).verdict, Verdict::NoDifferenceShown);

    let found = default(&good, &bad);
    assert!(is_fail(&found));
    let reason = found.event("failure").expect("counted").new[0]
        .reason
        .clone();
    assert!(reason.is_some_and(|r| r.contains("lateral_error_rmse is NaN")));
}

#[test]
fn a_failure_counts_against_its_side() {
    let failing = |seed, n| {
        run(
            seed,
            (0..50).map(|i| if i < n { failure() } else { rmse(0.2) }),
        )
    };
    let fine = |seed| rmses(seed, &[0.2; 50]);
    // The candidate failed where the baseline did not: policy with the same noise, ...
    let found = default(&fine(1), &failing(1, 1));
    assert!(
        found.decision.reasons()[0].starts_with("policy: new failure"),
        "{found:?}"
    );
    // ... doubt with other noise, ...
    let found = default(&fine(1), &failing(2, 1));
    assert!(matches!(found.decision, Decision::Undecided { .. }));
    // ... and evidence if there are many.
    let options = CompareOptions {
        least_compared: 0.5,
        ..CompareOptions::default()
    };
    assert!(is_fail(&with(&options, &fine(1), &failing(2, 6))));
    // The baseline failed: reported, and no credit that hides a worsening.
    let worse = rmses(1, &[0.5; 50]);
    let found = default(&failing(1, 3), &worse);
    assert_eq!(found.event("failure").expect("counted").fixed.len(), 3);
    assert!(is_fail(&found));
}

#[test]
fn the_policy_on_new_collisions_is_an_option() {
    let one = |seed| {
        run(
            seed,
            (0..50).map(|i| if i == 7 { collision() } else { rmse(0.2) }),
        )
    };
    let fine = |seed| rmses(seed, &[0.2; 50]);
    let decide = |new_events, baseline_seed, candidate_seed| {
        let options = CompareOptions {
            new_events,
            ..CompareOptions::default()
        };
        with(&options, &fine(baseline_seed), &one(candidate_seed)).decision
    };
    let fails = |decision| matches!(decision, Decision::Fail { .. });
    assert!(fails(decide(NewEvents::FailWithSameNoise, 1, 1)));
    assert!(!fails(decide(NewEvents::FailWithSameNoise, 1, 2)));
    assert!(fails(decide(NewEvents::Fail, 1, 2)));
    assert!(!fails(decide(NewEvents::Test, 1, 1)));
    // Never a pass, whatever the policy.
    assert_ne!(decide(NewEvents::Test, 1, 1), Decision::Pass);
    // A collision avoided hinders nobody.
    assert!(default(&one(1), &fine(1)).passes());
}

#[test]
fn a_drive_that_ends_in_a_collision_looks_smooth_to_nobody() {
    let rough = Metrics {
        jerk_rms: 3.0,
        lateral_error_rmse: 0.2,
        ttc_min: Some(2.0),
        ..Metrics::default()
    };
    let baseline = run(1, (0..30).map(|_| Ok(rough.clone())));
    let candidate = run(
        1,
        (0..30).map(|i| {
            if i < 10 {
                collision()
            } else {
                Ok(rough.clone())
            }
        }),
    );
    let found = default(&baseline, &candidate);
    let jerk = found.metric("jerk_rms").expect("measured");
    assert_eq!((jerk.n, jerk.n_cut_short, jerk.delta), (20, 10, 0.0));
    let ttc = found.metric("ttc_min").expect("measured");
    assert_eq!(ttc.n, 30);
    assert!((ttc.candidate - 2.0 * 20.0 / 30.0).abs() < 1e-12);
}

#[test]
fn one_hopeless_drive_counts_as_the_cap_in_a_mean() {
    let mut values = [0.2; 50];
    values[0] = 400.0;
    let found = default(&rmses(1, &[0.2; 50]), &rmses(2, &values));
    assert!((lateral(&found).candidate - (49.0 * 0.2 + 5.0) / 50.0).abs() < 1e-12);
}

#[test]
fn margins_can_be_set_and_decide() {
    let (baseline, candidate) = (rmses(1, &[0.2; 30]), rmses(1, &[0.25; 30]));
    let decide = |margin: Margin| {
        let options = CompareOptions {
            margins: vec![("lateral_error_rmse".to_owned(), margin)],
            ..CompareOptions::default()
        };
        compare(&baseline, &candidate, &options)
    };
    assert!(is_fail(&default(&baseline, &candidate)));
    assert!(decide(Margin::absolute(0.1)).expect("comparable").passes());
    let half = Margin {
        absolute: 0.0,
        relative: 0.5,
    };
    let found = decide(half).expect("comparable");
    assert!(found.passes() && (lateral(&found).margin - 0.1).abs() < 1e-12);
    for bad in [-0.1, f64::NAN, f64::INFINITY] {
        let error = decide(Margin::absolute(bad));
        assert!(matches!(error, Err(SimError::OutOfRange { .. })), "{bad}");
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let a = rmses(1, &[1.0; 3]);
    let refused = |change: &dyn Fn(&mut CompareOptions)| {
        let mut options = CompareOptions::default();
        change(&mut options);
        compare(&a, &a, &options).expect_err("refused")
    };
    for name in ["lateral_eror_rmse", "collision"] {
        let unknown = |o: &mut CompareOptions| {
            o.margins.push((name.to_owned(), Margin::absolute(1.0)));
        };
        assert!(matches!(refused(&unknown), SimError::NoMetric { .. }));
    }
    for alpha in [0.0, 0.5, f64::NAN] {
        refused(&|o| o.alpha = alpha);
    }
    refused(&|o| o.n_flips = 0);
    refused(&|o| o.least_compared = 1.1);
}

#[test]
fn runs_of_different_scenarios_are_not_compared() {
    let refused = |candidate: &RunReport| {
        let error = compare(
            &rmses(1, &[1.0, 2.0]),
            candidate,
            &CompareOptions::default(),
        );
        assert!(matches!(error, Err(SimError::NotTheSameScenarios { .. })));
    };
    refused(&rmses(1, &[1.0]));
    let mut other = rmses(1, &[1.0, 2.0]);
    other.results[1].name = "else".to_owned();
    refused(&other);
    let mut other = rmses(1, &[1.0, 2.0]);
    other.results[1].family = Some("bends".to_owned());
    refused(&other);
    // The names are the same, what they stand for is not.
    let [mut one, mut other] = [rmses(1, &[1.0, 2.0]), rmses(1, &[1.0, 2.0])];
    one.scenarios = Some("2, 00ff".to_owned());
    let compared = |b: &RunReport, c: &RunReport| compare(b, c, &CompareOptions::default());
    assert!(compared(&one, &other).is_ok(), "one of them does not say");
    other.scenarios.clone_from(&one.scenarios);
    assert!(compared(&one, &other).is_ok());
    other.scenarios = Some("2, 00fe".to_owned());
    let told = compared(&one, &other).unwrap_err().to_string();
    assert!(
        told.contains("2, 00ff") && told.contains("2, 00fe"),
        "{told}"
    );
}

#[test]
fn regressions_are_ranked_by_margins_with_events_first() {
    let metrics = |lateral_error_rmse, off_lane_ratio| {
        Ok(Metrics {
            lateral_error_rmse,
            off_lane_ratio,
            ..Metrics::default()
        })
    };
    let baseline = run(1, [metrics(0.2, 0.0), metrics(0.2, 0.0), metrics(0.2, 0.0)]);
    // A little outside the lane, twice the lateral error, a collision.
    let candidate = run(1, [metrics(0.2, 0.012), metrics(0.4, 0.0), collision()]);
    let found = default(&baseline, &candidate);
    let listed: Vec<_> = found
        .regressions
        .iter()
        .map(|r| (r.scenario.as_str(), r.what))
        .collect();
    let expected = [
        ("s2", "collision"),
        ("s1", "lateral_error_rmse"),
        ("s0", "off_lane_ratio"),
    ];
    assert_eq!(listed, expected);
    let margins = found.regressions[1].margins.expect("a metric");
    assert!((margins - 0.2 / 0.03).abs() < 1e-9);
}

#[test]
fn a_family_is_one_piece_of_evidence() {
    let in_families = |mut run: RunReport, n: usize| {
        for result in &mut run.results {
            result.family = Some(format!("family {}", result.index % n));
        }
        run
    };
    let worse: Vec<f64> = (0..40).map(|i| 1.1 + 0.01 * f64::from(i % 4)).collect();
    let (b, c) = (rmses(1, &[1.0; 40]), rmses(1, &worse));
    assert!(is_fail(&default(&b, &c)));
    let found = default(&in_families(b, 4), &in_families(c, 4));
    assert_eq!((found.n_scenarios, found.n_families), (40, 4));
    assert!(needed(&found).is_some_and(|n| n >= 5));
}

#[test]
fn replicates_are_averaged_within_their_scenario() {
    let replicated = |values: &[[f64; 2]]| {
        let mut report = run(1, values.iter().flatten().map(|&x| rmse(x)));
        for (i, result) in report.results.iter_mut().enumerate() {
            (result.index, result.replicate) = (i / 2, i % 2);
            result.name = format!("s{}", i / 2);
        }
        report
    };
    let found = default(
        &replicated(&[[1.0, 2.0]; 10]),
        &replicated(&[[2.0, 1.0]; 10]),
    );
    assert_eq!(
        (found.n_drives, found.n_scenarios, found.n_families),
        (20, 10, 10)
    );
    assert_eq!((lateral(&found).n, lateral(&found).delta), (10, 0.0));
}

#[test]
fn the_same_runs_give_the_same_answer_bit_for_bit() {
    let mut random = Philox::new(8, 0);
    let mut draw = || -> Vec<f64> { (0..60).map(|_| random.next_normal().abs()).collect() };
    let (b, c) = (rmses(1, &draw()), rmses(2, &draw()));
    let first = default(&b, &c);
    let again = std::thread::scope(|scope| {
        let on_threads: Vec<_> = (0..3).map(|_| scope.spawn(|| default(&b, &c))).collect();
        let joined = on_threads.into_iter().map(|t| t.join().expect("no panic"));
        joined.collect::<Vec<_>>()
    });
    assert!(again.iter().all(|comparison| *comparison == first));
}
