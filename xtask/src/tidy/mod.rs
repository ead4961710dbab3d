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
mod generated;
mod headers;
mod ignored;
mod layer_edges;
mod length;
mod links;
mod manifests;
mod source;
mod unsafe_reason;
mod words;

use std::fmt;

use crate::error::Error;
use crate::workspace::{Package, Workspace};

/// A text file of the workspace.
#[derive(Debug, Clone)]
pub(crate) struct TextFile {
    /// Relative to the workspace root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl TextFile {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }

    fn is_manifest(&self) -> bool {
        self.path == "Cargo.toml" || self.path.ends_with("/Cargo.toml")
    }
}

/// Everything a rule may look at.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<TextFile>,
    /// Every path, texts and others.
    pub(crate) paths: Vec<String>,
    pub(crate) packages: Vec<Package>,
}

impl Tree {
    fn load(workspace: &Workspace) -> Result<Self, Error> {
        let paths = workspace.files()?;
        let mut files = Vec::new();
        for path in &paths {
            if !is_text(path) {
                continue;
            }
            let full = workspace.root.join(path);
            let bytes = std::fs::read(&full).map_err(Error::io("read", &full))?;
            files.push(TextFile {
                path: path.clone(),
                text: String::from_utf8_lossy(&bytes).into_owned(),
            });
        }
        Ok(Self {
            files,
            paths,
            packages: workspace.packages.clone(),
        })
    }

    fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// A tree of the given files, for the tests of the rules.
    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        Self {
            files: files
                .iter()
                .map(|(path, text)| TextFile {
                    path: (*path).to_owned(),
                    text: (*text).to_owned(),
                })
                .collect(),
            paths: files.iter().map(|(path, _)| (*path).to_owned()).collect(),
            packages: Vec::new(),
        }
    }
}

/// Files the rules read: sources, manifests, documents and scripts.
fn is_text(path: &str) -> bool {
    const EXTENSIONS: [&str; 9] = ["rs", "cu", "cuh", "h", "cpp", "toml", "md", "sh", "yml"];
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    EXTENSIONS.contains(&extension) || path.starts_with(".ci/") || path == "Cargo.lock"
}

/// One place that breaks one rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    /// From 1; 0 when the whole file is meant.
    line: usize,
    rule: &'static str,
    message: String,
}

impl Finding {
    fn new(
        rule: &'static str,
        path: impl Into<String>,
        line: usize,
        message: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            line,
            rule,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: [{}] {}",
            self.path, self.line, self.rule, self.message
        )
    }
}

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
    let rules: [fn(&Tree) -> Vec<Finding>; 10] = [
        layer_edges::check,
        headers::check,
        length::check,
        words::check,
        unsafe_reason::check,
        ignored::check,
        manifests::check,
        links::check,
        commands::check,
        crate_map::check,
    ];
    rules.iter().flat_map(|rule| rule(tree)).collect()
}
