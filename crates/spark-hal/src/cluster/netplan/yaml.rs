//! As much of YAML as netplan's files are written in: maps and lists, in lines or in brackets, JSON among them.
//!
//! ```text
//! a:                 Map [a: Map [b: List [Text 1, Text 2]]]
//!   b: [1, "2"]
//! ```
//!
//! Source: YAML 1.2.2, chapters 7 and 8. Deliberately absent: aliases and merge keys ([`Node::Unknown`]), texts of several lines, tags, and what the types of texts
//! are. What is not understood is refused with its line, and its content is not kept: other lines of these files hold passwords.

/// Deeper nesting, and more values, than any netplan.
const MOST_DEPTH: usize = 24;
const MOST_NODES: usize = 100_000;

/// A line with something on it, without its comment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: usize,
    /// Blanks before it.
    pub(super) indent: usize,
    pub(super) text: &'a str,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Nothing,
    Text(String),
    List(Vec<Entry>),
    /// In the order of the file; a key may be there again.
    Map(Vec<Entry>),
    /// An alias, or a text of several lines.
    Unknown,
}

/// An item of a list, whose key is empty, or one of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: Node,
}

/// Where something stands that is not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) line: usize,
    pub(super) wanted: &'static str,
}

/// Lines that say something.
pub(super) fn lines(text: &str) -> Vec<Line<'_>> {
    let lines = text.lines().enumerate().filter_map(|(idx, line)| {
        let content = without_comment(line).trim_end();
        let bare = content.trim_start_matches(' ');
        (!bare.is_empty()).then_some(Line {
            number: idx + 1,
            indent: content.len() - bare.len(),
            text: bare,
        })
    });
    lines.collect()
}

/// Reads values and counts them.
#[derive(Debug, Default)]
pub(super) struct Reader {
    nodes: usize,
}

/// A key with what stands behind it, and the lines below it.
pub(super) struct Part<'a, 'b> {
    pub(super) line: usize,
    pub(super) key: String,
    rest: &'a str,
    below: &'b [Line<'a>],
}

impl Part<'_, '_> {
    /// Whether its value is all in the lines below.
    pub(super) fn is_block(&self) -> bool {
        without_anchor(self.rest).is_empty()
    }
}

impl<'a> Part<'a, '_> {
    /// Whether a word stands in its lines.
    pub(super) fn speaks_of(&self, word: &str) -> bool {
        let below = self.below.iter().map(|line| line.text);
        below.chain([self.rest]).any(|text| text.contains(word))
    }

    pub(super) fn below(&self) -> &[Line<'a>] {
        self.below
    }
}

/// The keys that stand furthest left in these lines.
pub(super) fn parts<'a, 'b>(lines: &'b [Line<'a>]) -> Result<Vec<Part<'a, 'b>>, Refused> {
    let mut parts = Vec::new();
    let mut left = lines;
    let indent = lines.first().map_or(0, |line| line.indent);
    while let Some((first, below)) = left.split_first() {
        let refused = |wanted| Refused {
            line: first.number,
            wanted,
        };
        if first.text.starts_with('\t') {
            return Err(refused("spaces before it"));
        }
        if first.indent != indent {
            return Err(refused(
                "as many spaces before it as before the first of its kind",
            ));
        }
        let (key, rest) = key_and_rest(first.text).ok_or_else(|| refused("a key"))?;
        // Items of a list may stand as far left as their key.
        let is_below =
            |line: &Line<'_>| line.indent > indent || (line.indent == indent && is_item(line.text));
        let n_indented = below.iter().take_while(|line| is_below(line)).count();
        let n_bracketed = lines_of_brackets(without_anchor(rest), below);
        let (below, after) = below.split_at(n_bracketed.unwrap_or(n_indented));
        parts.push(Part {
            line: first.number,
            key,
            rest,
            below,
        });
        left = after;
    }
    Ok(parts)
}

impl Reader {
    /// The value of a key.
    pub(super) fn value(&mut self, part: &Part<'_, '_>) -> Result<Node, Refused> {
        self.behind(part.line, part.rest, part.below, 0)
    }

    /// A value in brackets that begins the first of these lines, and how many of them it takes.
    pub(super) fn bracketed(&mut self, lines: &[Line<'_>]) -> Result<(Node, usize), Refused> {
        let line = lines.first().map_or(1, |line| line.number);
        let mut n_taken = 0;
        let mut brackets = Brackets::default();
        let mut all = String::new();
        for next in lines {
            n_taken += 1;
            all.push_str(next.text);
            all.push(' ');
            brackets.see(next.text);
            if brackets.open == 0 {
                break;
            }
        }
        if brackets.open > 0 {
            return Err(Refused {
                line,
                wanted: "brackets that are closed",
            });
        }
        Ok((self.flow(line, &all, 0)?, n_taken))
    }

    fn count(&mut self, line: usize, depth: usize) -> Result<(), Refused> {
        self.nodes += 1;
        match self.nodes <= MOST_NODES && depth <= MOST_DEPTH {
            true => Ok(()),
            false => Err(Refused {
                line,
                wanted: "fewer values, and not so deep",
            }),
        }
    }

    fn block(&mut self, lines: &[Line<'_>], depth: usize) -> Result<Node, Refused> {
        let Some(first) = lines.first() else {
            return Ok(Node::Nothing);
        };
        self.count(first.number, depth)?;
        if first.text.starts_with(['{', '[']) {
            return self.joined(first.number, "", lines, depth);
        }
        if is_item(first.text) {
            return self.list(lines, depth);
        }
        if key_and_rest(first.text).is_none() && lines.len() == 1 {
            return self.behind(first.number, first.text, &[], depth);
        }
        let entries = parts(lines)?.into_iter().map(|part| {
            Ok(Entry {
                value: self.behind(part.line, part.rest, part.below, depth + 1)?,
                line: part.line,
                key: part.key,
            })
        });
        Ok(Node::Map(entries.collect::<Result<_, _>>()?))
    }

    fn list(&mut self, lines: &[Line<'_>], depth: usize) -> Result<Node, Refused> {
        let indent = lines[0].indent;
        let mut entries = Vec::new();
        let mut left = lines;
        while let Some((first, below)) = left.split_first() {
            if first.indent != indent || !is_item(first.text) {
                return Err(Refused {
                    line: first.number,
                    wanted: "an item of a list",
                });
            }
            let n_below = below.iter().take_while(|line| line.indent > indent).count();
            let (below, after) = below.split_at(n_below);
            let rest = first.text[1..].trim_start();
            let value = match rest.is_empty() {
                true => self.block(below, depth + 1)?,
                false => {
                    let mut inner = vec![Line {
                        number: first.number,
                        indent: indent + first.text.len() - rest.len(),
                        text: rest,
                    }];
                    inner.extend_from_slice(below);
                    self.block(&inner, depth + 1)?
                }
            };
            entries.push(Entry {
                line: first.number,
                key: String::new(),
                value,
            });
            left = after;
        }
        Ok(Node::List(entries))
    }

    /// What stands behind a key, and below it.
    fn behind(
        &mut self,
        line: usize,
        rest: &str,
        below: &[Line<'_>],
        depth: usize,
    ) -> Result<Node, Refused> {
        self.count(line, depth)?;
        let rest = without_anchor(rest);
        match rest.chars().next() {
            None => self.block(below, depth + 1),
            Some('{' | '[') => self.joined(line, rest, below, depth),
            Some('|' | '>' | '*' | '!') => Ok(Node::Unknown),
            Some(_) if below.is_empty() => Ok(Node::Text(unquoted(rest).to_owned())),
            Some(_) => Ok(Node::Unknown),
        }
    }

    /// A value in brackets that begins here and takes all of these lines.
    fn joined(
        &mut self,
        line: usize,
        rest: &str,
        below: &[Line<'_>],
        depth: usize,
    ) -> Result<Node, Refused> {
        let mut all = rest.to_owned();
        for next in below {
            all.push(' ');
            all.push_str(next.text);
        }
        self.flow(line, &all, depth)
    }

    fn flow(&mut self, line: usize, text: &str, depth: usize) -> Result<Node, Refused> {
        let mut rest = text;
        let node = self.flow_value(line, &mut rest, depth)?;
        match rest.trim().is_empty() {
            true => Ok(node),
            false => Err(Refused {
                line,
                wanted: "nothing behind the last bracket",
            }),
        }
    }

    fn flow_value(&mut self, line: usize, rest: &mut &str, depth: usize) -> Result<Node, Refused> {
        self.count(line, depth)?;
        *rest = rest.trim_start();
        let close = match rest.chars().next() {
            Some('{') => '}',
            Some('[') => ']',
            _ => {
                let (word, is_known) = flow_word(rest);
                return Ok(match (word, is_known) {
                    (_, false) => Node::Unknown,
                    (word, true) if word.is_empty() => Node::Nothing,
                    (word, true) => Node::Text(word),
                });
            }
        };
        let refused = Refused {
            line,
            wanted: "brackets that are closed, and commas between what is in them",
        };
        *rest = &rest[1..];
        let mut entries = Vec::new();
        loop {
            *rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix(close) {
                *rest = after;
                break;
            }
            let key = match close {
                '}' => {
                    let (key, _) = flow_word(rest);
                    key
                }
                _ => String::new(),
            };
            *rest = rest.trim_start();
            let value = match (close, rest.strip_prefix(':')) {
                ('}', Some(after)) => {
                    *rest = after;
                    self.flow_value(line, rest, depth + 1)?
                }
                ('}', None) => Node::Nothing,
                _ => self.flow_value(line, rest, depth + 1)?,
            };
            entries.push(Entry { line, key, value });
            *rest = rest.trim_start();
            match rest.chars().next() {
                Some(',') => *rest = &rest[1..],
                Some(end) if end == close => {}
                _ => return Err(refused),
            }
        }
        Ok(match close {
            '}' => Node::Map(entries),
            _ => Node::List(entries),
        })
    }
}

/// How many lines it takes to close the brackets of a value, however far left they stand; `None` of a value without, or that goes on for long.
fn lines_of_brackets(value: &str, below: &[Line<'_>]) -> Option<usize> {
    const MOST_LINES: usize = 256;
    if !value.starts_with(['{', '[']) {
        return None;
    }
    let mut brackets = Brackets::default();
    brackets.see(value);
    if brackets.open == 0 {
        return None;
    }
    let closes = below.iter().take(MOST_LINES).position(|line| {
        brackets.see(line.text);
        brackets.open == 0
    });
    closes.map(|at| at + 1)
}

/// How many brackets are open.
#[derive(Default)]
struct Brackets {
    open: usize,
    quote: Option<char>,
}

impl Brackets {
    fn see(&mut self, text: &str) {
        for c in text.chars() {
            match (self.quote, c) {
                (None, '"' | '\'') => self.quote = Some(c),
                (Some(of), _) if c == of => self.quote = None,
                (None, '{' | '[') => self.open += 1,
                (None, '}' | ']') => self.open = self.open.saturating_sub(1),
                _ => {}
            }
        }
    }
}

/// A text within brackets, and whether it is understood.
fn flow_word(rest: &mut &str) -> (String, bool) {
    for quote in ['"', '\''] {
        if let Some(inside) = rest.strip_prefix(quote)
            && let Some(end) = inside.find(quote)
        {
            *rest = &inside[end + 1..];
            return (inside[..end].to_owned(), !inside[..end].contains('\\'));
        }
    }
    // A colon ends it where something else than a text goes on: `fe80::1/64` is one.
    let ends = |(at, c): (usize, char)| match c {
        ',' | '{' | '}' | '[' | ']' => true,
        ':' => rest[at + 1..]
            .chars()
            .next()
            .is_none_or(|next| next.is_whitespace() || ",{}[]".contains(next)),
        _ => false,
    };
    let end = rest.char_indices().find(|at| ends(*at));
    let (word, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
    *rest = after;
    let word = word.trim();
    (
        word.to_owned(),
        !word.starts_with(['*', '&', '!', '"', '\'']),
    )
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

/// `key: rest`, of which the key may have quotes.
fn key_and_rest(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| ['"', '\''].contains(c));
    let begin = match quote {
        Some(quote) => text[1..].find(quote)? + 2,
        None => 0,
    };
    let ends = |at: &usize| {
        let after = &text[at + 1..];
        after.is_empty() || after.starts_with(char::is_whitespace)
    };
    let colons = text[begin..].match_indices(':').map(|(at, _)| begin + at);
    let at = colons.into_iter().find(ends)?;
    if text.starts_with(['{', '[']) {
        return None;
    }
    Some((unquoted(&text[..at]).to_owned(), text[at + 1..].trim()))
}

/// A name for aliases says nothing of the value behind it.
fn without_anchor(rest: &str) -> &str {
    match rest.strip_prefix('&') {
        Some(named) => named.split_once(' ').map_or("", |(_, value)| value.trim()),
        None => rest,
    }
}

fn unquoted(word: &str) -> &str {
    let word = word.trim();
    let inside = |quote| word.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or(inside('\'')).unwrap_or(word)
}

/// What stands before a `#` that begins a word outside quotes.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') if before.is_whitespace() => return &line[..at],
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if c == open => quote = None,
            _ => {}
        }
        before = c;
    }
    line
}
