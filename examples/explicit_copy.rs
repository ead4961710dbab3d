//! The program of `zero_copy` on a device with memory of its own: the guards copy, every copy
//! is counted, and a warning says so once per device.
//!
//! Run: `cargo run --release --features cuda --example explicit_copy`. A GPU that shares the
//! machine's memory is used as if it did not; without a GPU, a card is emulated in host memory.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]
#![allow(unsafe_code, reason = "launches a kernel")]

#[path = "kernels/wave.rs"]
mod wave;

use std::error::Error;
use std::process::ExitCode;

use spark_program::{Devices, Manners};
use sparkpilot::mem::{Device, DeviceKind, DeviceOptions};

/// Copy between the host and a device with memory of its own, and count the copies
#[derive(clap::Parser)]
#[command(
    name = "explicit_copy",
    after_help = "Example:\n  \
        explicit_copy"
)]
struct Arguments {}

fn main() -> ExitCode {
    let manners = Manners {
        devices: Devices::AsOpened,
        ..Manners::default()
    };
    spark_program::run_with(manners, |_: Arguments| copy())
}

fn copy() -> Result<(), Box<dyn Error>> {
    let options = DeviceOptions::default().with_unified_memory(false);
    let mut device = Device::open_with(options)?;
    if device.info().kind == DeviceKind::Host {
        println!("emulated      a card, as no GPU is used here (DEBUG=1 says why)");
        device = Device::emulated(1 << 30);
    }
    let report = wave::run(&device)?;
    println!("device        {}", device.info().name);
    println!("memory        {:?}", device.shared_kind());
    println!("host address  {:#x}", report.host_address);
    println!("its address   {:#x}", report.device_address.unwrap_or(0));
    println!("steps         {} in {:?}", wave::N_STEPS, report.duration);
    println!(
        "energy        {:.6}, at the start {:.6}",
        report.energy, report.energy_at_start
    );
    let stats = device.stats();
    let (up, down) = (stats.host_to_device, stats.device_to_host);
    println!("to device     {} copies, {} bytes", up.count, up.bytes);
    println!("to host       {} copies, {} bytes", down.count, down.bytes);
    Ok(())
}
