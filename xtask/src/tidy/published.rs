//! Rule `published`: what a registry shows of a crate is there.
//!
//! Beside the manifest of every crate that may be published: README.md with the name of the
//! crate as its title, and both licences, the root's or links to them. In the manifest: a
//! description, and keywords and categories within the limits of crates.io, from "The Cargo
//! Book", The Manifest Format. Deliberately absent: whether crates.io knows a category; it
//! alone can say.

use super::tree::{Finding, Tree};
use crate::workspace::Package;

const RULE: &str = "published";
const FRONT_PAGE: &str = "README.md";
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];
const MAX_WORDS: usize = 5;
const MAX_KEYWORD_BYTES: usize = 20;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in tree.packages.iter().filter(|package| package.is_published) {
        let beside = |name: &str| match package.folder.as_str() {
            "" => name.to_owned(),
            folder => format!("{folder}/{name}"),
        };
        for name in LICENCES.iter().chain([&FRONT_PAGE]) {
            if !tree.paths.contains(&beside(name)) {
                let message = format!("`{}` is published without it", package.name);
                findings.push(Finding::new(RULE, beside(name), 0, message));
            }
        }
        if let Some(page) = tree.file(&beside(FRONT_PAGE)) {
            let title = format!("# {}", package.name);
            if page.text.lines().next() != Some(&title) {
                let message = format!("the first line is not `{title}`");
                findings.push(Finding::new(RULE, &page.path, 1, message));
            }
        }
        for message in problems(package) {
            findings.push(Finding::new(RULE, beside("Cargo.toml"), 0, message));
        }
    }
    findings
}

/// What crates.io would refuse or show empty.
fn problems(package: &Package) -> Vec<String> {
    let mut problems = Vec::new();
    if package.description.trim().is_empty() {
        problems.push("no description".to_owned());
    }
    for (what, words) in [
        ("keywords", &package.keywords),
        ("categories", &package.categories),
    ] {
        if words.is_empty() || words.len() > MAX_WORDS {
            problems.push(format!(
                "{} {what}; 1 to {MAX_WORDS} are needed",
                words.len()
            ));
        }
    }
    for keyword in &package.keywords {
        let may_stand = |c: char| c.is_ascii_alphanumeric() || "_-+".contains(c);
        let is_valid = keyword.len() <= MAX_KEYWORD_BYTES
            && keyword.starts_with(|c: char| c.is_ascii_alphanumeric())
            && keyword.chars().all(may_stand);
        if !is_valid {
            problems.push(format!("keyword `{keyword}` would be refused"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package() -> Package {
        Package {
            name: "spark-a".to_owned(),
            folder: "crates/spark-a".to_owned(),
            is_published: true,
            description: "A.".to_owned(),
            keywords: vec!["gpu".to_owned()],
            categories: vec!["science".to_owned()],
            ..Package::default()
        }
    }

    const FILES: [(&str, &str); 3] = [
        ("crates/spark-a/README.md", "# spark-a\n"),
        ("crates/spark-a/LICENSE-APACHE", ""),
        ("crates/spark-a/LICENSE-MIT", ""),
    ];

    #[track_caller]
    fn finds(package: Package, files: &[(&str, &str)], n_findings: usize) {
        let mut tree = Tree::of(files);
        tree.packages.push(package);
        let findings = check(&tree);
        assert_eq!(findings.len(), n_findings, "{findings:?}");
    }

    #[test]
    fn a_complete_crate_passes() {
        finds(package(), &FILES, 0);
    }

    #[test]
    fn each_missing_file_is_found() {
        for missing in 0..FILES.len() {
            let mut files = FILES.to_vec();
            files.remove(missing);
            finds(package(), &files, 1);
        }
    }

    #[test]
    fn a_front_page_of_another_crate_is_found() {
        let mut files = FILES;
        files[0].1 = "# spark-b\n";
        finds(package(), &files, 1);
    }

    #[test]
    fn each_missing_field_is_found() {
        let mut bare = package();
        bare.description.clear();
        bare.keywords.clear();
        bare.categories.clear();
        finds(bare, &FILES, 3);
    }

    #[test]
    fn words_that_a_registry_refuses_are_found() {
        let mut many = package();
        many.keywords = ["a", "b", "c", "d", "e", "f"].map(str::to_owned).to_vec();
        finds(many, &FILES, 1);
        for keyword in ["two words", "", "-gpu", "longer-than-twenty-bytes"] {
            let mut odd = package();
            odd.keywords = vec![keyword.to_owned()];
            finds(odd, &FILES, 1);
        }
    }

    #[test]
    fn a_crate_that_stays_here_needs_nothing() {
        let kept = Package {
            is_published: false,
            ..Package::default()
        };
        finds(kept, &[], 0);
    }
}
