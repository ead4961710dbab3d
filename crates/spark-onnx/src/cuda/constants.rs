//! What a device keeps of a network: weights, biases, constants, tables and programs, in one block, brought there once.
//!
//! Each piece goes from the host's copy into pinned memory and from there to the device; weights are put in order on
//! the way, and the host's are then given up.

use std::sync::Arc;

use half::f16;
use spark_mem::kernel::zerocopy::{Immutable, IntoBytes};
use spark_mem::{Buffer, BufferKind, Device, MemError, Stream};

use super::blocks::{Blocks, Held, Stored};
use super::fragments::Fragments;
use super::refused::Refused;
use crate::plan::{ConstantData, Place, Plan, Step, Weights};

/// The contents of a piece.
#[derive(Debug)]
enum Contents {
    Bytes(Vec<u8>),
    F32(Arc<Vec<f32>>),
    I64(Arc<Vec<i64>>),
    U32(Arc<Vec<u32>>),
    /// Of the step of this number, `[group][tap][in][out]`.
    Weights(usize),
    /// The same, of channels that see themselves alone, `[tap][channel]`.
    ByTap(usize),
    /// The same in the order of the kernels on tensor cores.
    Fragments(usize, Fragments),
}

/// What the block of constants is to hold.
#[derive(Debug, Default)]
pub(super) struct Constants {
    pieces: Vec<(Held, Contents)>,
}

impl Constants {
    /// The constant buffers of `plan`, where `blocks` has placed them.
    pub(super) fn of(plan: &Plan, blocks: &Blocks) -> Result<Self, Refused> {
        let mut pieces = Vec::new();
        for (number, buffer) in plan.buffers.iter().enumerate() {
            let contents = match &buffer.place {
                Place::Arena => continue,
                Place::Constant(ConstantData::F32(values)) => Contents::F32(Arc::clone(values)),
                Place::Constant(ConstantData::I64(values)) => Contents::I64(Arc::clone(values)),
            };
            pieces.push((blocks.held(crate::plan::BufferId(number))?, contents));
        }
        Ok(Self { pieces })
    }

    fn add(
        &mut self,
        blocks: &mut Blocks,
        bytes: usize,
        contents: Contents,
    ) -> Result<Held, Refused> {
        let held = blocks.take_constants(bytes)?;
        self.pieces.push((held, contents));
        Ok(held)
    }

    /// Adds some numbers.
    pub(super) fn add_f32(
        &mut self,
        blocks: &mut Blocks,
        values: &Arc<Vec<f32>>,
    ) -> Result<Held, Refused> {
        let bytes = size_of_val(&values[..]);
        self.add(blocks, bytes, Contents::F32(Arc::clone(values)))
    }

    /// Adds some positions.
    pub(super) fn add_u32(
        &mut self,
        blocks: &mut Blocks,
        values: &Arc<Vec<u32>>,
    ) -> Result<Held, Refused> {
        let bytes = size_of_val(&values[..]);
        self.add(blocks, bytes, Contents::U32(Arc::clone(values)))
    }

    /// Adds a table of structures.
    pub(super) fn add_table<T: IntoBytes + Immutable>(
        &mut self,
        blocks: &mut Blocks,
        table: &[T],
    ) -> Result<Held, Refused> {
        let bytes = table.as_bytes().to_vec();
        self.add(blocks, bytes.len(), Contents::Bytes(bytes))
    }

    /// Adds the weights of step `step`.
    pub(super) fn add_weights(
        &mut self,
        blocks: &mut Blocks,
        step: usize,
        weights: &Weights,
        stored: Stored,
    ) -> Result<Held, Refused> {
        let bytes = weights.len().checked_mul(stored.size_bytes());
        let mut held = blocks.take_constants(bytes.unwrap_or(usize::MAX))?;
        held.stored = stored;
        self.pieces.push((held, Contents::Weights(step)));
        Ok(held)
    }

    /// Adds the weights of step `step`, whose channels see themselves alone, tap by tap.
    pub(super) fn add_taps(
        &mut self,
        blocks: &mut Blocks,
        step: usize,
        weights: &Weights,
        stored: Stored,
    ) -> Result<Held, Refused> {
        let held = self.add_weights(blocks, step, weights, stored)?;
        if let Some((_, contents)) = self.pieces.last_mut() {
            *contents = Contents::ByTap(step);
        }
        Ok(held)
    }

    /// Adds the weights of step `step` in the order of the kernels on tensor cores, as f16.
    pub(super) fn add_fragments(
        &mut self,
        blocks: &mut Blocks,
        step: usize,
        fragments: Fragments,
    ) -> Result<Held, Refused> {
        let mut held = blocks.take_constants(fragments.bytes())?;
        held.stored = Stored::F16;
        self.pieces
            .push((held, Contents::Fragments(step, fragments)));
        Ok(held)
    }

    /// The block on the device, `bytes` long, with everything in it; the weights of `plan` are forgotten.
    pub(super) fn bring(
        self,
        plan: &mut Plan,
        bytes: usize,
        device: &Device,
        stream: &Stream,
    ) -> Result<Buffer<u8>, MemError> {
        let mut block = device.buffer::<u8>(BufferKind::Device, bytes.max(1))?;
        let largest = self.pieces.iter().map(|(held, contents)| {
            contents
                .len(plan)
                .saturating_mul(held.stored.size_bytes().max(contents.size_bytes()))
        });
        let room = largest.max().unwrap_or(0).max(1);
        let mut staging = device.buffer::<u8>(BufferKind::Pinned, room)?;
        for (held, contents) in self.pieces {
            let piece = contents.bytes(plan, held.stored);
            if let Contents::Weights(step) | Contents::ByTap(step) | Contents::Fragments(step, _) =
                contents
            {
                plan.steps[step].step.forget_weights();
            }
            if piece.is_empty() {
                continue;
            }
            // Waits for the copy before.
            staging.overwrite(stream)?[..piece.len()].copy_from_slice(&piece);
            let to = block.range_mut(held.offset..held.offset + piece.len())?;
            stream.copy(staging.range(0..piece.len())?, to)?;
        }
        stream.synchronize()?;
        Ok(block)
    }
}

fn weights_of(plan: &Plan, step: usize) -> Option<&Weights> {
    match &plan.steps[step].step {
        Step::Conv(step) => Some(&step.weights),
        Step::Linear(step) => Some(&step.weights),
        _ => None,
    }
}

impl Contents {
    /// Elements.
    fn len(&self, plan: &Plan) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::F32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::Weights(step) | Self::ByTap(step) => {
                weights_of(plan, *step).map_or(0, Weights::len)
            }
            Self::Fragments(_, fragments) => fragments.bytes(),
        }
    }

    /// Bytes of an element.
    fn size_bytes(&self) -> usize {
        match self {
            Self::Bytes(_) | Self::Fragments(..) => 1,
            Self::F32(_) | Self::U32(_) | Self::Weights(_) | Self::ByTap(_) => 4,
            Self::I64(_) => 8,
        }
    }

    /// As the device holds them.
    fn bytes(&self, plan: &Plan, stored: Stored) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::F32(values) => values.as_bytes().to_vec(),
            Self::I64(values) => values.as_bytes().to_vec(),
            Self::U32(values) => values.as_bytes().to_vec(),
            Self::Fragments(step, fragments) => match weights_of(plan, *step) {
                Some(weights) => fragments.of(weights),
                None => Vec::new(),
            },
            Self::Weights(step) => {
                let values = weights_of(plan, *step).map_or_else(Vec::new, Weights::values);
                stored_as(&values, stored)
            }
            Self::ByTap(step) => {
                let values = weights_of(plan, *step).map_or_else(Vec::new, by_tap);
                stored_as(&values, stored)
            }
        }
    }
}

/// Bytes of `values` as the device holds them.
fn stored_as(values: &[f32], stored: Stored) -> Vec<u8> {
    match stored {
        Stored::F16 => {
            let halves = values.iter().flat_map(|&v| f16::from_f32(v).to_ne_bytes());
            halves.collect()
        }
        _ => values.as_bytes().to_vec(),
    }
}

/// `[channel][tap]` as `[tap][channel]`.
fn by_tap(weights: &Weights) -> Vec<f32> {
    let values = weights.values();
    let taps = (0..weights.taps).map(|tap| values[tap..].iter().step_by(weights.taps));
    taps.flatten().copied().collect()
}
