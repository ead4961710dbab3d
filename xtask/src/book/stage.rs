//! The book's source: the pages of docs/ and of the root in one folder, with links that hold there.
//!
//! ```text
//! docs/book.toml, .css     book.toml, book.css
//! docs/**                  src/**
//! README.md …              src/sparkpilot.md …          the pages of PAGES
//! [text](../src/lib.rs)    text (`src/lib.rs`)          what is no page of the book
//! ```

use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::tidy::resolve;
use crate::workspace::Workspace;

/// Pages of the root, and their names in the book.
const PAGES: [(&str, &str); 4] = [
    ("README.md", "sparkpilot.md"),
    ("ARCHITECTURE.md", "architecture.md"),
    ("CONTRIBUTING.md", "contributing.md"),
    ("CHANGELOG.md", "changelog.md"),
];

/// Writes it all anew.
pub(super) fn stage(workspace: &Workspace, folder: &Path) -> Result<(), Error> {
    if folder.is_dir() {
        fs::remove_dir_all(folder).map_err(Error::io("remove", folder))?;
    }
    let paths = workspace.files()?;
    for path in &paths {
        let Some(staged) = staged(path) else {
            continue;
        };
        let from = workspace.root.join(path);
        let to = match path.as_str() {
            "docs/book.toml" => folder.join("book.toml"),
            "docs/book.css" => folder.join("book.css"),
            _ => folder.join("src").join(&staged),
        };
        let parent = to.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
        if !path.ends_with(".md") {
            fs::copy(&from, &to).map_err(Error::io("copy", &from))?;
            continue;
        }
        let text = fs::read_to_string(&from).map_err(Error::io("read", &from))?;
        fs::write(&to, with_links(path, &text, &paths)).map_err(Error::io("write", &to))?;
    }
    Ok(())
}

/// Where a file of the repository lies in the book's source, below `src`.
fn staged(path: &str) -> Option<String> {
    let page = PAGES.iter().find(|(page, _)| *page == path);
    let page = page.map(|(_, name)| (*name).to_owned());
    page.or_else(|| path.strip_prefix("docs/").map(str::to_owned))
}

/// The page with its relative links as they are in the book, blocks of code as they were.
fn with_links(path: &str, text: &str, paths: &[String]) -> String {
    let mut whole = String::new();
    let mut in_fence = false;
    for line in text.lines() {
        in_fence ^= line.trim_start().starts_with("```");
        match in_fence {
            true => whole.push_str(line),
            false => whole.push_str(&line_with_links(path, line, paths)),
        }
        whole.push('\n');
    }
    whole
}

fn line_with_links(path: &str, line: &str, paths: &[String]) -> String {
    let mut whole = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((target, after)) = after.split_once(')') else {
            break;
        };
        whole.push_str(before);
        rest = after;
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        if target.contains("://") || file.is_empty() {
            whole.push_str(&format!("]({target})"));
            continue;
        }
        let file = resolve(path, file);
        match staged(&file).filter(|_| paths.contains(&file)) {
            Some(to) => {
                let hash = if anchor.is_empty() { "" } else { "#" };
                let up = "../".repeat(staged(path).unwrap_or_default().matches('/').count());
                whole.push_str(&format!("]({up}{to}{hash}{anchor})"));
            }
            None => {
                // The text's own bracket: texts of links hold none.
                let Some(start) = whole.rfind('[') else {
                    continue;
                };
                let text = whole.split_off(start);
                let text = &text[1..];
                let named = text.trim_matches('`') == file;
                match named {
                    true => whole.push_str(text),
                    false => whole.push_str(&format!("{text} (`{file}`)")),
                }
            }
        }
    }
    whole.push_str(rest);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn becomes(path: &str, text: &str, wanted: &str) {
        let paths = [
            "README.md",
            "docs/a.md",
            "docs/reference/b.md",
            "src/lib.rs",
            "docs/p.svg",
        ];
        let paths = paths.map(str::to_owned);
        assert_eq!(with_links(path, text, &paths), wanted);
    }

    #[test]
    fn links_between_pages_hold_in_the_book() {
        becomes(
            "README.md",
            "[a](docs/a.md#x), [w](https://a.b)\n",
            "[a](a.md#x), [w](https://a.b)\n",
        );
        becomes(
            "docs/a.md",
            "[r](../README.md) [b](reference/b.md)\n",
            "[r](sparkpilot.md) [b](reference/b.md)\n",
        );
        becomes(
            "docs/reference/b.md",
            "[a](../a.md), [here](#x)\n",
            "[a](../a.md), [here](#x)\n",
        );
        becomes("README.md", "![p](docs/p.svg)\n", "![p](p.svg)\n");
    }

    #[test]
    fn what_is_no_page_is_named() {
        becomes(
            "docs/a.md",
            "see [the library](../src/lib.rs).\n",
            "see the library (`src/lib.rs`).\n",
        );
        becomes(
            "README.md",
            "[`src/lib.rs`](src/lib.rs)\n",
            "`src/lib.rs`\n",
        );
    }

    #[test]
    fn code_is_left_alone() {
        becomes(
            "docs/a.md",
            "```\n[r](../README.md)\n```\n",
            "```\n[r](../README.md)\n```\n",
        );
    }
}
