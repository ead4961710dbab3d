//! `sparkpilot info`: which machine this is, by what evidence, and what it has for models.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use spark_program::{output, place};
use sparkpilot::hal::cpu::format_cpu_list;
use sparkpilot::hal::memory::{BudgetPolicy, Purpose};
use sparkpilot::hal::{Machine, Memory, Root, machine};

use crate::recorded_machine::RecordedMachine;
use crate::tables;

/// Say which machine this is, by what evidence, and what it has for models
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot info\n  \
    sparkpilot info --json > machine.json\n  \
    sparkpilot info --record machine.txt\n  \
    sparkpilot info --from machine.txt")]
pub(crate) struct Arguments {
    /// Print everything that is known of it as JSON (schema sparkpilot-info/1)
    #[arg(long)]
    json: bool,
    /// Say it of a machine that somebody has recorded; what drivers say is in no record
    #[arg(long, value_name = "RECORD", conflicts_with = "record")]
    from: Option<PathBuf>,
    /// Write down the files that detection reads, for a report or a test, here or with `-` to stdout; no serial numbers,
    /// but paths of control groups
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    record: Option<PathBuf>,
}

/// Prints what the machine is, or writes down what it is known by.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(path) = &arguments.record {
        let to_stdout = path.as_os_str() == "-";
        if !to_stdout {
            place::file(path)?;
        }
        let record = sparkpilot::hal::record(&Root::host());
        match to_stdout {
            true => print!("{record}"),
            false => output::write(path, record)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let recorded = arguments
        .from
        .as_deref()
        .map(RecordedMachine::read)
        .transpose()?;
    let (root, machine) = match &recorded {
        Some(recorded) => (&recorded.root, &recorded.machine),
        None => (&Root::host(), machine()),
    };
    if arguments.json {
        let told = json!({ "schema": "sparkpilot-info/1", "machine": machine });
        println!("{told:#}");
    } else {
        print!("{}", describe(root, machine));
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(root: &Root, machine: &Machine) -> String {
    let mut lines = vec![machine.summary()];
    let platform = &machine.platform;
    lines.extend(
        platform
            .evidence
            .iter()
            .map(|seen| format!("  because  {seen}")),
    );
    lines.extend(
        platform
            .doubts
            .iter()
            .map(|doubt| format!("  but      {doubt}")),
    );
    for (kind, cpus) in machine.cpu.kinds() {
        lines.push(format!(
            "cores      {kind}: CPUs {}",
            format_cpu_list(&cpus)
        ));
    }
    lines.push(format!("threads    {}", machine.cpu.plan().n_threads));

    let memory = Memory::read(root);
    let budget = memory.budget(Purpose::Cpu, &BudgetPolicy::default());
    let bytes = |n: u64| tables::bytes(usize::try_from(n).unwrap_or(usize::MAX));
    lines.push(format!(
        "available  {}",
        memory.available_to_cpu_bytes().map(bytes)
    ));
    lines.push(format!(
        "budget     {}",
        budget.map(|budget| bytes(budget.bytes))
    ));

    for gpu in &machine.gpus {
        let (fastest, recommended) = (&gpu.fastest, &gpu.recommended);
        lines.push(format!(
            "gpu        {}, compute capability {}",
            gpu.name, gpu.compute_capability
        ));
        lines.push(format!("  memory   {}", gpu.memory));
        lines.push(format!(
            "  fastest  {fastest}, recommended {}",
            recommended.precision
        ));
        lines.push(format!("  because  {}", recommended.reason));
    }
    lines.push(format!("software   {}", machine.stack));
    let libraries = machine.stack.libraries.iter();
    lines.extend(libraries.map(|it| format!("  {} {} in {}", it.name, it.version, it.path)));
    lines.extend(
        machine
            .cuda_failure
            .iter()
            .map(|why| format!("no CUDA    {why}")),
    );
    lines.push(String::new());
    lines.join("\n")
}
