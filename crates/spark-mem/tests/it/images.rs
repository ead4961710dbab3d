//! Whose code a kernel gets: one image per text, headers and options, from the nearest source.

use spark_hal::ComputeCapability;
use spark_mem::kernel::{Image, precompile};
use spark_mem::{Device, KernelSource, LaunchShape, MemError, Read, Write};
use spark_testing::driver::{Persona, Posed};

use crate::cache::CacheDir;
use crate::kernels::{ACCUMULATE, COUNT_ABOVE, ELEMENTWISE, SCALE};
use crate::logged;
use crate::stand_in::{check, device, driver};

type More = (Write<f32>, Read<f32>, f32, u32, u32);
type Scale = (Write<f32>, Read<f32>, f32, u32);

fn variant(tile: u32) -> KernelSource<Scale> {
    KernelSource::new("elementwise.cu", ELEMENTWISE, "scale_f32")
        .with_option(format!("-DTILE={tile}"))
}

/// The calls that say which code was made and taken.
fn code_calls(posed: &Posed<'_>) -> Vec<String> {
    let is_of_code = |call: &String| {
        [
            "nvrtcCompileProgram",
            "cuModuleLoadData",
            "cuModuleGetFunction",
        ]
        .iter()
        .any(|name| call.starts_with(name))
    };
    posed.calls().into_iter().filter(is_of_code).collect()
}

/// Launches a kernel that scales and looks at what it gives.
fn computes(device: &Device, source: &KernelSource<Scale>) {
    let stream = device.new_stream().unwrap();
    let kernel = device.kernel(source).unwrap();
    let mut input = device.shared::<f32>(100).unwrap();
    let mut out = device.shared::<f32>(100).unwrap();
    input.overwrite(&stream).unwrap().fill(3.0);
    let shape = LaunchShape::for_elements(100, 32).unwrap();
    // SAFETY: both have the 100 elements that the kernel touches.
    unsafe { kernel.launch(&stream, shape, (out.view_mut(), input.view(), 2.0, 100)) }.unwrap();
    assert_eq!(*out.read(&stream).unwrap(), [6.0; 100]);
}

#[test]
fn entries_of_one_image_are_compiled_and_loaded_once() {
    check(Persona::Spark, |posed, device| {
        device.kernel(&SCALE).unwrap();
        device.kernel(&ACCUMULATE).unwrap();
        device.kernel(&COUNT_ABOVE).unwrap();
        device.kernel(&SCALE).unwrap();
        let wanted = [
            "nvrtcCompileProgram sm_121a --std=c++17",
            "cuModuleLoadData",
            "cuModuleGetFunction scale_f32",
            "cuModuleGetFunction accumulate_f32",
            "cuModuleGetFunction count_above_f32",
        ];
        assert_eq!(code_calls(posed), wanted);
    });
}

/// What the options change is what the kernel does, where it is run as it was compiled.
#[test]
fn variants_by_option_compute_what_they_say() {
    if !driver().runs_ptx() {
        return;
    }
    const TEXT: &str = "extern \"C\" __global__ void tile(unsigned* out) { *out = TILE; }";
    for persona in Persona::ALL {
        check(persona, |_, device| {
            let stream = device.new_stream().unwrap();
            for tile in [64, 128, 64] {
                let source: KernelSource<(Write<u32>,)> =
                    KernelSource::new("tile.cu", TEXT, "tile")
                        .with_option(format!("-DTILE={tile}"));
                let kernel = device.kernel(&source).unwrap();
                let mut out = device.shared::<u32>(1).unwrap();
                let shape = LaunchShape::for_elements(1, 1).unwrap();
                // SAFETY: the kernel writes the one element.
                unsafe { kernel.launch(&stream, shape, (out.view_mut(),)) }.unwrap();
                assert_eq!(*out.read(&stream).unwrap(), [tile]);
            }
        });
    }
}

#[test]
fn variants_by_option_have_code_of_their_own() {
    let cache = CacheDir::new();
    let posed = driver().pose(Persona::Spark);
    let device = Device::cuda(0, cache.options()).unwrap();
    for tile in [64, 128, 64] {
        computes(&device, &variant(tile));
    }
    let wanted = [64, 128].map(|tile| {
        [
            format!("nvrtcCompileProgram sm_121a --std=c++17 -DTILE={tile}"),
            "cuModuleLoadData".to_owned(),
            "cuModuleGetFunction scale_f32".to_owned(),
        ]
    });
    assert_eq!(code_calls(&posed), wanted.concat());
    let kept: Vec<_> = cache
        .entries()
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect();
    assert_eq!(kept.len(), 2);
    assert_ne!(kept[0], kept[1], "the code differs");
    drop(device);
    posed.assert_clean();
}

/// Compiling one image keeps nobody from another: the first thread is held in the compiler's call
/// of the driver's loader while the second makes its kernel ready.
#[test]
fn an_image_that_is_being_loaded_keeps_no_other_waiting() {
    check(Persona::Spark, |posed, device| {
        device.kernel(&SCALE).unwrap();
        posed.hold("cuModuleLoadData");
        std::thread::scope(|scope| {
            let slow = scope.spawn(|| device.kernel(&variant(64)).map(drop));
            posed.await_held();
            device.kernel(&variant(128)).unwrap();
            device.kernel(&ACCUMULATE).unwrap();
            posed.let_go();
            slow.join().unwrap().unwrap();
        });
    });
}

#[test]
fn threads_that_ask_for_one_image_load_it_once() {
    check(Persona::Card, |posed, device| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| computes(device, &variant(64)));
            }
        });
        assert_eq!(posed.count("nvrtcCompileProgram"), 1);
        assert_eq!(posed.count("cuModuleLoadData"), 1);
    });
}

// --- code of the program's ------------------------------------------------------------------

/// Machine code as the stand-in has it: an ELF file without sections, and lines.
macro_rules! cubin {
    ($target:literal) => {
        concat!(
            "\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0",
            "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            "spark stand-in cubin\n",
            $target,
            "\n\nscale_f32 0\n\0"
        )
        .as_bytes()
    };
}

const PTX: &[u8] = b".version 7.8\n.target sm_80\n.visible .entry scale_f32()\n";

const fn with_images(images: &'static [Image]) -> KernelSource<Scale> {
    KernelSource::new("elementwise.cu", ELEMENTWISE, "scale_f32").with_images(images)
}

/// For every persona, with the family's before the chip's own, and what runs on none.
const CUBINS: KernelSource<Scale> = with_images(&[
    ("sm_120a", cubin!("sm_120a")),
    ("sm_120f", cubin!("sm_120f")),
    ("sm_121a", cubin!("sm_121a")),
    ("sm_90a", cubin!("sm_90a")),
    ("sm_80", cubin!("sm_80")),
    ("sm_87", cubin!("sm_87")),
    ("sm_89", cubin!("sm_89")),
]);

#[test]
fn cubins_of_the_program_need_no_compiler() {
    for persona in Persona::ALL {
        check(persona, |posed, device| {
            computes(device, &CUBINS);
            assert_eq!(posed.count("nvrtc"), 0, "{:?}", posed.calls());
            assert_eq!(posed.count("cuModuleLoadData"), 1);
        });
    }
}

/// Tegra runs its own machine code alone; a card of the same major version would run it.
#[test]
fn code_of_a_card_is_none_of_a_jetson() {
    let source =
        const { with_images(const { &[("sm_80", cubin!("sm_80")), ("sm_86", cubin!("sm_86"))] }) };
    for (persona, n_compiled) in [(Persona::Jetson, 1), (Persona::Ampere, 0)] {
        check(persona, |posed, device| {
            let log = logged::during(|| computes(device, &source));
            let in_vain = log.iter().any(|line| line.contains("does not load"));
            assert!(!in_vain, "{log:?}");
            assert_eq!(posed.count("nvrtcCompileProgram"), n_compiled);
        });
    }
}

#[test]
fn code_of_the_family_runs_where_there_is_none_of_the_chip() {
    check(Persona::Spark, |posed, device| {
        computes(
            device,
            &with_images(const { &[("sm_120f", cubin!("sm_120f"))] }),
        );
        assert_eq!(posed.count("nvrtc"), 0);
        // 12.0's own code does not run on 12.1: compiled.
        computes(
            device,
            &with_images(const { &[("sm_120a", cubin!("sm_120a"))] }),
        );
        assert_eq!(posed.count("nvrtcCompileProgram"), 1);
        assert_eq!(posed.count("cuModuleLoadData"), 2);
    });
}

#[test]
fn a_cubin_that_does_not_load_is_told_of_and_the_text_compiled() {
    check(Persona::Spark, |posed, device| {
        // Said to be for this chip, and made for another.
        let wrong = with_images(const { &[("sm_121a", cubin!("sm_90a"))] });
        let log = logged::during(|| computes(device, &wrong));
        assert!(
            log[0].contains("image for sm_121a") && log[0].contains("209"),
            "{log:?}"
        );
        assert_eq!(posed.count("nvrtcCompileProgram"), 1);
    });
}

#[test]
fn images_that_cannot_be_are_refused() {
    check(Persona::Spark, |_, device| {
        let bad: [(&str, &[u8]); 8] = [
            ("compute_80", cubin!("sm_80")),
            ("compute_80", b"\x50\xed\x55\xba\x01\0\0\0"),
            ("compute_80", b"scale_f32"),
            ("sm_121a", b"\x7fELF"),
            ("sm_121a", b"something else"),
            ("sm_121a", b""),
            ("gb10", cubin!("sm_121a")),
            ("", b""),
        ];
        for (target, bytes) in bad {
            let source = variant(64).with_image(target, bytes);
            match device.kernel(&source) {
                Err(MemError::BadImage {
                    file, target: got, ..
                }) => {
                    assert_eq!((file.as_str(), got.as_str()), ("elementwise.cu", target));
                }
                other => panic!("{target}: {other:?}"),
            }
        }
    });
}

/// Nobody's code stands in for another's: the same text with other images is another image.
#[test]
fn images_of_the_program_are_part_of_what_a_source_is() {
    check(Persona::Spark, |posed, device| {
        computes(device, &SCALE);
        computes(device, &CUBINS);
        assert_eq!(posed.count("cuModuleLoadData"), 2);
        let same = variant(64).with_image("sm_121a", cubin!("sm_121a").to_vec());
        computes(device, &same);
        computes(
            device,
            &variant(64).with_image("sm_121a", cubin!("sm_121a").to_vec()),
        );
        assert_eq!(posed.count("cuModuleLoadData"), 3);
    });
}

// --- compilers and drivers ------------------------------------------------------------------

#[test]
fn a_compiler_newer_than_the_driver_is_not_taken() {
    let posed = driver().pose(Persona::Card);
    posed.set_version(12_040);
    let device = device();
    computes(&device, &SCALE);
    assert_eq!(posed.count("nvrtcVersion 12"), 1, "{:?}", posed.calls());
    drop(device);
    posed.assert_clean();
}

#[test]
fn without_a_compiler_for_the_driver_it_is_said_why() {
    let posed = driver().pose(Persona::Card);
    posed.set_version(11_080);
    let device = device();
    match device.kernel(&SCALE) {
        Err(MemError::NoCompiler { why }) => {
            assert!(why.contains("NVRTC 13.0 is newer than the driver"), "{why}");
            assert!(why.contains("NVRTC 12.4 is newer"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(posed.count("nvrtcCompileProgram"), 0);
    drop(device);
    posed.assert_clean();
}

#[test]
fn kept_code_needs_no_compiler() {
    let cache = CacheDir::new();
    let posed = driver().pose(Persona::Card);
    let open = || Device::cuda(0, cache.options()).unwrap();
    computes(&open(), &SCALE);
    assert_eq!(posed.count("nvrtcCompileProgram"), 1);
    posed.set_version(11_080);
    computes(&open(), &SCALE);
    // With another compiler it is compiled again and replaced.
    posed.set_version(12_040);
    computes(&open(), &SCALE);
    assert_eq!(posed.count("nvrtcCompileProgram"), 2);
    assert_eq!(cache.entries().len(), 1);
    posed.assert_clean();
}

/// For both personas and for a GPU that is neither: what was compiled before them needs no compiler.
#[test]
fn kernels_are_precompiled_for_gpus_that_are_not_there() {
    let cache = CacheDir::new();
    let posed = driver().pose(Persona::Card);
    for (major, minor) in [(8, 0), (9, 0), (12, 1)] {
        let compute = ComputeCapability { major, minor };
        precompile(&SCALE, compute, &cache.0).unwrap();
        precompile(&ACCUMULATE, compute, &cache.0).unwrap(); // another entry of the same image
        precompile(&variant(64), compute, &cache.0).unwrap();
    }
    assert_eq!(cache.entries().len(), 3 * 2);
    drop(posed);
    for persona in [Persona::Spark, Persona::Card] {
        let posed = driver().pose(persona);
        let device = Device::cuda(0, cache.options()).unwrap();
        for source in [SCALE, variant(64)] {
            computes(&device, &source);
        }
        device.kernel(&ACCUMULATE).unwrap();
        assert_eq!(posed.count("nvrtcCompileProgram"), 0, "{persona:?}");
        assert_eq!(posed.count("cuModuleLoadData"), 2);
        computes(&device, &variant(128));
        assert_eq!(posed.count("nvrtcCompileProgram"), 1, "what was not");
        drop(device);
        posed.assert_clean();
    }
}

#[test]
fn what_cannot_be_precompiled_says_why() {
    let _posed = driver().pose(Persona::Card);
    let cache = CacheDir::new();
    let compute = ComputeCapability::GB10;
    let no_text: KernelSource<Scale> = KernelSource::new("elementwise.cu", "", "scale_f32");
    let refused = precompile(&no_text, compute, &cache.0);
    assert!(
        matches!(refused, Err(MemError::NoCompiler { .. })),
        "{refused:?}"
    );
    let wrong: KernelSource<Scale> = KernelSource::new("wrong.cu", "#error no\n", "scale_f32");
    let refused = precompile(&wrong, compute, &cache.0);
    assert!(
        matches!(refused, Err(MemError::Compile { .. })),
        "{refused:?}"
    );
    assert!(!cache.0.exists(), "nothing is kept");
    std::fs::write(&cache.0, "no directory").unwrap();
    let refused = precompile(&SCALE, compute, &cache.0);
    assert!(matches!(refused, Err(MemError::Io { .. })), "{refused:?}");
    std::fs::remove_file(&cache.0).unwrap();
}

#[test]
fn ptx_of_the_program_is_the_last_resort() {
    let with_ptx = with_images(&[("compute_80", PTX), ("compute_130", PTX)]);
    check(Persona::Card, |posed, device| {
        computes(device, &with_ptx);
        assert_eq!(
            posed.count("nvrtcCompileProgram sm_90a"),
            1,
            "a compiler is there"
        );
    });
    let posed = driver().pose(Persona::Card);
    posed.set_version(11_080);
    let log = logged::during(|| computes(&device(), &with_ptx));
    assert!(
        log[0].contains("by the driver from PTX for compute_80"),
        "{log:?}"
    );
    assert!(log[0].contains("newer than the driver"), "{log:?}");
    assert_eq!(posed.count("nvrtcCompileProgram"), 0);
    posed.assert_clean();
}

#[test]
fn a_gpu_newer_than_the_compiler_gets_its_ptx() {
    let posed = driver().pose(Persona::Spark);
    posed.fail_named("nvrtcVersion", 0, 1); // the newer compiler does not work
    let log = logged::during(|| computes(&device(), &SCALE));
    assert_eq!(posed.count("nvrtcCompileProgram compute_90"), 1);
    let told = log
        .iter()
        .any(|line| line.contains("NVRTC 12.4 does not know sm_121a"));
    assert!(told, "{log:?}");
    posed.assert_clean();
}

// --- entries --------------------------------------------------------------------------------

#[test]
fn an_entry_with_other_parameters_is_refused() {
    check(Persona::Spark, |_, device| {
        let fewer: KernelSource<(Write<f32>, Read<f32>, f32)> =
            KernelSource::new("elementwise.cu", ELEMENTWISE, "scale_f32");
        let more: KernelSource<More> =
            KernelSource::new("elementwise.cu", ELEMENTWISE, "scale_f32");
        let longer: KernelSource<(Write<f32>, Read<f32>, f64, u32)> =
            KernelSource::new("elementwise.cu", ELEMENTWISE, "scale_f32");
        let told = |result: Result<(), MemError>| match result {
            Err(MemError::ParameterMismatch { idx, got, want, .. }) => (idx, got, want),
            other => panic!("{other:?}"),
        };
        assert_eq!(told(device.kernel(&fewer).map(drop)), (3, Some(4), None));
        assert_eq!(told(device.kernel(&more).map(drop)), (4, None, Some(4)));
        assert_eq!(
            told(device.kernel(&longer).map(drop)),
            (2, Some(4), Some(8))
        );
    });
}

#[test]
fn ptx_of_the_program_is_what_runs() {
    check(Persona::Spark, |posed, device| {
        let text = include_str!("../kernels/scale_f32.ptx");
        let only_ptx = KernelSource::new("elementwise.cu", "", "scale_f32");
        let only_ptx: KernelSource<Scale> = only_ptx.with_image("compute_80", text.as_bytes());
        computes(device, &only_ptx);
        assert_eq!(posed.count("nvrtcCompileProgram"), 0);
    });
}

/// A load that fails for the moment, while another thread waits for it and a third asks later: what
/// kernels of an image have in common they have in common.
#[test]
fn an_image_is_loaded_once_also_beside_a_load_that_failed() {
    let posed = driver().pose(Persona::Card);
    let device = device();
    let ask = || device.kernel(&variant(64)).map(drop);
    posed.fail_named("cuModuleLoadData", 0, 2);
    posed.hold("cuModuleLoadData");
    std::thread::scope(|scope| {
        let failing = scope.spawn(ask);
        posed.await_held();
        let waiting = scope.spawn(ask);
        std::thread::sleep(std::time::Duration::from_millis(200));
        posed.let_go();
        let (failed, waited) = (failing.join().unwrap(), waiting.join().unwrap());
        assert!(failed.is_err() && waited.is_ok(), "{failed:?} {waited:?}");
    });
    let other_types = KernelSource::<(Write<i32>, Read<f32>, f32, u32)>::from_text(
        "elementwise.cu",
        ELEMENTWISE,
        "scale_f32",
    );
    device
        .kernel(&other_types.with_option("-DTILE=64"))
        .unwrap();
    ask().unwrap();
    assert_eq!(posed.live().modules, 1);
    drop(device);
    posed.assert_clean();
}
