//! Reading Rust text line by line: which lines are test code.

use super::tree::TextFile;

/// Whether the whole file is test code.
pub(super) fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Lines with their number from 1, without inline test modules.
///
/// A test module is `#[cfg(test)]` followed by `mod name {`, up to the brace that closes it
/// in the first column; rustfmt puts it there.
pub(super) fn lines_outside_tests(file: &TextFile) -> Vec<(usize, &str)> {
    if is_test_file(&file.path) {
        return Vec::new();
    }
    let mut kept = Vec::new();
    let mut in_tests = false;
    let mut after_cfg_test = false;
    for (idx, line) in file.text.lines().enumerate() {
        if in_tests {
            in_tests = line != "}";
            continue;
        }
        if after_cfg_test && line.starts_with("mod ") && line.ends_with('{') {
            in_tests = true;
        } else {
            kept.push((idx + 1, line));
        }
        after_cfg_test = line == "#[cfg(test)]";
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(path: &str, text: &str) -> Vec<usize> {
        let file = TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        lines_outside_tests(&file)
            .iter()
            .map(|(line, _)| *line)
            .collect()
    }

    #[test]
    fn inline_test_modules_are_left_out() {
        let text = "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {\n    }\n}\nfn h() {}\n";
        assert_eq!(kept("src/a.rs", text), [1, 2, 7]);
    }

    #[test]
    fn a_test_module_in_its_own_file_hides_nothing_here() {
        assert_eq!(
            kept("src/a.rs", "#[cfg(test)]\nmod tests;\nfn h() {}\n"),
            [1, 2, 3]
        );
    }

    #[test]
    fn test_files_have_no_other_lines() {
        assert!(kept("crates/a/tests/it/main.rs", "fn h() {}\n").is_empty());
        assert!(kept("src/pool/tests.rs", "fn h() {}\n").is_empty());
    }
}
