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

use conformance::for_each_case;
use spark_hal::config;
use spark_mem::{Device, DeviceOptions};
use spark_testing::settings::require_gpu;

/// Runs a test on the first GPU, as a unified device where it is one and as a card.
#[track_caller]
fn with_gpu(name: &str, test: fn(&Device)) {
    let mut n_tested = 0;
    for use_unified_memory in [true, false] {
        let options = DeviceOptions::from_config(config()).with_unified_memory(use_unified_memory);
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
