//! The kernels of `kernels/plan_*.cu`, and launching them on the four blocks of a session.
//!
//! They have no versions for devices that are no GPU: the CPU has an executor of its own.

#![allow(unsafe_code, reason = "launches kernels")]

use std::collections::BTreeSet;

use spark_mem::kernel::Header;
use spark_mem::{
    Buffer, Device, Kernel, KernelSource, LaunchShape, MemError, Read, Stream, Struct, Write,
};

use super::launches::{Launch, THREADS, Work};
use super::structures;
use super::variants::{DepthwiseKernel, TilesKernel, TilesMatMulKernel};

const HEADERS: &[Header] = &[
    (
        "plan_views.cuh",
        include_str!("../../kernels/plan_views.cuh"),
    ),
    ("plan_math.cuh", include_str!("../../kernels/plan_math.cuh")),
    (
        "plan_positions.cuh",
        include_str!("../../kernels/plan_positions.cuh"),
    ),
    (
        "plan_tiles.cuh",
        include_str!("../../kernels/plan_tiles.cuh"),
    ),
];

/// Arena, outputs, inputs, constants, and what is to be done.
type Parameters<T> = (Write<u8>, Write<u8>, Read<u8>, Read<u8>, Struct<T>);

/// The source of one kernel.
#[cfg(not(test))]
fn source<P: spark_mem::Parameters>(
    file: &'static str,
    text: &'static str,
    entry: &'static str,
) -> KernelSource<P> {
    KernelSource::new(file, text, entry).with_headers(HEADERS)
}

/// The same; a test may have changed it.
#[cfg(test)]
fn source<P: spark_mem::Parameters>(
    file: &'static str,
    text: &'static str,
    entry: &'static str,
) -> KernelSource<P> {
    let Some(change) = super::mutation::current() else {
        return KernelSource::new(file, text, entry).with_headers(HEADERS);
    };
    let mut source = KernelSource::from_text(file, change.of(text), entry);
    for (name, text) in HEADERS {
        source = source.with_header(*name, change.of(text));
    }
    source
}

/// Declares the kernels, each with its file and the structure that it takes.
macro_rules! kernels {
    ($($field:ident: $structure:ident, $entry:literal of $file:literal;)*) => {
        /// The kernels of some launches, ready on one device.
        #[derive(Debug)]
        pub(super) struct Kernels {
            $($field: Option<Kernel<Parameters<structures::$structure>>>,)*
        }

        impl Kernels {
            /// Makes those of `launches` ready; the first time on a GPU they are compiled.
            ///
            /// # Errors
            ///
            /// As [`Device::kernel`].
            pub(super) fn of(launches: &[Launch], device: &Device) -> Result<Self, MemError> {
                let needed: BTreeSet<&str> =
                    launches.iter().map(|launch| launch.work.kernel()).collect();
                Ok(Self {
                    $($field: match needed.contains($entry) {
                        true => Some(device.kernel(&source(
                            $file,
                            include_str!(concat!("../../kernels/", $file)),
                            $entry,
                        ))?),
                        false => None,
                    },)*
                })
            }
        }

        /// Compiles every kernel of networks for a GPU that need not be there, into a folder that is then a cache of
        /// kernels there: [`spark_mem::kernel::precompile`].
        ///
        /// # Errors
        ///
        /// [`MemError`]: there is no NVRTC, it refuses a kernel, or the folder cannot be written to.
        pub fn precompile(
            compute: spark_mem::kernel::ComputeCapability,
            cache_dir: &std::path::Path,
        ) -> Result<(), MemError> {
            // One image, whichever of its entries is named.
            let mut files = BTreeSet::new();
            $(if files.insert($file) {
                let source: KernelSource<Parameters<structures::$structure>> =
                    source($file, include_str!(concat!("../../kernels/", $file)), $entry);
                spark_mem::kernel::precompile(&source, compute, cache_dir)?;
            })*
            Ok(())
        }
    };
}

kernels! {
    conv: Conv, "plan_conv" of "plan_products.cu";
    matmul: MatMul, "plan_matmul" of "plan_products.cu";
    tiles_64x64: Tiles, "plan_tiles_64x64" of "plan_tiles.cu";
    tiles_32x32: Tiles, "plan_tiles_32x32" of "plan_tiles.cu";
    tiles_16x32: Tiles, "plan_tiles_16x32" of "plan_tiles.cu";
    tiles_64x64_by_element: Tiles, "plan_tiles_64x64_by_element" of "plan_tiles.cu";
    tiles_32x32_by_element: Tiles, "plan_tiles_32x32_by_element" of "plan_tiles.cu";
    tiles_f32: Tiles, "plan_tiles_f32" of "plan_tiles_f32.cu";
    tiles_f32_f16: Tiles, "plan_tiles_f32_f16" of "plan_tiles_f32.cu";
    matmul_nk_64x64: MatMul, "plan_tiles_matmul_nk_64x64" of "plan_tiles_matmul.cu";
    matmul_kn_64x64: MatMul, "plan_tiles_matmul_kn_64x64" of "plan_tiles_matmul.cu";
    matmul_nk_32x32: MatMul, "plan_tiles_matmul_nk_32x32" of "plan_tiles_matmul.cu";
    matmul_kn_32x32: MatMul, "plan_tiles_matmul_kn_32x32" of "plan_tiles_matmul.cu";
    depthwise_3: Depthwise, "plan_depthwise_3" of "plan_depthwise.cu";
    depthwise_5: Depthwise, "plan_depthwise_5" of "plan_depthwise.cu";
    depthwise_7: Depthwise, "plan_depthwise_7" of "plan_depthwise.cu";
    depthwise_3_by_2: Depthwise, "plan_depthwise_3_by_2" of "plan_depthwise.cu";
    depthwise_5_by_2: Depthwise, "plan_depthwise_5_by_2" of "plan_depthwise.cu";
    depthwise_7_by_2: Depthwise, "plan_depthwise_7_by_2" of "plan_depthwise.cu";
    attention: Attention, "plan_attention" of "plan_products.cu";
    softmax: Softmax, "plan_softmax" of "plan_rows.cu";
    norm: Norm, "plan_norm" of "plan_rows.cu";
    group_norm: GroupNorm, "plan_group_norm" of "plan_rows.cu";
    reduce: Reduce, "plan_reduce" of "plan_rows.cu";
    pool: Pool, "plan_pool" of "plan_rows.cu";
    program: Program, "plan_program" of "plan_elements.cu";
    copy: Copy, "plan_copy" of "plan_elements.cu";
    fill: Fill, "plan_fill" of "plan_elements.cu";
    gather: Gather, "plan_gather" of "plan_elements.cu";
    resample: Resample, "plan_resample" of "plan_elements.cu";
}

/// The four blocks that kernels work on.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) arena: Buffer<u8>,
    pub(super) outputs: Buffer<u8>,
    pub(super) inputs: Buffer<u8>,
    pub(super) constants: Buffer<u8>,
}

impl Kernels {
    /// Queues `launch` on `memory`.
    ///
    /// # Errors
    ///
    /// The driver's.
    ///
    /// # Panics
    ///
    /// If `launch` was not among those that these kernels are of.
    ///
    /// # Safety
    ///
    /// `launch` was made from a plan by `Launching`, every view of that plan lies inside its buffer
    /// ([`crate::plan::Plan::check_views`]), and `memory` has the blocks that the plan's `Blocks` measured, the constants with
    /// everything in it.
    pub(super) unsafe fn launch(
        &self,
        launch: &Launch,
        memory: &mut Memory,
        stream: &Stream,
    ) -> Result<(), MemError> {
        let shape = LaunchShape {
            grid: [launch.blocks, 1, 1],
            block: [THREADS, 1, 1],
            shared_bytes: launch.shared_bytes,
        };
        macro_rules! of {
            ($kernel:ident, $work:expr) => {{
                let (arena, outputs) = (memory.arena.view_mut(), memory.outputs.view_mut());
                let (inputs, constants) = (memory.inputs.view(), memory.constants.view());
                let kernel = self.$kernel.as_ref().expect("one of the launches that kernels were made for");
                // SAFETY: the kernel has these parameters. It reads and writes elements of the views it is
                // told of, by indices below their extents (`Launching` has checked that one index fits all of
                // them), which lie in their buffers by the caller's promise, and these in the blocks, aligned for
                // their elements, as `Blocks` placed them. Tables among the constants have as many entries as
                // it is told, and name operands, registers and positions that are there. Positions that a run
                // computes it holds against their axis. It writes the first bytes of the outputs, which
                // are kept for that. No view for writing is of the inputs or the constants.
                unsafe { kernel.launch(stream, shape, (arena, outputs, inputs, constants, $work)) }
            }};
        }
        match launch.work {
            Work::Conv(work) => of!(conv, work),
            Work::MatMul(work) => of!(matmul, work),
            Work::Tiles(TilesKernel::Of64x64, work) => of!(tiles_64x64, work),
            Work::Tiles(TilesKernel::Of32x32, work) => of!(tiles_32x32, work),
            Work::Tiles(TilesKernel::Of16x32, work) => of!(tiles_16x32, work),
            Work::Tiles(TilesKernel::Of64x64ByElement, work) => of!(tiles_64x64_by_element, work),
            Work::Tiles(TilesKernel::Of32x32ByElement, work) => of!(tiles_32x32_by_element, work),
            Work::Tiles(TilesKernel::OfF32, work) => of!(tiles_f32, work),
            Work::Tiles(TilesKernel::OfF32AndF16, work) => of!(tiles_f32_f16, work),
            Work::TilesMatMul(TilesMatMulKernel::Nk64x64, work) => of!(matmul_nk_64x64, work),
            Work::TilesMatMul(TilesMatMulKernel::Kn64x64, work) => of!(matmul_kn_64x64, work),
            Work::TilesMatMul(TilesMatMulKernel::Nk32x32, work) => of!(matmul_nk_32x32, work),
            Work::TilesMatMul(TilesMatMulKernel::Kn32x32, work) => of!(matmul_kn_32x32, work),
            Work::Depthwise(DepthwiseKernel::Of3, work) => of!(depthwise_3, work),
            Work::Depthwise(DepthwiseKernel::Of5, work) => of!(depthwise_5, work),
            Work::Depthwise(DepthwiseKernel::Of7, work) => of!(depthwise_7, work),
            Work::Depthwise(DepthwiseKernel::Of3By2, work) => of!(depthwise_3_by_2, work),
            Work::Depthwise(DepthwiseKernel::Of5By2, work) => of!(depthwise_5_by_2, work),
            Work::Depthwise(DepthwiseKernel::Of7By2, work) => of!(depthwise_7_by_2, work),
            Work::Attention(work) => of!(attention, work),
            Work::Softmax(work) => of!(softmax, work),
            Work::Norm(work) => of!(norm, work),
            Work::GroupNorm(work) => of!(group_norm, work),
            Work::Reduce(work) => of!(reduce, work),
            Work::Pool(work) => of!(pool, work),
            Work::Program(work) => of!(program, work),
            Work::Copy(work) => of!(copy, work),
            Work::Fill(work) => of!(fill, work),
            Work::Gather(work) => of!(gather, work),
            Work::Resample(work) => of!(resample, work),
        }
    }
}
