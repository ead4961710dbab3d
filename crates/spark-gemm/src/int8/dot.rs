//! From a tile's size and instructions, known at run time, to the kernel compiled for them.

#![allow(
    unsafe_code,
    reason = "calls kernels that are compiled for what the packed weights hold the proof of"
)]

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "aarch64")]
mod mmla;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
use super::instructions::ByteKind;
use super::instructions::Int8Kind;
use super::tile::Int8Tile;

/// `by_rows!(size, flip, kernel, tile)` calls an unsafe kernel for a tile of `(vectors, rows)`, as
/// [`Int8Instructions::next_rows`](super::Int8Instructions::next_rows) gives them, for one kind of bytes.
macro_rules! by_rows {
    ($size:expr, $flip:expr, $kernel:path, $tile:expr) => {
        match $flip {
            true => by_rows!(@ $size, true, $kernel, $tile),
            false => by_rows!(@ $size, false, $kernel, $tile),
        }
    };
    (@ $size:expr, $flip:literal, $kernel:path, $tile:expr) => {{
        use $kernel as kernel;
        match $size {
            (1, 8) => kernel::<1, 8, $flip>($tile),
            (1, 4) => kernel::<1, 4, $flip>($tile),
            (1, _) => kernel::<1, 1, $flip>($tile),
            (2, 6) => kernel::<2, 6, $flip>($tile),
            (2, 4) => kernel::<2, 4, $flip>($tile),
            (2, _) => kernel::<2, 1, $flip>($tile),
            (3, 8) => kernel::<3, 8, $flip>($tile),
            (3, 4) => kernel::<3, 4, $flip>($tile),
            (3, _) => kernel::<3, 1, $flip>($tile),
            (_, 6) => kernel::<4, 6, $flip>($tile),
            (_, 4) => kernel::<4, 4, $flip>($tile),
            _ => kernel::<4, 1, $flip>($tile),
        }
    }};
}

impl Int8Tile<'_> {
    /// Computes `rows` rows, as [`Int8Panel::next_rows`](super::Int8Panel::next_rows) gave them.
    ///
    /// # Safety
    ///
    /// `offsets` must have one for every tap, unless there is a `border`.
    ///
    /// For each of the rows: `x` and `border` must give pointers readable for as many bytes as the weights
    /// are deep; what the output points at must be writable for the panel's columns, a residual readable. `initial`
    /// and multipliers, and zero points and the bias if there are any, must be readable for the panel's columns
    /// padded to whole vectors.
    pub unsafe fn run(&self, rows: usize) {
        let size = (self.panel.vectors, rows);
        if size.0 == 0 {
            return;
        }
        let instructions = self.panel.instructions;
        let flip = instructions.multiplied_as(self.kind) != self.kind;
        // SAFETY: forwarded; the packed weights hold the instructions, which detection alone makes.
        unsafe {
            match instructions.kind() {
                Int8Kind::Portable => by_rows!(size, flip, portable::tile_portable, self),
                #[cfg(target_arch = "x86_64")]
                Int8Kind::Avx2 => by_rows!(size, flip, x86::tile_avx2, self),
                #[cfg(target_arch = "x86_64")]
                Int8Kind::AvxVnni => by_rows!(size, flip, x86::tile_avx_vnni, self),
                #[cfg(target_arch = "x86_64")]
                Int8Kind::Avx512 => by_rows!(size, flip, x86::tile_avx512, self),
                #[cfg(target_arch = "x86_64")]
                Int8Kind::Avx512Vnni => by_rows!(size, flip, x86::tile_avx512_vnni, self),
                #[cfg(target_arch = "aarch64")]
                Int8Kind::Neon => by_rows!(size, flip, arm::tile_neon, self),
                #[cfg(target_arch = "aarch64")]
                Int8Kind::NeonDot => by_rows!(size, flip, arm::tile_neon_dot, self),
                #[cfg(target_arch = "aarch64")]
                Int8Kind::NeonI8mm => {
                    let is_signed = self.kind == ByteKind::Signed;
                    by_rows!(size, is_signed, mmla::tile_neon_i8mm, self);
                }
                #[allow(
                    unreachable_patterns,
                    reason = "which instructions are left depends on the target"
                )]
                kind => unreachable!("{kind:?} is found where the processor has it"),
            }
        }
    }
}
