//! GEMM on tensor cores, from packed operands in memory of a device: `C = A * transposed B`.
//!
//! ```text
//! GemmOperand   rows of K values, packed       A [M, K]      B [N, K]       scales of NVFP4 beside
//!                 each row padded to 16 bytes      │             │
//! DeviceGemm::run                                  └──> C [M, N] <┘    f32, row-major, overwritten
//! ```
//!
//! The kernel is `kernels/gemm.cu`: one source, compiled once per format. On a GPU whose tensor cores
//! do not take a format, its values become f16 in registers, exactly; NVFP4 is multiplied as it is
//! from compute capability 12.0 on, E4M3 on 8.9 and from 12.0 on (on 9.0 the instruction is there, and the
//! assembler makes f16 of it).
//!
//! Tensor cores sum in f32, in an order and with a rounding that NVIDIA does not state. A device that is no
//! GPU multiplies exactly, sums in f64 from the first to the last, and rounds once, to the nearest f32. So bits
//! agree where all sums are integers below 2^24, and elsewhere to about K units in the last place of the
//! largest sum. Where a product or a sum on the way is beyond f32, as two bf16 values can make one, a GPU's
//! result may be wrong altogether, infinite or NaN, while the definition's is that of the sum itself.
//!
//! Deliberately absent: other tiles than 64 by 64, splits of K, bias and activation, i8, MX formats.

use half::{bf16, f16};
use spark_mem::{Buffer, Device, Kernel, KernelSource, LaunchShape, Read, Stream, Write};

use super::same_device::check_devices;
use crate::error::QuantError;
use crate::packed::{PackedFormat, PackedTensor, Scales};
use crate::scalar::MiniFormat;

/// Rows and columns of C that a block of threads computes.
const TILE: usize = 64;
const THREADS: u32 = 128;
/// What copies into shared memory move at once; rows begin at multiples of it.
const PIECE_BYTES: usize = 16;
/// Values that share a scale.
const NVFP4_BLOCK: usize = 16;

/// How the values of both operands are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GemmFormat {
    /// IEEE binary16, little-endian.
    F16,
    /// bfloat16, little-endian.
    Bf16,
    /// FP8 E4M3, one byte a value, no scales.
    E4m3,
    /// E2M1, two a byte, the first in the low half; an E4M3 scale for 16 and one f32 for all.
    Nvfp4,
}

impl GemmFormat {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::F16, Self::Bf16, Self::E4m3, Self::Nvfp4];

    fn bits(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 16,
            Self::E4m3 => 8,
            Self::Nvfp4 => 4,
        }
    }

    pub(super) fn source(self) -> KernelSource<Parameters> {
        match self {
            Self::F16 => F16,
            Self::Bf16 => BF16,
            Self::E4m3 => E4M3,
            Self::Nvfp4 => NVFP4,
        }
    }

    /// A value of a row of codes, without its scales.
    fn decode(self, row: &[u8], at: usize) -> f32 {
        match self {
            Self::F16 => f16::from_le_bytes([row[2 * at], row[2 * at + 1]]).to_f32(),
            Self::Bf16 => bf16::from_le_bytes([row[2 * at], row[2 * at + 1]]).to_f32(),
            Self::E4m3 => MiniFormat::E4m3.decode(row[at]),
            Self::Nvfp4 => MiniFormat::E2m1.decode(row[at / 2] >> (4 * (at % 2)) & 0xF),
        }
    }
}

impl std::fmt::Display for GemmFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::E4m3 => "e4m3",
            Self::Nvfp4 => "nvfp4",
        })
    }
}

/// C; codes of A and of B; their scales; M, N, bytes of a row; strides of A, B (bytes) and C
/// (values); the factors of all sums, one after the other ([`factors`]).
pub(super) type Parameters = (
    Write<f32>,
    Read<u8>,
    Read<u8>,
    Read<u8>,
    Read<u8>,
    u32,
    u32,
    u32,
    u64,
    u64,
    u64,
    f32,
    f32,
);

macro_rules! source {
    ($name:ident, $format:ident, $option:literal) => {
        const $name: KernelSource<Parameters> = KernelSource::new(
            "gemm.cu",
            include_str!("../../kernels/gemm.cu"),
            "spark_gemm",
        )
        .with_options(&[$option])
        .with_host(|_: LaunchShape, arguments| on_host(GemmFormat::$format, arguments));
    };
}

source!(F16, F16, "-DSPARK_GEMM_FORMAT=0");
source!(BF16, Bf16, "-DSPARK_GEMM_FORMAT=1");
source!(E4M3, E4m3, "-DSPARK_GEMM_FORMAT=2");
source!(NVFP4, Nvfp4, "-DSPARK_GEMM_FORMAT=3");

/// The same as the host version gets them.
type OnHost<'a> = (
    &'a mut [f32],
    &'a [u8],
    &'a [u8],
    &'a [u8],
    &'a [u8],
    u32,
    u32,
    u32,
    u64,
    u64,
    u64,
    f32,
    f32,
);

/// The definition, for devices that are no GPU. Products of values and scales are exact in f64: each has at
/// most 11 digits, and f64 has room for the exponents of their products.
fn on_host(
    format: GemmFormat,
    (c, a, b, a_scales, b_scales, m, n, row_bytes, a_stride, b_stride, c_stride, alpha, beta): OnHost<'_>,
) {
    let depth = row_bytes as usize * 8 / format.bits();
    let n_blocks = depth / NVFP4_BLOCK;
    let scale = |scales: &[u8], row: usize, at: usize| match format {
        GemmFormat::Nvfp4 => {
            MiniFormat::E4m3.decode(scales[row * n_blocks + at / NVFP4_BLOCK] & 0x7F)
        }
        _ => 1.0,
    };
    for row in 0..m as usize {
        let codes_a = &a[row * a_stride as usize..];
        for column in 0..n as usize {
            let codes_b = &b[column * b_stride as usize..];
            let mut sum = 0.0_f64;
            for at in 0..depth {
                let x = format.decode(codes_a, at) * scale(a_scales, row, at);
                let y = format.decode(codes_b, at) * scale(b_scales, column, at);
                sum += f64::from(x) * f64::from(y);
            }
            let result = f64::from(alpha) * sum * f64::from(beta);
            c[row * c_stride as usize + column] = result as f32;
        }
    }
}

/// The product of two tensor scales as one or two factors, so that it overflows or vanishes only
/// where the result does.
///
/// Where f32 holds the product as a normal number it is the first factor, rounded to nearest, and the
/// second is 1. Elsewhere the first has its digits, at 2^99 or 2^-61, and the second is the power of
/// two that is left. Sums of NVFP4 codes and block scales lie between 2^-20 and 2^62 in magnitude: a
/// first factor of 2^99 overflows only with a result that does, and one of 2^-61 loses nothing. The
/// second stays finite, for a sum of zero is one with any scale: 2^127 is enough for every other to overflow.
fn factors(a: f32, b: f32) -> (f32, f32) {
    // Exact: 24 digits each.
    let product = f64::from(a) * f64::from(b);
    let rounded = product as f32;
    if rounded.is_normal() || product == 0.0 || !product.is_finite() {
        return (rounded, 1.0);
    }
    let first = if product.abs() > 1.0 { 99 } else { -61 };
    let exponent = product.abs().log2().floor() as i32;
    let digits = product * 2_f64.powi(first - exponent);
    let second = 2_f64.powi((exponent - first).min(127));
    (digits as f32, second as f32)
}

/// One side of a GEMM in memory of a device: rows of packed values.
///
/// Kernels trust that its buffers have the bytes of its shape, so nobody else replaces them.
#[derive(Debug)]
pub struct GemmOperand {
    format: GemmFormat,
    rows: usize,
    depth: usize,
    row_bytes: usize,
    /// At least `row_bytes`, a multiple of [`PIECE_BYTES`].
    stride_bytes: usize,
    /// `rows * stride_bytes`, at least one byte.
    codes: Buffer<u8>,
    /// One for each block of NVFP4, else one byte that nobody reads.
    scales: Buffer<u8>,
    /// The tensor scale of NVFP4.
    factor: f32,
}

impl GemmOperand {
    /// Brings `[rows, depth]` values to the device: their codes, rows one after the other.
    ///
    /// # Errors
    ///
    /// [`QuantError::Unsupported`] for NVFP4, which has scales ([`GemmOperand::nvfp4`]);
    /// [`QuantError::LengthMismatch`]; [`QuantError::ShapeOverflow`]; [`QuantError::Device`].
    pub fn new(
        device: &Device,
        stream: &Stream,
        format: GemmFormat,
        shape: [usize; 2],
        codes: &[u8],
    ) -> Result<Self, QuantError> {
        if format == GemmFormat::Nvfp4 {
            return Err(QuantError::Unsupported {
                operation: "an operand without scales",
                format: format.to_string(),
            });
        }
        Self::upload(device, stream, format, shape, codes, (&[0], 1.0))
    }

    /// Brings a tensor in NVFP4 to the device, its rows along the quantized axis.
    ///
    /// # Errors
    ///
    /// [`QuantError::Unsupported`] for other formats and for rotated tensors;
    /// [`QuantError::Scale`] for scales that cannot be used; [`QuantError::NotAMultiple`] unless
    /// blocks are whole; those of [`GemmOperand::new`].
    pub fn nvfp4(
        device: &Device,
        stream: &Stream,
        tensor: &PackedTensor,
    ) -> Result<Self, QuantError> {
        tensor.check_usable()?;
        let (PackedFormat::Nvfp4, Scales::Nvfp4 { block, tensor: all }, None) =
            (tensor.format(), tensor.scales(), tensor.rotation())
        else {
            return Err(QuantError::Unsupported {
                operation: "an operand of a GEMM on a device",
                format: tensor.format().to_string(),
            });
        };
        let shape = [tensor.n_rows(), tensor.depth()];
        QuantError::check_multiple("depth", shape[1], NVFP4_BLOCK)?;
        QuantError::check_length("scales", block.len(), shape[0] * shape[1] / NVFP4_BLOCK)?;
        let scales = (block.as_slice(), *all);
        Self::upload(
            device,
            stream,
            GemmFormat::Nvfp4,
            shape,
            tensor.codes(),
            scales,
        )
    }

    fn upload(
        device: &Device,
        stream: &Stream,
        format: GemmFormat,
        [rows, depth]: [usize; 2],
        codes: &[u8],
        (block_scales, factor): (&[u8], f32),
    ) -> Result<Self, QuantError> {
        let overflow = || QuantError::ShapeOverflow {
            shape: vec![rows, depth],
        };
        let row_bytes = depth.checked_mul(format.bits()).ok_or_else(overflow)? / 8;
        let stride_bytes = row_bytes
            .checked_next_multiple_of(PIECE_BYTES)
            .ok_or_else(overflow)?;
        // The kernel counts rows, and bytes of a row, in 32 bits, a stage beyond the end included.
        if rows > u32::MAX as usize / 2 || row_bytes > u32::MAX as usize / 2 {
            return Err(overflow());
        }
        let n_bytes = rows.checked_mul(stride_bytes).ok_or_else(overflow)?;
        QuantError::check_length("codes", codes.len(), rows * row_bytes)?;
        let kind = device.shared_kind();
        let mut own = device.buffer::<u8>(kind, n_bytes.max(1))?;
        if n_bytes > 0 {
            let mut padded = own.overwrite(stream)?;
            padded.fill(0);
            for (to, from) in padded
                .chunks_exact_mut(stride_bytes)
                .zip(codes.chunks_exact(row_bytes))
            {
                to[..row_bytes].copy_from_slice(from);
            }
            padded.finish()?;
        }
        let mut scales = device.buffer::<u8>(kind, block_scales.len().max(1))?;
        if !block_scales.is_empty() {
            scales.upload(stream, block_scales)?;
        }
        Ok(Self {
            format,
            rows,
            depth,
            row_bytes,
            stride_bytes,
            codes: own,
            scales,
            factor,
        })
    }

    /// How its values are stored.
    #[must_use]
    pub fn format(&self) -> GemmFormat {
        self.format
    }

    /// Rows, and values of a row.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        [self.rows, self.depth]
    }
}

/// GEMM of one format on one device.
#[derive(Debug)]
pub struct DeviceGemm {
    device: Device,
    format: GemmFormat,
    kernel: Kernel<Parameters>,
}

impl DeviceGemm {
    /// Makes the kernel ready; the first time on a GPU it is compiled.
    ///
    /// # Errors
    ///
    /// [`QuantError::Device`]: as [`Device::kernel`].
    pub fn new(device: &Device, format: GemmFormat) -> Result<Self, QuantError> {
        let kernel = device.kernel(&format.source())?;
        Ok(Self {
            device: device.clone(),
            format,
            kernel,
        })
    }

    /// Queues `c = a * transposed b`. `c` is `[rows of a, rows of b]` and is overwritten.
    ///
    /// # Errors
    ///
    /// [`QuantError::Unsupported`] for an operand of another format than this GEMM's;
    /// [`QuantError::LengthMismatch`] for other depths or another length of `c`;
    /// [`QuantError::ShapeOverflow`] for more rows of `a` than a launch has room for (64 * 65535);
    /// [`QuantError::Device`], among them [`OtherDevice`](spark_mem::MemError::OtherDevice).
    pub fn run(
        &self,
        stream: &Stream,
        c: &mut Buffer<f32>,
        a: &GemmOperand,
        b: &GemmOperand,
    ) -> Result<(), QuantError> {
        for operand in [a, b] {
            if operand.format != self.format {
                return Err(QuantError::Unsupported {
                    operation: "a GEMM of another format",
                    format: operand.format.to_string(),
                });
            }
        }
        QuantError::check_length("depth of b", b.depth, a.depth)?;
        let overflow = || QuantError::ShapeOverflow {
            shape: vec![a.rows, b.rows],
        };
        let n = a.rows.checked_mul(b.rows).ok_or_else(overflow)?;
        QuantError::check_length("c", c.len(), n)?;
        let [of_a, of_b] = [a, b].map(|operand| operand.codes.device());
        check_devices(stream, &[&self.device, c.device(), of_a, of_b])?;
        if n == 0 {
            return Ok(());
        }
        let tiles = |rows: usize| u32::try_from(rows.div_ceil(TILE)).ok();
        let (Some(across), Some(down @ ..=65535)) = (tiles(b.rows), tiles(a.rows)) else {
            return Err(overflow());
        };
        let shape = LaunchShape {
            grid: [across, down, 1],
            block: [THREADS, 1, 1],
            shared_bytes: 0,
        };
        let (alpha, beta) = factors(a.factor, b.factor);
        let arguments = (
            c.view_mut(),
            a.codes.view(),
            b.codes.view(),
            a.scales.view(),
            b.scales.view(),
            // Bounded when the operands were made.
            a.rows as u32,
            b.rows as u32,
            a.row_bytes as u32,
            a.stride_bytes as u64,
            b.stride_bytes as u64,
            b.rows as u64,
            alpha,
            beta,
        );
        // SAFETY: the kernel has the parameters `Parameters`. It reads `row_bytes` bytes of each of
        // the operands' rows, which lie `stride_bytes` apart in buffers of their product, and for
        // NVFP4 a scale for each block of 16 values (`upload`, `nvfp4`; the fields are private and
        // never replaced); copies of 16 bytes begin at multiples of 16 of allocations that are
        // aligned for them. It writes the `a.rows * b.rows` values of `c` (`check_length`).
        unsafe { self.kernel.launch(stream, shape, arguments) }?;
        Ok(())
    }
}
