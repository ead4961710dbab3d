//! One `cvt`: its modifiers read once, then applied to bits.
//!
//! ```text
//! one       d = convert(a)
//! pack      d = convert(a) | convert(b)      a in the upper half: f16x2, e4m3x2, ... from f32
//! repack    each half of a                   f16x2 from e4m3x2, ue8m0x2 from bf16x2, ...
//! ```
//!
//! A number takes the bits of its format, e3m2 and e2m3 a whole byte with two zero bits on top.
//!
//! Source: PTX ISA 9.1, 9.7.9.21; rounding modifiers that the manual leaves open as ptxas 13.0
//! accepts them (`cvt.rm.bf16.f32`).

use super::number::{Format, Rules};
use crate::float::Rounding;
use crate::float::format::{
    BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, F32, F64, FloatFormat, Specials,
};
use crate::form::{FormError, Modifiers};
use crate::target::Target;

/// A type as `cvt` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Type {
    format: Format,
    /// Numbers in one operand.
    n_packed: u32,
    /// Bits that one of them takes.
    slot_bits: u32,
}

/// A `cvt` with all its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conversion {
    rules: Rules,
    destination: Type,
    source: Type,
    rounds_away: bool,
}

impl Conversion {
    /// Reads the modifiers behind `cvt`: `parse(&["rn", "satfinite", "e4m3x2", "f32"])`.
    ///
    /// # Errors
    ///
    /// [`FormError`] names what is missing, unknown or out of place.
    pub fn parse(modifiers: &[&str]) -> Result<Conversion, FormError> {
        let mut left = Modifiers::new("cvt", modifiers);
        if left.take("pack") {
            return Err(left.not_interpreted("integers packed by `cvt.pack`"));
        }
        if left.take("rs") || left.take_first(format_of_four).is_some() {
            return Err(left.not_interpreted("stochastic rounding and packs of four"));
        }
        if left.take("s2f6x2") {
            return Err(left.not_interpreted("fixed point with two and six bits"));
        }
        let (Some(source), Some(destination)) = (left.take_last(type_of), left.take_last(type_of))
        else {
            return Err(left.missing("a destination and a source type at its end"));
        };
        let rounding = left.take_first(rounding_of);
        let flags = Flags {
            rounding,
            ftz: left.take("ftz"),
            sat: left.take("sat"),
            satfinite: left.take("satfinite"),
            relu: left.take("relu"),
        };
        left.finish()?;
        check_types(&left, destination, source)?;
        check_rounding(&left, destination, source, rounding)?;
        check_flags(&left, destination, source, &flags)?;
        let (rounding, whole) = rounding.unwrap_or((Rounding::NearestEven, false));
        Ok(Conversion {
            rules: Rules {
                source: source.format,
                destination: destination.format,
                rounding,
                to_whole: whole && !destination.format.is_integer(),
                flush: flags.ftz,
                saturate: flags.sat,
                finite: flags.satfinite,
                relu: flags.relu,
            },
            destination,
            source,
            rounds_away: rounding == Rounding::NearestAway,
        })
    }

    /// Whether the target has the conversion.
    ///
    /// # Errors
    ///
    /// [`FormError::Target`] names the first targets that have it.
    pub fn check_target(&self, target: Target) -> Result<(), FormError> {
        let types = [self.destination, self.source];
        let any = |formats: &[FloatFormat]| {
            types.iter().any(
                |each| matches!(each.format, Format::Float(format) if formats.contains(&format)),
            )
        };
        let is_narrow =
            any(&[E3M2, E2M3, E2M1]) || types.iter().any(|each| each.format == Format::Scale);
        let is_fp8 = any(&[E4M3, E5M2]);
        let needs = if is_narrow || is_fp8 && any(&[BF16]) {
            "sm_120a, sm_120f, sm_121a or sm_121f"
        } else if is_fp8 {
            "sm_89"
        } else if self.destination.format == Format::Tf32 && !self.rounds_away {
            if self.rules.finite { "sm_100" } else { "sm_90" }
        } else if any(&[BF16]) && !self.is_between_f32_and_bf16() {
            "sm_90"
        } else {
            "sm_80"
        };
        let has = match needs {
            "sm_80" => true,
            "sm_89" => target.capability() >= 89,
            "sm_90" => target.capability() >= 90,
            "sm_100" => target.capability() >= 100,
            _ => target.has_family_12_features(),
        };
        if has {
            return Ok(());
        }
        Err(FormError::Target {
            form: format!(
                "cvt to {:?} from {:?}",
                self.destination.format, self.source.format
            ),
            needs,
            target,
        })
    }

    fn is_between_f32_and_bf16(&self) -> bool {
        let formats = (self.destination.format, self.source.format);
        formats == (Format::Float(BF16), Format::Float(F32))
            || formats == (Format::Float(F32), Format::Float(BF16)) && !self.rules.flush
    }

    /// Operands: two where f32 values are packed, else one.
    pub fn n_sources(&self) -> usize {
        if self.destination.n_packed == 2 && self.source.n_packed == 1 {
            2
        } else {
            1
        }
    }

    /// Bits of one source operand that are read.
    pub fn source_bits(&self) -> u32 {
        self.source.slot_bits * self.source.n_packed
    }

    /// Bits of the result.
    pub fn destination_bits(&self) -> u32 {
        self.destination.slot_bits * self.destination.n_packed
    }

    /// The result of operands given as bits; bits above [`Conversion::source_bits`] are ignored.
    ///
    /// A signed integer comes with its sign in all 64 bits, everything else with zeros above: what
    /// a wider register gets.
    ///
    /// # Panics
    ///
    /// If there are fewer operands than [`Conversion::n_sources`] says.
    pub fn apply(&self, sources: &[u64]) -> u64 {
        if self.destination.n_packed == 1 {
            return self.rules.apply(sources[0]);
        }
        let [low, high] = if self.source.n_packed == 1 {
            [sources[1], sources[0]]
        } else {
            [sources[0], sources[0] >> self.source.slot_bits]
        };
        self.rules.apply(low) | self.rules.apply(high) << self.destination.slot_bits
    }
}

struct Flags {
    rounding: Option<(Rounding, bool)>,
    ftz: bool,
    sat: bool,
    satfinite: bool,
    relu: bool,
}

fn format_of_four(name: &str) -> Option<()> {
    matches!(name, "e4m3x4" | "e5m2x4" | "e2m3x4" | "e3m2x4" | "e2m1x4").then_some(())
}

fn type_of(name: &str) -> Option<Type> {
    let one = |format: Format| Type {
        format,
        n_packed: 1,
        slot_bits: format.bits(),
    };
    let two = |format, slot_bits| Type {
        format,
        n_packed: 2,
        slot_bits,
    };
    Some(match name {
        "u8" => one(Format::Unsigned(8)),
        "u16" => one(Format::Unsigned(16)),
        "u32" => one(Format::Unsigned(32)),
        "u64" => one(Format::Unsigned(64)),
        "s8" => one(Format::Signed(8)),
        "s16" => one(Format::Signed(16)),
        "s32" => one(Format::Signed(32)),
        "s64" => one(Format::Signed(64)),
        "f16" => one(Format::Float(F16)),
        "bf16" => one(Format::Float(BF16)),
        "f32" => one(Format::Float(F32)),
        "f64" => one(Format::Float(F64)),
        "tf32" => one(Format::Tf32),
        "f16x2" => two(Format::Float(F16), 16),
        "bf16x2" => two(Format::Float(BF16), 16),
        "e4m3x2" => two(Format::Float(E4M3), 8),
        "e5m2x2" => two(Format::Float(E5M2), 8),
        "e2m3x2" => two(Format::Float(E2M3), 8),
        "e3m2x2" => two(Format::Float(E3M2), 8),
        "e2m1x2" => two(Format::Float(E2M1), 4),
        "ue8m0x2" => two(Format::Scale, 8),
        _ => return None,
    })
}

/// A rounding, and whether it rounds to whole numbers.
fn rounding_of(name: &str) -> Option<(Rounding, bool)> {
    Some(match name {
        "rn" => (Rounding::NearestEven, false),
        "rna" => (Rounding::NearestAway, false),
        "rz" => (Rounding::TowardZero, false),
        "rm" => (Rounding::Down, false),
        "rp" => (Rounding::Up, false),
        "rni" => (Rounding::NearestEven, true),
        "rzi" => (Rounding::TowardZero, true),
        "rmi" => (Rounding::Down, true),
        "rpi" => (Rounding::Up, true),
        _ => return None,
    })
}

/// Formats of eight bits and less, which come in pairs only.
fn is_small(each: Type) -> bool {
    each.n_packed == 2 && each.slot_bits <= 8
}

fn is_half(each: Type) -> bool {
    each.format == Format::Float(F16) || each.format == Format::Float(BF16)
}

fn check_types(left: &Modifiers<'_>, destination: Type, source: Type) -> Result<(), FormError> {
    let is_f32 = source.format == Format::Float(F32);
    let fits = match (destination.n_packed, source.n_packed) {
        (1, 1) if destination.format == Format::Tf32 => is_f32,
        (1, 1) => source.format != Format::Tf32,
        (2, 1) => is_f32,
        (2, 2) if destination.format == Format::Scale => source.format == Format::Float(BF16),
        (2, 2) if source.format == Format::Scale => destination.format == Format::Float(BF16),
        (2, 2) if is_small(destination) => is_half(source),
        (2, 2) => destination.format == Format::Float(F16) && is_small(source),
        _ => false,
    };
    if fits {
        Ok(())
    } else {
        Err(left.combination("no conversion between these types"))
    }
}

/// Whether every number of the source is one of the destination.
fn is_exact(destination: Format, source: Format) -> bool {
    match (destination, source) {
        (Format::Float(to), Format::Float(from)) => {
            to.exponent_bits >= from.exponent_bits && to.mantissa_bits >= from.mantissa_bits
        }
        (to, from) => to.is_integer() && from.is_integer(),
    }
}

fn check_rounding(
    left: &Modifiers<'_>,
    destination: Type,
    source: Type,
    rounding: Option<(Rounding, bool)>,
) -> Result<(), FormError> {
    use Rounding::{NearestAway, NearestEven, TowardZero, Up};
    let Some((rounding, whole)) = rounding else {
        if destination.n_packed == 1 && is_exact(destination.format, source.format) {
            return Ok(());
        }
        return Err(left.missing("a rounding"));
    };
    let wrong = || left.combination("not the rounding of this conversion");
    let to_integer = destination.format.is_integer();
    let from_integer = source.format.is_integer();
    let fits = if destination.format == Format::Scale {
        !whole && matches!(rounding, TowardZero | Up)
    } else if is_small(destination) || is_small(source) {
        !whole && rounding == NearestEven
    } else if destination.format == Format::Tf32 {
        !whole && matches!(rounding, NearestEven | NearestAway | TowardZero)
    } else if destination.n_packed == 2 {
        !whole && matches!(rounding, NearestEven | TowardZero)
    } else if to_integer {
        whole && !from_integer
    } else if whole {
        destination == source
    } else {
        rounding != NearestAway && !is_exact(destination.format, source.format)
    };
    if fits { Ok(()) } else { Err(wrong()) }
}

fn check_flags(
    left: &Modifiers<'_>,
    destination: Type,
    source: Type,
    flags: &Flags,
) -> Result<(), FormError> {
    let from_f32 = source.format == Format::Float(F32);
    let some_f32 = from_f32 || destination.format == Format::Float(F32);
    let is_scalar = destination.n_packed == 1;
    let may_saturate = match destination.format {
        Format::Float(format) => {
            is_scalar
                && format.specials == Specials::Ieee
                && destination.format != Format::Float(BF16)
        }
        Format::Unsigned(_) | Format::Signed(_) => integer_may_saturate(destination, source),
        Format::Tf32 | Format::Scale => false,
    };
    // Halves from f32 and the small formats; `.rna` to tf32 has no `.relu`.
    let is_away = matches!(flags.rounding, Some((Rounding::NearestAway, _)));
    let may_be_finite = is_small(destination)
        || destination.format == Format::Tf32
        || is_half(destination) && from_f32;
    let may_clamp = !is_away
        && destination.format != Format::Scale
        && source.format != Format::Scale
        && (may_be_finite || is_small(source));
    let directed = matches!(flags.rounding, Some((Rounding::Down | Rounding::Up, _)));
    let is_fp = is_small(destination) && destination.format != Format::Scale;
    let rules = [
        (
            flags.ftz && !(some_f32 && is_scalar),
            "`.ftz` needs f32 on one side",
        ),
        (
            flags.sat && !may_saturate,
            "`.sat` changes nothing or does not exist",
        ),
        (
            flags.satfinite && (!may_be_finite || directed && is_half(destination)),
            "no `.satfinite` between these types",
        ),
        (
            flags.relu && (!may_clamp || directed),
            "no `.relu` between these types",
        ),
        (
            flags.sat && (flags.satfinite || flags.relu),
            "`.sat` stands alone",
        ),
        (
            is_fp && !flags.satfinite,
            "formats of eight bits and less need `.satfinite`",
        ),
    ];
    match rules.into_iter().find(|(broken, _)| *broken) {
        Some((_, reason)) => Err(left.combination(reason)),
        None => Ok(()),
    }
}

/// Whether a number of the source can be out of the destination's range.
fn integer_may_saturate(destination: Type, source: Type) -> bool {
    match (destination.format, source.format) {
        (Format::Unsigned(to), Format::Unsigned(from)) => from > to,
        (Format::Signed(to), Format::Signed(from)) => from > to,
        (Format::Signed(to), Format::Unsigned(from)) => from >= to,
        _ => true,
    }
}
