//! The forms of `mma`: which types, shapes and kinds exist, and where.
//!
//! ```text
//! shape                 A and B                       C and D   from
//! m16n8k8   m16n8k16    f16                           f16, f32  sm_80
//! m16n8k8   m16n8k16    bf16                          f32       sm_80
//! m16n8k4   m16n8k8     tf32                          f32       sm_80
//! m16n8k16  m16n8k32    s8, u8, also mixed            s32       sm_80
//! m16n8k32  m16n8k64    s4, u4, also mixed            s32       sm_80
//! m16n8k16  m16n8k32    e4m3, e5m2, also mixed        f16, f32  sm_89
//! m16n8k32  kind::f8f6f4    e4m3 e5m2 e3m2 e2m3 e2m1  f16, f32  family 12.x
//! m16n8k32  kind::mxf8f6f4  the same, 1X ue8m0        f32       family 12.x
//! m16n8k64  kind::mxf4      e2m1, 2X ue8m0            f32       family 12.x
//! m16n8k64  kind::mxf4nvf4  e2m1, 2X ue8m0,
//!                           4X ue4m3, 4X ue8m0        f32       family 12.x
//! ```
//!
//! `.kind` may stand before or behind the shape. `4X ue8m0` is of PTX ISA 9.1: ptxas 13.0 does not
//! know it yet. `family 12.x` is sm_120a, sm_120f, sm_121a, sm_121f.
//!
//! Source: PTX ISA 9.1, 9.7.14.2, 9.7.14.3 and 9.7.14.5.14; acceptance by ptxas 13.0.88.

use super::element::Element;
use super::scale::ScaleType;
use crate::form::{FormError, Modifiers};
use crate::target::Target;

/// Type of C and D.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Accumulator {
    F16,
    F32,
    S32,
}

/// `.kind` of an `mma`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Plain,
    F8f6f4,
    Mxf8f6f4,
    Mxf4,
    Mxf4nvf4,
}

/// One `mma` with all its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MmaForm {
    pub(super) depth: usize,
    pub(super) a: Element,
    pub(super) b: Element,
    pub(super) accumulator: Accumulator,
    pub(super) kind: Kind,
    pub(super) saturate: bool,
    /// Type and number of scales per row of A.
    pub(super) scales: Option<(ScaleType, usize)>,
}

/// Registers of 32 bits that each operand of an `mma` has in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MmaRegisters {
    /// Registers of A.
    pub a: usize,
    /// Registers of B.
    pub b: usize,
    /// Registers of C.
    pub c: usize,
    /// Registers of D.
    pub d: usize,
    /// Whether scales of A and B follow.
    pub is_block_scaled: bool,
}

impl MmaForm {
    /// Reads the modifiers behind `mma`, as `["sync", "aligned", "m16n8k16", "row", "col", "f32",
    /// "f16", "f16", "f32"]`.
    ///
    /// # Errors
    ///
    /// [`FormError`] names what is missing, unknown, or what does not go together.
    pub fn parse(modifiers: &[&str]) -> Result<MmaForm, FormError> {
        let mut left = Modifiers::new("mma", modifiers);
        if left.take("sp") || left.take("sp::ordered_metadata") {
            return Err(left.not_interpreted("a sparse A"));
        }
        for (name, what) in [
            ("sync", "`.sync`"),
            ("aligned", "`.aligned`"),
            ("row", "`.row` for A"),
            ("col", "`.col` for B"),
        ] {
            if !left.take(name) {
                return Err(left.missing(what));
            }
        }
        let Some(shape) = left.take_first(shape_of) else {
            return Err(left.missing("a shape"));
        };
        let Shape::Depth(depth) = shape else {
            return Err(left.not_interpreted("a shape other than m16n8"));
        };
        let kind = left.take_first(kind_of).unwrap_or(Kind::Plain);
        let block_scale = left.take("block_scale");
        let scale_vec = left.take_first(scale_vec_of);
        let saturate = left.take("satfinite");
        let scale_type = left.take_last(scale_type_of);
        if left.take("b1") || left.take("f64") {
            return Err(left.not_interpreted("single bits and f64"));
        }
        let (Some(c), Some(b), Some(a), Some(d)) = (
            left.take_last(accumulator_of),
            left.take_last(Element::parse),
            left.take_last(Element::parse),
            left.take_last(accumulator_of),
        ) else {
            return Err(left.missing("the types of D, A, B and C"));
        };
        left.finish()?;
        if c != d {
            return Err(left.combination("C and D have one type"));
        }
        let form = MmaForm {
            depth,
            a,
            b,
            accumulator: d,
            kind,
            saturate,
            scales: scales_of(&left, kind, block_scale, scale_vec, scale_type)?,
        };
        form.check(&left)?;
        Ok(form)
    }

    fn check(&self, left: &Modifiers<'_>) -> Result<(), FormError> {
        let depth_fits = |depths: &[usize]| depths.contains(&self.depth);
        let is_float = self.accumulator != Accumulator::S32;
        let is_f32 = self.accumulator == Accumulator::F32;
        let (types_fit, depths_fit) = match self.kind {
            Kind::Mxf4 | Kind::Mxf4nvf4 => (
                self.a == Element::E2m1 && self.b == Element::E2m1 && is_f32,
                depth_fits(&[64]),
            ),
            Kind::F8f6f4 | Kind::Mxf8f6f4 => {
                let fits = |each: Element| each.is_fp8() || each.is_sub_byte_float();
                let accumulates = if self.kind == Kind::F8f6f4 {
                    is_float
                } else {
                    is_f32
                };
                (
                    fits(self.a) && fits(self.b) && accumulates,
                    depth_fits(&[32]),
                )
            }
            Kind::Plain => match (self.a, self.b) {
                (Element::F16, Element::F16) => (is_float, depth_fits(&[8, 16])),
                (Element::Bf16, Element::Bf16) => (is_f32, depth_fits(&[8, 16])),
                (Element::Tf32, Element::Tf32) => (is_f32, depth_fits(&[4, 8])),
                (Element::S8 | Element::U8, Element::S8 | Element::U8) => {
                    (!is_float, depth_fits(&[16, 32]))
                }
                (Element::S4 | Element::U4, Element::S4 | Element::U4) => {
                    (!is_float, depth_fits(&[32, 64]))
                }
                (a, b) if a.is_fp8() && b.is_fp8() => (is_float, depth_fits(&[16, 32])),
                _ => (false, true),
            },
        };
        if !types_fit {
            return Err(left.combination("no `mma` of these types and this kind"));
        }
        if !depths_fit {
            return Err(left.combination("the types have no such shape"));
        }
        if self.saturate && is_float {
            return Err(left.combination("`.satfinite` belongs to integers"));
        }
        Ok(())
    }

    /// Registers of each operand.
    pub fn registers(&self) -> MmaRegisters {
        let bits = self.container_bits(self.a) as usize;
        let accumulators = if self.accumulator == Accumulator::F16 {
            2
        } else {
            4
        };
        MmaRegisters {
            a: 16 * self.depth * bits / (32 * 32),
            b: 8 * self.depth * bits / (32 * 32),
            c: accumulators,
            d: accumulators,
            is_block_scaled: self.scales.is_some(),
        }
    }

    /// Whether the target has the instruction.
    ///
    /// # Errors
    ///
    /// [`FormError::Target`] names the targets that have it.
    pub fn check_target(&self, target: Target) -> Result<(), FormError> {
        let (has, needs) = if self.kind != Kind::Plain {
            (
                target.has_family_12_features(),
                "sm_120a, sm_120f, sm_121a or sm_121f",
            )
        } else if self.a.is_fp8() {
            (target.capability() >= 89, "sm_89")
        } else {
            (target.capability() >= 80, "sm_80")
        };
        if has {
            return Ok(());
        }
        Err(FormError::Target {
            form: format!("mma m16n8k{} {:?} {:?}", self.depth, self.kind, self.a),
            needs,
            target,
        })
    }

    /// Bits of a register that an element of A or B takes.
    pub(super) const fn container_bits(&self, element: Element) -> u32 {
        match self.kind {
            Kind::Mxf4 | Kind::Mxf4nvf4 => 4,
            _ => element.container_bits(),
        }
    }
}

enum Shape {
    Depth(usize),
    Other,
}

fn shape_of(name: &str) -> Option<Shape> {
    if let Some(depth) = name.strip_prefix("m16n8k") {
        return depth.parse().ok().map(Shape::Depth);
    }
    matches!(name, "m8n8k4" | "m8n8k16" | "m8n8k32" | "m8n8k128").then_some(Shape::Other)
}

fn kind_of(name: &str) -> Option<Kind> {
    Some(match name {
        "kind::f8f6f4" => Kind::F8f6f4,
        "kind::mxf8f6f4" => Kind::Mxf8f6f4,
        "kind::mxf4" => Kind::Mxf4,
        "kind::mxf4nvf4" => Kind::Mxf4nvf4,
        _ => return None,
    })
}

fn scale_vec_of(name: &str) -> Option<usize> {
    Some(match name {
        "scale_vec::1X" => 1,
        "scale_vec::2X" => 2,
        "scale_vec::4X" => 4,
        _ => return None,
    })
}

fn scale_type_of(name: &str) -> Option<ScaleType> {
    Some(match name {
        "ue8m0" => ScaleType::Ue8m0,
        "ue4m3" => ScaleType::Ue4m3,
        _ => return None,
    })
}

fn accumulator_of(name: &str) -> Option<Accumulator> {
    Some(match name {
        "f16" => Accumulator::F16,
        "f32" => Accumulator::F32,
        "s32" => Accumulator::S32,
        _ => return None,
    })
}

fn scales_of(
    left: &Modifiers<'_>,
    kind: Kind,
    block_scale: bool,
    scale_vec: Option<usize>,
    scale_type: Option<ScaleType>,
) -> Result<Option<(ScaleType, usize)>, FormError> {
    if matches!(kind, Kind::Plain | Kind::F8f6f4) {
        if block_scale || scale_vec.is_some() || scale_type.is_some() {
            return Err(left.combination("scales belong to the kinds `mx...`"));
        }
        return Ok(None);
    }
    if !block_scale {
        return Err(left.missing("`.block_scale`"));
    }
    let Some(scale_type) = scale_type else {
        return Err(left.missing("the type of the scales at its end"));
    };
    let n_per_row = match (kind, scale_vec) {
        (_, Some(n)) => n,
        (Kind::Mxf8f6f4, None) => 1,
        (Kind::Mxf4, None) => 2,
        _ => return Err(left.missing("`.scale_vec`")),
    };
    let fits = match (kind, n_per_row) {
        (Kind::Mxf8f6f4, 1) | (Kind::Mxf4 | Kind::Mxf4nvf4, 2) => scale_type == ScaleType::Ue8m0,
        (Kind::Mxf4nvf4, 4) => true,
        _ => false,
    };
    if !fits {
        return Err(left.combination("the kind has no such scales"));
    }
    Ok(Some((scale_type, n_per_row)))
}
