//! The gate against what the guide says of it: which metrics decide, by how much, which way; when
//! something is an event; how questions are counted.

use super::*;
use crate::metric::{CATALOGUE, EVENTS, MetricInfo, Role};

/// Metrics of which more is better.
const MORE_IS_BETTER: [&str; 4] = ["safety_margin_min", "ttc_min", "gap_min", "headway_min"];

/// Name and margin of every metric in the guide's table with this title, as `absolute + relative`.
fn documented(title: &str) -> Vec<(String, [f64; 2])> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sim-guide.md");
    let guide = std::fs::read_to_string(path).expect("the guide");
    let rows = guide.lines().skip_while(|line| !line.starts_with(title));
    let mut margins = Vec::new();
    for row in rows.skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let number = |text: &str| -> f64 {
            let first = text.split_whitespace().next().expect("a number");
            first.parse().expect("a number")
        };
        let margin = match cells[2].split_once(" + ") {
            Some((absolute, percent)) => [number(absolute), 0.01 * number(percent)],
            None => [number(cells[2]), 0.0],
        };
        let names = cells[1].split(", ").map(|name| name.trim_matches('`'));
        margins.extend(names.map(|name| (name.to_owned(), margin)));
    }
    margins
}

fn deciding() -> Vec<(String, [f64; 2])> {
    documented("| metric that decides")
}

fn reported() -> Vec<(String, [f64; 2])> {
    documented("| metric that is reported")
}

#[test]
fn the_guide_lists_every_metric_with_its_margin_and_role() {
    for (role, listed) in [(Role::Primary, deciding()), (Role::Secondary, reported())] {
        let mut known: Vec<(String, [f64; 2])> = CATALOGUE
            .iter()
            .filter(|info| info.role == role)
            .map(|info| {
                (
                    info.name.to_owned(),
                    [info.margin.absolute, info.margin.relative],
                )
            })
            .collect();
        let mut listed = listed;
        known.sort_by(|a, b| a.0.cmp(&b.0));
        listed.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(known, listed, "{role:?}");
    }
}

/// A drive whose metric of this name is `value`.
fn having(name: &str, value: f64) -> Outcome {
    let mut metrics = Metrics {
        distance_requested_m: Some(100.0),
        distance_m: 100.0,
        ..Metrics::default()
    };
    if name == "progress_error" {
        metrics.distance_m = 100.0 * (1.0 - value);
        return Ok(metrics);
    }
    let mut fields = serde_json::to_value(&metrics).expect("JSON");
    let field = fields.get_mut(name).expect("a metric is a field");
    *field = value.into();
    Ok(serde_json::from_value(fields).expect("metrics"))
}

/// Twenty scenarios under other noise, the metric worse by so many documented margins in each.
fn worse_by(name: &str, margin: [f64; 2], n_margins: f64) -> Comparison {
    let is_share = name.ends_with("_ratio") || name == "progress_error";
    let before = if is_share { 0.5 } else { 2.0 };
    let size = margin[0] + margin[1] * before;
    let sign = if MORE_IS_BETTER.contains(&name) {
        -1.0
    } else {
        1.0
    };
    let side = |seed, value: f64| run(seed, (0..20).map(|_| having(name, value)));
    let after = before + sign * n_margins * size;
    default(&side(1, before), &side(2, after))
}

#[test]
fn every_metric_is_judged_the_documented_way_round_and_by_its_documented_margin() {
    for (metrics, when_worse) in [(deciding(), "fail"), (reported(), "pass")] {
        for (name, margin) in metrics {
            let decide = |n_margins: f64| {
                let found = worse_by(&name, margin, n_margins);
                let metric = found.metric(&name).expect("measured");
                (found.decision.word(), metric.verdict)
            };
            let worse = (when_worse, Verdict::WorseBeyondMargin);
            assert_eq!(decide(1.1), worse, "{name}");
            assert_eq!(decide(0.9), ("pass", Verdict::WithinMargin), "{name}");
            assert_eq!(decide(-0.9), ("pass", Verdict::WithinMargin), "{name}");
            assert_eq!(decide(-1.1), ("pass", Verdict::Better), "{name}");
        }
    }
    let higher = |info: &&MetricInfo| info.direction == crate::metric::Direction::Higher;
    let names: Vec<&str> = CATALOGUE.iter().filter(higher).map(|i| i.name).collect();
    assert_eq!(names, MORE_IS_BETTER);
}

#[test]
fn events_begin_where_they_are_said_to() {
    let happened = |event: &str, outcome: &Outcome| {
        let info = EVENTS.iter().find(|info| info.name == event);
        let happened = info.and_then(|info| info.happened).expect("an event");
        happened(outcome.as_ref().expect("finished"))
    };
    for (event, metric, not_yet, already) in [
        ("off_road", "off_road_ratio", 0.0, 1e-4),
        ("ttc_below_1.5_s", "ttc_min", 1.5, 1.499),
        ("headway_below_0.9_s", "headway_min", 0.9, 0.899),
    ] {
        assert!(!happened(event, &having(metric, not_yet)), "{event}");
        assert!(happened(event, &having(metric, already)), "{event}");
    }
    for event in ["collision", "ttc_below_1.5_s", "headway_below_0.9_s"] {
        assert!(happened(event, &collision()), "{event}");
        assert!(!happened(event, &rmse(0.2)), "{event}");
    }
    let severe = EVENTS.iter().filter(|info| info.is_severe);
    let severe: Vec<&str> = severe.map(|info| info.name).collect();
    assert_eq!(severe, ["failure", "collision", "off_road"]);
}

/// Thirty scenarios; the first `n_near` of them a little nearer than 1.5 s to a collision, with
/// scenario `close` too near behind another car.
fn nearly(seed: u64, n_near: usize, close: usize) -> RunReport {
    let outcome = |i| {
        Ok(Metrics {
            ttc_min: Some(if i < n_near { 1.46 } else { 1.53 }),
            headway_min: Some(if i == close { 0.88 } else { 0.95 }),
            ..Metrics::default()
        })
    };
    run(seed, (0..30).map(outcome))
}

#[test]
fn events_are_adjusted_for_the_number_of_questions() {
    // Five new near misses: p = 1/32 alone, and four questions were asked.
    let found = default(&nearly(1, 0, 20), &nearly(2, 5, 21));
    let event = found.event("ttc_below_1.5_s").expect("counted");
    assert!((event.p - 1.0 / 32.0).abs() < 1e-12);
    assert!(event.p_adjusted > 0.09, "{}", event.p_adjusted);
    assert!(!is_fail(&found), "{:?}", found.decision);
    // Nine are beyond chance whatever else was asked.
    assert!(is_fail(&default(&nearly(1, 0, 20), &nearly(2, 9, 21))));
}

#[test]
fn within_the_margin_is_shown_at_five_per_cent_and_no_less() {
    // One of five families just beyond the margin: two of 32 flips reach it, p = 6.25 %.
    let worse = |last: f64| {
        let candidate = [0.5, 0.5, 0.5, 0.5, 0.5 + last];
        default(&rmses(1, &[0.5; 5]), &rmses(2, &candidate))
    };
    let found = worse(0.031);
    assert!((lateral(&found).p_non_inferior - 0.0625).abs() < 1e-12);
    assert_eq!(lateral(&found).verdict, Verdict::Undecided);
    let open = |doubt: &Doubt| matches!(doubt, Doubt::NotWithinMargin { .. });
    assert!(doubts(&found).iter().any(open));
    // Just within: one of 32, 3.1 %.
    assert!(worse(0.029).passes());
}

#[test]
fn more_questions_need_more_families() {
    let suite = |seed, n: usize, shift: f64| {
        let outcome = |i| {
            let around = |mean: f64| mean + shift * if i % 2 == 0 { 1.0 } else { -1.0 };
            Ok(Metrics {
                lateral_error_rmse: around(0.3),
                lateral_error_max: around(0.9),
                lateral_jerk_rms: around(1.0),
                jerk_rms: around(1.5),
                discomfort_ratio: around(0.1),
                off_lane_ratio: around(0.1),
                ttc_min: Some(around(5.0)),
                headway_min: Some(around(2.0)),
                ..Metrics::default()
            })
        };
        run(seed, (0..n).map(outcome))
    };
    // Eight questions at 5 %: 2^-8 is the first power below 0.05 / 8.
    let found = default(&suite(1, 6, 0.0), &suite(2, 6, 1e-6));
    let doubt = Doubt::TooFewFamilies {
        n_families: 6,
        needed: 8,
        n_repeated: 0,
    };
    assert_eq!(doubts(&found), [doubt]);
    assert!(default(&suite(1, 8, 0.0), &suite(2, 8, 1e-6)).passes());
    // Where nothing differs, nothing is asked.
    assert!(default(&suite(1, 6, 0.0), &suite(2, 6, 0.0)).passes());
}
