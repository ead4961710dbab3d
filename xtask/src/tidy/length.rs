//! Rule `length`: a source file over 800 lines says why near its top.
//!
//! The reason is a line `// tidy: long because …` among the first 40.

use super::tree::{Finding, Tree};

const RULE: &str = "length";
const MAX_LINES: usize = 800;
const LINES_NEAR_TOP: usize = 40;
const MARKER: &str = "// tidy: long because ";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let is_source = [".rs", ".cu", ".cuh", ".h", ".cpp"]
            .iter()
            .any(|extension| file.path.ends_with(extension));
        let n_lines = file.text.lines().count();
        if !is_source || n_lines <= MAX_LINES {
            continue;
        }
        let has_reason = file
            .text
            .lines()
            .take(LINES_NEAR_TOP)
            .filter_map(|line| line.trim_start().strip_prefix(MARKER))
            .any(|reason| !reason.trim().is_empty());
        if !has_reason {
            let message = format!("{n_lines} lines, over {MAX_LINES} without `{MARKER}…`");
            findings.push(Finding::new(RULE, &file.path, 0, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(first: &str, n_lines: usize) -> String {
        let mut text = format!("{first}\n");
        text.push_str(&"x\n".repeat(n_lines - 1));
        text
    }

    #[test]
    fn short_files_and_reasoned_long_ones_pass() {
        let clean = Tree::of(&[
            ("a.rs", &lines("//! A.", 800)),
            ("b.rs", &lines("// tidy: long because it is one table", 900)),
            ("c.md", &lines("# C", 900)),
        ]);
        assert_eq!(check(&clean), []);
    }

    #[test]
    fn a_long_file_is_found() {
        let bad = Tree::of(&[
            ("a.rs", &lines("//! A.", 801)),
            ("b.cu", &lines("// tidy: long because ", 801)),
        ]);
        assert_eq!(check(&bad).len(), 2);
    }
}
