//! What a GEMM must give on every device: exact sums of integers, close sums of everything else.

use half::{bf16, f16};
use spark_mem::{Device, MemError, Stream};
use spark_quant::device::gemm::{DeviceGemm, GemmFormat, GemmOperand};
use spark_quant::packed::Scales;
use spark_quant::scalar::{MiniFormat, NanCode, Overflow};
use spark_quant::{PackedFormat, PackedTensor, QuantError};

/// Rows, columns, depth: whole tiles, less than one, and ragged ends in every direction.
const SIZES: [[usize; 3]; 9] = [
    [64, 64, 128],
    [1, 1, 16],
    [3, 5, 48],
    [16, 8, 64],
    [65, 63, 80],
    [128, 192, 256],
    [70, 130, 272],
    [200, 9, 1008],
    [2, 300, 32],
];

/// Numbers from a seed, below `n`.
struct Random(u32);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) % n
    }
}

/// Values of an operand, as they are stored and as they are meant.
struct Matrix {
    operand: GemmOperand,
    values: Vec<f64>,
}

fn code(format: GemmFormat, value: f32) -> Vec<u8> {
    match format {
        GemmFormat::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
        GemmFormat::Bf16 => bf16::from_f32(value).to_le_bytes().to_vec(),
        _ => vec![MiniFormat::E4m3.encode(value, Overflow::Saturate, NanCode::LargestPositive)],
    }
}

fn decoded(format: GemmFormat, code: &[u8]) -> f64 {
    f64::from(match format {
        GemmFormat::F16 => f16::from_le_bytes([code[0], code[1]]).to_f32(),
        GemmFormat::Bf16 => bf16::from_le_bytes([code[0], code[1]]).to_f32(),
        _ => MiniFormat::E4m3.decode(code[0]),
    })
}

/// An operand of small integers: with scales that are powers of two where there are any.
fn integers(
    device: &Device,
    stream: &Stream,
    format: GemmFormat,
    [rows, depth]: [usize; 2],
    random: &mut Random,
) -> Matrix {
    let n = rows * depth;
    if format == GemmFormat::Nvfp4 {
        let codes: Vec<u8> = (0..n / 2).map(|_| random.below(256) as u8).collect();
        // 2, 4, 8 and 16: twice a code's value is an integer.
        let scales: Vec<u8> = (0..n / 16)
            .map(|_| 0x40 + 8 * random.below(4) as u8)
            .collect();
        return nvfp4(device, stream, [rows, depth], codes, scales, 1.0);
    }
    let mut codes = Vec::new();
    let mut values = Vec::new();
    for _ in 0..n {
        let value = random.below(17) as f32 - 8.0;
        codes.extend(code(format, value));
        values.push(f64::from(value));
    }
    let operand = GemmOperand::new(device, stream, format, [rows, depth], &codes).unwrap();
    Matrix { operand, values }
}

fn nvfp4(
    device: &Device,
    stream: &Stream,
    [rows, depth]: [usize; 2],
    codes: Vec<u8>,
    scales: Vec<u8>,
    all: f32,
) -> Matrix {
    let values = (0..rows * depth).map(|at| {
        let value = MiniFormat::E2m1.decode(codes[at / 2] >> (4 * (at % 2)) & 0xF);
        f64::from(value) * f64::from(MiniFormat::E4m3.decode(scales[at / 16])) * f64::from(all)
    });
    let values = values.collect();
    let scales = Scales::Nvfp4 {
        block: scales,
        tensor: all,
    };
    let shape = [rows, depth];
    let tensor = PackedTensor::from_parts(&shape, 1, PackedFormat::Nvfp4, codes, scales).unwrap();
    Matrix {
        operand: GemmOperand::nvfp4(device, stream, &tensor).unwrap(),
        values,
    }
}

/// The product in f64, and the sum of magnitudes beside each.
fn product(a: &Matrix, b: &Matrix) -> Vec<(f64, f64)> {
    let ([m, depth], [n, _]) = (a.operand.shape(), b.operand.shape());
    let mut results = Vec::with_capacity(m * n);
    for row in 0..m {
        for column in 0..n {
            let x = &a.values[row * depth..][..depth];
            let y = &b.values[column * depth..][..depth];
            let terms = x.iter().zip(y).map(|(x, y)| x * y);
            let sums = terms.fold((0.0, 0.0), |(sum, size), term| {
                (sum + term, size + f64::abs(term))
            });
            results.push(sums);
        }
    }
    results
}

fn multiply(device: &Device, stream: &Stream, a: &Matrix, b: &Matrix) -> Vec<f32> {
    let gemm = DeviceGemm::new(device, a.operand.format()).unwrap();
    let n = a.operand.shape()[0] * b.operand.shape()[0];
    let mut c = device.shared::<f32>(n).unwrap();
    // Nothing of it may stay.
    c.write(stream).unwrap().fill(f32::NAN);
    gemm.run(stream, &mut c, &a.operand, &b.operand).unwrap();
    c.read(stream).unwrap().to_vec()
}

pub(crate) fn integers_are_multiplied_exactly(device: &Device) {
    let stream = device.new_stream().unwrap();
    let mut random = Random(1);
    for format in GemmFormat::ALL {
        for [m, n, depth] in SIZES {
            let a = integers(device, &stream, format, [m, depth], &mut random);
            let b = integers(device, &stream, format, [n, depth], &mut random);
            let got = multiply(device, &stream, &a, &b);
            for (at, (got, (want, _))) in got.iter().zip(product(&a, &b)).enumerate() {
                assert_eq!(
                    f64::from(*got),
                    want,
                    "{format} {m} x {n} x {depth}: row {}, column {}",
                    at / n,
                    at % n
                );
            }
        }
    }
}

pub(crate) fn any_depth_is_multiplied(device: &Device) {
    let stream = device.new_stream().unwrap();
    let mut random = Random(2);
    for format in [GemmFormat::F16, GemmFormat::Bf16, GemmFormat::E4m3] {
        for depth in 0..70 {
            let a = integers(device, &stream, format, [5, depth], &mut random);
            let b = integers(device, &stream, format, [7, depth], &mut random);
            let got = multiply(device, &stream, &a, &b);
            let wanted = product(&a, &b).into_iter().map(|(want, _)| want as f32);
            assert!(got.iter().copied().eq(wanted), "{format}, depth {depth}");
        }
    }
}

/// A NaN in any place of a word, of either sign, makes its row or column NaN, and nothing else.
pub(crate) fn nan_stays_where_it_is_seen(device: &Device) {
    let stream = device.new_stream().unwrap();
    let nan_codes: [(GemmFormat, [&[u8]; 2]); 3] = [
        (GemmFormat::F16, [&[0x01, 0x7C], &[0xFF, 0xFF]]),
        (GemmFormat::Bf16, [&[0x81, 0x7F], &[0xFF, 0xFF]]),
        (GemmFormat::E4m3, [&[0x7F], &[0xFF]]),
    ];
    for (format, nans) in nan_codes {
        // Row i of A has one at place i, but for the last rows; two columns of B have one.
        let (m, n, depth) = (20, 9, 40);
        let in_a = |row: usize, at: usize| row < 16 && at == row;
        let in_b = |row: usize, at: usize| [(3, 37), (6, 38)].contains(&(row, at));
        let operand = |rows: usize, is_nan: &dyn Fn(usize, usize) -> bool| {
            let places = (0..rows).flat_map(|row| (0..depth).map(move |at| (row, at)));
            let codes: Vec<u8> = places
                .flat_map(|(row, at)| match is_nan(row, at) {
                    true => nans[(row + at) / 2 % 2].to_vec(),
                    false => code(format, ((row + 3 * at) % 9) as f32 - 4.0),
                })
                .collect();
            let values = codes.chunks(codes.len() / (rows * depth));
            let values = values.map(|one| decoded(format, one)).collect();
            let operand = GemmOperand::new(device, &stream, format, [rows, depth], &codes).unwrap();
            Matrix { operand, values }
        };
        let (a, b) = (operand(m, &in_a), operand(n, &in_b));
        let got = multiply(device, &stream, &a, &b);
        for (at, (got, (want, _))) in got.iter().zip(product(&a, &b)).enumerate() {
            let (row, column) = (at / n, at % n);
            assert_eq!(want.is_nan(), row < 16 || [3, 6].contains(&column));
            let is_right = f64::from(*got) == want || got.is_nan() && want.is_nan();
            assert!(is_right, "{format} {row}, {column}: {got} for {want}");
        }
    }
}

pub(crate) fn other_values_are_multiplied_closely(device: &Device) {
    let stream = device.new_stream().unwrap();
    let mut random = Random(3);
    for format in GemmFormat::ALL {
        let (m, n, depth) = (67, 45, 528);
        let mut matrix = |rows: usize| {
            let n = rows * depth;
            if format == GemmFormat::Nvfp4 {
                let codes: Vec<u8> = (0..n / 2).map(|_| random.below(256) as u8).collect();
                // Every scale that is a number, subnormal ones among them.
                let scales: Vec<u8> = (0..n / 16).map(|_| random.below(0x7F) as u8).collect();
                return nvfp4(device, &stream, [rows, depth], codes, scales, 0.37);
            }
            let mut codes = Vec::new();
            let mut values = Vec::new();
            for _ in 0..n {
                let size = 2_f32.powi(random.below(8) as i32 - 4);
                let one = code(format, (random.below(2001) as f32 / 1000.0 - 1.0) * size);
                values.push(decoded(format, &one));
                codes.extend(one);
            }
            let shape = [rows, depth];
            let operand = GemmOperand::new(device, &stream, format, shape, &codes).unwrap();
            Matrix { operand, values }
        };
        let (a, b) = (matrix(m), matrix(n));
        let got = multiply(device, &stream, &a, &b);
        for (got, (want, size)) in got.iter().zip(product(&a, &b)) {
            // A sum of f32 loses at most half a unit of its largest part at each step; tensor
            // cores cut off, which is up to a whole one.
            let bound = size * depth as f64 * 2_f64.powi(-23);
            assert!(
                (f64::from(*got) - want).abs() <= bound,
                "{format}: {got} for {want}"
            );
        }
    }
}

pub(crate) fn operands_that_do_not_fit_are_refused(device: &Device) {
    let stream = device.new_stream().unwrap();
    let operand = |format, shape: [usize; 2], len| {
        GemmOperand::new(device, &stream, format, shape, &vec![0; len])
    };
    assert!(matches!(
        operand(GemmFormat::F16, [2, 3], 11),
        Err(QuantError::LengthMismatch {
            got: 11,
            want: 12,
            ..
        })
    ));
    assert!(matches!(
        operand(GemmFormat::Nvfp4, [2, 16], 16),
        Err(QuantError::Unsupported { .. })
    ));
    for shape in [[usize::MAX, 1], [1, usize::MAX], [1 << 31, 0], [0, 1 << 31]] {
        assert!(matches!(
            operand(GemmFormat::F16, shape, 0),
            Err(QuantError::ShapeOverflow { .. })
        ));
    }
    let gemm = DeviceGemm::new(device, GemmFormat::F16).unwrap();
    let a = operand(GemmFormat::F16, [2, 3], 12).unwrap();
    let deeper = operand(GemmFormat::F16, [4, 4], 32).unwrap();
    let other = operand(GemmFormat::Bf16, [4, 3], 24).unwrap();
    let mut c = device.shared::<f32>(8).unwrap();
    assert!(matches!(
        gemm.run(&stream, &mut c, &a, &deeper),
        Err(QuantError::LengthMismatch {
            got: 4,
            want: 3,
            ..
        })
    ));
    assert!(matches!(
        gemm.run(&stream, &mut c, &a, &other),
        Err(QuantError::Unsupported { .. })
    ));
    assert!(matches!(
        gemm.run(&stream, &mut c, &a, &a),
        Err(QuantError::LengthMismatch {
            got: 8,
            want: 4,
            ..
        })
    ));
    // Also where nothing is to be computed.
    let elsewhere = Device::emulated(1 << 20);
    let its_stream = elsewhere.new_stream().unwrap();
    let none = operand(GemmFormat::F16, [0, 3], 0).unwrap();
    let mut nothing = device.shared::<f32>(0).unwrap();
    let refused = gemm.run(&its_stream, &mut nothing, &none, &a);
    assert!(matches!(
        refused,
        Err(QuantError::Device(MemError::OtherDevice))
    ));
    assert!(gemm.run(&stream, &mut nothing, &none, &a).is_ok());
}

/// Tensor scales whose product f32 does not hold, with sums that bring the result back, or not.
pub(crate) fn tensor_scales_overflow_only_with_the_result(device: &Device) {
    let stream = device.new_stream().unwrap();
    let depth = 16;
    let row = |code: u8, block: u8, all: f32| {
        nvfp4(device, &stream, [1, depth], vec![code; 8], vec![block], all)
    };
    // 6 and 0.5 in every place; block scales of 448 and of 2^-9.
    let large = |all: f32| row(0x77, 0x7E, all);
    let small = |all: f32| row(0x11, 0x01, all);
    let (huge, tiny) = (f32::MAX, f32::MIN_POSITIVE);
    let cases = [
        (small(huge), small(1.5)),
        (small(huge), small(4.0)),
        (small(huge), small(huge)),
        (large(tiny), large(0.75)),
        (large(tiny), large(tiny)),
        (large(1e-30), large(3e-15)),
        (large(huge), small(tiny)),
        (small(3.0), large(0.7)),
        // Sums of zero.
        (row(0, 0x7E, huge), large(huge)),
        (row(0, 0x7E, 2_f32.powi(114)), large(2_f32.powi(113))),
        (row(0, 0x7E, tiny), large(tiny)),
    ];
    for (a, b) in &cases {
        let want = product(a, b)[0].0;
        let got = f64::from(multiply(device, &stream, a, b)[0]);
        if want.abs() > f64::from(huge) {
            assert!(got.is_infinite(), "{got} for {want}");
            continue;
        }
        // Of a result that is subnormal the smallest step is what can be asked.
        let bound = (want.abs() * 2_f64.powi(-22)).max(2_f64.powi(-149));
        assert!((got - want).abs() <= bound, "{got} for {want}");
    }
}
