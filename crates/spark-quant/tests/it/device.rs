//! Block formats on devices: the CPU, an emulated card, and, with the feature `cuda`, the kernels
//! themselves on the stand-in driver, as a GB10 and as a discrete card.

use spark_mem::Device;
use spark_quant::PackedFormat;
use spark_quant::device::DeviceQuantizer;

use crate::device_cases::{bad_input_is_refused, equals_the_host, every_code_is_decoded};

fn all(device: &Device) {
    equals_the_host(device);
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

#[cfg(feature = "cuda")]
#[test]
fn the_kernels_on_the_stand_in_driver() {
    use spark_mem::DeviceOptions;
    use spark_testing::driver::{Build, Persona, StandInDriver};
    use std::path::Path;

    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let headers = folder.join("../spark-mem/kernels");
    let blocks = folder.join("kernels/blocks.cu");
    let build = Build {
        kernels: &[&blocks],
        includes: &[&headers],
        ..Build::default()
    };
    let driver = StandInDriver::load(&build).expect("the stand-in driver builds");
    for persona in [Persona::Spark, Persona::Card] {
        let posed = driver.pose(persona);
        let options = DeviceOptions {
            use_unified_memory: true,
            budget_bytes: None,
            cache_dir: None,
        };
        let device = Device::cuda(0, options).expect("the stand-in driver has a device");
        all(&device);
        drop(device);
        posed.assert_clean();
    }
}
