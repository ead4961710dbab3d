//! What one Rust file names: its items, modules, imports and the paths in its code.
//!
//! ```text
//! text ──> token trees ──> Scope { items, modules, imports, paths, words }
//!
//! use crate::a::{b::C, d::*};   imports  crate::a::b::C as C, crate::a::d as a glob
//! super::x::f::<T>(y.z)         paths    super::x::f      words  T, y
//! mod e;  mod f { … }           modules  e of its own file, f with a scope of its own
//! ```
//!
//! Tokens come from the crate that Rust's own macros use, so comments, strings and lifetimes
//! are told apart as the compiler does it. What stands under `#[cfg(test)]` is left out.
//! Deliberately absent: types and values; whether `T` is a parameter or an import is for the
//! reader of the scope to find out. Code that a macro makes is not seen, its arguments are.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, LexError, Spacing, TokenStream, TokenTree};

/// A token tree whose parts can be looked at without copies.
enum Token {
    /// An identifier or keyword, without `r#`.
    Word(String),
    Punct(char, Spacing),
    Group(Delimiter, Vec<Token>),
    Literal(String),
}

/// Segments of a path; the first may be `crate`, `self` or `super`.
pub(super) type Path = Vec<String>;

/// What stands in one module, outside its own modules.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    /// Items defined here, and whether with `pub` of any reach.
    pub(super) items: BTreeMap<String, bool>,
    pub(super) modules: Vec<Submodule>,
    pub(super) imports: Vec<Import>,
    /// Paths of two segments and more in code, imports apart.
    pub(super) paths: BTreeSet<Path>,
    /// Single names in code that may be items.
    pub(super) words: BTreeSet<String>,
}

/// One `mod` item, with or without a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Submodule {
    pub(super) name: String,
    /// The value of `#[path = "…"]`.
    pub(super) path: Option<String>,
    /// `None` where the module has a file of its own.
    pub(super) scope: Option<Scope>,
}

/// One name that a `use` brings into scope.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) path: Path,
    /// What it is called here; of no meaning in a glob.
    pub(super) name: String,
    pub(super) is_glob: bool,
    pub(super) is_public: bool,
    /// Inside a function, where no other module reaches it.
    pub(super) is_local: bool,
}

/// Reads the text of one file.
///
/// # Errors
///
/// When it is no sequence of Rust tokens with matching brackets.
pub(super) fn read(text: &str) -> Result<Scope, LexError> {
    let tokens = tokens_of(text.parse()?);
    let mut scope = Scope::default();
    scope.read_items(&tokens);
    Ok(scope)
}

fn tokens_of(stream: TokenStream) -> Vec<Token> {
    stream
        .into_iter()
        .map(|tree| match tree {
            TokenTree::Ident(word) => {
                let word = word.to_string();
                Token::Word(word.strip_prefix("r#").map(str::to_owned).unwrap_or(word))
            }
            TokenTree::Punct(punct) => Token::Punct(punct.as_char(), punct.spacing()),
            TokenTree::Group(group) => Token::Group(group.delimiter(), tokens_of(group.stream())),
            TokenTree::Literal(literal) => Token::Literal(literal.to_string()),
        })
        .collect()
}

/// Items whose end is a `;`, whatever braces stand before it.
const ENDED_BY_SEMICOLON: [&str; 4] = ["use", "const", "static", "type"];

impl Scope {
    /// Reads the tokens of a module, where items are defined.
    fn read_items(&mut self, tokens: &[Token]) {
        let mut idx = 0;
        let mut is_public = false;
        let mut path_attribute = None;
        while idx < tokens.len() {
            if let Some((attribute, after)) = attribute_at(tokens, idx) {
                idx = after;
                if is_for_tests(attribute) {
                    idx = end_of_item(tokens, idx);
                    path_attribute = None;
                } else if let Some(path) = path_of(attribute) {
                    path_attribute = Some(path);
                } else {
                    self.read_code(attribute);
                }
                continue;
            }
            let word = word_at(tokens, idx).unwrap_or_default();
            let name = word_at(tokens, idx + 1);
            match (word, name) {
                ("pub", _) => {
                    is_public = true;
                    idx = after_visibility(tokens, idx);
                    continue;
                }
                ("use", _) if !is_punct(tokens, idx + 1, '<') => {
                    idx = self.read_use(tokens, idx, is_public, false);
                    is_public = false;
                    continue;
                }
                ("mod", Some(name)) => {
                    let scope = group_at(tokens, idx + 2, Delimiter::Brace).map(|inner| {
                        let mut scope = Self::default();
                        scope.read_items(inner);
                        scope
                    });
                    self.modules.push(Submodule {
                        name: name.to_owned(),
                        path: path_attribute.take(),
                        scope,
                    });
                    idx += 3;
                    is_public = false;
                    continue;
                }
                ("macro_rules", None) if is_punct(tokens, idx + 1, '!') => {
                    if let Some(name) = word_at(tokens, idx + 2) {
                        self.items.insert(name.to_owned(), is_public);
                    }
                    idx += 3;
                    continue;
                }
                ("extern", None) => {
                    // Functions of another language are items of this module.
                    if let Some(inner) = group_at(tokens, idx + 2, Delimiter::Brace) {
                        self.read_items(inner);
                        idx += 3;
                        continue;
                    }
                }
                ("struct" | "enum" | "union" | "trait" | "type" | "fn", Some(name)) => {
                    self.items.insert(name.to_owned(), is_public);
                    idx += 2;
                    continue;
                }
                ("const" | "static", Some(name)) => {
                    if !["fn", "unsafe", "extern", "async", "mut"].contains(&name) {
                        self.items.insert(name.to_owned(), is_public);
                        idx += 2;
                        continue;
                    }
                    if name == "mut"
                        && let Some(name) = word_at(tokens, idx + 2)
                    {
                        self.items.insert(name.to_owned(), is_public);
                    }
                }
                _ => {}
            }
            let ends_item =
                is_punct(tokens, idx, ';') || group_at(tokens, idx, Delimiter::Brace).is_some();
            if ends_item {
                is_public = false;
                path_attribute = None;
            }
            idx = self.read_one(tokens, idx);
        }
    }

    /// Reads the tokens of a body, a type, an attribute: whatever is no module.
    fn read_code(&mut self, tokens: &[Token]) {
        let mut idx = 0;
        while idx < tokens.len() {
            if let Some((attribute, after)) = attribute_at(tokens, idx) {
                idx = after;
                if is_for_tests(attribute) {
                    idx = end_of_item(tokens, idx);
                } else {
                    self.read_code(attribute);
                }
                continue;
            }
            idx = match word_at(tokens, idx) {
                Some("pub") => after_visibility(tokens, idx),
                Some("use") if !is_punct(tokens, idx + 1, '<') => {
                    self.read_use(tokens, idx, false, true)
                }
                _ => self.read_one(tokens, idx),
            };
        }
    }

    /// Reads a group, a path or a single token of code; returns where the next begins.
    fn read_one(&mut self, tokens: &[Token], idx: usize) -> usize {
        if let Token::Group(_, inner) = &tokens[idx] {
            self.read_code(inner);
            return idx + 1;
        }
        if is_separator(tokens, idx) {
            // `::std::x`, or what follows `Vec::<T>` and `<T as Trait>`: no name of a module here.
            let mut end = idx + 2;
            while word_at(tokens, end).is_some() {
                end += 1;
                if !is_separator(tokens, end) {
                    break;
                }
                end += 2;
            }
            return end;
        }
        let Some(first) = word_at(tokens, idx) else {
            return idx + 1;
        };
        let is_macro_variable = before(tokens, idx, '$') && first != "crate";
        let is_label = before(tokens, idx, '\'');
        let is_member = before(tokens, idx, '.') && !before(tokens, idx - 1, '.');
        let mut path = vec![first.to_owned()];
        let mut end = idx + 1;
        while is_separator(tokens, end)
            && let Some(segment) = word_at(tokens, end + 2)
        {
            path.push(segment.to_owned());
            end += 3;
        }
        if is_macro_variable || is_label || is_member {
            return end;
        }
        if path.len() > 1 {
            self.paths.insert(path);
        } else if !is_binding(tokens, idx) {
            self.words.extend(path);
        }
        end
    }

    /// Reads `use …;` whose keyword is at `idx`; returns where the next item begins.
    fn read_use(&mut self, tokens: &[Token], idx: usize, is_public: bool, is_local: bool) -> usize {
        let n_tokens = tokens[idx..]
            .iter()
            .position(|token| matches!(token, Token::Punct(';', _)))
            .unwrap_or(tokens.len() - idx);
        let mut leaves = Vec::new();
        use_leaves(&tokens[idx + 1..idx + n_tokens], &[], &mut leaves);
        self.imports
            .extend(leaves.into_iter().map(|(path, name, is_glob)| Import {
                path,
                name,
                is_glob,
                is_public,
                is_local,
            }));
        idx + n_tokens + 1
    }
}

/// Every path of a use tree, with the name it gets and whether it is a glob.
fn use_leaves(tokens: &[Token], prefix: &[String], leaves: &mut Vec<(Path, String, bool)>) {
    for tree in tokens.split(|token| matches!(token, Token::Punct(',', _))) {
        let mut path = prefix.to_vec();
        let mut idx = 0;
        if is_separator(tree, 0) {
            path.push(String::new()); // `::name` is a crate, never a module here
            idx = 2;
        }
        let mut alias = None;
        let mut is_branch = tree.is_empty();
        let mut is_glob = false;
        while idx < tree.len() {
            if let Some(inner) = group_at(tree, idx, Delimiter::Brace) {
                use_leaves(inner, &path, leaves);
                is_branch = true;
            } else if is_punct(tree, idx, '*') {
                is_glob = true;
            } else if let Some(word) = word_at(tree, idx) {
                match word {
                    "as" => {
                        alias = word_at(tree, idx + 1);
                        break;
                    }
                    // `a::{self}` is `a` itself.
                    "self" if !path.is_empty() => {}
                    _ => path.push(word.to_owned()),
                }
            }
            idx += 1;
        }
        if !is_branch {
            let last = path.last().map(String::as_str);
            let name = alias.or(last).unwrap_or_default().to_owned();
            leaves.push((path, name, is_glob));
        }
    }
}

/// The attribute at `idx`, as the tokens in its brackets, and where it ends.
fn attribute_at(tokens: &[Token], idx: usize) -> Option<(&[Token], usize)> {
    if !is_punct(tokens, idx, '#') {
        return None;
    }
    let idx = idx + 1 + usize::from(is_punct(tokens, idx + 1, '!'));
    let inner = group_at(tokens, idx, Delimiter::Bracket)?;
    Some((inner, idx + 1))
}

/// `cfg(test)` and `cfg(all(test, …))`.
fn is_for_tests(attribute: &[Token]) -> bool {
    let holds_test =
        |inner: &[Token]| (0..inner.len()).any(|idx| word_at(inner, idx) == Some("test"));
    if word_at(attribute, 0) != Some("cfg") {
        return false;
    }
    let Some(inner) = group_at(attribute, 1, Delimiter::Parenthesis) else {
        return false;
    };
    if word_at(inner, 0) == Some("all") {
        return group_at(inner, 1, Delimiter::Parenthesis).is_some_and(holds_test);
    }
    holds_test(inner)
}

/// The file that `path = "…"` names.
fn path_of(attribute: &[Token]) -> Option<String> {
    let Token::Literal(literal) = attribute.get(2)? else {
        return None;
    };
    let is_path = word_at(attribute, 0) == Some("path") && is_punct(attribute, 1, '=');
    is_path.then(|| literal.trim_matches('"').to_owned())
}

/// Where the item, statement or field that begins at `idx` ends, its other attributes included.
fn end_of_item(tokens: &[Token], mut idx: usize) -> usize {
    while let Some((_, after)) = attribute_at(tokens, idx) {
        idx = after;
    }
    if word_at(tokens, idx) == Some("pub") {
        idx = after_visibility(tokens, idx);
    }
    let first = word_at(tokens, idx).unwrap_or_default();
    let is_function = ["fn", "unsafe", "extern", "async"]
        .iter()
        .any(|word| word_at(tokens, idx + 1) == Some(word));
    let needs_semicolon = ENDED_BY_SEMICOLON.contains(&first) && !(first == "const" && is_function);
    let is_item = needs_semicolon
        || [
            "fn", "const", "unsafe", "async", "extern", "struct", "enum", "union", "trait", "impl",
            "mod", "let",
        ]
        .contains(&first);
    while idx < tokens.len() {
        let closes = is_punct(tokens, idx, ';')
            || (!is_item && is_punct(tokens, idx, ','))
            || (!needs_semicolon
                && first != "let"
                && group_at(tokens, idx, Delimiter::Brace).is_some());
        idx += 1;
        if closes {
            break;
        }
    }
    idx
}

/// Skips `pub` and `pub(in path)`: reach is no import.
fn after_visibility(tokens: &[Token], idx: usize) -> usize {
    let reach = group_at(tokens, idx + 1, Delimiter::Parenthesis)
        .and_then(|inner| word_at(inner, 0))
        .is_some_and(|word| ["crate", "super", "self", "in"].contains(&word));
    idx + 1 + usize::from(reach)
}

/// Whether the single name at `idx` is being given a meaning: `let x`, `x: T`, `fn x`.
fn is_binding(tokens: &[Token], idx: usize) -> bool {
    let previous = idx.checked_sub(1).and_then(|idx| word_at(tokens, idx));
    let declares = ["let", "mut", "ref", "fn"];
    previous.is_some_and(|word| declares.contains(&word))
        || (is_punct(tokens, idx + 1, ':') && !is_separator(tokens, idx + 1))
}

fn word_at(tokens: &[Token], idx: usize) -> Option<&str> {
    match tokens.get(idx)? {
        Token::Word(word) => Some(word),
        _ => None,
    }
}

fn is_punct(tokens: &[Token], idx: usize, c: char) -> bool {
    matches!(tokens.get(idx), Some(Token::Punct(found, _)) if *found == c)
}

fn before(tokens: &[Token], idx: usize, c: char) -> bool {
    idx.checked_sub(1)
        .is_some_and(|previous| is_punct(tokens, previous, c))
}

/// Whether `::` stands at `idx`.
fn is_separator(tokens: &[Token], idx: usize) -> bool {
    let is_joint = matches!(tokens.get(idx), Some(Token::Punct(':', Spacing::Joint)));
    is_joint && is_punct(tokens, idx + 1, ':')
}

fn group_at(tokens: &[Token], idx: usize, delimiter: Delimiter) -> Option<&[Token]> {
    match tokens.get(idx)? {
        Token::Group(found, inner) if *found == delimiter => Some(inner),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
