//! The tables of a comparison and of a run, which pages and Markdown have alike.

use super::number::{beyond, interval, p_value, percent};
use crate::compare::{Comparison, MetricSummary, Verdict};
use crate::metric::Role;
use spark_drawing::number::short;
use spark_drawing::{Align, Cell, Table, Tone};

/// Events of both, with the evidence that one has more.
pub(super) fn events(comparison: &Comparison) -> Table {
    let words = ["event", "meaning"].map(|heading| (heading, Align::Left));
    let numbers = [
        "baseline drives",
        "candidate drives",
        "new in scenarios",
        "gone from scenarios",
        "p",
        "adjusted p",
    ];
    let numbers = numbers.map(|heading| (heading, Align::Right));
    let mut table = Table::new(words.into_iter().chain(numbers));
    for event in &comparison.events {
        let tone = if event.p_adjusted <= comparison.alpha {
            Tone::Bad
        } else {
            Tone::Plain
        };
        table.row([
            event.event.into(),
            event.meaning.into(),
            event.baseline.to_string().into(),
            event.candidate.to_string().into(),
            event.new.len().to_string().into(),
            event.fixed.len().to_string().into(),
            p_value(event.p).into(),
            Cell::toned(p_value(event.p_adjusted), tone),
        ]);
    }
    table
}

/// What the metrics of a role came to; nothing if it has none.
pub(super) fn metrics(comparison: &Comparison, role: Role) -> Option<Table> {
    use Align::{Left, Right};
    let level = 100.0 * (1.0 - comparison.alpha);
    let mut table = Table::new([
        ("metric".to_owned(), Left),
        ("unit".to_owned(), Left),
        ("families".to_owned(), Right),
        ("baseline".to_owned(), Right),
        ("candidate".to_owned(), Right),
        ("change".to_owned(), Right),
        (format!("{level} % interval of the change"), Right),
        ("worse by at most".to_owned(), Right),
        ("margin".to_owned(), Right),
        ("p".to_owned(), Right),
        ("adjusted p".to_owned(), Right),
        ("families beyond".to_owned(), Right),
        ("verdict".to_owned(), Left),
    ]);
    let shown: Vec<_> = comparison
        .metrics
        .iter()
        .filter(|m| m.role == role)
        .collect();
    for m in &shown {
        table.row([
            m.metric.into(),
            m.unit.into(),
            m.n_families.to_string().into(),
            short(m.baseline).into(),
            short(m.candidate).into(),
            percent(m.change_percent).into(),
            interval(m.interval).into(),
            Cell::from(m.worse_by_at_most.map_or_else(|| "none".to_owned(), short)),
            short(m.margin).into(),
            p_value(m.p_difference).into(),
            p_value(m.p_adjusted).into(),
            beyond(m.n_families_beyond, m.share_beyond_at_most).into(),
            Cell::toned(m.verdict.words(), tone(m.verdict)),
        ]);
    }
    (!shown.is_empty()).then_some(table)
}

fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Better => Tone::Good,
        Verdict::Worse | Verdict::WorseBeyondMargin => Tone::Bad,
        Verdict::Undecided => Tone::Open,
        Verdict::WithinMargin | Verdict::NoDifferenceShown => Tone::Muted,
    }
}

/// The first `most` regressions.
pub(super) fn regressions(comparison: &Comparison, most: usize) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new([
        ("scenario", Left),
        ("what", Left),
        ("baseline", Right),
        ("candidate", Right),
        ("margins", Right),
    ]);
    for r in comparison.regressions.iter().take(most) {
        table.row([
            r.scenario.clone(),
            r.what.to_string(),
            short(r.baseline),
            short(r.candidate),
            r.margins.map_or_else(|| "event".to_owned(), short),
        ]);
    }
    table
}

/// One run's metrics over its drives.
pub(super) fn summary(metrics: &[MetricSummary]) -> Table {
    let words = ["metric", "unit"].map(|heading| (heading, Align::Left));
    let numbers = ["n", "mean", "std", "min", "median", "p95", "max"];
    let numbers = numbers.map(|heading| (heading, Align::Right));
    let mut table = Table::new(words.into_iter().chain(numbers));
    for m in metrics {
        let words = [m.metric.to_owned(), m.unit.to_owned(), m.n.to_string()];
        let figures = [m.mean, m.std, m.min, m.median, m.p95, m.max].map(short);
        table.row(words.into_iter().chain(figures));
    }
    table
}

/// Metrics that a comparison has no figures of, with words for the reason; without those of which
/// there are none.
pub(super) fn not_compared(
    comparison: &Comparison,
) -> impl Iterator<Item = (&'static str, &[&'static str])> {
    let lists = [
        ("Does not apply to any scenario", &comparison.not_applicable),
        (
            "Measured nowhere, because every pair of drives had a collision",
            &comparison.not_measured,
        ),
    ];
    let named = lists.into_iter().filter(|(_, names)| !names.is_empty());
    named.map(|(words, names)| (words, names.as_slice()))
}
