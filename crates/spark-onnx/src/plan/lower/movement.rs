//! Operators that move data: views where strides can say it, copies and gathers where not.

use std::sync::Arc;

use super::*;
use crate::graph::{
    Concat, ConstantOfShape, DepthToSpace, Det, Expand, EyeLike, Flatten, Gather, GatherElements,
    GatherNd, NonMaxSuppression, NonZero, Pad, PadMode, RandomLike, Range, Reshape,
    ScatterElements, ScatterNd, ScatterReduction, Shape, Size, Slice, SpaceToDepth, Split, Squeeze,
    Tile, Transpose, Unique, Unsqueeze,
};
use crate::plan::step::int8_storage;
use crate::tensor::DType;

impl Lower for Reshape {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, out| l.same_elements(node, out))
    }
}

impl Lower for Flatten {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, out| l.same_elements(node, out))
    }
}

impl Lower for Squeeze {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, out| l.same_elements(node, out))
    }
}

impl Lower for Unsqueeze {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, out| l.same_elements(node, out))
    }
}

impl Lower for Transpose {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, _| {
            let x = l.operand(node, 0)?;
            let view = l.held(x)?;
            Ok(match &self.perm {
                Some(perm) => view.permuted(perm),
                None => view.permuted(&(0..view.rank()).rev().collect::<Vec<_>>()),
            })
        })
    }
}

impl Lower for Expand {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, out| {
            let x = l.operand(node, 0)?;
            Ok(l.held(x)?.broadcast_to(&l.ty(out).shape))
        })
    }
}

impl Lower for Concat {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, out| l.concat(node, self.axis, out))
    }
}

impl Lower for Split {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.split(node, self.axis)
    }
}

impl Lower for Slice {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, out| l.slice(node, out))
    }
}

impl Lower for Tile {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, _| l.tile(node))
    }
}

impl Lower for Pad {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, out| l.pad(node, self.mode, out))
    }

    fn table_bytes(&self, _: &[usize], written: &[usize]) -> usize {
        // Where the positions of every axis are taken from.
        if self.mode == PadMode::Constant {
            return 0;
        }
        let positions = written.iter().copied().fold(0, usize::saturating_add);
        positions.saturating_mul(4)
    }
}

impl Lower for DepthToSpace {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, _| l.depth_to_space(node, self.block, self.crd))
    }
}

impl Lower for SpaceToDepth {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, _| l.space_to_depth(node, self.block))
    }
}

impl Lower for Gather {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, out| l.gather(node, self.axis, out))
    }
}

impl Lower for GatherElements {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, out| l.gather_elements(node, self.axis, out))
    }
}

impl Lower for GatherNd {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, out| l.gather_nd(node, self.batch_dims, out))
    }
}

impl Lower for ScatterElements {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| {
            let (index, updates, y) = l.scatter(node, self.reduction)?;
            let step = ScatterElementsStep {
                axis: axis_index(self.axis, y.rank())?,
                index,
                updates,
                y: y.clone(),
                reduction: self.reduction,
            };
            l.emit(&node.name, Step::ScatterElements(step));
            l.set_wrapped(node, out, y)
        })
    }
}

impl Lower for ScatterNd {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_result(node, |l, out| {
            let (index, updates, y) = l.scatter(node, self.reduction)?;
            let step = ScatterNdStep {
                index,
                updates,
                y: y.clone(),
                reduction: self.reduction,
            };
            l.emit(&node.name, Step::ScatterNd(step));
            l.set_wrapped(node, out, y)
        })
    }
}

impl Lower for EyeLike {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, out| l.eye(out, self.k))
    }

    fn table_bytes(&self, _: &[usize], written: &[usize]) -> usize {
        elements(written).saturating_mul(8)
    }
}

impl Lower for ConstantOfShape {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |l, out| {
            let value = self.value.to_f64().first().copied().unwrap_or(0.0);
            Ok(l.filled(node, out, value))
        })
    }
}

impl Lower for Shape {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |_, _| no_step(node))
    }
}

impl Lower for Size {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |_, _| no_step(node))
    }
}

impl Lower for Range {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |_, _| no_step(node))
    }
}

impl Lower for NonZero {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |_, _| no_step(node))
    }
}

impl Lower for NonMaxSuppression {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |_, _| no_step(node))
    }
}

impl Lower for Unique {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |_, _| no_step(node))
    }
}

impl Lower for Det {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |_, _| no_step(node))
    }
}

impl Lower for RandomLike {
    fn lower(&self, lowering: &mut Lowering<'_>, node: &Node) -> Result<(), OpError> {
        lowering.lower_view(node, |_, _| no_step(node))
    }
}

impl Lowering<'_> {
    /// The elements of the operand under the shape of the result.
    fn same_elements(&mut self, node: &Node, out: ValueId) -> Result<View, OpError> {
        let x = self.operand(node, 0)?;
        let view = self.held(x)?;
        Ok(self.reshaped(&node.name, view, &self.ty(out).shape))
    }

    fn filled(&mut self, node: &Node, out: ValueId, value: f64) -> View {
        let ty = self.ty(out);
        let y = self.image_buffer(Storage::of(ty.dtype), &ty.shape);
        self.emit(
            &node.name,
            Step::Fill(FillStep {
                y: y.clone(),
                value,
            }),
        );
        y
    }

    fn split(&mut self, node: &Node, axis: i64) -> Result<(), OpError> {
        let x = self.operand(node, 0)?;
        let view = self.held(x)?;
        let axis = axis_index(axis, view.rank())?;
        let sizes: Vec<Option<usize>> = node
            .outputs
            .iter()
            .map(|o| o.map(|id| self.ty(id).shape[axis]))
            .collect();
        // Results nobody wants leave gaps only the other sizes and `split` tell of.
        let given = match self.optional(node, 1) {
            Some(id) => self.constant_i64(id, "split")?,
            None => Vec::new(),
        };
        let even = view.axes[axis].extent.div_ceil(sizes.len().max(1));
        let mut start = 0;
        for (i, out) in node.outputs.iter().enumerate() {
            let size = sizes[i]
                .or_else(|| given.get(i).map(|&s| s as usize))
                .unwrap_or(even);
            if let Some(id) = out {
                self.set_held(*id, view.sliced(axis, start, 1, size));
            }
            start += size;
        }
        Ok(())
    }

    /// Joined operands lie in memory as the largest of them does.
    fn concat(&mut self, node: &Node, axis: i64, out: ValueId) -> Result<View, OpError> {
        let shape = self.ty(out).shape.clone();
        let axis = axis_index(axis, shape.len())?;
        let ids: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
        let mut views = ids
            .iter()
            .map(|&id| self.held(id))
            .collect::<Result<Vec<_>, _>>()?;
        // Some may be there as floats alone.
        let storage = match views.iter().all(|view| self.storage(view).is_byte()) {
            true => int8_storage(self.ty(out).dtype),
            false => Storage::of(self.ty(out).dtype),
        };
        for (view, &id) in views.iter_mut().zip(&ids) {
            if self.storage(view) != storage {
                *view = self.view(id)?;
            }
        }
        let order = match views.iter().max_by_key(|v| v.len()) {
            Some(largest) => largest.memory_order(),
            None => return fail("no operand"),
        };
        let y = self.dense_buffer(storage, &shape, &order);
        let mut start = 0;
        for view in views {
            let extent = view.axes[axis].extent;
            if !view.is_empty() {
                let part = y.sliced(axis, start, 1, extent);
                self.emit(&node.name, Step::Copy(CopyStep { x: view, y: part }));
            }
            start += extent;
        }
        Ok(y)
    }

    fn slice(&mut self, node: &Node, out: ValueId) -> Result<View, OpError> {
        let x = self.operand(node, 0)?;
        let mut view = self.held(x)?;
        let rank = view.rank();
        let (starts, ends) = (self.operand(node, 1)?, self.operand(node, 2)?);
        let starts = self.constant_i64(starts, "starts")?;
        let _ = self.constant_i64(ends, "ends")?;
        let axes = match self.optional(node, 3) {
            Some(id) => self.constant_i64(id, "axes")?,
            None => (0..starts.len() as i64).collect(),
        };
        let steps = match self.optional(node, 4) {
            Some(id) => self.constant_i64(id, "steps")?,
            None => vec![1; starts.len()],
        };
        let shape = self.ty(out).shape.clone();
        for ((start, axis), step) in starts.into_iter().zip(axes).zip(steps) {
            let axis = axis_index(axis, rank)?;
            let extent = view.axes[axis].extent as i64;
            let from = if start < 0 {
                start.saturating_add(extent)
            } else {
                start
            };
            let last = if step < 0 { extent - 1 } else { extent };
            let from = from.clamp(0, last.max(0)) as usize;
            view = view.sliced(axis, from, step as isize, shape[axis]);
        }
        if view.is_empty() {
            view.offset = 0;
        }
        Ok(view)
    }

    fn tile(&mut self, node: &Node) -> Result<View, OpError> {
        let (x, repeats) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let mut view = self.held(x)?;
        let repeats = self.constant_i64(repeats, "repeats")?;
        for (axis, &times) in repeats.iter().enumerate() {
            if times == 1 {
                continue;
            }
            if view.rank() == MAX_RANK {
                return fail(format!("repeating one of {MAX_RANK} axes is not supported"));
            }
            let mut shape = view.shape();
            shape[axis] *= times.max(0) as usize;
            view.axes.insert(
                axis,
                Axis {
                    extent: times.max(0) as usize,
                    stride: 0,
                },
            );
            view = self.reshaped(&node.name, view, &shape);
        }
        Ok(view)
    }

    fn pad(&mut self, node: &Node, mode: PadMode, out: ValueId) -> Result<View, OpError> {
        let (x, pads) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let mut view = match mode {
            PadMode::Constant => self.held(x)?,
            _ => self.view(x)?,
        };
        let rank = view.rank();
        let pads = self.constant_i64(pads, "pads")?;
        let axes = match self.optional(node, 3) {
            Some(id) => self.constant_i64(id, "axes")?,
            None => (0..rank as i64).collect(),
        };
        let n = axes.len();
        // Begin and end of every axis.
        let mut borders = vec![[0i64; 2]; rank];
        for (i, &axis) in axes.iter().enumerate() {
            borders[axis_index(axis, rank)?] = [pads[i], pads[n + i]];
        }
        // Negative padding cuts.
        for (axis, border) in borders.iter_mut().enumerate() {
            let [b, e] = border.map(|p| (-p).max(0));
            if b + e > 0 {
                let extent = view.axes[axis].extent as i64 - b - e;
                view = view.sliced(axis, b as usize, 1, extent.max(0) as usize);
                *border = border.map(|p| p.max(0));
            }
        }
        if mode != PadMode::Constant {
            return Ok(self.pad_by_index(&node.name, view, mode, &borders));
        }
        let value = match self.optional(node, 2) {
            None => 0.0,
            Some(id) => match self.constant(id) {
                Some(t) => t.to_f64().first().copied().unwrap_or(0.0),
                None => return fail("a padding value that is not constant is not supported"),
            },
        };
        let shape = self.ty(out).shape.clone();
        let y = self.dense_buffer(self.storage(&view), &shape, &view.memory_order());
        self.emit(
            &node.name,
            Step::Fill(FillStep {
                y: y.clone(),
                value,
            }),
        );
        let mut inner = y.clone();
        for (axis, border) in borders.iter().enumerate() {
            inner = inner.sliced(axis, border[0] as usize, 1, view.axes[axis].extent);
        }
        if !view.is_empty() {
            self.emit(&node.name, Step::Copy(CopyStep { x: view, y: inner }));
        }
        Ok(y)
    }

    fn pad_by_index(
        &mut self,
        name: &str,
        mut view: View,
        mode: PadMode,
        borders: &[[i64; 2]],
    ) -> View {
        for (axis, &[begin, end]) in borders.iter().enumerate() {
            if begin == 0 && end == 0 {
                continue;
            }
            let extent = view.axes[axis].extent as i64;
            let index: Vec<u32> = (-begin..extent + end)
                .map(|i| match mode {
                    PadMode::Edge => i.clamp(0, extent - 1),
                    PadMode::Wrap => i.rem_euclid(extent),
                    _ => {
                        let period = (2 * (extent - 1)).max(1);
                        let i = i.rem_euclid(period);
                        i.min(period - i)
                    }
                } as u32)
                .collect();
            let mut shape = view.shape();
            shape[axis] = index.len();
            let y = self.dense_buffer(self.storage(&view), &shape, &view.memory_order());
            let step = ResampleStep {
                x: view,
                y: y.clone(),
                axis,
                taps: 1,
                index: Arc::new(index),
                weight: None,
            };
            self.emit(name, Step::Resample(step));
            view = y;
        }
        view
    }

    fn depth_to_space(&mut self, node: &Node, b: usize, crd: bool) -> Result<View, OpError> {
        let x = self.operand(node, 0)?;
        let view = self.held(x)?;
        let [n, c, h, w] = view.shape()[..] else {
            return fail("four axes wanted");
        };
        let c = c / (b * b);
        let (split, perm) = if crd {
            ([n, c, b, b, h, w], [0, 1, 4, 2, 5, 3])
        } else {
            ([n, b, b, c, h, w], [0, 3, 4, 1, 5, 2])
        };
        let view = self.reshaped(&node.name, view, &split).permuted(&perm);
        let pixels = self.copied(&node.name, &view, &[0, 2, 3, 4, 5, 1]);
        Ok(self.reshaped(&node.name, pixels, &[n, c, h * b, w * b]))
    }

    fn space_to_depth(&mut self, node: &Node, b: usize) -> Result<View, OpError> {
        let x = self.operand(node, 0)?;
        let view = self.held(x)?;
        let [n, c, h, w] = view.shape()[..] else {
            return fail("four axes wanted");
        };
        let (h, w) = (h / b, w / b);
        let view = self.reshaped(&node.name, view, &[n, c, h, b, w, b]);
        let view = view.permuted(&[0, 3, 5, 1, 2, 4]);
        let pixels = self.copied(&node.name, &view, &[0, 4, 5, 1, 2, 3]);
        Ok(self.reshaped(&node.name, pixels, &[n, c * b * b, h, w]))
    }

    fn gather(&mut self, node: &Node, axis: i64, out: ValueId) -> Result<View, OpError> {
        let (x, index) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let view = self.view(x)?;
        let axis = axis_index(axis, view.rank())?;
        let shape = self.ty(out).shape.clone();
        let extent = view.axes[axis].extent;
        if self.constant(index).is_some() {
            let positions = self.constant_i64(index, "indices")?;
            if let Some(run) = straight_run(&positions, extent) {
                let (start, step) = run;
                let cut = view.sliced(axis, start, step, positions.len());
                return Ok(match self.ty(index).shape.len() {
                    1 => cut,
                    _ => self.reshaped(&node.name, cut, &shape),
                });
            }
        }
        let extents = view.shape();
        let outer: usize = extents[..axis].iter().product();
        let inner: usize = extents[axis + 1..].iter().product();
        let index = self.view(index)?;
        let count = index.len();
        if self.storage(&index) != Storage::I64 {
            return fail("indices must be 32- or 64-bit integers");
        }
        let y = self.row_major_buffer(self.storage(&view), &shape);
        let step = GatherStep {
            x: self.reshaped(&node.name, view, &[outer, extent, inner]),
            index: self.reshaped(&node.name, index, &[count]),
            y: View::dense(y.buffer, &[outer, count, inner], &[0, 1, 2]),
        };
        self.emit(&node.name, Step::Gather(step));
        Ok(y)
    }

    fn gather_elements(&mut self, node: &Node, axis: i64, out: ValueId) -> Result<View, OpError> {
        let (x, index) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let (x, index) = (self.view(x)?, self.view(index)?);
        let y = self.row_major_buffer(self.storage(&x), &self.ty(out).shape);
        let step = GatherElementsStep {
            axis: axis_index(axis, x.rank())?,
            x,
            index,
            y: y.clone(),
        };
        self.emit(&node.name, Step::GatherElements(step));
        Ok(y)
    }

    fn gather_nd(&mut self, node: &Node, batch_dims: usize, out: ValueId) -> Result<View, OpError> {
        let (x, index) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let (x, index) = (self.view(x)?, self.view(index)?);
        let y = self.row_major_buffer(self.storage(&x), &self.ty(out).shape);
        let step = GatherNdStep {
            x,
            index,
            y: y.clone(),
            batch_dims,
        };
        self.emit(&node.name, Step::GatherNd(step));
        Ok(y)
    }

    /// Operands of a scatter; the result starts as a copy of the first.
    fn scatter(
        &mut self,
        node: &Node,
        reduction: ScatterReduction,
    ) -> Result<(View, View, View), OpError> {
        let ids = [0, 1, 2].map(|i| self.operand(node, i));
        let [x, index, updates] = ids;
        let (x, updates) = (x?, updates?);
        match (reduction, self.ty(x).dtype) {
            (ScatterReduction::Add, dtype) => {
                let n_updates: usize = self.ty(updates).shape.iter().product();
                reduce::exact_in_f32(dtype, n_updates.saturating_add(1))?;
            }
            (ScatterReduction::Max | ScatterReduction::Min, DType::U64) => {
                return fail("extremes of u64 are not supported");
            }
            // Held as f32, where the product of four is rounded before it could wrap.
            (ScatterReduction::Mul, dtype @ (DType::I8 | DType::U8)) => {
                return fail(format!("products of {dtype} are not supported"));
            }
            _ => {}
        }
        let x = self.view(x)?;
        let (index, updates) = (self.view(index?)?, self.view(updates)?);
        let order: Vec<usize> = (0..x.rank()).collect();
        let y = self.copied(&node.name, &x, &order);
        Ok((index, updates, y))
    }

    fn eye(&mut self, out: ValueId, k: i64) -> Result<View, OpError> {
        let ty = self.ty(out);
        let [rows, columns] = ty.shape[..] else {
            return fail("two axes wanted");
        };
        // Row `i` has its one at column `i + k`.
        let column = |i: usize| usize::try_from((i as i64).saturating_add(k)).ok();
        let ones = (0..rows)
            .filter_map(|i| Some((i, column(i).filter(|&j| j < columns)?)))
            .map(|(i, j)| i * columns + j);
        let data = match Storage::of(ty.dtype) {
            Storage::F32 | Storage::I8 | Storage::U8 | Storage::Bf16 => {
                let mut eye = vec![0.0; rows * columns];
                ones.for_each(|at| eye[at] = 1.0);
                ConstantData::F32(Arc::new(eye))
            }
            Storage::I64 => {
                let mut eye = vec![0; rows * columns];
                ones.for_each(|at| eye[at] = 1);
                ConstantData::I64(Arc::new(eye))
            }
        };
        let buffer = self.constant_buffer(data);
        Ok(View::dense(buffer, &[rows, columns], &[0, 1]))
    }
}

/// Start and step of indices that are evenly spaced and in range.
fn straight_run(positions: &[i64], extent: usize) -> Option<(usize, isize)> {
    let wrap = |i: i64| if i < 0 { i + extent as i64 } else { i };
    let first = wrap(*positions.first()?);
    let step = positions.get(1).map_or(1, |&second| wrap(second) - first);
    let straight = positions
        .iter()
        .enumerate()
        .all(|(k, &p)| wrap(p) == first + k as i64 * step);
    let inside = positions
        .iter()
        .all(|&p| (0..extent as i64).contains(&wrap(p)));
    (straight && inside && step != 0).then_some((first as usize, step as isize))
}

/// Refuses an operator that is folded where it is known, and has no step.
fn no_step(node: &Node) -> Result<View, OpError> {
    fail(format!(
        "{} of values that are not constant has no step",
        node.op.name()
    ))
}
