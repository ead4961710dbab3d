//! Operators that move elements without computing.

use super::operator::{Exported, Inferred, Operator};
use crate::file::export::attributes::Attributes;
use crate::file::export::nodes::NodeExport;
use crate::file::import::call::{Call, Translated, Translator};
use crate::graph::infer::{
    Operands, check_index, check_rank, check_rank_at_least, check_same_dtype, check_scalar,
    constant_extents, constant_ints, one, op_error,
};
use crate::graph::{
    Binary, Cast, Concat, DepthToSpace, Expand, Flatten, Gather, Op, Pad, PadAxis, PadMode,
    Reshape, Shape, Slice, SpaceToDepth, Split, Squeeze, TensorType, Tile, Transpose, Trilu,
    Unsqueeze, Variadic, broadcast_shapes, resolve_axes, resolve_axis, resolve_pads, resolve_slice,
};
use crate::tensor::{DType, MAX_ELEMENTS};

/// Operators of a file that are short for others, or for a constant.
pub(super) const SPELLED_OUT: &[Translator] = &[("CenterCropPad", center)];

impl Operator for Reshape {
    const IMPORTS: &'static [Translator] = &[("Reshape", reshape)];

    fn name(&self) -> &'static str {
        "Reshape"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 2, 1)?;
        let x = operands.required(0, "x")?;
        let target = constant_ints("shape", &operands.required(1, "shape")?)?;
        let mut shape = Vec::with_capacity(target.len());
        let mut open = None;
        for (axis, &extent) in target.iter().enumerate() {
            match extent {
                -1 if open.is_none() => {
                    open = Some(axis);
                    shape.push(1);
                }
                0 if !self.allow_zero => match x.shape.get(axis) {
                    Some(&same) => shape.push(same),
                    None => {
                        return Err(op_error!(
                            "shape {target:?} keeps axis {axis} of {:?}",
                            x.shape
                        ));
                    }
                },
                0.. if extent as u64 <= MAX_ELEMENTS as u64 => shape.push(extent as usize),
                _ => return Err(op_error!("{extent} in shape {target:?}")),
            }
        }
        let fixed = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        let misfit = || op_error!("{:?} cannot take shape {target:?}", x.shape);
        let fixed = fixed.ok_or_else(misfit)?;
        match open {
            Some(axis) if fixed > 0 && x.len().is_multiple_of(fixed) => {
                shape[axis] = x.len() / fixed
            }
            None if fixed == x.len() => {}
            _ => return Err(misfit()),
        }
        one(x.dtype, shape)
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().flag("allowzero", self.allow_zero))
    }
}

impl Operator for Flatten {
    const IMPORTS: &'static [Translator] = &[("Flatten", flatten)];

    fn name(&self) -> &'static str {
        "Flatten"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        // The cut may also be behind the last self.axis.
        let axis = match self.axis {
            a if a == x.rank() as i64 => x.rank(),
            a => resolve_axis(a, x.rank())?,
        };
        let (rows, columns) = x.shape.split_at(axis);
        one(
            x.dtype,
            [rows.iter().product::<usize>(), columns.iter().product()],
        )
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().int("axis", self.axis))
    }
}

impl Operator for Squeeze {
    const IMPORTS: &'static [Translator] = &[("Squeeze", squeeze)];

    fn name(&self) -> &'static str {
        "Squeeze"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 2, 1)?;
        let x = operands.required(0, "x")?;
        let mut drop: Vec<bool> = x.shape.iter().map(|&d| d == 1).collect();
        if let Some(axes) = operands.optional(1) {
            drop.fill(false);
            for axis in resolve_axes(&constant_ints("axes", &axes)?, x.rank())? {
                if x.shape[axis] != 1 {
                    return Err(op_error!("axis {axis} of shape {:?} is not 1", x.shape));
                }
                drop[axis] = true;
            }
        }
        let kept = x.shape.iter().zip(&drop).filter(|&(_, &drop)| !drop);
        one(x.dtype, kept.map(|(&d, _)| d).collect::<Vec<_>>())
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

impl Operator for Unsqueeze {
    const IMPORTS: &'static [Translator] = &[("Unsqueeze", unsqueeze)];

    fn name(&self) -> &'static str {
        "Unsqueeze"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 2, 1)?;
        let x = operands.required(0, "x")?;
        let axes = constant_ints("axes", &operands.required(1, "axes")?)?;
        let rank = x.rank() + axes.len();
        let mut new = vec![false; rank];
        for axis in resolve_axes(&axes, rank)? {
            new[axis] = true;
        }
        let mut old = x.shape.iter();
        let shape: Vec<usize> = new
            .iter()
            .filter_map(|&new| if new { Some(1) } else { old.next().copied() })
            .collect();
        one(x.dtype, shape)
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

impl Operator for Transpose {
    const IMPORTS: &'static [Translator] = &[("Transpose", transpose)];

    fn name(&self) -> &'static str {
        "Transpose"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        let Some(perm) = &self.perm else {
            return one(x.dtype, x.shape.iter().rev().copied().collect::<Vec<_>>());
        };
        let mut sorted = perm.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..x.rank()) {
            return Err(op_error!(
                "perm {perm:?} is no permutation of {} axes",
                x.rank()
            ));
        }
        one(
            x.dtype,
            perm.iter().map(|&axis| x.shape[axis]).collect::<Vec<_>>(),
        )
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().extents("perm", self.perm.as_deref().unwrap_or_default()))
    }
}

impl Operator for Concat {
    const IMPORTS: &'static [Translator] = &[("Concat", concat)];

    fn name(&self) -> &'static str {
        "Concat"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, usize::MAX, 1)?;
        let first = operands.required(0, "x0")?;
        let axis = resolve_axis(self.axis, first.rank())?;
        let mut shape = first.shape.to_vec();
        shape[axis] = 0;
        for index in 0..operands.list.len() {
            let x = operands.required(index, "x")?;
            check_same_dtype("x", &x, first.dtype)?;
            let agrees = |(i, &d): (usize, &usize)| i == axis || d == first.shape[i];
            if x.rank() != first.rank() || !x.shape.iter().enumerate().all(agrees) {
                return Err(op_error!(
                    "operand {index} of shape {:?} does not join {:?} along axis {axis}",
                    x.shape,
                    first.shape
                ));
            }
            // Each is at most MAX_ELEMENTS, and a file holds fewer than 2^32 operands.
            shape[axis] += x.shape[axis];
        }
        one(first.dtype, shape)
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().int("axis", self.axis))
    }
}

impl Operator for Split {
    const IMPORTS: &'static [Translator] = &[("Split", split)];

    fn name(&self) -> &'static str {
        "Split"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 2, usize::MAX)?;
        let x = operands.required(0, "x")?;
        let axis = resolve_axis(self.axis, x.rank())?;
        let n = operands.n_outputs;
        let extent = x.shape[axis];
        let parts = match operands.optional(1) {
            Some(split) => constant_extents("split", &split)?,
            None => {
                let whole = extent.div_ceil(n);
                (0..n)
                    .map(|i| extent.saturating_sub(i * whole).min(whole))
                    .collect()
            }
        };
        if parts.len() != n || parts.iter().sum::<usize>() != extent {
            return Err(op_error!(
                "parts {parts:?} do not cut an axis of {extent} into {n}"
            ));
        }
        let part = |part: usize| {
            let mut shape = x.shape.to_vec();
            shape[axis] = part;
            TensorType {
                dtype: x.dtype,
                shape,
            }
        };
        Ok(parts.into_iter().map(part).collect())
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().int("axis", self.axis))
    }

    /// From operator set 18 on, equal parts want their number stated.
    fn export<'g>(&'g self, node: &mut NodeExport<'_, 'g>) -> Result<(), String> {
        let mut attributes = self.attributes()?;
        if node.inputs.len() < 2 {
            attributes = attributes.int("num_outputs", node.outputs.len() as i64);
        }
        node.finish(self.name(), attributes)
    }
}

impl Operator for Slice {
    const IMPORTS: &'static [Translator] = &[("Slice", slice)];

    fn name(&self) -> &'static str {
        "Slice"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(3, 5, 1)?;
        let x = operands.required(0, "x")?;
        let slices = resolve_slice(
            x.shape,
            operands.required(1, "starts")?,
            operands.required(2, "ends")?,
            operands.optional(3),
            operands.optional(4),
        )?;
        one(x.dtype, slices.iter().map(|s| s.len).collect::<Vec<_>>())
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1, 2, 3, 4]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

impl Operator for Expand {
    const IMPORTS: &'static [Translator] = &[("Expand", expand)];

    fn name(&self) -> &'static str {
        "Expand"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 2, 1)?;
        let x = operands.required(0, "x")?;
        let target = constant_extents("shape", &operands.required(1, "shape")?)?;
        one(x.dtype, broadcast_shapes(x.shape, &target)?)
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

impl Operator for Tile {
    const IMPORTS: &'static [Translator] = &[("Tile", tile)];

    fn name(&self) -> &'static str {
        "Tile"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 2, 1)?;
        let x = operands.required(0, "x")?;
        let repeats = constant_extents("repeats", &operands.required(1, "repeats")?)?;
        if repeats.len() != x.rank() {
            return Err(op_error!("{} repeats for {} axes", repeats.len(), x.rank()));
        }
        // Both factors are at most 2^31.
        one(
            x.dtype,
            x.shape
                .iter()
                .zip(&repeats)
                .map(|(&d, &n)| d * n)
                .collect::<Vec<_>>(),
        )
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default())
    }
}

impl Operator for Pad {
    const IMPORTS: &'static [Translator] = &[("Pad", pad)];

    fn name(&self) -> &'static str {
        "Pad"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(2, 4, 1)?;
        let x = operands.required(0, "x")?;
        let pads = operands.required(1, "pads")?;
        if let Some(value) = operands.optional(2) {
            check_same_dtype("value", &value, x.dtype)?;
            check_scalar("value", &value)?;
        }
        let pads = resolve_pads(self.mode, x.shape, pads, operands.optional(3))?;
        let padded = |(&d, pad): (&usize, &PadAxis)| (d as i64 + pad.begin + pad.end) as usize;
        one(
            x.dtype,
            x.shape.iter().zip(&pads).map(padded).collect::<Vec<_>>(),
        )
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1, 2, 3]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().text("mode", pad_mode(self.mode)))
    }
}

impl Operator for DepthToSpace {
    const IMPORTS: &'static [Translator] = &[("DepthToSpace", depth_to_space)];

    fn name(&self) -> &'static str {
        "DepthToSpace"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        let block = self.block;
        check_rank("x", &x, 4)?;
        let [n, c, h, w] = [x.shape[0], x.shape[1], x.shape[2], x.shape[3]];
        if !(1..=MAX_ELEMENTS).contains(&block) || !c.is_multiple_of(block * block) {
            return Err(op_error!(
                "{c} channels do not make blocks of {block}x{block}"
            ));
        }
        one(x.dtype, [n, c / (block * block), h * block, w * block])
    }

    fn attributes(&self) -> Exported<'_> {
        let mode = if self.crd { "CRD" } else { "DCR" };
        Ok(Attributes::default()
            .int("blocksize", self.block as i64)
            .text("mode", mode))
    }
}

impl Operator for SpaceToDepth {
    const IMPORTS: &'static [Translator] = &[("SpaceToDepth", space_to_depth)];

    fn name(&self) -> &'static str {
        "SpaceToDepth"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 1, 1)?;
        let x = operands.required(0, "x")?;
        let block = self.block;
        check_rank("x", &x, 4)?;
        let [n, c, h, w] = [x.shape[0], x.shape[1], x.shape[2], x.shape[3]];
        if block == 0 || !h.is_multiple_of(block) || !w.is_multiple_of(block) {
            return Err(op_error!(
                "{h}x{w} does not split into blocks of {block}x{block}"
            ));
        }
        let Some(channels) = block
            .checked_mul(block)
            .and_then(|area| c.checked_mul(area))
        else {
            return Err(op_error!("blocks of {block}x{block} overflow"));
        };
        one(x.dtype, [n, channels, h / block, w / block])
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().int("blocksize", self.block as i64))
    }
}

impl Operator for Trilu {
    const IMPORTS: &'static [Translator] = &[("Trilu", triangle)];

    fn name(&self) -> &'static str {
        "Trilu"
    }

    fn infer(&self, operands: &Operands<'_>) -> Inferred {
        operands.expect(1, 2, 1)?;
        let x = operands.required(0, "x")?;
        check_rank_at_least("x", &x, 2)?;
        if let Some(k) = operands.optional(1) {
            check_index("k", &k)?;
            check_scalar("k", &k)?;
        }
        one(x.dtype, x.shape)
    }

    fn deciding_operands(&self) -> &'static [usize] {
        &[1]
    }

    fn attributes(&self) -> Exported<'_> {
        Ok(Attributes::default().flag("upper", self.upper))
    }
}

fn reshape(call: &mut Call<'_, '_>) -> Translated {
    call.form_since(5)?;
    call.operands(2, 2)?;
    let allow_zero = call.flag("allowzero", false)?;
    call.finish_as_is(Op::Reshape(Reshape { allow_zero }))
}

fn flatten(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let axis = call.int_or("axis", 1)?;
    call.finish_as_is(Op::Flatten(Flatten { axis }))
}

/// Axes are a parameter before operator set 13.
fn squeeze(call: &mut Call<'_, '_>) -> Translated {
    if call.opset() >= 13 {
        call.operands(1, 2)?;
        return call.finish_as_is(Op::Squeeze(Squeeze));
    }
    call.operands(1, 1)?;
    let mut inputs = call.inputs();
    if let Some(axes) = call.ints("axes")? {
        inputs.push(Some(call.new_ints("axes", axes)?));
    }
    call.finish(Op::Squeeze(Squeeze), inputs)
}

/// Axes are a parameter before operator set 13.
fn unsqueeze(call: &mut Call<'_, '_>) -> Translated {
    if call.opset() >= 13 {
        call.operands(2, 2)?;
        return call.finish_as_is(Op::Unsqueeze(Unsqueeze));
    }
    call.operands(1, 1)?;
    let Some(axes) = call.ints("axes")? else {
        return Err(call.error("attribute `axes` is missing"));
    };
    let mut inputs = call.inputs();
    inputs.push(Some(call.new_ints("axes", axes)?));
    call.finish(Op::Unsqueeze(Unsqueeze), inputs)
}

fn transpose(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let perm = call.extents("perm")?;
    if let Some(perm) = &perm {
        let mut sorted = perm.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..perm.len()) {
            return Err(call.error(format!("attribute `perm` {perm:?} is no permutation")));
        }
    }
    call.finish_as_is(Op::Transpose(Transpose { perm }))
}

fn concat(call: &mut Call<'_, '_>) -> Translated {
    call.form_since(4)?;
    let count = call.inputs().len();
    call.operands(count.max(1), usize::MAX)?;
    let Some(axis) = call.int("axis")? else {
        return Err(call.error("attribute `axis` is missing"));
    };
    call.finish_as_is(Op::Concat(Concat { axis }))
}

/// The parts' extents are a parameter before operator set 13; from 18 on the number
/// of equal parts is stated too, and must be the number of results.
fn split(call: &mut Call<'_, '_>) -> Translated {
    call.form_since(2)?;
    let op = Op::Split(Split {
        axis: call.int_or("axis", 0)?,
    });
    let n_results = call.node.outputs.len();
    if let Some(n) = call.int("num_outputs")? {
        if n != n_results as i64 {
            return Err(call.error(format!("{n_results} results, `num_outputs` is {n}")));
        }
        if call.input(1).is_some() {
            return Err(call.error("both `split` and `num_outputs` are given"));
        }
    }
    if call.opset() >= 13 {
        call.operands(1, 2)?;
        return call.finish_as_is(op);
    }
    call.operands(1, 1)?;
    let mut inputs = call.inputs();
    if let Some(parts) = call.ints("split")? {
        inputs.push(Some(call.new_ints("split", parts)?));
    }
    call.finish(op, inputs)
}

/// Bounds are parameters before operator set 10.
fn slice(call: &mut Call<'_, '_>) -> Translated {
    if call.opset() >= 10 {
        call.operands(3, 5)?;
        return call.finish_as_is(Op::Slice(Slice));
    }
    call.operands(1, 1)?;
    let mut inputs = call.inputs();
    for name in ["starts", "ends"] {
        let Some(bounds) = call.ints(name)? else {
            return Err(call.error(format!("attribute `{name}` is missing")));
        };
        inputs.push(Some(call.new_ints(name, bounds)?));
    }
    if let Some(axes) = call.ints("axes")? {
        inputs.push(Some(call.new_ints("axes", axes)?));
    }
    call.finish(Op::Slice(Slice), inputs)
}

fn expand(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    call.finish_as_is(Op::Expand(Expand))
}

fn tile(call: &mut Call<'_, '_>) -> Translated {
    call.form_since(6)?;
    call.operands(2, 2)?;
    call.finish_as_is(Op::Tile(Tile))
}

/// Widths and value are parameters before operator set 11.
fn pad(call: &mut Call<'_, '_>) -> Translated {
    call.form_since(2)?;
    let mode = call.choice(
        "mode",
        PadMode::Constant,
        &[
            ("constant", PadMode::Constant),
            ("reflect", PadMode::Reflect),
            ("edge", PadMode::Edge),
            ("wrap", PadMode::Wrap),
        ],
    )?;
    if call.opset() >= 11 {
        call.operands(2, 4)?;
        return call.finish_as_is(Op::Pad(Pad { mode }));
    }
    call.operands(1, 1)?;
    let x = call.required(0)?;
    let Some(pads) = call.ints("pads")? else {
        return Err(call.error("attribute `pads` is missing"));
    };
    let value = call.float_or("value", 0.0)?;
    let mut inputs = vec![Some(x), Some(call.new_ints("pads", pads)?)];
    if value != 0.0 {
        inputs.push(Some(call.scalar_like("value", f64::from(value), x)?));
    }
    call.finish(Op::Pad(Pad { mode }), inputs)
}

fn triangle(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 2)?;
    let upper = call.flag("upper", true)?;
    call.finish_as_is(Op::Trilu(Trilu { upper }))
}

fn depth_to_space(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let block = call.count("blocksize", 0)?;
    if block == 0 {
        return Err(call.error("attribute `blocksize` is missing"));
    }
    let crd = call.choice("mode", false, &[("DCR", false), ("CRD", true)])?;
    call.finish_as_is(Op::DepthToSpace(DepthToSpace { block, crd }))
}

fn space_to_depth(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    let block = call.count("blocksize", 0)?;
    if block == 0 {
        return Err(call.error("attribute `blocksize` is missing"));
    }
    call.choice("mode", (), &[("DCR", ())])?;
    call.finish_as_is(Op::SpaceToDepth(SpaceToDepth { block }))
}

fn pad_mode(mode: PadMode) -> &'static str {
    match mode {
        PadMode::Constant => "constant",
        PadMode::Reflect => "reflect",
        PadMode::Edge => "edge",
        PadMode::Wrap => "wrap",
    }
}

/// The middle of `x` where an axis is to be shorter, zeros around `x` where it is to be longer; what
/// is odd is cut, or added, at the end.
fn center(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    let x = call.required(0)?;
    let shape = call.required(1)?;
    let axes = match call.ints("axes")? {
        Some(axes) => Some(call.new_ints("axes", axes)?),
        None => None,
    };
    let wanted = call.step(Op::Cast(Cast { to: DType::I64 }), &[Some(shape)])?;
    let whole = Shape {
        start: 0,
        end: None,
    };
    let mut extents = call.step(Op::Shape(whole), &[Some(x)])?;
    if axes.is_some() {
        extents = call.step(Op::Gather(Gather { axis: 0 }), &[Some(extents), axes])?;
    }
    let zero = call.new_ints("zero", &[0])?;
    let two = call.new_ints("two", &[2])?;
    let (least, most) = (Op::Variadic(Variadic::Min), Op::Variadic(Variadic::Max));
    let surplus = call.binary_step(Binary::Sub, extents, wanted)?;
    let surplus = call.step(most.clone(), &[Some(surplus), Some(zero)])?;
    let starts = call.binary_step(Binary::Div, surplus, two)?;
    let lengths = call.step(least, &[Some(extents), Some(wanted)])?;
    let ends = call.binary_step(Binary::Add, starts, lengths)?;
    let mut operands = vec![Some(x), Some(starts), Some(ends)];
    operands.extend(axes.map(Some));
    let middle = call.step(Op::Slice(Slice), &operands)?;
    let missing = call.binary_step(Binary::Sub, wanted, extents)?;
    let missing = call.step(most, &[Some(missing), Some(zero)])?;
    let before = call.binary_step(Binary::Div, missing, two)?;
    let behind = call.binary_step(Binary::Sub, missing, before)?;
    let concat = Op::Concat(Concat { axis: 0 });
    let widths = call.step(concat, &[Some(before), Some(behind)])?;
    let mut operands = vec![Some(middle), Some(widths)];
    if axes.is_some() {
        operands.extend([None, axes]);
    }
    let pad = Op::Pad(Pad {
        mode: PadMode::Constant,
    });
    call.finish(pad, operands)
}
