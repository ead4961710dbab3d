//! Products of matrices on tensor cores, by the kernel of `spark-quant`, in each format that a GPU has.
//!
//! Values are small whole numbers (quarters, with E2M1), whose sums f32 holds exactly in whatever order they are added: results are known to
//! the bit.

use half::bf16;
use half::f16;
use spark_hal::Precision;
use spark_hal::doctor::load::{Results, Work};
use spark_mem::{Buffer, Device, Stream};
use spark_quant::device::gemm::{DeviceGemm, GemmFormat, GemmOperand};
use spark_quant::packed::Scales;
use spark_quant::scalar::{MiniFormat, NanCode, Overflow};
use spark_quant::{PackedFormat, PackedTensor};

use crate::error::LoadError;
use crate::meter::{LONGEST_RUN, Piece, time_once};

const AGAINST: &str = "sums of whole numbers, exactly";
/// What is tried first, and measured where more takes long.
const TRIAL: [usize; 3] = [64, 64, 256];
/// Results that the CPU repeats.
const N_CHECKED: usize = 512;
/// Products are counted in sixteenths, so that those of E2M1 are whole.
const PER_VALUE: i32 = 4;

/// A product, ready to be queued.
pub(crate) struct Product {
    stream: Stream,
    gemm: DeviceGemm,
    a: Operand,
    b: Operand,
    c: Buffer<f32>,
    precision: Precision,
    shape: [usize; 3],
}

struct Operand {
    packed: GemmOperand,
    /// In quarters.
    values: Vec<i8>,
}

/// Formats of products, widest first.
pub(crate) const FORMATS: [Precision; 4] = [
    Precision::Fp16,
    Precision::Bf16,
    Precision::Fp8,
    Precision::Fp4,
];

fn format_of(precision: Precision) -> GemmFormat {
    match precision {
        Precision::Fp4 => GemmFormat::Nvfp4,
        Precision::Fp8 => GemmFormat::E4m3,
        Precision::Fp16 => GemmFormat::F16,
        _ => GemmFormat::Bf16,
    }
}

impl Product {
    /// Of this shape, or a small one where this takes long.
    pub(crate) fn new(
        device: &Device,
        stream: &Stream,
        precision: Precision,
        shape: [usize; 3],
    ) -> Result<Self, LoadError> {
        let mut trial = Self::of(device, stream, precision, TRIAL)?;
        let took = time_once(&mut trial)?;
        let operations = |shape: [usize; 3]| shape.into_iter().map(|n| n as f64).product::<f64>();
        let times = operations(shape) / operations(TRIAL);
        if times <= 1.0 {
            return Self::of(device, stream, precision, shape);
        }
        // A launch alone takes some microseconds: of a fast device this is far too much, and still little.
        if took.as_secs_f64() * times > 4.0 * LONGEST_RUN.as_secs_f64() {
            return Ok(trial);
        }
        Self::of(device, stream, precision, shape)
    }

    fn of(
        device: &Device,
        stream: &Stream,
        precision: Precision,
        shape: [usize; 3],
    ) -> Result<Self, LoadError> {
        let [rows, columns, depth] = shape;
        let format = format_of(precision);
        Ok(Self {
            stream: stream.clone(),
            gemm: DeviceGemm::new(device, format)?,
            a: operand(device, stream, format, [rows, depth], 1)?,
            b: operand(device, stream, format, [columns, depth], 2)?,
            c: device.buffer(device.private_kind(), rows * columns)?,
            precision,
            shape,
        })
    }
}

/// Codes of numbers that depend on the seed alone.
fn operand(
    device: &Device,
    stream: &Stream,
    format: GemmFormat,
    shape: [usize; 2],
    seed: u32,
) -> Result<Operand, LoadError> {
    let n = shape[0] * shape[1];
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    if format == GemmFormat::Nvfp4 {
        let codes: Vec<u8> = (0..n / 2).map(|_| next()).collect();
        let quarters: [i8; 16] = std::array::from_fn(|code| {
            (MiniFormat::E2m1.decode(code as u8) * PER_VALUE as f32) as i8
        });
        let values = codes.iter().flat_map(|byte| [byte & 0xF, byte >> 4]);
        let values = values.map(|code| quarters[usize::from(code)]).collect();
        // E4M3's one.
        let block = vec![0x38; n / 16];
        let scales = Scales::Nvfp4 { block, tensor: 1.0 };
        let packed = PackedTensor::from_parts(&shape, 1, PackedFormat::Nvfp4, codes, scales)?;
        let packed = GemmOperand::nvfp4(device, stream, &packed)?;
        return Ok(Operand { packed, values });
    }
    let whole: Vec<i8> = (0..n).map(|_| (next() % 17) as i8 - 8).collect();
    // Seventeen numbers, each encoded once.
    let codes: Vec<Vec<u8>> = (-8..=8).map(|value| code(format, value as f32)).collect();
    let bytes = whole
        .iter()
        .flat_map(|value| &codes[usize::from(value.abs_diff(-8))]);
    let bytes: Vec<u8> = bytes.copied().collect();
    let packed = GemmOperand::new(device, stream, format, shape, &bytes)?;
    let values = whole.iter().map(|value| value * PER_VALUE as i8).collect();
    Ok(Operand { packed, values })
}

fn code(format: GemmFormat, value: f32) -> Vec<u8> {
    match format {
        GemmFormat::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
        GemmFormat::Bf16 => bf16::from_f32(value).to_le_bytes().to_vec(),
        _ => vec![MiniFormat::E4m3.encode(value, Overflow::Saturate, NanCode::LargestPositive)],
    }
}

impl Piece for Product {
    fn work(&self) -> Work {
        let [rows, columns, depth] = self.shape;
        Work::Product {
            precision: self.precision,
            rows,
            columns,
            depth,
        }
    }

    fn amount(&self) -> f64 {
        self.shape.iter().fold(2e-12, |all, n| all * *n as f64)
    }

    fn queue(&mut self) -> Result<(), LoadError> {
        let (a, b) = (&self.a.packed, &self.b.packed);
        Ok(self.gemm.run(&self.stream, &mut self.c, a, b)?)
    }

    fn wait(&mut self) -> Result<(), LoadError> {
        Ok(self.stream.synchronize()?)
    }

    fn check(&mut self) -> Result<Results, LoadError> {
        // Not a number, wherever nothing is written.
        self.stream.fill_bytes(self.c.view_mut(), 0xFF)?;
        self.queue()?;
        let [_, columns, depth] = self.shape;
        let c = self.c.read(&self.stream)?;
        // A step that has no factor in common with the columns meets all of them.
        let step = (c.len() / N_CHECKED) | 1;
        for at in (0..c.len()).step_by(step) {
            let (row, column) = (at / columns, at % columns);
            let a = &self.a.values[row * depth..][..depth];
            let b = &self.b.values[column * depth..][..depth];
            let sum: i32 = a
                .iter()
                .zip(b)
                .map(|(a, b)| i32::from(*a) * i32::from(*b))
                .sum();
            let want = sum as f32 / (PER_VALUE * PER_VALUE) as f32;
            if c[at] != want {
                let got = c[at];
                return Ok(Results::Wrong {
                    against: AGAINST,
                    what: format!("row {row}, column {column}: {got} and not {want}"),
                });
            }
        }
        Ok(Results::Right { against: AGAINST })
    }
}
