//! Rule `manifest`: one place for versions and lints, and a reason for each dependency.
//!
//! - the root gives every outside dependency a `# why`, on its line or on the line above;
//! - members inherit: `name.workspace = true`, and `[lints] workspace = true`;
//! - a plain `cargo test` builds every member;
//! - `rust-toolchain.toml` pins a release of the `rust-version` the root promises.
//!
//! The reader knows the TOML these manifests are written in: one key per line, tables in
//! lines of their own, arrays possibly over several lines.

use super::tree::{Finding, TextFile, Tree};

const RULE: &str = "manifest";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_manifest()) {
        let folder = file.path.strip_suffix("Cargo.toml").unwrap_or_default();
        let folder = folder.trim_end_matches('/');
        if !tree.packages.iter().any(|package| package.folder == folder) {
            continue; // a workspace of its own, as benches/rivals
        }
        if folder.is_empty() {
            findings.extend(reasons(file));
        }
        findings.extend(inheritance(file));
    }
    for package in tree.packages.iter().filter(|package| !package.is_default) {
        let message = format!("plain `cargo test` leaves `{}` out", package.name);
        findings.push(Finding::new(RULE, "Cargo.toml", 0, message));
    }
    findings.extend(toolchain(tree));
    findings
}

/// One `key = value` with the table it stands in.
struct Entry<'a> {
    table: &'a str,
    key: &'a str,
    value: String,
    line: usize,
    has_comment: bool,
}

fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let mut table = "";
    let mut open_brackets = 0_usize;
    let mut comment_above = false;
    for (idx, line) in text.lines().enumerate() {
        let (code, comment) = split_comment(line);
        let code = code.trim();
        let has_comment = comment.is_some_and(|comment| !comment.trim().is_empty());
        if open_brackets > 0 {
            if let Some(entry) = entries.last_mut() {
                entry.value.push_str(code);
                entry.has_comment |= has_comment;
            }
        } else if let Some(name) = code.strip_prefix('[') {
            table = name.trim_matches(|c| c == '[' || c == ']');
        } else if let Some((key, value)) = code.split_once('=') {
            entries.push(Entry {
                table,
                key: key.trim(),
                value: value.trim().to_owned(),
                line: idx + 1,
                has_comment: has_comment || comment_above,
            });
        }
        if !code.starts_with('[') || open_brackets > 0 {
            let n_opened = code.matches('[').count() + code.matches('{').count();
            let n_closed = code.matches(']').count() + code.matches('}').count();
            open_brackets = (open_brackets + n_opened).saturating_sub(n_closed);
        }
        comment_above = code.is_empty() && has_comment;
    }
    entries
}

/// Splits at the first `#` outside quotes.
fn split_comment(line: &str) -> (&str, Option<&str>) {
    let mut in_quotes = false;
    for (idx, c) in line.char_indices() {
        match c {
            '"' => in_quotes = !in_quotes,
            '#' if !in_quotes => return (&line[..idx], Some(&line[idx + 1..])),
            _ => {}
        }
    }
    (line, None)
}

fn reasons(root: &TextFile) -> Vec<Finding> {
    entries(&root.text)
        .iter()
        .filter(|entry| entry.table == "workspace.dependencies")
        .filter(|entry| !entry.has_comment && !entry.value.contains("path ="))
        .map(|entry| {
            let message = format!("dependency `{}` has no `# why`", entry.key);
            Finding::new(RULE, &root.path, entry.line, message)
        })
        .collect()
}

fn inheritance(member: &TextFile) -> Vec<Finding> {
    let entries = entries(&member.text);
    let mut findings = Vec::new();
    let lints = entries
        .iter()
        .any(|entry| entry.table == "lints" && entry.key == "workspace" && entry.value == "true");
    if !lints {
        let message = "the workspace's lints are not inherited";
        findings.push(Finding::new(RULE, &member.path, 0, message));
    }
    for entry in &entries {
        let is_member_table = entry.table != "workspace.dependencies"
            && (entry.table.ends_with("dependencies") || entry.table.contains("dependencies."));
        let inherits =
            entry.key.ends_with(".workspace") || entry.value.contains("workspace = true");
        let inherits_in_table = entry.table.contains("dependencies.");
        if is_member_table && !inherits && !inherits_in_table {
            let message = format!("dependency `{}` does not inherit its version", entry.key);
            findings.push(Finding::new(RULE, &member.path, entry.line, message));
        }
        if inherits_in_table && is_member_table && entry.key == "version" {
            let message = format!("`{}` gives a version of its own", entry.table);
            findings.push(Finding::new(RULE, &member.path, entry.line, message));
        }
    }
    findings
}

fn toolchain(tree: &Tree) -> Option<Finding> {
    let value_of = |path: &str, table: &str, key: &str| -> Option<String> {
        let file = tree.file(path)?;
        let entries = entries(&file.text);
        let entry = entries
            .iter()
            .find(|entry| entry.table == table && entry.key == key)?;
        Some(entry.value.trim_matches('"').to_owned())
    };
    let promised = value_of("Cargo.toml", "workspace.package", "rust-version")?;
    let pinned = value_of("rust-toolchain.toml", "toolchain", "channel")?;
    let agrees = pinned == promised || pinned.starts_with(&format!("{promised}."));
    let message = format!("channel {pinned} is no release of rust-version {promised}");
    (!agrees).then(|| Finding::new(RULE, "rust-toolchain.toml", 0, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::of(files);
        for folder in ["", "crates/a"] {
            tree.packages.push(Package {
                name: "a".to_owned(),
                folder: folder.to_owned(),
                is_default: true,
                ..Package::default()
            });
        }
        tree
    }

    #[track_caller]
    fn finds(files: &[(&str, &str)], n_findings: usize) {
        let findings = check(&tree(files));
        assert_eq!(findings.len(), n_findings, "{findings:?}");
    }

    const LINTS: &str = "[lints]\nworkspace = true\n";

    #[test]
    fn reasoned_dependencies_pass() {
        let root = format!(
            "{LINTS}[workspace.dependencies]\nours = {{ path = \"crates/ours\" }}\nhalf = \"2\" # f16\n\
             # SIMD products\ngemm = {{ version = \"0.19\", features = [\n  \"f16\",\n] }}\n"
        );
        finds(&[("Cargo.toml", &root)], 0);
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let root = format!("{LINTS}[workspace.dependencies]\nhalf = \"2\"\nserde = \"1#2\"\n");
        finds(&[("Cargo.toml", &root)], 2);
    }

    #[test]
    fn inheriting_members_pass() {
        let member = format!(
            "{LINTS}[dependencies]\nhalf.workspace = true\n\
             serde = {{ workspace = true, optional = true }}\n"
        );
        finds(&[("crates/a/Cargo.toml", &member)], 0);
    }

    #[test]
    fn a_version_in_a_member_is_found() {
        let member = format!("{LINTS}[dev-dependencies]\nhalf = \"2\"\n");
        finds(&[("crates/a/Cargo.toml", &member)], 1);
        let table = format!("{LINTS}[dependencies.half]\nversion = \"2\"\n");
        finds(&[("crates/a/Cargo.toml", &table)], 1);
    }

    #[test]
    fn missing_lints_are_found() {
        finds(&[("crates/a/Cargo.toml", "[dependencies]\n")], 1);
    }

    #[test]
    fn another_workspace_is_left_alone() {
        finds(
            &[("benches/rivals/Cargo.toml", "[dependencies]\nort = \"2\"\n")],
            0,
        );
    }

    #[test]
    fn a_member_outside_the_default_set_is_found() {
        let mut tree = tree(&[]);
        tree.packages[1].is_default = false;
        assert_eq!(check(&tree).len(), 1);
    }

    #[test]
    fn another_toolchain_is_found() {
        let root = format!("[workspace.package]\nrust-version = \"1.95\"\n{LINTS}");
        let pin = |channel: &str| format!("[toolchain]\nchannel = \"{channel}\"\n");
        finds(
            &[
                ("Cargo.toml", &root),
                ("rust-toolchain.toml", &pin("1.95.0")),
            ],
            0,
        );
        finds(
            &[
                ("Cargo.toml", &root),
                ("rust-toolchain.toml", &pin("1.9.5")),
            ],
            1,
        );
    }
}
