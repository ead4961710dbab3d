//! The table of output heads that openpilot's files carry in their metadata.
//!
//! ```text
//! metadata_props["output_slices"] = base64( pickle( { "plan": slice(0, 990, None), ... } ) )
//! ```
//!
//! Pickle is a language that can call anything; the reader here knows the dozen
//! instructions that such a table needs, builds nothing but strings, whole numbers
//! and `slice`s, and refuses the rest. Negative and missing bounds count as in Python.
//!
//! Sources: openpilot `selfdrive/modeld/get_model_metadata.py` for the key and the
//! encoding, CPython `Lib/pickletools.py` for the instructions, RFC 4648 for base64.
//!
//! Deliberately absent: every other Python type, and steps other than one.

use std::ops::Range;

use crate::OpenpilotError;
use crate::output_slice::OutputSlice;

/// Metadata key of the table.
pub const OUTPUT_SLICES_KEY: &str = "output_slices";

/// More pickled bytes than any table of heads needs; longer ones are refused.
const MAX_PICKLE_BYTES: usize = 1 << 16;
/// More bytes than any head's name needs. A two-byte instruction can copy a name, so its
/// length bounds what a hostile file can make this reader allocate.
const MAX_NAME_BYTES: usize = 256;

/// The metadata text for `table`, readable by openpilot's tools.
pub fn encode(table: &[OutputSlice]) -> String {
    let mut pickle = vec![0x80, 4, b'}', b'('];
    for slice in table {
        push_text(&mut pickle, slice.name);
        push_text(&mut pickle, "builtins");
        push_text(&mut pickle, "slice");
        pickle.push(0x93); // STACK_GLOBAL
        for bound in [slice.start, slice.end] {
            pickle.push(b'J');
            pickle.extend((bound as i32).to_le_bytes());
        }
        pickle.extend([b'N', 0x87, b'R']); // None, TUPLE3, REDUCE
    }
    pickle.extend(*b"u.");
    encode_base64(&pickle)
}

fn push_text(pickle: &mut Vec<u8>, text: &str) {
    pickle.extend([0x8c, text.len() as u8]); // SHORT_BINUNICODE
    pickle.extend(text.bytes());
}

/// The parts in `text`, for an output of `output_len` values.
///
/// # Errors
///
/// [`OpenpilotError::Metadata`] if `text` is not base64, the pickle is cut short or holds
/// anything but a table of slices.
pub fn decode(
    text: &str,
    output_len: usize,
) -> Result<Vec<(String, Range<usize>)>, OpenpilotError> {
    let bytes = decode_base64(text)?;
    if bytes.len() > MAX_PICKLE_BYTES {
        return Err(refused(MAX_PICKLE_BYTES, "longer than any table of heads"));
    }
    Unpickler {
        bytes: &bytes,
        at: 0,
        output_len,
        stack: Vec::new(),
        memo: Vec::new(),
    }
    .run()
}

fn refused(offset: usize, reason: impl Into<String>) -> OpenpilotError {
    OpenpilotError::Metadata {
        offset,
        reason: reason.into(),
    }
}

/// What a table is made of.
#[derive(Debug, Clone, PartialEq)]
enum Item {
    Mark,
    None,
    Int(i64),
    Text(String),
    SliceType,
    Bounds(Option<i64>, Option<i64>, Option<i64>),
    Slice(Range<usize>),
    Dict(Vec<(String, Range<usize>)>),
}

struct Unpickler<'a> {
    bytes: &'a [u8],
    at: usize,
    output_len: usize,
    stack: Vec<Item>,
    memo: Vec<Option<Item>>,
}

impl Unpickler<'_> {
    fn run(mut self) -> Result<Vec<(String, Range<usize>)>, OpenpilotError> {
        loop {
            let at = self.at;
            match self.take::<1>()?[0] {
                0x80 => drop(self.take::<1>()?),                 // PROTO
                0x95 => drop(self.take::<8>()?),                 // FRAME
                b'}' => self.stack.push(Item::Dict(Vec::new())), // EMPTY_DICT
                b'(' => self.stack.push(Item::Mark),
                b'N' => self.stack.push(Item::None),
                b'K' => self.push_int::<1>()?, // BININT1
                b'M' => self.push_int::<2>()?, // BININT2
                b'J' => self.push_int::<4>()?, // BININT
                0x8c => {
                    // SHORT_BINUNICODE
                    let [len] = self.take::<1>()?;
                    self.push_text(usize::from(len))?;
                }
                b'X' => {
                    // BINUNICODE
                    let len = u32::from_le_bytes(self.take::<4>()?) as usize;
                    self.push_text(len)?;
                }
                b'c' => {
                    // GLOBAL
                    let (module, name) = (self.line()?, self.line()?);
                    self.push_global(&module, &name)?;
                }
                0x93 => {
                    // STACK_GLOBAL
                    let (name, module) = (self.pop_text()?, self.pop_text()?);
                    self.push_global(&module, &name)?;
                }
                0x94 => self.memoise(self.memo.len())?, // MEMOIZE
                b'q' => {
                    // BINPUT
                    let [slot] = self.take::<1>()?;
                    self.memoise(usize::from(slot))?;
                }
                b'h' => {
                    // BINGET
                    let [slot] = self.take::<1>()?;
                    let item = self.memo.get(usize::from(slot)).cloned().flatten();
                    self.stack
                        .push(item.ok_or_else(|| refused(at, "empty memo slot"))?);
                }
                b'j' => {
                    // LONG_BINGET
                    let slot = u32::from_le_bytes(self.take::<4>()?) as usize;
                    let item = self.memo.get(slot).cloned().flatten();
                    self.stack
                        .push(item.ok_or_else(|| refused(at, "empty memo slot"))?);
                }
                0x87 => self.make_bounds()?, // TUPLE3
                b'R' => self.make_slice()?,  // REDUCE
                b's' => self.set_item()?,    // SETITEM
                b'u' => self.set_items()?,   // SETITEMS
                b'.' => {
                    // STOP
                    return match self.stack.pop() {
                        Some(Item::Dict(parts)) => Ok(parts),
                        _ => Err(refused(at, "not a table")),
                    };
                }
                other => {
                    return Err(refused(
                        at,
                        format!("instruction 0x{other:02x} has no place in a table of slices"),
                    ));
                }
            }
        }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], OpenpilotError> {
        let Some(bytes) = self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.first_chunk::<N>())
        else {
            return Err(refused(self.at, "cut short"));
        };
        self.at += N;
        Ok(*bytes)
    }

    fn text(&mut self, len: usize) -> Result<String, OpenpilotError> {
        let start = self.at;
        if len > MAX_NAME_BYTES {
            return Err(refused(start, format!("a name of {len} bytes")));
        }
        let bytes = start
            .checked_add(len)
            .and_then(|end| self.bytes.get(start..end));
        let bytes = bytes.ok_or_else(|| refused(start, "cut short"))?;
        self.at += len;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(refused(start, "a name that is not UTF-8")),
        }
    }

    fn line(&mut self) -> Result<String, OpenpilotError> {
        let len = self.bytes[self.at..].iter().position(|&b| b == b'\n');
        let line = self.text(len.ok_or_else(|| refused(self.at, "cut short"))?)?;
        self.at += 1;
        Ok(line)
    }

    fn push_text(&mut self, len: usize) -> Result<(), OpenpilotError> {
        let text = self.text(len)?;
        self.stack.push(Item::Text(text));
        Ok(())
    }

    fn push_int<const N: usize>(&mut self) -> Result<(), OpenpilotError> {
        let bytes = self.take::<N>()?;
        let mut wide = [0; 4];
        wide[..N].copy_from_slice(&bytes);
        // BININT is signed; the shorter ones are not, and fit either way.
        self.stack
            .push(Item::Int(i64::from(i32::from_le_bytes(wide))));
        Ok(())
    }

    fn push_global(&mut self, module: &str, name: &str) -> Result<(), OpenpilotError> {
        if !matches!((module, name), ("builtins" | "__builtin__", "slice")) {
            return Err(refused(
                self.at,
                format!("`{module}.{name}` has no place in a table of slices"),
            ));
        }
        self.stack.push(Item::SliceType);
        Ok(())
    }

    fn memoise(&mut self, slot: usize) -> Result<(), OpenpilotError> {
        // A dictionary grows after it is remembered; no table reads it back, so it is not kept.
        let item = match self.stack.last() {
            Some(Item::Dict(_)) => None,
            Some(item) => Some(item.clone()),
            None => return Err(refused(self.at, "nothing to remember")),
        };
        if self.memo.len() <= slot {
            self.memo.resize(slot + 1, None);
        }
        self.memo[slot] = item;
        Ok(())
    }

    fn pop_text(&mut self) -> Result<String, OpenpilotError> {
        match self.stack.pop() {
            Some(Item::Text(text)) => Ok(text),
            _ => Err(refused(self.at, "a name is missing")),
        }
    }

    fn pop_bound(&mut self) -> Result<Option<i64>, OpenpilotError> {
        match self.stack.pop() {
            Some(Item::Int(value)) => Ok(Some(value)),
            Some(Item::None) => Ok(None),
            _ => Err(refused(
                self.at,
                "a bound is neither a whole number nor None",
            )),
        }
    }

    fn make_bounds(&mut self) -> Result<(), OpenpilotError> {
        let (step, stop, start) = (self.pop_bound()?, self.pop_bound()?, self.pop_bound()?);
        self.stack.push(Item::Bounds(start, stop, step));
        Ok(())
    }

    fn make_slice(&mut self) -> Result<(), OpenpilotError> {
        let (bounds, callee) = (self.stack.pop(), self.stack.pop());
        let (Some(Item::Bounds(start, stop, None | Some(1))), Some(Item::SliceType)) =
            (bounds, callee)
        else {
            return Err(refused(
                self.at,
                "only slices with a step of one are understood",
            ));
        };
        let len = self.output_len as i64;
        let position = |bound: Option<i64>, missing: i64| {
            let bound = bound.unwrap_or(missing);
            (if bound < 0 {
                (bound + len).max(0)
            } else {
                bound
            }) as usize
        };
        self.stack
            .push(Item::Slice(position(start, 0)..position(stop, len)));
        Ok(())
    }

    fn set_item(&mut self) -> Result<(), OpenpilotError> {
        let value = self.stack.pop();
        let key = self.pop_text()?;
        match (value, self.stack.last_mut()) {
            (Some(Item::Slice(range)), Some(Item::Dict(parts))) => parts.push((key, range)),
            _ => return Err(refused(self.at, "an entry is not a name with a slice")),
        }
        Ok(())
    }

    fn set_items(&mut self) -> Result<(), OpenpilotError> {
        let mark = self.stack.iter().rposition(|item| *item == Item::Mark);
        let mark = mark.ok_or_else(|| refused(self.at, "no mark"))?;
        let entries = self.stack.split_off(mark + 1);
        self.stack.pop();
        let mut entries = entries.into_iter();
        while let Some(key) = entries.next() {
            self.stack.push(key);
            self.stack.extend(entries.next());
            self.set_item()?;
        }
        Ok(())
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn encode_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(group);
        for digit in 0..4 {
            let symbol = BASE64[(bits >> (18 - 6 * digit)) as usize & 63];
            text.push(if digit > chunk.len() {
                '='
            } else {
                char::from(symbol)
            });
        }
    }
    text
}

/// White space is skipped (Python breaks lines); decoding ends at the first `=`.
fn decode_base64(text: &str) -> Result<Vec<u8>, OpenpilotError> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut n_bits) = (0u32, 0);
    for (offset, symbol) in text.bytes().enumerate() {
        if symbol.is_ascii_whitespace() {
            continue;
        }
        if symbol == b'=' {
            break;
        }
        let digit = BASE64.iter().position(|&s| s == symbol);
        let digit = digit.ok_or_else(|| refused(offset, "not base64"))?;
        bits = bits << 6 | digit as u32;
        n_bits += 6;
        if n_bits >= 8 {
            n_bits -= 8;
            bytes.push((bits >> n_bits) as u8);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
