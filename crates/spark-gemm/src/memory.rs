//! Memory for packed weights: on cache lines, in huge pages.
//!
//! ```text
//! AlignedF32      up to 2 MiB        the allocator's           more   a region of its own
//! WeightMemory    up to eight pages  the allocator's           more   [ weights | weights | ... | rest ], one region for many
//! ```
//!
//! Weights of a network are seldom as long as a huge page, but all of them together are several; they lie side by side, in
//! the order in which they are packed, which is that of a run. Each begins at a page, so that all pages of weights that are
//! given up go back.
//!
//! Deliberately absent: taking the place of weights that were given up. Their pages go back to the system, their
//! addresses with the last weights of the region.

#![allow(
    unsafe_code,
    reason = "hands out parts of a region, each element to one owner"
)]

use std::sync::{Arc, Mutex, PoisonError};

use zerocopy::FromZeros;

use crate::pages::page_bytes;
use crate::region::{HUGE_BYTES, Part, Region};

/// f32 of a cache line, which is also one AVX-512 vector.
const LINE: usize = 16;
/// f32 of a huge page.
const HUGE: usize = HUGE_BYTES / size_of::<f32>();
/// f32 of a region for weights: addresses, not memory.
const REGION: usize = 32 * HUGE;
/// Pages that weights fill at most for which a whole page in place of a part of one would be too much.
const SMALL_PAGES: usize = 8;

/// A run of f32 that starts on a cache line.
///
/// Large ones come as pages that the system clears when they are first touched, so that memory
/// which is about to be filled is not written twice.
#[derive(Debug)]
pub struct AlignedF32 {
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    /// Of the allocator: more than `len` elements, those before `head` lie before a cache line.
    Allocated {
        elements: Vec<f32>,
        head: usize,
        len: usize,
    },
    Part(Part),
}

impl AlignedF32 {
    /// `len` zeros.
    ///
    /// # Panics
    ///
    /// If the system refuses them.
    pub fn zeros(len: usize) -> Self {
        Self::try_zeros(len).unwrap_or_else(|| panic!("the system has no {len} f32"))
    }

    /// `len` zeros, or nothing where the system refuses.
    pub fn try_zeros(len: usize) -> Option<Self> {
        if len >= HUGE && cfg!(target_os = "linux") {
            return Self::in_region(len);
        }
        let elements = f32::new_vec_zeroed(len.checked_add(LINE - 1)?).ok()?;
        Some(Self::around(elements, len))
    }

    /// `len` zeros in a region of their own, if the system has them.
    fn in_region(len: usize) -> Option<Self> {
        let region = Region::reserve(len)?;
        // SAFETY: the only part of a new region, whose beginning is one of a page.
        let part = unsafe { Part::new(Arc::new(region), 0, len) };
        Some(Self {
            memory: Memory::Part(part),
        })
    }

    fn around(elements: Vec<f32>, len: usize) -> Self {
        let head = elements.as_ptr().addr().wrapping_neg() % (4 * LINE) / 4;
        Self {
            memory: Memory::Allocated {
                elements,
                head,
                len,
            },
        }
    }

    /// `values`, then zeros up to `len`.
    ///
    /// # Panics
    ///
    /// If `len` is less than there are values, or the system refuses.
    pub fn padded(values: &[f32], len: usize) -> Self {
        let mut padded = Self::zeros(len);
        padded.as_mut_slice()[..values.len()].copy_from_slice(values);
        padded
    }

    /// Number of f32 elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// All elements, to be written; the first lies at the start of a cache line.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        match &mut self.memory {
            Memory::Allocated {
                elements,
                head,
                len,
            } => &mut elements[*head..][..*len],
            Memory::Part(part) => part.as_mut_slice(),
        }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All elements; the first lies at the start of a cache line.
    #[inline]
    pub fn as_slice(&self) -> &[f32] {
        match &self.memory {
            Memory::Allocated {
                elements,
                head,
                len,
            } => &elements[*head..][..*len],
            Memory::Part(part) => part.as_slice(),
        }
    }
}

/// Memory for the packed weights of a network, side by side in huge pages.
///
/// Where the system has no memory of this kind, every run of weights has its own.
///
/// # Examples
///
/// ```
/// use spark_gemm::WeightMemory;
///
/// let memory = WeightMemory::default();
/// let mut first = memory.zeros(100);
/// let second = memory.zeros(50);
/// first.as_mut_slice().fill(1.0);
/// assert_eq!(second.as_slice(), [0.0; 50]);
/// drop(memory); // Both stay.
/// assert_eq!(first.as_slice(), [1.0; 100]);
/// ```
#[derive(Debug, Default)]
pub struct WeightMemory {
    rest: Mutex<Option<Rest>>,
}

/// What of a region has not been handed out: everything from an element on.
#[derive(Debug)]
struct Rest {
    region: Arc<Region>,
    start: usize,
}

impl WeightMemory {
    /// `len` zeros.
    ///
    /// # Panics
    ///
    /// If the system refuses them.
    pub fn zeros(&self, len: usize) -> AlignedF32 {
        let page = page_bytes() / size_of::<f32>();
        if len <= SMALL_PAGES * page || len > REGION {
            return AlignedF32::zeros(len);
        }
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        if rest
            .as_ref()
            .is_none_or(|rest| rest.region.len() - rest.start < len)
        {
            *rest = Region::reserve(REGION).map(|region| Rest {
                region: Arc::new(region),
                start: 0,
            });
        }
        let Some(rest) = rest.as_mut() else {
            return AlignedF32::zeros(len);
        };
        // SAFETY: a page from which on no part has been handed out, and the next one begins at a page behind this.
        let part = unsafe { Part::new(Arc::clone(&rest.region), rest.start, len) };
        rest.start = (rest.start + len)
            .next_multiple_of(page)
            .min(rest.region.len());
        AlignedF32 {
            memory: Memory::Part(part),
        }
    }

    /// Gives what the last huge page has beyond the weights back to the system: for when all weights there are to be are
    /// packed. Others may still follow.
    pub fn give_back_rest(&self) {
        let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rest) = rest.as_ref() {
            let end = rest.start.next_multiple_of(HUGE);
            // SAFETY: no part has been handed out from here on.
            unsafe { rest.region.give_back(rest.start, end) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Held by tests that take much memory, one of which looks at how much the process has.
    static MUCH: Mutex<()> = Mutex::new(());

    #[test]
    fn zeros_lie_on_lines_whatever_their_length() {
        let _alone = MUCH.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = WeightMemory::default();
        for len in [
            0,
            1,
            15,
            16,
            17,
            1000,
            HUGE - 1,
            HUGE,
            HUGE + 1,
            3 * HUGE + 5,
        ] {
            let fallible = AlignedF32::try_zeros(len).expect("a little memory");
            for mut zeros in [AlignedF32::zeros(len), fallible, memory.zeros(len)] {
                assert_eq!(zeros.len(), len);
                assert!(zeros.as_slice().iter().all(|v| v.to_bits() == 0), "{len}");
                assert!(len == 0 || zeros.as_slice().as_ptr().addr().is_multiple_of(64));
                zeros.as_mut_slice().fill(1.0);
            }
        }
        assert!(AlignedF32::try_zeros(usize::MAX).is_none());
        assert!(std::panic::catch_unwind(|| AlignedF32::zeros(1 << 50)).is_err());
        assert!(AlignedF32::try_zeros(usize::MAX / 8).is_none());
    }

    /// Parts keep what is theirs while others come and go, over several regions.
    #[test]
    fn weights_side_by_side_do_not_meet() {
        let _alone = MUCH.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = WeightMemory::default();
        let mut held: Vec<(f32, AlignedF32)> = Vec::new();
        for i in 0..400_usize {
            let len = 1 + (i * 7919) % (HUGE / 2);
            let mut weights = memory.zeros(len);
            assert!(weights.as_slice().iter().all(|v| v.to_bits() == 0), "{i}");
            weights.as_mut_slice().fill(i as f32);
            held.push((i as f32, weights));
            if i % 3 == 2 {
                held.swap_remove(i / 3);
            }
            if i % 50 == 0 {
                memory.give_back_rest();
            }
        }
        drop(memory);
        for (value, weights) in &held {
            assert!(weights.as_slice().iter().all(|v| v == value), "{value}");
        }
    }

    /// Of a model that packs its weights anew for every set of shapes, only those that are held take memory. Small ones are the
    /// allocator's, which may keep what is freed.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_given_up_goes_back_to_the_system() {
        let resident = || {
            let pages = std::fs::read_to_string("/proc/self/statm").expect("the system's figures");
            let pages = pages.split(' ').nth(1).expect("resident pages");
            pages.parse::<usize>().expect("a number") * 4096
        };
        let _alone = MUCH.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = WeightMemory::default();
        // Those that are just no small ones, and long ones, all of them 48 MiB and some of each kept.
        for len in [8_200, 10_000, 20_000, HUGE] {
            let mut kept = Vec::new();
            let before = resident();
            for i in 0..12 * HUGE * 2 / len {
                let mut weights = memory.zeros(len);
                weights.as_mut_slice().fill(1.0);
                if i % 10_000 == 0 {
                    kept.push(weights);
                }
            }
            let after = resident();
            // Other tests take memory meanwhile.
            assert!(
                after < before + (24 << 20),
                "{len}: {before} became {after}"
            );
            assert!(
                kept.iter()
                    .all(|weights| weights.as_slice() == vec![1.0; len])
            );
        }
    }
}
