//! Forms of float arithmetic that have no instruction of their own.
//!
//! f32 and f64, directed rounding of sums and products, approximations as correctly rounded values.

use crate::form::FormError;

/// One form, as `ex2.approx.ftz.f32`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatForm {
    name: &'static str,
    is_double: bool,
    flushes: bool,
    saturates: bool,
    rounding: Rounding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
}

const NAMES: [&str; 19] = [
    "add", "sub", "mul", "fma", "div", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh",
    "min", "max", "neg", "abs", "copysign", "mad",
];

impl FloatForm {
    /// Reads a form from its opcode and modifiers.
    ///
    /// # Errors
    ///
    /// [`FormError`] if a modifier or the combination is not known.
    pub fn parse(opcode: &str, modifiers: &[&str]) -> Result<FloatForm, FormError> {
        let unknown = || FormError::new(modifiers);
        let name = NAMES
            .iter()
            .find(|name| **name == opcode)
            .ok_or_else(unknown)?;
        let (last, rest) = modifiers.split_last().ok_or_else(unknown)?;
        let mut form = FloatForm {
            name,
            is_double: match *last {
                "f32" => false,
                "f64" => true,
                _ => return Err(unknown()),
            },
            flushes: false,
            saturates: false,
            rounding: Rounding::Nearest,
        };
        for part in rest {
            match *part {
                "ftz" => form.flushes = true,
                "sat" => form.saturates = true,
                "rn" | "approx" | "full" => {}
                "rz" => form.rounding = Rounding::Zero,
                "rm" => form.rounding = Rounding::Down,
                "rp" => form.rounding = Rounding::Up,
                _ => return Err(unknown()),
            }
        }
        Ok(form)
    }

    /// The result's bits for the sources' bits.
    #[must_use]
    pub fn apply(&self, sources: &[u64]) -> u64 {
        let at = |idx: usize| sources.get(idx).copied().unwrap_or(0);
        if self.is_double {
            let [a, b, c] = [
                f64::from_bits(at(0)),
                f64::from_bits(at(1)),
                f64::from_bits(at(2)),
            ];
            return self.value(a, b, c).to_bits();
        }
        let read = |idx: usize| {
            let value = f32::from_bits(at(idx) as u32);
            let is_flushed = self.flushes && value.is_subnormal();
            f64::from(if is_flushed {
                0f32.copysign(value)
            } else {
                value
            })
        };
        let exact = self.value(read(0), read(1), read(2));
        let mut value = exact as f32;
        match self.rounding {
            Rounding::Down if f64::from(value) > exact => value = value.next_down(),
            Rounding::Up if f64::from(value) < exact => value = value.next_up(),
            Rounding::Zero if f64::from(value).abs() > exact.abs() => {
                value = if value > 0.0 {
                    value.next_down()
                } else {
                    value.next_up()
                };
            }
            _ => {}
        }
        if self.flushes && value.is_subnormal() {
            value = 0f32.copysign(value);
        }
        if self.saturates {
            value = if value.is_nan() {
                0.0
            } else {
                value.clamp(0.0, 1.0)
            };
        }
        u64::from(value.to_bits())
    }

    fn value(&self, a: f64, b: f64, c: f64) -> f64 {
        match self.name {
            "add" => a + b,
            "sub" => a - b,
            "mul" => a * b,
            "fma" => a.mul_add(b, c),
            "div" => a / b,
            "rcp" => 1.0 / a,
            "sqrt" => a.sqrt(),
            "rsqrt" => 1.0 / a.sqrt(),
            "ex2" => a.exp2(),
            "lg2" => a.log2(),
            "sin" => a.sin(),
            "cos" => a.cos(),
            "tanh" => a.tanh(),
            "min" => a.min(b),
            "max" => a.max(b),
            "neg" => -a,
            "abs" => a.abs(),
            _ => b.copysign(a),
        }
    }
}
