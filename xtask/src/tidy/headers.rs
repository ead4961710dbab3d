//! Rule `header`: every Rust file opens with a `//!` line that says what it is.

use super::tree::{Finding, Tree};

const RULE: &str = "header";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files
        .iter()
        .filter(|file| file.is_rust())
        .filter(|file| {
            let first = file.text.lines().next().unwrap_or("");
            let words = first.strip_prefix("//!").unwrap_or("");
            words.trim().is_empty()
        })
        .map(|file| Finding::new(RULE, &file.path, 1, "the first line is no `//!` header"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_passes() {
        assert_eq!(
            check(&Tree::of(&[
                ("a.rs", "//! Things.\nfn f() {}\n"),
                ("b.md", "x")
            ])),
            []
        );
    }

    #[test]
    fn a_missing_or_empty_header_is_found() {
        let bad = Tree::of(&[("a.rs", "fn f() {}\n"), ("b.rs", "//!\n"), ("c.rs", "")]);
        assert_eq!(check(&bad).len(), 3);
    }
}
