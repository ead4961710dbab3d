//! Rule `layer`: a crate uses only what the table in `layers` allows it, and no circle of
//! crates stands in the manifests, tests included.

use super::tree::{Finding, Tree};
use crate::circles::circles;
use crate::layers::{ALLOWED, ALLOWED_IN_TESTS, DEV_ONLY, OF_PROGRAMS};

const RULE: &str = "layer";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_member = |name: &str| tree.packages.iter().any(|package| package.name == name);
    let mut findings = Vec::new();
    for package in &tree.packages {
        let manifest = if package.folder.is_empty() {
            "Cargo.toml".to_owned()
        } else {
            format!("{}/Cargo.toml", package.folder)
        };
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package.name) else {
            let message = format!("`{}` has no row in xtask/src/layers.rs", package.name);
            findings.push(Finding::new(RULE, manifest, 0, message));
            continue;
        };
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            let edge = (package.name.as_str(), name);
            let is_helper = DEV_ONLY.contains(&name) || name == OF_PROGRAMS;
            let is_test_helper =
                dependency.is_dev && (is_helper || ALLOWED_IN_TESTS.contains(&edge));
            if !is_member(name) || is_test_helper || allowed.contains(&name) {
                continue;
            }
            let message = if DEV_ONLY.contains(&name) {
                format!("`{name}` may only be a dev-dependency")
            } else {
                format!("`{}` must not use `{name}`", package.name)
            };
            findings.push(Finding::new(RULE, manifest.clone(), 0, message));
        }
    }
    findings.extend(circles_of(tree));
    findings
}

/// Circles among the crates; a dev-dependency counts, since a test must not need what needs it.
fn circles_of(tree: &Tree) -> Vec<Finding> {
    let position = |name: &str| {
        tree.packages
            .iter()
            .position(|package| package.name == name)
    };
    let arrows: Vec<Vec<usize>> = tree
        .packages
        .iter()
        .map(|package| {
            let names = package.dependencies.iter();
            names
                .filter_map(|dependency| position(&dependency.name))
                .collect()
        })
        .collect();
    circles(&arrows)
        .into_iter()
        .map(|circle| {
            let names: Vec<&str> = circle
                .iter()
                .map(|idx| tree.packages[*idx].name.as_str())
                .collect();
            let message = format!("crates use each other: {}", names.join(", "));
            Finding::new(RULE, "Cargo.toml", 0, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, Package};

    fn tree(edges: &[(&str, &[(&str, bool)])]) -> Tree {
        Tree {
            packages: edges
                .iter()
                .map(|(name, dependencies)| Package {
                    name: (*name).to_owned(),
                    folder: format!("crates/{name}"),
                    dependencies: dependencies
                        .iter()
                        .map(|(name, is_dev)| Dependency {
                            name: (*name).to_owned(),
                            is_dev: *is_dev,
                        })
                        .collect(),
                    ..Package::default()
                })
                .collect(),
            ..Tree::default()
        }
    }

    #[test]
    fn edges_down_and_outside_crates_pass() {
        let clean = tree(&[
            ("spark-hal", &[("spark-testing", true), ("serde", false)]),
            ("spark-onnx", &[("spark-hal", false)]),
            ("spark-testing", &[]),
        ]);
        assert_eq!(check(&clean), []);
    }

    #[test]
    fn an_edge_up_is_found() {
        let up = tree(&[("spark-hal", &[("spark-onnx", false)]), ("spark-onnx", &[])]);
        assert_eq!(
            check(&up)[0].message,
            "`spark-hal` must not use `spark-onnx`"
        );
    }

    #[test]
    fn an_edge_up_from_tests_is_found() {
        let up = tree(&[("spark-hal", &[("spark-onnx", true)]), ("spark-onnx", &[])]);
        assert_eq!(check(&up).len(), 1);
    }

    #[test]
    fn test_helpers_in_library_code_are_found() {
        let shipped = tree(&[
            ("spark-onnx", &[("spark-testing", false)]),
            ("spark-testing", &[]),
        ]);
        assert_eq!(check(&shipped).len(), 1);
    }

    #[test]
    fn an_unknown_crate_is_found() {
        assert_eq!(check(&tree(&[("spark-new", &[])])).len(), 1);
    }

    #[test]
    fn a_circle_by_way_of_tests_is_found() {
        let circle = tree(&[
            ("spark-program", &[("spark-hal", false)]),
            ("spark-hal", &[("spark-program", true)]),
        ]);
        let messages: Vec<String> = check(&circle).into_iter().map(|f| f.message).collect();
        assert_eq!(
            messages,
            ["crates use each other: spark-program, spark-hal"]
        );
    }
}
