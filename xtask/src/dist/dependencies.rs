//! Crates that this workspace is built of: their terms, where they come from, and of which there are several versions.
//!
//! ```text
//! deny.toml ── [licenses] allow ─┐
//!          └── [bans] skip ──────┤
//! cargo metadata, every feature, both targets ─> findings, all of them at once
//! ```
//!
//! Always run, by our own code, as cargo-deny takes minutes to compile and reads a database that not every machine
//! reaches. Where cargo-deny is installed `cargo xtask dist` runs it as well, by the same file, with the advisories where
//! their database can be fetched. Deliberately absent: a whole reader of TOML; the two lists have a line for each entry.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::targets::TARGETS;
use crate::command::{self, cargo};
use crate::error::Error;
use crate::workspace::Workspace;

/// The only place that crates may come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// What `deny.toml` allows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rules {
    licences: Vec<String>,
    several: Vec<String>,
}

/// A crate of somebody else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Outside {
    name: String,
    version: String,
    terms: String,
    source: String,
}

/// Holds every crate that is used against `deny.toml`.
///
/// # Errors
///
/// [`Error::Dependencies`] after each finding is printed; a file that cannot be read, and what cargo refuses.
pub(super) fn check(workspace: &Workspace) -> Result<(), Error> {
    let path = workspace.root.join("deny.toml");
    let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
    let mut crates = BTreeSet::new();
    for target in TARGETS {
        let mut metadata = cargo(&["metadata", "--locked", "--all-features"]);
        metadata.args(["--format-version", "1", "--filter-platform", target.triple]);
        let metadata = command::output_of(metadata.current_dir(&workspace.root))?;
        crates.extend(used(&metadata)?);
    }
    let findings = findings(&rules(&text), &crates);
    for finding in &findings {
        println!("deny.toml: {finding}");
    }
    if !findings.is_empty() {
        return Err(Error::Dependencies {
            n_findings: findings.len(),
        });
    }
    println!(
        "{} crates of others: terms, sources and versions are as deny.toml allows",
        crates.len()
    );
    Ok(())
}

/// Runs cargo-deny, and says what is skipped where it or its database is not to be had.
///
/// # Errors
///
/// What cargo-deny finds.
pub(super) fn advisories(workspace: &Workspace) -> Result<(), Error> {
    let quietly = |words: &[&str]| {
        let mut deny = cargo(words);
        deny.stdout(Stdio::null()).stderr(Stdio::null());
        let status = deny.current_dir(&workspace.root).status();
        status.is_ok_and(|status| status.success())
    };
    if !quietly(&["deny", "--version"]) {
        println!("advisories: skipped, there is no cargo-deny (cargo install cargo-deny)");
        return Ok(());
    }
    let mut checks = vec!["bans", "licenses", "sources"];
    match quietly(&["deny", "fetch", "db"]) {
        true => checks.push("advisories"),
        false => println!("advisories: skipped, their database cannot be fetched"),
    }
    let mut deny: Command = cargo(&["deny", "check", "--disable-fetch"]);
    command::run(deny.args(checks).current_dir(&workspace.root))
}

/// The two lists.
fn rules(text: &str) -> Rules {
    let list = |key: &str| {
        let lines = text.lines().map(str::trim);
        let entries = lines
            .skip_while(|line| *line != format!("{key} = ["))
            .skip(1);
        let entries = entries.take_while(|line| *line != "]");
        let first = |line: &str| line.split('"').nth(1).map(str::to_owned);
        entries.filter_map(first).collect()
    };
    Rules {
        licences: list("allow"),
        several: list("skip"),
    }
}

/// Crates of the resolved graph that are not ours.
fn used(metadata: &str) -> Result<Vec<Outside>, Error> {
    let what = "the output of cargo metadata";
    let json: Value = serde_json::from_str(metadata).map_err(|source| Error::Json {
        what: what.to_owned(),
        source,
    })?;
    let array = |value: &Value, field: &str| {
        let array = value[field].as_array().cloned();
        array.ok_or_else(|| Error::Shape {
            what: what.to_owned(),
            field: field.to_owned(),
        })
    };
    let nodes = array(&json["resolve"], "nodes")?;
    let ids: BTreeSet<&str> = nodes
        .iter()
        .filter_map(|node| node["id"].as_str())
        .collect();
    let mut crates = Vec::new();
    for package in array(&json, "packages")? {
        let is_used = package["id"].as_str().is_some_and(|id| ids.contains(id));
        if package["source"].is_null() || !is_used {
            continue;
        }
        let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
        crates.push(Outside {
            name: text("name"),
            version: text("version"),
            terms: text("license"),
            source: text("source"),
        });
    }
    Ok(crates)
}

fn findings(rules: &Rules, crates: &BTreeSet<Outside>) -> Vec<String> {
    let mut findings = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for used in crates {
        let Outside {
            name,
            version,
            terms,
            source,
        } = used;
        if source != REGISTRY {
            findings.push(format!("{name} {version} comes from {source}"));
        }
        if !allows(&rules.licences, terms) {
            findings.push(format!(
                "{name} {version} is under `{terms}`, which is not allowed"
            ));
        }
        versions.entry(name).or_default().insert(version);
    }
    let is_skipped = |name: &str| rules.several.iter().any(|skipped| skipped == name);
    for (name, versions) in &versions {
        let versions: Vec<&str> = versions.iter().copied().collect();
        if versions.len() > 1 && !is_skipped(name) {
            findings.push(format!("{name} is there as {}", versions.join(" and ")));
        }
    }
    for name in &rules.several {
        if versions
            .get(name.as_str())
            .is_none_or(|versions| versions.len() < 2)
        {
            findings.push(format!("{name} is skipped, and there are not two of it"));
        }
    }
    findings
}

/// Whether an SPDX expression can be met: `OR` offers a choice, `AND` does not, and older manifests write `/` for `OR`.
fn allows(allowed: &[String], terms: &str) -> bool {
    let spaced = terms
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any_of(allowed, &words, &mut at) == Some(true) && at == words.len()
}

/// `a OR b`; None for what is no expression.
fn any_of(allowed: &[String], words: &[&str], at: &mut usize) -> Option<bool> {
    let mut is_met = all_of(allowed, words, at)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        is_met |= all_of(allowed, words, at)?;
    }
    Some(is_met)
}

/// `a AND b`, which binds closer.
fn all_of(allowed: &[String], words: &[&str], at: &mut usize) -> Option<bool> {
    let mut is_met = one(allowed, words, at)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        is_met &= one(allowed, words, at)?;
    }
    Some(is_met)
}

/// A licence, one with an exception, or an expression in brackets. Brackets nest as deep as a manifest of a registry is long.
fn one(allowed: &[String], words: &[&str], at: &mut usize) -> Option<bool> {
    let word = *words.get(*at)?;
    *at += 1;
    match word {
        "(" => {
            let is_met = any_of(allowed, words, at)?;
            (words.get(*at) == Some(&")")).then(|| *at += 1)?;
            Some(is_met)
        }
        ")" | "OR" | "AND" | "WITH" => None,
        licence if words.get(*at) == Some(&"WITH") => {
            let exception = words.get(*at + 1)?;
            *at += 2;
            Some(allowed.contains(&format!("{licence} WITH {exception}")))
        }
        licence => Some(allowed.iter().any(|it| it == licence)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(terms: &str) -> bool {
        allows(&["MIT".to_owned(), "Zlib".to_owned()], terms)
    }

    #[test]
    fn expressions_are_met_by_what_they_offer() {
        for terms in [
            "MIT",
            "GPL-3.0 OR MIT",
            "GPL-3.0/MIT",
            "Zlib AND MIT",
            "(GPL-3.0 OR Zlib) AND MIT",
            "GPL-3.0 AND X OR MIT",
        ] {
            assert!(allowed(terms), "{terms}");
        }
        for terms in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MIT OR",
            "(MIT",
            "MIT)",
            "MIT WITH X",
            "MIT MIT",
            "AND",
            "MIT AND (GPL-3.0 OR X)",
        ] {
            assert!(!allowed(terms), "{terms}");
        }
    }

    #[test]
    fn both_lists_are_read() {
        let text = "[licenses]\nallow = [\n  \"MIT\", # \"no\"\n]\n[bans]\nskip = [\n  { crate = \"a\", reason = \"b\" },\n]\nc = [\n  \"d\",\n]\n";
        let want = Rules {
            licences: vec!["MIT".to_owned()],
            several: vec!["a".to_owned()],
        };
        assert_eq!(rules(text), want);
    }

    #[test]
    fn each_kind_of_finding_is_found() {
        let rules = Rules {
            licences: vec!["MIT".to_owned()],
            several: vec!["b".to_owned(), "gone".to_owned()],
        };
        let used = |name: &str, version: &str, terms: &str, source: &str| Outside {
            name: name.to_owned(),
            version: version.to_owned(),
            terms: terms.to_owned(),
            source: source.to_owned(),
        };
        let good = [
            used("a", "1.0.0", "MIT", REGISTRY),
            used("b", "1.0.0", "MIT", REGISTRY),
            used("b", "2.0.0", "MIT", REGISTRY),
        ];
        let mut crates: BTreeSet<Outside> = good.into();
        assert_eq!(
            findings(&rules, &crates),
            ["gone is skipped, and there are not two of it"]
        );
        crates.extend([
            used("a", "2.0.0", "MIT", REGISTRY),
            used("c", "1.0.0", "GPL-3.0", "git+https://example.org/c"),
        ]);
        let found = findings(&rules, &crates).join("\n");
        for want in [
            "a is there as 1.0.0 and 2.0.0",
            "c 1.0.0 comes from git+",
            "c 1.0.0 is under `GPL-3.0`",
        ] {
            assert!(found.contains(want), "{found}");
        }
    }

    #[test]
    fn crates_that_are_locked_and_not_used_do_not_count() {
        let package = |name: &str, source: &str| {
            format!(
                r#"{{"id": "{name}", "name": "{name}", "version": "1.0.0", "license": "MIT", "source": {source}}}"#
            )
        };
        let packages = [
            package("a", "\"s\""),
            package("ours", "null"),
            package("unused", "\"s\""),
        ]
        .join(",");
        let json = format!(
            r#"{{"packages": [{packages}], "resolve": {{"nodes": [{{"id": "a"}}, {{"id": "ours"}}]}}}}"#
        );
        let names: Vec<String> = used(&json).unwrap().into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["a"]);
        assert!(used("{}").is_err());
    }
}
