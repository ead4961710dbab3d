//! Rule `link`: a relative link in a Markdown page leads to a file, and to a heading in it; the summary of the book leads to
//! every page of docs/.

use super::tree::{Finding, TextFile, Tree};

const RULE: &str = "link";
const SUMMARY: &str = "docs/SUMMARY.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in tree.files.iter().filter(|file| file.is_markdown()) {
        for (line, target) in links(&page.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = resolve(&page.path, path);
            let is_folder = tree
                .paths
                .iter()
                .any(|other| other.starts_with(&format!("{path}/")));
            if !is_folder && !tree.paths.contains(&path) {
                let message = format!("`{target}` leads nowhere");
                findings.push(Finding::new(RULE, &page.path, line, message));
            } else if !anchor.is_empty()
                && let Some(other) = tree.file(&path)
                && other.is_markdown()
                && !anchors(other).contains(&anchor.to_owned())
            {
                let message = format!("`{path}` has no heading `#{anchor}`");
                findings.push(Finding::new(RULE, &page.path, line, message));
            }
        }
    }
    findings.extend(missing_in_summary(tree));
    findings
}

fn missing_in_summary(tree: &Tree) -> Vec<Finding> {
    let Some(summary) = tree.file(SUMMARY) else {
        return Vec::new();
    };
    let targets = links(&summary.text).into_iter();
    let listed: Vec<String> = targets
        .map(|(_, target)| resolve(SUMMARY, target))
        .collect();
    let pages = tree.files.iter().filter(|file| {
        file.is_markdown() && file.path.starts_with("docs/") && file.path != SUMMARY
    });
    let missing = pages.filter(|page| !listed.contains(&page.path));
    let message = format!("{SUMMARY} does not name this page");
    missing
        .map(|page| Finding::new(RULE, &page.path, 0, &message))
        .collect()
}

/// Targets of `[text](target)` outside fenced code, with their line.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut in_fence = false;
    for (idx, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        }
        if in_fence {
            continue;
        }
        for (start, opening) in line.match_indices("](") {
            let rest = &line[start + opening.len()..];
            if let Some(end) = rest.find(')') {
                links.push((idx + 1, rest[..end].trim()));
            }
        }
    }
    links
}

/// The path `target` means on a page, relative to the root.
pub(crate) fn resolve(page: &str, target: &str) -> String {
    if target.is_empty() {
        return page.to_owned();
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return target.to_owned(); // leaves the workspace: cannot exist in it
                }
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Headings as the usual renderers name them: lower case, spaces to dashes, punctuation out.
fn anchors(page: &TextFile) -> Vec<String> {
    page.text
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter_map(|c| match c {
                    ' ' => Some('-'),
                    c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                    _ => None,
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: [(&str, &str); 2] = [
        ("docs/b.md", "# The `B` page, again\n"),
        ("src/lib.rs", "//! L.\n"),
    ];

    #[track_caller]
    fn finds(text: &str, n_findings: usize) {
        let mut files = PAGES.to_vec();
        files.push(("docs/a.md", text));
        assert_eq!(check(&Tree::of(&files)).len(), n_findings, "{text}");
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        finds(
            "[b](b.md), [lib](../src/lib.rs), [folder](../src/), [web](https://docs.rs)\n",
            0,
        );
        finds("# Here\n[up](#here) [b](b.md#the-b-page-again)\n", 0);
        finds("```\n[x](none.md)\n```\n", 0);
    }

    #[test]
    fn a_page_that_the_summary_does_not_name_is_found() {
        let page = ("docs/a.md", "# A\n");
        let summary = |text| Tree::of(&[page, ("docs/SUMMARY.md", text)]);
        assert_eq!(check(&summary("- [A](a.md)\n")), []);
        assert_eq!(check(&summary("- A\n")).len(), 1);
    }

    #[test]
    fn dead_links_are_found() {
        finds("[b](c.md) and [b](../../b.md)\n", 2);
    }

    #[test]
    fn dead_headings_are_found() {
        finds("[b](b.md#the-c-page)\n", 1);
    }
}
