//! Block formats on devices: the CPU, an emulated card, and, with the feature `cuda`, the kernels
//! themselves on the stand-in driver, as each of the GPUs that it poses as.

use half::bf16;
use spark_mem::{Device, KernelSource, LaunchShape, Write};
use spark_quant::device::DeviceQuantizer;
use spark_quant::device::gemm::{DeviceGemm, GemmFormat, GemmOperand};
use spark_quant::scalar::MiniFormat;
use spark_quant::{ExecutionPolicy, PackedFormat};

use crate::device_cases::{
    bad_input_is_refused, blocks_of_every_exponent_equal_the_host,
    blocks_that_are_not_finite_are_read_as_nan, equals_the_host, every_code_is_decoded,
    extremes_equal_the_host, whole_tiles_of_scales_equal_the_host,
};
use crate::device_gemm_cases;

fn all(device: &Device) {
    equals_the_host(device);
    whole_tiles_of_scales_equal_the_host(device);
    blocks_of_every_exponent_equal_the_host(device);
    extremes_equal_the_host(device);
    blocks_that_are_not_finite_are_read_as_nan(device);
    every_code_is_decoded(device);
    bad_input_is_refused(device);
}

#[test]
fn the_cpu_as_a_device() {
    all(&Device::host());
}

#[test]
fn an_emulated_card() {
    all(&Device::emulated(64 << 20));
}

/// On devices that are no GPU the definition itself runs; operands and checks are those of a GPU.
#[test]
fn gemm_by_its_definition() {
    for device in [Device::host(), Device::emulated(64 << 20)] {
        device_gemm_cases::integers_are_multiplied_exactly(&device);
        device_gemm_cases::any_depth_is_multiplied(&device);
        device_gemm_cases::nan_stays_where_it_is_seen(&device);
        device_gemm_cases::other_values_are_multiplied_closely(&device);
        device_gemm_cases::tensor_scales_overflow_only_with_the_result(&device);
        device_gemm_cases::operands_that_do_not_fit_are_refused(&device);
    }
}

/// Sums on the way, or single products, that f32 does not hold: of the definition alone.
#[test]
fn sums_beyond_f32_come_back() {
    for device in [Device::host(), Device::emulated(64 << 20)] {
        let stream = device.new_stream().unwrap();
        let gemm = DeviceGemm::new(&device, GemmFormat::Bf16).unwrap();
        let operand = |values: [f32; 3]| {
            let codes = values.map(|value| bf16::from_f32(value).to_le_bytes());
            let codes = codes.as_flattened();
            GemmOperand::new(&device, &stream, GemmFormat::Bf16, [1, 3], codes).unwrap()
        };
        let tiny = 2_f32.powi(-75);
        for (a, b, want) in [
            ([1e38, 1e38, 3.0], [10.0, -10.0, 2.0], 6.0),
            ([3e38, 3e38, 1.0], [1.0; 3], f32::INFINITY),
            ([-3e38, -3e38, 1.0], [1.0; 3], f32::NEG_INFINITY),
            // Too small for f32 one by one.
            ([1e-30, 1e-30, 0.0], [1e-30, -1e-30, 0.0], 0.0),
            ([tiny, tiny, 0.0], [tiny; 3], 2_f32.powi(-149)),
        ] {
            let mut c = device.shared::<f32>(1).unwrap();
            gemm.run(&stream, &mut c, &operand(a), &operand(b)).unwrap();
            assert_eq!(*c.read(&stream).unwrap(), [want], "{a:?} times {b:?}");
        }
    }
}

#[test]
fn misaligned_memory_of_the_program_is_refused() {
    let device = Device::host();
    let quantizer = DeviceQuantizer::new(&device).unwrap();
    let stream = device.new_stream().unwrap();
    // A `Vec` of f32 lies where the allocator puts it; sixteen bytes are its habit, not its promise.
    let adopted = device.buffer_from_vec(&stream, vec![1.0; 16]).unwrap();
    let is_aligned = adopted.device_address().unwrap().is_multiple_of(16);
    let result = quantizer.quantize(&stream, &adopted, [1, 16], PackedFormat::Nvfp4);
    assert_eq!(result.is_ok(), is_aligned);
}

/// Parameters of a kernel that writes the values it should read.
type WritesAll = (Write<u8>, Write<u8>, Write<f32>, u64);

/// Text and entry of this crate's own kernel.
const IMPOSTOR: KernelSource<WritesAll> = KernelSource::new(
    "blocks.cu",
    include_str!("../../kernels/blocks.cu"),
    "mxfp8_from_f32",
)
.with_host(|_: LaunchShape, (_, _, values, _)| values.fill(666.0));

#[test]
fn another_kernel_of_the_same_text_and_entry_does_not_stand_in_for_ours() {
    let device = Device::host();
    let stream = device.new_stream().unwrap();
    let _loaded_first = device.kernel(&IMPOSTOR).unwrap();
    let quantizer = DeviceQuantizer::new(&device).unwrap();
    let mut values = device.shared::<f32>(64).unwrap();
    values.write(&stream).unwrap().fill(1.0);
    let open = values.read(&stream).unwrap();
    let seen: &[f32] = &open;
    let format = PackedFormat::Mx(MiniFormat::E4m3);
    let tensor = quantizer
        .quantize(&stream, &values, [2, 32], format)
        .unwrap();
    assert_eq!(
        *seen, [1.0; 64],
        "values that are borrowed for reading changed"
    );
    let tensor = tensor.download(&stream).unwrap();
    assert_eq!(
        tensor.dequantize(ExecutionPolicy::one_thread()).unwrap(),
        [1.0; 64]
    );
}

/// The driver of this process.
#[cfg(feature = "cuda")]
pub(crate) fn driver() -> &'static spark_testing::driver::StandInDriver {
    use spark_testing::driver::{Build, StandInDriver};
    use std::path::Path;
    use std::sync::OnceLock;

    static DRIVER: OnceLock<StandInDriver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let headers = folder.join("../spark-mem/kernels");
        let blocks = folder.join("kernels/blocks.cu");
        let build = Build {
            kernels: &[&blocks],
            includes: &[&headers],
            ..Build::default()
        };
        StandInDriver::load(&build).expect("the stand-in driver builds")
    })
}

#[cfg(feature = "cuda")]
#[test]
fn the_kernels_on_the_stand_in_driver() {
    use spark_mem::DeviceOptions;
    use spark_testing::driver::Persona;

    let driver = driver();
    for persona in Persona::ALL {
        let posed = driver.pose(persona);
        let options = DeviceOptions::new();
        let device = Device::cuda(0, options).expect("the stand-in driver has a device");
        all(&device);
        // Its instructions have no version for the host compiler.
        if driver.runs_ptx() {
            device_gemm_cases::integers_are_multiplied_exactly(&device);
            device_gemm_cases::any_depth_is_multiplied(&device);
            device_gemm_cases::nan_stays_where_it_is_seen(&device);
            device_gemm_cases::other_values_are_multiplied_closely(&device);
            device_gemm_cases::tensor_scales_overflow_only_with_the_result(&device);
        }
        drop(device);
        posed.assert_clean();
    }
}

/// Every kernel of the module is among those that are compiled before.
#[cfg(feature = "cuda")]
#[test]
fn precompiled_kernels_are_all_that_there_are() {
    use spark_mem::DeviceOptions;
    use spark_mem::kernel::ComputeCapability;
    use spark_testing::driver::Persona;

    let name = format!("precompiled-{}", std::process::id());
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let driver = driver();
    for (persona, major, minor) in [(Persona::Spark, 12, 1), (Persona::Card, 9, 0)] {
        let posed = driver.pose(persona);
        let compute = ComputeCapability { major, minor };
        spark_quant::device::precompile(compute, &folder).expect("the stand-in has a compiler");
        let n_compiled = posed.count("nvrtcCompileProgram");
        assert_eq!(n_compiled, 5, "blocks, and GEMM in four formats");
        let options = DeviceOptions::new()
            .with_cache_dir(&folder)
            .with_measured_memory(false);
        let device = Device::cuda(0, options).expect("the stand-in driver has a device");
        all(&device);
        if driver.runs_ptx() {
            device_gemm_cases::integers_are_multiplied_exactly(&device);
        }
        assert_eq!(posed.count("nvrtcCompileProgram"), n_compiled);
        drop(device);
        posed.assert_clean();
    }
    std::fs::remove_dir_all(&folder).expect("what was kept");
}
