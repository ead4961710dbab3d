//! Python's regular expressions, as far as an engine without backtracking can tell what they match.
//!
//! ```text
//! pattern of adapter_config.json -> translate -> the same language in regex-lite's syntax
//!                                -> refused, with what it uses: look-around, back-references, flags ...
//! ```
//!
//! Syntax of the `re` module of Python 3.11. Time is linear in the name, whatever the pattern. Classes such
//! as `\w` hold Unicode's letters there and ASCII's here, so a name that is not ASCII is refused beside
//! them. Whatever is not named below as understood is refused rather than guessed.

use std::iter::Peekable;
use std::str::Chars;

use regex_lite::{Captures, Regex};

/// Characters that mean something outside a class.
const SPECIAL: &str = ".^$*+?{}[]\\|()";

/// Why a pattern is refused.
pub(crate) type Reason = &'static str;

const LOOK_AROUND: Reason = "it looks around, which is not supported";
const BACK_REFERENCE: Reason = "it refers back to a group, which is not supported";
const NESTED: Reason = "it repeats nothing, or a repetition";
const ESCAPE: Reason = "it holds an escape that is not supported";
const GROUP: Reason = "it holds a group of a kind that is not supported";
const UNENDED: Reason = "it ends within a class, a group's name or an escape";
const RANGE: Reason = "it holds a range that is none";
const MALFORMED: Reason = "it is not a regular expression, or too large a one";
const NOT_ASCII: Reason = "its classes are those of ASCII here, and the layer's name is not ASCII";

/// A compiled pattern of Python's.
#[derive(Debug)]
pub(crate) struct PythonRegex {
    regex: Regex,
    /// Whether it holds classes that mean more in Python than here.
    has_classes: bool,
}

impl PythonRegex {
    /// `re.match`: from the first character, to wherever the pattern ends.
    pub(crate) fn at_start(pattern: &str) -> Result<Self, Reason> {
        Self::within("\\A(?:", pattern, ")")
    }

    /// `re.fullmatch`: from the first character to the last.
    pub(crate) fn whole(pattern: &str) -> Result<Self, Reason> {
        Self::within("\\A(?:", pattern, ")\\z")
    }

    fn within(before: &str, pattern: &str, after: &str) -> Result<Self, Reason> {
        let (translated, has_classes) = translate(pattern)?;
        let regex = Regex::new(&format!("{before}{translated}{after}")).map_err(|_| MALFORMED)?;
        Ok(Self { regex, has_classes })
    }

    /// Whether it matches `name`.
    pub(crate) fn is_match(&self, name: &str) -> Result<bool, Reason> {
        self.check(name)?;
        Ok(self.regex.is_match(name))
    }

    /// Its groups in `name`.
    pub(crate) fn captures<'n>(&self, name: &'n str) -> Result<Option<Captures<'n>>, Reason> {
        self.check(name)?;
        Ok(self.regex.captures(name))
    }

    fn check(&self, name: &str) -> Result<(), Reason> {
        match self.has_classes && !name.is_ascii() {
            true => Err(NOT_ASCII),
            false => Ok(()),
        }
    }
}

/// Whether `text`, read as a pattern, has no special character but points.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.chars().any(|c| c != '.' && SPECIAL.contains(c))
}

/// A pattern that matches `text` alone.
pub(crate) fn escape(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if SPECIAL.contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// What a quantifier would repeat.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Nothing,
    Atom,
    Repetition,
}

struct Translator<'p> {
    rest: Peekable<Chars<'p>>,
    out: String,
    has_classes: bool,
    /// Groups that are open. What follows the pattern could close one that is not.
    open: usize,
}

/// The pattern in regex-lite's syntax, and whether it holds classes by name.
fn translate(pattern: &str) -> Result<(String, bool), Reason> {
    let mut translator = Translator {
        rest: pattern.chars().peekable(),
        out: String::with_capacity(2 * pattern.len()),
        has_classes: false,
        open: 0,
    };
    let mut last = Last::Nothing;
    while let Some(c) = translator.rest.next() {
        last = translator.one(c, last)?;
    }
    Ok((translator.out, translator.has_classes))
}

impl Translator<'_> {
    /// Translates what begins with `c`.
    fn one(&mut self, c: char, last: Last) -> Result<Last, Reason> {
        match c {
            '\\' => return self.escape_outside(),
            '[' => self.class()?,
            '(' => {
                self.open += 1;
                self.group()?;
                return Ok(Last::Nothing);
            }
            '|' | '^' | '$' => {
                self.out.push(c);
                return Ok(Last::Nothing);
            }
            ')' => {
                self.open = self.open.checked_sub(1).ok_or(MALFORMED)?;
                self.out.push(c);
            }
            '.' => self.out.push(c),
            '*' | '+' | '?' => return self.quantifier(&c.to_string(), last),
            '{' => {
                if let Some(counts) = self.counts() {
                    return self.quantifier(&counts, last);
                }
                self.literal('{');
            }
            other => self.literal(other),
        }
        Ok(Last::Atom)
    }

    fn literal(&mut self, c: char) {
        self.out
            .push_str(&regex_lite::escape(c.encode_utf8(&mut [0; 4])));
    }

    fn quantifier(&mut self, text: &str, last: Last) -> Result<Last, Reason> {
        if last != Last::Atom {
            return Err(NESTED);
        }
        self.out.push_str(text);
        match self.rest.peek() {
            // A lazy repetition matches the same names.
            Some('?') => {
                self.rest.next();
                self.out.push('?');
            }
            Some('+') => return Err("it repeats possessively, which is not supported"),
            _ => {}
        }
        Ok(Last::Repetition)
    }

    /// `{2}`, `{2,}`, `{,3}` or `{2,3}` after its `{`; nothing, with nothing taken, if it is none.
    fn counts(&mut self) -> Option<String> {
        let mut ahead = self.rest.clone();
        let mut text = String::new();
        loop {
            match ahead.next()? {
                '}' => break,
                c if c.is_ascii_digit() || (c == ',' && !text.contains(',')) => text.push(c),
                _ => return None,
            }
        }
        if text.is_empty() {
            return None;
        }
        self.rest = ahead;
        let zero = if text.starts_with(',') { "0" } else { "" };
        Some(format!("{{{zero}{text}}}"))
    }

    fn group(&mut self) -> Result<(), Reason> {
        if self.rest.peek() != Some(&'?') {
            self.out.push('(');
            return Ok(());
        }
        self.rest.next();
        match self.rest.next() {
            Some(':') => self.out.push_str("(?:"),
            Some('P') => match self.rest.next() {
                Some('<') => {
                    self.out.push_str("(?P<");
                    loop {
                        let c = self.rest.next().ok_or(UNENDED)?;
                        self.out.push(c);
                        if c == '>' {
                            break;
                        }
                    }
                }
                Some('=') => return Err(BACK_REFERENCE),
                _ => return Err(GROUP),
            },
            Some('=' | '!' | '<') => return Err(LOOK_AROUND),
            // Atomic groups, conditions, comments and flags.
            _ => return Err(GROUP),
        }
        Ok(())
    }

    fn escape_outside(&mut self) -> Result<Last, Reason> {
        match self.rest.next().ok_or(UNENDED)? {
            'A' => self.out.push_str("\\A"),
            'Z' => self.out.push_str("\\z"),
            c @ ('b' | 'B') => {
                self.has_classes = true;
                self.out.push('\\');
                self.out.push(c);
                // A repeated boundary is an error there, and `\b{` another thing here.
                if self.rest.peek() == Some(&'{') {
                    return Err(NESTED);
                }
            }
            '1'..='9' => return Err(BACK_REFERENCE),
            c => {
                match self.escaped(c)? {
                    Escaped::Class(class) => self.named_class(class),
                    Escaped::Char(c) => self.literal(c),
                }
                return Ok(Last::Atom);
            }
        }
        Ok(Last::Nothing)
    }

    fn named_class(&mut self, class: char) {
        self.has_classes = true;
        self.out.push('\\');
        self.out.push(class);
    }

    /// What `\c` stands for, in a class or outside.
    fn escaped(&mut self, c: char) -> Result<Escaped, Reason> {
        Ok(Escaped::Char(match c {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => return Ok(Escaped::Class(c)),
            'a' => '\x07',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'x' => self.hexadecimal(2)?,
            'u' => self.hexadecimal(4)?,
            'U' => self.hexadecimal(8)?,
            c if c.is_ascii_alphanumeric() => return Err(ESCAPE),
            c => c,
        }))
    }

    fn hexadecimal(&mut self, digits: usize) -> Result<char, Reason> {
        let mut value = 0u32;
        for _ in 0..digits {
            let digit = self.rest.next().and_then(|c| c.to_digit(16));
            value = (value << 4) | digit.ok_or(ESCAPE)?;
        }
        char::from_u32(value).ok_or(ESCAPE)
    }

    /// A class after its `[`. Every character is escaped, since brackets, `&&` and the like mean themselves
    /// in Python.
    fn class(&mut self) -> Result<(), Reason> {
        self.out.push('[');
        if self.rest.peek() == Some(&'^') {
            self.rest.next();
            self.out.push('^');
        }
        let mut first = true;
        loop {
            let c = self.rest.next().ok_or(UNENDED)?;
            if c == ']' && !first {
                self.out.push(']');
                return Ok(());
            }
            first = false;
            let low = self.class_item(c)?;
            let mut ahead = self.rest.clone();
            let is_range = ahead.next() == Some('-') && ahead.peek().is_some_and(|&c| c != ']');
            match low {
                Escaped::Class(_) if is_range => return Err(RANGE),
                Escaped::Class(class) => self.named_class(class),
                Escaped::Char(low) => {
                    self.class_char(low);
                    if is_range {
                        self.rest.next();
                        let c = self.rest.next().ok_or(UNENDED)?;
                        let Escaped::Char(high) = self.class_item(c)? else {
                            return Err(RANGE);
                        };
                        if high < low {
                            return Err(RANGE);
                        }
                        self.out.push('-');
                        self.class_char(high);
                    }
                }
            }
        }
    }

    fn class_item(&mut self, c: char) -> Result<Escaped, Reason> {
        if c != '\\' {
            return Ok(Escaped::Char(c));
        }
        let c = self.rest.next().ok_or(UNENDED)?;
        self.escaped(c)
    }

    fn class_char(&mut self, c: char) {
        // `\<` and `\>` are bounds of words in regex-lite; the characters mean themselves.
        if c.is_ascii_punctuation() && !matches!(c, '<' | '>') {
            self.out.push('\\');
        }
        self.out.push(c);
    }
}

enum Escaped {
    Class(char),
    Char(char),
}

#[cfg(test)]
mod tests;
