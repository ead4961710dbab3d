//! Which machine is this, and how can one tell?
//!
//! Run: `cargo run --example detect`; with `-- --record` it writes down the machine's files
//! (no serial numbers, but paths of control groups) for a report or a test.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use std::process::ExitCode;

use clap::Parser;
use spark_program::Manners;
use sparkpilot::hal::cpu::format_cpu_list;
use sparkpilot::hal::memory::{BudgetPolicy, Purpose};
use sparkpilot::hal::{Memory, Root, machine};

/// Say which machine this is, by what evidence, and what it has for models
#[derive(Parser)]
#[command(
    name = "detect",
    after_help = "Examples:\n  \
        detect\n  \
        detect --record > machine.txt"
)]
struct Arguments {
    /// Write down the files that detection reads, for a report or a test; no serial numbers, but paths of control groups
    #[arg(long)]
    record: bool,
}

fn main() -> ExitCode {
    let manners = Manners {
        keeps_promise_of_cuda: false,
        ..Manners::default()
    };
    spark_program::run_with(manners, |arguments: Arguments| {
        if arguments.record {
            print!("{}", sparkpilot::hal::record(&Root::host()));
        } else {
            describe();
        }
        Ok(())
    })
}

fn describe() {
    let machine = machine();
    println!("{}", machine.summary());
    for seen in &machine.platform.evidence {
        println!("  because  {seen}");
    }
    for doubt in &machine.platform.doubts {
        println!("  but      {doubt}");
    }
    for (kind, cpus) in machine.cpu.kinds() {
        println!("cores      {kind}: CPUs {}", format_cpu_list(&cpus));
    }
    println!("threads    {}", machine.cpu.plan().n_threads);

    let memory = Memory::read(&Root::host());
    let available = memory.available_to_cpu_bytes();
    let budget = memory.budget(Purpose::Cpu, &BudgetPolicy::default());
    println!("available  {}", available.map(gibibytes));
    println!(
        "budget     {}",
        budget.map(|budget| gibibytes(budget.bytes))
    );

    for gpu in &machine.gpus {
        println!(
            "gpu        {}, compute capability {}",
            gpu.name, gpu.compute_capability
        );
        println!("  memory   {}", gpu.memory);
        println!(
            "  fastest  {}, recommended {}",
            gpu.fastest, gpu.recommended.precision
        );
        println!("  because  {}", gpu.recommended.reason);
    }
    println!("software   {}", machine.stack);
    for library in &machine.stack.libraries {
        println!("  {} {} in {}", library.name, library.version, library.path);
    }
    if let Some(why) = &machine.cuda_failure {
        println!("no CUDA    {why}");
    }
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}
