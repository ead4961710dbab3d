//! The pages, and the fenced blocks on them.
//!
//! ```text
//! sh                           run as it stands
//! sh ends with 1               run; 1 is the exit code that it has to end with
//! sh not run: REASON           printed with its reason, and counted
//! text output                  what the block before it prints, line by line
//! text output, numbers vary    the same, but for the digits of numbers
//! ```
//!
//! The first word is the language; renderers take no notice of the rest.

use crate::error::Error;
use crate::workspace::Workspace;

/// What a block is there for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A script that ends with this code.
    Run { code: i32 },
    /// A script that cannot be run here.
    NotRun { reason: String },
    /// What the script before it prints.
    Output { numbers_vary: bool },
    /// Anything else.
    Other,
}

/// One fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) kind: Kind,
    /// Line of the opening fence, from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

/// Paths of the pages whose commands are run, sorted.
pub(super) fn paths(workspace: &Workspace) -> Result<Vec<String>, Error> {
    let mut paths = workspace.files()?;
    paths
        .retain(|path| path.ends_with(".md") && (path.starts_with("docs/") || !path.contains('/')));
    Ok(paths)
}

/// The blocks of a page, or the line and what is wrong there.
pub(super) fn blocks(page: &str) -> Result<Vec<Block>, (usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, Block)> = None;
    for (idx, line) in page.lines().enumerate() {
        let trimmed = line.trim_start();
        if let Some((fence, block)) = &mut open {
            if trimmed.trim_end() == fence {
                blocks.extend(open.take().map(|(_, block)| block));
            } else {
                block.text.push_str(line);
                block.text.push('\n');
            }
        } else if trimmed.starts_with("```") {
            let info = trimmed.trim_start_matches('`');
            let fence = trimmed[..trimmed.len() - info.len()].to_owned();
            let kind = kind_of(info.trim()).map_err(|message| (idx + 1, message))?;
            let block = Block {
                kind,
                line: idx + 1,
                text: String::new(),
            };
            open = Some((fence, block));
        }
    }
    match open {
        None => Ok(blocks),
        Some((_, block)) => Err((block.line, "this block has no end".to_owned())),
    }
}

fn kind_of(info: &str) -> Result<Kind, String> {
    let (language, rest) = info.split_once(' ').unwrap_or((info, ""));
    let rest = rest.trim();
    if ["bash", "console", "shell"].contains(&language) {
        return Err(format!("`{language}`: blocks of commands are marked `sh`"));
    }
    if language == "sh" {
        if rest.is_empty() {
            return Ok(Kind::Run { code: 0 });
        }
        if let Some(code) = rest.strip_prefix("ends with ") {
            let code = code.parse();
            return code.map_or_else(
                |_| Err(format!("`{rest}`: no exit code")),
                |code| Ok(Kind::Run { code }),
            );
        }
        let reason = rest.strip_prefix("not run:").map(str::trim);
        return match reason {
            Some(reason) if !reason.is_empty() => Ok(Kind::NotRun {
                reason: reason.to_owned(),
            }),
            _ => Err(format!("`{rest}`: no mark of a block of commands")),
        };
    }
    match (language, rest) {
        ("text", "output") => Ok(Kind::Output {
            numbers_vary: false,
        }),
        ("text", "output, numbers vary") => Ok(Kind::Output { numbers_vary: true }),
        ("text", other) if !other.is_empty() => Err(format!("`{other}`: no mark of a text")),
        _ => Ok(Kind::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read() {
        let page = "a\n```sh\nx\n```\n```text output, numbers vary\n3\n```\n  ```sh not run: two machines\n  y\n  ```\n````sh ends with 1\n```\n````\n```rust\n```\n";
        let kinds: Vec<Kind> = blocks(page)
            .expect("a page")
            .into_iter()
            .map(|block| block.kind)
            .collect();
        let reason = "two machines".to_owned();
        assert_eq!(
            kinds,
            [
                Kind::Run { code: 0 },
                Kind::Output { numbers_vary: true },
                Kind::NotRun { reason },
                Kind::Run { code: 1 },
                Kind::Other
            ]
        );
    }

    #[test]
    fn a_text_keeps_its_line_and_its_lines() {
        let blocks = blocks("# A\n\n```sh\none \\\n  two\n```\n").expect("a page");
        assert_eq!(
            (blocks[0].line, blocks[0].text.as_str()),
            (3, "one \\\n  two\n")
        );
    }

    #[test]
    fn unknown_marks_and_open_blocks_are_refused() {
        for (page, line) in [
            ("```sh quickly\n```\n", 1),
            ("\n```sh not run:\n```\n", 2),
            ("```sh ends with it\n```\n", 1),
            ("```bash\n```\n", 1),
            ("```text ouput\n```\n", 1),
            ("\n\n```sh\n", 3),
        ] {
            assert_eq!(blocks(page).expect_err(page).0, line, "{page}");
        }
    }
}
