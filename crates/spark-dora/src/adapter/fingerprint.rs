//! A number that tells one base weight from another.
//!
//! Not cryptographic: it answers "is this the network the adapter was trained on", not "was it forged".
//! Shape and element type count, so the same network in another precision is another base.

use candle_core::{CpuStorage, Device, Storage, Tensor};

use crate::base::Base;
use crate::error::Result;

/// The fingerprint of a base weight.
pub(crate) fn of_base(base: &Base) -> Result<u64> {
    match base {
        Base::Dense(weight) => of_tensor(weight),
        Base::Packed(packed) => {
            let mut hash = Hash::new(base.dims(), "packed");
            packed.for_each_code(|bytes| hash.add(bytes));
            Ok(hash.finish())
        }
    }
}

/// The fingerprint of a tensor.
pub(crate) fn of_tensor(tensor: &Tensor) -> Result<u64> {
    let tensor = tensor.to_device(&Device::Cpu)?.contiguous()?;
    let mut hash = Hash::new(tensor.dims(), tensor.dtype().as_str());
    let (storage, layout) = tensor.storage_and_layout();
    let Some((start, end)) = layout.contiguous_offsets() else {
        return Ok(hash.finish());
    };
    if let Storage::Cpu(storage) = &*storage {
        match storage {
            CpuStorage::F32(v) => hash.add_words(v[start..end].iter().map(|v| v.to_bits().into())),
            CpuStorage::F64(v) => hash.add_words(v[start..end].iter().map(|v| v.to_bits())),
            CpuStorage::F16(v) => hash.add_words(v[start..end].iter().map(|v| v.to_bits().into())),
            CpuStorage::BF16(v) => hash.add_words(v[start..end].iter().map(|v| v.to_bits().into())),
            _ => {}
        }
    }
    Ok(hash.finish())
}

/// Words stirred one after the other with the constants of SplitMix64.
struct Hash(u64);

impl Hash {
    fn new(dims: &[usize], kind: &str) -> Self {
        let mut hash = Self(0x9e37_79b9_7f4a_7c15);
        hash.add_words(dims.iter().map(|&d| d as u64));
        hash.add(kind.as_bytes());
        hash
    }

    fn add(&mut self, bytes: &[u8]) {
        self.add_words(bytes.iter().map(|&b| b.into()));
    }

    fn add_words(&mut self, words: impl Iterator<Item = u64>) {
        for word in words {
            self.0 = (self.0 ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            self.0 ^= self.0 >> 29;
        }
    }

    fn finish(self) -> u64 {
        let z = (self.0 ^ (self.0 >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
