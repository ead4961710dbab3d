//! Convolutions and linear layers in tiles, as `kernels/plan_tiles.cu` computes them on tensor cores, and
//! `kernels/plan_tiles_f32.cu` without: which steps take them, and in which tiles.
//!
//! ```text
//! can_implement   weights finite, channels side by side, no transposed convolution, offsets within 31 bits
//!                                                                                  else the plain kernel
//! is_profitable   K and N fill a good part of a fragment                           else the plain kernel
//! x is f32        there are no tensor cores without rounding it: one kernel, from 16 positions on
//! by element      where pieces of x do not begin at multiples of 16 bytes, or are bytes
//! tile            the least of   waves of blocks * (start and end + stages * (mma + copies) of a warp)
//! ```
//!
//! Nothing is measured: costs are counted in instructions of a warp, waves by the processors of a GB10, so that the
//! same network has the same kernels everywhere.

use super::{Launch, Launching, Work, check};
use crate::cuda::blocks::Stored;
use crate::cuda::fragments::Fragments;
use crate::cuda::refused::Refused;
use crate::cuda::structures::{self, Piece, Strided};
use crate::cuda::variants::TilesKernel;
use crate::cuda::walk::{count, product};
use crate::plan::{Axis, ConvStep, Epilogue, LinearStep, MAX_RANK, View, Weights, Window};
use half::f16;

/// Elements of a piece.
const PIECE: usize = 8;
/// What the address of a piece is a multiple of, in bytes.
const PIECE_BYTES: u64 = 16;
/// Where views have their axes.
const GROUP: usize = 0;
const SAMPLE: usize = 1;
const ROW: usize = 2;
const COLUMN: usize = 3;
/// Elements that a tap may lie from the first one at most.
const MOST_OFFSET: i64 = 1 << 30;
/// Least extents and multiplications that fill tensor cores.
const LEAST_K: usize = 16;
const LEAST_N: usize = 8;
const LEAST_PRODUCTS: usize = 1 << 12;
/// Least positions that fill a good part of a tile of f32.
const LEAST_M_OF_FLOATS: usize = 16;
/// Blocks that run at once: two on each of the 48 processors of a GB10.
const BLOCKS_AT_ONCE: usize = 96;
/// What a block does before its first stage and after its last.
const START_AND_END: usize = 60;

/// How a kernel reads x.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// As f16, in pieces of eight.
    Pieces,
    /// As f16, one by one.
    Elements,
    /// As f32, weights as they are stored.
    Floats(Stored),
}

/// Positions, channels and elements of K that a block has at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tile {
    m: usize,
    n: usize,
    k: usize,
}

impl Tile {
    pub(super) const OF_64X64: Self = Self::new(64, 64, 32);
    pub(super) const OF_32X32: Self = Self::new(32, 32, 64);
    pub(super) const OF_16X32: Self = Self::new(16, 32, 128);

    const fn new(m: usize, n: usize, k: usize) -> Self {
        Self { m, n, k }
    }

    /// Blocks for `batch` products of `m` rows and `n` columns.
    pub(super) fn blocks(self, batch: usize, [m, n]: [usize; 2]) -> usize {
        batch
            .saturating_mul(m.div_ceil(self.m))
            .saturating_mul(n.div_ceil(self.n))
    }

    /// Instructions of a warp from the first to the last, waves of blocks one after the other. `per_piece` are those that bring
    /// a piece of a, in pieces.
    pub(super) fn cost(self, batch: usize, [m, n, k]: [usize; 3], per_piece: usize) -> usize {
        let n_mma = self.m * self.n * self.k / (4 * 2048);
        let n_copies = self.m * self.k / 1024 * per_piece + self.n * self.k / 1024;
        let a_stage = n_mma + 2 * n_copies;
        let a_block = START_AND_END + k.div_ceil(self.k).saturating_mul(a_stage);
        let waves = self.blocks(batch, [m, n]).div_ceil(BLOCKS_AT_ONCE);
        waves.saturating_mul(a_block)
    }
}

/// Whether a product fills a good part of the fragments that it takes.
pub(super) fn is_profitable([m, n, k]: [usize; 3]) -> bool {
    let n_products = m.saturating_mul(n).saturating_mul(k);
    k >= LEAST_K && n >= LEAST_N && n_products >= LEAST_PRODUCTS
}

impl TilesKernel {
    const OF_PIECES: [Self; 3] = [Self::Of64x64, Self::Of32x32, Self::Of16x32];
    const OF_ELEMENTS: [Self; 2] = [Self::Of64x64ByElement, Self::Of32x32ByElement];

    fn tile(self) -> Tile {
        match self {
            Self::Of64x64 | Self::Of64x64ByElement | Self::OfF32 | Self::OfF32AndF16 => {
                Tile::OF_64X64
            }
            Self::Of32x32 | Self::Of32x32ByElement => Tile::OF_32X32,
            Self::Of16x32 => Tile::OF_16X32,
        }
    }

    /// The kernel for `groups` products of extents `m`, `n`, `k`; nothing where the plain one does as well.
    fn choose(reads: Reads, groups: usize, extents: [usize; 3]) -> Option<Self> {
        if !is_profitable(extents) {
            return None;
        }
        let (all, per_piece): (&[Self], _) = match reads {
            Reads::Pieces => (&Self::OF_PIECES, 1),
            Reads::Elements => (&Self::OF_ELEMENTS, PIECE),
            Reads::Floats(_) if extents[0] < LEAST_M_OF_FLOATS => return None,
            Reads::Floats(Stored::F16) => return Some(Self::OfF32AndF16),
            Reads::Floats(_) => return Some(Self::OfF32),
        };
        let kernels = all.iter().copied();
        kernels.min_by_key(|kernel| kernel.tile().cost(groups, extents, per_piece))
    }
}

/// Sample, row and column of a view, and its channels.
#[derive(Clone, Copy)]
struct Positions {
    axes: [Axis; 3],
    channels: Axis,
}

impl Positions {
    fn of_pictures(view: &View) -> Self {
        Self {
            axes: [view.axes[0], view.axes[2], view.axes[3]],
            channels: view.axes[1],
        }
    }

    fn of_matrix(view: &View) -> Self {
        let one = Axis {
            extent: 1,
            stride: 0,
        };
        Self {
            axes: [view.axes[0], one, one],
            channels: view.axes[1],
        }
    }

    fn has_channels_side_by_side(&self) -> bool {
        self.channels.extent <= 1 || self.channels.stride == 1
    }

    /// Strides as the kernels take them; of axes with one position, none.
    fn strides(&self, per_group: usize) -> [i64; MAX_RANK] {
        let mut strides = [0; MAX_RANK];
        strides[GROUP] = per_group as i64;
        for (to, axis) in strides[SAMPLE..].iter_mut().zip(&self.axes) {
            *to = if axis.extent > 1 {
                axis.stride as i64
            } else {
                0
            };
        }
        strides
    }
}

/// A step as these kernels see it.
struct Product<'a> {
    x: &'a View,
    y: &'a View,
    weights: &'a Weights,
    window: Window,
    epilogue: &'a Epilogue,
    positions: fn(&View) -> Positions,
}

/// The table of K: an entry for each piece, or each element, and which weights each position along K takes.
struct Depth {
    pieces: Vec<Piece>,
    rows: Vec<Option<u32>>,
}

impl Depth {
    /// Of `product`, whose x has these strides; nothing where an offset is too great.
    fn of(product: &Product<'_>, strides: &[i64; MAX_RANK], reads: Reads) -> Option<Self> {
        let w = product.weights;
        let by_element = reads != Reads::Pieces;
        let width = if by_element { 1 } else { PIECE };
        let [_, n_columns] = product.window.kernel;
        let (mut pieces, mut rows) = (Vec::new(), Vec::new());
        for tap in 0..w.taps {
            let at = [tap / n_columns, tap % n_columns];
            // Within 2^28: the plain kernel's check came first.
            let [dy, dx] = [0, 1].map(|axis| (at[axis] * product.window.dilation[axis]) as i64);
            let tap_offset = dy
                .checked_mul(strides[ROW])?
                .checked_add(dx.checked_mul(strides[COLUMN])?)?;
            for channel in (0..w.in_per_group).step_by(width) {
                let offset = tap_offset.checked_add(channel as i64)?;
                if offset.abs() > MOST_OFFSET {
                    return None;
                }
                let n = width.min(w.in_per_group - channel);
                pieces.push(Piece {
                    dy: dy as i32,
                    dx: dx as i32,
                    offset: offset as i32,
                    bytes: 2 * n as u32,
                });
                let first = tap * w.in_per_group + channel;
                let row = |own: usize| u32::try_from(first + own).ok().filter(|_| own < n);
                rows.extend((0..width).map(row));
            }
        }
        if by_element {
            // Threads take eight entries at a time.
            let nothing = Piece {
                dy: 0,
                dx: 0,
                offset: 0,
                bytes: 0,
            };
            pieces.resize(pieces.len().next_multiple_of(PIECE), nothing);
        }
        Some(Self { pieces, rows })
    }
}

impl Launching<'_> {
    pub(super) fn conv_in_tiles(
        &mut self,
        index: usize,
        step: &ConvStep,
    ) -> Result<Option<Launch>, Refused> {
        if step.transposed {
            return Ok(None);
        }
        let product = Product {
            x: &step.x,
            y: &step.y,
            weights: &step.weights,
            window: step.window,
            epilogue: &step.epilogue,
            positions: Positions::of_pictures,
        };
        self.in_tiles(index, &product)
    }

    pub(super) fn linear_in_tiles(
        &mut self,
        index: usize,
        step: &LinearStep,
    ) -> Result<Option<Launch>, Refused> {
        let product = Product {
            x: &step.x,
            y: &step.y,
            weights: &step.weights,
            window: Window {
                kernel: [1, 1],
                stride: [1, 1],
                dilation: [1, 1],
                pad: [0, 0],
            },
            epilogue: &step.epilogue,
            positions: Positions::of_matrix,
        };
        self.in_tiles(index, &product)
    }

    /// The launch of a product whose extents have been found to fit; nothing where it is the plain kernel's.
    fn in_tiles(&mut self, index: usize, step: &Product<'_>) -> Result<Option<Launch>, Refused> {
        let w = step.weights;
        let [x, y] = [step.x, step.y].map(step.positions);
        let [samples, height, width] = y.axes.map(|axis| axis.extent);
        let m = product([samples, height, width])? as usize;
        let place = self.blocks.place(step.x)?;
        let x_strides = x.strides(w.in_per_group);
        let Some(reads) = self.reads(step.x, &x_strides, w)? else {
            return Ok(None);
        };
        let k = match reads {
            Reads::Pieces => w.taps * w.in_per_group.next_multiple_of(PIECE),
            _ => w.taps * w.in_per_group,
        };
        let residual = step.epilogue.residual.as_ref().map(step.positions);
        let has_channels = [Some(&x), Some(&y), residual.as_ref()];
        let mut has_channels = has_channels.into_iter().flatten();
        if !has_channels.all(Positions::has_channels_side_by_side) {
            return Ok(None);
        }
        let n = w.out_per_group;
        let Some(kernel) = TilesKernel::choose(reads, w.groups, [m, n, k]) else {
            return Ok(None);
        };
        let Some(depth) = Depth::of(step, &x_strides, reads) else {
            return Ok(None);
        };
        // What is padded is multiplied: zero by an infinity would be NaN.
        let stored = self.weights;
        let is_finite = |value: &f32| match stored {
            Stored::F16 => f16::from_f32(*value).is_finite(),
            _ => value.is_finite(),
        };
        if !w.all(is_finite) {
            return Ok(None);
        }
        let blocks = count(kernel.tile().blocks(w.groups, [m, n]))?;
        let of_residual = |view: &View| Ok((step.positions)(view).strides(n));
        let epilogue = self.epilogue(step.epilogue, step.y, w.groups * n, of_residual)?;
        check(
            w.len() == w.groups * w.taps * w.in_per_group * n,
            "weights that were given up",
        )?;
        let n_pieces = depth.pieces.len();
        let n_pieces = if reads == Reads::Pieces {
            n_pieces
        } else {
            n_pieces / PIECE
        };
        let pieces = self.constants.add_table(self.blocks, &depth.pieces)?;
        let (weights, k_blocks, group_bytes) = match reads {
            Reads::Floats(stored) => {
                let group_bytes = k * n * stored.size_bytes();
                (self.weights(index, w)?, 0, group_bytes)
            }
            Reads::Pieces | Reads::Elements => {
                let fragments = Fragments::new(w, depth.rows);
                let (k_blocks, group_bytes) = (fragments.k_blocks(), fragments.group_bytes());
                let held = self
                    .constants
                    .add_fragments(self.blocks, index, fragments)?;
                (held.place(), k_blocks, group_bytes)
            }
        };
        let pair = |pair: [usize; 2]| pair.map(|value| value as u32);
        let work = structures::Tiles {
            x: Strided {
                place,
                strides: x_strides,
            },
            y: self.blocks.strided(step.y, y.strides(n))?,
            epilogue,
            weights,
            pieces: pieces.offset as u64,
            weights_stride: group_bytes as i64,
            m: count(m)?,
            n: count(n)?,
            k: count(k)?,
            n_pieces: count(n_pieces)?,
            k_blocks: count(k_blocks)?,
            height: count(height)?,
            width: count(width)?,
            in_height: count(x.axes[1].extent)?,
            in_width: count(x.axes[2].extent)?,
            stride: pair(step.window.stride),
            pad: pair(step.window.pad),
            unused: 0,
        };
        Ok(Launch::of_blocks(blocks, Work::Tiles(kernel, work)))
    }

    /// How x is read; nothing where a kernel would have to round its elements, or weights are of another kind.
    fn reads(
        &self,
        x: &View,
        strides: &[i64; MAX_RANK],
        weights: &Weights,
    ) -> Result<Option<Reads>, Refused> {
        let place = self.blocks.place(x)?;
        let is_aligned = || {
            let mut strides = strides.iter().enumerate();
            place.offset.is_multiple_of(PIECE_BYTES)
                && strides.all(|(axis, &stride)| {
                    axis == GROUP && weights.groups == 1 || stride % PIECE as i64 == 0
                })
        };
        Ok(match (self.blocks.held(x.buffer)?.stored, self.weights) {
            (Stored::F32, stored) => Some(Reads::Floats(stored)),
            // A piece that is mostly tail costs more than its elements.
            (Stored::F16, Stored::F16) if is_aligned() && weights.in_per_group >= PIECE => {
                Some(Reads::Pieces)
            }
            (Stored::F16 | Stored::U8 | Stored::I8, Stored::F16) => Some(Reads::Elements),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(extents: [usize; 3]) -> Option<TilesKernel> {
        TilesKernel::choose(Reads::Pieces, 1, extents)
    }

    #[test]
    fn tiles_grow_with_the_product() {
        assert_eq!(chosen([2048, 256, 64]), Some(TilesKernel::Of64x64));
        assert_eq!(chosen([400, 125, 40]), Some(TilesKernel::Of32x32));
        assert_eq!(chosen([128, 256, 1024]), Some(TilesKernel::Of16x32));
        assert_eq!(chosen([1, 2048, 1024]), Some(TilesKernel::Of16x32));
        assert_eq!(
            TilesKernel::choose(Reads::Elements, 1, [8192, 64, 147]),
            Some(TilesKernel::Of64x64ByElement)
        );
    }

    #[test]
    fn what_fills_no_fragment_is_the_plain_kernels() {
        assert_eq!(chosen([4096, 4, 64]), None);
        assert_eq!(chosen([4096, 64, 9]), None);
        assert_eq!(chosen([1, 16, 16]), None);
        assert_eq!(TilesKernel::choose(Reads::Elements, 512, [32, 1, 49]), None);
        let vector = TilesKernel::choose(Reads::Floats(Stored::F32), 1, [1, 64, 64]);
        assert_eq!(vector, None);
    }

    #[test]
    fn blocks_cover_every_tile_of_every_group() {
        assert_eq!(Tile::OF_64X64.blocks(3, [65, 64]), 6);
        assert_eq!(Tile::OF_16X32.blocks(1, [16, 33]), 2);
    }
}
