//! Planted traps in Python packages, and hostile libraries.

use std::fs;

use spark_hal::doctor::Severity;

use crate::doctor::Patient;
use crate::recorded::Tree;

const SITE: &str = "/home/user/venv/lib/python3.12/site-packages";

fn torch(version: &str, cuda: &str) -> Patient {
    Patient::spark().with(&format!(
        "== {SITE}/torch/version.py\nfrom typing import Optional\n\
         __version__ = '{version}'\ndebug = False\ncuda: Optional[str] = {cuda}\n"
    ))
}

#[test]
fn python_torch_build() {
    torch("2.9.0+cu130", "'13.0'").passes("python.torch-build");
    torch("2.9.0+cpu", "None").has("python.torch-build", Severity::Error, "without CUDA");
    torch("2.5.1+cu121", "'12.1'").has("python.torch-build", Severity::Error, "CUDA 12.1");
}

#[test]
fn the_home_directory_is_not_named() {
    let report = torch("2.9.0+cpu", "None").examine().to_text();
    assert!(report.contains("~/venv/lib/python3.12"), "{report}");
    assert!(!report.contains("/home/user"), "{report}");
}

#[test]
fn python_torch_warning() {
    torch("2.9.0+cu130", "'13.0'").has("python.torch-warning", Severity::Note, "ignore");
}

#[test]
fn python_triton_ptxas() {
    let ptxas = |release: &str| {
        // The words stand across two chunks of a reader with one-megabyte chunks.
        let padding = "C".repeat((1 << 20) - 70);
        Patient::spark().with(&format!(
            "== {SITE}/triton/backends/nvidia/bin/ptxas\n{padding}Cuda compilation tools, \
             release {release}, V{release}.93\n"
        ))
    };
    ptxas("12.8").has("python.triton-ptxas", Severity::Error, "release 12.8");
    ptxas("13.0").passes("python.triton-ptxas");
    let other = || ptxas("12.8").variable("TRITON_PTXAS_PATH", "/opt/cuda/bin/ptxas");
    let chosen = |release: &str| {
        let words = format!("Cuda compilation tools, release {release}, V{release}.93");
        other().with(&format!("== /opt/cuda/bin/ptxas\n{words}\n"))
    };
    chosen("13.0").passes("python.triton-ptxas");
    chosen("12.6").has(
        "python.triton-ptxas",
        Severity::Error,
        "/opt/cuda/bin/ptxas",
    );
    other().is_not_examined("python.triton-ptxas", "/opt/cuda/bin/ptxas");

    // Triton 3.6 takes another one for these GPUs, and another variable's.
    let newer = |release: &str| {
        let words = format!("Cuda compilation tools, release {release}, V{release}.93");
        let path = format!("{SITE}/triton/backends/nvidia/bin/ptxas-blackwell");
        ptxas("12.8").with(&format!("== {path}\n{words}\n"))
    };
    newer("13.1").passes("python.triton-ptxas");
    newer("13.1")
        .variable("TRITON_PTXAS_PATH", "/opt/cuda/bin/ptxas")
        .passes("python.triton-ptxas");
    newer("12.8").has("python.triton-ptxas", Severity::Error, "ptxas-blackwell");
    newer("13.1")
        .variable("TRITON_PTXAS_BLACKWELL_PATH", "/opt/cuda/bin/ptxas")
        .with("== /opt/cuda/bin/ptxas\nCuda compilation tools, release 12.6, V12.6.93\n")
        .has(
            "python.triton-ptxas",
            Severity::Error,
            "/opt/cuda/bin/ptxas",
        );
}

/// An ELF file with one section of CUDA code: (kind, architecture, flags) per piece.
fn library(pieces: &[(u16, u32, u64)]) -> Vec<u8> {
    let mut container = Vec::new();
    for (kind, sm, flags) in pieces {
        let mut piece = vec![0; 64 + 8];
        piece[..2].copy_from_slice(&kind.to_le_bytes());
        piece[4..8].copy_from_slice(&64_u32.to_le_bytes());
        piece[8..16].copy_from_slice(&8_u64.to_le_bytes());
        piece[28..32].copy_from_slice(&sm.to_le_bytes());
        piece[40..48].copy_from_slice(&flags.to_le_bytes());
        container.extend(piece);
    }
    let names = b"\0.nv_fatbin\0";
    let code_at = 64 + 2 * 64 + 16;
    let mut file = vec![0; code_at];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    file[40..48].copy_from_slice(&64_u64.to_le_bytes());
    file[58..60].copy_from_slice(&64_u16.to_le_bytes());
    file[60..62].copy_from_slice(&2_u16.to_le_bytes());
    file[64 + 24..64 + 32].copy_from_slice(&192_u64.to_le_bytes());
    file[128..132].copy_from_slice(&1_u32.to_le_bytes());
    file[128 + 24..128 + 32].copy_from_slice(&(code_at as u64).to_le_bytes());
    file[128 + 32..128 + 40].copy_from_slice(&(container.len() as u64 + 16).to_le_bytes());
    file[192..192 + names.len()].copy_from_slice(names);
    file.extend(0xba55_ed50_u32.to_le_bytes());
    file.extend([1, 0, 16, 0]);
    file.extend((container.len() as u64).to_le_bytes());
    file.extend(container);
    file
}

#[test]
fn python_kernels() {
    let package = |pieces: &[(u16, u32, u64)]| {
        let patient = Patient::spark().with(&format!("== {SITE}/flash/_C.so\n\n"));
        fs::write(
            patient.tree.path(&format!("{SITE}/flash/_C.so")),
            library(pieces),
        )
        .unwrap();
        patient
    };
    let (plain, exact) = (0x11, 0x0110_0011);
    package(&[(2, 80, plain), (2, 90, exact), (2, 120, exact)]).has(
        "python.kernels",
        Severity::Error,
        "sm_80 sm_90a sm_120a",
    );
    package(&[(2, 80, plain), (2, 121, exact)]).passes("python.kernels");
    package(&[(2, 80, plain), (1, 90, plain)]).passes("python.kernels");
}

#[test]
fn hostile_libraries_are_passed_over() {
    let good = library(&[(2, 80, 0x11)]);
    let tree = Tree::empty();
    let place = tree.path("/x.so");
    let read = |bytes: &[u8]| {
        fs::write(&place, bytes).unwrap();
        spark_hal::stack::DeviceCode::of_file(&place)
    };
    for at in 0..good.len() {
        for value in [0x00, 0x7f, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            let _ = read(&bad);
        }
    }
    // The last 24 bytes are not looked at: the end of a header, and the code itself.
    for length in 0..good.len() - 24 {
        assert_eq!(read(&good[..length]), None, "{length} bytes");
    }
}

#[test]
fn python_ray() {
    let with_ray = || Patient::spark().with(&format!("== {SITE}/ray/__init__.py\n\n"));
    with_ray().has(
        "python.ray",
        Severity::Note,
        "RAY_memory_monitor_refresh_ms=0",
    );
    with_ray()
        .variable("RAY_memory_monitor_refresh_ms", "0")
        .passes("python.ray");
}
