//! The page `docs/environment.md`, written from the declarations.

use std::fmt::Write as _;

use super::{Audience, DECLARATIONS, Declaration, FOREIGN};

const INTRODUCTION: &str = "\
<!-- Generated from `spark_hal::config`; do not edit. Rewrite with
     SPARK_BLESS=1 cargo test -p spark-hal environment_page -->

# Environment variables

An invalid value logs a warning and the default is used. A variable that is set
to nothing counts as not set. Every variable is read once, when a program starts
to use it.
";

/// The text of `docs/environment.md`.
#[must_use]
pub fn environment_markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    section(&mut page, "For users", Audience::Users);
    section(&mut page, "For the test suite", Audience::Tests);
    page.push_str("\n## Of other software, only looked at\n\n| variable | for |\n|---|---|\n");
    for (name, purpose) in FOREIGN {
        page.push_str(&format!("| `{name}` | {purpose} |\n"));
    }
    page
}

fn section(page: &mut String, title: &str, audience: Audience) {
    page.push_str(&format!(
        "\n## {title}\n\n| variable | accepts | default | meaning |\n|---|---|---|---|\n"
    ));
    for declaration in DECLARATIONS
        .iter()
        .filter(|declaration| declaration.audience == audience)
    {
        let Declaration {
            name, accepts, doc, ..
        } = declaration;
        writeln!(
            page,
            "| `{name}` | {accepts} | {} | {doc} |",
            default_words(declaration)
        )
        .expect("writing to a String cannot fail");
    }
}

/// The default as a reader of the page or of a warning is told it.
pub(super) fn default_words(declaration: &Declaration) -> String {
    if declaration.default_meaning.is_empty() {
        format!("`{}`", declaration.default)
    } else {
        declaration.default_meaning.to_owned()
    }
}
