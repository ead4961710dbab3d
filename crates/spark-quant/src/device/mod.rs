//! Block formats in memory of a device: NVFP4, MXFP4, MXFP8 both ways, scales in tensor-core order.
//!
//! ```text
//! Buffer<f32> ── quantize ──> DeviceTensor { codes, scales, … } ── dequantize ──> Buffer<f32>
//!                                  │ swizzled_scales        │ download / upload
//!                                  Buffer<u8>               PackedTensor
//! ```
//!
//! Everything is queued on a stream; nothing waits for the device but
//! [`download`](DeviceTensor::download) and [`tensor_scale`](DeviceTensor::tensor_scale). Codes and
//! scales are those of [`Quantizer`](crate::Quantizer), bit for bit: NVFP4 by ModelOpt's formula with
//! the amax scale, MX by the floor rule.
//!
//! Deliberately absent: searched scales, rotations, INT8 and FP8 by rectangles (on the host), ragged
//! last blocks. GEMM on tensor cores is in [`gemm`].

#![allow(unsafe_code, reason = "launches kernels")]

pub mod gemm;
mod kernels;
mod same_device;
mod sealed;

use spark_mem::{Buffer, Device, Kernel, LaunchShape, MemError, Stream};

use crate::block::nvfp4;
use crate::error::QuantError;
use crate::packed::{PackedFormat, PackedTensor, Scales, swizzle};
use crate::scalar::MiniFormat;

use same_device::check_devices;

/// Threads of a block of every kernel.
const THREADS: u32 = 256;
/// Values a thread takes at once.
const PER_THREAD: usize = 4;
/// Blocks that find the largest magnitude together; each thread then takes every so many values.
const MAX_BLOCKS: usize = 4096;

/// Compiles every kernel of this module and of [`gemm`] for a GPU that need not be there, into a folder
/// that is then a cache of kernels there: [`spark_mem::kernel::precompile`].
///
/// # Errors
///
/// [`QuantError::Device`]: there is no NVRTC, it refuses a kernel, or the folder cannot be written to.
#[cfg(feature = "cuda")]
pub fn precompile(
    compute: spark_mem::kernel::ComputeCapability,
    cache_dir: &std::path::Path,
) -> Result<(), QuantError> {
    // One image, whichever of its entries is named.
    spark_mem::kernel::precompile(&kernels::LARGEST, compute, cache_dir)?;
    for format in gemm::GemmFormat::ALL {
        spark_mem::kernel::precompile(&format.source(), compute, cache_dir)?;
    }
    Ok(())
}

/// Quantizes on a device.
#[derive(Debug)]
pub struct DeviceQuantizer {
    device: Device,
    kernels: Kernels,
}

#[derive(Debug)]
struct Kernels {
    largest: Kernel<kernels::Largest>,
    to_nvfp4: Kernel<kernels::ToNvfp4>,
    from_nvfp4: Kernel<kernels::FromNvfp4>,
    to_mxfp4: Kernel<kernels::ToMx>,
    from_mxfp4: Kernel<kernels::FromMx>,
    to_mxfp8: Kernel<kernels::ToMx>,
    from_mxfp8: Kernel<kernels::FromMx>,
    swizzle: Kernel<kernels::Swizzle>,
    unswizzle: Kernel<kernels::Swizzle>,
}

/// A quantized matrix in memory of a device, rows along the quantized axis.
///
/// Kernels trust that its buffers have the bytes of its shape and format, so nobody else replaces
/// them: [`DeviceQuantizer::quantize`] and [`DeviceQuantizer::upload`] make it.
#[derive(Debug)]
pub struct DeviceTensor {
    format: PackedFormat,
    /// Rows, and values of a row; their product does not overflow, and blocks are whole.
    shape: [usize; 2],
    /// [`code_bytes`] of the shape.
    codes: Buffer<u8>,
    /// One for each block of the shape.
    scales: Buffer<u8>,
    tensor: TensorScale,
}

/// What stands beside the block scales.
#[derive(Debug)]
enum TensorScale {
    /// MX formats have no tensor scale.
    None,
    /// Known to the host: of a tensor that was uploaded, or 1.
    Known(f32),
    /// Bits of the largest magnitude, still on the device.
    FromLargest(Buffer<u32>),
}

/// Elements of a device's formats.
fn element(format: PackedFormat) -> Option<MiniFormat> {
    match format {
        PackedFormat::Nvfp4 => Some(MiniFormat::E2m1),
        PackedFormat::Mx(element @ (MiniFormat::E2m1 | MiniFormat::E4m3)) => Some(element),
        _ => None,
    }
}

impl DeviceQuantizer {
    /// Makes the kernels ready; the first time on a GPU they are compiled.
    ///
    /// # Errors
    ///
    /// [`QuantError::Device`]: as [`Device::kernel`].
    pub fn new(device: &Device) -> Result<Self, QuantError> {
        let kernels = Kernels {
            largest: device.kernel(&kernels::LARGEST)?,
            to_nvfp4: device.kernel(&kernels::TO_NVFP4)?,
            from_nvfp4: device.kernel(&kernels::FROM_NVFP4)?,
            to_mxfp4: device.kernel(&kernels::TO_MXFP4)?,
            from_mxfp4: device.kernel(&kernels::FROM_MXFP4)?,
            to_mxfp8: device.kernel(&kernels::TO_MXFP8)?,
            from_mxfp8: device.kernel(&kernels::FROM_MXFP8)?,
            swizzle: device.kernel(&kernels::SWIZZLE)?,
            unswizzle: device.kernel(&kernels::UNSWIZZLE)?,
        };
        Ok(Self {
            device: device.clone(),
            kernels,
        })
    }

    /// Quantizes `[rows, depth]` values along the rows.
    ///
    /// # Conversion
    ///
    /// As [`Recipe::NVFP4`](crate::Recipe::NVFP4), and MX by
    /// [`MxScale::Floor`](crate::block::MxScale::Floor). Values that are not finite are found when the
    /// NVFP4 tensor scale is read. In MX their block gets the scale NaN: all its values are NaN when they
    /// are read, and [`DeviceTensor::download`] refuses it.
    ///
    /// # Errors
    ///
    /// [`QuantError::Unsupported`] for other formats; [`QuantError::NotAMultiple`] unless blocks are
    /// whole; [`QuantError::LengthMismatch`]; [`QuantError::Device`], among them
    /// [`MemError::Misaligned`] for values that do not lie at 16 bytes.
    pub fn quantize(
        &self,
        stream: &Stream,
        values: &Buffer<f32>,
        shape: [usize; 2],
        format: PackedFormat,
    ) -> Result<DeviceTensor, QuantError> {
        // Before memory is taken for a shape that the values do not have.
        let (_, n) = check_shape(format, shape)?;
        QuantError::check_length("values", values.len(), n)?;
        check_aligned(values)?;
        check_devices(stream, &[&self.device, values.device()])?;
        let mut tensor = self.empty(format, shape)?;
        let (kernels, n_fours) = (&self.kernels, values.len() / PER_THREAD);
        if n_fours == 0 {
            return Ok(tensor);
        }
        let shape = LaunchShape::for_elements(n_fours, THREADS)?;
        let n = n_fours as u64;
        let DeviceTensor { codes, scales, .. } = &mut tensor;
        let (codes, scales) = (codes.view_mut(), scales.view_mut());
        if let PackedFormat::Mx(element) = format {
            let kernel = match element {
                MiniFormat::E4m3 => &kernels.to_mxfp8,
                _ => &kernels.to_mxfp4,
            };
            // SAFETY: the kernel has the parameters `ToMx`. It reads `n` groups of four values,
            // which `values` has, where vectors of four may be read (`check_aligned`). `empty` made
            // codes and scales for `shape`, whose product is the number of values (`check_length`).
            unsafe { kernel.launch(stream, shape, (codes, scales, values.view(), n)) }?;
            return Ok(tensor);
        }
        let mut largest = self.device.buffer::<u32>(self.device.shared_kind(), 1)?;
        let n_threads = n_fours.min(MAX_BLOCKS * THREADS as usize);
        let few = LaunchShape::for_elements(n_threads, THREADS)?;
        // SAFETY: the kernels have the parameters `Largest` and `ToNvfp4`; values, codes and scales
        // as above; `largest` is one element.
        unsafe {
            let arguments = (largest.view_mut(), values.view(), n);
            kernels.largest.launch(stream, few, arguments)?;
            let arguments = (codes, scales, values.view(), largest.view(), n);
            kernels.to_nvfp4.launch(stream, shape, arguments)?;
        }
        tensor.tensor = TensorScale::FromLargest(largest);
        Ok(tensor)
    }

    /// The values of a tensor, into `values`.
    ///
    /// # Conversion
    ///
    /// As [`PackedTensor::dequantize_into`].
    ///
    /// # Errors
    ///
    /// [`QuantError::LengthMismatch`]; those of [`DeviceTensor::tensor_scale`]; [`QuantError::Device`],
    /// among them [`MemError::Misaligned`].
    pub fn dequantize(
        &self,
        stream: &Stream,
        tensor: &DeviceTensor,
        values: &mut Buffer<f32>,
    ) -> Result<(), QuantError> {
        QuantError::check_length("values", values.len(), tensor.shape[0] * tensor.shape[1])?;
        check_aligned(values)?;
        let devices = [&self.device, tensor.codes.device(), values.device()];
        check_devices(stream, &devices)?;
        let n_fours = values.len() / PER_THREAD;
        if n_fours == 0 {
            return Ok(());
        }
        let scale = tensor.tensor_scale(stream)?;
        let (kernels, n) = (&self.kernels, n_fours as u64);
        let shape = LaunchShape::for_elements(n_fours, THREADS)?;
        let (codes, scales) = (tensor.codes.view(), tensor.scales.view());
        // SAFETY: the kernels have the parameters `FromMx` and `FromNvfp4`. They write `n` groups of
        // four values, which `values` has, aligned for it. Codes and scales have the bytes of the
        // tensor's shape (`DeviceTensor::new`; both are private and never replaced), whose product
        // is the number of values (`check_length`).
        unsafe {
            match (tensor.format, scale) {
                (PackedFormat::Mx(MiniFormat::E4m3), _) => {
                    let arguments = (values.view_mut(), codes, scales, n);
                    kernels.from_mxfp8.launch(stream, shape, arguments)?;
                }
                (_, None) => {
                    let arguments = (values.view_mut(), codes, scales, n);
                    kernels.from_mxfp4.launch(stream, shape, arguments)?;
                }
                (_, Some(scale)) => {
                    let arguments = (values.view_mut(), codes, scales, scale, n);
                    kernels.from_nvfp4.launch(stream, shape, arguments)?;
                }
            }
        }
        Ok(())
    }

    /// The scales in the order of the tensor cores, as [`swizzle::swizzle`] makes it.
    ///
    /// # Errors
    ///
    /// [`QuantError::ShapeOverflow`] beyond `u32` rows or columns; [`QuantError::Device`].
    pub fn swizzled_scales(
        &self,
        stream: &Stream,
        tensor: &DeviceTensor,
    ) -> Result<Buffer<u8>, QuantError> {
        check_devices(stream, &[&self.device, tensor.scales.device()])?;
        let (rows, columns, n_bytes) = scale_shape(tensor.shape, tensor.format)?;
        let kind = self.device.shared_kind();
        let mut tiles = self.device.buffer::<u8>(kind, n_bytes)?;
        if n_bytes == 0 {
            return Ok(tiles);
        }
        let shape = LaunchShape::for_elements(n_bytes, THREADS)?;
        let (to, from) = (tiles.view_mut(), tensor.scales.view());
        // SAFETY: the kernel has the parameters `Swizzle`. `tiles` was made with the `n_bytes` bytes
        // that it writes; it reads `rows * columns` scales, one per block, which the tensor has
        // (`DeviceTensor::new`).
        unsafe {
            let arguments = (to, from, rows, columns, n_bytes as u64);
            self.kernels.swizzle.launch(stream, shape, arguments)?;
        }
        Ok(tiles)
    }

    /// Replaces the scales of a tensor by scales in the order of the tensor cores.
    ///
    /// # Errors
    ///
    /// [`QuantError::LengthMismatch`] unless `tiles` has the padded size;
    /// [`QuantError::ShapeOverflow`]; [`QuantError::Device`].
    pub fn set_swizzled_scales(
        &self,
        stream: &Stream,
        tensor: &mut DeviceTensor,
        tiles: &Buffer<u8>,
    ) -> Result<(), QuantError> {
        let (rows, columns, n_bytes) = scale_shape(tensor.shape, tensor.format)?;
        QuantError::check_length("tiles", tiles.len(), n_bytes)?;
        let devices = [&self.device, tensor.scales.device(), tiles.device()];
        check_devices(stream, &devices)?;
        if n_bytes == 0 {
            return Ok(());
        }
        let shape = LaunchShape::for_elements(n_bytes, THREADS)?;
        let (to, from) = (tensor.scales.view_mut(), tiles.view());
        // SAFETY: the kernel has the parameters `Swizzle`. It reads within the `n_bytes` bytes of
        // `tiles` (`check_length`) and writes `rows * columns` scales, one per block, which the tensor
        // has (`DeviceTensor::new`).
        unsafe {
            let arguments = (to, from, rows, columns, n_bytes as u64);
            self.kernels.unswizzle.launch(stream, shape, arguments)?;
        }
        Ok(())
    }

    /// Brings a tensor to the device.
    ///
    /// # Errors
    ///
    /// [`QuantError::Unsupported`] for other formats and for rotated tensors;
    /// [`QuantError::NotAMultiple`] unless blocks are whole; [`QuantError::Scale`] for scales that
    /// cannot be used; [`QuantError::Device`].
    pub fn upload(
        &self,
        stream: &Stream,
        tensor: &PackedTensor,
    ) -> Result<DeviceTensor, QuantError> {
        tensor.check_usable()?;
        if tensor.rotation().is_some() {
            return Err(unsupported("a rotation on a device", tensor.format()));
        }
        check_devices(stream, &[&self.device])?;
        let mut own = self.empty(tensor.format(), [tensor.n_rows(), tensor.depth()])?;
        own.codes.upload(stream, tensor.codes())?;
        match tensor.scales() {
            Scales::Nvfp4 { block, tensor } => {
                own.scales.upload(stream, block)?;
                own.tensor = TensorScale::Known(*tensor);
            }
            Scales::Mx(scales) => own.scales.upload(stream, scales)?,
            Scales::F32 { .. } => return Err(unsupported("upload", tensor.format())),
        }
        Ok(own)
    }

    /// A tensor of zeros.
    fn empty(&self, format: PackedFormat, shape: [usize; 2]) -> Result<DeviceTensor, QuantError> {
        DeviceTensor::new(&self.device, format, shape)
    }
}

impl DeviceTensor {
    /// The one place that makes a tensor: zeros, with buffers of the sizes that its shape needs.
    fn new(device: &Device, format: PackedFormat, shape: [usize; 2]) -> Result<Self, QuantError> {
        let (element, n) = check_shape(format, shape)?;
        let kind = device.shared_kind();
        Ok(Self {
            format,
            shape,
            codes: device.buffer(kind, code_bytes(element, n))?,
            scales: device.buffer(kind, n / format.block())?,
            tensor: match format {
                PackedFormat::Nvfp4 => TensorScale::Known(1.0),
                _ => TensorScale::None,
            },
        })
    }

    /// The codes, as in [`PackedTensor::codes`].
    #[must_use]
    pub fn codes(&self) -> &Buffer<u8> {
        &self.codes
    }

    /// The scales: one byte per block, row-major.
    #[must_use]
    pub fn scales(&self) -> &Buffer<u8> {
        &self.scales
    }

    /// Number format of codes and scales.
    #[must_use]
    pub fn format(&self) -> PackedFormat {
        self.format
    }

    /// Rows, and values of a row.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// The NVFP4 tensor scale; nothing for MX. Waits for the device.
    ///
    /// # Errors
    ///
    /// [`QuantError::Scale`] if a value was not finite; [`QuantError::Device`].
    pub fn tensor_scale(&self, stream: &Stream) -> Result<Option<f32>, QuantError> {
        let largest = match &self.tensor {
            TensorScale::None => return Ok(None),
            TensorScale::Known(scale) => return Ok(Some(*scale)),
            TensorScale::FromLargest(bits) => f32::from_bits(bits.read(stream)?[0]),
        };
        if !largest.is_finite() {
            return Err(QuantError::Scale {
                index: 0,
                value: largest,
                want: "finite tensor scale above zero",
            });
        }
        let search = crate::block::ScaleSearch::Amax;
        Ok(Some(nvfp4::tensor_scale(largest, search)))
    }

    /// Brings it to the host. Waits for the device.
    ///
    /// # Errors
    ///
    /// As [`DeviceTensor::tensor_scale`] and [`PackedTensor::from_parts`].
    pub fn download(&self, stream: &Stream) -> Result<PackedTensor, QuantError> {
        let mut codes = vec![0; self.codes.len()];
        let mut block = vec![0; self.scales.len()];
        self.codes.download(stream, &mut codes)?;
        self.scales.download(stream, &mut block)?;
        let scales = match self.tensor_scale(stream)? {
            Some(tensor) => Scales::Nvfp4 { block, tensor },
            None => Scales::Mx(block),
        };
        PackedTensor::from_parts(&self.shape, 1, self.format, codes, scales)
    }
}

/// Elements of a format that devices have, and how many there are in whole blocks of this shape.
fn check_shape(format: PackedFormat, shape: [usize; 2]) -> Result<(MiniFormat, usize), QuantError> {
    let Some(element) = element(format) else {
        return Err(unsupported("quantization on a device", format));
    };
    QuantError::check_multiple("depth", shape[1], format.block())?;
    let n = shape[0].checked_mul(shape[1]);
    let n = n.ok_or_else(|| QuantError::ShapeOverflow {
        shape: shape.to_vec(),
    })?;
    Ok((element, n))
}

/// Bytes of the codes of `n` values, an even number.
fn code_bytes(element: MiniFormat, n: usize) -> usize {
    match element {
        MiniFormat::E2m1 => n / 2,
        _ => n,
    }
}

fn unsupported(operation: &'static str, format: PackedFormat) -> QuantError {
    QuantError::Unsupported {
        operation,
        format: format.to_string(),
    }
}

/// Kernels read and write four values at once. Memory of a device is always aligned for that; memory
/// of the program may not be.
fn check_aligned(values: &Buffer<f32>) -> Result<(), QuantError> {
    const ALIGN: usize = PER_THREAD * size_of::<f32>();
    let offset = values.device_address().unwrap_or(0) as usize % ALIGN;
    if offset == 0 {
        return Ok(());
    }
    Err(MemError::Misaligned {
        offset,
        align: ALIGN,
    }
    .into())
}

/// Rows and columns of scales, and bytes of their tiles.
fn scale_shape(shape: [usize; 2], format: PackedFormat) -> Result<(u32, u32, usize), QuantError> {
    let [rows, columns] = [shape[0], shape[1] / format.block()];
    let n_bytes = swizzle::size_bytes(rows, columns)?;
    let narrow = |n: usize| {
        u32::try_from(n).map_err(|_| QuantError::ShapeOverflow {
            shape: shape.to_vec(),
        })
    };
    Ok((narrow(rows)?, narrow(columns)?, n_bytes))
}
