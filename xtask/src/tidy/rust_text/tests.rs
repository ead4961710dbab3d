//! What is read from Rust text, and what is passed over.

use super::*;

fn scope(text: &str) -> Scope {
    read(text).expect("text with matching brackets")
}

/// Imports as `path as name`, `path::*`; `pub` and `local` in front.
#[track_caller]
fn imports(text: &str, want: &[&str]) {
    let got: Vec<String> = scope(text)
        .imports
        .iter()
        .map(|import| {
            let reach = if import.is_public { "pub " } else { "" };
            let place = if import.is_local { "local " } else { "" };
            let path = import.path.join("::");
            let last = import.path.last().is_some_and(|last| *last == import.name);
            match (import.is_glob, last) {
                (true, _) => format!("{reach}{place}{path}::*"),
                (false, true) => format!("{reach}{place}{path}"),
                (false, false) => format!("{reach}{place}{path} as {}", import.name),
            }
        })
        .collect();
    assert_eq!(got, want);
}

#[track_caller]
fn paths(text: &str, want: &[&str]) {
    let scope = scope(text);
    let got: Vec<String> = scope.paths.iter().map(|path| path.join("::")).collect();
    assert_eq!(got, want);
}

#[test]
fn use_trees_are_read_to_their_leaves() {
    imports("use crate::a::B;", &["crate::a::B"]);
    imports(
        "use crate::a::{b::{C, D as E, self}, f, g::*,};",
        &[
            "crate::a::b::C",
            "crate::a::b::D as E",
            "crate::a::b",
            "crate::a::f",
            "crate::a::g::*",
        ],
    );
    imports("use super::super::x as _;", &["super::super::x as _"]);
    imports("use {self::a, super::b};", &["self::a", "super::b"]);
    imports("use self::a; use a::r#type;", &["self::a", "a::type"]);
    imports("use super::*;", &["super::*"]);
    imports("use ::std::fmt;", &["::std::fmt"]);
}

#[test]
fn reach_and_place_of_an_import_are_kept() {
    imports(
        "pub use a::A; pub(crate) use b::B; pub(in crate::x) use c::C; use d::D;",
        &["pub a::A", "pub b::B", "pub c::C", "d::D"],
    );
    imports(
        "fn f() { use a::A; { use b::*; } }",
        &["local a::A", "local b::*"],
    );
    imports("fn f() -> impl Fn() + use<'_, T> {}", &[]);
}

#[test]
fn paths_are_read_wherever_they_stand() {
    paths(
        "fn f(a: super::A) -> Vec<crate::b::B> { x!(self::c::d(1)); e::<f::G>::h() }",
        &["crate::b::B", "f::G", "self::c::d", "super::A"],
    );
    paths("#[arg(parse = crate::a::b)] struct S;", &["crate::a::b"]);
    paths(
        "macro_rules! m { () => { $crate::a::f($b::c) } }",
        &["crate::a::f"],
    );
    paths("impl super::T for <A as b::C>::D {}", &["b::C", "super::T"]);
    paths(
        "fn f() { x.a::<b::C>(); 0..d::E; ..f::g() }",
        &["b::C", "d::E", "f::g"],
    );
}

#[test]
fn text_that_is_no_code_is_passed_over() {
    paths(
        "// a::b\n/* /* a::b */ a::b */ /// [`a::b`]\nfn f() {}",
        &[],
    );
    paths(
        "const A: &str = \"a::b\"; const B: &str = r#\"\" a::b\"#;",
        &[],
    );
    paths(
        "const A: u8 = b'\"'; fn f<'a>(x: &'a str) { 'a: loop {} }",
        &[],
    );
    paths("fn f() { ::std::mem::drop(1) }", &[]);
    paths("pub(in crate::a) fn f() {}", &[]);
}

#[test]
fn what_is_for_tests_alone_is_passed_over() {
    let text = "
        #[cfg(test)] mod tests;
        #[cfg(test)] mod inline { use a::A; }
        #[cfg(test)] use b::{B};
        #[cfg(test)] #[inline] pub(crate) const fn f() -> u8 { c::C }
        #[cfg(all(test, unix))] const T: Table = Table { rows: d::D };
        #[cfg(test)] impl e::E for F { fn g() {} }
        struct S { #[cfg(test)] field: g::G, other: kept::K }
        fn h() { #[cfg(test)] let x = S { y: i::I }; kept::k() }
        #[cfg(not(test))] fn kept() { kept::z() }
        ";
    let scope = scope(text);
    assert_eq!(scope.imports, []);
    assert_eq!(scope.modules, []);
    paths(text, &["kept::K", "kept::k", "kept::z"]);
    assert_eq!(scope.items.keys().collect::<Vec<_>>(), ["S", "h", "kept"]);
}

#[test]
fn items_keep_their_reach() {
    let scope = scope(
        "pub struct A(u8); enum B {} pub(super) trait C { fn not(); } pub type D = fn(u8);
         pub const fn e() {} const F: [u8; 2] = [1, 2]; pub static mut G: u8 = 0; const _: () = ();
         macro_rules! h { () => { fn not2() {} } } unsafe extern \"C\" { pub fn i(); } union J { a: u8 }
         impl A { pub fn not3() {} }",
    );
    let items: Vec<String> = scope
        .items
        .iter()
        .filter(|(name, _)| *name != "_")
        .map(|(name, is_public)| format!("{name}{}", if *is_public { "+" } else { "" }))
        .collect();
    assert_eq!(
        items,
        ["A+", "B", "C+", "D+", "F", "G+", "J", "e+", "h", "i+"]
    );
}

#[test]
fn modules_are_files_or_scopes() {
    let scope = scope("pub mod a; #[path = \"z.rs\"] mod b; mod c { use super::D; mod e; }");
    let names: Vec<&str> = scope.modules.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(scope.modules[1].path.as_deref(), Some("z.rs"));
    assert!(scope.modules[0].scope.is_none() && scope.modules[0].path.is_none());
    let inner = scope.modules[2].scope.as_ref().expect("a scope");
    assert_eq!(inner.imports[0].path, ["super", "D"]);
    assert_eq!(inner.modules[0].name, "e");
    assert_eq!(scope.imports, []);
}

#[test]
fn words_are_names_that_may_be_items() {
    let scope = scope("fn f(a: B) { let c = d(e.g, H); 'i: loop { j!(k) } }");
    for word in ["B", "d", "e", "H", "j", "k"] {
        assert!(scope.words.contains(word), "{word}");
    }
    for word in ["a", "c", "g", "i"] {
        assert!(!scope.words.contains(word), "{word}");
    }
}

#[test]
fn brackets_that_do_not_match_are_an_error() {
    assert!(read("fn f( {").is_err());
}
