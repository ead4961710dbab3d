//! Conversions between integers and floats that have no instruction of their own.

use crate::form::FormError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer { bits: u32, signed: bool },
    F32,
    F64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rounding {
    Even,
    Zero,
    Down,
    Up,
}

/// One form, as `rni.s32.f32`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    to: Kind,
    from: Kind,
    rounding: Rounding,
    to_integral: bool,
    saturates: bool,
}

fn kind(name: &str) -> Option<Kind> {
    let integer = |bits, signed| Some(Kind::Integer { bits, signed });
    match name {
        "f32" => Some(Kind::F32),
        "f64" => Some(Kind::F64),
        "u8" | "b8" => integer(8, false),
        "u16" | "b16" => integer(16, false),
        "u32" | "b32" => integer(32, false),
        "u64" | "b64" => integer(64, false),
        "s8" => integer(8, true),
        "s16" => integer(16, true),
        "s32" => integer(32, true),
        "s64" => integer(64, true),
        _ => None,
    }
}

impl Conversion {
    /// Reads a form from the modifiers of `cvt`.
    ///
    /// # Errors
    ///
    /// [`FormError`] if a modifier or the combination is not known.
    pub fn parse(modifiers: &[&str]) -> Result<Conversion, FormError> {
        let unknown = || FormError::new(modifiers);
        let [rest @ .., to, from] = modifiers else {
            return Err(unknown());
        };
        let mut form = Conversion {
            to: kind(to).ok_or_else(unknown)?,
            from: kind(from).ok_or_else(unknown)?,
            rounding: Rounding::Even,
            to_integral: false,
            saturates: false,
        };
        for part in rest {
            form.to_integral |= part.ends_with('i');
            match *part {
                "rn" | "rni" => {}
                "rz" | "rzi" => form.rounding = Rounding::Zero,
                "rm" | "rmi" => form.rounding = Rounding::Down,
                "rp" | "rpi" => form.rounding = Rounding::Up,
                "sat" => form.saturates = true,
                _ => return Err(unknown()),
            }
        }
        Ok(form)
    }

    /// Sources of the form.
    #[must_use]
    pub fn n_sources(&self) -> usize {
        1
    }

    /// The result's bits for the source's bits.
    #[must_use]
    pub fn apply(&self, sources: &[u64]) -> u64 {
        let bits = sources.first().copied().unwrap_or(0);
        match self.from {
            Kind::Integer {
                bits: width,
                signed,
            } => self.of_integer(extend(bits, width, signed)),
            Kind::F32 => self.of_float(f64::from(f32::from_bits(bits as u32))),
            Kind::F64 => self.of_float(f64::from_bits(bits)),
        }
    }

    fn of_integer(&self, value: i128) -> u64 {
        match self.to {
            Kind::Integer { bits, signed } if self.saturates => clamp(value, bits, signed),
            Kind::Integer { bits, .. } => value as u64 & mask(bits),
            Kind::F32 => u64::from((value as f32).to_bits()),
            Kind::F64 => (value as f64).to_bits(),
        }
    }

    fn of_float(&self, value: f64) -> u64 {
        let rounded = match self.rounding {
            Rounding::Even => value.round_ties_even(),
            Rounding::Zero => value.trunc(),
            Rounding::Down => value.floor(),
            Rounding::Up => value.ceil(),
        };
        let value = if self.to_integral { rounded } else { value };
        match self.to {
            Kind::Integer { bits, signed } => {
                if value.is_nan() {
                    return if bits == 64 || self.from == Kind::F64 {
                        1 << (bits - 1)
                    } else {
                        0
                    };
                }
                clamp(rounded as i128, bits, signed)
            }
            Kind::F32 if self.saturates => {
                let value = if value.is_nan() {
                    0.0
                } else {
                    value.clamp(0.0, 1.0)
                };
                u64::from((value as f32).to_bits())
            }
            Kind::F32 => u64::from((value as f32).to_bits()),
            Kind::F64 => value.to_bits(),
        }
    }
}

fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

fn extend(bits: u64, width: u32, signed: bool) -> i128 {
    let low = bits & mask(width);
    if signed && low >> (width - 1) != 0 {
        return i128::from(low) - (1i128 << width);
    }
    i128::from(low)
}

fn clamp(value: i128, bits: u32, signed: bool) -> u64 {
    let (low, high) = match signed {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    value.clamp(low, high) as u64 & mask(bits)
}
