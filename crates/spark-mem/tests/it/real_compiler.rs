//! NVRTC itself, where there is one: `cargo xtask kernels` brings it from PyPI.
//!
//! The stand-in has the same name, so that this runs in a process that never loads it.

use spark_hal::ComputeCapability;
use spark_mem::kernel::{compile, precompile};
use spark_mem::{KernelSource, MemError, Parameters, Write};

use crate::cache::CacheDir;
use crate::children::check_child_of;
use crate::kernels::{ACCUMULATE, COUNT_ABOVE, MANY, MATMUL, MIRROR, SCALE, SOFTMAX, WEIGHTED};

#[test]
fn takes_every_kernel_and_refuses_what_is_wrong() {
    let said = check_child_of("real_compiler::child_compiles", &[]);
    for line in said.lines().filter(|line| line.contains("NVRTC")) {
        println!("{line}");
    }
}

#[track_caller]
fn check<P: Parameters>(source: &KernelSource<P>, compute: ComputeCapability) {
    let cubin = compile(source, compute).unwrap();
    assert_eq!(cubin[..4], *b"\x7fELF", "{source:?} for {compute}");
}

#[test]
fn child_compiles() {
    if !crate::children::is_child() {
        return;
    }
    let first = compile(&SCALE, ComputeCapability::GB10);
    if let Err(MemError::NoCompiler { why }) = &first {
        println!("skipped: no NVRTC ({why})");
        return;
    }
    let capabilities = [(8, 0), (8, 9), (9, 0), (12, 0), (12, 1)];
    for (major, minor) in capabilities {
        let compute = ComputeCapability { major, minor };
        check(&SCALE, compute);
        check(&ACCUMULATE, compute);
        check(&COUNT_ABOVE, compute);
        check(&SOFTMAX, compute);
        check(&MATMUL, compute);
        check(&MANY, compute);
        check(&WEIGHTED, compute);
        check(&MIRROR, compute);
    }
    let cache = CacheDir::new();
    for (major, minor) in [(8, 0), (9, 0), (12, 0), (12, 1)] {
        precompile(&SCALE, ComputeCapability { major, minor }, &cache.0).unwrap();
    }
    assert_eq!(cache.entries().len(), 4);
    for path in cache.entries() {
        // Magic, checksum and length; the compiler's line; the code.
        let kept = std::fs::read(&path).unwrap();
        let line_end = 48 + kept[48..].iter().position(|byte| *byte == b'\n').unwrap();
        assert!(kept[48..].starts_with(b"NVRTC "));
        assert_eq!(kept[line_end + 1..][..4], *b"\x7fELF");
    }
    let wrong: KernelSource<(Write<f32>,)> = KernelSource::new(
        "wrong.cu",
        "extern \"C\" __global__ void wrong(float* x) { *x = undeclared; }",
        "wrong",
    );
    match compile(&wrong, ComputeCapability::GB10) {
        Err(MemError::Compile { log, .. }) => {
            assert!(
                log.contains("wrong.cu(1)") && log.contains("undeclared"),
                "{log}"
            );
        }
        other => panic!("{other:?}"),
    }
    let future = ComputeCapability {
        major: 99,
        minor: 9,
    };
    assert!(matches!(
        compile(&SCALE, future),
        Err(MemError::Compile { .. })
    ));
    println!(
        "NVRTC compiled 8 kernels for {} architectures",
        capabilities.len()
    );
}
