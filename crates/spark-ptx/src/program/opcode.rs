//! An opcode taken apart: `mad.lo.cc.u32` is `mad` with the modifiers `lo`, `cc`, `u32`.
//!
//! Whoever decodes an instruction takes the modifiers that it knows; what is left when it is done
//! is not known, and the file is refused with the name of the modifier.

/// The modifiers of one opcode that nobody has taken yet.
pub(crate) struct Opcode<'a> {
    pub(crate) base: &'a str,
    left: Vec<&'a str>,
}

impl<'a> Opcode<'a> {
    pub(crate) fn new(whole: &'a str) -> Opcode<'a> {
        let mut parts = whole.split('.');
        let base = parts.next().unwrap_or("");
        Opcode {
            base,
            left: parts.collect(),
        }
    }

    /// All modifiers that are left, in order.
    pub(crate) fn left(&self) -> &[&'a str] {
        &self.left
    }

    /// Takes what is left.
    pub(crate) fn take_rest(&mut self) -> Vec<&'a str> {
        std::mem::take(&mut self.left)
    }

    /// Takes the modifier if it is there.
    pub(crate) fn take(&mut self, name: &str) -> bool {
        let found = self.left.iter().position(|part| *part == name);
        if let Some(idx) = found {
            self.left.remove(idx);
        }
        found.is_some()
    }

    /// Takes the first modifier that the table knows, wherever it stands.
    pub(crate) fn take_of<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        for (idx, part) in self.left.iter().enumerate() {
            if let Some((_, value)) = table.iter().find(|(name, _)| name == part) {
                self.left.remove(idx);
                return Some(*value);
            }
        }
        None
    }

    /// Takes the first modifier if the test accepts it.
    pub(crate) fn take_where(&mut self, test: impl Fn(&str) -> bool) -> Option<&'a str> {
        let idx = self.left.iter().position(|part| test(part))?;
        Some(self.left.remove(idx))
    }

    /// The last modifier, which names a type in most instructions.
    pub(crate) fn take_type(&mut self) -> Option<Type> {
        let last = self.left.last()?;
        let found = Type::of(last)?;
        self.left.pop();
        Some(found)
    }
}

/// What the bits of an operand mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Bits,
    Unsigned,
    Signed,
    Float,
    /// bf16, the only 16-bit float beside f16.
    BrainFloat,
    /// Two 16-bit values.
    Halves,
    BrainHalves,
    Predicate,
}

/// A type of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) meaning: Meaning,
    pub(crate) bits: u32,
}

impl Type {
    pub(crate) fn of(name: &str) -> Option<Type> {
        let (meaning, bits) = match name {
            "pred" => (Meaning::Predicate, 1),
            "b8" => (Meaning::Bits, 8),
            "b16" => (Meaning::Bits, 16),
            "b32" => (Meaning::Bits, 32),
            "b64" => (Meaning::Bits, 64),
            "u8" => (Meaning::Unsigned, 8),
            "u16" => (Meaning::Unsigned, 16),
            "u32" => (Meaning::Unsigned, 32),
            "u64" => (Meaning::Unsigned, 64),
            "s8" => (Meaning::Signed, 8),
            "s16" => (Meaning::Signed, 16),
            "s32" => (Meaning::Signed, 32),
            "s64" => (Meaning::Signed, 64),
            "f16" => (Meaning::Float, 16),
            "f32" => (Meaning::Float, 32),
            "f64" => (Meaning::Float, 64),
            "bf16" => (Meaning::BrainFloat, 16),
            "f16x2" => (Meaning::Halves, 32),
            "bf16x2" => (Meaning::BrainHalves, 32),
            _ => return None,
        };
        Some(Type { meaning, bits })
    }

    pub(crate) fn is_signed(self) -> bool {
        self.meaning == Meaning::Signed
    }

    /// Integers and plain bits.
    pub(crate) fn is_integer(self) -> bool {
        matches!(
            self.meaning,
            Meaning::Bits | Meaning::Unsigned | Meaning::Signed
        )
    }
}
