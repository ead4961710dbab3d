//! A machine in words: what it is, by what evidence, and what it has for models.

use sparkpilot::hal::cpu::format_cpu_list;
use sparkpilot::hal::memory::{BudgetPolicy, Purpose};
use sparkpilot::hal::{Machine, Memory, Root};

/// What there is to say of a machine, in lines; of its memory now.
pub(crate) fn describe(root: &Root, machine: &Machine) -> String {
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
    lines.extend(
        platform
            .container
            .iter()
            .map(|it| format!("container  {}: {} = {}", it.kind, it.source, it.said)),
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
    lines.push(format!(
        "available  {}",
        memory.available_to_cpu_bytes().map(gibibytes)
    ));
    lines.push(format!(
        "budget     {}",
        budget.map(|budget| gibibytes(budget.bytes))
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

fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}
