//! What every device must give: the bits of the host.

use spark_mem::{Buffer, Device, Stream};
use spark_quant::block::MxScale;
use spark_quant::device::DeviceQuantizer;
use spark_quant::packed::Scales;
use spark_quant::scalar::MiniFormat;
use spark_quant::{ExecutionPolicy, PackedFormat, PackedTensor, QuantError, Quantizer, Recipe};

/// Every format with the recipe that the device follows.
pub(crate) const FORMATS: [(PackedFormat, Recipe); 3] = [
    (PackedFormat::Nvfp4, Recipe::NVFP4),
    (
        PackedFormat::Mx(MiniFormat::E2m1),
        Recipe::Mx {
            format: MiniFormat::E2m1,
            scale: MxScale::Floor,
        },
    ),
    (
        PackedFormat::Mx(MiniFormat::E4m3),
        Recipe::Mx {
            format: MiniFormat::E4m3,
            scale: MxScale::Floor,
        },
    ),
];

/// Numbers of all magnitudes, zeros of both signs, ties of every element among them.
pub(crate) fn values(n: usize, seed: u32, exponents: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let value = |_| match next() % 8 {
        0 => [0.0, -0.0, 0.25, -0.75, 1.25, 1.75, -2.5, 5.0][next() as usize % 8],
        1 => (next() % 1024) as f32 * 2f32.powi(-14),
        _ => {
            let exponent = 127 - exponents / 2 + next() % exponents;
            f32::from_bits((next() & 1) << 31 | exponent << 23 | (next() & 0x7F_FFFF))
        }
    };
    (0..n).map(value).collect()
}

/// The same codes under scales of one.
fn with_other_scales(tensor: &PackedTensor) -> PackedTensor {
    let scales = match tensor.scales() {
        Scales::Nvfp4 { block, tensor } => Scales::Nvfp4 {
            block: vec![0x38; block.len()],
            tensor: *tensor,
        },
        Scales::Mx(scales) => Scales::Mx(vec![127; scales.len()]),
        other @ Scales::F32 { .. } => other.clone(),
    };
    let codes = tensor.codes().to_vec();
    PackedTensor::from_parts(tensor.shape(), 1, tensor.format(), codes, scales).unwrap()
}

fn upload(device: &Device, stream: &Stream, values: &[f32]) -> Buffer<f32> {
    let kind = device.shared_kind();
    let mut buffer = device.buffer(kind, values.len()).unwrap();
    buffer.upload(stream, values).unwrap();
    buffer
}

/// Quantises, decodes and swizzles `values` on the device and on the host.
fn check(device: &Device, format: PackedFormat, recipe: Recipe, shape: [usize; 2], values: &[f32]) {
    let policy = ExecutionPolicy::one_thread();
    let stream = device.new_stream().unwrap();
    let quantizer = DeviceQuantizer::new(device).unwrap();
    let context = format!("{format} {shape:?}, first {:?}", values.first());
    let own = upload(device, &stream, values);
    let tensor = quantizer.quantize(&stream, &own, shape, format).unwrap();
    let host = Quantizer::new(recipe)
        .quantize(policy, values, &shape, 1)
        .unwrap();
    assert_eq!(tensor.download(&stream).unwrap(), host, "{context}");

    let mut back = device.shared::<f32>(values.len()).unwrap();
    quantizer.dequantize(&stream, &tensor, &mut back).unwrap();
    let wanted = host.dequantize(policy).unwrap();
    let back = back.read(&stream).unwrap();
    let same = back
        .iter()
        .zip(&wanted)
        .all(|(a, b)| a.to_bits() == b.to_bits());
    assert!(same, "{context}: values");

    let tiles = quantizer.swizzled_scales(&stream, &tensor).unwrap();
    let wanted = host.swizzled_scales().unwrap();
    assert_eq!(*tiles.read(&stream).unwrap(), *wanted, "{context}: tiles");
    let mut again = quantizer
        .upload(&stream, &with_other_scales(&host))
        .unwrap();
    quantizer
        .set_swizzled_scales(&stream, &mut again, &tiles)
        .unwrap();
    assert_eq!(again.download(&stream).unwrap(), host, "{context}: upload");
}

pub(crate) fn equals_the_host(device: &Device) {
    for (format, recipe) in FORMATS {
        for (seed, shape) in [[1, 32], [3, 64], [5, 96], [130, 160], [0, 32]]
            .into_iter()
            .enumerate()
        {
            for exponents in [2, 24, 250] {
                let values = values(shape[0] * shape[1], seed as u32, exponents);
                check(device, format, recipe, shape, &values);
            }
        }
    }
}

/// Tiles of scales that no column pads, as those of most weights, with a second row of tiles below them: its place follows from
/// how many lie side by side.
pub(crate) fn whole_tiles_of_scales_equal_the_host(device: &Device) {
    for (format, recipe) in FORMATS {
        let shape = [129, 8 * format.block()];
        let values = values(shape[0] * shape[1], 7, 24);
        check(device, format, recipe, shape, &values);
    }
}

/// A row of 32 values for every exponent that f32 has, 0 that of zeros and subnormals, and a row of zeros behind each. One ends
/// in the largest finite number.
pub(crate) fn rows_of_every_exponent() -> Vec<f32> {
    let row_of = |exponent: u32| {
        let value = move |idx: u32| {
            let below = exponent.saturating_sub(idx / 6);
            let mantissa = 0x7F_FFFF - (idx * 0x2_9A5B + exponent * 0x1_0101) % 0x80_0000;
            f32::from_bits((idx % 2) << 31 | below << 23 | mantissa)
        };
        let zero = |idx: u32| if idx.is_multiple_of(3) { -0.0 } else { 0.0 };
        (0..32).map(value).chain((0..32).map(zero))
    };
    (0..=254).flat_map(row_of).collect()
}

/// Blocks of zeros, of subnormals and of the largest values, alone and beside the others: scales end at zero, at the least, and
/// at the largest one.
pub(crate) fn blocks_of_every_exponent_equal_the_host(device: &Device) {
    let all = rows_of_every_exponent();
    for (format, recipe) in FORMATS {
        check(device, format, recipe, [all.len() / 32, 32], &all);
        for zero in [0.0, -0.0] {
            check(device, format, recipe, [3, 32], &[zero; 96]);
        }
        let least = f32::from_bits(1);
        check(device, format, recipe, [1, 32], &[least; 32]);
        check(device, format, recipe, [1, 32], &[f32::MAX; 32]);
        // Rows of the sixteen least exponents, which an NVFP4 scale of the whole tensor takes in.
        check(device, format, recipe, [32, 32], &all[..32 * 32]);
    }
}

/// A tensor that the threads looking for its largest magnitude go through more than once, with that magnitude at the end, and one
/// so small that its NVFP4 scale is the least there is.
pub(crate) fn extremes_equal_the_host(device: &Device) {
    let (stream, quantizer) = (
        device.new_stream().unwrap(),
        DeviceQuantizer::new(device).unwrap(),
    );
    let policy = ExecutionPolicy::one_thread();
    // 4096 blocks of 256 threads take 4 values each at once.
    let mut long = values((4096 * 256 + 8) * 4, 5, 24);
    *long.last_mut().unwrap() = 1e6;
    let tiny = values(64, 6, 24).iter().map(|v| v * 1e-36).collect();
    for values in [long, tiny] {
        let shape = [values.len() / 32, 32];
        let own = upload(device, &stream, &values);
        let tensor = quantizer
            .quantize(&stream, &own, shape, PackedFormat::Nvfp4)
            .unwrap();
        let host = Quantizer::new(Recipe::NVFP4);
        let host = host.quantize(policy, &values, &shape, 1).unwrap();
        let got = tensor.download(&stream).unwrap();
        assert!(got == host, "{} values", values.len());
    }
}

/// No number would be right for them, and one that is finite would pass for a value.
pub(crate) fn blocks_that_are_not_finite_are_read_as_nan(device: &Device) {
    let stream = device.new_stream().unwrap();
    let quantizer = DeviceQuantizer::new(device).unwrap();
    for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for (format, _) in FORMATS {
            let mut values = vec![1.0_f32; 96];
            (values[37], values[70]) = (bad, f32::MAX);
            let own = upload(device, &stream, &values);
            let tensor = quantizer.quantize(&stream, &own, [3, 32], format).unwrap();
            let refused = tensor.download(&stream).map(drop).unwrap_err();
            assert!(matches!(refused, QuantError::Scale { .. }), "{refused}");
            if format == PackedFormat::Nvfp4 {
                continue; // it has no scale at all
            }
            let mut back = device.shared::<f32>(96).unwrap();
            quantizer.dequantize(&stream, &tensor, &mut back).unwrap();
            let back = back.read(&stream).unwrap();
            assert!(back[32..64].iter().all(|x| x.is_nan()), "{format} {bad}");
            assert!(back[..32].iter().all(|x| *x == 1.0), "{format} {bad}");
            assert!(back[64..].iter().all(|x| x.is_finite()), "{format} {bad}");
        }
    }
}

pub(crate) fn every_code_is_decoded(device: &Device) {
    let (stream, quantizer) = (
        device.new_stream().unwrap(),
        DeviceQuantizer::new(device).unwrap(),
    );
    for (format, _) in FORMATS {
        // Every code with every scale that is a number.
        let is_fp8 = format == PackedFormat::Mx(MiniFormat::E4m3);
        let (depth, n_scales) = (
            256,
            if format == PackedFormat::Nvfp4 {
                127
            } else {
                255
            },
        );
        let shape = [n_scales, depth];
        let codes_of_row: Vec<u8> = if is_fp8 {
            (0..=255)
                .map(|code| if code & 0x7F == 0x7F { 0 } else { code })
                .collect()
        } else {
            (0..=127).map(|i| (i % 16) << 4 | (15 - i % 16)).collect()
        };
        let codes = codes_of_row.repeat(n_scales);
        let block: Vec<u8> = (0..n_scales)
            .flat_map(|scale| vec![scale as u8; depth / format.block()])
            .collect();
        let scales = if format == PackedFormat::Nvfp4 {
            Scales::Nvfp4 { block, tensor: 0.3 }
        } else {
            Scales::Mx(block)
        };
        let host = PackedTensor::from_parts(&shape, 1, format, codes, scales).unwrap();
        let tensor = quantizer.upload(&stream, &host).unwrap();
        let mut values = device.shared::<f32>(n_scales * depth).unwrap();
        quantizer.dequantize(&stream, &tensor, &mut values).unwrap();
        let wanted = host.dequantize(ExecutionPolicy::one_thread()).unwrap();
        for (idx, (got, wanted)) in values
            .read(&stream)
            .unwrap()
            .iter()
            .zip(&wanted)
            .enumerate()
        {
            assert_eq!(
                got.to_bits(),
                wanted.to_bits(),
                "{format} value {idx}: {got} {wanted}"
            );
        }
    }
}

pub(crate) fn bad_input_is_refused(device: &Device) {
    let (stream, quantizer) = (
        device.new_stream().unwrap(),
        DeviceQuantizer::new(device).unwrap(),
    );
    let ones = upload(device, &stream, &[1.0; 64]);
    let quantize = |shape, format| quantizer.quantize(&stream, &ones, shape, format);
    let nvfp4 = PackedFormat::Nvfp4;
    assert!(matches!(
        quantize([2, 40], nvfp4),
        Err(QuantError::NotAMultiple { .. })
    ));
    assert!(matches!(
        quantize([3, 16], nvfp4),
        Err(QuantError::LengthMismatch { .. })
    ));
    // Before any memory is asked for.
    assert!(matches!(
        quantize([1 << 45, 16], nvfp4),
        Err(QuantError::LengthMismatch { .. })
    ));
    assert!(matches!(
        quantize([usize::MAX, 16], nvfp4),
        Err(QuantError::ShapeOverflow { .. })
    ));
    assert!(matches!(
        quantize([2, 32], PackedFormat::Int8),
        Err(QuantError::Unsupported { .. })
    ));
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut values = vec![1.0; 64];
        values[37] = bad;
        let values = upload(device, &stream, &values);
        let tensor = quantizer
            .quantize(&stream, &values, [4, 16], nvfp4)
            .unwrap();
        assert!(matches!(
            tensor.download(&stream),
            Err(QuantError::Scale { .. })
        ));
    }
    let tensor = quantize([4, 16], nvfp4).unwrap();
    let mut short = device.shared::<f32>(48).unwrap();
    assert!(matches!(
        quantizer.dequantize(&stream, &tensor, &mut short),
        Err(QuantError::LengthMismatch { .. })
    ));
}
