//! Element types of fewer than 8 bits, and floats of 8: read as wider numbers, which hold each of theirs.
//!
//! ```text
//! 8 bits   a byte each
//! 4 bits   byte i holds element 2 i in bits 0..4 and element 2 i + 1 in bits 4..8
//! 2 bits   byte i holds elements 4 i .. 4 i + 4, the first in bits 0..2
//! ```
//!
//! A list (`int32_data`) holds the same bytes, one per entry.
//!
//! Source: comments of `TensorProto` in `onnx.proto`; the formats of 8 bits in "FP8 Formats for Deep Learning"
//! (Micikevicius and others, 2022) and "8-bit Numerical Formats for Deep Neural Networks" (Noune and others, 2022),
//! that of 4 in the OCP Microscaling Formats specification, version 1.0.
//!
//! Deliberately absent: float8e8m0, whose numbers f16 does not hold, and writing.

use half::f16;

use crate::element::ElementType;
use crate::numbers::Numbers;

/// An element type that is read as a wider one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NarrowType {
    /// 4 bits of exponent, 3 of fraction, largest 448, no infinities; read as f16.
    F8E4M3FN,
    /// The same with one zero, one NaN and an exponent one lower: largest 240; read as f16.
    F8E4M3FNUZ,
    /// 5 bits of exponent, 2 of fraction, largest finite value 57344; read as f16.
    F8E5M2,
    /// The same with one zero, one NaN, no infinities and an exponent one lower; read as f16.
    F8E5M2FNUZ,
    /// 2 bits of exponent, 1 of fraction: 0, 0.5, 1, 1.5, 2, 3, 4, 6; read as f16.
    F4E2M1,
    /// 0 to 15, read as u8.
    U4,
    /// -8 to 7, read as i8.
    I4,
    /// 0 to 3, read as u8.
    U2,
    /// -2 to 1, read as i8.
    I2,
}

impl NarrowType {
    /// The type behind a number of `TensorProto.DataType`.
    pub fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            17 => Self::F8E4M3FN,
            18 => Self::F8E4M3FNUZ,
            19 => Self::F8E5M2,
            20 => Self::F8E5M2FNUZ,
            21 => Self::U4,
            22 => Self::I4,
            23 => Self::F4E2M1,
            25 => Self::U2,
            26 => Self::I2,
            _ => return None,
        })
    }

    /// Its number in `TensorProto.DataType`.
    pub fn number(self) -> i32 {
        match self {
            Self::F8E4M3FN => 17,
            Self::F8E4M3FNUZ => 18,
            Self::F8E5M2 => 19,
            Self::F8E5M2FNUZ => 20,
            Self::U4 => 21,
            Self::I4 => 22,
            Self::F4E2M1 => 23,
            Self::U2 => 25,
            Self::I2 => 26,
        }
    }

    /// The type that its numbers are read as.
    pub fn held_as(self) -> ElementType {
        match self {
            Self::U4 | Self::U2 => ElementType::U8,
            Self::I4 | Self::I2 => ElementType::I8,
            _ => ElementType::F16,
        }
    }

    /// Bits that an element takes in a file.
    pub fn bits(self) -> usize {
        match self {
            Self::U2 | Self::I2 => 2,
            Self::U4 | Self::I4 | Self::F4E2M1 => 4,
            _ => 8,
        }
    }

    /// Bytes that so many elements take in a file.
    pub fn packed_bytes(self, count: usize) -> usize {
        count.div_ceil(8 / self.bits())
    }

    /// `count` elements from the bytes that [`Self::packed_bytes`] says; the error is for want of memory.
    pub(crate) fn unpack(self, bytes: &[u8], count: usize) -> Result<Numbers, String> {
        let (bits, per_byte) = (self.bits(), 8 / self.bits());
        let mask = 0xff_u8 >> (8 - bits);
        let codes = (0..count).map(|i| bytes[i / per_byte] >> (i % per_byte * bits) & mask);
        // Sign bits moved to the top of the byte and back.
        let up = 8 - bits as u32;
        Ok(match self.held_as() {
            ElementType::U8 => Numbers::U8(list(codes)?),
            ElementType::I8 => Numbers::I8(list(codes.map(|c| ((c << up) as i8) >> up))?),
            _ => {
                let values: Vec<f16> = (0..=mask).map(|c| f16::from_f32(self.value(c))).collect();
                Numbers::F16(list(codes.map(|c| values[usize::from(c)]))?)
            }
        })
    }

    /// The number behind the bits of a float.
    fn value(self, code: u8) -> f32 {
        let (fraction_bits, bias, n_bits) = match self {
            Self::F8E4M3FN => (3, 7, 8),
            Self::F8E4M3FNUZ => (3, 8, 8),
            Self::F8E5M2 => (2, 15, 8),
            Self::F8E5M2FNUZ => (2, 16, 8),
            _ => (1, 1, 4),
        };
        let magnitude = code & !(1 << (n_bits - 1));
        let is_negative = magnitude != code;
        let special = match self {
            Self::F8E4M3FN if magnitude == 0x7f => Some(f32::NAN),
            Self::F8E4M3FNUZ | Self::F8E5M2FNUZ if code == 0x80 => Some(f32::NAN),
            Self::F8E5M2 if magnitude == 0x7c => Some(f32::INFINITY),
            Self::F8E5M2 if magnitude > 0x7c => Some(f32::NAN),
            _ => None,
        };
        let exponent = i32::from(magnitude >> fraction_bits);
        let fraction = f32::from(magnitude & ((1 << fraction_bits) - 1));
        let one = f32::from(1u8 << fraction_bits);
        let finite = match exponent {
            0 => fraction / one * 2f32.powi(1 - bias),
            _ => (1.0 + fraction / one) * 2f32.powi(exponent - bias),
        };
        let value = special.unwrap_or(finite);
        if is_negative { -value } else { value }
    }
}

fn list<T>(elements: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>, String> {
    let mut list = Vec::new();
    let reserved = list.try_reserve_exact(elements.len());
    reserved.map_err(|_| format!("no memory for {} elements", elements.len()))?;
    list.extend(elements);
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(of: NarrowType, bytes: &[u8]) -> Vec<f32> {
        let count = bytes.len() * 8 / of.bits();
        match of.unpack(bytes, count) {
            Ok(Numbers::F16(values)) => values.iter().map(|v| v.to_f32()).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn floats_have_the_values_of_their_formats() {
        // Zero, least, one, largest, least negative.
        let of = |format, codes: &[u8]| floats(format, codes);
        let least = 2f32.powi(-9);
        assert_eq!(
            of(NarrowType::F8E4M3FN, &[0, 1, 0x38, 0x7e, 0x81]),
            [0.0, least, 1.0, 448.0, -least]
        );
        assert_eq!(
            of(NarrowType::F8E4M3FNUZ, &[1, 0x40, 0x7f]),
            [least / 2.0, 1.0, 240.0]
        );
        assert_eq!(
            of(NarrowType::F8E5M2, &[1, 0x3c, 0x7b, 0x7c, 0xfc]),
            [
                2f32.powi(-16),
                1.0,
                57344.0,
                f32::INFINITY,
                f32::NEG_INFINITY
            ]
        );
        assert_eq!(
            of(NarrowType::F8E5M2FNUZ, &[1, 0x40, 0x7f]),
            [2f32.powi(-17), 1.0, 57344.0]
        );
        for (format, code) in [
            (NarrowType::F8E4M3FN, 0xff),
            (NarrowType::F8E4M3FNUZ, 0x80),
            (NarrowType::F8E5M2, 0x7d),
            (NarrowType::F8E5M2FNUZ, 0x80),
        ] {
            assert!(of(format, &[code])[0].is_nan(), "{format:?}");
        }
        assert_eq!(
            of(NarrowType::F4E2M1, &[0x10, 0x32, 0x54, 0x76, 0xf9]),
            [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.5, -6.0]
        );
    }

    #[test]
    fn the_first_element_of_a_byte_is_in_its_low_bits() {
        assert_eq!(
            NarrowType::U4.unpack(&[0x21, 0x0f], 3),
            Ok(Numbers::U8(vec![1, 2, 15]))
        );
        assert_eq!(
            NarrowType::I4.unpack(&[0x8f], 2),
            Ok(Numbers::I8(vec![-1, -8]))
        );
        assert_eq!(
            NarrowType::U2.unpack(&[0b1110_0100], 4),
            Ok(Numbers::U8(vec![0, 1, 2, 3]))
        );
        assert_eq!(
            NarrowType::I2.unpack(&[0b1110_0100], 3),
            Ok(Numbers::I8(vec![0, 1, -2]))
        );
        assert_eq!(NarrowType::I4.packed_bytes(3), 2);
    }

    #[test]
    fn numbers_of_narrow_types_are_one_to_one() {
        for number in -1..40 {
            if let Some(of) = NarrowType::from_number(number) {
                assert_eq!(of.number(), number);
                assert!(ElementType::from_number(number).is_err(), "{number}");
            }
        }
    }
}
