//! Time limits, ids and redaction; the checks themselves are tested with recorded machines.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::check::Examination;
use super::examine::run_in_time;
use super::redact::redacted;
use super::*;
use crate::{Machine, Root, Sources};

fn hangs(_: &Facts) -> Verdict {
    loop {
        std::thread::park();
    }
}

fn panics(_: &Facts) -> Verdict {
    panic!("a check with a bug")
}

static HANGS: Examination<Facts> = Examination {
    check: Check {
        id: "test.hangs",
        title: "",
        source: "",
    },
    run: hangs,
};
static PANICS: Examination<Facts> = Examination {
    check: Check {
        id: "test.panics",
        title: "",
        source: "",
    },
    run: panics,
};

#[test]
fn a_check_that_hangs_or_panics_costs_its_limit_at_most() {
    let machine = Machine::read(&Sources::files(Root::at("/nowhere")));
    let facts = Arc::new(Facts::of(Root::at("/nowhere"), machine));
    let limit = Duration::from_millis(100);
    let begin = Instant::now();
    assert_eq!(run_in_time(&HANGS, &facts, limit), Verdict::TimedOut);
    let panicked = run_in_time(&PANICS, &facts, CHECK_LIMIT);
    assert!(matches!(panicked, Verdict::NotExamined(_)), "{panicked:?}");
    assert!(begin.elapsed() < Duration::from_secs(4));
}

#[test]
fn ids_are_unique_and_every_check_names_its_source() {
    let checks = checks();
    let ids: HashSet<&str> = checks.iter().map(|check| check.id).collect();
    assert_eq!(ids.len(), checks.len());
    for check in checks {
        assert!(check.id.split_once('.').is_some(), "{}", check.id);
        assert!(
            !check.title.is_empty() && !check.source.is_empty(),
            "{}",
            check.id
        );
    }
}

#[test]
fn identifiers_are_taken_out_of_quotations() {
    let text = "GPU GPU-6f3c1a2b-1111 at 000f:01:00, id 123e4567-e89b-12d3-a456-426614174000.";
    assert_eq!(redacted(text), "GPU [removed] at 000f:01:00, id [removed]");
    assert_eq!(redacted("serial-number-must-not-appear"), "[removed]");
    assert_eq!(redacted("580.95.05"), "580.95.05");
}
