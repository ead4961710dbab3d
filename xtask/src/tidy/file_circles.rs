//! Rule `circle`: no two files of a crate use each other, neither directly nor by way of others.
//!
//! ```text
//! a/mod.rs: struct A; fn f() { b::g() }      a/mod.rs -> a/b.rs (g)
//! a/b.rs:   use super::A; pub fn g() {}      a/b.rs -> a/mod.rs (A)
//!                                            a circle: A goes to a file of its own, below both
//! ```
//!
//! A file uses another when it names an item of it, by an import or by a path in code;
//! `rust_modules` says what a path leads to. Tests may name everything and are not read.
//! One circle is one finding, with a name for each of its arrows.
//!
//! Deliberately absent: exceptions.

use std::collections::BTreeMap;

use super::rust_modules::{Arrows, Modules};
use super::tree::{Finding, Tree};
use crate::circles::circles;

const RULE: &str = "circle";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &tree.packages {
        let source = match package.folder.as_str() {
            "" => "src/".to_owned(),
            folder => format!("{folder}/src/"),
        };
        for root in roots(tree, &source) {
            let sources = tree
                .files
                .iter()
                .filter(|file| file.path.starts_with(&source));
            let modules = Modules::read(sources, root);
            for (path, reason) in &modules.unreadable {
                findings.push(Finding::new(
                    RULE,
                    path,
                    0,
                    format!("cannot be read: {reason}"),
                ));
            }
            let arrows = modules.arrows();
            for circle in circles_of(&arrows) {
                findings.push(Finding::new(RULE, circle[0], 0, describe(&circle, &arrows)));
            }
        }
    }
    findings
}

/// The files of a source folder that a crate begins with: its library and its programs.
fn roots<'a>(tree: &'a Tree, source: &str) -> Vec<&'a str> {
    let is_root = |path: &str| {
        let Some(inner) = path.strip_prefix(source) else {
            return false;
        };
        let program = inner.strip_prefix("bin/");
        ["lib.rs", "main.rs"].contains(&inner)
            || program.is_some_and(|name| match name.split_once('/') {
                None => name.ends_with(".rs"),
                Some((_, file)) => file == "main.rs",
            })
    };
    tree.files
        .iter()
        .map(|file| file.path.as_str())
        .filter(|path| is_root(path))
        .collect()
}

/// Every circle, as the paths of its files.
fn circles_of(arrows: &Arrows) -> Vec<Vec<&str>> {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for (from, to) in arrows.keys() {
        numbers.insert(from, 0);
        numbers.insert(to, 0);
    }
    for (idx, number) in numbers.values_mut().enumerate() {
        *number = idx;
    }
    let mut targets = vec![Vec::new(); numbers.len()];
    for (from, to) in arrows.keys() {
        targets[numbers[from.as_str()]].push(numbers[to.as_str()]);
    }
    let files: Vec<&str> = numbers.keys().copied().collect();
    circles(&targets)
        .into_iter()
        .map(|circle| circle.into_iter().map(|idx| files[idx]).collect())
        .collect()
}

fn describe(circle: &[&str], arrows: &Arrows) -> String {
    let mut text = format!("{} files use each other:", circle.len());
    for ((from, to), names) in arrows {
        if circle.contains(&from.as_str()) && circle.contains(&to.as_str()) {
            let name = names.first().map_or("", String::as_str);
            let more = if names.len() > 1 { ", …" } else { "" };
            text.push_str(&format!("\n    {from} -> {to} ({name}{more})"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::of(files);
        tree.packages.push(Package {
            name: "spark-a".to_owned(),
            folder: "crates/a".to_owned(),
            ..Package::default()
        });
        tree
    }

    #[track_caller]
    fn finds(files: &[(&str, &str)], want: &[&str]) {
        let messages: Vec<String> = check(&tree(files))
            .into_iter()
            .map(|finding| finding.message.replace("crates/a/src/", ""))
            .collect();
        assert_eq!(messages, want);
    }

    const LIB: (&str, &str) = ("crates/a/src/lib.rs", "mod a; mod b;");
    const A: &str = "crates/a/src/a.rs";
    const B: &str = "crates/a/src/b.rs";
    const CIRCLE: &str = "2 files use each other:\n    a.rs -> b.rs (B)\n    b.rs -> a.rs (A)";

    #[test]
    fn files_that_import_each_other_are_found() {
        finds(
            &[
                LIB,
                (A, "use crate::b::B; pub struct A;"),
                (B, "use crate::a::A; pub struct B;"),
            ],
            &[CIRCLE],
        );
    }

    #[test]
    fn a_circle_by_paths_in_code_and_through_super_is_found() {
        finds(
            &[
                LIB,
                (A, "pub struct A; fn f() -> crate::b::B {}"),
                (B, "pub struct B; fn f(a: &super::a::A) {}"),
            ],
            &[CIRCLE],
        );
    }

    #[test]
    fn a_parent_that_hands_on_what_its_children_take_passes() {
        finds(
            &[
                (
                    "crates/a/src/lib.rs",
                    "mod a; mod b; pub use a::A; pub use b::B;",
                ),
                (A, "pub struct A;"),
                (B, "use crate::A; use super::A as Same; pub struct B;"),
            ],
            &[],
        );
    }

    #[test]
    fn a_parent_whose_own_item_a_child_takes_is_found() {
        finds(
            &[
                ("crates/a/src/lib.rs", "mod a; pub use a::A; pub struct L;"),
                (A, "use crate::L; pub struct A(L);"),
            ],
            &["2 files use each other:\n    a.rs -> lib.rs (L)\n    lib.rs -> a.rs (A)"],
        );
    }

    #[test]
    fn tests_may_look_back() {
        finds(
            &[
                LIB,
                (A, "use crate::b::B; pub struct A;"),
                (
                    B,
                    "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
                ),
            ],
            &[],
        );
    }

    #[test]
    fn programs_are_read_as_libraries_are() {
        finds(
            &[
                (
                    "crates/a/src/bin/p/main.rs",
                    "mod q; struct P; fn main() { q::f() }",
                ),
                ("crates/a/src/bin/p/q.rs", "pub fn f() -> super::P {}"),
            ],
            &[
                "2 files use each other:\n    bin/p/main.rs -> bin/p/q.rs (f)\n    bin/p/q.rs -> bin/p/main.rs (P)",
            ],
        );
    }

    #[test]
    fn text_that_is_not_rust_is_found() {
        let files = [("crates/a/src/lib.rs", "fn (")];
        assert_eq!(check(&tree(&files)).len(), 1);
    }
}
