//! Whose work a program holds, and under which terms: one text for each release.
//!
//! ```text
//! cargo tree      crates that are linked: no macros, no build scripts, no tests
//! cargo metadata  their licences, and the folders in which their texts lie
//!       ▼
//! list of crates, then every text once, under the crates that carry it
//! ```
//!
//! A crate that offers a choice of licences is given with all of its texts: choosing is left to whoever passes the program on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::targets::Target;
use super::toolchain::FEATURES;
use crate::command::{self, cargo};
use crate::error::Error;
use crate::workspace::Workspace;

/// How the names of files with terms begin, in lower case.
const NAMES: [&str; 6] = [
    "license",
    "licence",
    "copying",
    "unlicense",
    "notice",
    "copyright",
];

/// One crate that is linked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Linked {
    /// Name and version, as `cargo tree` writes them.
    name: String,
    /// The expression of its manifest.
    terms: String,
    /// Whole texts beside its manifest.
    texts: Vec<String>,
}

/// The text for a program of one target.
///
/// # Errors
///
/// What cargo refuses; files that cannot be read; [`Error::Shape`] for a crate that names no terms.
pub(super) fn notices(workspace: &Workspace, target: Target) -> Result<String, Error> {
    let mut tree = cargo(&["tree", "--locked", "--package", "sparkpilot"]);
    tree.args(["--features", FEATURES, "--target", target.triple]);
    tree.args(["--edges", "normal,no-proc-macro", "--prefix", "none"]);
    tree.args(["--format", "{p}"]);
    let names = linked(&command::output_of(tree.current_dir(&workspace.root))?);
    let mut metadata = cargo(&["metadata", "--locked", "--format-version", "1"]);
    metadata.args(["--features", FEATURES, "--filter-platform", target.triple]);
    let metadata = command::output_of(metadata.current_dir(&workspace.root))?;
    let mut crates = Vec::new();
    for (name, terms, folder) in outside(&metadata)? {
        if names.contains(&name) {
            crates.push(Linked {
                name,
                terms,
                texts: texts(&folder)?,
            });
        }
    }
    crates.push(standard_library()?);
    crates.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(text(&crates))
}

/// Names and versions, as `serde v1.0.1`, of the lines `serde v1.0.1 (*)`.
fn linked(tree: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let mut words = line.split_whitespace();
        Some(format!("{} {}", words.next()?, words.next()?))
    };
    tree.lines().filter_map(name).collect()
}

/// Name, terms and folder of every crate that is not ours.
fn outside(metadata: &str) -> Result<Vec<(String, String, PathBuf)>, Error> {
    let what = "the output of cargo metadata";
    let json: Value = serde_json::from_str(metadata).map_err(|source| Error::Json {
        what: what.to_owned(),
        source,
    })?;
    let packages = json["packages"].as_array().into_iter().flatten();
    let mut crates = Vec::new();
    for package in packages.filter(|package| !package["source"].is_null()) {
        let text = |field: &str| {
            package[field].as_str().ok_or_else(|| Error::Shape {
                what: format!("{what} of {}", package["name"]),
                field: field.to_owned(),
            })
        };
        let name = format!("{} v{}", text("name")?, text("version")?);
        let manifest = Path::new(text("manifest_path")?);
        let folder = manifest.parent().unwrap_or(manifest).to_owned();
        crates.push((name, text("license")?.to_owned(), folder));
    }
    Ok(crates)
}

/// The texts with terms in a folder, in the order of their names.
fn texts(folder: &Path) -> Result<Vec<String>, Error> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let path = entry.map_err(Error::io("list", folder))?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        if path.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            paths.push(path);
        }
    }
    paths.sort();
    let mut texts = Vec::new();
    for path in paths {
        let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
        texts.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    Ok(texts)
}

/// What rustc links to everything: Rust's own crates, and what unwinds the stack. Its list of copyrights is a page.
fn standard_library() -> Result<Linked, Error> {
    let sysroot = command::output_of(Command::new("rustc").args(["--print", "sysroot"]))?;
    let page = Path::new(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    let bytes = fs::read(&page).map_err(Error::io("read", &page))?;
    let version = command::output_of(Command::new("rustc").arg("--version"))?;
    Ok(Linked {
        name: format!("the standard library of {}", version.trim()),
        terms: "MIT OR Apache-2.0, and what the list below says; libunwind of LLVM: Apache-2.0 WITH LLVM-exception".to_owned(),
        texts: vec![plain(&String::from_utf8_lossy(&bytes))],
    })
}

/// The text of a page without its markup.
fn plain(page: &str) -> String {
    let mut text = String::new();
    for (idx, part) in page.split('<').enumerate() {
        let behind = part.split_once('>').map_or("", |(_, behind)| behind);
        text.push_str(if idx == 0 { part } else { behind });
    }
    for (entity, sign) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&amp;", "&"),
    ] {
        text = text.replace(entity, sign);
    }
    text
}

/// Crates with their terms, then every text once. Texts that differ in nothing but where lines are broken are one.
fn text(crates: &[Linked]) -> String {
    let mut list = String::from(
        "This program holds these crates and libraries. Their texts are below; some crates bring none, only the name of their terms.\n\n",
    );
    let mut carried: BTreeMap<String, (&str, Vec<&str>)> = BTreeMap::new();
    for linked in crates {
        list.push_str(&format!("{}: {}\n", linked.name, linked.terms));
        for text in &linked.texts {
            let words: Vec<&str> = text.split_whitespace().collect();
            let (_, carriers) = carried.entry(words.join(" ")).or_insert((text, Vec::new()));
            if carriers.last() != Some(&linked.name.as_str()) {
                carriers.push(&linked.name);
            }
        }
    }
    for (text, carriers) in carried.values() {
        let line = "-".repeat(80);
        list.push_str(&format!(
            "\n{line}\n{}\n\n{}\n",
            carriers.join(", "),
            text.trim()
        ));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked_crate(name: &str, texts: &[&str]) -> Linked {
        Linked {
            name: name.to_owned(),
            terms: "MIT".to_owned(),
            texts: texts.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn a_text_stands_once_under_all_that_carry_it() {
        let same = linked_crate("a v1.0.0", &["Be kind.\n", "Be  kind."]);
        let broken = linked_crate("b v2.0.0", &["Be\nkind.", "Or else."]);
        let text = text(&[same, broken]);
        assert!(text.contains("a v1.0.0: MIT\nb v2.0.0: MIT\n"), "{text}");
        assert_eq!(text.matches("kind.").count(), 1, "{text}");
        assert!(text.contains("a v1.0.0, b v2.0.0\n\nBe kind."), "{text}");
        assert!(text.contains("\nb v2.0.0\n\nOr else."), "{text}");
    }

    #[test]
    fn crates_of_a_tree_are_named_once() {
        let tree = "a v0.1.0 (/w)\nserde v1.0.1\nserde v1.0.1 (*)\n\n";
        let names: Vec<String> = linked(tree).into_iter().collect();
        assert_eq!(names, ["a v0.1.0", "serde v1.0.1"]);
    }

    #[test]
    fn a_crate_without_terms_is_an_error() {
        let json = r#"{"packages": [{"name": "a", "version": "1.0.0", "source": "s",
            "manifest_path": "/r/a/Cargo.toml", "license": LICENCE}]}"#;
        let good = outside(&json.replace("LICENCE", "\"MIT\"")).unwrap();
        assert_eq!(good[0].0, "a v1.0.0");
        assert_eq!(good[0].2, Path::new("/r/a"));
        assert!(outside(&json.replace("LICENCE", "null")).is_err());
    }

    #[test]
    fn markup_is_taken_out() {
        assert_eq!(plain("<p>a &lt;b&gt; &amp; <i>c</i>"), "a <b> & c");
    }
}
