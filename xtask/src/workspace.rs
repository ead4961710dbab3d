//! The workspace as `cargo metadata` describes it, cut down to what the commands need.
//!
//! Deliberately absent: dependencies outside the workspace; `--no-deps` leaves them out.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command;
use crate::error::Error;

/// Where the workspace lies and what is in it.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// One member of the workspace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Relative to the root, with `/`; empty for the root package.
    pub(crate) folder: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
    /// Whether plain `cargo test` builds it.
    pub(crate) is_default: bool,
    /// Whether it may be published; its front page is judged then.
    pub(crate) is_published: bool,
    pub(crate) version: String,
    pub(crate) description: String,
    pub(crate) keywords: Vec<String>,
    pub(crate) categories: Vec<String>,
    /// Whether some of its features are on unless switched off.
    pub(crate) has_default_features: bool,
    pub(crate) features: Vec<String>,
}

/// One dependency as written in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Whether it is named under `[dev-dependencies]`.
    pub(crate) is_dev: bool,
}

/// One thing cargo builds: a library, example, bench, …
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl Workspace {
    /// Every feature of every member, as `member/feature`.
    pub(crate) fn features(&self) -> Vec<String> {
        let of = |package: &Package| {
            let name = package.name.clone();
            let features = package.features.clone().into_iter();
            features.map(move |feature| format!("{name}/{feature}"))
        };
        self.packages.iter().flat_map(of).collect()
    }

    /// Asks cargo about the workspace of the current folder.
    pub(crate) fn load() -> Result<Self, Error> {
        let mut cargo = command::cargo(&["metadata", "--no-deps", "--format-version", "1"]);
        Self::parse(&command::output_of(&mut cargo)?)
    }

    /// Reads the output of `cargo metadata --no-deps --format-version 1`.
    pub(crate) fn parse(metadata: &str) -> Result<Self, Error> {
        let what = "the output of cargo metadata";
        let json: Value = serde_json::from_str(metadata).map_err(|source| Error::Json {
            what: what.to_owned(),
            source,
        })?;
        let text = |value: &Value, field: &str| -> Result<String, Error> {
            value[field]
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| Error::Shape {
                    what: what.to_owned(),
                    field: field.to_owned(),
                })
        };
        let list = |value: &Value, field: &str| -> Result<Vec<Value>, Error> {
            value[field]
                .as_array()
                .cloned()
                .ok_or_else(|| Error::Shape {
                    what: what.to_owned(),
                    field: field.to_owned(),
                })
        };

        let root = PathBuf::from(text(&json, "workspace_root")?);
        let default_ids = list(&json, "workspace_default_members")?;
        let mut packages = Vec::new();
        for package in list(&json, "packages")? {
            let manifest = PathBuf::from(text(&package, "manifest_path")?);
            let folder = manifest
                .parent()
                .and_then(|folder| folder.strip_prefix(&root).ok())
                .unwrap_or(Path::new(""));
            let mut dependencies = Vec::new();
            for dependency in list(&package, "dependencies")? {
                dependencies.push(Dependency {
                    name: text(&dependency, "name")?,
                    is_dev: dependency["kind"].as_str() == Some("dev"),
                });
            }
            let mut targets = Vec::new();
            for target in list(&package, "targets")? {
                for kind in list(&target, "kind")? {
                    targets.push(Target {
                        kind: kind.as_str().unwrap_or_default().to_owned(),
                        name: text(&target, "name")?,
                    });
                }
            }
            let words = |field: &str| -> Vec<String> {
                let words = package[field].as_array().into_iter().flatten();
                words.filter_map(Value::as_str).map(str::to_owned).collect()
            };
            packages.push(Package {
                // `publish = false` is an empty list of registries, no word of it is null.
                is_published: package["publish"].is_null(),
                version: package["version"].as_str().unwrap_or_default().to_owned(),
                description: package["description"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                keywords: words("keywords"),
                categories: words("categories"),
                name: text(&package, "name")?,
                folder: folder.to_string_lossy().replace('\\', "/"),
                dependencies,
                targets,
                is_default: default_ids.contains(&package["id"]),
                has_default_features: package["features"]["default"]
                    .as_array()
                    .is_some_and(|features| !features.is_empty()),
                features: package["features"]
                    .as_object()
                    .map(|features| features.keys().cloned().collect())
                    .unwrap_or_default(),
            });
        }
        Ok(Self {
            root,
            target: PathBuf::from(text(&json, "target_directory")?),
            packages,
        })
    }

    /// Paths of all files that git tracks or would track, relative to the root, sorted.
    pub(crate) fn files(&self) -> Result<Vec<String>, Error> {
        let listing = command::output_of(Command::new("git").current_dir(&self.root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        let mut paths: Vec<String> = listing
            .split('\0')
            .filter(|path| !path.is_empty() && self.root.join(path).is_file())
            .map(str::to_owned)
            .collect();
        paths.sort();
        paths.dedup();
        Ok(paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "workspace_root": "/w", "target_directory": "/w/target",
        "workspace_default_members": ["id-a"],
        "packages": [
          {"id": "id-a", "name": "a", "manifest_path": "/w/crates/a/Cargo.toml",
           "dependencies": [{"name": "b", "kind": null}, {"name": "c", "kind": "dev"}],
           "targets": [{"name": "x", "kind": ["example"]}],
           "features": {"default": ["d"], "d": []},
           "publish": null, "description": "A.", "keywords": ["k"], "categories": ["science"]},
          {"id": "id-r", "name": "r", "manifest_path": "/w/Cargo.toml",
           "dependencies": [], "targets": [], "publish": []}
        ]}"#;

    #[test]
    fn metadata_is_cut_down_to_what_is_used() {
        let workspace = Workspace::parse(METADATA).unwrap();
        let a = &workspace.packages[0];
        assert_eq!((a.name.as_str(), a.folder.as_str()), ("a", "crates/a"));
        assert!(a.is_default && a.has_default_features);
        assert_eq!(
            a.dependencies[1],
            Dependency {
                name: "c".into(),
                is_dev: true
            }
        );
        assert_eq!(
            a.targets[0],
            Target {
                kind: "example".into(),
                name: "x".into()
            }
        );
        assert!(a.is_published && a.description == "A.");
        assert_eq!(
            (&a.keywords[..], &a.categories[..]),
            (&["k".to_owned()][..], &["science".to_owned()][..])
        );
        assert!(!workspace.packages[1].is_published);
        assert_eq!(workspace.packages[1].folder, "");
        assert!(!workspace.packages[1].is_default);
        assert!(!workspace.packages[1].has_default_features);
        assert_eq!(workspace.features(), ["a/d", "a/default"]);
    }

    #[test]
    fn metadata_without_packages_is_an_error() {
        assert!(Workspace::parse(r#"{"workspace_root": "/w"}"#).is_err());
        assert!(Workspace::parse("no json").is_err());
    }
}
