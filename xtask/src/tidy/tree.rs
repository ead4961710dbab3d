//! What the rules of `tidy` read and what they answer: the tree, and findings.
//!
//! Deliberately absent: a rule.

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
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(super) fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }

    pub(super) fn is_manifest(&self) -> bool {
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
    pub(super) fn load(workspace: &Workspace) -> Result<Self, Error> {
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

    pub(super) fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// A tree of the given files, for the tests of the rules.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
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
    pub(super) path: String,
    /// From 1; 0 when the whole file is meant.
    pub(super) line: usize,
    rule: &'static str,
    pub(super) message: String,
}

impl Finding {
    pub(super) fn new(
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
