//! One float instruction: its modifiers read once, then applied to bits.
//!
//! ```text
//! FloatForm::parse("fma", ["rn", "relu", "bf16x2"])?.apply(&[a, b, c]) -> d
//!
//! per number:  .ftz flushes operands -> operation -> .ftz flushes the result -> .sat / .relu
//! .sat         into [0, 1], NaN and -0 give +0
//! .relu        negative numbers and -0 give +0, NaN stays
//! ```
//!
//! `.ftz` looks at the rounded result: whether hardware looks before rounding no document says.
//! `add`, `sub` and `mul` without a rounding modifier round to nearest even and are never fused.
//!
//! Source: PTX ISA 9.1, 9.7.3 and 9.7.4; which type has which modifier, from the syntax there.

use super::approximate::{self, Function};
use super::arithmetic;
use super::format::Rounding;
use super::kind::FloatKind;
use crate::form::{FormError, Modifiers};
use crate::target::Target;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Property {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    FusedMultiplyAdd,
    Divide,
    DivideApproximately,
    /// Within two ulp over the whole range.
    DivideFull,
    Reciprocal,
    SquareRoot,
    Approximate(Function),
    /// Approximations that read and write half an f64.
    ApproximateUpperHalf(Function),
    Minimum,
    Maximum,
    Negate,
    Absolute,
    CopySign,
    Test(Property),
}

/// A float instruction with all its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FloatForm {
    operation: Operation,
    kind: FloatKind,
    n_packed: u32,
    rounding: Rounding,
    flush: bool,
    saturate: bool,
    relu: bool,
    nan: bool,
    absolute: bool,
    xor_sign: bool,
}

/// Modifiers that are there, before anything says whether they may be.
struct Flags {
    rounding: Option<Rounding>,
    approx: bool,
    full: bool,
    ftz: bool,
    sat: bool,
    relu: bool,
    nan: bool,
    abs: bool,
    xorsign: bool,
}

fn rounding_of(name: &str) -> Option<Rounding> {
    Some(match name {
        "rn" => Rounding::NearestEven,
        "rz" => Rounding::TowardZero,
        "rm" => Rounding::Down,
        "rp" => Rounding::Up,
        _ => return None,
    })
}

fn property_of(name: &str) -> Option<Property> {
    Some(match name {
        "finite" => Property::Finite,
        "infinite" => Property::Infinite,
        "number" => Property::Number,
        "notanumber" => Property::NotANumber,
        "normal" => Property::Normal,
        "subnormal" => Property::Subnormal,
        _ => return None,
    })
}

impl FloatForm {
    /// Reads an opcode split at its dots: `parse("fma", &["rn", "ftz", "f32"])`.
    ///
    /// # Errors
    ///
    /// [`FormError`] names the modifier that is missing, unknown, or out of place.
    pub fn parse(opcode: &str, modifiers: &[&str]) -> Result<FloatForm, FormError> {
        let mut left = Modifiers::new(opcode, modifiers);
        let Some((kind, n_packed)) = left.take_last(FloatKind::parse) else {
            return Err(left.missing("a float type at its end"));
        };
        if left.take_first(FloatKind::parse).is_some() {
            return Err(left.not_interpreted("operands of mixed precision"));
        }
        if left.take("oob") {
            return Err(left.not_interpreted("out-of-bounds NaN"));
        }
        let flags = Flags {
            rounding: left.take_first(rounding_of),
            approx: left.take("approx"),
            full: left.take("full"),
            ftz: left.take("ftz"),
            sat: left.take("sat"),
            relu: left.take("relu"),
            nan: left.take("NaN"),
            abs: left.take("abs"),
            xorsign: left.take("xorsign"),
        };
        let property = left.take_first(property_of);
        left.finish()?;
        let operation = operation_of(opcode, &left, &flags, property, kind)?;
        check_flags(&left, &flags, operation, kind, n_packed)?;
        Ok(FloatForm {
            operation,
            kind,
            n_packed,
            rounding: flags.rounding.unwrap_or(Rounding::NearestEven),
            flush: flags.ftz,
            saturate: flags.sat,
            relu: flags.relu,
            nan: flags.nan,
            absolute: flags.abs,
            xor_sign: flags.xorsign,
        })
    }

    /// `add` of one number without further modifiers.
    pub(crate) const fn sum(kind: FloatKind, rounding: Rounding) -> FloatForm {
        FloatForm {
            operation: Operation::Add,
            kind,
            n_packed: 1,
            rounding,
            flush: false,
            saturate: false,
            relu: false,
            nan: false,
            absolute: false,
            xor_sign: false,
        }
    }

    /// Whether the target has the instruction.
    ///
    /// # Errors
    ///
    /// [`FormError::Target`] names the first target that has it.
    pub fn check_target(&self, target: Target) -> Result<(), FormError> {
        let is_bf16 = self.kind == FloatKind::Bf16;
        let needs = match self.operation {
            Operation::Add | Operation::Subtract | Operation::Multiply if is_bf16 => 90,
            Operation::Approximate(_) if is_bf16 => 90,
            Operation::Minimum | Operation::Maximum if self.xor_sign => 86,
            Operation::Minimum | Operation::Maximum if self.absolute => 100,
            _ if self.kind == FloatKind::F32 && self.n_packed == 2 => 100,
            _ => 80,
        };
        if target.capability() >= needs {
            return Ok(());
        }
        Err(FormError::Target {
            form: format!("{:?} of {:?}", self.operation, self.kind),
            needs: match needs {
                90 => "sm_90",
                86 => "sm_86",
                _ => "sm_100",
            },
            target,
        })
    }

    /// Operands that the instruction reads. `min` and `max` of f32 may have one more.
    pub fn n_sources(&self) -> usize {
        match self.operation {
            Operation::FusedMultiplyAdd => 3,
            Operation::Minimum | Operation::Maximum if self.absolute && !self.xor_sign => 3,
            Operation::Add
            | Operation::Subtract
            | Operation::Multiply
            | Operation::Divide
            | Operation::DivideApproximately
            | Operation::DivideFull
            | Operation::Minimum
            | Operation::Maximum
            | Operation::CopySign => 2,
            _ => 1,
        }
    }

    /// Most operands that the instruction reads: three for `min` and `max` of f32 without
    /// `.xorsign`, which then need a target from sm_100 on.
    pub fn n_sources_max(&self) -> usize {
        match self.operation {
            Operation::Minimum | Operation::Maximum
                if self.kind == FloatKind::F32 && !self.xor_sign =>
            {
                3
            }
            _ => self.n_sources(),
        }
    }

    /// Bits of an operand, and of the result except that of `testp`, which is 0 or 1.
    pub fn operand_bits(&self) -> u32 {
        self.kind.bits() * self.n_packed
    }

    /// The result of operands given as bits. Bits above the type's width are ignored.
    ///
    /// # Panics
    ///
    /// If there are fewer operands than [`FloatForm::n_sources`] says.
    pub fn apply(&self, sources: &[u64]) -> u64 {
        if self.n_packed == 1 {
            return self.apply_to_one(sources);
        }
        let bits = self.kind.bits();
        let mask = (1 << bits) - 1;
        let mut packed = 0;
        for idx in 0..self.n_packed {
            let mut parts = [0; 3];
            for (part, source) in parts.iter_mut().zip(sources) {
                *part = source >> (bits * idx) & mask;
            }
            packed |= self.apply_to_one(&parts[..sources.len().min(3)]) << (bits * idx);
        }
        packed
    }

    fn apply_to_one(&self, sources: &[u64]) -> u64 {
        let format = self.kind.format();
        let code = |idx: usize| {
            let code = sources[idx] & (format.sign_bit() | format.magnitude_mask());
            if self.flush { format.flush(code) } else { code }
        };
        let kind = self.kind;
        let rounding = self.rounding;
        let result = match self.operation {
            Operation::Add => arithmetic::add(kind, code(0), code(1), rounding),
            Operation::Subtract => {
                // NaN keeps its sign: only the number is reversed.
                let b = code(1);
                let b = if format.is_nan(b) {
                    b
                } else {
                    arithmetic::negate(format, b)
                };
                arithmetic::add(kind, code(0), b, rounding)
            }
            Operation::Multiply => arithmetic::multiply(kind, code(0), code(1), rounding),
            Operation::FusedMultiplyAdd => {
                arithmetic::fused_multiply_add(kind, [code(0), code(1), code(2)], rounding)
            }
            Operation::Divide => arithmetic::divide(kind, code(0), code(1), rounding),
            Operation::DivideApproximately => self.in_f32(approximate::divide, code(0), code(1)),
            Operation::DivideFull => self.in_f32(approximate::divide_in_full, code(0), code(1)),
            Operation::Reciprocal => arithmetic::divide(kind, self.one(), code(0), rounding),
            Operation::SquareRoot => arithmetic::square_root(kind, code(0), rounding),
            Operation::Approximate(function) => {
                let value = approximate::evaluate(function, kind.to_f64(code(0)));
                arithmetic::from_f64(kind, value)
            }
            Operation::ApproximateUpperHalf(function) => {
                return approximate::upper_half(function, code(0));
            }
            Operation::Minimum | Operation::Maximum => self.extreme(sources.len(), code),
            Operation::Negate => arithmetic::negate(format, code(0)),
            Operation::Absolute => code(0) & format.magnitude_mask(),
            Operation::CopySign => code(0) & format.sign_bit() | code(1) & format.magnitude_mask(),
            Operation::Test(property) => return u64::from(self.has(property, code(0))),
        };
        self.limit(result)
    }

    fn in_f32(&self, divide: impl Fn(f32, f32) -> f32, a: u64, b: u64) -> u64 {
        let quotient = divide(f32::from_bits(a as u32), f32::from_bits(b as u32));
        arithmetic::from_f64(self.kind, f64::from(quotient))
    }

    /// 1.0 of the type.
    fn one(&self) -> u64 {
        let format = self.kind.format();
        (format.bias() as u64) << format.mantissa_bits
    }

    /// What the modifiers for the result make of it.
    fn limit(&self, result: u64) -> u64 {
        let format = self.kind.format();
        let result = if self.flush {
            format.flush(result)
        } else {
            result
        };
        let is_nan = format.is_nan(result);
        if self.saturate {
            return match result {
                _ if is_nan || format.is_negative(result) => 0,
                _ => result.min(self.one()),
            };
        }
        if self.relu && format.is_negative(result) && !is_nan {
            return 0;
        }
        result
    }

    fn extreme(&self, n_sources: usize, code: impl Fn(usize) -> u64) -> u64 {
        let format = self.kind.format();
        let operand = |idx| {
            if self.absolute {
                code(idx) & format.magnitude_mask()
            } else {
                code(idx)
            }
        };
        let extreme_of = |a: u64, b: u64| match (format.is_nan(a), format.is_nan(b)) {
            (false, false) => {
                let largest = self.operation == Operation::Maximum;
                if arithmetic::is_first(format, a, b, largest) {
                    a
                } else {
                    b
                }
            }
            (true, false) if !self.nan => b,
            (false, true) if !self.nan => a,
            _ => format.nan_code(),
        };
        let mut result = extreme_of(operand(0), operand(1));
        if n_sources > 2 {
            result = extreme_of(result, operand(2));
        }
        if self.xor_sign && !format.is_nan(result) {
            result |= (code(0) ^ code(1)) & format.sign_bit();
        }
        result
    }

    fn has(&self, property: Property, code: u64) -> bool {
        let format = self.kind.format();
        let (nan, infinite) = (format.is_nan(code), format.is_infinite(code));
        match property {
            Property::Finite => !nan && !infinite,
            Property::Infinite => infinite,
            Property::Number => !nan,
            Property::NotANumber => nan,
            // Zeros count as normal.
            Property::Normal => !nan && !infinite && !format.is_subnormal(code),
            Property::Subnormal => format.is_subnormal(code),
        }
    }
}

fn operation_of(
    opcode: &str,
    left: &Modifiers<'_>,
    flags: &Flags,
    property: Option<Property>,
    kind: FloatKind,
) -> Result<Operation, FormError> {
    let approximate = |function| {
        if flags.approx && flags.rounding.is_none() {
            Ok(Operation::Approximate(function))
        } else {
            Err(left.missing("`.approx` alone"))
        }
    };
    // Instructions that come rounded or approximate, and say which.
    let either = |rounded, function| match (flags.rounding, flags.approx) {
        (Some(_), false) => Ok(rounded),
        (None, true) if kind != FloatKind::F64 => Ok(Operation::Approximate(function)),
        (None, true) if flags.ftz && opcode == "rcp" => {
            Ok(Operation::ApproximateUpperHalf(function))
        }
        _ => Err(left.missing("either a rounding or `.approx`")),
    };
    let operation = match opcode {
        "add" => Operation::Add,
        "sub" => Operation::Subtract,
        "mul" => Operation::Multiply,
        "fma" | "mad" => Operation::FusedMultiplyAdd,
        "div" => match (flags.rounding, flags.approx, flags.full) {
            (Some(_), false, false) => Operation::Divide,
            (None, true, false) => Operation::DivideApproximately,
            (None, false, true) => Operation::DivideFull,
            _ => return Err(left.missing("one of a rounding, `.approx` and `.full`")),
        },
        "rcp" => either(Operation::Reciprocal, Function::Reciprocal)?,
        "sqrt" => either(Operation::SquareRoot, Function::SquareRoot)?,
        "rsqrt" if kind == FloatKind::F64 && flags.ftz => {
            approximate(Function::ReciprocalSquareRoot)?;
            Operation::ApproximateUpperHalf(Function::ReciprocalSquareRoot)
        }
        "rsqrt" => approximate(Function::ReciprocalSquareRoot)?,
        "ex2" => approximate(Function::Exp2)?,
        "lg2" => approximate(Function::Log2)?,
        "sin" => approximate(Function::Sine)?,
        "cos" => approximate(Function::Cosine)?,
        "tanh" => approximate(Function::Tanh)?,
        "min" => Operation::Minimum,
        "max" => Operation::Maximum,
        "neg" => Operation::Negate,
        "abs" => Operation::Absolute,
        "copysign" => Operation::CopySign,
        "testp" => match property {
            Some(property) => return Ok(Operation::Test(property)),
            None => return Err(left.missing("the property to test")),
        },
        _ => return Err(left.combination("no float instruction has this name")),
    };
    if property.is_some() {
        return Err(left.combination("only `testp` tests a property"));
    }
    Ok(operation)
}

/// Whether every modifier may stand at this operation of this type.
fn check_flags(
    left: &Modifiers<'_>,
    flags: &Flags,
    operation: Operation,
    kind: FloatKind,
    n_packed: u32,
) -> Result<(), FormError> {
    use FloatKind::{Bf16, F16, F32, F64};
    let is_half = matches!(kind, F16 | Bf16);
    let is_scalar_f32 = kind == F32 && n_packed == 1;
    let is_sum = matches!(
        operation,
        Operation::Add | Operation::Subtract | Operation::Multiply | Operation::FusedMultiplyAdd
    );
    let is_extreme = matches!(operation, Operation::Minimum | Operation::Maximum);
    let kinds_fit = match operation {
        Operation::Add | Operation::Subtract | Operation::Multiply => true,
        Operation::FusedMultiplyAdd => !left.form().starts_with("mad") || !is_half && n_packed == 1,
        Operation::Approximate(Function::Exp2 | Function::Tanh) => {
            kind != F64 && (is_half || n_packed == 1)
        }
        Operation::Approximate(Function::ReciprocalSquareRoot) => !is_half && n_packed == 1,
        Operation::Approximate(_) | Operation::DivideApproximately | Operation::DivideFull => {
            is_scalar_f32
        }
        Operation::ApproximateUpperHalf(_) => kind == F64,
        Operation::Divide
        | Operation::Reciprocal
        | Operation::SquareRoot
        | Operation::CopySign
        | Operation::Test(_) => !is_half && n_packed == 1,
        Operation::Minimum | Operation::Maximum | Operation::Negate | Operation::Absolute => {
            is_half || n_packed == 1
        }
    };
    if !kinds_fit {
        return Err(left.combination("the instruction has no such type"));
    }
    let may_round = is_sum
        || matches!(
            operation,
            Operation::Divide | Operation::Reciprocal | Operation::SquareRoot
        );
    let only_nearest = is_half && !matches!(flags.rounding, None | Some(Rounding::NearestEven));
    if flags.rounding.is_some() && !may_round || only_nearest {
        return Err(left.combination("the rounding is not one that the type has"));
    }
    if operation == Operation::FusedMultiplyAdd && flags.rounding.is_none() && !is_half {
        return Err(left.missing("a rounding"));
    }
    let takes_approx = matches!(
        operation,
        Operation::Approximate(_)
            | Operation::ApproximateUpperHalf(_)
            | Operation::DivideApproximately
    );
    let is_tanh = operation == Operation::Approximate(Function::Tanh);
    let is_exp2 = operation == Operation::Approximate(Function::Exp2);
    let takes_ftz = match operation {
        Operation::CopySign | Operation::Test(_) => false,
        _ if is_tanh => false,
        _ if is_exp2 && kind == F16 => false,
        _ if is_exp2 && kind == Bf16 => true,
        Operation::ApproximateUpperHalf(_) => true,
        _ => matches!(kind, F32 | F16),
    };
    let rules = [
        (
            flags.approx && !takes_approx,
            "`.approx` does not belong there",
        ),
        (
            flags.full && operation != Operation::DivideFull,
            "`.full` belongs to `div`",
        ),
        (flags.ftz && !takes_ftz, "`.ftz` does not belong there"),
        (
            is_exp2 && kind == Bf16 && !flags.ftz,
            "`ex2` of bf16 has `.ftz`",
        ),
        (
            flags.sat && !(is_sum && (is_scalar_f32 || kind == F16)),
            "`.sat` belongs to sums and products of f32, f16 and f16x2",
        ),
        (
            flags.relu && !(operation == Operation::FusedMultiplyAdd && is_half && !flags.sat),
            "`.relu` belongs to `fma` of f16 and bf16",
        ),
        (
            (flags.nan || flags.abs || flags.xorsign) && (!is_extreme || kind == F64),
            "`.NaN`, `.abs` and `.xorsign` belong to `min` and `max` below f64",
        ),
        (flags.xorsign && !flags.abs, "`.xorsign` goes with `.abs`"),
        (
            flags.abs && !flags.xorsign && is_half,
            "`.abs` alone belongs to three operands of f32",
        ),
    ];
    match rules.into_iter().find(|(broken, _)| *broken) {
        Some((_, reason)) => Err(left.combination(reason)),
        None => Ok(()),
    }
}
