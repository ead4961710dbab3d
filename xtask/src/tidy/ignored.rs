//! Rule `ignored`: a test that does not run by default says why.
//!
//! ```text
//! #[ignore = "…"]     the one accepted form
//! ```

use super::tree::{Finding, Tree};

const RULE: &str = "ignored";

/// Put together, so that this file does not break its own rule.
const BARE: &str = concat!("#[ig", "nore]");

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        for (idx, line) in file.text.lines().enumerate() {
            let code = line.trim_start();
            let is_empty = code
                .strip_prefix("#[ignore = \"")
                .is_some_and(|reason| reason.trim_start().starts_with('"'));
            if code.starts_with(BARE) || is_empty {
                let message = "an ignored test without a reason";
                findings.push(Finding::new(RULE, &file.path, idx + 1, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_passes() {
        let clean = "//! T.\n#[ignore = \"all 2^32 inputs: an hour\"]\nfn f() {}\n";
        assert_eq!(check(&Tree::of(&[("tests/a.rs", clean)])), []);
    }

    #[test]
    fn a_missing_reason_is_found() {
        let bad = format!("//! T.\n    {BARE}\nfn f() {{}}\n#[ignore = \" \"]\n");
        assert_eq!(check(&Tree::of(&[("src/a.rs", &bad)])).len(), 2);
    }
}
