//! Parts of one buffer that are used at the same time: an arena.
//!
//! ```text
//! buffer   |   in    |  weights  |   out   |
//! parts     read 0..4  read 4..9   write 9..12       one launch, one allocation
//!           write 3..5 ── refused: it overlaps what is read
//! ```
//!
//! A buffer lends itself for reading any number of times or for writing once. Parts lend it by
//! ranges instead: what is written overlaps nothing else that is lent. They are held against each
//! other when they are asked for, so that views of parts are as good as views of buffers apart.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use super::view::{View, ViewMut};
use crate::element::Element;
use crate::error::MemError;
use crate::memory::allocation::Allocation;
use crate::ranges::ByRange;

/// Parts of a buffer that are lent out at the same time; made by [`Buffer::parts`](super::Buffer::parts).
///
/// # Examples
///
/// ```
/// use spark_mem::Device;
///
/// let device = Device::host();
/// let stream = device.new_stream()?;
/// let mut arena = device.shared::<u8>(1024)?;
/// arena.write(&stream)?[..512].fill(7);
/// {
///     let parts = arena.parts();
///     let from = parts.read(0..512)?.reinterpret::<f32>()?; // 128 floats
///     let to = parts.write(512..1024)?.reinterpret::<f32>()?;
///     stream.copy(from, to)?; // one allocation is read and written
///     assert!(parts.write(500..600).is_err()); // both are lent
/// }
/// assert_eq!(arena.read(&stream)?[512..], [7; 512]);
/// # Ok::<(), spark_mem::MemError>(())
/// ```
#[derive(Debug)]
pub struct Parts<'a, T: Element> {
    allocation: &'a Arc<Allocation>,
    len: usize,
    /// Ranges that are lent, and whether for writing. What is empty meets nothing.
    lent: RefCell<ByRange<(Range<usize>, bool)>>,
    elements: PhantomData<&'a mut [T]>,
}

impl<'a, T: Element> Parts<'a, T> {
    /// Parts of an allocation that begins with `len` elements, which is borrowed for writing.
    pub(super) fn new(allocation: &'a Arc<Allocation>, len: usize) -> Self {
        Self {
            allocation,
            len,
            lent: RefCell::default(),
            elements: PhantomData,
        }
    }

    /// These ranges for writing, as long as the allocation is borrowed.
    pub(super) fn split<const N: usize>(
        self,
        ranges: [Range<usize>; N],
    ) -> Result<[ViewMut<'a, T>; N], MemError> {
        for range in &ranges {
            self.lend(range, true)?;
        }
        Ok(ranges.map(|range| ViewMut::new(self.allocation, range.start, range.len())))
    }

    /// Elements `range`, for the device to read, as long as these parts live.
    ///
    /// # Errors
    ///
    /// [`MemError::OutOfRange`]; [`MemError::Overlap`] with a part that is lent for writing.
    pub fn read(&self, range: Range<usize>) -> Result<View<'_, T>, MemError> {
        self.lend(&range, false)?;
        Ok(View::new(self.allocation, range.start, range.len()))
    }

    /// Elements `range`, for the device to write, as long as these parts live.
    ///
    /// # Errors
    ///
    /// [`MemError::OutOfRange`]; [`MemError::Overlap`] with any part that is lent.
    pub fn write(&self, range: Range<usize>) -> Result<ViewMut<'_, T>, MemError> {
        self.lend(&range, true)?;
        Ok(ViewMut::new(self.allocation, range.start, range.len()))
    }

    fn lend(&self, range: &Range<usize>, writes: bool) -> Result<(), MemError> {
        check_range(range, self.len)?;
        let mut lent = self.lent.borrow_mut();
        let in_the_way = lent
            .meeting(range)
            .filter(|(_, is_written)| writes || *is_written)
            .min_by_key(|(other, _)| other.start);
        if let Some((other, _)) = in_the_way {
            return Err(MemError::Overlap {
                asked: range.clone(),
                lent: other.clone(),
            });
        }
        lent.insert(range.clone(), (range.clone(), writes));
        Ok(())
    }
}

/// Whether a range lies in a buffer of so many elements.
pub(super) fn check_range(range: &Range<usize>, len: usize) -> Result<(), MemError> {
    if range.start <= range.end && range.end <= len {
        return Ok(());
    }
    Err(MemError::OutOfRange {
        start: range.start,
        end: range.end,
        len,
    })
}
