//! Two ranks that see each other over a shaped link alone: network namespaces in place of machines.
//!
//! ```text
//! namespace a, 10.77.k.1 ──veth, tbf 1 Gbit/s each way──> namespace b, 10.77.k.2
//! mpirun, rank 0                                          rank 1, started by `ip netns exec` in place of ssh
//! ```
//!
//! Needs root, `ip` and `tc`; elsewhere the test says that it is left out, and fails where CI is set.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use sparkpilot::hal::cluster::Measurement;

use crate::process::{Material, succeed, texts};

/// Two namespaces and their link, for as long as this lives.
struct Link {
    names: [String; 2],
    network: String,
}

impl Link {
    /// Nothing where this machine lets nobody make namespaces, which is said, and an error where CI is set.
    fn needed() -> Option<Self> {
        let link = Self::new();
        if link.is_none() {
            let why = "this machine lets nobody make network namespaces with a shaped link";
            assert!(std::env::var_os("CI").is_none(), "{why}");
            eprintln!("left out: {why}");
        }
        link
    }

    /// Nothing where this machine lets nobody make namespaces.
    fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let link = Self {
            names: ["a", "b"].map(|end| format!("spark{end}{pid}x{number}")),
            network: format!("10.77.{}", (pid + number) % 250),
        };
        let [a, b] = link.names.each_ref().map(String::as_str);
        if !runs(&["ip", "netns", "add", a]) || !runs(&["ip", "netns", "add", b]) {
            return None;
        }
        let veth = ["ip", "link", "add", "va", "netns", a, "type", "veth"];
        let mut veth = veth.to_vec();
        veth.extend(["peer", "name", "vb", "netns", b]);
        if !runs(&veth) {
            return None;
        }
        for (name, device, last) in [(a, "va", 1), (b, "vb", 2)] {
            let address = format!("{}.{last}/24", link.network);
            let made = runs(&["ip", "-n", name, "addr", "add", &address, "dev", device])
                && runs(&["ip", "-n", name, "link", "set", "lo", "up"])
                && runs(&["ip", "-n", name, "link", "set", device, "up"]);
            let shape = "root tbf rate 1gbit burst 128kb latency 50ms";
            let mut shaped = vec!["tc", "-n", name, "qdisc", "add", "dev", device];
            shaped.extend(shape.split(' '));
            if !made || !runs(&shaped) {
                return None;
            }
        }
        Some(link)
    }

    /// mpirun with one rank in each namespace, which sees the other over the link alone.
    fn mpirun(&self, material: &Material) -> Command {
        let agent = self.agent(material);
        let network = &self.network;
        let mut command = Command::new(&agent);
        command.arg(format!("{network}.1"));
        command.args([
            "mpirun",
            "--allow-run-as-root",
            "--bind-to",
            "none",
            "-n",
            "2",
        ]);
        command.args(["--host", &format!("{network}.1:1,{network}.2:1")]);
        command.args(["--mca", "plm_rsh_agent"]).arg(&agent);
        command.args(["--mca", "btl", "self,tcp"]);
        for kind in ["btl_tcp_if_include", "oob_tcp_if_include"] {
            command.args(["--mca", kind, &format!("{network}.0/24")]);
        }
        command.arg(env!("CARGO_BIN_EXE_sparkpilot-mpi"));
        command.stdin(Stdio::null());
        command
    }

    /// What mpirun calls in place of ssh: a machine is a namespace with a host name of its own.
    fn agent(&self, material: &Material) -> PathBuf {
        let path = material.path("agent");
        let [a, b] = &self.names;
        let network = &self.network;
        let text = format!(
            "#!/bin/sh\nhost=$1; shift\ncase $host in {network}.1) name={a};; *) name={b};; esac\n\
             exec ip netns exec $name unshare -u sh -c \"hostname $name; $*\"\n"
        );
        fs::write(&path, text).expect("a writable folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("is ours");
        path
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for name in &self.names {
            runs(&["ip", "netns", "del", name]);
        }
    }
}

fn runs(words: &[&str]) -> bool {
    let status = Command::new(words[0])
        .args(&words[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn two_ranks_over_a_shaped_link_have_the_bits_of_one() {
    let Some(link) = Link::needed() else {
        return;
    };
    let material = Material::new();
    succeed(1, &material.train("one", &["--epochs", "6"]));
    let mut command = link.mpirun(&material);
    command.args(material.train("two", &["--epochs", "6"]));
    let output = command.output().expect("starts");
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("2 ranks, Open MPI"), "{out}");
    assert_eq!(material.bits("two"), material.bits("one"));
}

#[test]
fn the_rate_of_a_shaped_link_is_measured() {
    let Some(link) = Link::needed() else {
        return;
    };
    let material = Material::new();
    let file = material.path("link.json");
    let mut command = link.mpirun(&material);
    command.args(["measure", "--rail", "va", "--seconds", "2", "--output"]);
    let output = command.arg(&file).output().expect("starts");
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}\n{err}");
    let measured = fs::read_to_string(&file).expect("is written");
    let measured = Measurement::parse(&measured).expect("is one");
    assert_eq!(measured.rail.as_deref(), Some("va"));
    let [a, b] = &measured.ranks[..] else {
        panic!("{measured:?}");
    };
    assert_eq!([&a.host, &b.host], link.names.each_ref());
    let limit = b.environment.get("OMPI_MCA_btl_tcp_if_include");
    assert_eq!(limit, Some(&format!("{}.0/24", link.network)));
    let pair = &measured.pairs[0];
    // 1 Gb/s of which packets' heads take a part; the other rank may have to wait for its core.
    for rate in [pair.from_a_gbps, pair.from_b_gbps] {
        assert!(rate.median < 1.0 && rate.median > 0.5, "{rate:?}");
    }
    // Both namespaces have the one clock of this machine.
    assert!(
        pair.clock.ahead_us.abs() <= pair.clock.within_us,
        "{pair:?}"
    );
}
