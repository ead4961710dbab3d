//! One planted trap per check: the doctor names it, and is quiet without it.

use std::fs;

use spark_hal::doctor::{Facts, Report, Severity, Verdict, checks, examine_facts};
use spark_hal::{Machine, Sources};
use spark_testing::Age;

use crate::doctor_history::HISTORY;
use crate::posed::{pose, read_with};
use crate::recorded::{Tree, machine_file, machine_names};

/// A recorded machine whose drivers answer as recorded, with changes to all three.
pub(crate) struct Patient {
    pub(crate) tree: Tree,
    pub(crate) nvml: String,
    pub(crate) cuda: Option<String>,
    environment: Vec<(&'static str, &'static str)>,
}

fn recorded(machine: &str, file: &str) -> Option<String> {
    fs::read_to_string(machine_file(machine, file)).ok()
}

/// A finding of this severity, with evidence, a fix and these words.
#[track_caller]
pub(crate) fn has(report: &Report, id: &str, severity: Severity, words: &str) {
    let Some(Verdict::Found(finding)) = report.verdict(id) else {
        panic!("{id}: {:?}", report.verdict(id));
    };
    assert_eq!(finding.severity, severity, "{finding:?}");
    assert!(
        !finding.evidence.is_empty() && !finding.fix.is_empty(),
        "{finding:?}"
    );
    let text = format!("{finding:?}");
    assert!(text.contains(words), "{text}");
}

impl Patient {
    pub(crate) fn spark() -> Self {
        Self::of("nvidia-dgx-spark")
    }

    pub(crate) fn of(machine: &str) -> Self {
        Self {
            tree: Tree::of(machine),
            nvml: recorded(machine, "nvml.txt").unwrap_or_default(),
            cuda: recorded(machine, "cuda.txt"),
            environment: vec![("HOME", "/home/user"), ("VIRTUAL_ENV", "/home/user/venv")],
        }
    }

    pub(crate) fn with(self, entries: &str) -> Self {
        self.tree.add(entries);
        self
    }

    fn nvml(mut self, from: &str, to: &str) -> Self {
        assert!(self.nvml.contains(from), "{from}");
        self.nvml = self.nvml.replace(from, to);
        self
    }

    pub(crate) fn variable(mut self, name: &'static str, value: &'static str) -> Self {
        self.environment.push((name, value));
        self
    }

    pub(crate) fn examine(&self) -> Report {
        examine_facts(self.facts())
    }

    pub(crate) fn facts(&self) -> Facts {
        let posed = pose(Age::Current, &self.nvml);
        let machine = read_with(&self.tree, Some(&self.nvml), self.cuda.as_deref());
        let mut facts = Facts::of(self.tree.root(), machine);
        if let Ok(nvml) = &posed.nvml {
            facts.look(nvml);
        }
        let variables = self.environment.iter();
        facts.environment = variables
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        facts
    }

    #[track_caller]
    pub(crate) fn has(&self, id: &str, severity: Severity, words: &str) {
        has(&self.examine(), id, severity, words);
    }

    /// The thing was not looked at, and the reason has these words.
    #[track_caller]
    pub(crate) fn is_not_examined(&self, id: &str, words: &str) {
        let report = self.examine();
        let Some(Verdict::NotExamined(why)) = report.verdict(id) else {
            panic!("{id}: {:?}", report.verdict(id));
        };
        assert!(why.contains(words), "{why}");
        let line = format!("  {id}: {why}");
        assert!(report.to_text().contains(&line), "{}", report.to_text());
    }

    /// The check says nothing about this machine, and the reason has these words.
    #[track_caller]
    pub(crate) fn is_not_applicable(&self, id: &str, words: &str) {
        let report = self.examine();
        let Some(Verdict::NotApplicable(why)) = report.verdict(id) else {
            panic!("{id}: {:?}", report.verdict(id));
        };
        assert!(why.contains(words), "{why}");
    }

    /// With drivers that do not answer.
    pub(crate) fn silent(mut self) -> Self {
        "init = no_driver\n".clone_into(&mut self.nvml);
        self.cuda = None;
        self
    }

    /// Without a file or folder of the machine.
    pub(crate) fn without(self, path: &str) -> Self {
        self.tree.remove(path);
        self
    }

    #[track_caller]
    pub(crate) fn passes(&self, id: &str) {
        assert_eq!(self.examine().verdict(id), Some(&Verdict::Passed), "{id}");
    }
}

const CABLE: &str = "\
== /sys/class/net/enp1s0f0np0/carrier
1
== /sys/class/net/enP2p1s0f0np0/carrier
1
== /sys/class/net/enp1s0f0np0/mtu
9000
== /sys/class/net/enP2p1s0f0np0/mtu
9000
== /proc/net/route
Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask
enp1s0f0np0\t0064A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF
enP2p1s0f0np0\t0065A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF
== /proc/net/fib_trie
  |-- 192.168.100.7
     /32 host LOCAL
  |-- 192.168.101.7
     /32 host LOCAL
";

pub(crate) fn connected() -> Patient {
    Patient::spark().with(CABLE)
}

#[test]
fn platform_identity() {
    Patient::spark().passes("platform.identity");
    Patient::spark()
        .with("== /sys/class/dmi/id/product_family\nSomething Else\n")
        .has("platform.identity", Severity::Warning, "10de:2e12");
}

#[test]
fn platform_cppc() {
    let policy = |state: u8| {
        format!("== /sys/devices/system/cpu/cpufreq/policy{{0-19}}/auto_select\n{state}\n")
    };
    Patient::spark().with(&policy(1)).passes("platform.cppc");
    Patient::spark().with(&policy(0)).has(
        "platform.cppc",
        Severity::Warning,
        "policy0/auto_select",
    );
    Patient::spark()
        .with("== /sys/module/cppc_cpufreq/parameters/auto_sel_mode\nN\n")
        .has("platform.cppc", Severity::Warning, "auto_sel_mode");
    Patient::spark()
        .with("== /sys/module/cppc_cpufreq/parameters/auto_sel_mode\nperhaps\n")
        .is_not_examined("platform.cppc", "auto_select");
}

#[test]
fn driver_loaded() {
    Patient::spark().passes("driver.loaded");
    let mut patient = Patient::of("spark-with-nixos");
    patient.nvml = "init = no_driver\n".to_owned();
    patient.has("driver.loaded", Severity::Error, "10de:2e12");
}

#[test]
fn driver_branch() {
    Patient::spark().passes("driver.branch");
    let version = |number: &str| {
        format!(
            "== /proc/driver/nvidia/version\nNVRM version: NVIDIA UNIX Open Kernel Module for \
             aarch64  {number}  Release Build\n"
        )
    };
    let newer = Patient::spark().with(&version("590.48.01"));
    newer.has("driver.branch", Severity::Warning, "another branch");
    // An upgrade would never go back.
    newer.has(
        "driver.branch",
        Severity::Warning,
        "apt install nvidia-driver-580-open",
    );
    assert!(!newer.examine().to_text().contains("full-upgrade"));
    Patient::spark()
        .with(&version("550.90.07"))
        .has("driver.branch", Severity::Error, "550.90.07");
}

#[test]
fn driver_installed() {
    Patient::spark().passes("driver.installed");
    let patient = Patient::spark();
    patient
        .tree
        .remove("/usr/lib/aarch64-linux-gnu/libcuda.so.580.95.05");
    patient
        .with("== /usr/lib/aarch64-linux-gnu/libcuda.so.580.126.09\nELF\n")
        .has(
            "driver.installed",
            Severity::Error,
            "580.126.09 is installed",
        );
}

#[test]
fn driver_next_kernel() {
    let good = "== /lib/modules/6.14.0-1013-nvidia/modules.dep\n\
                kernel/nvidia-580-open/nvidia.ko: kernel/drivers/video/x.ko\n";
    Patient::spark().with(good).passes("driver.next-kernel");
    let next = "== /lib/modules/6.17.0-1021-nvidia/modules.dep\nkernel/fs/ext4/ext4.ko:\n";
    Patient::spark().with(good).with(next).has(
        "driver.next-kernel",
        Severity::Warning,
        "6.17.0-1021-nvidia",
    );
    // What an older kernel lacks concerns nobody who does not choose it.
    let older = "== /lib/modules/6.11.0-1016-nvidia/modules.dep\nkernel/fs/ext4/ext4.ko:\n";
    Patient::spark()
        .with(good)
        .with(older)
        .passes("driver.next-kernel");
    Patient::spark()
        .with(good)
        .without("/proc/sys/kernel/osrelease")
        .is_not_examined("driver.next-kernel", "osrelease");
}

#[test]
fn stack_versions() {
    Patient::spark().passes("stack.versions");
    Patient::spark()
        .with("== /usr/lib/aarch64-linux-gnu/libcusparseLt.so.0.7.1.0\nELF\n")
        .has("stack.versions", Severity::Warning, "libcusparseLt");
    Patient::spark()
        .with("== /usr/local/cuda/version.json\n{\"cuda\":{\"version\":\"12.6.3\"}}\n")
        .has("stack.versions", Severity::Warning, "12.6.3");
}

#[test]
fn stack_cuda12_programs() {
    Patient::spark().has("stack.cuda12-programs", Severity::Note, "libcudart.so.13");
    Patient::spark()
        .with("== /usr/local/cuda/targets/sbsa-linux/lib/libcudart.so.12.9.79\nELF\n")
        .passes("stack.cuda12-programs");
}

#[test]
fn profiler_unified_memory() {
    Patient::spark()
        .with("== /opt/nvidia/nsight-systems/2025.3/bin/nsys\nELF\n")
        .has("profiler.unified-memory", Severity::Note, "nsight");
}

#[test]
fn gpu_usable() {
    Patient::spark().passes("gpu.usable");
    Patient::of("plain-pc")
        .with("== /sys/bus/pci/devices/0000:00:00.0/vendor\n0x8086\n")
        .has("gpu.usable", Severity::Note, "work runs on the CPU");
    // Nothing is known of its buses.
    Patient::of("plain-pc").is_not_examined("gpu.usable", "/sys/bus/pci/devices");
    let mut hidden = Patient::spark();
    hidden.cuda = Some("version = 13000\n".to_owned());
    hidden.has("gpu.usable", Severity::Error, "no device for this process");
}

#[test]
fn gpu_low_power() {
    let busy = |clock: &str| {
        Patient::spark()
            .nvml("utilization = 0,0", "utilization = 99,0")
            .nvml("throttle = 0x1", "throttle = 0x0")
            .nvml("sm_clock = 208", &format!("sm_clock = {clock}"))
    };
    busy("611").has("gpu.low-power", Severity::Error, "611 MHz");
    busy("2411").passes("gpu.low-power");
    busy("611 | 2411").passes("gpu.low-power");
    // A cap that somebody set, and heat, hide what the clocks would be.
    busy("611")
        .nvml("throttle = 0x0", "throttle = 0x2")
        .is_not_examined("gpu.low-power", "nvidia-smi -rgc");
    busy("611")
        .nvml("temperature = 41", "temperature = 92")
        .is_not_examined("gpu.low-power", "gpu.hot");
    busy("not_supported").is_not_examined("gpu.low-power", "clock");
    // Nothing runs: neither a capped nor a healthy GPU can be told from the other.
    Patient::spark().is_not_examined("gpu.low-power", "0 % busy");
    Patient::spark()
        .nvml("throttle = 0x1", "throttle = 0x4")
        .is_not_examined("gpu.low-power", "at work");
    let mut silent = Patient::spark();
    silent.nvml = "init = no_driver\n".to_owned();
    silent.is_not_examined("gpu.low-power", "NVML");
}

#[test]
fn gpu_spinning() {
    let busy = |power: &str| {
        Patient::spark()
            .nvml("utilization = 0,0", "utilization = 96,0")
            .nvml("throttle = 0x1", "throttle = 0x0")
            .nvml("sm_clock = 208", "sm_clock = 2411")
            .nvml("power_mw = 4500", &format!("power_mw = {power}"))
    };
    busy("21000").has("gpu.spinning", Severity::Warning, "21000 mW");
    busy("74000").passes("gpu.spinning");
    busy("21000 | 74000").passes("gpu.spinning");
    busy("not_supported").is_not_examined("gpu.spinning", "power");
    Patient::spark().is_not_examined("gpu.spinning", "at work");
}

#[test]
fn gpu_hot() {
    Patient::spark().passes("gpu.hot");
    Patient::spark()
        .nvml("temperature = 41", "temperature = 88")
        .has("gpu.hot", Severity::Warning, "88 C");
    Patient::spark()
        .nvml("throttle = 0x1", "throttle = 0x40")
        .has("gpu.hot", Severity::Warning, "hardware_thermal");
    Patient::spark()
        .nvml("temperature = 41", "temperature = not_supported")
        .is_not_examined("gpu.hot", "temperature");
    Patient::spark()
        .nvml("temperature = 41", "handle = lost")
        .is_not_examined("gpu.hot", "temperature");
}

#[test]
fn gpu_direct_rdma() {
    Patient::spark().passes("gpu.direct-rdma");
    Patient::spark()
        .with("== /etc/modules-load.d/rdma.conf\n# for the cluster\nnvidia-peermem\n")
        .has(
            "gpu.direct-rdma",
            Severity::Warning,
            "/etc/modules-load.d/rdma.conf",
        );
}

#[test]
fn memory_reporting() {
    Patient::spark().has("memory.reporting", Severity::Note, "not supported");
    // A total that is not the GPU's is a finding, not a pass.
    Patient::spark()
        .nvml(
            "memory = not_supported",
            "memory = 8522825728,1048576,8521777152",
        )
        .has("memory.reporting", Severity::Note, "not the GPU's");
}

fn meminfo(free_kb: u64, available_kb: u64, more: &str) -> Patient {
    Patient::spark().with(&format!(
        "== /proc/meminfo\nMemTotal: 125513944 kB\nMemFree: {free_kb} kB\n\
         MemAvailable: {available_kb} kB\nSwapFree: 0 kB\n{more}"
    ))
}

#[test]
fn memory_page_cache() {
    meminfo(90_000_000, 100_000_000, "").passes("memory.page-cache");
    meminfo(2_000_000, 100_000_000, "").has("memory.page-cache", Severity::Warning, "93.5 GiB");
}

#[test]
fn memory_huge_pages() {
    let pages = "HugePages_Total: 4\nHugePages_Free: 4\nHugepagesize: 2048 kB\n";
    meminfo(90_000_000, 100_000_000, pages).has("memory.huge-pages", Severity::Warning, "95.4 GiB");
}

#[test]
fn memory_low() {
    Patient::spark().passes("memory.low");
    meminfo(1_000_000, 4_000_000, "").has("memory.low", Severity::Error, "3.8 GiB");
}

#[test]
fn memory_pressure() {
    let pressure = |full: &str| {
        Patient::spark().with(&format!(
            "== /proc/pressure/memory\nsome avg10=1.00 avg60=1.00 avg300=0.00 total=9\n\
             full avg10={full} avg300=0.00 total=9\n"
        ))
    };
    // The limit is the monitor's (`stalled`), of ten seconds or of a minute.
    for full in [
        "0.00 avg60=0.00",
        "0.00 avg60=0.11",
        "1.25 avg60=0.00",
        "9.99 avg60=9.99",
    ] {
        pressure(full).passes("memory.pressure");
    }
    pressure("10.00 avg60=0.00").has("memory.pressure", Severity::Error, "avg10=10");
    pressure("0.00 avg60=12.50").has("memory.pressure", Severity::Error, "avg60=12.5");
    pressure("45.00 avg60=0.00").has("memory.pressure", Severity::Error, "45");
    Patient::spark().is_not_examined("memory.pressure", "psi=1");
}

#[test]
fn network_port() {
    connected().passes("network.port");
    connected()
        .with("== /sys/class/net/enP2p1s0f0np0/carrier\n0\n")
        .has("network.port", Severity::Warning, "enP2p1s0f0np0/carrier");
    connected()
        .with("== /proc/net/fib_trie\n  |-- 192.168.100.7\n     /32 host LOCAL\n")
        // Every interface that is up has one of these.
        .with("== /proc/net/if_inet6\nfe800000000000000000000000000001 02 40 20 80 enP2p1s0f0np0\n")
        .has("network.port", Severity::Warning, "no address");
}

#[test]
fn network_mtu() {
    connected().passes("network.mtu");
    connected()
        .with("== /sys/class/net/enp1s0f0np0/mtu\n1500\n")
        .has("network.mtu", Severity::Note, "mtu 9000");
    connected()
        .without("/sys/class/net/enp1s0f0np0/mtu")
        .is_not_examined("network.mtu", "enp1s0f0np0/mtu");
}

#[test]
fn network_pcie() {
    Patient::spark().passes("network.pcie");
    Patient::spark()
        .with("== /sys/bus/pci/devices/0002:01:00.0/current_link_width\n2\n")
        .has("network.pcie", Severity::Warning, "0002:01:00.0");
    Patient::spark()
        .with("== /sys/bus/pci/devices/0002:01:00.0/current_link_width\nwide\n")
        .is_not_examined("network.pcie", "0002:01:00.0");
}

#[test]
fn network_memlock() {
    Patient::spark().passes("network.memlock");
    Patient::spark()
        .with("== /proc/self/limits\nMax locked memory         8388608              8388608              bytes\n")
        .has("network.memlock", Severity::Warning, "limits.conf");
    // The kernel enforces the soft limit.
    Patient::spark()
        .with("== /proc/self/limits\nMax locked memory         8388608              unlimited              bytes\n")
        .has("network.memlock", Severity::Warning, "any amount may be asked for");
}

#[test]
fn storage_nvme_link() {
    let drive = |width: u8| {
        format!(
            "== /sys/class/nvme/nvme0/device/current_link_width\n{width}\n\
             == /sys/class/nvme/nvme0/device/max_link_width\n4\n\
             == /sys/class/nvme/nvme0/device/current_link_speed\n16.0 GT/s PCIe\n\
             == /sys/class/nvme/nvme0/device/max_link_speed\n16.0 GT/s PCIe\n"
        )
    };
    Patient::spark().with(&drive(4)).passes("storage.nvme-link");
    Patient::spark()
        .with(&drive(2))
        .has("storage.nvme-link", Severity::Note, "2 of 4");
    Patient::spark()
        .with(&drive(4))
        .with("== /sys/class/nvme/nvme0/device/current_link_speed\nUnknown\n")
        .is_not_examined("storage.nvme-link", "current_link_speed");
    Patient::spark()
        .with(&drive(4))
        .without("/sys/class/nvme/nvme0/device/max_link_width")
        .is_not_examined("storage.nvme-link", "link_width");
}

/// Every check has its trap above or in a file beside: a new check without one fails here.
#[test]
fn every_check_has_a_planted_trap() {
    let source = [
        include_str!("doctor.rs"),
        include_str!("doctor_load.rs"),
        include_str!("doctor_python.rs"),
        include_str!("doctor_history.rs"),
        include_str!("doctor_known_bad.rs"),
        include_str!("doctor_container.rs"),
        include_str!("doctor_nccl.rs"),
    ]
    .concat();
    for check in checks() {
        let quoted = format!("\"{}\"", check.id);
        let is_planted = source.split(&quoted).skip(1).any(|after| {
            after
                .trim_start_matches([',', ' ', '\n'])
                .starts_with("Severity::")
        });
        assert!(is_planted, "{} has no trap in a test", check.id);
    }
}

fn passed(report: &Report) -> Vec<&'static str> {
    let passed = report.outcomes.iter();
    let passed = passed.filter(|outcome| outcome.verdict == Verdict::Passed);
    passed.map(|outcome| outcome.check.id).collect()
}

/// A machine of which nothing can be read: everything may be wrong with it.
#[test]
fn where_nothing_can_be_read_nothing_passes() {
    let patient = Patient {
        tree: Tree::empty(),
        nvml: "init = no_driver\n".to_owned(),
        cuda: None,
        environment: Vec::new(),
    };
    let report = patient.examine();
    assert_eq!(passed(&report), [""; 0], "{}", report.to_text());
    assert!(
        report.to_text().contains("0 checks passed"),
        "{}",
        report.to_text()
    );
}

#[test]
fn of_a_spark_that_tells_only_its_name_only_the_name_passes() {
    let patient = Patient {
        tree: Tree::empty(),
        nvml: "init = no_driver\n".to_owned(),
        cuda: None,
        environment: Vec::new(),
    };
    let patient = patient.with("== /sys/class/dmi/id/product_family\nDGX Spark\n");
    let report = patient.examine();
    assert_eq!(
        passed(&report),
        ["platform.identity"],
        "{}",
        report.to_text()
    );
}

/// The recorded machines were idle, and no log of their kernels was kept.
#[test]
fn no_recorded_machine_passes_what_was_not_looked_at() {
    let mut n_not_examined = 0;
    for machine in machine_names() {
        let patient = Patient::of(&machine);
        let report = patient.examine();
        for id in ["gpu.low-power", "gpu.spinning"].iter().chain(&HISTORY) {
            assert_ne!(
                report.verdict(id),
                Some(&Verdict::Passed),
                "{machine}: {id}"
            );
        }
        // Without drivers, a pass of these would be of something that nobody asked.
        let mut silent = Patient::of(&machine);
        silent.nvml = "init = no_driver\n".to_owned();
        silent.cuda = None;
        let report = silent.examine();
        for id in [
            "gpu.usable",
            "gpu.hot",
            "memory.reporting",
            "gpu.low-power",
            "gpu.spinning",
        ] {
            assert_ne!(
                report.verdict(id),
                Some(&Verdict::Passed),
                "{machine}: {id}"
            );
        }
        let counted = |wanted: fn(&Verdict) -> bool| {
            let outcomes = report.outcomes.iter();
            outcomes.filter(|outcome| wanted(&outcome.verdict)).count()
        };
        let n = counted(|verdict| matches!(verdict, Verdict::NotExamined(_)));
        assert!(
            report.to_text().contains(&format!(" {n} not examined")),
            "{machine}: {}",
            report.to_text()
        );
        n_not_examined += n;
    }
    assert!(n_not_examined > 0);
}

#[test]
fn a_healthy_spark_has_notes_only() {
    let report = Patient::spark().examine();
    assert!(
        report.worst() <= Some(Severity::Note),
        "{}",
        report.to_text()
    );
    assert!(
        report.to_text().lines().count() < 60,
        "{}",
        report.to_text()
    );
}

#[test]
fn other_machines_are_left_in_peace() {
    for machine in [
        "plain-pc",
        "container-without-dmi",
        "comma-three",
        "h100-server",
    ] {
        let report = Patient::of(machine).examine();
        let found: Vec<&str> = report.findings().map(|(check, _)| check.id).collect();
        assert!(found.is_empty(), "{machine}: {}", report.to_text());
    }
}

#[test]
fn no_identifier_of_the_machine_is_shown() {
    let mut shown = String::new();
    for machine in machine_names() {
        let patient = Patient::of(&machine);
        let report = patient.examine();
        shown += &report.to_text();
        shown += &report.to_json();
        let machine = Machine::read(&Sources::files(patient.tree.root()));
        shown += &machine.summary();
        for seen in &machine.platform.evidence {
            shown += &seen.to_string();
        }
    }
    assert!(!shown.contains("MUST-NOT-APPEAR"));
}

#[cfg(feature = "serde")]
#[test]
fn no_identifier_is_in_serialised_machines() {
    for name in machine_names() {
        let json = serde_json::to_string(&crate::posed::machine(&name)).unwrap();
        assert!(!json.contains("MUST-NOT-APPEAR"), "{name}: {json}");
    }
}

#[test]
fn the_report_is_valid_json() {
    let report = connected().with(crate::doctor_container::DOCKER).examine();
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("valid JSON");
    assert_eq!(json["schema"], "spark-doctor/2");
    let outcomes = json["checks"].as_array().unwrap();
    assert_eq!(outcomes.len(), checks().len());
    let known = ["passed", "not_examined", "not_applicable", "found"];
    for outcome in known {
        let n = outcomes
            .iter()
            .filter(|of| of["outcome"] == outcome)
            .count();
        assert_eq!(json["counts"][outcome], n, "{outcome}");
    }
    assert!(json["counts"]["not_examined"].as_u64() > Some(0), "idle");
    for outcome in outcomes {
        assert!(
            known.contains(&outcome["outcome"].as_str().unwrap()),
            "{outcome}"
        );
    }
}

#[test]
fn a_driver_that_hangs_costs_one_time_limit() {
    let mut patient = Patient::spark();
    patient.nvml = "init = hang\n".to_owned();
    let begin = std::time::Instant::now();
    let report = patient.examine();
    assert!(report.machine.contains("DGX Spark"));
    assert!(begin.elapsed() < std::time::Duration::from_secs(5));
}
