//! From the size of a tile, known at run time, to the kernel compiled for it.

/// Calls a kernel for a tile of `(vectors, rows)`, as [`next_rows`](crate::panel::next_rows) gives them.
macro_rules! by_size {
    ($size:expr, $isa:expr, $kernel:ident, $tile:expr) => {
        match $size {
            (1, 8) => spark_simd::dispatch!($isa, $kernel::<1, 8>(t: &Tile<'_>) => ($tile)),
            (1, 4) => spark_simd::dispatch!($isa, $kernel::<1, 4>(t: &Tile<'_>) => ($tile)),
            (1, _) => spark_simd::dispatch!($isa, $kernel::<1, 1>(t: &Tile<'_>) => ($tile)),
            (2, 6) => spark_simd::dispatch!($isa, $kernel::<2, 6>(t: &Tile<'_>) => ($tile)),
            (2, 4) => spark_simd::dispatch!($isa, $kernel::<2, 4>(t: &Tile<'_>) => ($tile)),
            (2, _) => spark_simd::dispatch!($isa, $kernel::<2, 1>(t: &Tile<'_>) => ($tile)),
            (3, 8) => spark_simd::dispatch!($isa, $kernel::<3, 8>(t: &Tile<'_>) => ($tile)),
            (3, 4) => spark_simd::dispatch!($isa, $kernel::<3, 4>(t: &Tile<'_>) => ($tile)),
            (3, _) => spark_simd::dispatch!($isa, $kernel::<3, 1>(t: &Tile<'_>) => ($tile)),
            (_, 6) => spark_simd::dispatch!($isa, $kernel::<4, 6>(t: &Tile<'_>) => ($tile)),
            (_, 4) => spark_simd::dispatch!($isa, $kernel::<4, 4>(t: &Tile<'_>) => ($tile)),
            _ => spark_simd::dispatch!($isa, $kernel::<4, 1>(t: &Tile<'_>) => ($tile)),
        }
    };
}
pub(super) use by_size;

/// `by_rows!(size, kernel, tile)` calls an unsafe kernel that needs no dispatch for a tile of
/// `(vectors, rows)`, as [`next_rows`](crate::panel::next_rows) gives them; `kernel<X>` one whose first parameter is `X`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! by_rows {
    ($size:expr, $kernel:ident $(<$operand:ty>)?, $tile:expr) => {
        match $size {
            (1, 8) => $kernel::<$($operand,)? 1, 8>($tile),
            (1, 4) => $kernel::<$($operand,)? 1, 4>($tile),
            (1, _) => $kernel::<$($operand,)? 1, 1>($tile),
            (2, 6) => $kernel::<$($operand,)? 2, 6>($tile),
            (2, 4) => $kernel::<$($operand,)? 2, 4>($tile),
            (2, _) => $kernel::<$($operand,)? 2, 1>($tile),
            (3, 8) => $kernel::<$($operand,)? 3, 8>($tile),
            (3, 4) => $kernel::<$($operand,)? 3, 4>($tile),
            (3, _) => $kernel::<$($operand,)? 3, 1>($tile),
            (_, 6) => $kernel::<$($operand,)? 4, 6>($tile),
            (_, 4) => $kernel::<$($operand,)? 4, 4>($tile),
            _ => $kernel::<$($operand,)? 4, 1>($tile),
        }
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use by_rows;
