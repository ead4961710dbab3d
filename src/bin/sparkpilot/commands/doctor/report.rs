//! One text about a machine for an issue or a forum: what it is, what was found, what was not looked at, which software it has.
//!
//! Markdown whose contents stand in fenced blocks: there a forum makes no links to issues, people or headings of what a file of the
//! machine says. The fences are longer than any run of backquotes inside. What names the machine or its owner is taken out of
//! the whole text at the end (`Publication`), so that no part can be forgotten.

use sparkpilot::hal::Reading;
use sparkpilot::hal::doctor::{Facts, Publication, Report, Verdict};

/// Writes the report.
pub(super) fn to_markdown(facts: &Facts, report: &Report) -> String {
    let sections = [
        ("Machine", machine(facts)),
        ("Findings", report.to_text()),
        ("Passed", passed(report)),
        ("Software", software(facts)),
    ];
    let longest = sections.iter().map(|(_, text)| longest_fence(text)).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    let mut markdown = format!("## sparkpilot doctor {}\n", env!("CARGO_PKG_VERSION"));
    for (title, text) in &sections {
        let text = text.trim_end();
        markdown.push_str(&format!("\n### {title}\n\n{fence}text\n{text}\n{fence}\n"));
    }
    Publication::of(facts).redacted(&markdown)
}

/// The longest run of backquotes.
fn longest_fence(text: &str) -> usize {
    let runs = text.split(|c| c != '`').map(str::len);
    runs.max().unwrap_or(0)
}

fn machine(facts: &Facts) -> String {
    let machine = &facts.machine;
    let source = match facts.root.is_host() {
        true => "the machine itself",
        false => "a record: what drivers and the environment say is not in it",
    };
    let mut lines = vec![
        format!("machine    {}", machine.platform.kind),
        format!("source     {source}"),
        format!("kernel     {}", machine.kernel),
    ];
    if let Some(release) = machine.platform.dgx_release.as_value() {
        let version = release.version().unwrap_or("of an unknown version");
        lines.push(format!("DGX OS     {} {version}", release.name));
    }
    if let Some(container) = &machine.platform.container {
        lines.push(format!(
            "container  {}: {} = {}",
            container.kind, container.source, container.said
        ));
    }
    for gpu in &machine.gpus {
        lines.push(format!(
            "gpu        {}, compute capability {}",
            gpu.name, gpu.compute_capability
        ));
    }
    let evidence = machine.platform.evidence.iter();
    lines.extend(evidence.map(|seen| format!("because    {seen}")));
    lines.join("\n")
}

/// The ids of what passed and of what does not apply: a pass is no finding, and silence would not be a pass.
fn passed(report: &Report) -> String {
    let of = |wanted: fn(&Verdict) -> bool| {
        let outcomes = report.outcomes.iter();
        let ids = outcomes.filter(|outcome| wanted(&outcome.verdict));
        let ids: Vec<&str> = ids.map(|outcome| outcome.check.id).collect();
        match ids.is_empty() {
            true => "none".to_owned(),
            false => ids.join(" "),
        }
    };
    format!(
        "passed          {}\ndo not apply    {}",
        of(|verdict| *verdict == Verdict::Passed),
        of(|verdict| matches!(verdict, Verdict::NotApplicable(_)))
    )
}

fn software(facts: &Facts) -> String {
    let stack = &facts.machine.stack;
    let mut lines = vec![
        format!("driver        {}", or_none(&stack.driver)),
        format!("CUDA of it    {}", or_none(&stack.driver_cuda)),
        format!("CUDA toolkit  {}", or_none(&stack.toolkit)),
    ];
    let libraries = stack.libraries.iter();
    lines.extend(libraries.map(|it| format!("{:<13} {} in {}", it.name, it.version, it.path)));
    lines.join("\n")
}

/// Software that a machine does not have is none; whether it could have some, nobody asks.
fn or_none<T: std::fmt::Display>(found: &Reading<T>) -> String {
    match found {
        Reading::NotSupported => "none found".to_owned(),
        found => found.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::longest_fence;

    #[test]
    fn runs_of_backquotes_are_counted() {
        assert_eq!(longest_fence(""), 0);
        assert_eq!(longest_fence("a `b` ```` c"), 4);
    }
}
