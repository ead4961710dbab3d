//! The machine a record belongs to, and the conditions it was measured under.
//!
//! ```text
//! slug = processor model, number of processors, GPU model if any
//!        intel-xeon-processor-fam6-mod207-2c      10x-cortex-x925-10x-cortex-a725-20c-nvidia-gb10
//! ```
//!
//! The host's name is left out: records of equal machines belong together, and a name is
//! nobody's business. Everything is read below a root folder, so that tests bring their own.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::options::Options;
use crate::command;
use crate::error::Error;
use crate::workspace::Workspace;

/// What is known of the machine; `None` where the system does not say.
#[derive(Debug, Default)]
pub(super) struct Machine {
    cpu_model: Option<String>,
    n_processors: usize,
    kernel: Option<String>,
    governor: Option<String>,
    load_average: Option<String>,
    memory: Option<String>,
    gpu_model: Option<String>,
    gpu_driver: Option<String>,
}

impl Machine {
    /// Reads `/proc` and `/sys` below `root`.
    pub(super) fn read(root: &Path) -> Self {
        let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
        let first_line =
            |path: &str| read(path).and_then(|text| text.lines().next().map(str::to_owned));
        let cpuinfo = read("proc/cpuinfo").unwrap_or_default();
        let meminfo = read("proc/meminfo").unwrap_or_default();
        Self {
            cpu_model: cpu_model(&cpuinfo),
            n_processors: values(&cpuinfo, "processor").count(),
            kernel: first_line("proc/sys/kernel/osrelease"),
            governor: first_line("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load_average: first_line("proc/loadavg").map(|line| load_average(&line)),
            memory: values(&meminfo, "MemTotal").next().map(str::to_owned),
            gpu_model: gpu_model(&root.join("proc/driver/nvidia/gpus")),
            gpu_driver: first_line("proc/driver/nvidia/version"),
        }
    }

    /// A sentence for a machine with other work on it: its figures will scatter.
    pub(super) fn warning(&self) -> Option<String> {
        let load: f64 = self
            .load_average
            .as_ref()?
            .split(' ')
            .next()?
            .parse()
            .ok()?;
        let is_busy = load > 0.5 * self.n_processors as f64;
        is_busy.then(|| format!("load average {load}: other work is running, figures will scatter"))
    }

    /// Model and size, for titles.
    pub(super) fn title(&self) -> String {
        let cpu = self.cpu_model.as_deref().unwrap_or("unknown processor");
        let gpu = self
            .gpu_model
            .as_deref()
            .map(|gpu| format!(", {gpu}"))
            .unwrap_or_default();
        format!("{cpu}, {} processors{gpu}", self.n_processors)
    }

    /// The name of the machine's folder.
    pub(super) fn slug(&self) -> String {
        let cpu = self.cpu_model.as_deref().unwrap_or("unknown");
        let gpu = self.gpu_model.as_deref().unwrap_or("");
        slug(&format!("{cpu} {}c {gpu}", self.n_processors))
    }

    /// The text beside a record: revision, compiler, machine, command.
    pub(super) fn conditions(
        &self,
        workspace: &Workspace,
        options: &Options,
    ) -> Result<String, Error> {
        let describe = ["describe", "--always", "--dirty", "--tags"];
        let revision = command::output_of(
            Command::new("git")
                .current_dir(&workspace.root)
                .args(describe),
        )?;
        let compiler = command::output_of(Command::new("rustc").arg("-vV"))?;
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        let mut text = String::new();
        let filter = options
            .filter
            .as_ref()
            .map(|filter| format!(" --filter {filter}"));
        let quick = if options.quick { " --quick" } else { "" };
        let command = format!("cargo xtask bench{}{quick}", filter.unwrap_or_default());
        let rows = [
            ("command", command),
            ("revision", revision.trim().to_owned()),
            ("processor", known(&self.cpu_model)),
            ("processors", self.n_processors.to_string()),
            ("memory", known(&self.memory)),
            ("kernel", known(&self.kernel)),
            ("governor", known(&self.governor)),
            ("load average before", known(&self.load_average)),
            (
                "gpu",
                self.gpu_model.clone().unwrap_or_else(|| "none".to_owned()),
            ),
            (
                "gpu driver",
                self.gpu_driver.clone().unwrap_or_else(|| "none".to_owned()),
            ),
        ];
        for (name, value) in rows {
            let _ = writeln!(text, "{name}: {value}");
        }
        let _ = write!(text, "\n{compiler}");
        Ok(text)
    }
}

/// The averages over 1, 5 and 15 minutes; the line goes on with process numbers.
fn load_average(line: &str) -> String {
    line.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// Values of `name : value` lines.
fn values<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(move |(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

/// x86: the model name, with family and model where the name is generic.
/// Arm: the core kinds with their counts, as the kernel gives no name.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    if let Some(name) = values(cpuinfo, "model name").next() {
        let family = values(cpuinfo, "cpu family").next().unwrap_or("?");
        let model = values(cpuinfo, "model").next().unwrap_or("?");
        let has_number = name.chars().any(|c| c.is_ascii_digit());
        return Some(if has_number {
            name.to_owned()
        } else {
            format!("{name} (family {family} model {model})")
        });
    }
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for part in values(cpuinfo, "CPU part") {
        match kinds.iter_mut().find(|(kind, _)| *kind == part) {
            Some((_, count)) => *count += 1,
            None => kinds.push((part, 1)),
        }
    }
    kinds.sort();
    let named: Vec<String> = kinds
        .iter()
        .map(|(part, count)| {
            let name = ARM_CORES.iter().find(|(number, _)| number == part);
            format!("{count}x {}", name.map_or(*part, |(_, name)| *name))
        })
        .collect();
    (!named.is_empty()).then(|| named.join(" "))
}

/// Part numbers of Arm's own cores in the machines this project is for.
const ARM_CORES: [(&str, &str); 4] = [
    ("0xd42", "Cortex-A78AE"),
    ("0xd4f", "Neoverse-V2"),
    ("0xd85", "Cortex-X925"),
    ("0xd87", "Cortex-A725"),
];

/// The first GPU that NVIDIA's kernel module lists.
fn gpu_model(gpus: &Path) -> Option<String> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(gpus)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    let text = std::fs::read_to_string(folders.first()?.join("information")).ok()?;
    let model = values(&text, "Model").next()?.to_owned();
    Some(if folders.len() > 1 {
        format!("{}x {model}", folders.len())
    } else {
        model
    })
}

/// Lower case, dashes, no brand marks: `Intel(R) Xeon(R) Gold 6248` -> `intel-xeon-gold-6248`.
fn slug(text: &str) -> String {
    let text = text.replace("(R)", " ").replace("(TM)", " ").to_lowercase();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pc_is_named_after_its_processor() {
        let cpuinfo = "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz\n\nprocessor\t: 1\n";
        let model = cpu_model(cpuinfo).unwrap();
        let machine = Machine {
            cpu_model: Some(model),
            n_processors: values(cpuinfo, "processor").count(),
            ..Machine::default()
        };
        assert_eq!(machine.slug(), "intel-xeon-gold-6248-cpu-2-50ghz-2c");
    }

    #[test]
    fn a_generic_name_gains_family_and_model() {
        let cpuinfo = "cpu family : 6\nmodel : 207\nmodel name : Intel(R) Xeon(R) Processor\n";
        let model = cpu_model(cpuinfo).unwrap();
        assert_eq!(slug(&model), "intel-xeon-processor-family-6-model-207");
    }

    #[test]
    fn a_spark_is_named_after_its_two_core_kinds() {
        let mut cpuinfo = String::new();
        for part in ["0xd87", "0xd85", "0xd87", "0xd85"] {
            cpuinfo.push_str(&format!("processor : 0\nCPU part : {part}\n"));
        }
        let machine = Machine {
            cpu_model: cpu_model(&cpuinfo),
            n_processors: 4,
            gpu_model: Some("NVIDIA GB10".to_owned()),
            ..Machine::default()
        };
        assert_eq!(
            machine.slug(),
            "2x-cortex-x925-2x-cortex-a725-4c-nvidia-gb10"
        );
    }

    #[test]
    fn a_busy_machine_is_warned_about() {
        let machine = |line: &str| Machine {
            load_average: Some(load_average(line)),
            n_processors: 2,
            ..Machine::default()
        };
        assert_eq!(machine("0.60 0.10 0.05 1/200 6211").warning(), None);
        let warning = machine("9.49 10.06 10.48 11/200 6211").warning().unwrap();
        assert!(warning.contains("9.49") && !warning.contains("6211"));
    }

    #[test]
    fn nothing_readable_is_unknown_and_no_error() {
        let machine = Machine::read(Path::new("does-not-exist"));
        assert_eq!(machine.slug(), "unknown-0c");
        assert_eq!(machine.gpu_model, None);
    }
}
