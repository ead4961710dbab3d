//! Rule `command`: the cargo commands that the pages show exist.
//!
//! ```text
//! looked at: every line `cargo …` in blocks marked sh, bash or console
//!
//! cargo run --example NAME -- --flag    NAME is an example, its source knows --flag
//! cargo xtask NAME --flag               both stand in `cargo xtask help`
//! cargo test -p NAME --test NAME        the package and the target exist
//! ```
//!
//! A flag after `--` counts as known when the example holds it as a string, or has a field
//! of that name for clap to make it from. The README's test command also has to be one that `.ci/run` runs, itself or as the step `test` of
//! `cargo xtask ci`. Deliberately absent: running the commands; `cargo xtask book --check` does.

use super::source::lines_outside_tests;
use super::tree::{Finding, Tree};
use crate::args::HELP;

const RULE: &str = "command";
const TEST_COMMAND: &str = "cargo test";
/// Every check of a commit, [`TEST_COMMAND`] among them.
const EVERY_STEP: &str = "cargo xtask ci";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in tree.files.iter().filter(|file| file.is_markdown()) {
        for (line, command) in shell_commands(&page.text) {
            for message in problems(tree, &command) {
                findings.push(Finding::new(RULE, &page.path, line, message));
            }
        }
    }
    let readme_tests = tree.file("README.md").is_none_or(|readme| {
        shell_commands(&readme.text)
            .iter()
            .any(|(_, command)| command == TEST_COMMAND)
    });
    let ci_tests = tree.file(".ci/run").is_none_or(|ci| {
        let mut lines = ci.text.lines();
        lines.any(|line| line.starts_with(TEST_COMMAND) || line == EVERY_STEP)
    });
    if !readme_tests {
        let message = format!("the README does not show `{TEST_COMMAND}`");
        findings.push(Finding::new(RULE, "README.md", 0, message));
    }
    if !ci_tests {
        let message = format!("`.ci/run` does not run `{TEST_COMMAND}`");
        findings.push(Finding::new(RULE, ".ci/run", 0, message));
    }
    findings
}

/// Lines of shell blocks that call cargo, with their line; `\` at the end joins lines.
fn shell_commands(text: &str) -> Vec<(usize, String)> {
    let mut commands = Vec::new();
    let mut in_shell = false;
    let mut joined: Option<(usize, String)> = None;
    for (idx, line) in text.lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            // Behind it may stand why the book's check does not run it.
            let language = language.split_whitespace().next();
            in_shell = matches!(language, Some("sh" | "bash" | "console"));
            joined = None;
            continue;
        }
        if !in_shell {
            continue;
        }
        let code = line.split(" #").next().unwrap_or("").trim();
        let (start, mut command) = joined.take().unwrap_or((idx + 1, String::new()));
        if let Some(first_part) = code.strip_suffix('\\') {
            command.push_str(first_part);
            joined = Some((start, command));
            continue;
        }
        command.push_str(code.strip_prefix("$ ").unwrap_or(code));
        // Variables set for one command stand before it.
        let words = command.split(' ').skip_while(|word| word.contains('='));
        let command = words.collect::<Vec<_>>().join(" ");
        if command.starts_with("cargo ") {
            commands.push((start, command));
        }
    }
    commands
}

fn problems(tree: &Tree, command: &str) -> Vec<String> {
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    if words.first() == Some(&"xtask") {
        return xtask_problems(&words[1..]);
    }
    let (cargo_words, program_words) = match words.iter().position(|word| *word == "--") {
        Some(idx) => (&words[..idx], &words[idx + 1..]),
        None => (&words[..], &words[..0]),
    };
    let mut problems = Vec::new();
    let has_target = |kind: &str, name: &str| {
        let mut targets = tree.packages.iter().flat_map(|package| &package.targets);
        targets.any(|target| target.kind == kind && target.name == name)
    };
    for pair in cargo_words.windows(2) {
        let (flag, name) = (pair[0], pair[1]);
        let exists = match flag {
            "--example" => has_target("example", name),
            "--test" => has_target("test", name),
            "--bench" => has_target("bench", name),
            "--bin" => has_target("bin", name),
            "-p" | "--package" => tree.packages.iter().any(|package| package.name == name),
            _ => true,
        };
        if !exists {
            problems.push(format!("`{flag} {name}` does not exist"));
        }
    }
    let example = cargo_words.windows(2).find(|pair| pair[0] == "--example");
    if let Some([_, name]) = example {
        for flag in program_words.iter().filter(|word| word.starts_with("--")) {
            if !example_knows(tree, name, flag) {
                problems.push(format!("example `{name}` does not know `{flag}`"));
            }
        }
    }
    problems
}

fn xtask_problems(words: &[&str]) -> Vec<String> {
    let mut problems = Vec::new();
    let name = words.first().copied().unwrap_or("help");
    let lines: Vec<&str> = HELP.lines().collect();
    let start = lines.iter().position(|line| {
        line.strip_prefix("  ")
            .is_some_and(|line| line.split(' ').next() == Some(name))
    });
    let Some(start) = start else {
        return vec![format!("`cargo xtask {name}` does not exist")];
    };
    let is_continued = |line: &&&str| line.starts_with("   ");
    let n_more = lines[start + 1..].iter().take_while(is_continued).count();
    let help = lines[start..=start + n_more].join("\n");
    for flag in words.iter().filter(|word| word.starts_with("--")) {
        if name != "test" && !help.contains(flag) {
            problems.push(format!("`cargo xtask {name}` does not know `{flag}`"));
        }
    }
    problems
}

/// Whether the example's source, or a file that it takes in by `#[path]`, holds `flag` as a string or as a field.
fn example_knows(tree: &Tree, example: &str, flag: &str) -> bool {
    let quoted = format!("\"{flag}\"");
    let field = format!("{}:", flag.trim_start_matches('-').replace('-', "_"));
    let path = format!("examples/{example}.rs");
    let own = |path: &str| {
        let end = format!("/{path}");
        let files = tree.files.iter();
        files.filter(move |file| format!("/{}", file.path).ends_with(&end))
    };
    let taken_in = own(&path).flat_map(|file| {
        let paths = file.text.lines().filter_map(|line| {
            let path = line.strip_prefix("#[path = \"")?.strip_suffix("\"]")?;
            Some(beside(&file.path, path))
        });
        paths.filter_map(|path| tree.file(&path))
    });
    own(&path).chain(taken_in).any(|file| {
        // Of a file with options of clap those fields are options that stand below `#[arg(`.
        let mut is_option = !file.text.contains("#[arg(");
        let is_any = is_option;
        lines_outside_tests(file).into_iter().any(|(_, line)| {
            let line = line.trim_start();
            is_option |= line.starts_with("#[arg(");
            let declared = line.strip_prefix("pub(crate) ").unwrap_or(line);
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let is_field = declared
                .split_once(':')
                .is_some_and(|(name, _)| name.chars().all(is_name));
            let is_known = is_field && is_option && declared.starts_with(&field);
            is_option = is_any || (is_option && !is_field);
            line.contains(&quoted) || is_known
        })
    })
}

/// The path that `relative` is from the folder of `file`.
fn beside(file: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Package, Target};

    #[track_caller]
    fn finds(commands: &str, n_findings: usize) {
        let page = format!(
            "# P\n```sh not run: a sample\n{commands}\n```\n```rust\ncargo xtask fly\n```\n"
        );
        let source = "//! E.\nstruct A {\n    dump_all: bool,\n}\nfn main() { take(\"--runs\"); }\n#[cfg(test)]\nmod tests {\n    take(\"--secret\");\n}\n";
        let mut tree = Tree::of(&[("docs/p.md", &page), ("examples/show.rs", source)]);
        tree.packages.push(Package {
            name: "sparkpilot".to_owned(),
            targets: vec![Target {
                kind: "example".to_owned(),
                name: "show".to_owned(),
            }],
            ..Package::default()
        });
        let findings = check(&tree);
        assert_eq!(findings.len(), n_findings, "{findings:?}");
    }

    #[test]
    fn commands_that_exist_pass() {
        finds("cargo test\ngit clone x", 0);
        finds(
            "cargo run --release --example show -- --runs 3 --dump-all  # thrice",
            0,
        );
        finds("A=1 cargo xtask bench --quick \\\n  --json out.json", 0);
        finds("cargo xtask test --whatever\ncargo test -p sparkpilot", 0);
    }

    #[test]
    fn commands_that_do_not_exist_are_found() {
        finds("cargo xtask fly", 1);
        finds("cargo xtask tidy --quick", 1);
        finds("cargo run --example hide", 1);
        finds("cargo test -p spark-none --test it", 2);
    }

    #[test]
    fn flags_that_the_example_does_not_know_are_found() {
        finds("cargo run --example show -- --rnus 3 --secret", 2);
    }

    #[test]
    fn flags_of_a_file_that_the_example_takes_in_are_known() {
        let page = "# P\n```sh\ncargo run --example show -- --runs 3 --other\n```\n";
        for (path, taken_in, field) in [
            (
                "../src/bin/all/show.rs",
                "src/bin/all/show.rs",
                "runs: usize",
            ),
            (
                "show/run.rs",
                "examples/show/run.rs",
                "pub(crate) runs: usize",
            ),
        ] {
            let example = format!("//! E.\n#[path = \"{path}\"]\nmod show;\n");
            let source = format!("struct A {{\n    {field},\n}}\n");
            let files = [
                ("docs/p.md", page),
                ("examples/show.rs", &example),
                (taken_in, &source),
            ];
            let mut tree = Tree::of(&files);
            let (kind, name) = ("example".to_owned(), "show".to_owned());
            tree.packages.push(Package {
                targets: vec![Target { kind, name }],
                ..Package::default()
            });
            let findings = check(&tree);
            assert_eq!(findings.len(), 1, "{findings:?}");
        }
    }

    #[test]
    fn readme_and_ci_must_share_the_test_command() {
        let readme = "```sh\ncargo test\n```\n";
        let clean = Tree::of(&[("README.md", readme), (".ci/run", "cargo test | tee log\n")]);
        assert_eq!(check(&clean), []);
        let drifted = Tree::of(&[("README.md", "no command\n"), (".ci/run", "make test\n")]);
        assert_eq!(check(&drifted).len(), 2);
    }
}
