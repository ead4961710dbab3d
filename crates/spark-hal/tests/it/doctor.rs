//! One planted trap per check: the doctor names it, and is quiet without it.

use std::fs;

use spark_hal::doctor::{Facts, Report, Severity, Verdict, checks, examine_facts};
use spark_hal::{Machine, Sources};
use spark_testing::Age;

use crate::posed::{pose, read_with};
use crate::recorded::{Tree, machine_file, machine_names};

/// A recorded machine whose drivers answer as recorded, with changes to all three.
struct Patient {
    tree: Tree,
    nvml: String,
    cuda: Option<String>,
    environment: Vec<(&'static str, &'static str)>,
}

fn recorded(machine: &str, file: &str) -> Option<String> {
    fs::read_to_string(machine_file(machine, file)).ok()
}

impl Patient {
    fn spark() -> Self {
        Self::of("nvidia-dgx-spark")
    }

    fn of(machine: &str) -> Self {
        Self {
            tree: Tree::of(machine),
            nvml: recorded(machine, "nvml.txt").unwrap_or_default(),
            cuda: recorded(machine, "cuda.txt"),
            environment: vec![("HOME", "/home/user"), ("VIRTUAL_ENV", "/home/user/venv")],
        }
    }

    fn with(self, entries: &str) -> Self {
        self.tree.add(entries);
        self
    }

    fn nvml(mut self, from: &str, to: &str) -> Self {
        assert!(self.nvml.contains(from), "{from}");
        self.nvml = self.nvml.replace(from, to);
        self
    }

    fn variable(mut self, name: &'static str, value: &'static str) -> Self {
        self.environment.push((name, value));
        self
    }

    fn examine(&self) -> Report {
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
        examine_facts(facts)
    }

    #[track_caller]
    fn has(&self, id: &str, severity: Severity, words: &str) {
        let report = self.examine();
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

    #[track_caller]
    fn passes(&self, id: &str) {
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

fn connected() -> Patient {
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
fn platform_kernel() {
    Patient::spark().passes("platform.kernel");
    Patient::spark()
        .with("== /proc/sys/kernel/osrelease\n7.0.0-1019-nvidia\n")
        .has("platform.kernel", Severity::Warning, "7.0.0-1019");
}

#[test]
fn platform_cma() {
    Patient::spark().passes("platform.cma");
    let text =
        "MemTotal: 125513944 kB\nMemAvailable: 118000000 kB\nCmaTotal: 0 kB\nCmaFree: 9 kB\n";
    Patient::spark()
        .with(&format!("== /proc/meminfo\n{text}"))
        .has("platform.cma", Severity::Warning, "CmaFree");
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
    Patient::spark().with(&version("590.48.01")).has(
        "driver.branch",
        Severity::Warning,
        "another branch",
    );
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
    Patient::of("plain-pc").has("gpu.usable", Severity::Note, "work runs on the CPU");
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
    // A cap that somebody set, and heat, have their own explanations.
    busy("611")
        .nvml("throttle = 0x0", "throttle = 0x2")
        .passes("gpu.low-power");
    busy("611")
        .nvml("temperature = 41", "temperature = 92")
        .passes("gpu.low-power");
    Patient::spark().passes("gpu.low-power");
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
             full avg10={full} avg60=0.00 avg300=0.00 total=9\n"
        ))
    };
    pressure("0.00").passes("memory.pressure");
    pressure("1.25").has("memory.pressure", Severity::Warning, "avg10=1.25");
    pressure("45.00").has("memory.pressure", Severity::Error, "45");
}

#[test]
fn memory_kernel_log() {
    let line = "2026-03-01T10:00:00 spark-1234 kernel: NVRM: nvAssertOkFailedNoLog: Assertion \
                failed: Out of memory [NV_ERR_NO_MEMORY] (0x51) from _memdescAllocInternal @ \
                mem_desc.c:1359\n";
    let quiet = format!(
        "== /var/log/kern.log\n{}",
        "nothing to see\n".repeat(200_000)
    );
    Patient::spark().with(&quiet).passes("memory.kernel-log");
    let report = Patient::spark().with(&format!("{quiet}{line}"));
    report.has("memory.kernel-log", Severity::Error, "NV_ERR_NO_MEMORY");
    assert!(
        !report.examine().to_text().contains("spark-1234"),
        "host names are left out"
    );
}

#[test]
fn network_port() {
    connected().passes("network.port");
    connected()
        .with("== /sys/class/net/enP2p1s0f0np0/carrier\n0\n")
        .has("network.port", Severity::Warning, "enP2p1s0f0np0/carrier");
    connected()
        .with("== /proc/net/fib_trie\n  |-- 192.168.100.7\n     /32 host LOCAL\n")
        .has("network.port", Severity::Warning, "no address");
}

#[test]
fn network_mtu() {
    connected().passes("network.mtu");
    connected()
        .with("== /sys/class/net/enp1s0f0np0/mtu\n1500\n")
        .has("network.mtu", Severity::Note, "mtu 9000");
}

#[test]
fn network_pcie() {
    Patient::spark().passes("network.pcie");
    Patient::spark()
        .with("== /sys/bus/pci/devices/0002:01:00.0/current_link_width\n2\n")
        .has("network.pcie", Severity::Warning, "0002:01:00.0");
}

#[test]
fn network_nccl() {
    connected().has(
        "network.nccl",
        Severity::Note,
        "NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0",
    );
    connected()
        .variable("NCCL_IB_HCA", "rocep1s0f0,roceP2p1s0f0")
        .passes("network.nccl");
    connected()
        .variable("NCCL_IB_HCA", "rocep1s0f0")
        .has("network.nccl", Severity::Note, "both");
}

#[test]
fn network_memlock() {
    Patient::spark().passes("network.memlock");
    Patient::spark()
        .with("== /proc/self/limits\nMax locked memory         8388608              8388608              bytes\n")
        .has("network.memlock", Severity::Warning, "limits.conf");
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
}

#[test]
fn container_gpu() {
    let mut without = Patient::of("spark-docker-container");
    Patient::of("spark-docker-container").passes("container.gpu");
    without.nvml = "init = no_driver\n".to_owned();
    without.cuda = None;
    without.has("container.gpu", Severity::Error, "--gpus all");
}

const DOCKER: &str = "== /usr/bin/docker\nELF\n== /etc/group\nroot:x:0:\ndocker:x:998:other\n\
    == /proc/self/status\nUid:\t1000\t1000\t1000\t1000\nGroups:\t4 24 1000 \n";

#[test]
fn container_toolkit() {
    Patient::spark()
        .with(DOCKER)
        .has("container.toolkit", Severity::Warning, "nvidia-ctk");
    Patient::spark()
        .with(DOCKER)
        .with("== /usr/bin/nvidia-ctk\nELF\n")
        .passes("container.toolkit");
}

#[test]
fn container_docker_group() {
    Patient::spark()
        .with(DOCKER)
        .has("container.docker-group", Severity::Note, "998");
    let member = DOCKER.replace("Groups:\t4", "Groups:\t998 4");
    Patient::spark()
        .with(&member)
        .passes("container.docker-group");
}

const SITE: &str = "/home/user/venv/lib/python3.12/site-packages";

fn torch(version: &str, cuda: &str) -> Patient {
    Patient::spark().with(&format!(
        "== {SITE}/torch/version.py\nfrom typing import Optional\n\
         __version__ = '{version}'\ndebug = False\ncuda: Optional[str] = {cuda}\n"
    ))
}

#[test]
fn python_torch_build() {
    torch("2.9.0+cu130", "'13.0'").passes("python.torch-build");
    torch("2.9.0+cpu", "None").has("python.torch-build", Severity::Error, "without CUDA");
    torch("2.5.1+cu121", "'12.1'").has("python.torch-build", Severity::Error, "CUDA 12.1");
}

#[test]
fn the_home_directory_is_not_named() {
    let report = torch("2.9.0+cpu", "None").examine().to_text();
    assert!(report.contains("~/venv/lib/python3.12"), "{report}");
    assert!(!report.contains("/home/user"), "{report}");
}

#[test]
fn python_torch_warning() {
    torch("2.9.0+cu130", "'13.0'").has("python.torch-warning", Severity::Note, "ignore");
}

#[test]
fn python_triton_ptxas() {
    let ptxas = |release: &str| {
        // The words stand across two chunks of a reader with one-megabyte chunks.
        let padding = "C".repeat((1 << 20) - 70);
        Patient::spark().with(&format!(
            "== {SITE}/triton/backends/nvidia/bin/ptxas\n{padding}Cuda compilation tools, \
             release {release}, V{release}.93\n"
        ))
    };
    ptxas("12.8").has("python.triton-ptxas", Severity::Error, "release 12.8");
    ptxas("13.0").passes("python.triton-ptxas");
    let other = ptxas("12.8").variable("TRITON_PTXAS_PATH", "/usr/local/cuda/bin/ptxas");
    other.passes("python.triton-ptxas");
}

/// An ELF file with one section of CUDA code: (kind, architecture, flags) per piece.
fn library(pieces: &[(u16, u32, u64)]) -> Vec<u8> {
    let mut container = Vec::new();
    for (kind, sm, flags) in pieces {
        let mut piece = vec![0; 64 + 8];
        piece[..2].copy_from_slice(&kind.to_le_bytes());
        piece[4..8].copy_from_slice(&64_u32.to_le_bytes());
        piece[8..16].copy_from_slice(&8_u64.to_le_bytes());
        piece[28..32].copy_from_slice(&sm.to_le_bytes());
        piece[40..48].copy_from_slice(&flags.to_le_bytes());
        container.extend(piece);
    }
    let names = b"\0.nv_fatbin\0";
    let code_at = 64 + 2 * 64 + 16;
    let mut file = vec![0; code_at];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    file[40..48].copy_from_slice(&64_u64.to_le_bytes());
    file[58..60].copy_from_slice(&64_u16.to_le_bytes());
    file[60..62].copy_from_slice(&2_u16.to_le_bytes());
    file[64 + 24..64 + 32].copy_from_slice(&192_u64.to_le_bytes());
    file[128..132].copy_from_slice(&1_u32.to_le_bytes());
    file[128 + 24..128 + 32].copy_from_slice(&(code_at as u64).to_le_bytes());
    file[128 + 32..128 + 40].copy_from_slice(&(container.len() as u64 + 16).to_le_bytes());
    file[192..192 + names.len()].copy_from_slice(names);
    file.extend(0xba55_ed50_u32.to_le_bytes());
    file.extend([1, 0, 16, 0]);
    file.extend((container.len() as u64).to_le_bytes());
    file.extend(container);
    file
}

#[test]
fn python_kernels() {
    let package = |pieces: &[(u16, u32, u64)]| {
        let patient = Patient::spark().with(&format!("== {SITE}/flash/_C.so\n\n"));
        fs::write(
            patient.tree.path(&format!("{SITE}/flash/_C.so")),
            library(pieces),
        )
        .unwrap();
        patient
    };
    let (plain, exact) = (0x11, 0x0110_0011);
    package(&[(2, 80, plain), (2, 90, exact), (2, 120, exact)]).has(
        "python.kernels",
        Severity::Error,
        "sm_80 sm_90a sm_120a",
    );
    package(&[(2, 80, plain), (2, 121, exact)]).passes("python.kernels");
    package(&[(2, 80, plain), (1, 90, plain)]).passes("python.kernels");
}

#[test]
fn hostile_libraries_are_passed_over() {
    let good = library(&[(2, 80, 0x11)]);
    let tree = Tree::empty();
    let place = tree.path("/x.so");
    let read = |bytes: &[u8]| {
        fs::write(&place, bytes).unwrap();
        spark_hal::stack::DeviceCode::of_file(&place)
    };
    for at in 0..good.len() {
        for value in [0x00, 0x7f, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            let _ = read(&bad);
        }
    }
    // The last 24 bytes are not looked at: the end of a header, and the code itself.
    for length in 0..good.len() - 24 {
        assert_eq!(read(&good[..length]), None, "{length} bytes");
    }
}

#[test]
fn python_ray() {
    let with_ray = || Patient::spark().with(&format!("== {SITE}/ray/__init__.py\n\n"));
    with_ray().has(
        "python.ray",
        Severity::Note,
        "RAY_memory_monitor_refresh_ms=0",
    );
    with_ray()
        .variable("RAY_memory_monitor_refresh_ms", "0")
        .passes("python.ray");
}

/// Every check has its trap above: a new check without one fails here.
#[test]
fn every_check_has_a_planted_trap() {
    let source = include_str!("doctor.rs");
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

#[test]
fn a_healthy_spark_has_notes_only() {
    let report = Patient::spark().examine();
    assert!(
        report.worst() <= Some(Severity::Note),
        "{}",
        report.to_text()
    );
    assert!(
        report.to_text().lines().count() < 30,
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
        let wanted: &[&str] = if machine == "h100-server" {
            &[]
        } else {
            &["gpu.usable"]
        };
        assert_eq!(found, wanted, "{machine}: {}", report.to_text());
        assert!(report.worst() <= Some(Severity::Note));
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
    let report = connected().with(DOCKER).examine();
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("valid JSON");
    assert_eq!(json["schema"], "spark-doctor/1");
    let outcomes = json["checks"].as_array().unwrap();
    assert_eq!(outcomes.len(), checks().len());
    let known = ["passed", "not_applicable", "found"];
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
