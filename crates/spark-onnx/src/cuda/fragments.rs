//! Weights in the order in which `kernels/plan_tiles.cu` reads them: that of the fragments of `mma.m16n8k16`.
//!
//! ```text
//! [group][strip of 16 channels][block of 16 of K][lane][8 values of f16]
//!
//! lane = 4 g + t      value 4 tile + 2 r + h:  k = 8 r + 2 t + h of the block,  channel = 8 tile + g of the strip
//! ```
//!
//! Source of the fragments: PTX ISA 9.1, "Matrix Fragments for mma.m16n8k16". What fills the last strip and block up is zero.

use half::f16;

use crate::plan::Weights;

/// Channels of a strip.
const STRIP: usize = 16;
/// Of K, in a block.
pub(super) const K_BLOCK: usize = 16;
/// Values of a block of a strip.
const BLOCK: usize = STRIP * K_BLOCK;

/// Which rows of the weights of a group stand where along K.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fragments {
    groups: usize,
    channels: usize,
    /// By position along K, whole blocks of them: the row `tap * in_per_group + in`, or nothing.
    rows: Vec<Option<u32>>,
}

impl Fragments {
    /// Of `weights` whose rows stand along K as `rows` says; the last block is filled up.
    pub(super) fn new(weights: &Weights, mut rows: Vec<Option<u32>>) -> Self {
        rows.resize(rows.len().next_multiple_of(K_BLOCK), None);
        Self {
            groups: weights.groups,
            channels: weights.out_per_group,
            rows,
        }
    }

    /// Blocks of a strip.
    pub(super) fn k_blocks(&self) -> usize {
        self.rows.len() / K_BLOCK
    }

    /// Bytes of a group.
    pub(super) fn group_bytes(&self) -> usize {
        let n_blocks = self
            .channels
            .div_ceil(STRIP)
            .saturating_mul(self.k_blocks());
        n_blocks.saturating_mul(BLOCK * size_of::<f16>())
    }

    /// Bytes of all groups.
    pub(super) fn bytes(&self) -> usize {
        self.groups.saturating_mul(self.group_bytes())
    }

    /// The bytes of `weights`, which have these extents.
    pub(super) fn of(&self, weights: &Weights) -> Vec<u8> {
        let (n, n_blocks) = (self.channels, self.k_blocks());
        let n_rows = weights.taps * weights.in_per_group;
        let mut bytes = vec![0; self.bytes()];
        let mut values = vec![0.0; n_rows * n];
        let groups = bytes.chunks_exact_mut(self.group_bytes().max(1));
        for (group, to) in groups.enumerate() {
            weights.write(group, 0..n, &mut values, n);
            for (k, row) in self.rows.iter().enumerate() {
                let Some(row) = *row else { continue };
                let row = &values[row as usize * n..][..n];
                let (block, k) = (k / K_BLOCK, k % K_BLOCK);
                for (channel, &value) in row.iter().enumerate() {
                    let (strip, channel) = (channel / STRIP, channel % STRIP);
                    let lane = channel % 8 * 4 + k % 8 / 2;
                    let own = channel / 8 * 4 + k / 8 * 2 + k % 2;
                    let at = (strip * n_blocks + block) * BLOCK + lane * 8 + own;
                    to[2 * at..2 * at + 2].copy_from_slice(&f16::from_f32(value).to_ne_bytes());
                }
            }
        }
        bytes
    }
}
