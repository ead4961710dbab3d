//! What kernels are made of and given: structures, texts of this run, shared memory, constants.

use spark_mem::{Device, DeviceKind, KernelSource, LaunchShape, MemError, Read, Write};

use super::{N, filled, ramp, values};
use crate::kernels::{ELEMENTWISE, MANY, MIRROR, Scale, WEIGHTED};

pub(crate) fn structures_and_many_numbers_are_arguments(device: &Device) {
    let stream = device.new_stream().unwrap();
    let input = filled(device, &stream, device.shared_kind(), &ramp(N));
    let mut out = device.shared::<f32>(N).unwrap();
    let kernel = device.kernel(&MANY.clone()).unwrap();
    assert!(format!("{:?}", kernel.clone()).contains(kernel.entry()));
    let shape = LaunchShape::for_elements(N, 128).unwrap();
    let scale = Scale {
        factor: -0.25,
        offset: [1.0, 20.0, 300.0],
        n: N as u32,
    };
    // Powers of two and neighbours, so that a number that is lost, cut or out of place shows.
    let whole = (
        200,
        -100,
        60_000,
        -30_000,
        1 << 31,
        -(1 << 30),
        1 << 40,
        -(1 << 39),
    );
    let floats = (0.5, -0.25, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0);
    let arguments = (
        out.view_mut(),
        input.view(),
        scale,
        (whole, floats),
        N as u32 - 1,
    );
    // SAFETY: the kernel touches `N` elements of both, which have as many.
    unsafe { kernel.launch(&stream, shape, arguments) }.unwrap();
    let sum = 200.0 - 100.0 + 60_000.0 - 30_000.0 + f64::from(1_u32 << 31) - f64::from(1 << 30)
        + f64::from(1 << 20) * f64::from(1 << 20)
        - f64::from(1 << 20) * f64::from(1 << 19)
        + 0.5
        - 0.25
        + 56.0;
    let got = values(&out, &stream);
    for (idx, value) in ramp(N).iter().enumerate() {
        let offset = [1.0, 20.0, 300.0][idx % 3];
        let wanted = (f64::from(*value) * -0.25 + offset + sum) as f32;
        assert_eq!(got[idx], wanted, "element {idx}");
    }
}

/// The same text, made anew each time: one kernel, and nothing is leaked for it.
pub(crate) fn sources_made_at_run_time_are_kernels(device: &Device) {
    let stream = device.new_stream().unwrap();
    let input = filled(device, &stream, device.shared_kind(), &ramp(N));
    let shape = LaunchShape::for_elements(N, 128).unwrap();
    for tile in [64, 128, 64] {
        let text = format!("// of this run\n{}", ELEMENTWISE);
        let made: KernelSource<(Write<f32>, Read<f32>, f32, u32)> =
            KernelSource::from_text("made.cu", text, String::from("scale_f32"))
                .with_header(String::from("made.cuh"), String::from("// nothing"))
                .with_option(format!("-DTILE={tile}"))
                .with_host(|_: LaunchShape, (out, input, factor, _)| {
                    for (out, input) in out.iter_mut().zip(input) {
                        *out = factor * input;
                    }
                });
        let kernel = device.kernel(&made).unwrap();
        drop(made);
        assert_eq!(kernel.entry(), "scale_f32");
        let mut out = device.shared::<f32>(N).unwrap();
        let arguments = (out.view_mut(), input.view(), 2.0, N as u32);
        // SAFETY: the kernel touches `N` elements of both, which have as many.
        unsafe { kernel.launch(&stream, shape, arguments) }.unwrap();
        assert_eq!(values(&out, &stream)[N - 1], 2.0 * ramp(N)[N - 1]);
    }
}

/// Whether a device runs kernels without a host version; one that does not says so.
fn runs_device_code(device: &Device) -> bool {
    let is_gpu = matches!(device.info().kind, DeviceKind::Cuda(_));
    if !is_gpu {
        let refused = device.kernel(&MIRROR).map(drop);
        assert!(
            matches!(refused, Err(MemError::NoHostKernel { .. })),
            "{refused:?}"
        );
    }
    is_gpu
}

/// 32 KiB static and 24 KiB dynamic: each below the 48 KiB that need no asking, the sum above.
pub(crate) fn static_and_dynamic_shared_memory_are_counted_together(device: &Device) {
    if !runs_device_code(device) {
        return;
    }
    let stream = device.new_stream().unwrap();
    let kernel = device.kernel(&MIRROR).unwrap();
    let input = filled(device, &stream, device.shared_kind(), &ramp(256));
    let mut out = device.shared::<f32>(256).unwrap();
    let mut launch = |n_dynamic: u32| {
        let shape = LaunchShape {
            shared_bytes: 4 * n_dynamic,
            ..LaunchShape::for_elements(256, 64).unwrap()
        };
        // SAFETY: both have an element for each thread, the block its shared memory.
        unsafe { kernel.launch(&stream, shape, (out.view_mut(), input.view(), n_dynamic)) }
    };
    launch(1024).unwrap();
    launch(6144).unwrap();
    launch(6144).unwrap();
    launch(5000).unwrap();
    assert!(launch(1 << 20).is_err(), "more than any GPU has");
    // The block is mirrored in dynamic memory.
    let got = values(&out, &stream);
    for (idx, value) in got.iter().enumerate() {
        assert_eq!(
            *value,
            ramp(256)[idx / 64 * 64 + 63 - idx % 64],
            "element {idx}"
        );
    }
}

pub(crate) fn constants_are_written_by_their_names(device: &Device) {
    if !runs_device_code(device) {
        return;
    }
    let stream = device.new_stream().unwrap();
    let kernel = device.kernel(&WEIGHTED).unwrap();
    let input = filled(device, &stream, device.shared_kind(), &[3.0; 8]);
    let mut out = device.shared::<f32>(8).unwrap();
    let shape = LaunchShape::for_elements(8, 32).unwrap();
    for weights in [[1.0_f32, 2.0, 3.0, 4.0], [-1.0, 0.5, 0.0, 9.0]] {
        // SAFETY: four floats, which the kernel multiplies with; both have eight elements.
        unsafe {
            kernel.write_constant(&stream, "weights", &weights).unwrap();
            let arguments = (out.view_mut(), input.view(), 8);
            kernel.launch(&stream, shape, arguments).unwrap();
        }
        let wanted: Vec<f32> = (0..8).map(|idx| 3.0 * weights[idx % 4]).collect();
        assert_eq!(values(&out, &stream), wanted);
    }
    // SAFETY: nothing is written.
    let (short, unknown) = unsafe {
        (
            kernel.write_constant(&stream, "weights", &[1.0_f32]),
            kernel.write_constant(&stream, "no_such", &[1.0_f32; 4]),
        )
    };
    assert!(matches!(
        short,
        Err(MemError::VariableBytes {
            got: 4,
            want: 16,
            ..
        })
    ));
    assert!(matches!(unknown, Err(MemError::NotInCode { .. })));
}
