//! Regions of interest of a picture, cell by cell.
//!
//! ```text
//! for each region, for each row of cells, on some thread:
//!     for each column of cells:
//!         for each sample inside:  y[all channels] += sum of four pixels of x, each times its weight
//!         y[all channels] /= samples
//! ```
//!
//! Channels lie side by side, so that the inner loop is over them. Where samples lie, `region_axes` says.
//!
//! Deliberately absent: weights of neighbouring samples put together.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use spark_quant::QuantError;

use crate::cpu::prepared::{Context, Kernel, PreparedStep, Problem, StepError};
use crate::graph::{PoolKind, RegionAxis, region_axes};
use crate::plan::{RoiAlignStep, View};

/// The kernel that averages the cells of regions.
pub(crate) struct RoiAlign(RoiAlignStep);

impl Kernel<RoiAlignStep> for RoiAlign {
    fn prepare(problem: &Problem<'_, RoiAlignStep>) -> Result<Self, QuantError> {
        Ok(Self(problem.step.clone()))
    }
}

impl PreparedStep for RoiAlign {
    fn run(&self, c: &Context<'_>) -> Result<(), StepError> {
        run(&self.0, c)
    }
}

fn run(step: &RoiAlignStep, c: &Context<'_>) -> Result<(), StepError> {
    let n_regions = step.y.axes[0].extent;
    let [rows, _] = step.op.cells;
    // Of the first region that has one, whichever thread meets it.
    let error: Mutex<Option<(usize, StepError)>> = Mutex::new(None);
    c.pool.run(n_regions * rows, |task| {
        let (region, row) = (task / rows, task % rows);
        if let Err(found) = row_of_cells(step, c, region, row) {
            let mut error = error.lock().unwrap_or_else(PoisonError::into_inner);
            if error.as_ref().is_none_or(|(before, _)| region < *before) {
                *error = Some((region, found));
            }
        }
    });
    let error = error.into_inner();
    match error.unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

fn row_of_cells(
    step: &RoiAlignStep,
    c: &Context<'_>,
    region: usize,
    row: usize,
) -> Result<(), StepError> {
    let memory = c.memory;
    let [n, _, h, w] = [0, 1, 2, 3].map(|axis| step.x.axes[axis].extent);
    let along = |view: &View, axis: usize, at: usize| at as isize * view.axes[axis].stride;
    // SAFETY: `region` is one of those that the views have, which were checked at load.
    let sample = unsafe {
        *memory
            .i64(&step.samples)
            .offset(along(&step.samples, 0, region))
    };
    let corners = [0, 1, 2, 3].map(|number| {
        let at = along(&step.regions, 0, region) + along(&step.regions, 1, number);
        // SAFETY: as above; a region has four numbers.
        unsafe { *memory.f32(&step.regions).offset(at) }
    });
    let inside = usize::try_from(sample).ok().filter(|&sample| sample < n);
    let sample = inside.ok_or(StepError::IndexOutside {
        index: sample,
        extent: n,
    })?;
    let axes = region_axes(&step.op, corners);
    let [rows, columns] = axes.map_err(|error| StepError::Refused(error.reason))?;
    let inside = rows.inside(h, row);
    for column in 0..step.op.cells[1] {
        let cell = Cell {
            row: (rows, row),
            column: (columns, column),
            extents: [h, w],
            inside: [inside.clone(), columns.inside(w, column)],
        };
        let y = along(&step.y, 0, region) + along(&step.y, 2, row) + along(&step.y, 3, column);
        cell.write(step, c, along(&step.x, 0, sample), y);
    }
    Ok(())
}

/// One cell of a region.
struct Cell {
    row: (RegionAxis, usize),
    column: (RegionAxis, usize),
    extents: [usize; 2],
    /// Samples that may be inside, along either axis.
    inside: [Range<usize>; 2],
}

impl Cell {
    /// Writes all channels of the cell at offset `y` from those of a picture at offset `x`.
    fn write(&self, step: &RoiAlignStep, c: &Context<'_>, x: isize, y: isize) {
        let (from, to) = (c.memory.f32(&step.x).cast_const(), c.memory.f32(&step.y));
        let strides = [2, 3].map(|axis| step.x.axes[axis].stride);
        let channels = Channels {
            n: step.x.axes[1].extent as isize,
            to: to.wrapping_offset(y),
            step_x: step.x.axes[1].stride,
            step_y: step.y.axes[1].stride,
        };
        let is_most = step.op.kind == PoolKind::Max;
        channels.change(|y| *y = if is_most { f32::NEG_INFINITY } else { 0.0 });
        let mut seen = 0;
        for i in self.inside[0].clone() {
            let Some(row) = self.row.0.taps(self.extents[0], self.row.1, i) else {
                continue;
            };
            for j in self.inside[1].clone() {
                let Some(column) = self.column.0.taps(self.extents[1], self.column.1, j) else {
                    continue;
                };
                seen += 1;
                let pixel = |a: usize, b: usize| {
                    let at = row.at[a] as isize * strides[0] + column.at[b] as isize * strides[1];
                    (
                        from.wrapping_offset(x + at),
                        row.weight[a] * column.weight[b],
                    )
                };
                let pixels = [pixel(0, 0), pixel(0, 1), pixel(1, 0), pixel(1, 1)];
                // SAFETY: taps are below the extents of the view, which was checked at load.
                unsafe { channels.add(pixels, is_most) };
            }
        }
        let count = self.row.0.samples * self.column.0.samples;
        let divisor = count.max(1) as f32;
        match is_most {
            false => channels.change(|y| *y /= divisor),
            true if seen == 0 => channels.change(|y| *y = 0.0),
            // A sample outside is 0.
            true if seen < count => channels.change(|y| *y = y.max(0.0)),
            true => {}
        }
    }
}

/// All channels of one cell, which one task has.
struct Channels {
    n: isize,
    to: *mut f32,
    step_x: isize,
    step_y: isize,
}

impl Channels {
    fn change(&self, mut change: impl FnMut(&mut f32)) {
        for channel in 0..self.n {
            // SAFETY: the cell has so many channels, so far apart, in a view that was checked at load; no other task has it.
            change(unsafe { &mut *self.to.offset(channel * self.step_y) });
        }
    }

    /// Adds a sample of four pixels with their weights, or keeps the most.
    ///
    /// # Safety
    ///
    /// Each pointer must lead to the first channel of a pixel.
    unsafe fn add(&self, pixels: [(*const f32, f32); 4], is_most: bool) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match (self.step_x, self.step_y) {
                (1, 1) => self.add_by(pixels, is_most, (1, 1)),
                steps => self.add_by(pixels, is_most, steps),
            }
        }
    }

    /// [`Self::add`] with steps that may be known, so that many channels are added at once.
    ///
    /// # Safety
    ///
    /// As there, and `steps` must be its own.
    #[inline(always)]
    unsafe fn add_by(
        &self,
        pixels: [(*const f32, f32); 4],
        is_most: bool,
        (step_x, step_y): (isize, isize),
    ) {
        for channel in 0..self.n {
            // SAFETY: a pixel and the cell have as many channels, so far apart.
            unsafe {
                let product =
                    |(pixel, weight): (*const f32, f32)| *pixel.offset(channel * step_x) * weight;
                let [p, q, r, s] = pixels.map(product);
                let y = &mut *self.to.offset(channel * step_y);
                match is_most {
                    true => *y = y.max(p.max(q).max(r.max(s))),
                    false => *y += (p + q) + (r + s),
                }
            }
        }
    }
}
