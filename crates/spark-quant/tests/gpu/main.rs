//! Block formats on the GPU of this machine, if there is one.
//!
//! `SPARK_REQUIRE_GPU=1` turns a skip into a failure. `cargo xtask gpu` makes a bundle of this
//! binary for a machine without cargo. It never loads the stand-in driver.

#![cfg(feature = "cuda")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

#[path = "../it/device_cases.rs"]
mod device_cases;
#[path = "../it/device_gemm_cases.rs"]
mod device_gemm_cases;
mod gemm_timed;

use spark_hal::config;
use spark_mem::kernel::ComputeCapability;
use spark_mem::{Device, DeviceOptions};
use spark_testing::settings::{keep_kernels, require_gpu};

/// Runs a test on the first GPU.
#[track_caller]
fn with_gpu(name: &str, test: fn(&Device)) {
    // Tests of other threads would disturb a measurement, which is kept.
    let options = DeviceOptions::from_config(config()).with_measured_memory(false);
    match Device::cuda(0, options) {
        Ok(device) => test(&device),
        Err(why) if require_gpu() => panic!("{name}: {why}"),
        Err(why) => println!("skipped: {name} needs a GPU ({why})"),
    }
}

#[test]
fn equals_the_host() {
    with_gpu("equals_the_host", device_cases::equals_the_host);
}

#[test]
fn whole_tiles_of_scales_equal_the_host() {
    with_gpu(
        "whole_tiles_of_scales_equal_the_host",
        device_cases::whole_tiles_of_scales_equal_the_host,
    );
}

#[test]
fn blocks_of_every_exponent_equal_the_host() {
    with_gpu(
        "blocks_of_every_exponent_equal_the_host",
        device_cases::blocks_of_every_exponent_equal_the_host,
    );
}

#[test]
fn blocks_that_are_not_finite_are_read_as_nan() {
    with_gpu(
        "blocks_that_are_not_finite_are_read_as_nan",
        device_cases::blocks_that_are_not_finite_are_read_as_nan,
    );
}

#[test]
fn extremes_equal_the_host() {
    with_gpu(
        "extremes_equal_the_host",
        device_cases::extremes_equal_the_host,
    );
}

#[test]
fn every_code_is_decoded() {
    with_gpu("every_code_is_decoded", device_cases::every_code_is_decoded);
}

#[test]
fn bad_input_is_refused() {
    with_gpu("bad_input_is_refused", device_cases::bad_input_is_refused);
}

#[test]
fn gemm_of_integers_is_exact() {
    with_gpu(
        "gemm_of_integers_is_exact",
        device_gemm_cases::integers_are_multiplied_exactly,
    );
}

#[test]
fn gemm_of_any_depth() {
    with_gpu(
        "gemm_of_any_depth",
        device_gemm_cases::any_depth_is_multiplied,
    );
}

#[test]
fn gemm_of_nan_is_nan() {
    with_gpu(
        "gemm_of_nan_is_nan",
        device_gemm_cases::nan_stays_where_it_is_seen,
    );
}

#[test]
fn gemm_of_other_values_is_close() {
    with_gpu(
        "gemm_of_other_values_is_close",
        device_gemm_cases::other_values_are_multiplied_closely,
    );
}

#[test]
fn gemm_operands_that_do_not_fit_are_refused() {
    with_gpu(
        "gemm_operands_that_do_not_fit_are_refused",
        device_gemm_cases::operands_that_do_not_fit_are_refused,
    );
}

#[test]
fn gemm_is_timed() {
    with_gpu("gemm_is_timed", gemm_timed::gemm_is_timed);
}

#[test]
fn gemm_with_tensor_scales_beyond_f32() {
    with_gpu(
        "gemm_with_tensor_scales_beyond_f32",
        device_gemm_cases::tensor_scales_overflow_only_with_the_result,
    );
}

/// What a bundle brings along, so that nothing is compiled where it runs.
#[test]
fn kernels_are_kept_for_other_machines() {
    let Some(folder) = keep_kernels() else {
        return;
    };
    for (major, minor) in [(8, 0), (9, 0), (12, 0), (12, 1)] {
        let compute = ComputeCapability { major, minor };
        spark_quant::device::precompile(compute, &folder).unwrap();
    }
}
