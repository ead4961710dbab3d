//! Splits PTX text into words, numbers, strings and punctuation, each with its line.
//!
//! ```text
//! @%p1 bra $L__BB0_2;      ->  '@'  Word("%p1")  Word("bra")  Word("$L__BB0_2")  ';'
//! ld.shared::cta.u32       ->  Word("ld.shared::cta.u32")
//! 0f3F800000  -5  0x1F     ->  Number  '-' Number  Number
//! ```
//!
//! A word holds its dots: an opcode with its modifiers is one word, and so is `%tid.x`.
//! Nothing is collected: tokens are made when asked for, so garbage costs no memory.

use crate::error::LoadError;

use super::tree::Number;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind<'a> {
    /// An opcode, a directive, a register, a name.
    Word(&'a str),
    /// A literal without its sign.
    Number(Number),
    /// The text between two quotation marks.
    Text(&'a str),
    /// One character.
    Mark(u8),
    /// Nothing is left.
    End,
}

/// A token and the line it stands on, from 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) line: u32,
}

/// The rest of a text.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        Lexer {
            text,
            at: 0,
            line: 1,
        }
    }

    fn byte(&self, ahead: usize) -> u8 {
        let bytes = self.text.as_bytes();
        bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip_blanks(&mut self) -> Result<(), LoadError> {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b'\n' => {
                    self.line = self.line.saturating_add(1);
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'/' if self.byte(1) == b'/' => {
                    while self.at < bytes.len() && bytes[self.at] != b'\n' {
                        self.at += 1;
                    }
                }
                b'/' if self.byte(1) == b'*' => self.skip_block_comment()?,
                _ => break,
            }
        }
        Ok(())
    }

    fn skip_block_comment(&mut self) -> Result<(), LoadError> {
        let first_line = self.line;
        let Some(len) = self.text[self.at + 2..].find("*/") else {
            return Err(LoadError::Syntax {
                line: first_line,
                what: "a comment does not end".into(),
            });
        };
        let inside = &self.text.as_bytes()[self.at + 2..self.at + 2 + len];
        let n_lines = inside.iter().filter(|&&byte| byte == b'\n').count();
        self.line = self.line.saturating_add(n_lines as u32);
        self.at += len + 4;
        Ok(())
    }

    /// The next token, `End` for ever after the last.
    pub(super) fn next(&mut self) -> Result<Token<'a>, LoadError> {
        self.skip_blanks()?;
        let line = self.line;
        let kind = match self.byte(0) {
            0 if self.at >= self.text.len() => Kind::End,
            b'0'..=b'9' => Kind::Number(self.number()?),
            b'"' => Kind::Text(self.quoted()?),
            first if starts_word(first) => Kind::Word(self.word()),
            mark if mark.is_ascii_graphic() => {
                self.at += 1;
                Kind::Mark(mark)
            }
            other => {
                return Err(LoadError::Syntax {
                    line,
                    what: format!("a byte {other:#04x} stands where none may"),
                });
            }
        };
        Ok(Token { kind, line })
    }

    fn word(&mut self) -> &'a str {
        let first = self.at;
        loop {
            let byte = self.byte(0);
            if starts_word(byte) || byte.is_ascii_digit() {
                self.at += 1;
            } else if byte == b':' && self.byte(1) == b':' && self.byte(2).is_ascii_alphanumeric() {
                self.at += 2;
            } else {
                return &self.text[first..self.at];
            }
        }
    }

    fn quoted(&mut self) -> Result<&'a str, LoadError> {
        let first = self.at + 1;
        let rest = &self.text.as_bytes()[first..];
        match rest.iter().position(|&byte| byte == b'"' || byte == b'\n') {
            Some(len) if rest[len] == b'"' => {
                self.at = first + len + 1;
                Ok(&self.text[first..first + len])
            }
            _ => Err(LoadError::Syntax {
                line: self.line,
                what: "a text does not end".into(),
            }),
        }
    }

    fn number(&mut self) -> Result<Number, LoadError> {
        let first = self.at;
        while self.byte(0).is_ascii_alphanumeric()
            || (self.byte(0) == b'.' && self.byte(1).is_ascii_digit())
            || (matches!(self.byte(0), b'+' | b'-') && is_exponent(&self.text[first..self.at]))
        {
            self.at += 1;
        }
        let text = &self.text[first..self.at];
        parse_number(text).ok_or_else(|| LoadError::Syntax {
            line: self.line,
            what: format!("`{}` is no number", shortened(text)),
        })
    }
}

fn starts_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

/// Whether a sign after this text belongs to the number: `1.5e` does, `0x1e` and `0f3e` do not.
fn is_exponent(text: &str) -> bool {
    let prefixed =
        text.len() > 1 && text.starts_with('0') && text.as_bytes()[1].is_ascii_alphabetic();
    !prefixed && text.ends_with(['e', 'E'])
}

fn parse_number(text: &str) -> Option<Number> {
    let prefix = text.get(..2).unwrap_or("").to_ascii_lowercase();
    let digits = text.get(2..).unwrap_or("");
    match prefix.as_str() {
        "0f" => {
            let bits = u32::from_str_radix(digits, 16).ok();
            return bits.filter(|_| digits.len() == 8).map(Number::Single);
        }
        "0d" => {
            let bits = u64::from_str_radix(digits, 16).ok();
            return bits.filter(|_| digits.len() == 16).map(Number::Double);
        }
        _ => {}
    }
    let plain = text.strip_suffix('U').unwrap_or(text);
    let digits = plain.get(2..).unwrap_or("");
    let integer = match prefix.as_str() {
        "0x" => u64::from_str_radix(digits, 16).ok(),
        "0b" => u64::from_str_radix(digits, 2).ok(),
        _ if plain.len() > 1 && plain.starts_with('0') && !plain.contains(['.', 'e', 'E']) => {
            u64::from_str_radix(plain, 8).ok()
        }
        _ => plain.parse::<u64>().ok(),
    };
    if let Some(value) = integer {
        return Some(Number::Integer(value));
    }
    let is_decimal = plain.contains('.') || plain.contains(['e', 'E']);
    let value = plain.parse::<f64>().ok().filter(|_| is_decimal)?;
    Some(Number::Double(value.to_bits()))
}

/// The beginning of a text from a stranger, for a message.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}
