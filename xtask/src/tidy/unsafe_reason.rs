//! Rule `unsafe`: permission for unsafe code is given once, for a file, with its reason.
//!
//! ```text
//! #![allow(unsafe_code, reason = "…")]     the one accepted form
//! ```

use super::tree::{Finding, Tree};

const RULE: &str = "unsafe";

/// Put together, so that this file does not ask for a permission itself.
const LINT: &str = concat!("unsafe", "_code");

/// The lint that asks for a SAFETY comment.
const UNDOCUMENTED: &str = concat!("undocumented_", "unsafe_blocks");

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let mut n_permissions = 0;
        for (start, attribute) in attributes(&file.text) {
            let gives = attribute.contains("allow(") || attribute.contains("expect(");
            if gives && attribute.contains(UNDOCUMENTED) {
                let line = file.text[..start].matches('\n').count() + 1;
                let message = "unsafe blocks without their facts are allowed nowhere";
                findings.push(Finding::new(RULE, &file.path, line, message));
            }
            if !gives || !names_lint(attribute) {
                continue;
            }
            n_permissions += 1;
            let line = file.text[..start].matches('\n').count() + 1;
            let mut found = |message: &str| {
                findings.push(Finding::new(RULE, &file.path, line, message));
            };
            if !has_reason(attribute) {
                found("permission for unsafe code without `reason = \"…\"`");
            }
            if !attribute.starts_with("#![") {
                found("permission for unsafe code is given to a whole file, as `#![allow(…)]`");
            }
            if n_permissions > 1 {
                found("permission for unsafe code is given a second time");
            }
        }
    }
    findings
}

/// Attributes that open a line: where each starts, and its text up to the closing bracket.
fn attributes(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        let start = line_start + indent;
        line_start += line.len();
        let rest = &text[start..];
        if !(rest.starts_with("#[") || rest.starts_with("#![")) {
            continue;
        }
        let mut depth = 0_usize;
        for (idx, c) in rest.char_indices() {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if c == ']' && depth == 0 {
                found.push((start, &rest[..=idx]));
                break;
            }
        }
    }
    found
}

fn names_lint(attribute: &str) -> bool {
    attribute
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .any(|word| word == LINT)
}

fn has_reason(attribute: &str) -> bool {
    let Some((_, rest)) = attribute.split_once("reason") else {
        return false;
    };
    let Some((_, quoted)) = rest.split_once('"') else {
        return false;
    };
    quoted
        .split_once('"')
        .is_some_and(|(reason, _)| !reason.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(text: &str, n_findings: usize) {
        let tree = Tree::of(&[("src/a.rs", text)]);
        assert_eq!(check(&tree).len(), n_findings, "{text}");
    }

    #[test]
    fn one_permission_with_a_reason_passes() {
        finds(
            "//! A.\n#![allow(unsafe_code, reason = \"driver calls\")]\n",
            0,
        );
        finds(
            "#![allow(\n    unsafe_code,\n    reason = \"driver calls\"\n)]\n",
            0,
        );
        finds(
            "//! A.\n\n#![allow(unsafe_code, reason = \"after a blank line\")]\n",
            0,
        );
        finds("#[allow(dead_code)]\n#![deny(unsafe_code)]\n", 0);
    }

    #[test]
    fn a_permission_without_a_reason_is_found() {
        finds("#![allow(unsafe_code)]\n", 1);
        finds("#![expect(unsafe_code, reason = \" \")]\n", 1);
    }

    #[test]
    fn a_permission_for_one_item_is_found() {
        finds(
            "    #[allow(unsafe_code, reason = \"simd\")]\n    fn f() {}\n",
            1,
        );
    }

    #[test]
    fn a_permission_to_leave_the_facts_out_is_found() {
        finds(
            concat!(
                "#![allow(clippy::undocumented_",
                "unsafe_blocks, reason = \"x\")]\n"
            ),
            1,
        );
    }

    #[test]
    fn a_second_permission_is_found() {
        let twice =
            "#![allow(unsafe_code, reason = \"a\")]\n#![allow(unsafe_code, reason = \"b\")]\n";
        finds(twice, 1);
    }
}
