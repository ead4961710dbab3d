//! Links of the book as it was built: every relative one leads to a file, and to a place in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

use super::finding::Finding;

/// What of a page links hang on.
#[derive(Default)]
struct Page {
    ids: BTreeSet<String>,
    /// Targets of `href` and `src`.
    targets: BTreeSet<String>,
}

/// Checks every page below `folder`; returns how many there are.
pub(super) fn check(folder: &Path, findings: &mut Vec<Finding>) -> Result<usize, Error> {
    let mut files = Vec::new();
    list(folder, &mut files)?;
    let mut pages = BTreeMap::new();
    for file in &files {
        if file
            .extension()
            .is_some_and(|extension| extension == "html")
        {
            let text = fs::read_to_string(file).map_err(Error::io("read", file))?;
            pages.insert(file.clone(), page(&text));
        }
    }
    for (file, page) in &pages {
        for target in &page.targets {
            if let Some(message) = problem(file, target, &files, &pages) {
                let name = file.strip_prefix(folder).unwrap_or(file);
                findings.push(Finding {
                    page: format!("book {}", name.display()),
                    line: 0,
                    message,
                });
            }
        }
    }
    Ok(pages.len())
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let path = entry.map_err(Error::io("list", folder))?.path();
        match path.is_dir() {
            true => list(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

fn page(text: &str) -> Page {
    let mut page = Page::default();
    // Scripts hold text that looks like tags.
    for (idx, part) in text.split("<script").enumerate() {
        let markup = match idx {
            0 => part,
            _ => part.split_once("</script>").map_or("", |(_, rest)| rest),
        };
        let values = |name: &'static str| {
            let starts = markup.match_indices(name);
            starts.filter_map(move |(start, name)| {
                let value = markup[start + name.len()..].split('"').next();
                value.map(|value| value.replace("&amp;", "&"))
            })
        };
        page.ids.extend(values(" id=\""));
        page.targets.extend(values(" href=\""));
        page.targets.extend(values(" src=\""));
    }
    page
}

fn problem(
    file: &Path,
    target: &str,
    files: &[PathBuf],
    pages: &BTreeMap<PathBuf, Page>,
) -> Option<String> {
    if target.contains(':') || target.starts_with("//") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let mut to = file.to_owned();
    if !path.is_empty() {
        to.pop();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(to.pop()),
                part => to.push(part),
            }
        }
    }
    if !files.contains(&to) {
        return Some(format!("`{target}` leads nowhere"));
    }
    let to = pages.get(&to)?;
    (!anchor.is_empty() && !to.ids.contains(anchor))
        .then(|| format!("`{target}`: no such place on that page"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_pages_and_places_are_followed() {
        let folder = std::env::temp_dir().join(format!("xtask-html-{}", std::process::id()));
        fs::create_dir_all(folder.join("reference")).expect("a folder");
        let a = "<h1 id=\"top\">A</h1><a href=\"reference/b.html#here\"></a><a href=\"#top\"></a><a href=\"https://a.b/c\"></a>\
            <script>x=' href=\"none\"'</script><img src=\"none.svg\">";
        let b =
            "<h1 id=\"here\">B</h1><a href=\"../a.html#away\"></a><a href=\"../a.html#top\"></a>";
        fs::write(folder.join("a.html"), a).expect("a file");
        fs::write(folder.join("reference/b.html"), b).expect("a file");
        let mut findings = Vec::new();
        assert_eq!(check(&folder, &mut findings).expect("a book"), 2);
        let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            findings,
            [
                "book a.html:0: `none.svg` leads nowhere",
                "book reference/b.html:0: `../a.html#away`: no such place on that page"
            ]
        );
        fs::remove_dir_all(&folder).expect("a folder");
    }
}
