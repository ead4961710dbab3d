//! The report as text and as JSON.

use crate::json::{Object, array};

use super::check::Check;
use super::report::Report;
use super::verdict::{Finding, Seen, Severity, Verdict};

impl Report {
    /// For people: the worst first, then figures under load and what was not examined; passed checks are only counted.
    #[must_use]
    pub fn to_text(&self) -> String {
        text(self)
    }

    /// For programs: every check with its outcome, and figures under load where there are any; schema `spark-doctor/2`.
    #[must_use]
    pub fn to_json(&self) -> String {
        json(self)
    }
}

fn text(report: &Report) -> String {
    let mut text = format!("{}\n", report.machine);
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        let of_this = report
            .findings()
            .filter(|(_, finding)| finding.severity == severity);
        for (check, finding) in of_this {
            write_finding(&mut text, check, finding);
        }
    }
    for outcome in &report.outcomes {
        if outcome.verdict == Verdict::TimedOut {
            text.push_str(&format!(
                "\nwarning  {} did not end in time\n",
                outcome.check.id
            ));
        }
    }
    if let Some(load) = &report.load {
        text.push_str(&load.to_text());
    }
    let not_examined = report.outcomes.iter().filter_map(|outcome| {
        let Verdict::NotExamined(why) = &outcome.verdict else {
            return None;
        };
        Some(format!("  {}: {why}\n", outcome.check.id))
    });
    let not_examined: String = not_examined.collect();
    if !not_examined.is_empty() {
        text.push_str("\nnot examined\n");
        text.push_str(&not_examined);
    }
    text.push_str(&format!("\n{}\n", counts(report)));
    text
}

fn write_finding(text: &mut String, check: &Check, finding: &Finding) {
    text.push_str(&format!(
        "\n{:<8} {}: {}\n",
        finding.severity, check.id, finding.message
    ));
    for Seen { source, said } in &finding.evidence {
        text.push_str(&format!("  seen   {source}: {said}\n"));
    }
    text.push_str(&format!(
        "  fix    {}\n  about  {}\n",
        finding.fix, check.source
    ));
}

/// `1 error, 2 warnings, 0 notes; 12 checks passed, 3 not examined, 20 do not apply here`
fn counts(report: &Report) -> String {
    let found = |severity| {
        report
            .findings()
            .filter(|(_, finding)| finding.severity == severity)
            .count()
    };
    let of = |wanted: fn(&Verdict) -> bool| {
        report
            .outcomes
            .iter()
            .filter(|outcome| wanted(&outcome.verdict))
            .count()
    };
    let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    format!(
        "{}, {}, {}; {} passed, {} not examined, {} do not apply here",
        plural(found(Severity::Error), "error"),
        plural(found(Severity::Warning), "warning"),
        plural(found(Severity::Note), "note"),
        plural(of(|verdict| *verdict == Verdict::Passed), "check"),
        of(|verdict| matches!(verdict, Verdict::NotExamined(_) | Verdict::TimedOut)),
        of(|verdict| matches!(verdict, Verdict::NotApplicable(_))),
    )
}

fn json(report: &Report) -> String {
    let outcomes = report.outcomes.iter().map(|outcome| {
        let check = outcome.check;
        let object = Object::new()
            .text("id", check.id)
            .text("title", check.title);
        let object = match &outcome.verdict {
            Verdict::Passed => object.text("outcome", "passed"),
            Verdict::TimedOut => object.text("outcome", "timed_out"),
            Verdict::NotExamined(why) => object.text("outcome", "not_examined").text("reason", why),
            Verdict::NotApplicable(why) => {
                object.text("outcome", "not_applicable").text("reason", why)
            }
            Verdict::Found(finding) => object
                .text("outcome", "found")
                .text("severity", &finding.severity.to_string())
                .text("message", &finding.message)
                .raw("evidence", &array(finding.evidence.iter().map(seen)))
                .text("fix", &finding.fix),
        };
        object.text("source", check.source).finish()
    });
    let object = Object::new()
        .text("schema", "spark-doctor/2")
        .text("machine", &report.machine)
        .raw("counts", &json_counts(report))
        .raw("checks", &array(outcomes));
    match &report.load {
        Some(load) => object.raw("load", &load.to_json()).finish(),
        None => object.finish(),
    }
}

/// How many checks had each outcome; a check out of time is not examined.
fn json_counts(report: &Report) -> String {
    let of = |wanted: fn(&Verdict) -> bool| {
        let wanted = report
            .outcomes
            .iter()
            .filter(|outcome| wanted(&outcome.verdict));
        wanted.count() as u64
    };
    Object::new()
        .number("passed", of(|verdict| *verdict == Verdict::Passed))
        .number("found", of(|verdict| matches!(verdict, Verdict::Found(_))))
        .number(
            "not_examined",
            of(|verdict| matches!(verdict, Verdict::NotExamined(_) | Verdict::TimedOut)),
        )
        .number(
            "not_applicable",
            of(|verdict| matches!(verdict, Verdict::NotApplicable(_))),
        )
        .finish()
}

fn seen(seen: &Seen) -> String {
    Object::new()
        .text("source", &seen.source)
        .text("said", &seen.said)
        .finish()
}
