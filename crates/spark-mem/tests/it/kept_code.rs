//! Code in the cache folder: it is run for what it was made of, or not at all.

use sha2::{Digest as _, Sha256};
use spark_hal::ComputeCapability;
use spark_mem::kernel::precompile;
use spark_mem::{Device, KernelSource, LaunchShape, MemError, Write};
use spark_testing::driver::Persona;

use crate::cache::CacheDir;
use crate::kernels::SCALE;
use crate::logged;
use crate::stand_in::{check, driver};

type OneNumber = (Write<u32>,);

fn text(body: &str) -> String {
    format!("extern \"C\" __global__ void give(unsigned* out) {{ *out = {body}; }}")
}

fn given(device: &Device, source: &KernelSource<OneNumber>) -> u32 {
    let stream = device.new_stream().unwrap();
    let kernel = device.kernel(source).unwrap();
    let mut out = device.shared::<u32>(1).unwrap();
    let shape = LaunchShape::for_elements(1, 1).unwrap();
    // SAFETY: the kernel writes the one element.
    unsafe { kernel.launch(&stream, shape, (out.view_mut(),)) }.unwrap();
    out.read(&stream).unwrap()[0]
}

/// A file of the cache as it would be written, whatever the code.
fn sealed(name: &str, code: &[u8]) -> Vec<u8> {
    let digest = Sha256::new()
        .chain_update(name)
        .chain_update(code)
        .finalize();
    let length = (code.len() as u64).to_le_bytes();
    [b"SPARKCU2", &digest[..], &length, code].concat()
}

/// A folder that was put together from several, by somebody who renamed what stood in the way.
#[test]
fn code_kept_under_another_kernels_name_is_not_run() {
    if !driver().runs_ptx() {
        return;
    }
    let cache = CacheDir::new();
    let sources = ["1", "2"].map(|body| -> KernelSource<OneNumber> {
        KernelSource::from_text("give.cu", text(body), "give")
    });
    let posed = driver().pose(Persona::Spark);
    let compiled = |posed: &spark_testing::driver::Posed<'_>| posed.count("nvrtcCompileProgram");
    let device = Device::cuda(0, cache.options()).unwrap();
    device.kernel(&sources[0]).unwrap();
    let [first] = &cache.entries()[..] else {
        panic!("one is kept");
    };
    device.kernel(&sources[1]).unwrap();
    let second = cache.entries().into_iter().find(|path| path != first);
    let second = second.expect("two are kept");
    drop(device);
    std::fs::copy(first, &second).unwrap();

    let device = Device::cuda(0, cache.options()).unwrap();
    let before = compiled(&posed);
    let log = logged::during(|| {
        device.kernel(&sources[1]).unwrap();
        assert_eq!(given(&device, &sources[1]), 2);
    });
    assert_eq!(compiled(&posed), before + 1);
    assert!(
        log.iter().any(|line| line.contains("another kernel's")),
        "{log:?}"
    );
    drop(device);
    posed.assert_clean();
}

/// Its checksum is right, so it is what was kept; what was kept is nothing that a driver may be given.
#[test]
fn kept_code_that_is_no_machine_code_is_compiled_again() {
    let cache = CacheDir::new();
    let posed = driver().pose(Persona::Spark);
    let device = Device::cuda(0, cache.options()).unwrap();
    device.kernel(&SCALE).unwrap();
    drop(device);
    let [path] = &cache.entries()[..] else {
        panic!("one is kept");
    };
    let whole = std::fs::read(path).unwrap();
    let name = path.file_stem().unwrap().to_str().unwrap();
    assert_eq!(sealed(name, &whole[48..]), whole, "as it is written");
    let line_end = whole.iter().skip(48).position(|byte| *byte == b'\n');
    let line = &whole[48..48 + line_end.unwrap() + 1];
    for code in [&b""[..], b"\x7fELF", b"// PTX of somebody's", &[0; 4096]] {
        std::fs::write(path, sealed(name, &[line, code].concat())).unwrap();
        let device = Device::cuda(0, cache.options()).unwrap();
        let before = posed.count("nvrtcCompileProgram");
        device.kernel(&SCALE).unwrap();
        assert_eq!(posed.count("nvrtcCompileProgram"), before + 1);
        drop(device);
        assert_eq!(std::fs::read(path).unwrap(), whole, "kept anew");
    }
    posed.assert_clean();
}

/// A file of the machine decides what the kernel does, and the next process finds it changed.
#[test]
fn code_that_hangs_on_files_of_the_machine_is_not_kept() {
    if !driver().runs_ptx() {
        return;
    }
    let cache = CacheDir::new();
    let headers = CacheDir::new();
    std::fs::create_dir_all(&headers.0).unwrap();
    let source: KernelSource<OneNumber> = KernelSource::from_text(
        "give.cu",
        format!("#include \"number.cuh\"\n{}", text("NUMBER")),
        "give",
    )
    .with_option(format!("-I{}", headers.0.display()));
    let posed = driver().pose(Persona::Spark);
    for number in [1, 2] {
        let define = format!("#define NUMBER {number}\n");
        std::fs::write(headers.0.join("number.cuh"), define).unwrap();
        let device = Device::cuda(0, cache.options()).unwrap();
        let log = logged::during(|| {
            device.kernel(&source).unwrap();
            assert_eq!(given(&device, &source), number);
        });
        assert!(
            log[0].contains("WARN") && log[0].contains("is not kept"),
            "{log:?}"
        );
        assert!(!cache.0.exists(), "nothing is kept");
        assert_eq!(posed.count("nvrtcCompileProgram"), number as usize);
    }
    let refused = precompile(&source, ComputeCapability::GB10, &cache.0);
    assert!(
        matches!(refused, Err(MemError::Unsupported { .. })),
        "{refused:?}"
    );
    posed.assert_clean();
}

/// Words of comments and literals are no directives.
#[test]
fn code_that_only_speaks_of_other_files_is_kept() {
    let posed = driver().pose(Persona::Spark);
    for front in [
        "__device__ void say() { printf(\"ERROR\"); }",
        "// which half?? the first",
        "// 5 % of the tiles include padding",
        "#define N 4 // tiles that include padding",
    ] {
        let cache = CacheDir::new();
        let text = format!("{front}\n{}", text("5"));
        let source: KernelSource<OneNumber> = KernelSource::from_text("give.cu", text, "give");
        precompile(&source, ComputeCapability::GB10, &cache.0)
            .unwrap_or_else(|error| panic!("{front}: {error}"));
        assert_eq!(cache.entries().len(), 1, "{front}");
    }
    posed.assert_clean();
}

#[test]
fn texts_that_no_compiler_could_be_given_are_named() {
    let log_of = |source: KernelSource<OneNumber>, device: &Device| match device.kernel(&source) {
        Err(MemError::Compile { log, .. }) => log,
        other => panic!("{other:?}"),
    };
    check(Persona::Spark, |_, device| {
        let source = || KernelSource::from_text("give.cu", text("1"), "give");
        let twice = source()
            .with_header("a.cuh", "// 1")
            .with_header("a.cuh", "// 2");
        assert!(log_of(twice, device).contains("header `a.cuh` is given twice"));
        let ours = source().with_header("spark_warp.cuh", "// mine");
        assert!(log_of(ours, device).contains("header `spark_warp.cuh` is given twice"));
        let cut = KernelSource::from_text("give.cu", text("1") + "\0 more", "give");
        assert!(log_of(cut, device).contains("the source has a NUL character at byte"));
        for own in [
            "--gpu-architecture=sm_100a",
            "-arch=compute_75",
            "-rdc=true",
            "-dlto",
        ] {
            let log = log_of(source().with_option(own), device);
            assert!(
                log.contains(own) && log.contains("not the program's"),
                "{log}"
            );
        }
        let option = log_of(source().with_option("-DA=\0"), device);
        assert!(option.contains("NUL character at byte 4"), "{option}");
    });
}

/// Where nothing can be compiled, the driver's reason is all there is to say.
#[test]
fn an_image_that_is_refused_and_has_no_text_says_the_drivers_reason() {
    check(Persona::Spark, |_, device| {
        let broken = KernelSource::<OneNumber>::new("give.cu", "", "give")
            .with_image("compute_90", &b".version 99.0\n.target sm_9\nno PTX\n"[..]);
        match device.kernel(&broken) {
            Err(MemError::NoCompiler { why }) => {
                let told = why.contains("there is no text of `give.cu`")
                    && why.contains("image for compute_90")
                    && why.contains("cuModuleLoadData");
                assert!(told, "{why}");
            }
            other => panic!("{other:?}"),
        }
    });
}
