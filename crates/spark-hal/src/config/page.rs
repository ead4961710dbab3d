//! The users' part of the page `docs/environment.md`, written from the declarations.

use std::fmt::Write as _;

use super::declaration::Declaration;
use super::variables::{DECLARATIONS, FOREIGN};

const INTRODUCTION: &str = "\
# Environment variables

A variable that is set to nothing counts as not set. Those for users are read once, when a
program starts to use them.

## For users

An invalid value logs a warning and the default is used.

| variable | accepts | default | meaning |
|---|---|---|---|
";

/// The environment variables for users, and those of other software, as Markdown.
#[must_use]
pub fn environment_markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    for declaration in DECLARATIONS {
        let Declaration {
            name, accepts, doc, ..
        } = declaration;
        writeln!(
            page,
            "| `{name}` | {accepts} | {} | {doc} |",
            declaration.default_words()
        )
        .expect("writing to a String cannot fail");
    }
    page.push_str("\n## Of other software, only looked at\n\n| variable | for |\n|---|---|\n");
    for (name, purpose) in FOREIGN {
        writeln!(page, "| `{name}` | {purpose} |").expect("writing to a String cannot fail");
    }
    page
}
