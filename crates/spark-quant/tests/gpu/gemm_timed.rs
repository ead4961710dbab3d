//! How fast a GEMM is, beside nothing: a figure for the report, no bound.

use spark_mem::Device;
use spark_quant::device::gemm::{DeviceGemm, GemmFormat, GemmOperand};
use spark_quant::packed::Scales;
use spark_quant::{PackedFormat, PackedTensor};

/// Launches in one measurement.
const N_LAUNCHES: usize = 20;
const N_RUNS: usize = 9;

/// Prints TFLOP/s of a large product and of one of a network's size, medians with the extremes.
pub(crate) fn gemm_is_timed(device: &Device) {
    let stream = device.new_stream().unwrap();
    for format in GemmFormat::ALL {
        for [m, n, depth] in [[4096, 4096, 4096], [2048, 512, 512]] {
            let operand = |rows: usize| {
                let shape = [rows, depth];
                if format == GemmFormat::Nvfp4 {
                    let codes = bytes(rows * depth / 2);
                    let scales = Scales::Nvfp4 {
                        block: vec![0x38; rows * depth / 16],
                        tensor: 1.0,
                    };
                    let packed = PackedFormat::Nvfp4;
                    let tensor = PackedTensor::from_parts(&shape, 1, packed, codes, scales);
                    return GemmOperand::nvfp4(device, &stream, &tensor.unwrap()).unwrap();
                }
                // Bytes that are finite numbers in every format.
                let n_bytes = rows * depth * if format == GemmFormat::E4m3 { 1 } else { 2 };
                let codes: Vec<u8> = bytes(n_bytes).iter().map(|byte| byte & 0x3F).collect();
                GemmOperand::new(device, &stream, format, shape, &codes).unwrap()
            };
            let (a, b) = (operand(m), operand(n));
            let mut c = device.shared::<f32>(m * n).unwrap();
            let gemm = DeviceGemm::new(device, format).unwrap();
            gemm.run(&stream, &mut c, &a, &b).unwrap();
            stream.synchronize().unwrap();
            let mut ms: Vec<f64> = (0..N_RUNS)
                .map(|_| {
                    let started = std::time::Instant::now();
                    for _ in 0..N_LAUNCHES {
                        gemm.run(&stream, &mut c, &a, &b).unwrap();
                    }
                    stream.synchronize().unwrap();
                    started.elapsed().as_secs_f64() * 1e3 / N_LAUNCHES as f64
                })
                .collect();
            ms.sort_by(f64::total_cmp);
            let rate = |ms: f64| 2.0 * (m * n * depth) as f64 / ms / 1e9;
            println!(
                "figure: GEMM {format} {m} x {n} x {depth} = {:.1} TFLOP/s [{:.1}, {:.1}], {:.4} ms",
                rate(ms[N_RUNS / 2]),
                rate(ms[N_RUNS - 1]),
                rate(ms[0]),
                ms[N_RUNS / 2]
            );
        }
    }
}

fn bytes(n: usize) -> Vec<u8> {
    let mut state = 7_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..n).map(next).collect()
}
