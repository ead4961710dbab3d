//! Rule `crates`: ARCHITECTURE.md maps every crate that exists, and no page names one that
//! does not, but for what the program says: it names other people's.

use super::tree::{Finding, Tree};

const RULE: &str = "crates";
const MAP: &str = "ARCHITECTURE.md";
/// Pages made of what the program says.
const OF_THE_PROGRAM: &str = "docs/reference/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_member = |name: &str| tree.packages.iter().any(|package| package.name == name);
    let pages = tree.files.iter().filter(|file| file.is_markdown());
    for page in pages.filter(|file| !file.path.starts_with(OF_THE_PROGRAM)) {
        for (idx, line) in page.text.lines().enumerate() {
            for name in crate_names(line) {
                if !is_member(name) {
                    let message = format!("there is no crate `{name}`");
                    findings.push(Finding::new(RULE, &page.path, idx + 1, message));
                }
            }
        }
    }
    if let Some(map) = tree.file(MAP) {
        for package in tree
            .packages
            .iter()
            .filter(|package| !package.folder.is_empty())
        {
            if !map.text.contains(&format!("`{}`", package.name)) {
                let message = format!("`{}` is not on the map", package.name);
                findings.push(Finding::new(RULE, MAP, 0, message));
            }
        }
    }
    findings
}

/// Words `spark-…` that could name a crate: lower-case letters in parts after dashes.
fn crate_names(line: &str) -> impl Iterator<Item = &str> {
    // Names of other people's repositories and of files are whole words with more in them.
    line.split(|c: char| !(c.is_alphanumeric() || "-_/.".contains(c)))
        .map(|word| word.trim_end_matches(['.', '/']))
        .map(|word| match word.strip_prefix("crates/") {
            Some(path) => path.split('/').next().unwrap_or(path),
            None => word,
        })
        .filter(|word| {
            word.strip_prefix("spark-").is_some_and(|rest| {
                rest.split('-')
                    .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase()))
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    #[track_caller]
    fn finds(text: &str, n_findings: usize) {
        let mut tree = Tree::of(&[(MAP, text)]);
        tree.packages.push(Package {
            name: "spark-hal".to_owned(),
            folder: "crates/spark-hal".to_owned(),
            ..Package::default()
        });
        assert_eq!(check(&tree).len(), n_findings, "{text}");
    }

    #[test]
    fn a_complete_map_passes() {
        finds(
            "`spark-hal` knows the machine; no names: spark-, spark-1, spark-X\n",
            0,
        );
    }

    #[test]
    fn a_missing_crate_is_found() {
        finds("nothing here\n", 1);
    }

    #[test]
    fn a_crate_that_does_not_exist_is_found() {
        finds("`spark-hal` and `spark-warp`\n", 1);
        finds("`spark-hal` and `spark-hal-engine`\n", 1);
        finds("`spark-hal` in crates/spark-warp/src\n", 1);
        finds("`spark-hal` beside somebody/spark-tools.\n", 0);
    }
}
