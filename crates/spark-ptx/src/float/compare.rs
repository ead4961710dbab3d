//! How `set` and `setp` compare two floats.
//!
//! ```text
//! eq ne lt le gt ge           false if either operand is NaN, `ne` too
//! equ neu ltu leu gtu geu     true if either operand is NaN
//! num nan                     no operand is NaN, some operand is NaN
//! ```
//!
//! Source: PTX ISA 9.1, 9.3.1.2.

use std::cmp::Ordering;

use super::kind::FloatKind;

/// A relation between two floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Comparison {
    when_less: bool,
    when_equal: bool,
    when_greater: bool,
    when_nan: bool,
}

impl Comparison {
    /// The relation of that name, as `leu`.
    pub fn parse(name: &str) -> Option<Comparison> {
        let (less, equal, greater, nan) = match name {
            "eq" => (false, true, false, false),
            "ne" => (true, false, true, false),
            "lt" => (true, false, false, false),
            "le" => (true, true, false, false),
            "gt" => (false, false, true, false),
            "ge" => (false, true, true, false),
            "equ" => (false, true, false, true),
            "neu" => (true, false, true, true),
            "ltu" => (true, false, false, true),
            "leu" => (true, true, false, true),
            "gtu" => (false, false, true, true),
            "geu" => (false, true, true, true),
            "num" => (true, true, true, false),
            "nan" => (false, false, false, true),
            _ => return None,
        };
        Some(Comparison {
            when_less: less,
            when_equal: equal,
            when_greater: greater,
            when_nan: nan,
        })
    }

    /// Whether the relation holds between two codes; `ftz` takes subnormal numbers as zero.
    ///
    /// Bits above the type's width are ignored. Zeros of both signs are equal.
    pub fn holds(self, kind: FloatKind, a: u64, b: u64, ftz: bool) -> bool {
        let value = |code| {
            let code = if ftz { kind.format().flush(code) } else { code };
            kind.to_f64(code)
        };
        match value(a).partial_cmp(&value(b)) {
            Some(Ordering::Less) => self.when_less,
            Some(Ordering::Equal) => self.when_equal,
            Some(Ordering::Greater) => self.when_greater,
            None => self.when_nan,
        }
    }
}
