//! Packed weights, each set once per model, kernel and format: plans for several shapes read the same copy.
//!
//! ```text
//! plan of shapes A ──┐
//! plan of shapes B ──┼──> (which weights, which kernel, which format) ──> one packed copy
//! plan of shapes C ──┘                                                    freed with its last plan
//! ```
//!
//! A product with the transpose, as the way back of training has it, may read the copy that is packed for the way forth.
//!
//! Weights are the same if they are the same part of the same constant times the same factors
//! ([`WeightIdentity`]); nothing is compared element by element. A constant that folding makes anew for
//! every set of shapes is another one each time.
//!
//! Deliberately absent: biases, which are small and whose padding is the kernel's.

use std::any::Any;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use spark_gemm::{AlignedF32, PackedLayout, WeightMemory};
use spark_quant::QuantError;

use crate::Precision;
use crate::plan::{WeightIdentity, Weights};

/// What weights are packed into.
pub(crate) trait PackedBytes: Send + Sync + 'static {
    /// Bytes that it holds.
    fn packed_bytes(&self) -> usize;
}

impl PackedBytes for AlignedF32 {
    fn packed_bytes(&self) -> usize {
        4 * self.len()
    }
}

/// A packed copy that several prepared steps read.
pub(crate) type Packed<T> = Arc<Counted<T>>;

/// Packed weights whose bytes are counted as long as they are there.
pub(crate) struct Counted<T> {
    value: T,
    bytes: usize,
    total: Arc<AtomicUsize>,
}

impl<T> Deref for Counted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Which packed copy.
#[derive(PartialEq)]
pub(crate) struct PackedKey {
    /// The kernel that reads it, which knows the order of its elements.
    pub(crate) kernel: &'static str,
    /// What the elements are rounded to.
    pub(crate) precision: Precision,
    /// How they are held.
    pub(crate) layout: PackedLayout,
    /// Columns of each group.
    pub(crate) columns: Range<usize>,
}

struct Entry {
    weights: WeightIdentity,
    key: PackedKey,
    packed: Weak<dyn Any + Send + Sync>,
}

/// All packed weights of a model.
#[derive(Default)]
pub(crate) struct WeightStore {
    entries: Mutex<Vec<Entry>>,
    /// Bytes of what is held.
    bytes: Arc<AtomicUsize>,
    /// Where it lies.
    memory: WeightMemory,
}

impl WeightStore {
    /// Bytes of all packed weights that some plan reads, each counted once.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Gives memory that was taken and is not needed, as no more weights are packed for now, back to the system.
    pub(crate) fn give_back_rest(&self) {
        self.memory.give_back_rest();
    }

    /// The packed copy of `weights` that `key` names, packed now unless it is there; and whether it was.
    ///
    /// # Errors
    ///
    /// Those of `pack`.
    pub(crate) fn packed<T: PackedBytes>(
        &self,
        weights: &Weights,
        key: PackedKey,
        pack: impl FnOnce(&WeightMemory) -> Result<T, QuantError>,
    ) -> Result<(Packed<T>, bool), QuantError> {
        let identity = weights.identity();
        if let Some(identity) = &identity
            && let Some(found) = self.find(identity, &key)
        {
            return Ok((found, true));
        }
        let value = pack(&self.memory)?;
        let bytes = value.packed_bytes();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let packed = Arc::new(Counted {
            value,
            bytes,
            total: Arc::clone(&self.bytes),
        });
        if let Some(weights) = identity {
            let whole: Arc<dyn Any + Send + Sync> = packed.clone();
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            entries.retain(|entry| entry.packed.strong_count() > 0);
            entries.push(Entry {
                weights,
                key,
                packed: Arc::downgrade(&whole),
            });
        }
        Ok((packed, false))
    }

    /// The packed copy of the transpose of `weights` that `key` names, if some plan has it.
    pub(crate) fn packed_transpose<T: PackedBytes>(
        &self,
        weights: &Weights,
        key: &PackedKey,
    ) -> Option<Packed<T>> {
        self.find(&weights.identity()?.transposed()?, key)
    }

    fn find<T: PackedBytes>(&self, weights: &WeightIdentity, key: &PackedKey) -> Option<Packed<T>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let found = entries.iter().find(|entry| {
            entry.packed.strong_count() > 0 && entry.key == *key && entry.weights == *weights
        })?;
        found.packed.upgrade()?.downcast().ok()
    }
}
