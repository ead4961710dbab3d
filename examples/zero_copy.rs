//! The CPU writes, the GPU computes, the CPU reads: the same memory, and not one copy.
//!
//! Run: `cargo run --release --features cuda --example zero_copy` on a machine whose GPU shares
//! its memory (DGX Spark). Without `--features cuda` or without such a GPU it runs on the CPU,
//! where the same holds; on a discrete card it says what was copied.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]
#![allow(unsafe_code, reason = "launches a kernel")]

#[path = "kernels/wave.rs"]
mod wave;

use std::error::Error;
use std::process::ExitCode;

use spark_program::{Devices, Manners};
use sparkpilot::mem::Device;

/// Share memory between CPU and GPU, and show that nothing is copied
#[derive(clap::Parser)]
#[command(
    name = "zero_copy",
    after_help = "Examples:\n  \
        zero_copy\n  \
        DEBUG=1 SPARK_DEVICE=cuda:0 zero_copy"
)]
struct Arguments {}

fn main() -> ExitCode {
    let manners = Manners {
        devices: Devices::AsOpened,
        ..Manners::default()
    };
    spark_program::run_with(manners, |_: Arguments| share())
}

fn share() -> Result<(), Box<dyn Error>> {
    let device = Device::open()?;
    let report = wave::run(&device)?;
    println!("device        {}", device.info().name);
    println!("memory        {}", device.shared_kind_choice());
    println!("host address  {:#x}", report.host_address);
    match report.device_address {
        Some(address) => println!("GPU address   {address:#x}"),
        None => println!("GPU address   none"),
    }
    println!("steps         {} in {:?}", wave::N_STEPS, report.duration);
    println!(
        "energy        {:.6}, at the start {:.6}",
        report.energy, report.energy_at_start
    );
    let stats = device.stats();
    println!("copies        {}", stats.copies());
    println!("guards        {} opened in place", stats.shared_accesses);
    if device.info().is_unified && stats.copies() != 0 {
        return Err("this should not be: memory is shared and something was copied".into());
    }
    Ok(())
}
