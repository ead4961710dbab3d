//! Rule `words`: no paths of one machine, no private hosts, no unfinished marks.
//!
//! The forbidden words are put together with `concat!`, so that this file does not break
//! its own rule.

use super::source::lines_outside_tests;
use super::tree::{Finding, TextFile, Tree};

const RULE: &str = "words";

/// Folders that exist on somebody's machine.
const MACHINE_PATHS: [&str; 2] = [concat!("/", "work"), concat!("/", "root")];

/// Folders of people. `user` is nobody's name: examples and fuzzed trees say that.
const HOMES: [&str; 2] = [concat!("/", "home/"), concat!("/", "Users/")];

/// Fine in a document's example, wrong in shipped code: `std::env::temp_dir` knows better.
const SCRATCH_PATH: &str = concat!("/", "tmp");

const UNFINISHED: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let mut found = |line: usize, message: String| {
            findings.push(Finding::new(RULE, &file.path, line, message));
        };
        for (line, text) in shipped_lines(file) {
            for path in MACHINE_PATHS {
                if names_path(text, path) {
                    found(line, format!("`{path}` is a folder of one machine"));
                }
            }
            for home in HOMES {
                let mut people = text.split(home).skip(1);
                let names_somebody = |rest: &str| {
                    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
                    let name = &rest[..end.unwrap_or(rest.len())];
                    !name.is_empty() && name != "user"
                };
                if people.any(names_somebody) {
                    found(
                        line,
                        format!("`{home}` of somebody is a folder of one machine"),
                    );
                }
            }
            if !file.is_markdown() && names_path(text, SCRATCH_PATH) {
                found(line, format!("`{SCRATCH_PATH}` is written out"));
            }
        }
        for (idx, text) in file.text.lines().enumerate() {
            for mark in UNFINISHED {
                if holds_word(text, mark) {
                    found(idx + 1, format!("unfinished: `{mark}`"));
                }
            }
            for host in private_hosts(text) {
                found(idx + 1, format!("`{host}` is a private or local host"));
            }
        }
    }
    findings
}

fn shipped_lines(file: &TextFile) -> Vec<(usize, &str)> {
    if file.is_rust() {
        return lines_outside_tests(file);
    }
    file.text
        .lines()
        .enumerate()
        .map(|(idx, line)| (idx + 1, line))
        .collect()
}

/// Whether `path` stands in `text` as a whole leading folder: neither `x/path` nor `/pathx`.
fn names_path(text: &str, path: &str) -> bool {
    let joins_before = |c: char| c.is_alphanumeric() || "._-/}>*)".contains(c);
    let joins_after = |c: char| c.is_alphanumeric() || "_-".contains(c);
    text.match_indices(path).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + path.len()..].chars().next();
        !before.is_some_and(joins_before) && !after.is_some_and(joins_after)
    })
}

fn holds_word(text: &str, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + word.len()..].chars().next();
        !before.is_some_and(joins) && !after.is_some_and(joins)
    })
}

/// Hosts of URLs that only one network can resolve: bare addresses, names without a dot,
/// and the usual private endings.
fn private_hosts(text: &str) -> Vec<&str> {
    const PRIVATE_ENDINGS: [&str; 5] = [".internal", ".local", ".lan", ".corp", ".intranet"];
    let mut hosts = Vec::new();
    for (start, scheme) in text.match_indices("://") {
        let rest = &text[start + scheme.len()..];
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-'))
            .unwrap_or(rest.len());
        let host = rest[..end].trim_end_matches('.');
        let is_address = !host.is_empty() && host.chars().all(|c| c.is_ascii_digit() || c == '.');
        let is_web = ["http", "https", "sparse+https", "registry+https"]
            .iter()
            .any(|name| text[..start].ends_with(name));
        let is_private = is_address
            || !host.contains('.')
            || PRIVATE_ENDINGS.iter().any(|ending| host.ends_with(ending));
        if is_web && !host.is_empty() && is_private {
            hosts.push(host);
        }
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(path: &str, text: &str, n_findings: usize) {
        assert_eq!(
            check(&Tree::of(&[(path, text)])).len(),
            n_findings,
            "{text}"
        );
    }

    #[test]
    fn ordinary_text_passes() {
        finds("src/a.rs", "//! Reads `/proc/meminfo` below a root.\n", 0);
        finds(
            "src/a.rs",
            "// see https://docs.rs/half and target/tmp\n",
            0,
        );
        finds("src/a.rs", "let workspace = \"/workspace\";\n", 0);
        finds("src/a.rs", "let path = \"{prefix}/root/x\";\n", 0);
        finds("README.md", "write it to `/tmp/out.onnx`\n", 0);
    }

    #[test]
    fn machine_paths_are_found_outside_tests() {
        finds("src/a.rs", "let path = \"/work/shared\";\n", 1);
        finds("docs/a.md", "see /root/notes\n", 1);
        finds("docs/a.md", concat!("see /", "home/alice/models\n"), 1);
        finds("docs/a.md", concat!("see /", "home/user/models\n"), 0);
        finds("src/a.rs", "let path = \"/tmp/x\";\n", 1);
        finds("tests/it/main.rs", "let path = \"/root/x\";\n", 0);
    }

    #[test]
    fn unfinished_marks_are_found() {
        finds("src/a.rs", concat!("// TO", "DO: later\n"), 1);
        finds("tests/a.rs", concat!("// FIX", "ME\n"), 1);
        finds("src/a.rs", concat!("const MAS", "TODON: u8 = 0;\n"), 0);
    }

    #[test]
    fn private_hosts_are_found() {
        finds(
            "Cargo.lock",
            concat!("source = \"registry+https:/", "/mirror/index\"\n"),
            1,
        );
        finds(
            "a.toml",
            concat!("url = \"http:/", "/10.0.0.7:8080/\"\n"),
            1,
        );
        finds(
            "a.toml",
            concat!("url = \"https:/", "/crates.build.internal/\"\n"),
            1,
        );
        finds(
            "Cargo.lock",
            "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n",
            0,
        );
    }
}
