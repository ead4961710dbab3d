//! The kernels of `kernels/blocks.cu`, each with the version for devices that are no GPU: the vector
//! code of this crate on one thread.

use spark_mem::{KernelSource, LaunchShape, Read, Write};

use crate::block::{MxScale, Nvfp4Formula, ScaleSearch, mx, nvfp4};
use crate::packed::{PackedFormat, swizzle};
use crate::scalar::{E2m1, E4m3, MiniFormat};
use crate::simd::ExecutionPolicy;

const FILE: &str = "blocks.cu";
const SOURCE: &str = include_str!("../../kernels/blocks.cu");

/// `largest`, `values`, groups of four values.
pub(super) type Largest = (Write<u32>, Read<f32>, u64);
/// `codes`, `scales`, `values`, `largest`, groups of four values.
pub(super) type ToNvfp4 = (Write<u8>, Write<u8>, Read<f32>, Read<u32>, u64);
/// `values`, `codes`, `scales`, tensor scale, groups of four values.
pub(super) type FromNvfp4 = (Write<f32>, Read<u8>, Read<u8>, f32, u64);
/// `codes`, `scales`, `values`, groups of four values.
pub(super) type ToMx = (Write<u8>, Write<u8>, Read<f32>, u64);
/// `values`, `codes`, `scales`, groups of four values.
pub(super) type FromMx = (Write<f32>, Read<u8>, Read<u8>, u64);
/// Destination, source, rows, columns, bytes of the tiles.
pub(super) type Swizzle = (Write<u8>, Read<u8>, u32, u32, u64);

pub(super) const LARGEST: KernelSource<Largest> =
    KernelSource::new(FILE, SOURCE, "largest_magnitude_f32").with_host(
        |_: LaunchShape, (largest, values, _)| {
            largest[0] = largest[0].max(ExecutionPolicy::one_thread().run(nvfp4::MaxBits(values)));
        },
    );

pub(super) const TO_NVFP4: KernelSource<ToNvfp4> =
    KernelSource::new(FILE, SOURCE, "nvfp4_from_f32").with_host(
        |_: LaunchShape, (codes, scales, values, largest, _)| {
            if largest[0] >= f32::INFINITY.to_bits() {
                return;
            }
            let search = ScaleSearch::Amax;
            ExecutionPolicy::one_thread().run(nvfp4::Quantize {
                values,
                codes,
                scales,
                tensor: nvfp4::tensor_scale(f32::from_bits(largest[0]), search),
                formula: Nvfp4Formula::ModelOpt,
                search,
                stream: false,
            });
        },
    );

pub(super) const FROM_NVFP4: KernelSource<FromNvfp4> =
    KernelSource::new(FILE, SOURCE, "f32_from_nvfp4").with_host(
        |_: LaunchShape, (values, codes, scales, tensor, _)| {
            ExecutionPolicy::one_thread().run(nvfp4::Dequantize {
                codes,
                scales,
                tensor,
                values,
                stream: false,
            });
        },
    );

/// Blocks that are not finite have the scale NaN and no codes, as the kernels give them.
fn forget_what_is_not_finite(values: &[f32], codes: &mut [u8], scales: &mut [u8]) {
    let n_codes = codes.len() / scales.len().max(1);
    let blocks = values.chunks(PackedFormat::Mx(MiniFormat::E2m1).block());
    let codes = codes.chunks_mut(n_codes.max(1));
    for ((values, codes), scale) in blocks.zip(codes).zip(scales) {
        if values.iter().any(|value| !value.is_finite()) {
            codes.fill(0);
            *scale = 255;
        }
    }
}

macro_rules! mx {
    ($to:ident $to_entry:literal, $from:ident $from_entry:literal, $element:ty, $format:ident) => {
        pub(super) const $to: KernelSource<ToMx> = KernelSource::new(FILE, SOURCE, $to_entry)
            .with_host(|_: LaunchShape, (codes, scales, values, _)| {
                ExecutionPolicy::one_thread().run(mx::Quantize::<$element> {
                    values,
                    codes,
                    scales,
                    rule: MxScale::Floor,
                    stream: false,
                    format: std::marker::PhantomData,
                });
                forget_what_is_not_finite(values, codes, scales);
            });
        pub(super) const $from: KernelSource<FromMx> = KernelSource::new(FILE, SOURCE, $from_entry)
            .with_host(|_: LaunchShape, (values, codes, scales, _)| {
                ExecutionPolicy::one_thread().run(mx::Dequantize {
                    codes,
                    scales,
                    values,
                    stream: false,
                    format: MiniFormat::$format,
                });
            });
    };
}
mx!(TO_MXFP4 "mxfp4_from_f32", FROM_MXFP4 "f32_from_mxfp4", E2m1, E2m1);
mx!(TO_MXFP8 "mxfp8_from_f32", FROM_MXFP8 "f32_from_mxfp8", E4m3, E4m3);

pub(super) const SWIZZLE: KernelSource<Swizzle> = KernelSource::new(FILE, SOURCE, "swizzle_scales")
    .with_host(|_: LaunchShape, (tiles, scales, n_rows, n_columns, _)| {
        tiles.fill(0);
        each_scale(n_rows, n_columns, |place, tile| tiles[tile] = scales[place]);
    });

pub(super) const UNSWIZZLE: KernelSource<Swizzle> =
    KernelSource::new(FILE, SOURCE, "unswizzle_scales").with_host(
        |_: LaunchShape, (scales, tiles, n_rows, n_columns, _)| {
            each_scale(n_rows, n_columns, |place, tile| scales[place] = tiles[tile]);
        },
    );

/// Where each scale lies: row-major, in the tiles.
fn each_scale(n_rows: u32, n_columns: u32, mut visit: impl FnMut(usize, usize)) {
    let (n_rows, n_columns) = (n_rows as usize, n_columns as usize);
    for row in 0..n_rows {
        for column in 0..n_columns {
            let tile = swizzle::offset(row, column, n_columns);
            visit(row * n_columns + column, tile);
        }
    }
}
