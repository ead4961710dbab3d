//! The executor's memory: one aligned arena, and a pointer to every buffer.
//!
//! Everything is taken when it is made; running allocates nothing. No memory is made for a plan whose views
//! do not all lie inside their buffers ([`Plan::check_views`]). That check is what the kernels'
//! unsafe blocks stand on: a pointer made by [`Memory::f32`], [`Memory::i64`], [`Memory::bytes`] or [`Memory::floats`] may
//! be moved by any in-range index of its view.

use std::sync::Arc;

pub(crate) use spark_gemm::AlignedF32;
use spark_gemm::{FloatFormat, take_pages};

use crate::ModelError;
use crate::budget::Asker;
use crate::plan::{ArenaLayout, BufferId, ConstantData, Place, Plan, Storage, View};

/// Every buffer of the arena starts at a multiple of this many bytes: one cache line, one AVX-512
/// vector.
pub(crate) const ALIGNMENT: usize = 64;

/// The arena and where every buffer of the plan starts.
pub(crate) struct Memory {
    arena: AlignedF32,
    /// By buffer of the plan.
    pointers: Vec<*mut u8>,
    /// By buffer of the plan, how its elements are held.
    storages: Vec<Storage>,
    /// Buffers that stand in the caller's memory, and where they are at other times.
    bound: Vec<(usize, *mut u8)>,
    /// Keeps constants alive for as long as their pointers.
    _constants: Vec<ConstantData>,
}

// SAFETY: the pointers go into `arena` and `_constants`, which move with the struct (their heap
// blocks do not); constants are only read. Steps that run on several threads write disjoint parts.
unsafe impl Send for Memory {}
// SAFETY: as above; writing through a shared `Memory` is the kernels' contract.
unsafe impl Sync for Memory {}

impl Memory {
    /// Takes memory for `plan`, laid out as `layout` says, after checking all of its views.
    ///
    /// # Errors
    ///
    /// [`ModelError::View`] for a view outside its buffer, [`ModelError::OutOfMemory`].
    pub(crate) fn new(plan: &Plan, layout: &ArenaLayout) -> Result<Self, ModelError> {
        assert_eq!(layout.offsets.len(), plan.buffers.len(), "of this plan");
        plan.check_views()?;
        let asker = Asker {
            node: "all",
            op: "plan",
            what: "the arena of all steps",
        };
        let mut arena = AlignedF32::try_zeros(layout.bytes.div_ceil(4))
            .ok_or_else(|| asker.refused(layout.bytes))?;
        take_pages(arena.as_slice());
        let base = arena.as_mut_slice().as_mut_ptr().cast::<u8>();
        let mut constants = Vec::new();
        let pointers = plan
            .buffers
            .iter()
            .zip(&layout.offsets)
            .map(|(buffer, offset)| match &buffer.place {
                // No view of a buffer that has no offset is ever read or written.
                Place::Arena => base.wrapping_add(offset.unwrap_or(0)),
                Place::Constant(data) => {
                    constants.push(data.clone());
                    match data {
                        ConstantData::F32(v) => Arc::as_ref(v).as_ptr().cast_mut().cast(),
                        ConstantData::I64(v) => Arc::as_ref(v).as_ptr().cast_mut().cast(),
                    }
                }
            })
            .collect();
        Ok(Self {
            arena,
            pointers,
            storages: plan.buffers.iter().map(|buffer| buffer.storage).collect(),
            // So that binding takes no memory.
            bound: Vec::with_capacity(plan.inputs.len() + plan.outputs.len()),
            _constants: constants,
        })
    }

    /// Bytes of the arena, as they were taken; constants are not counted.
    pub(crate) fn arena_bytes(&self) -> usize {
        self.arena.len() * 4
    }

    /// Puts `buffer` at `start` until [`Memory::unbind`].
    ///
    /// # Safety
    ///
    /// Until then, all elements of the buffer must be there: for reading, and for writing if a step
    /// writes the buffer. A step may write what it does not read and read what was written before.
    pub(crate) unsafe fn bind(&mut self, buffer: BufferId, start: *mut u8) {
        let own = std::mem::replace(&mut self.pointers[buffer.0], start);
        self.bound.push((buffer.0, own));
    }

    /// Puts every buffer back where it was made.
    pub(crate) fn unbind(&mut self) {
        // The first of two bindings of a buffer knows where it was.
        for (buffer, own) in self.bound.drain(..).rev() {
            self.pointers[buffer] = own;
        }
    }

    /// How the elements of `view` are held, which says which pointer to take.
    pub(crate) fn storage(&self, view: &View) -> Storage {
        self.storages[view.buffer.0]
    }

    /// How the floats of `view` lie in memory.
    pub(crate) fn float_format(&self, view: &View) -> FloatFormat {
        match self.storage(view) {
            Storage::Bf16 => FloatFormat::Bf16,
            _ => FloatFormat::F32,
        }
    }

    /// Pointer to the first element of a view of floats, which lie as [`Memory::float_format`] says.
    pub(crate) fn floats(&self, view: &View) -> *mut f32 {
        let start = self.pointers[view.buffer.0].cast::<f32>();
        let format = self.float_format(view);
        format.offset_mut(start, view.offset.cast_signed())
    }

    /// Pointer to the first element of a view of f32.
    pub(crate) fn f32(&self, view: &View) -> *mut f32 {
        debug_assert_ne!(self.storage(view), Storage::Bf16, "a view of f32");
        self.pointers[view.buffer.0]
            .cast::<f32>()
            .wrapping_add(view.offset)
    }

    /// Pointer to the first element of a view of i64.
    pub(crate) fn i64(&self, view: &View) -> *mut i64 {
        self.pointers[view.buffer.0]
            .cast::<i64>()
            .wrapping_add(view.offset)
    }

    /// Pointer to the first element of a view of bytes.
    pub(crate) fn bytes(&self, view: &View) -> *mut u8 {
        self.pointers[view.buffer.0].wrapping_add(view.offset)
    }
}
