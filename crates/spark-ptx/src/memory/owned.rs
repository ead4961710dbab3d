//! Global memory that the interpreter owns: for tests, and for callers without memory of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::global::{Allocation, GlobalMemory, Shadow};

/// Bytes between two allocations, so that an index too far meets nothing.
const GAP: u64 = 4096;
/// The first address.
const FIRST: u64 = 0x10_0000_0000;

/// Allocations in words that threads share.
#[derive(Debug, Default)]
pub struct OwnedMemory {
    allocations: Vec<Owned>,
}

#[derive(Debug)]
struct Owned {
    base: u64,
    len: u64,
    words: Vec<AtomicU32>,
    shadow: Arc<Shadow>,
    is_read_only: bool,
    name: Option<String>,
}

impl OwnedMemory {
    /// Memory without allocations.
    #[must_use]
    pub fn new() -> OwnedMemory {
        OwnedMemory::default()
    }

    /// Memory that nobody has written; its address, a multiple of 256.
    pub fn allocate(&mut self, len_bytes: usize) -> u64 {
        let after = self.allocations.last();
        let end = after.map_or(FIRST, |last| last.base + last.len);
        let base = (end + GAP).next_multiple_of(256);
        let words = len_bytes.div_ceil(4);
        self.allocations.push(Owned {
            base,
            len: len_bytes as u64,
            words: (0..words).map(|_| AtomicU32::new(0)).collect(),
            shadow: Arc::new(Shadow::new(len_bytes)),
            is_read_only: false,
            name: None,
        });
        base
    }

    /// Memory that holds these bytes; its address.
    pub fn allocate_with(&mut self, bytes: &[u8]) -> u64 {
        let base = self.allocate(bytes.len());
        self.write(base, bytes);
        base
    }

    /// Memory that holds these values; its address.
    pub fn allocate_f32(&mut self, values: &[f32]) -> u64 {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.allocate_with(&bytes)
    }

    /// Memory that holds these values; its address.
    pub fn allocate_u32(&mut self, values: &[u32]) -> u64 {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.allocate_with(&bytes)
    }

    /// Gives an allocation a name for findings, and says whether it is constant memory.
    pub fn describe(&mut self, base: u64, name: &str, is_read_only: bool) {
        let found = self.allocations.iter_mut().find(|owned| owned.base == base);
        if let Some(owned) = found {
            owned.name = Some(name.to_owned());
            owned.is_read_only = is_read_only;
        }
    }

    /// Writes from the host.
    pub fn write(&self, address: u64, bytes: &[u8]) {
        if let Some((owned, offset)) = self.find(address) {
            owned.shadow.mark(offset, bytes.len());
        }
        self.store(address, bytes);
    }

    /// Counts bytes that hold zeros as written.
    pub(crate) fn mark_written(&self, address: u64, len_bytes: usize) {
        if let Some((owned, offset)) = self.find(address) {
            owned.shadow.mark(offset, len_bytes);
        }
    }

    /// Reads from the host.
    #[must_use]
    pub fn read(&self, address: u64, len_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; len_bytes];
        self.load(address, &mut bytes);
        bytes
    }

    /// Reads values from the host.
    #[must_use]
    pub fn read_u32(&self, address: u64, n: usize) -> Vec<u32> {
        let bytes = self.read(address, 4 * n);
        let words = bytes.chunks_exact(4);
        words
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect()
    }

    /// Reads values from the host.
    #[must_use]
    pub fn read_f32(&self, address: u64, n: usize) -> Vec<f32> {
        let words = self.read_u32(address, n);
        words.into_iter().map(f32::from_bits).collect()
    }

    fn find(&self, address: u64) -> Option<(&Owned, usize)> {
        let after = self
            .allocations
            .partition_point(|owned| owned.base <= address);
        let owned = self.allocations.get(after.checked_sub(1)?)?;
        let offset = address - owned.base;
        (offset < owned.len).then_some((owned, offset as usize))
    }
}

impl GlobalMemory for OwnedMemory {
    fn allocations(&self) -> Vec<Allocation> {
        let describe = |owned: &Owned| Allocation {
            base: owned.base,
            len: owned.len,
            shadow: Some(Arc::clone(&owned.shadow)),
            is_read_only: owned.is_read_only,
            name: owned.name.clone(),
        };
        self.allocations.iter().map(describe).collect()
    }

    fn load(&self, address: u64, bytes: &mut [u8]) {
        let Some((owned, offset)) = self.find(address) else {
            return;
        };
        if (offset | bytes.len()).is_multiple_of(4) {
            let words = owned.words[offset / 4..].iter();
            for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
                to.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
            }
            return;
        }
        for (idx, byte) in bytes.iter_mut().enumerate() {
            let at = offset + idx;
            if let Some(word) = owned.words.get(at / 4) {
                *byte = word.load(Ordering::Relaxed).to_le_bytes()[at % 4];
            }
        }
    }

    fn store(&self, address: u64, bytes: &[u8]) {
        let Some((owned, offset)) = self.find(address) else {
            return;
        };
        if (offset | bytes.len()).is_multiple_of(4) {
            let words = owned.words[offset / 4..].iter();
            for (from, word) in bytes.chunks_exact(4).zip(words) {
                let value = u32::from_le_bytes([from[0], from[1], from[2], from[3]]);
                word.store(value, Ordering::Relaxed);
            }
            return;
        }
        for (idx, byte) in bytes.iter().enumerate() {
            let at = offset + idx;
            if let Some(word) = owned.words.get(at / 4) {
                let shift = 8 * (at % 4);
                let (keep, new) = (!(0xff << shift), u32::from(*byte) << shift);
                let change = |old: u32| Some(old & keep | new);
                // The closure never declines, so neither does the update.
                let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
            }
        }
    }

    fn update_32(&self, address: u64, change: &mut dyn FnMut(u32) -> u32) -> u32 {
        let Some((owned, offset)) = self.find(address) else {
            return 0;
        };
        let word = &owned.words[offset / 4];
        let mut old = word.load(Ordering::Relaxed);
        loop {
            let new = change(old);
            match word.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return old,
                Err(found) => old = found,
            }
        }
    }

    fn update_64(&self, address: u64, change: &mut dyn FnMut(u64) -> u64) -> u64 {
        // Two words cannot change as one step, so changes of 8 bytes take turns.
        let _guard = LOCK
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut bytes = [0; 8];
        self.load(address, &mut bytes);
        let old = u64::from_le_bytes(bytes);
        self.store(address, &change(old).to_le_bytes());
        old
    }
}

/// Held while 8 bytes change: only such changes race with each other.
static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
