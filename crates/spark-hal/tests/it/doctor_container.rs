//! Planted traps of containers, with their healthy twins: which container this is, what it was given, what engines are told.

use std::fs;

use spark_hal::doctor::{Severity, Verdict};
use spark_hal::platform::ContainerKind;
use spark_hal::{Machine, Sources, record};

use crate::doctor::Patient;
use crate::recorded::{Tree, machine_names};

pub(crate) const DOCKER: &str = "== /usr/bin/docker\nELF\n== /etc/group\nroot:x:0:\ndocker:x:998:other\n\
    == /proc/self/status\nUid:\t1000\t1000\t1000\t1000\nGroups:\t4 24 1000 \n";
const ID64: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[track_caller]
fn check_kind(entries: &str, wanted: Option<ContainerKind>) {
    let tree = Tree::of("nvidia-dgx-spark");
    tree.add(entries);
    let read = |tree: &Tree| Machine::read(&Sources::files(tree.root())).platform;
    let platform = read(&tree);
    let kind = platform.container.as_ref().map(|container| container.kind);
    assert_eq!(kind, wanted, "{entries}");
    assert_eq!(platform.is_container, wanted.is_some(), "{entries}");
    // A record tells the same, and nothing that is secret.
    let told = record(&tree.root());
    assert!(!told.contains("MUST-NOT-APPEAR"), "{told}");
    let copy = Tree::empty();
    copy.add(&told);
    let recorded = read(&copy).container;
    assert_eq!(recorded.map(|container| container.kind), wanted, "{told}");
}

#[test]
fn every_kind_of_container_is_known_by_each_of_its_signs() {
    let group = |path: &str| format!("== /proc/self/cgroup\n0::{path}\n");
    let first = |variables: &str| {
        let text = format!("PATH=/bin{{NUL}}\nSECRET=MUST-NOT-APPEAR{{NUL}}\n{variables}{{NUL}}\n");
        format!("== /proc/1/environ\n{text}")
    };
    let kubernetes = Some(ContainerKind::Kubernetes);
    check_kind(
        "== /var/run/secrets/kubernetes.io/serviceaccount/namespace\nMUST-NOT-APPEAR\n",
        kubernetes,
    );
    check_kind(
        &first("KUBERNETES_SERVICE_HOST=MUST-NOT-APPEAR"),
        kubernetes,
    );
    check_kind(
        &group(&format!(
            "/kubepods.slice/kubepods-pod12.slice/cri-containerd-{ID64}.scope"
        )),
        kubernetes,
    );
    check_kind(
        &group(&format!("/system.slice/crio-{ID64}.scope")),
        kubernetes,
    );
    // Version 1, with Docker below Kubernetes.
    check_kind(
        &format!(
            "== /proc/self/cgroup\n5:memory:/docker/{ID64}\n4:cpu:/kubepods/burstable/pod7/{ID64}\n"
        ),
        kubernetes,
    );
    let lxc = Some(ContainerKind::Lxc);
    check_kind("== /run/systemd/container\nlxc\n", lxc);
    check_kind(&first("container=lxc"), lxc);
    check_kind(&group("/lxc.payload.training/init.scope"), lxc);
    check_kind("== /proc/self/cgroup\n7:memory:/lxc/training\n", lxc);
    check_kind(
        "== /proc/self/mounts\nlxcfs /proc/meminfo fuse.lxcfs rw,nosuid 0 0\n",
        lxc,
    );
    let docker = Some(ContainerKind::Docker);
    check_kind("== /.dockerenv\n\n", docker);
    check_kind(&group(&format!("/docker/{ID64}")), docker);
    check_kind(
        &group(&format!("/system.slice/docker-{ID64}.scope")),
        docker,
    );
    let podman = Some(ContainerKind::Podman);
    check_kind("== /run/.containerenv\nname=\"MUST-NOT-APPEAR\"\n", podman);
    check_kind("== /run/systemd/container\npodman\n", podman);
    check_kind(&group(&format!("/user.slice/libpod-{ID64}.scope")), podman);
    check_kind(
        "== /run/systemd/container\nsystemd-nspawn\n",
        Some(ContainerKind::Other),
    );
}

/// What a host has that runs containers of all kinds, and what only looks like a sign.
#[test]
fn a_host_that_runs_containers_is_none() {
    let hosts = [
        "== /var/lib/docker/containers/x/config.v2.json\n{}\n== /run/docker.sock\n\n== /usr/bin/docker\nELF\n",
        "== /proc/self/cgroup\n0::/system.slice/docker.service\n",
        "== /proc/self/cgroup\n0::/system.slice/kubelet.service\n",
        "== /proc/self/cgroup\n0::/user.slice/user-1000.slice/docker\n",
        "== /proc/self/cgroup\n0::/lxc.monitor.training\n",
        "== /proc/self/cgroup\n0::/user.slice/lxc/training\n",
        "== /proc/self/cgroup\n0::/docker/notes\n",
        "== /sys/fs/cgroup/kubepods.slice/memory.max\nmax\n== /etc/kubernetes/kubelet.conf\nx\n",
        "== /proc/self/mounts\nlxcfs /var/lib/lxcfs fuse.lxcfs rw,nosuid 0 0\n",
        // A host's own variables may be anybody's; a line in another variable is none.
        "== /proc/self/environ\nKUBERNETES_SERVICE_HOST=10.0.0.1\ncontainer=lxc\n",
        "== /proc/1/environ\nTERM=linux{NUL}\nNOTE=1\ncontainer=lxc{NUL}\n",
        "== /run/systemd/container\nwsl\n",
        "== /run/systemd/container\n\n",
        "== /run/systemd/container\na sentence, not a word\n",
        "== /proc/1/environ\n\n",
    ];
    for host in hosts {
        check_kind(host, None);
    }
}

#[test]
fn no_recorded_host_is_a_container_and_every_recorded_container_is() {
    let of = |name: &str| Machine::read(&Sources::files(Tree::of(name).root())).platform;
    for name in machine_names() {
        let is_one = name == "spark-docker-container";
        assert_eq!(of(&name).is_container, is_one, "{name}");
    }
}

#[test]
fn signs_that_nobody_can_read_are_none() {
    for path in [
        "/run/systemd/container",
        "/proc/1/environ",
        "/proc/self/mounts",
    ] {
        let tree = Tree::of("nvidia-dgx-spark");
        let place = tree.path(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::create_dir(&place).unwrap();
        let read = |tree: &Tree| Machine::read(&Sources::files(tree.root())).platform;
        assert!(!read(&tree).is_container, "{path}");
        fs::remove_dir(&place).unwrap();
        fs::write(&place, vec![0xff; 8 << 20]).unwrap();
        assert!(!read(&tree).is_container, "{path}");
    }
}

#[test]
fn container_gpu() {
    let mut without = Patient::of("spark-docker-container");
    Patient::of("spark-docker-container").passes("container.gpu");
    without.nvml = "init = no_driver\n".to_owned();
    without.cuda = None;
    without.has("container.gpu", Severity::Error, "--gpus all");
}

const TOOLKIT: &str = "container.toolkit";

fn with_tool() -> Patient {
    Patient::spark()
        .with(DOCKER)
        .with("== /usr/bin/nvidia-ctk\nELF\n")
}

fn daemon(json: &str) -> Patient {
    with_tool().with(&format!("== /etc/docker/daemon.json\n{json}\n"))
}

/// A specification as `nvidia-ctk cdi generate` writes it.
fn specification(path: &str, driver: &str) -> String {
    format!(
        "== {path}\n---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ncontainerEdits:\n  mounts:\n  - hostPath: \
         /usr/lib/aarch64-linux-gnu/libcuda.so.1\n  - hostPath: /usr/lib/aarch64-linux-gnu/libcuda.so.{driver}\n"
    )
}

const OWN_DRIVER: &str = "580.95.05";

#[test]
fn container_toolkit() {
    Patient::spark()
        .with(DOCKER)
        .has("container.toolkit", Severity::Warning, "nvidia-ctk");
    // The tool alone tells docker nothing.
    with_tool().has(TOOLKIT, Severity::Warning, "nvidia-ctk runtime configure");
    daemon("{\"log-driver\": \"journald\"}").has(TOOLKIT, Severity::Warning, "no runtimes.nvidia");
    // As systemd's services look for it.
    let bare = "{\"runtimes\": {\"nvidia\": {\"path\": \"nvidia-container-runtime\"}}}";
    daemon(bare).has(TOOLKIT, Severity::Warning, "in none of /usr/local/sbin");
    for folder in ["/usr/bin", "/usr/local/bin"] {
        daemon(bare)
            .with(&format!("== {folder}/nvidia-container-runtime\nELF\n"))
            .passes(TOOLKIT);
    }
    daemon("{\"runtimes\": {\"nvidia\": {}}}").is_not_examined(TOOLKIT, "a path");
    let absolute =
        "{\"runtimes\": {\"nvidia\": {\"path\": \"/usr/bin/nvidia-container-runtime\"}}}";
    daemon(absolute).has(TOOLKIT, Severity::Warning, "not there");
    daemon(absolute)
        .with("== /usr/bin/nvidia-container-runtime\nELF\n")
        .passes(TOOLKIT);
    // A folder in its place cannot be read, whoever asks.
    with_tool()
        .with("== /etc/docker/daemon.json/x\n\n")
        .is_not_examined(TOOLKIT, "docker info");
    Patient::spark()
        .with("== /snap/bin/docker\nELF\n== /usr/bin/nvidia-ctk\nELF\n")
        .is_not_examined(TOOLKIT, "snap");
}

const RUNTIME: &str = "== /usr/bin/nvidia-container-runtime\nELF\n";

/// Containers that ask for it get it by its own name, or without asking where it is the default.
#[test]
fn runtimes_of_other_names_are_known_by_their_program() {
    let named = |program: &str| {
        daemon(&format!(
            "{{\"default-runtime\": \"gpu\", \"runtimes\": {{\"gpu\": {{\"path\": \"{program}\"}}}}}}"
        ))
    };
    let program = "/usr/bin/nvidia-container-runtime";
    named(program).with(RUNTIME).passes(TOOLKIT);
    named("nvidia-container-runtime")
        .with(RUNTIME)
        .passes(TOOLKIT);
    named(program).has(TOOLKIT, Severity::Warning, "not there");
    named("/usr/bin/crun").with("== /usr/bin/crun\nELF\n").has(
        TOOLKIT,
        Severity::Warning,
        "no runtimes.nvidia",
    );
    // As a shim of containerd's.
    daemon(&format!(
        "{{\"runtimes\": {{\"gpu\": {{\"runtimeType\": \"io.containerd.runc.v2\", \"options\": {{\"BinaryName\": \"{program}\"}}}}}}}}"
    ))
    .with(RUNTIME)
    .passes(TOOLKIT);
}

#[test]
fn a_users_own_docker_has_its_own_settings() {
    let settings = |json: &str| {
        with_tool().with(&format!(
            "== /home/user/.config/docker/daemon.json\n{json}\n"
        ))
    };
    let told = "{\"runtimes\": {\"nvidia\": {\"path\": \"nvidia-container-runtime\"}}}";
    settings(told).with(RUNTIME).passes(TOOLKIT);
    settings(told).has(TOOLKIT, Severity::Warning, "not there");
    settings("{}").has(
        TOOLKIT,
        Severity::Warning,
        "systemctl --user restart docker",
    );
    settings("{").has(TOOLKIT, Severity::Error, "does not start");
    // The machine's docker is told; broken settings of it are not made good by the user's.
    settings("{}")
        .with(RUNTIME)
        .with(&format!("== /etc/docker/daemon.json\n{told}\n"))
        .passes(TOOLKIT);
    settings(told)
        .with(RUNTIME)
        .with("== /etc/docker/daemon.json\n{\n")
        .has(TOOLKIT, Severity::Error, "does not start");
    // Another user's are not looked for.
    with_tool()
        .with(RUNTIME)
        .with(&format!(
            "== /home/other/.config/docker/daemon.json\n{told}\n"
        ))
        .has(TOOLKIT, Severity::Warning, "no runtimes.nvidia");
}

#[test]
fn the_command_line_in_systemds_units_tells_docker_too() {
    let unit = "== /usr/lib/systemd/system/docker.service\n[Service]\nExecStart=/usr/bin/dockerd -H fd://\n";
    let drop_in = |folder: &str, lines: &str| {
        with_tool().with(unit).with(&format!(
            "== {folder}/docker.service.d/override.conf\n[Service]\n{lines}\n"
        ))
    };
    let system = "/etc/systemd/system";
    for options in [
        "--add-runtime=nvidia=/usr/bin/nvidia-container-runtime",
        "--add-runtime nvidia=/usr/bin/nvidia-container-runtime --default-runtime=nvidia",
        "--default-runtime=gpu \\\n  --add-runtime=gpu=/usr/bin/nvidia-container-runtime",
        "\"--add-runtime=nvidia=nvidia-container-runtime\"",
    ] {
        let lines = format!("ExecStart=\nExecStart=/usr/bin/dockerd -H fd:// {options}");
        drop_in(system, &lines).with(RUNTIME).passes(TOOLKIT);
        drop_in("/home/user/.config/systemd/user", &lines)
            .with(RUNTIME)
            .passes(TOOLKIT);
        drop_in(system, &lines).has(TOOLKIT, Severity::Warning, "not there");
    }
    let plain = "ExecStart=\nExecStart=/usr/bin/dockerd -H fd:// --add-runtime=kata=/usr/bin/kata";
    drop_in(system, plain)
        .with(RUNTIME)
        .has(TOOLKIT, Severity::Warning, "no runtimes.nvidia");
    // What was taken back, and a file that systemd does not read.
    let back = "ExecStart=/usr/bin/dockerd --add-runtime=nvidia=nvidia-container-runtime\nExecStart=\nExecStart=/usr/bin/dockerd";
    drop_in(system, back)
        .with(RUNTIME)
        .has(TOOLKIT, Severity::Warning, "no runtimes.nvidia");
    // By a variable, as Debian's unit has it.
    let variable = "ExecStart=\nExecStart=/usr/bin/dockerd -H fd:// $DOCKER_OPTS";
    drop_in(system, variable)
        .with(RUNTIME)
        .with("== /etc/default/docker\nDOCKER_OPTS=\"--add-runtime nvidia=/usr/bin/nvidia-container-runtime\"\n")
        .passes(TOOLKIT);
    drop_in(system, variable)
        .with(RUNTIME)
        .has(TOOLKIT, Severity::Warning, "no runtimes.nvidia");
}

/// Docker takes an empty file and a byte order mark, and does not start with anything else.
#[test]
fn settings_of_docker_that_are_no_json_are_an_error() {
    for broken in [
        "{",
        "{\"runtimes\": {\"nvidia\": {}},}",
        "[]",
        "\"nvidia\"",
        "// no\n{}",
    ] {
        daemon(broken).has(TOOLKIT, Severity::Error, "does not start");
    }
    let runtime = "{\"runtimes\": {\"nvidia\": {\"path\": \"nvidia-container-runtime\"}}}";
    daemon(&format!("\u{feff}{runtime}"))
        .with(RUNTIME)
        .passes(TOOLKIT);
    daemon("  ").has(TOOLKIT, Severity::Warning, "no runtimes.nvidia");
    // A runtime that is no object, or of another name, is none.
    daemon("{\"runtimes\": {\"nvidia\": 1}}").has(TOOLKIT, Severity::Warning, "no runtimes.nvidia");
    daemon("{\"runtimes\": [\"nvidia\"]}").has(TOOLKIT, Severity::Warning, "no runtimes.nvidia");
    // Deeper than it is read here: docker may take it.
    let nested = |levels: usize| {
        let runtime = "\"runtimes\": {\"nvidia\": {\"path\": \"nvidia-container-runtime\"}}";
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        daemon(&format!("{{\"x\": {open}{close}, {runtime}}}")).with(RUNTIME)
    };
    nested(100).passes(TOOLKIT);
    nested(200).is_not_examined(TOOLKIT, "nested deeper");
    daemon(&"[".repeat(100_000)).is_not_examined(TOOLKIT, "nested deeper");
}

#[test]
fn specifications_count_if_they_are_of_the_gpu_and_its_driver() {
    let good = specification("/etc/cdi/nvidia.yaml", OWN_DRIVER);
    with_tool().with(&good).is_not_examined(TOOLKIT, "28.3");
    let reads = "{\"features\": {\"cdi\": true}}";
    daemon(reads).with(&good).passes(TOOLKIT);
    daemon(reads)
        .with(&specification("/var/run/cdi/nvidia.yaml", OWN_DRIVER))
        .passes(TOOLKIT);
    daemon("{\"features\": {\"cdi\": false}}").with(&good).has(
        TOOLKIT,
        Severity::Warning,
        "features.cdi is false",
    );
    // As Jetson and WSL call it, whatever the driver.
    daemon(reads)
        .with(&specification("/etc/cdi/nvidia.yaml", "1.1"))
        .passes(TOOLKIT);
    daemon(reads)
        .with(&specification("/etc/cdi/nvidia.yaml", "580.65.06"))
        .has(TOOLKIT, Severity::Warning, "cdi generate");
    daemon(reads)
        .with(
            "== /etc/cdi/nvidia.json\n{\"cdiVersion\": \"0.5.0\", \"kind\": \"nvidia.com/gpu\"}\n",
        )
        .passes(TOOLKIT);
    daemon(reads)
        .with("== /etc/cdi/nvidia.yaml\nkind: nvidia.com/imex-channel\n")
        .has(TOOLKIT, Severity::Warning, "not of the kind");
    daemon(reads)
        .with("== /etc/cdi/nvidia.yaml\ngarbage\n")
        .has(TOOLKIT, Severity::Warning, "not of the kind");
    daemon(reads)
        .with("== /etc/cdi/nvidia.yaml/x\n\n")
        .is_not_examined(TOOLKIT, "not a regular file");
    // Another vendor's, and what is no specification by its name.
    daemon(reads)
        .with("== /etc/cdi/other.yaml\nkind: nvidia.com/gpu\n== /etc/cdi/nvidia.yaml.bak\nkind: nvidia.com/gpu\n")
        .has(TOOLKIT, Severity::Warning, "no specification");
}

#[test]
fn podman_containerd_and_cri_o_are_told_in_their_own_ways() {
    let of = |program: &str| Patient::spark().with(&format!("== {program}\nELF\n"));
    let podman = || of("/usr/bin/podman");
    podman().has(TOOLKIT, Severity::Note, "podman finds no specification");
    podman()
        .with(&specification("/etc/cdi/nvidia.yaml", OWN_DRIVER))
        .passes(TOOLKIT);
    podman()
        .with(&specification("/etc/cdi/nvidia.yaml", "570.1.2"))
        .has(TOOLKIT, Severity::Warning, "another driver");
    podman()
        .with("== /usr/share/containers/oci/hooks.d/oci-nvidia-hook.json\n{}\n")
        .passes(TOOLKIT);
    let containerd = || of("/usr/bin/containerd");
    containerd().has(TOOLKIT, Severity::Note, "containerd is not told");
    let table = "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia]\nruntime_type = \"x\"\n";
    containerd()
        .with(&format!(
            "== /etc/containerd/config.toml\nversion = 2\n  {table}"
        ))
        .passes(TOOLKIT);
    containerd()
        .with(&format!(
            "== /etc/containerd/conf.d/99-nvidia.toml\n{table}"
        ))
        .passes(TOOLKIT);
    containerd()
        .with(&format!(
            "== /etc/containerd/config.toml\n# {table}[plugins.runtimes.nvidia-experimental]\n"
        ))
        .has(TOOLKIT, Severity::Note, "no table");
    containerd()
        .with("== /etc/containerd/config.toml/x\n\n")
        .is_not_examined(TOOLKIT, "containerd");
    containerd()
        .with(&specification("/var/run/cdi/nvidia.yaml", OWN_DRIVER))
        .passes(TOOLKIT);
    of("/usr/bin/crio")
        .with("== /etc/crio/crio.conf.d/99-nvidia.conf\n[crio.runtime.runtimes.nvidia]\n")
        .passes(TOOLKIT);
    of("/usr/bin/crio").has(TOOLKIT, Severity::Note, "CRI-O is not told");
    // Docker brings a containerd of its own.
    daemon("{\"runtimes\": {\"nvidia\": {\"path\": \"nvidia-container-runtime\"}}}")
        .with("== /usr/bin/containerd\nELF\n")
        .with(RUNTIME)
        .passes(TOOLKIT);
}

fn shared(line: &str) -> Patient {
    Patient::of("spark-docker-container").with(&format!("== /proc/self/mounts\n{line}\n"))
}

#[test]
fn container_shm() {
    const ID: &str = "container.shm";
    let of_size = |size: &str| {
        shared(&format!(
            "shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime{size} 0 0"
        ))
    };
    of_size(",size=65536k").has("container.shm", Severity::Warning, "--shm-size");
    of_size(",size=64000k,uid=1000").has(ID, Severity::Warning, "64000k");
    of_size(",size=67108864").has(ID, Severity::Warning, "--ipc=host");
    of_size(",size=16777216k").passes(ID);
    of_size(",size=16g").passes(ID);
    // Half of the machine's memory.
    of_size("").passes(ID);
    of_size(",size=lots").is_not_examined(ID, "a size");
    of_size(",size=99999999999999999999k").is_not_examined(ID, "a size");
    shared("overlay / overlay rw 0 0").is_not_examined(ID, "a mount of /dev/shm");
    shared("/dev/sda1 /dev/shm ext4 rw 0 0").is_not_examined(ID, "in memory");
    // The last one lies on top.
    shared("shm /dev/shm tmpfs rw,size=65536k 0 0\ntmpfs /dev/shm tmpfs rw,size=8388608k 0 0")
        .passes(ID);
    Patient::of("spark-docker-container").is_not_examined(ID, "/proc/self/mounts");
    of_size(",size=65536k")
        .with("== /var/run/secrets/kubernetes.io/serviceaccount/namespace\nx\n")
        .has(ID, Severity::Warning, "emptyDir");
    // A host's own is what its administrator made it.
    let host =
        Patient::spark().with("== /proc/self/mounts\ntmpfs /dev/shm tmpfs rw,size=65536k 0 0\n");
    assert!(matches!(
        host.examine().verdict(ID),
        Some(Verdict::NotApplicable(_))
    ));
}

#[test]
fn container_memory_high() {
    const ID: &str = "container.memory-high";
    let group = |files: &str| {
        Patient::spark().with(&format!(
            "== /proc/self/cgroup\n0::/user.slice/a.scope\n{files}"
        ))
    };
    let of_scope =
        |name: &str, value: &str| format!("== /sys/fs/cgroup/user.slice/a.scope/{name}\n{value}\n");
    let free = [
        of_scope("memory.high", "max"),
        of_scope("memory.max", "max"),
    ]
    .concat();
    group(&free).passes(ID);
    group(&of_scope("memory.high", "17179869184")).has(
        "container.memory-high",
        Severity::Warning,
        "16.0 GiB",
    );
    // A limit of a group around the own one.
    group("== /sys/fs/cgroup/user.slice/memory.high\n8589934592\n").has(
        ID,
        Severity::Warning,
        "user.slice/memory.high",
    );
    group(&of_scope("memory.max", "17179869184")).has(ID, Severity::Note, "memory.max");
    // More than the machine has is no limit.
    group(&of_scope("memory.high", "1099511627776")).passes(ID);
    group(&of_scope("memory.high", "much")).is_not_examined(ID, "memory.high");
    group(&[of_scope("memory.high", "much"), of_scope("memory.max", "1")].concat()).has(
        ID,
        Severity::Note,
        "memory.max",
    );
    // Version 1 ends processes and slows none down.
    let version_1 = |bytes: &str| {
        Patient::spark().with(&format!(
            "== /proc/self/cgroup\n4:memory:/a\n== /sys/fs/cgroup/memory/a/memory.limit_in_bytes\n{bytes}\n\
             == /sys/fs/cgroup/memory/a/memory.soft_limit_in_bytes\n1048576\n"
        ))
    };
    version_1("17179869184").has(ID, Severity::Note, "limit_in_bytes");
    version_1("9223372036854771712").passes(ID);
    Patient::of("spark-docker-container").has(ID, Severity::Note, "40.0 GiB");
    group(&of_scope("memory.high", "17179869184"))
        .with("== /var/run/secrets/kubernetes.io/serviceaccount/namespace\nx\n")
        .has(ID, Severity::Warning, "MemoryQoS");
    // The root's group has no files; where they are hidden, nobody knows.
    Patient::spark()
        .with("== /proc/self/cgroup\n0::/\n== /sys/fs/cgroup/cgroup.controllers\ncpu memory\n")
        .passes(ID);
    Patient::spark()
        .with("== /.dockerenv\n\n== /proc/self/cgroup\n0::/\n== /sys/fs/cgroup/cgroup.controllers\ncpu\n")
        .is_not_examined(ID, "/sys/fs/cgroup");
    Patient::spark().is_not_examined(ID, "/proc/self/cgroup");
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
