//! What is particular to the GPUs that the stand-in driver poses as: their kinds of memory, their limits,
//! and code that an architecture lacks.

use spark_mem::{BufferKind, Device, KernelSource, LaunchShape, MemError, Read, Write};
use spark_testing::driver::Persona;

use crate::kernels::MIRROR;
use crate::stand_in::{check, driver, options};

const HOST: BufferKind = BufferKind::Host;
const PINNED: BufferKind = BufferKind::Pinned;
const UNIFIED: BufferKind = BufferKind::Unified;
const SYSTEM: BufferKind = BufferKind::System;
const DEVICE: BufferKind = BufferKind::Device;

#[test]
fn devices_are_what_their_drivers_say() {
    let told = |persona| {
        let mut told = None;
        check(persona, |_, device| {
            let info = device.info().clone();
            let kinds = BufferKind::ALL.into_iter();
            let kinds: Vec<_> = kinds.filter(|kind| device.supports(*kind)).collect();
            assert!(kinds.contains(&device.shared_kind()), "{persona:?}");
            told = Some((info, kinds));
        });
        let (info, kinds) = told.unwrap();
        let compute = info.compute.unwrap();
        let limits = (info.n_multiprocessors, info.shared_bytes_per_block);
        let is = (info.is_unified, info.shares_page_tables);
        (info.name, (compute.major, compute.minor), is, limits, kinds)
    };
    let of = |name: &str, compute, is, limits, kinds: &[BufferKind]| {
        (name.to_owned(), compute, is, limits, kinds.to_vec())
    };
    let kinds = [HOST, PINNED, UNIFIED, SYSTEM, DEVICE];
    let spark = of("NVIDIA GB10", (12, 1), (true, true), (48, 99 << 10), &kinds);
    assert_eq!(told(Persona::Spark), spark);
    let kinds = [HOST, PINNED, UNIFIED, DEVICE];
    let card = of(
        "NVIDIA H200",
        (9, 0),
        (false, false),
        (132, 227 << 10),
        &kinds,
    );
    assert_eq!(told(Persona::Card), card);
    let name = "NVIDIA A100-PCIE-40GB";
    let ampere = of(name, (8, 0), (false, false), (108, 163 << 10), &kinds);
    assert_eq!(told(Persona::Ampere), ampere);
    // Managed memory exists, and is one side's at a time: guards and work on other memory would clash.
    let kinds = [HOST, PINNED, DEVICE];
    let jetson = of("Orin", (8, 7), (true, false), (16, 163 << 10), &kinds);
    assert_eq!(told(Persona::Jetson), jetson);
}

/// One memory, reached by both sides at one address, and no page of it managed.
#[test]
fn a_jetson_shares_without_copies_and_without_managed_memory() {
    check(Persona::Jetson, |posed, device| {
        assert_eq!(device.shared_kind(), PINNED);
        crate::conformance::round_trips_copy_only_where_memory_is_apart(device);
        crate::conformance::hints_never_fail(device);
        assert_eq!(posed.count("cuMemAllocManaged"), 0);
        match device.buffer::<u8>(UNIFIED, 1) {
            Err(MemError::KindUnsupported { kind, why, .. }) => {
                assert_eq!(kind, UNIFIED);
                assert!(why.contains("at the same time"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    });
}

/// Without memory pools memory is waited for, and given back all the same.
#[test]
fn memory_comes_and_goes_where_there_are_no_pools() {
    check(Persona::Jetson, |posed, device| {
        let stream = device.new_stream().unwrap();
        let mut out = device.buffer::<u8>(DEVICE, 4096).unwrap();
        for _ in 0..5 {
            let mut scratch = device.buffer::<u8>(DEVICE, 4096).unwrap();
            stream.fill_bytes(scratch.view_mut(), 7).unwrap();
            stream.copy(scratch.view(), out.view_mut()).unwrap();
        }
        assert_eq!(posed.count("cuMemAllocAsync"), 0);
        assert_eq!(posed.count("cuMemAlloc_v2 4096"), 6);
        assert_eq!(out.into_vec(&stream).unwrap(), [7; 4096]);
    });
}

/// 32 KiB are static; with the dynamic ones exactly what a block of this GPU may have, and a word more.
#[test]
fn blocks_have_the_shared_memory_of_their_gpu() {
    for persona in Persona::ALL {
        check(persona, |_, device| {
            let stream = device.new_stream().unwrap();
            let kernel = device.kernel(&MIRROR).unwrap();
            let input = device.shared::<f32>(64).unwrap();
            let mut out = device.shared::<f32>(64).unwrap();
            let most = device.info().shared_bytes_per_block - (32 << 10);
            let mut launch = |shared_bytes: u32| {
                let shape = LaunchShape {
                    shared_bytes,
                    ..LaunchShape::for_elements(64, 64).unwrap()
                };
                let arguments = (out.view_mut(), input.view(), shared_bytes / 4);
                // SAFETY: both have an element for each thread, the block its shared memory.
                unsafe { kernel.launch(&stream, shape, arguments) }
            };
            launch(most).unwrap_or_else(|error| panic!("{persona:?}: {error}"));
            assert!(launch(most + 4).is_err(), "{persona:?}");
            stream.synchronize().unwrap();
        });
    }
}

// --- code -----------------------------------------------------------------------------------

type One = (Write<u32>,);

/// A kernel of one line.
fn line(text: &str) -> KernelSource<One> {
    let text = format!(
        "#include \"spark_warp.cuh\"\nextern \"C\" __global__ void line(unsigned* out) {{ {text} }}"
    );
    KernelSource::from_text("line.cu", text, "line")
}

const E4M3: &str =
    "float d[4] = {}; unsigned a[4] = {}, b[2] = {}; mma_m16n8k32_e4m3(d, a, b, d); *out = d[0];";
const NVFP4: &str = "float d[4] = {}; unsigned a[4] = {}, b[2] = {}; mma_m16n8k64_nvfp4(d, a, b, d, 0, 0); *out = d[0];";
const E4M3_CONVERSION: &str = "unsigned short two; asm(\"cvt.rn.satfinite.e4m3x2.f32 %0, %1, %1;\" : \"=h\"(two) : \"f\"(1.0f)); *out = two;";
const WAITS: &str = "asm volatile(\"griddepcontrol.wait;\"); *out = 1;";
const CLUSTER: &str = "asm volatile(\"barrier.cluster.arrive; barrier.cluster.wait;\"); *out = 1;";
const BF16: &str =
    "asm volatile(\"red.global.add.noftz.bf16 [%0], %1;\" :: \"l\"(out), \"h\"((short)0));";
const F16: &str =
    "float d[4] = {}; unsigned a[4] = {}, b[2] = {}; mma_m16n8k16_f16(d, a, b, d); *out = d[0];";
const COPIES: &str = "__shared__ __align__(16) unsigned to[4]; copy_16_async(to, out); commit_copies(); wait_copies();";

/// NVIDIA's assembler refuses what an architecture lacks; so does a driver that gets it as PTX.
#[test]
fn what_an_architecture_lacks_is_refused_by_its_assembler() {
    if !driver().runs_ptx() {
        return;
    }
    const NEWER: [Persona; 2] = [Persona::Card, Persona::Spark];
    let cases: [(&str, &[Persona], &str); 8] = [
        (F16, &Persona::ALL, ""),
        (COPIES, &Persona::ALL, ""),
        (E4M3, &NEWER, "sm_89"),
        (E4M3_CONVERSION, &NEWER, "sm_89"),
        (WAITS, &NEWER, "sm_90"),
        (CLUSTER, &NEWER, "sm_90"),
        (BF16, &NEWER, "sm_90"),
        (NVFP4, &[Persona::Spark], ""),
    ];
    for persona in Persona::ALL {
        check(persona, |_, device| {
            let compute = device.info().compute.unwrap();
            for (text, having, needs) in cases {
                let made = device.kernel(&line(text));
                if having.contains(&persona) {
                    made.unwrap_or_else(|error| panic!("{persona:?}, {text}: {error}"));
                    continue;
                }
                match made {
                    Err(MemError::Compile { file, arch, log }) => {
                        assert_eq!(file, "line.cu");
                        assert!(arch.starts_with(&format!("sm_{}", compute.sm())), "{arch}");
                        assert!(log.contains("ptxas") && log.contains(needs), "{log}");
                    }
                    other => panic!("{persona:?}, {text}: {other:?}"),
                }
            }
        });
    }
}

#[test]
fn ptx_with_what_its_target_lacks_is_refused_by_the_driver() {
    if !driver().runs_ptx() {
        return;
    }
    let text = |line: &str| {
        format!(
            ".version 7.8\n.target sm_80\n.address_size 64\n\
             .visible .entry line(.param .u64 out) {{ {line} ret; }}\n"
        )
    };
    check(Persona::Ampere, |_, device| {
        let source = |line: &str| -> KernelSource<One> {
            KernelSource::new("line.cu", "", "line")
                .with_image("compute_80", text(line).into_bytes())
        };
        device.kernel(&source("membar.gl;")).unwrap();
        let refused = device.kernel(&source("griddepcontrol.wait;"));
        assert!(
            matches!(refused, Err(MemError::NoCompiler { .. })),
            "{refused:?}"
        );
    });
}

/// Sixty-four sums of each thread live at once: with 1024 threads a block has no registers for them.
const MANY_SUMS: &str = "
extern \"C\" __global__ void sums(float* out, const float* in) {
  float sums[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) sums[i] = in[i];
  for (int round = 0; round < 8; ++round) {
#pragma unroll
    for (int i = 0; i < 64; ++i) sums[i] = sums[i] * sums[(i + 1) % 64] + in[round];
  }
  float all = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) all += sums[i];
  out[threadIdx.x] = all;
}
";

#[test]
fn blocks_have_the_registers_of_their_gpu() {
    if !driver().runs_ptx() {
        return;
    }
    let source: KernelSource<(Write<f32>, Read<f32>)> =
        KernelSource::new("sums.cu", MANY_SUMS, "sums");
    for persona in Persona::ALL {
        check(persona, |_, device| {
            let stream = device.new_stream().unwrap();
            let kernel = device.kernel(&source).unwrap();
            let mut input = device.shared::<f32>(64).unwrap();
            input.overwrite(&stream).unwrap().fill(0.0);
            let mut out = device.shared::<f32>(1024).unwrap();
            let mut launch = |n_threads| {
                let shape = LaunchShape::for_elements(n_threads as usize, n_threads).unwrap();
                let arguments = (out.view_mut(), input.view());
                // SAFETY: the kernel reads 64 elements and writes one for each thread.
                unsafe { kernel.launch(&stream, shape, arguments) }
            };
            match launch(1024) {
                Err(MemError::Driver(error)) => {
                    assert_eq!(error.name, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
                }
                other => panic!("{persona:?}: {other:?}"),
            }
            launch(256).unwrap();
            stream.synchronize().unwrap();
            let n_blocks = kernel.blocks_per_multiprocessor(256, 0).unwrap();
            assert!((1..=3).contains(&n_blocks), "{persona:?}: {n_blocks}");
        });
    }
}

/// What a kernel's code says of its blocks is kept by the launch itself, not by the work behind it.
#[test]
fn launches_keep_the_bounds_of_their_kernel() {
    if !driver().runs_ptx() {
        return;
    }
    const TEXT: &str = "extern \"C\" __global__ void __launch_bounds__(64) bounded(unsigned* out) \
        { out[threadIdx.x] = 1; }";
    check(Persona::Spark, |_, device| {
        let stream = device.new_stream().unwrap();
        let source: KernelSource<(Write<u32>,)> = KernelSource::new("bounded.cu", TEXT, "bounded");
        let kernel = device.kernel(&source).unwrap();
        let mut out = device.shared::<u32>(65).unwrap();
        let mut launch = |n_threads: u32| {
            let shape = LaunchShape::for_elements(n_threads as usize, n_threads).unwrap();
            // SAFETY: the kernel writes one element for each thread.
            unsafe { kernel.launch(&stream, shape, (out.view_mut(),)) }
        };
        match launch(65) {
            Err(MemError::Driver(error)) => assert_eq!(error.name, "CUDA_ERROR_INVALID_VALUE"),
            other => panic!("{other:?}"),
        }
        launch(64).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(out.read(&stream).unwrap()[63..], [1, 0]);
    });
}

#[test]
fn constants_are_not_written_by_kernels() {
    if !driver().runs_ptx() {
        return;
    }
    const TEXT: &str = "__constant__ unsigned limit = 3;\n\
        extern \"C\" __global__ void raise(unsigned* out) \
        { *out = limit; asm volatile(\"st.u32 [%0], 4;\" :: \"l\"(&limit) : \"memory\"); }";
    let posed = driver().pose(Persona::Spark);
    let device = Device::cuda(0, options()).unwrap();
    let stream = device.new_stream().unwrap();
    let source: KernelSource<(Write<u32>,)> = KernelSource::new("raise.cu", TEXT, "raise");
    let kernel = device.kernel(&source).unwrap();
    let mut out = device.shared::<u32>(1).unwrap();
    let shape = LaunchShape::for_elements(1, 1).unwrap();
    // SAFETY: the kernel writes the one element of its argument, and what it must not.
    unsafe { kernel.launch(&stream, shape, (out.view_mut(),)) }.unwrap();
    let failed = stream.synchronize();
    assert!(failed.is_err(), "{failed:?}");
    let told = posed.violations();
    assert!(
        told.iter().any(|line| line.contains("constant memory at")),
        "{told:?}"
    );
}

/// As on a card, then.
#[test]
fn a_jetson_opens_with_sharing_switched_off() {
    let posed = driver().pose(Persona::Jetson);
    let device = Device::cuda(0, options().with_unified_memory(false)).unwrap();
    assert_eq!(device.shared_kind(), DEVICE);
    assert!(!device.supports(UNIFIED) && !device.supports(SYSTEM));
    crate::conformance::round_trips_copy_only_where_memory_is_apart(&device);
    drop(device);
    posed.assert_clean();
}
