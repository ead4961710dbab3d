//! Crates of a few files, and the arrows between them.

use super::*;

/// `files` under `src/`, `lib.rs` first; `want` as `a.rs -> b.rs: names`.
#[track_caller]
fn arrows(files: &[(&str, &str)], want: &[&str]) {
    let files: Vec<TextFile> = files
        .iter()
        .map(|(path, text)| TextFile {
            path: format!("src/{path}"),
            text: (*text).to_owned(),
        })
        .collect();
    let modules = Modules::read(files.iter(), "src/lib.rs");
    assert_eq!(modules.unreadable, []);
    let got: Vec<String> = modules
        .arrows()
        .iter()
        .map(|((from, to), names)| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!("{from} -> {to}: {}", names.join(" ")).replace("src/", "")
        })
        .collect();
    assert_eq!(got, want);
}

#[test]
fn imports_lead_to_the_file_of_the_item() {
    arrows(
        &[
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "use crate::b::{B, c::C}; use std::fmt; use half::f16;",
            ),
            ("b/mod.rs", "pub mod c; pub struct B;"),
            ("b/c.rs", "pub struct C; fn f() -> super::B {}"),
        ],
        &[
            "a.rs -> b/c.rs: C",
            "a.rs -> b/mod.rs: B",
            "b/c.rs -> b/mod.rs: B",
        ],
    );
}

#[test]
fn both_layouts_of_a_module_with_children_are_read() {
    arrows(
        &[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod c;"),
            ("a/c.rs", "use crate::b::d::D;"),
            ("b/mod.rs", "pub mod d;"),
            ("b/d.rs", "pub struct D;"),
        ],
        &["a/c.rs -> b/d.rs: D"],
    );
}

#[test]
fn declaring_a_module_is_no_arrow_and_handing_on_is_one() {
    arrows(
        &[
            ("lib.rs", "mod a; pub use a::A;"),
            ("a/mod.rs", "mod b; pub use b::*; pub(crate) struct A;"),
            ("a/b.rs", "pub struct B;"),
        ],
        &["a/mod.rs -> a/b.rs: *", "lib.rs -> a/mod.rs: A"],
    );
}

#[test]
fn a_name_taken_through_a_parent_belongs_to_the_child_that_defines_it() {
    arrows(
        &[
            ("lib.rs", "mod a; mod e; pub use e::E;"),
            ("a/mod.rs", "mod b; mod c; pub use b::B; pub use c::C as D;"),
            ("a/b.rs", "pub struct B;"),
            ("a/c.rs", "use super::B; use crate::E; pub struct C;"),
            ("e.rs", "pub struct E; fn f(d: crate::a::D) {}"),
        ],
        &[
            "a/c.rs -> a/b.rs: B",
            "a/c.rs -> e.rs: E",
            "a/mod.rs -> a/b.rs: B",
            "a/mod.rs -> a/c.rs: C",
            "e.rs -> a/c.rs: D",
            "lib.rs -> e.rs: E",
        ],
    );
}

#[test]
fn a_private_import_of_the_parent_is_followed() {
    arrows(
        &[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod c; use crate::b::B;"),
            ("a/c.rs", "use super::B;"),
            ("b.rs", "pub struct B;"),
        ],
        &["a/c.rs -> b.rs: B", "a/mod.rs -> b.rs: B"],
    );
}

#[test]
fn code_that_goes_through_an_imported_module_counts_where_it_ends() {
    let b = ("b/mod.rs", "pub mod c; pub fn f() {}");
    let c = ("b/c.rs", "pub struct C;");
    arrows(
        &[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b; fn f() { b::c::C::new() }"),
            b,
            c,
        ],
        &["a.rs -> b/c.rs: C"],
    );
    arrows(
        &[("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b;"), b, c],
        &["a.rs -> b/mod.rs: b"],
    );
    arrows(
        &[("lib.rs", "mod b; fn f() { b::f(); crate::b::f() }"), b, c],
        &["lib.rs -> b/mod.rs: f"],
    );
}

#[test]
fn a_glob_counts_for_the_names_that_are_used() {
    arrows(
        &[
            ("lib.rs", "mod a;"),
            (
                "a/mod.rs",
                "mod b; mod c; use c::C; use std::fmt; pub struct A; fn f() { b::g() }",
            ),
            ("a/b.rs", "use super::*; pub fn g() -> C { fmt::x() }"),
            ("a/c.rs", "pub struct C;"),
        ],
        &[
            "a/b.rs -> a/c.rs: C",
            "a/b.rs -> a/mod.rs: fmt",
            "a/mod.rs -> a/b.rs: g",
            "a/mod.rs -> a/c.rs: C",
        ],
    );
}

#[test]
fn a_glob_gives_strangers_no_private_names() {
    arrows(
        &[
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "use crate::b::*; fn f(x: Shown) { hidden(); fmt() }",
            ),
            ("b.rs", "use std::fmt; fn hidden() {} pub struct Shown;"),
        ],
        &["a.rs -> b.rs: Shown"],
    );
}

#[test]
fn modules_in_braces_share_their_file() {
    arrows(
        &[
            ("lib.rs", "mod a; mod b { pub mod c; pub struct B; }"),
            (
                "a.rs",
                "mod inner { use super::super::b::{B, c::C}; use super::A; } struct A;",
            ),
            ("b/c.rs", "pub struct C; fn f() -> super::B {}"),
        ],
        &[
            "a.rs -> b/c.rs: C",
            "a.rs -> lib.rs: B",
            "b/c.rs -> lib.rs: B",
        ],
    );
}

#[test]
fn a_path_attribute_names_the_file() {
    arrows(
        &[
            ("lib.rs", "mod a; #[path = \"odd/place.rs\"] mod b;"),
            ("a.rs", "use crate::b::{B, c::C};"),
            ("odd/place.rs", "pub mod c; pub struct B;"),
            ("odd/c.rs", "pub struct C;"),
        ],
        &["a.rs -> odd/c.rs: C", "a.rs -> odd/place.rs: B"],
    );
}

#[test]
fn a_name_that_is_module_and_function_is_told_apart_by_its_place() {
    arrows(
        &[
            ("lib.rs", "mod m; mod n; pub use m::m;"),
            ("m.rs", "pub fn m() {} pub struct M;"),
            ("n.rs", "use crate::m; fn f() { crate::m::M; m() }"),
        ],
        &["lib.rs -> m.rs: m", "n.rs -> m.rs: M m"],
    );
}

#[test]
fn names_that_no_file_defines_belong_to_the_module_on_the_way() {
    arrows(
        &[
            ("lib.rs", "mod a; mod b; pub use half::f16;"),
            ("a.rs", "use crate::b::Made; use crate::f16;"),
            ("b.rs", "make! { Made }"),
        ],
        &["a.rs -> b.rs: Made", "a.rs -> lib.rs: f16"],
    );
}

#[test]
fn macros_by_name_are_no_arrow_and_by_path_are_one() {
    arrows(
        &[
            ("lib.rs", "#[macro_use] mod a; mod b; mod c;"),
            ("a.rs", "macro_rules! m { () => {} } pub(crate) use m;"),
            ("b.rs", "m!();"),
            ("c.rs", "crate::a::m!();"),
        ],
        &["c.rs -> a.rs: m"],
    );
}

#[test]
fn imports_in_a_ring_end() {
    arrows(
        &[
            ("lib.rs", "mod a; mod b; use a::X;"),
            ("a.rs", "pub use crate::b::X; pub use crate::b::*;"),
            ("b.rs", "pub use crate::a::X; pub use crate::a::*;"),
        ],
        &[
            "a.rs -> b.rs: * X",
            "b.rs -> a.rs: * X",
            "lib.rs -> a.rs: X",
        ],
    );
}

#[test]
fn text_that_cannot_be_read_is_reported() {
    let files = [
        TextFile {
            path: "src/lib.rs".to_owned(),
            text: "mod a;".to_owned(),
        },
        TextFile {
            path: "src/a.rs".to_owned(),
            text: "fn (".to_owned(),
        },
    ];
    let modules = Modules::read(files.iter(), "src/lib.rs");
    assert_eq!(modules.unreadable[0].0, "src/a.rs");
}

#[test]
fn a_glob_of_an_enum_is_an_arrow_to_its_file() {
    arrows(
        &[
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "use crate::b::Kind::*; fn f() { use super::b::Kind::One; Two }",
            ),
            ("b.rs", "pub enum Kind { One, Two }"),
        ],
        &["a.rs -> b.rs: Kind"],
    );
}
