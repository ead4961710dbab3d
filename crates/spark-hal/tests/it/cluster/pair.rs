//! Two healthy Sparks with a cable in their first ports, which tests spoil: records that were never made by real ones.

use spark_hal::cluster::{
    Clock, Cluster, Host, Measurement, Netplan, Pair, Rank, Spread, examine, record,
};
use spark_hal::doctor::{Report, Severity, Verdict};
use spark_hal::{Machine, Sources, unpack_record};

use crate::recorded::Tree;

/// Interfaces and RDMA devices of the port in use.
pub(crate) const RAILS: [(&str, &str, &str); 2] = [
    ("enp1s0f0np0", "rocep1s0f0", "0000:01:00.0"),
    ("enP2p1s0f0np0", "roceP2p1s0f0", "0002:01:00.0"),
];

/// The kernel's two tables, for addresses with networks of 24 bits.
pub(crate) fn addresses(of: &[(&str, [u8; 4])]) -> String {
    let mut routes =
        "== /proc/net/route\nIface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
            .to_owned();
    let mut trie = "== /proc/net/fib_trie\n".to_owned();
    for (interface, [a, b, c, d]) in of {
        routes +=
            &format!("{interface}\t00{c:02X}{b:02X}{a:02X}\t00000000\t0001\t0\t0\t0\t00FFFFFF\n");
        trie += &format!("  |-- {a}.{b}.{c}.{d}\n     /32 host LOCAL\n");
    }
    routes + &trie
}

/// Entries of a rail's table: a link-local one of RoCE v1 at 0, and one of RoCE v2 and IPv4.
pub(crate) fn gids(rail: usize, index: u32, [a, b, c, d]: [u8; 4]) -> String {
    let (_, device, function) = RAILS[rail];
    let port = format!("== /sys/bus/pci/devices/{function}/infiniband/{device}/ports/1");
    format!(
        "{port}/gids/0\nfe80:0000:0000:0000:3e6d:66ff:fecc:b3b7\n{port}/gid_attrs/types/0\nIB/RoCE v1\n\
         {port}/gids/{index}\n0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}\n{port}/gid_attrs/types/{index}\nRoCE v2\n\
         {port}/gids/200\n0000:0000:0000:0000:0000:0000:0000:0000\n"
    )
}

pub(crate) fn netplan(last: u8) -> String {
    let mut text = "network:\n  version: 2\n  ethernets:\n".to_owned();
    for (rail, network) in [(0, 100), (1, 101)] {
        text += &format!(
            "    {}:\n      dhcp4: no\n      mtu: 9000\n      addresses:\n        - 192.168.{network}.{last}/24\n",
            RAILS[rail].0
        );
    }
    text
}

/// A healthy Spark whose addresses end with this number.
fn spark(name: &str, last: u8) -> Tree {
    let tree = Tree::of("nvidia-dgx-spark");
    let mut text = format!(
        "== /proc/sys/kernel/hostname\n{name}\n== /etc/netplan/40-cx7.yaml\n{}\
         == /proc/self/status\nUid:\t1000\t1000\t1000\t1000\n\
         == /sys/class/net/enP7s7/carrier\n1\n== /sys/class/net/enP7s7/speed\n10000\n== /sys/class/net/enP7s7/device/vendor\n0x10ec\n\
         == /sys/class/net/docker0/carrier\n1\n== /sys/class/net/docker0/speed\n10000\n",
        netplan(last)
    );
    for (rail, network) in [(0, 100), (1, 101)] {
        let (interface, _, _) = RAILS[rail];
        text += &format!(
            "== /sys/class/net/{interface}/carrier\n1\n== /sys/class/net/{interface}/speed\n200000\n== /sys/class/net/{interface}/mtu\n9000\n"
        );
        text += &gids(rail, 3, [192, 168, network, last]);
    }
    for (function, device) in [
        ("0000:01:00.0", "rocep1s0f0"),
        ("0000:01:00.1", "rocep1s0f1"),
        ("0002:01:00.0", "roceP2p1s0f0"),
        ("0002:01:00.1", "roceP2p1s0f1"),
    ] {
        text +=
            &format!("== /sys/bus/pci/devices/{function}/infiniband/{device}/fw_ver\n28.45.4028\n");
    }
    text += &addresses(&[
        (RAILS[0].0, [192, 168, 100, last]),
        (RAILS[1].0, [192, 168, 101, last]),
    ]);
    tree.add(&text);
    tree
}

/// Machines and what was measured between them.
pub(crate) struct Patients {
    pub(crate) trees: Vec<Tree>,
    pub(crate) measurements: Vec<(String, Measurement)>,
}

impl Patients {
    /// Two that are well, and no measurement.
    pub(crate) fn twins() -> Self {
        Self {
            trees: vec![spark("spark-1", 10), spark("spark-2", 11)],
            measurements: Vec::new(),
        }
    }

    /// The twins with healthy measurements of both rails and of each.
    pub(crate) fn measured() -> Self {
        let mut twins = Self::twins();
        let both = format!("{}:1,{}:1", RAILS[0].1, RAILS[1].1);
        twins.measurements.push((
            "both.json".to_owned(),
            measurement(None, Some(&both), 189.0),
        ));
        for (_, device, _) in RAILS {
            let limit = format!("{device}:1");
            let of_rail = measurement(Some(device), Some(&limit), 95.0);
            twins.measurements.push((format!("{device}.json"), of_rail));
        }
        twins
    }

    /// With entries of the second machine changed.
    pub(crate) fn with(self, entries: &str) -> Self {
        self.trees[1].add(entries);
        self
    }

    /// With entries of both changed.
    pub(crate) fn with_both(self, entries: &str) -> Self {
        self.trees[0].add(entries);
        self.with(entries)
    }

    /// Without a file of the second machine.
    pub(crate) fn without(self, path: &str) -> Self {
        self.trees[1].remove(path);
        self
    }

    /// With this as the measurement of both rails.
    pub(crate) fn together(mut self, measurement: Measurement) -> Self {
        self.measurements.retain(|(name, _)| name != "both.json");
        self.measurements
            .push(("both.json".to_owned(), measurement));
        self
    }

    pub(crate) fn change(mut self, change: impl Fn(&mut Measurement)) -> Self {
        for (_, measurement) in &mut self.measurements {
            change(measurement);
        }
        self
    }

    /// What is found by records that were made of the machines: nothing gets lost on the way.
    pub(crate) fn examine(&self) -> Report {
        let copies: Vec<Tree> = self.trees.iter().map(|_| Tree::empty()).collect();
        let hosts = std::iter::zip(&self.trees, &copies).map(|(tree, copy)| {
            let text = record(&tree.root(), None);
            assert!(!text.contains("MUST-NOT-APPEAR"), "{text}");
            let root = unpack_record(&text, &copy.path("/")).unwrap();
            let read = Host::read(
                "record",
                &root,
                Machine::read(&Sources::files(root.clone())),
            );
            let live = Host::read(
                "record",
                &tree.root(),
                Machine::read(&Sources::files(tree.root())),
            );
            let told = |host: &Host| {
                let hosts = vec![host.clone(), host.clone()];
                let measurements = self.measurements.clone();
                let cluster = Cluster {
                    hosts,
                    measurements,
                };
                examine(&cluster).to_text()
            };
            assert_eq!(told(&read), told(&live), "the record says less");
            read
        });
        examine(&Cluster {
            hosts: hosts.collect(),
            measurements: self.measurements.clone(),
        })
    }

    /// What is found by the machines themselves.
    pub(crate) fn examine_live(&self) -> Report {
        let hosts = self.trees.iter().map(|tree| {
            let machine = Machine::read(&Sources::files(tree.root()));
            Host::read("this", &tree.root(), machine)
        });
        examine(&Cluster {
            hosts: hosts.collect(),
            measurements: self.measurements.clone(),
        })
    }

    #[track_caller]
    pub(crate) fn has(&self, id: &str, severity: Severity, words: &str) {
        crate::doctor::has(&self.examine(), id, severity, words);
    }

    #[track_caller]
    pub(crate) fn is_not_examined(&self, id: &str, words: &str) {
        let report = self.examine();
        let Some(Verdict::NotExamined(why)) = report.verdict(id) else {
            panic!("{id}: {:?}", report.verdict(id));
        };
        assert!(why.contains(words), "{why}");
    }

    #[track_caller]
    pub(crate) fn passes(&self, id: &str) {
        let report = self.examine();
        assert_eq!(report.verdict(id), Some(&Verdict::Passed), "{id}");
    }
}

pub(crate) fn spread(median: f64) -> Spread {
    Spread::of(&[median * 0.98, median, median * 1.01]).unwrap()
}

/// One of two ranks, one on each machine, by UCX.
pub(crate) fn measurement(rail: Option<&str>, devices: Option<&str>, gbps: f64) -> Measurement {
    let rank = |host: &str| Rank {
        host: host.to_owned(),
        mpi: "Open MPI v4.1.6".to_owned(),
        build: "Open MPI v4.1.6, package: Debian OpenMPI".to_owned(),
        environment: devices
            .map(|devices| ("UCX_NET_DEVICES".to_owned(), devices.to_owned()))
            .into_iter()
            .collect(),
    };
    Measurement {
        program: "sparkpilot-mpi 0.1.0".to_owned(),
        rail: rail.map(str::to_owned),
        message_bytes: 4 << 20,
        in_flight: 16,
        ranks: vec![rank("spark-1"), rank("spark-2.local")],
        pairs: vec![Pair {
            a: 0,
            b: 1,
            round_trip_us: spread(4.5),
            clock: Clock {
                ahead_us: -120.0,
                within_us: 2.2,
            },
            from_a_gbps: spread(gbps),
            from_b_gbps: spread(gbps * 1.01),
        }],
    }
}

/// Reads a netplan as a user's copy of it is read.
pub(crate) fn parsed(text: &str) -> Netplan {
    Netplan::parse(text).unwrap()
}
