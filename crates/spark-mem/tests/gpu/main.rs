//! The conformance suite on the GPU of this machine, if there is one.
//!
//! `SPARK_REQUIRE_GPU=1` turns a skip into a failure. `cargo xtask gpu` makes a bundle of this
//! binary for a machine without cargo. It never loads the stand-in driver.

#![cfg(feature = "cuda")]
#![allow(unsafe_code, reason = "launching kernels")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

#[path = "../it/conformance/mod.rs"]
mod conformance;
#[path = "../it/kernels.rs"]
mod kernels;

use std::path::Path;

use conformance::for_each_case;
use spark_hal::{ComputeCapability, config};
use spark_mem::kernel::precompile;
use spark_mem::{Device, DeviceOptions, KernelSource, Parameters, Write};
use spark_testing::settings::{keep_kernels, require_gpu};

use kernels::{MANY, MATMUL, SCALE, SOFTMAX};

/// Runs a test on the first GPU, as a unified device where it is one and as a card.
#[track_caller]
fn with_gpu(name: &str, test: fn(&Device)) {
    let mut n_tested = 0;
    for use_unified_memory in [true, false] {
        let options = DeviceOptions::from_config(config())
            .with_unified_memory(use_unified_memory)
            // Tests of other threads would disturb a measurement, which is kept.
            .with_measured_memory(false);
        match Device::cuda(0, options) {
            Ok(device) => {
                test(&device);
                n_tested += 1;
            }
            Err(why) if require_gpu() => panic!("{name}: {why}"),
            Err(why) => println!("skipped: {name} needs a GPU ({why})"),
        }
    }
    assert!(n_tested == 2 || !require_gpu());
}

macro_rules! tests {
    ($($case:ident,)+) => {
        $(#[test]
        fn $case() {
            with_gpu(stringify!($case), conformance::$case);
        })+
    };
}
for_each_case!(tests);

/// The image of `mem-bench`, whichever of its entries.
const BANDWIDTH: KernelSource<(Write<f32>, f32, u32)> = KernelSource::new(
    "bandwidth.cu",
    include_str!("../../kernels/bandwidth.cu"),
    "write_f32",
);

/// What a bundle brings along, so that nothing is compiled where it runs.
#[test]
fn kernels_are_kept_for_other_machines() {
    let Some(folder) = keep_kernels() else {
        return;
    };
    fn keep<P: Parameters>(source: &KernelSource<P>, folder: &Path) {
        for (major, minor) in [(8, 0), (9, 0), (12, 0), (12, 1)] {
            precompile(source, ComputeCapability { major, minor }, folder).unwrap();
        }
    }
    keep(&SCALE, &folder);
    keep(&SOFTMAX, &folder);
    keep(&MATMUL, &folder);
    keep(&MANY, &folder);
    keep(&BANDWIDTH, &folder);
}
