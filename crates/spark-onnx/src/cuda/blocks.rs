//! Where each buffer of a plan is on a device, and what it is stored as.
//!
//! ```text
//! arena       results between steps, by lifetimes over the order that runs       offsets of 256 bytes everywhere
//! outputs     | status | output 0 | output 1 | ...      f32 or i64, row-major     read once for all
//! inputs      | input 0 | input 1 | ...                 as given, row-major       written once for all
//! constants   weights, biases, tables, programs
//! ```
//!
//! An input that no step writes and that lies row-major is read where it is, and an output that a step writes whole is
//! written where it belongs; for others there is a copy before the first step or after the last.

use super::refused::Refused;
use super::structures::{Place, Strided};
use super::walk;
use crate::plan::ports::DirectPorts;
use crate::plan::{ArenaLayout, BufferId, Place as PlanPlace, Plan, Port, Storage, View};
use crate::{DType, Precision};

/// What offsets are multiples of.
pub(super) const ALIGNMENT: usize = 256;
/// Bytes at the start of the outputs that say whether a run has results.
pub(super) const STATUS_BYTES: usize = ALIGNMENT;

/// What elements are stored as; kernels know the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Stored {
    F32 = 0,
    F16 = 1,
    I64 = 2,
    U8 = 3,
    I8 = 4,
}

impl Stored {
    pub(super) const fn size_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
            Self::I64 => 8,
            Self::U8 | Self::I8 => 1,
        }
    }

    /// How an input of this type is handed over; types that kernels do not read, as the plan holds them.
    fn of_input(dtype: DType) -> Self {
        match dtype {
            DType::F16 => Self::F16,
            DType::U8 | DType::Bool => Self::U8,
            DType::I8 => Self::I8,
            other => match Storage::of(other) {
                Storage::I64 => Self::I64,
                _ => Self::F32,
            },
        }
    }
}

/// Which of the four; kernels know the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Space {
    Arena = 0,
    Outputs = 1,
    Inputs = 2,
    Constants = 3,
}

/// Where a buffer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) space: Space,
    /// In bytes.
    pub(super) offset: usize,
    pub(super) stored: Stored,
}

impl Held {
    /// Its first element, for a kernel.
    pub(super) fn place(self) -> Place {
        Place {
            offset: self.offset as u64,
            space: self.space as u32,
            storage: self.stored as u32,
        }
    }
}

/// A port's elements, row-major in the block that the host shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shared {
    pub(super) held: Held,
    /// Elements.
    pub(super) len: usize,
    /// Whether steps use these very elements, and not a copy.
    pub(super) is_direct: bool,
}

impl Shared {
    pub(super) fn bytes(&self) -> std::ops::Range<usize> {
        self.held.offset..self.held.offset + self.len * self.held.stored.size_bytes()
    }
}

/// Everything's place.
#[derive(Debug)]
pub(super) struct Blocks {
    /// By buffer; `None` where nothing touches it.
    held: Vec<Option<Held>>,
    pub(super) inputs: Vec<Shared>,
    pub(super) outputs: Vec<Shared>,
    pub(super) arena_bytes: usize,
    pub(super) input_bytes: usize,
    pub(super) output_bytes: usize,
    pub(super) constant_bytes: usize,
}

/// Gives out offsets, one after the other.
struct Row(usize);

impl Row {
    fn take(&mut self, bytes: usize) -> Result<usize, Refused> {
        let offset = self.0;
        let end = offset
            .checked_add(bytes)
            .and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
        match end {
            Some(end) => self.0 = end,
            None => return Refused::because("more bytes than an address space has"),
        }
        Ok(offset)
    }
}

impl Blocks {
    /// Places all buffers of `plan`, floats between steps as `precision` says.
    pub(super) fn of(plan: &Plan, precision: Precision) -> Result<Self, Refused> {
        let floats = match precision {
            Precision::Fp16 => Stored::F16,
            _ => Stored::F32,
        };
        let direct_outputs = DirectPorts::of(plan, |_| false).outputs;
        let mut held: Vec<Option<Held>> = vec![None; plan.buffers.len()];
        let mut row = Row(0);
        let mut inputs = Vec::new();
        for port in &plan.inputs {
            let is_direct = is_read_where_given(plan, port);
            let shared = share(
                port,
                Space::Inputs,
                Stored::of_input(port.dtype),
                is_direct,
                &mut row,
            )?;
            if is_direct {
                held[port.view.buffer.0] = Some(shared.held);
            }
            inputs.push(shared);
        }
        let input_bytes = std::mem::replace(&mut row, Row(STATUS_BYTES)).0;
        let mut outputs = Vec::new();
        for (port, &is_direct) in plan.outputs.iter().zip(&direct_outputs) {
            let stored = wide(plan.storage(&port.view));
            let shared = share(port, Space::Outputs, stored, is_direct, &mut row)?;
            if is_direct {
                held[port.view.buffer.0] = Some(shared.held);
            }
            outputs.push(shared);
        }
        let output_bytes = row.0;
        let mut row = Row(0);
        for (buffer, held) in plan.buffers.iter().zip(&mut held) {
            if let PlanPlace::Constant(_) = buffer.place {
                let stored = wide(buffer.storage);
                let bytes = buffer.len.checked_mul(stored.size_bytes());
                let offset = row.take(bytes.unwrap_or(usize::MAX))?;
                let space = Space::Constants;
                *held = Some(Held {
                    space,
                    offset,
                    stored,
                });
            }
        }
        let stored = |buffer: usize| match plan.buffers[buffer].storage {
            Storage::I64 => Stored::I64,
            _ => floats,
        };
        let in_arena = |buffer: usize| {
            let bytes = plan.buffers[buffer]
                .len
                .checked_mul(stored(buffer).size_bytes());
            held[buffer].is_none().then(|| bytes.unwrap_or(usize::MAX))
        };
        let layout = ArenaLayout::of_sizes(plan, ALIGNMENT, in_arena, |_| false);
        for (buffer, offset) in layout.offsets.iter().enumerate() {
            if let (Some(offset), None) = (*offset, held[buffer]) {
                let (space, stored) = (Space::Arena, stored(buffer));
                held[buffer] = Some(Held {
                    space,
                    offset,
                    stored,
                });
            }
        }
        Ok(Self {
            held,
            inputs,
            outputs,
            arena_bytes: layout.bytes,
            input_bytes,
            output_bytes,
            constant_bytes: row.0,
        })
    }

    /// Where a buffer is.
    pub(super) fn held(&self, buffer: BufferId) -> Result<Held, Refused> {
        match self.held.get(buffer.0) {
            Some(Some(held)) => Ok(*held),
            _ => Refused::because("a buffer that nothing sets"),
        }
    }

    /// Room among the constants for so many bytes.
    pub(super) fn take_constants(&mut self, bytes: usize) -> Result<Held, Refused> {
        let mut row = Row(self.constant_bytes);
        let offset = row.take(bytes)?;
        self.constant_bytes = row.0;
        Ok(Held {
            space: Space::Constants,
            offset,
            stored: Stored::F32,
        })
    }

    /// The first element of `view`.
    pub(super) fn place(&self, view: &View) -> Result<Place, Refused> {
        let mut held = self.held(view.buffer)?;
        // The first element of an empty view may lie outside: before the first of a buffer, if it is cut from a
        // reversed one.
        if !view.is_empty() {
            held.offset += view.offset * held.stored.size_bytes();
        }
        Ok(held.place())
    }

    /// `view` with these strides.
    pub(super) fn strided(
        &self,
        view: &View,
        strides: [i64; crate::plan::MAX_RANK],
    ) -> Result<Strided, Refused> {
        let place = self.place(view)?;
        Ok(Strided { place, strides })
    }

    /// `view` with its own strides.
    pub(super) fn view(&self, view: &View) -> Result<Strided, Refused> {
        self.strided(view, walk::strides(view))
    }

    /// Whether the elements of `view` are bytes.
    pub(super) fn is_of_bytes(&self, view: &View) -> Result<bool, Refused> {
        Ok(matches!(
            self.held(view.buffer)?.stored,
            Stored::U8 | Stored::I8
        ))
    }

    /// Whether the elements of `view` are integers of 64 bits.
    pub(super) fn is_wide(&self, view: &View) -> Result<bool, Refused> {
        Ok(self.held(view.buffer)?.stored == Stored::I64)
    }
}

/// Ports and constants are held exactly.
fn wide(storage: Storage) -> Stored {
    match storage {
        Storage::I64 => Stored::I64,
        _ => Stored::F32,
    }
}

fn share(
    port: &Port,
    space: Space,
    stored: Stored,
    is_direct: bool,
    row: &mut Row,
) -> Result<Shared, Refused> {
    let mut extents = port.shape.iter();
    let len = extents.try_fold(1usize, |n, &extent| n.checked_mul(extent));
    let len = len.unwrap_or(usize::MAX);
    let bytes = len.checked_mul(stored.size_bytes());
    let offset = row.take(bytes.unwrap_or(usize::MAX))?;
    Ok(Shared {
        held: Held {
            space,
            offset,
            stored,
        },
        len,
        is_direct,
    })
}

/// Whether the buffer of an input is what the caller gives, element by element, and stays it.
fn is_read_where_given(plan: &Plan, port: &Port) -> bool {
    let view = &port.view;
    let is_written = plan.steps.iter().any(|planned| {
        let written = planned.step.views_written();
        written.iter().any(|other| other.buffer == view.buffer)
    });
    let mut inputs = plan.inputs.iter();
    let is_shared =
        inputs.any(|other| !std::ptr::eq(other, port) && other.view.buffer == view.buffer);
    !is_written
        && !is_shared
        && view.offset == 0
        && view.is_row_major()
        && view.len() == plan.buffers[view.buffer.0].len
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::bind;
    use crate::plan::lower;
    use crate::tests::networks::{attentive, convolutional};

    fn plans() -> [Plan; 2] {
        [attentive(), convolutional()]
            .map(|graph| lower(&bind(&graph, &[]).expect("fixed shapes")).expect("lowers"))
    }

    #[test]
    fn the_arena_is_little_longer_than_what_is_alive_at_once() {
        for plan in plans() {
            for precision in [Precision::Fp32, Precision::Fp16] {
                let blocks = Blocks::of(&plan, precision).expect("fits");
                let bytes_of = |buffer: usize| {
                    let held = blocks.held[buffer]?;
                    let bytes = plan.buffers[buffer].len * held.stored.size_bytes();
                    (held.space == Space::Arena).then(|| bytes.next_multiple_of(ALIGNMENT))
                };
                let least = ArenaLayout::least_bytes(&plan, bytes_of);
                let bytes = blocks.arena_bytes;
                assert!(
                    bytes >= least && 10 * bytes <= 11 * least,
                    "{bytes} of {least}"
                );
            }
        }
    }

    #[test]
    fn offsets_are_aligned_and_halves_take_half() {
        for plan in plans() {
            let [wide, narrow] = [Precision::Fp32, Precision::Fp16].map(|precision| {
                let blocks = Blocks::of(&plan, precision).expect("fits");
                let mut held = blocks.held.iter().flatten();
                assert!(held.all(|held| held.offset.is_multiple_of(ALIGNMENT)));
                blocks.arena_bytes
            });
            assert!(10 * narrow <= 6 * wide, "{narrow} of {wide}");
        }
    }
}
