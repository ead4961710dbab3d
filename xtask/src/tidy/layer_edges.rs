//! Rule `layer`: a crate uses only what the table in `layers` allows it.

use super::{Finding, Tree};
use crate::layers::{ALLOWED, DEV_ONLY};

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
            let is_test_helper = dependency.is_dev && DEV_ONLY.contains(&name);
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
    findings
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
            ("spark-testing", &[("spark-hal", false)]),
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
    fn the_table_itself_points_down() {
        for (idx, (name, allowed)) in ALLOWED.iter().enumerate() {
            for lower in *allowed {
                let lower_idx = ALLOWED.iter().position(|(name, _)| name == lower);
                assert!(
                    lower_idx.is_some_and(|lower_idx| lower_idx < idx),
                    "{name} -> {lower}"
                );
            }
        }
    }
}
