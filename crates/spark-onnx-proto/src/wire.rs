//! The protocol-buffer wire format, as much of it as ONNX uses.
//!
//! ```text
//! message  = field*
//! field    = key value          key = varint of number << 3 | wire type
//! wire type 0  varint           7 bits a byte, low first, top bit set on all but the last
//!           1  8 bytes          2  length (varint) then bytes        5  4 bytes
//! repeated numbers stand either each in its own field or packed in one of type 2
//! ```
//!
//! Numbers and messages are read without copying: text and bytes borrow the file.
//! Unknown fields are skipped. What a message unfolds to is charged to a budget that
//! grows with the file, so that two bytes which ask for an empty 300-byte message
//! cannot be repeated until memory is gone.
//!
//! Format: Protocol Buffers encoding, <https://protobuf.dev/programming-guides/encoding/>.
//!
//! Deliberately absent: groups (refused), maps, extensions, and keeping unknown fields;
//! [`crate::replace_constants`] changes a file without losing them.

use std::borrow::Cow;

use crate::error::{ProtoError, WireProblem};

/// Most levels of messages within messages; Google's readers allow 100.
pub(crate) const MAX_DEPTH: usize = 100;

/// Text that borrows the file it was read from, or owns what code made.
pub type Text<'a> = Cow<'a, str>;

/// Bytes that borrow the file they were read from, or own what code made.
pub type Bytes<'a> = Cow<'a, [u8]>;

/// Memory that reading may still take beyond the file itself.
#[derive(Debug)]
pub(crate) struct ReadBudget {
    left: usize,
    limit: usize,
}

impl ReadBudget {
    /// A budget of `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { left: limit, limit }
    }

    /// Takes `n_bytes`, before they are allocated.
    ///
    /// # Errors
    ///
    /// [`ProtoError::Memory`] if that many are not left.
    pub(crate) fn charge(&mut self, what: &'static str, n_bytes: usize) -> Result<(), ProtoError> {
        match self.left.checked_sub(n_bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(ProtoError::Memory {
                what,
                limit: self.limit,
            }),
        }
    }

    /// Adds `n_bytes`: a further file was found that backs them.
    pub(crate) fn extend(&mut self, n_bytes: usize) {
        self.left = self.left.saturating_add(n_bytes);
        self.limit = self.limit.saturating_add(n_bytes);
    }
}

/// One field: its number, and what stands there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field<'a> {
    /// Number in the message's definition.
    pub(crate) number: u32,
    /// Position in the file of the value, behind key and length.
    pub(crate) offset: usize,
    /// What stands behind the key, not yet as the type of the message.
    pub(crate) value: WireValue<'a>,
}

/// The value of a field, by wire type.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WireValue<'a> {
    /// Wire type 0: an integer of up to 64 bits.
    Varint(u64),
    /// Wire type 1: eight bytes, little-endian.
    Fixed64([u8; 8]),
    /// Wire type 2: as many bytes as a length in front of them says.
    Bytes(&'a [u8]),
    /// Wire type 5: four bytes, little-endian.
    Fixed32([u8; 4]),
}

impl Field<'_> {
    fn error(&self, problem: WireProblem) -> ProtoError {
        ProtoError::Wire {
            offset: self.offset,
            problem,
        }
    }

    fn wrong_type(&self) -> ProtoError {
        self.error(WireProblem::FieldType(self.number))
    }
}

/// Walks the fields of one message.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    base: usize,
}

impl<'a> Reader<'a> {
    /// Over `bytes`, which stand at `base` in the file.
    pub(crate) fn new(bytes: &'a [u8], base: usize) -> Self {
        Self {
            bytes,
            position: 0,
            base,
        }
    }

    /// Position within the message of the next field.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    fn error(&self, problem: WireProblem) -> ProtoError {
        ProtoError::Wire {
            offset: self.base + self.position,
            problem,
        }
    }

    fn varint(&mut self) -> Result<u64, ProtoError> {
        let mut value = 0u64;
        for (index, &byte) in self.bytes[self.position..].iter().take(10).enumerate() {
            if index == 9 && byte > 1 {
                return Err(self.error(WireProblem::VarintOverflow));
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.position += index + 1;
                return Ok(value);
            }
        }
        Err(self.error(WireProblem::Truncated))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], ProtoError> {
        let left = self.bytes.len() - self.position;
        match usize::try_from(length) {
            Ok(n) if n <= left => {
                let taken = &self.bytes[self.position..self.position + n];
                self.position += n;
                Ok(taken)
            }
            _ => Err(self.error(WireProblem::Length { length, left })),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtoError> {
        let taken = self.bytes[self.position..].first_chunk::<N>();
        match taken {
            Some(chunk) => {
                self.position += N;
                Ok(*chunk)
            }
            None => Err(self.error(WireProblem::Truncated)),
        }
    }

    /// The next field, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`ProtoError::Wire`] where the bytes are not a field.
    pub(crate) fn next_field(&mut self) -> Result<Option<Field<'a>>, ProtoError> {
        if self.position == self.bytes.len() {
            return Ok(None);
        }
        let key = self.varint()?;
        let wire_type = (key & 7) as u8;
        let number = match u32::try_from(key >> 3) {
            Ok(number) if (1..1 << 29).contains(&number) => number,
            _ => return Err(self.error(WireProblem::FieldNumber(key >> 3))),
        };
        let length = if wire_type == 2 { self.varint()? } else { 0 };
        let offset = self.base + self.position;
        let value = match wire_type {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Fixed64(self.array()?),
            2 => WireValue::Bytes(self.take(length)?),
            5 => WireValue::Fixed32(self.array()?),
            other => return Err(self.error(WireProblem::WireType(other))),
        };
        Ok(Some(Field {
            number,
            offset,
            value,
        }))
    }
}

/// A message: fields that are read one by one and written in the order of their numbers.
pub(crate) trait Message<'a>: Default {
    /// What the message is called in error messages.
    const NAME: &'static str;

    /// Takes in one field, or skips one that is not known.
    ///
    /// # Errors
    ///
    /// [`ProtoError::Wire`] or [`ProtoError::Memory`].
    fn merge_field(
        &mut self,
        field: &Field<'a>,
        budget: &mut ReadBudget,
        depth: usize,
    ) -> Result<(), ProtoError>;

    /// Bytes that [`Self::write`] appends.
    fn encoded_len(&self) -> usize;

    /// Appends the message to `out`.
    fn write(&self, out: &mut Vec<u8>);

    /// Takes in all fields of `bytes`, which stand at `base` in the file.
    ///
    /// # Errors
    ///
    /// [`ProtoError::Wire`] or [`ProtoError::Memory`].
    fn merge(
        &mut self,
        bytes: &'a [u8],
        base: usize,
        budget: &mut ReadBudget,
        depth: usize,
    ) -> Result<(), ProtoError> {
        if depth >= MAX_DEPTH {
            return Err(ProtoError::Wire {
                offset: base,
                problem: WireProblem::Depth(MAX_DEPTH),
            });
        }
        let mut reader = Reader::new(bytes, base);
        while let Some(field) = reader.next_field()? {
            self.merge_field(&field, budget, depth)?;
        }
        Ok(())
    }
}

/// A type that a field of a message can have: how it is read and written.
pub(crate) trait FieldType<'a> {
    /// Takes in one occurrence.
    ///
    /// # Errors
    ///
    /// [`ProtoError::Wire`] or [`ProtoError::Memory`].
    fn read(
        &mut self,
        field: &Field<'a>,
        budget: &mut ReadBudget,
        depth: usize,
    ) -> Result<(), ProtoError>;

    /// Bytes that [`Self::write`] appends, keys included.
    fn encoded_len(&self, number: u32) -> usize;

    /// Appends all occurrences to `out`.
    fn write(&self, number: u32, out: &mut Vec<u8>);
}

/// A repeated number in one packed field, the way ONNX stores the elements of tensors.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Packed<T>(pub Vec<T>);

/// A number, and its form on the wire.
trait Scalar: Copy + PartialEq {
    const WIRE_TYPE: u8;
    /// Bytes a packed list of `n_bytes` unfolds to, or `None` if it cannot be one.
    fn unpacked_count(bytes: &[u8]) -> Option<usize>;
    fn from_wire(value: WireValue<'_>) -> Option<Self>;
    fn unpack(bytes: &[u8], into: &mut Vec<Self>, base: usize) -> Result<(), ProtoError>;
    fn encoded_len(self) -> usize;
    fn write(self, out: &mut Vec<u8>);
}

fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn key_len(number: u32) -> usize {
    varint_len(u64::from(number) << 3)
}

fn write_key(number: u32, wire_type: u8, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | u64::from(wire_type), out);
}

/// Key, length and content of a field of wire type 2.
pub(crate) fn write_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    write_key(number, 2, out);
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Key and length of a field of wire type 2, whose content the caller appends.
pub(crate) fn write_header(number: u32, length: usize, out: &mut Vec<u8>) {
    write_key(number, 2, out);
    write_varint(length as u64, out);
}

/// What [`write_bytes`] appends for `length` bytes.
pub(crate) fn bytes_len(number: u32, length: usize) -> usize {
    key_len(number) + varint_len(length as u64) + length
}

macro_rules! varint_scalar {
    ($($type:ty),*) => {$(
        impl Scalar for $type {
            const WIRE_TYPE: u8 = 0;
            fn unpacked_count(bytes: &[u8]) -> Option<usize> {
                Some(bytes.iter().filter(|&&b| b < 0x80).count())
            }
            fn from_wire(value: WireValue<'_>) -> Option<Self> {
                match value {
                    // Negative numbers stand in 64 bits whatever the type; the low bits are the value.
                    WireValue::Varint(v) => Some(v as $type),
                    _ => None,
                }
            }
            fn unpack(bytes: &[u8], into: &mut Vec<Self>, base: usize) -> Result<(), ProtoError> {
                let mut reader = Reader::new(bytes, base);
                while reader.position < bytes.len() {
                    into.push(reader.varint()? as $type);
                }
                Ok(())
            }
            fn encoded_len(self) -> usize {
                varint_len(self as i64 as u64)
            }
            fn write(self, out: &mut Vec<u8>) {
                write_varint(self as i64 as u64, out);
            }
        }
    )*};
}
varint_scalar!(i32, i64, u64);

macro_rules! fixed_scalar {
    ($type:ty, $variant:ident, $wire_type:literal) => {
        impl Scalar for $type {
            const WIRE_TYPE: u8 = $wire_type;
            fn unpacked_count(bytes: &[u8]) -> Option<usize> {
                let size = size_of::<$type>();
                bytes.len().is_multiple_of(size).then(|| bytes.len() / size)
            }
            fn from_wire(value: WireValue<'_>) -> Option<Self> {
                match value {
                    WireValue::$variant(bytes) => Some(<$type>::from_le_bytes(bytes)),
                    _ => None,
                }
            }
            fn unpack(bytes: &[u8], into: &mut Vec<Self>, _base: usize) -> Result<(), ProtoError> {
                let (chunks, _) = bytes.as_chunks::<{ size_of::<$type>() }>();
                into.extend(chunks.iter().map(|c| <$type>::from_le_bytes(*c)));
                Ok(())
            }
            fn encoded_len(self) -> usize {
                size_of::<$type>()
            }
            fn write(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    };
}
fixed_scalar!(f32, Fixed32, 5);
fixed_scalar!(f64, Fixed64, 1);

/// Reads one occurrence of a repeated number, alone or packed.
fn read_numbers<T: Scalar>(
    into: &mut Vec<T>,
    field: &Field<'_>,
    budget: &mut ReadBudget,
) -> Result<(), ProtoError> {
    if let WireValue::Bytes(bytes) = field.value {
        let count = T::unpacked_count(bytes).ok_or_else(|| field.wrong_type())?;
        budget.charge("a list of numbers", count.saturating_mul(size_of::<T>()))?;
        into.reserve_exact(count);
        return T::unpack(bytes, into, field.offset);
    }
    let value = T::from_wire(field.value).ok_or_else(|| field.wrong_type())?;
    budget.charge("a list of numbers", size_of::<T>())?;
    into.push(value);
    Ok(())
}

macro_rules! number_fields {
    ($($type:ty),*) => {$(
        impl<'a> FieldType<'a> for Option<$type> {
            fn read(&mut self, field: &Field<'a>, _: &mut ReadBudget, _: usize) -> Result<(), ProtoError> {
                *self = Some(<$type>::from_wire(field.value).ok_or_else(|| field.wrong_type())?);
                Ok(())
            }
            fn encoded_len(&self, number: u32) -> usize {
                self.map_or(0, |v| key_len(number) + Scalar::encoded_len(v))
            }
            fn write(&self, number: u32, out: &mut Vec<u8>) {
                if let Some(value) = *self {
                    write_key(number, <$type>::WIRE_TYPE, out);
                    Scalar::write(value, out);
                }
            }
        }
        impl<'a> FieldType<'a> for Vec<$type> {
            fn read(&mut self, field: &Field<'a>, budget: &mut ReadBudget, _: usize) -> Result<(), ProtoError> {
                read_numbers(self, field, budget)
            }
            fn encoded_len(&self, number: u32) -> usize {
                self.iter().map(|&v| key_len(number) + Scalar::encoded_len(v)).sum()
            }
            fn write(&self, number: u32, out: &mut Vec<u8>) {
                for &value in self {
                    write_key(number, <$type>::WIRE_TYPE, out);
                    Scalar::write(value, out);
                }
            }
        }
        impl<'a> FieldType<'a> for Packed<$type> {
            fn read(&mut self, field: &Field<'a>, budget: &mut ReadBudget, _: usize) -> Result<(), ProtoError> {
                read_numbers(&mut self.0, field, budget)
            }
            fn encoded_len(&self, number: u32) -> usize {
                if self.0.is_empty() {
                    return 0;
                }
                bytes_len(number, self.0.iter().map(|&v| Scalar::encoded_len(v)).sum())
            }
            fn write(&self, number: u32, out: &mut Vec<u8>) {
                if self.0.is_empty() {
                    return;
                }
                write_header(number, self.0.iter().map(|&v| Scalar::encoded_len(v)).sum(), out);
                for &value in &self.0 {
                    Scalar::write(value, out);
                }
            }
        }
    )*};
}
number_fields!(i32, i64, u64, f32, f64);

fn text_of<'a>(field: &Field<'a>) -> Result<Text<'a>, ProtoError> {
    match field.value {
        WireValue::Bytes(bytes) => std::str::from_utf8(bytes)
            .map(Cow::Borrowed)
            .map_err(|_| field.error(WireProblem::Text(field.number))),
        _ => Err(field.wrong_type()),
    }
}

fn bytes_of<'a>(field: &Field<'a>) -> Result<Bytes<'a>, ProtoError> {
    match field.value {
        WireValue::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
        _ => Err(field.wrong_type()),
    }
}

macro_rules! blob_fields {
    ($type:ident, $parse:ident, $as_bytes:ident) => {
        impl<'a> FieldType<'a> for Option<$type<'a>> {
            fn read(
                &mut self,
                field: &Field<'a>,
                _: &mut ReadBudget,
                _: usize,
            ) -> Result<(), ProtoError> {
                *self = Some($parse(field)?);
                Ok(())
            }
            fn encoded_len(&self, number: u32) -> usize {
                self.as_ref().map_or(0, |v| bytes_len(number, v.len()))
            }
            fn write(&self, number: u32, out: &mut Vec<u8>) {
                if let Some(value) = self {
                    write_bytes(number, value.$as_bytes(), out);
                }
            }
        }
        impl<'a> FieldType<'a> for Vec<$type<'a>> {
            fn read(
                &mut self,
                field: &Field<'a>,
                budget: &mut ReadBudget,
                _: usize,
            ) -> Result<(), ProtoError> {
                budget.charge("a list of names", size_of::<$type<'a>>())?;
                self.push($parse(field)?);
                Ok(())
            }
            fn encoded_len(&self, number: u32) -> usize {
                self.iter().map(|v| bytes_len(number, v.len())).sum()
            }
            fn write(&self, number: u32, out: &mut Vec<u8>) {
                for value in self {
                    write_bytes(number, value.$as_bytes(), out);
                }
            }
        }
    };
}
blob_fields!(Text, text_of, as_bytes);
blob_fields!(Bytes, bytes_of, as_ref);

impl<'a, M: Message<'a>> FieldType<'a> for Option<Box<M>> {
    fn read(
        &mut self,
        field: &Field<'a>,
        budget: &mut ReadBudget,
        depth: usize,
    ) -> Result<(), ProtoError> {
        let WireValue::Bytes(bytes) = field.value else {
            return Err(field.wrong_type());
        };
        if self.is_none() {
            budget.charge(M::NAME, size_of::<M>())?;
        }
        // A message that occurs twice is merged, as the format demands.
        self.get_or_insert_default()
            .merge(bytes, field.offset, budget, depth + 1)
    }
    fn encoded_len(&self, number: u32) -> usize {
        self.as_ref()
            .map_or(0, |m| bytes_len(number, m.encoded_len()))
    }
    fn write(&self, number: u32, out: &mut Vec<u8>) {
        if let Some(message) = self {
            write_header(number, message.encoded_len(), out);
            message.write(out);
        }
    }
}

impl<'a, M: Message<'a>> FieldType<'a> for Vec<M> {
    fn read(
        &mut self,
        field: &Field<'a>,
        budget: &mut ReadBudget,
        depth: usize,
    ) -> Result<(), ProtoError> {
        let WireValue::Bytes(bytes) = field.value else {
            return Err(field.wrong_type());
        };
        budget.charge(M::NAME, size_of::<M>())?;
        let mut message = M::default();
        message.merge(bytes, field.offset, budget, depth + 1)?;
        self.push(message);
        Ok(())
    }
    fn encoded_len(&self, number: u32) -> usize {
        self.iter()
            .map(|m| bytes_len(number, m.encoded_len()))
            .sum()
    }
    fn write(&self, number: u32, out: &mut Vec<u8>) {
        for message in self {
            write_header(number, message.encoded_len(), out);
            message.write(out);
        }
    }
}
