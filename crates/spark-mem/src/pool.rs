//! Memory kept for reuse, in size classes.
//!
//! ```text
//! take(n)   class = n rounded up to 1, 1.25, 1.5 or 1.75 times a power of two
//!           a kept block of that class, else a new one
//! drop      the block goes back to its pool; its streams are remembered, so that work
//!           of its next user comes after them without the host waiting
//! trim      gives kept blocks back to the driver
//! ```
//!
//! Memory that is kept counts in the device's budget. What a buffer from a pool holds at
//! first is unspecified.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use crate::buffer::Buffer;
use crate::device::Device;
use crate::element::{Element, bytes_of};
use crate::error::MemError;
use crate::kind::BufferKind;
use crate::lock::lock;
use crate::memory::allocation::Allocation;
use crate::memory::block::{Block, Home, release};

/// The smallest class in bytes.
const SMALLEST_BYTES: usize = 512;

/// Memory of one kind kept for reuse. Clones share it.
///
/// # Examples
///
/// ```
/// use spark_mem::{Device, Pool};
///
/// let device = Device::host();
/// let pool = Pool::new(&device, device.shared_kind())?;
/// drop(pool.take::<f32>(1000)?); // its memory stays with the pool
/// let again = pool.take::<f32>(900)?; // and is used again
/// assert_eq!((again.len(), pool.stats().hits), (900, 1));
/// # Ok::<(), spark_mem::MemError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pool {
    inner: Arc<PoolInner>,
}

/// What a pool did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolStats {
    /// Buffers made of a kept block.
    pub hits: u64,
    /// Buffers for which memory had to be allocated.
    pub misses: u64,
    /// Number of unused blocks that the pool keeps now.
    pub kept_blocks: usize,
    /// Their size in bytes.
    pub kept_bytes: usize,
}

#[derive(Debug)]
struct PoolInner {
    device: Device,
    kind: BufferKind,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    classes: BTreeMap<usize, Vec<Block>>,
    stats: PoolStats,
}

impl Kept {
    fn pop(&mut self, class: usize) -> Option<Block> {
        let block = self.classes.get_mut(&class)?.pop()?;
        self.stats.kept_blocks -= 1;
        self.stats.kept_bytes -= class;
        Some(block)
    }
}

impl Pool {
    /// An empty pool for memory of this kind.
    ///
    /// # Errors
    ///
    /// [`MemError::KindUnsupported`].
    pub fn new(device: &Device, kind: BufferKind) -> Result<Self, MemError> {
        if let Err(why) = device.inner().backend.supports(kind) {
            return Err(MemError::KindUnsupported {
                kind,
                device: device.info().name.clone(),
                why,
            });
        }
        Ok(Self {
            inner: Arc::new(PoolInner {
                device: device.clone(),
                kind,
                kept: Mutex::default(),
            }),
        })
    }

    /// A buffer of `len` elements whose values are unspecified.
    ///
    /// # Errors
    ///
    /// As [`Device::buffer`]. Before an allocation that the budget or the driver refuses
    /// is reported, everything kept is given back and it is tried once more. What the budget has room
    /// for without the rest of its class is allocated without it, and not kept later.
    pub fn take<T: Element>(&self, len: usize) -> Result<Buffer<T>, MemError> {
        let n_bytes = bytes_of::<T>(len)?;
        let device = &self.inner.device;
        device.check_usable()?;
        if n_bytes == 0 {
            return device.buffer(self.inner.kind, 0);
        }
        let class = class_of(n_bytes).ok_or(MemError::SizeOverflow {
            len,
            element_bytes: size_of::<T>(),
        })?;
        let kept = lock(&self.inner.kept).pop(class);
        let block = match kept {
            Some(block) => {
                lock(&self.inner.kept).stats.hits += 1;
                block
            }
            None => {
                let block = match self.allocate(class) {
                    Err(MemError::OverBudget { .. }) if n_bytes < class => {
                        let exact = device.buffer(self.inner.kind, len)?;
                        lock(&self.inner.kept).stats.misses += 1;
                        return Ok(exact);
                    }
                    allocated => allocated?,
                };
                lock(&self.inner.kept).stats.misses += 1;
                block
            }
        };
        let home: Weak<dyn Home> = Arc::downgrade(&self.inner) as _;
        let allocation = Allocation::of_pool(device.clone(), block, home);
        Ok(Buffer::from_allocation(Arc::new(allocation), len))
    }

    fn allocate(&self, class: usize) -> Result<Block, MemError> {
        let device = &self.inner.device;
        let first = device.allocate(self.inner.kind, class);
        let allocation = match first {
            Err(MemError::OverBudget { .. } | MemError::OutOfMemory { .. })
                if self.stats().kept_blocks > 0 =>
            {
                self.trim(0);
                device.allocate(self.inner.kind, class)?
            }
            other => other?,
        };
        Ok(allocation.into_block())
    }

    /// Gives kept blocks back, the largest first, until at most `n_bytes` are kept. In a child of `fork` nothing
    /// is given back.
    pub fn trim(&self, n_bytes: usize) {
        if self.inner.device.is_forked() {
            return;
        }
        loop {
            let block = {
                let mut kept = lock(&self.inner.kept);
                if kept.stats.kept_bytes <= n_bytes {
                    return;
                }
                let largest = kept
                    .classes
                    .iter()
                    .rev()
                    .find(|(_, blocks)| !blocks.is_empty())
                    .map(|(class, _)| *class);
                largest.and_then(|class| kept.pop(class))
            };
            match block {
                Some(block) => release(&self.inner.device, block),
                None => return,
            }
        }
    }

    /// What it did and keeps.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        lock(&self.inner.kept).stats
    }
}

impl Home for PoolInner {
    fn put(&self, block: Block) {
        let class = block.memory.len_bytes;
        let mut kept = lock(&self.kept);
        kept.stats.kept_blocks += 1;
        kept.stats.kept_bytes += class;
        kept.classes.entry(class).or_default().push(block);
    }
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        if self.device.is_forked() {
            return;
        }
        let classes = std::mem::take(&mut lock(&self.kept).classes);
        for block in classes.into_values().flatten() {
            release(&self.device, block);
        }
    }
}

/// The smallest class that holds `n_bytes`; `None` if no class is that large.
fn class_of(n_bytes: usize) -> Option<usize> {
    if n_bytes <= SMALLEST_BYTES {
        return Some(SMALLEST_BYTES);
    }
    let power = n_bytes.checked_next_power_of_two()? / 2;
    let quarter = power / 4;
    // `power < n_bytes <= 2 * power`, so at most four quarters are added.
    let n_quarters = (n_bytes - power).div_ceil(quarter);
    let class = power.checked_add(quarter * n_quarters)?;
    isize::try_from(class).ok().map(|_| class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_are_for_and_waste_a_fifth_at_most() {
        for n_bytes in (1..70_000).chain([(1 << 30) + 1, (1 << 40) - 1, 1 << 40]) {
            let class = class_of(n_bytes).unwrap();
            assert!(class >= n_bytes, "{n_bytes} in {class}");
            assert!(
                n_bytes <= SMALLEST_BYTES || class * 4 <= n_bytes * 5,
                "{n_bytes} in {class}"
            );
            assert_eq!(class_of(class), Some(class), "a class is its own class");
        }
        assert_eq!(class_of(usize::MAX), None);
        assert_eq!(class_of(isize::MAX as usize), None);
    }

    #[test]
    fn what_fits_without_the_rest_of_its_class_is_given() {
        let device = Device::host_with(1000);
        let pool = Pool::new(&device, BufferKind::Host).unwrap();
        let whole = pool.take::<u8>(900).unwrap(); // its class has 1024 bytes
        assert_eq!((whole.len(), device.budget().used_bytes()), (900, 900));
        assert!(pool.take::<u8>(101).is_err());
        drop(whole);
        assert_eq!(
            (pool.stats().kept_bytes, device.budget().used_bytes()),
            (0, 0)
        );
        drop(pool.take::<u8>(512).unwrap());
        assert_eq!(pool.stats().kept_bytes, 512);
        assert_eq!(pool.take::<u8>(1000).unwrap().len(), 1000);
    }
}
