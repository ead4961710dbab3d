//! `cargo xtask tidy`: what the compiler, clippy and rustfmt cannot check.
//!
//! ```text
//! git ls-files ──> Tree { files, packages } ──> rules ──> findings  path:line: [rule] text
//! ```
//!
//! A rule is a function from the tree to findings and reads nothing else, so that each is
//! tested on a clean sample and on one that breaks it. Deliberately absent: a way to switch
//! a rule off; the one exception (a long file) carries its written reason.

mod commands;
mod crate_map;
mod file_circles;
mod generated;
mod headers;
mod ignored;
mod layer_edges;
mod length;
mod links;
mod manifests;
mod published;
mod rust_modules;
mod rust_text;
mod source;
mod tree;
mod unsafe_reason;
mod words;

use crate::error::Error;
use crate::workspace::Workspace;
pub(crate) use links::resolve;
use tree::{Finding, Tree};

/// Checks every rule, or with `write` first brings generated pages up to date.
///
/// # Errors
///
/// [`Error::Tidy`] when a rule is broken, after all findings were printed.
pub(crate) fn run(workspace: &Workspace, write: bool) -> Result<(), Error> {
    if write {
        for path in generated::write(workspace)? {
            println!("wrote {path}");
        }
    }
    let tree = Tree::load(workspace)?;
    let mut findings = check(&tree);
    findings.extend(generated::check(workspace, &tree)?);
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, no findings", tree.files.len());
        return Ok(());
    }
    Err(Error::Tidy {
        n_findings: findings.len(),
    })
}

/// Every rule that needs nothing but the tree.
fn check(tree: &Tree) -> Vec<Finding> {
    let rules: [fn(&Tree) -> Vec<Finding>; 12] = [
        layer_edges::check,
        file_circles::check,
        headers::check,
        length::check,
        words::check,
        unsafe_reason::check,
        ignored::check,
        manifests::check,
        published::check,
        links::check,
        commands::check,
        crate_map::check,
    ];
    rules.iter().flat_map(|rule| rule(tree)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;

    /// Here too, so that `cargo test` says it before what takes long. Without a repository the files are not known.
    #[test]
    fn this_tree_has_no_findings() {
        // From the root, as a person starts it: a member's folder has other default members.
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let mut metadata = command::cargo(&["metadata", "--no-deps", "--format-version", "1"]);
        let described = command::output_of(metadata.current_dir(root)).expect("cargo runs");
        let workspace = Workspace::parse(&described).expect("cargo describes the workspace");
        if !workspace.root.join(".git").exists() {
            let is_automatic = command::is_set("CI");
            assert!(!is_automatic, "not a checkout of git");
            eprintln!("skipped: not a checkout of git");
            return;
        }
        let tree = Tree::load(&workspace).expect("lists and reads");
        let findings: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(findings, Vec::<String>::new());
    }
}
