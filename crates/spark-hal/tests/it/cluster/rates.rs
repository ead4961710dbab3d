//! Measurements: every known cause of a slow link is told from the others, and what is no measurement of a link is not taken for one.

use spark_hal::cluster::Measurement;
use spark_hal::doctor::Severity;

use super::pair::{Patients, RAILS, addresses, measurement, spread};

const BOTH: &str = "rocep1s0f0:1,roceP2p1s0f0:1";

/// The twins, with another measurement of both rails.
fn at(devices: Option<&str>, gbps: f64) -> Patients {
    Patients::measured().together(measurement(None, devices, gbps))
}

/// The same by TCP.
fn by_tcp(mut measured: Measurement, interfaces: Option<&str>) -> Measurement {
    for rank in &mut measured.ranks {
        rank.environment.clear();
        let set = [
            ("OMPI_MCA_pml", Some("ob1")),
            ("OMPI_MCA_btl_tcp_if_include", interfaces),
        ];
        let set = set
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        rank.environment.extend(set);
    }
    measured
}

/// MPI was told to go by UCX.
fn by_ucx(measured: &mut Measurement) {
    set(&[("OMPI_MCA_pml", "ucx")])(measured);
}

/// With these variables besides those that are set.
fn set(variables: &[(&'static str, &'static str)]) -> impl Fn(&mut Measurement) {
    move |measured| {
        for rank in &mut measured.ranks {
            let more = variables.iter();
            let more = more.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            rank.environment.extend(more);
        }
    }
}

#[test]
fn limits_count_for_the_way_that_was_taken() {
    let rail = |devices: Option<&str>, variables: &'static [(&'static str, &'static str)]| {
        let mut labelled = Patients::measured();
        let mut measured = measurement(Some("enp1s0f0np0"), devices, 95.0);
        set(variables)(&mut measured);
        labelled.measurements[1].1 = measured;
        labelled
    };
    const RAIL: (&str, &str) = ("OMPI_MCA_btl_tcp_if_include", "enp1s0f0np0");
    const BTL: (&str, &str) = ("OMPI_MCA_btl", "self,tcp");
    let device = Some("rocep1s0f0:1");
    for (devices, set) in [
        (device, &[][..]),
        (device, &[("OMPI_MCA_pml", "ucx")]),
        (device, &[("OMPI_MCA_pml", "^cm")]),
        (device, &[("OMPI_MCA_btl", "^openib")]),
        (None, &[("OMPI_MCA_pml", "ob1"), RAIL]),
        (None, &[("OMPI_MCA_pml", "^ucx"), BTL, RAIL]),
    ] {
        rail(devices, set).passes("cluster.rails");
    }
    // Neither networks of TCP nor `btl` keep MPI from UCX.
    for (devices, set) in [
        (None, &[RAIL][..]),
        (None, &[BTL, RAIL]),
        (device, &[BTL]),
        (Some("enp1s0f0np0"), &[]),
        (device, &[("OMPI_MCA_pml", "ucx,ob1")]),
    ] {
        rail(devices, set).is_not_examined("cluster.rails", "add --mca pml ucx, or for TCP");
    }
    // Each limit is for its own way alone.
    for (devices, set) in [
        (device, &[("OMPI_MCA_pml", "ob1")][..]),
        (device, &[("OMPI_MCA_pml", "^ucx")]),
        (device, &[("OMPI_MCA_pml", "cm")]),
        (None, &[("OMPI_MCA_pml", "ucx"), RAIL]),
        (Some("^rocep1s0f0,roceP2p1s0f0"), &[]),
    ] {
        rail(devices, set).is_not_examined("cluster.rails", "needs MPI limited to enp1s0f0np0");
    }
    at(None, 18.0).change(set(&[BTL, RAIL])).has(
        "cluster.bandwidth",
        Severity::Warning,
        "was not told whether to go by UCX or by TCP",
    );
    at(Some("enp1s0f0np0,enP2p1s0f0np0"), 40.0)
        .change(by_ucx)
        .has("cluster.bandwidth", Severity::Warning, "went by TCP");
}

#[test]
fn what_is_measured_is_held_against_190_gbps() {
    at(Some(BOTH), 175.0).passes("cluster.bandwidth");
    at(Some(BOTH), 174.9).has(
        "cluster.bandwidth",
        Severity::Warning,
        "move 174.9 of 190 Gb/s: no cause is known",
    );
    // The slower direction counts.
    Patients::measured()
        .change(|measured| measured.pairs[0].from_b_gbps = spread(60.0))
        .has(
            "cluster.bandwidth",
            Severity::Warning,
            "spark-1 and spark-2 move 60.0 of 190",
        );
}

#[test]
fn the_management_network_is_known_by_name_and_by_speed() {
    at(Some("enP7s7"), 9.0).change(by_ucx).has(
        "cluster.bandwidth",
        Severity::Warning,
        "MPI was told to use enP7s7 of 10000 Mb/s",
    );
    at(None, 9.4).has(
        "cluster.bandwidth",
        Severity::Warning,
        "it went over the management network",
    );
    // A bridge of containers says 10000 Mb/s too, and is no link; with a link of 1 Gb/s alone 9.4 Gb/s did not go there.
    let slow = "== /sys/class/net/enP7s7/speed\n1000\n";
    at(None, 9.4)
        .with_both(slow)
        .has("cluster.bandwidth", Severity::Warning, "no cause is known");
    at(None, 0.94).with_both(slow).has(
        "cluster.bandwidth",
        Severity::Warning,
        "it went over the management network",
    );
    at(Some("all"), 9.4).has(
        "cluster.bandwidth",
        Severity::Warning,
        "it went over the management network",
    );
    let excluded = |measured: &mut Measurement| {
        let name = "OMPI_MCA_btl_tcp_if_exclude".to_owned();
        let of = measured.ranks.iter_mut().map(|rank| &mut rank.environment);
        of.for_each(|set| {
            set.remove("UCX_NET_DEVICES");
            set.insert(name.clone(), "enP7s7".to_owned());
        });
    };
    at(None, 9.4)
        .change(excluded)
        .has("cluster.bandwidth", Severity::Warning, "was not told");
    // One that was limited to the rails did not go there either.
    at(Some(BOTH), 9.4).has("cluster.bandwidth", Severity::Warning, "no cause is known");
    // What is quicker than a link did not go by it.
    at(Some("enP7s7"), 30.0).change(by_ucx).has(
        "cluster.bandwidth",
        Severity::Warning,
        "went by TCP",
    );
    Patients::measured()
        .together(by_tcp(measurement(None, None, 9.4), Some("enP7s7")))
        .has(
            "cluster.bandwidth",
            Severity::Warning,
            "MPI was told to use enP7s7",
        );
}

#[test]
fn a_card_that_began_wrong_is_known_where_all_else_is_well() {
    let one = Some("rocep1s0f0:1");
    at(one, 13.2).has("cluster.bandwidth", Severity::Error, "full power drain");
    at(one, 7.9).has("cluster.bandwidth", Severity::Warning, "no cause is known");
    at(one, 26.0).has("cluster.bandwidth", Severity::Warning, "no cause is known");
    // Two that began wrong carry twice that.
    at(Some(BOTH), 26.2).has("cluster.bandwidth", Severity::Error, "full power drain");
    at(Some(BOTH), 13.2).has("cluster.bandwidth", Severity::Warning, "no cause is known");
    at(Some(BOTH), 51.0).has("cluster.bandwidth", Severity::Warning, "no cause is known");
    at(Some(BOTH), 26.2)
        .with("== /sys/class/net/enp1s0f0np0/speed\n100000\n")
        .has("cluster.bandwidth", Severity::Warning, "no cause is known");
    at(Some(BOTH), 26.2)
        .without("/sys/class/net/enp1s0f0np0/speed")
        .has("cluster.bandwidth", Severity::Warning, "no cause is known");
    // A figure says that only where it is one of these rails, by RDMA, and not of what a message costs.
    let command = "measure so first: mpirun -np 2 --host spark-1,spark-2 --map-by node --mca pml ucx -x UCX_NET_DEVICES=rocep1s0f0:1,roceP2p1s0f0:1";
    at(None, 20.0).has("cluster.bandwidth", Severity::Warning, command);
    at(Some(BOTH), 20.0)
        .change(|measured| measured.message_bytes = 4096)
        .has("cluster.bandwidth", Severity::Warning, command);
    at(Some(BOTH), 20.0)
        .change(set(&[("UCX_TLS", "tcp,self")]))
        .has("cluster.bandwidth", Severity::Warning, "went by TCP");
    at(Some(BOTH), 20.0)
        .change(|measured| measured.ranks[1].environment.clear())
        .has("cluster.bandwidth", Severity::Warning, command);
    at(None, 20.0)
        .change(by_ucx)
        .change(set(&[("UCX_TLS", "rc,self,sm")]))
        .has("cluster.bandwidth", Severity::Error, "began wrong");
    // One rail alone.
    let mut one = Patients::measured();
    one.measurements[2].1.pairs[0].from_a_gbps = spread(13.1);
    one.has(
        "cluster.rails",
        Severity::Error,
        "move 13.1 of 95 Gb/s by roceP2p1s0f0: links and PCIe say",
    );
    one.passes("cluster.bandwidth");
}

#[test]
fn lanes_that_are_missing_are_named() {
    let narrow = "== /sys/bus/pci/devices/0002:01:00.0/current_link_width\n2\n";
    at(Some(BOTH), 26.2).with(narrow).has(
        "cluster.bandwidth",
        Severity::Warning,
        "spark-2: /sys/bus/pci/devices/0002:01:00.0/current_link_width",
    );
    let mut other = Patients::measured().with(narrow);
    other.measurements[1].1.pairs[0].from_a_gbps = spread(50.0);
    // Those of another rail explain nothing of this one.
    other.has("cluster.rails", Severity::Warning, "no cause is known");
}

#[test]
fn one_interface_alone_is_known() {
    at(Some("rocep1s0f0:1"), 98.0).has(
        "cluster.bandwidth",
        Severity::Warning,
        "the other half was not used",
    );
    let [(first, ..), _] = RAILS;
    at(Some(BOTH), 98.0)
        .with(&addresses(&[(first, [192, 168, 100, 11])]))
        .has(
            "cluster.bandwidth",
            Severity::Warning,
            "spark-2: /proc/net: enP2p1s0f0np0",
        );
    at(Some(BOTH), 98.0)
        .with("== /sys/class/net/enP2p1s0f0np0/carrier\n0\n")
        .has(
            "cluster.bandwidth",
            Severity::Warning,
            "the other half was not used",
        );
    at(Some(BOTH), 120.0).has("cluster.bandwidth", Severity::Warning, "no cause is known");
    // Nothing speaks for it but the figure.
    at(Some(BOTH), 98.0).has("cluster.bandwidth", Severity::Warning, "no cause is known");
}

#[test]
fn small_packets_are_known() {
    let small =
        "== /sys/class/net/enp1s0f0np0/mtu\n1500\n== /sys/class/net/enP2p1s0f0np0/mtu\n1500\n";
    at(Some(BOTH), 160.0).with_both(small).has(
        "cluster.bandwidth",
        Severity::Warning,
        "packets are small, which may be why",
    );
    at(Some(BOTH), 160.0).has("cluster.bandwidth", Severity::Warning, "no cause is known");
    Patients::measured()
        .together(by_tcp(
            measurement(None, None, 40.0),
            Some("192.168.100.0/24,192.168.101.0/24"),
        ))
        .has("cluster.bandwidth", Severity::Warning, "went by TCP");
}

#[test]
fn what_was_not_measured_is_not_passed() {
    for id in [
        "cluster.bandwidth",
        "cluster.rails",
        "cluster.mpi",
        "cluster.clocks",
    ] {
        Patients::twins().is_not_examined(id, "sparkpilot-mpi measure");
        let lone = |measured: &mut Measurement| measured.ranks[1].host = "spark-1".to_owned();
        Patients::measured()
            .change(lone)
            .is_not_examined(id, "one host, which is not a link");
        let others = |measured: &mut Measurement| measured.ranks[1].host = "elsewhere".to_owned();
        Patients::measured()
            .change(others)
            .is_not_examined(id, "record each of elsewhere");
    }
    let mut of_one = Patients::measured();
    of_one.measurements.pop();
    of_one.is_not_examined(
        "cluster.rails",
        "roceP2p1s0f0 alone between spark-1 and spark-2",
    );
    let mut of_rails = Patients::measured();
    of_rails.measurements.remove(0);
    of_rails.is_not_examined("cluster.bandwidth", "without --rail");
    // Rails of which none leads to the other machine are not passed either.
    let [(first, ..), (second, ..)] = RAILS;
    let elsewhere = addresses(&[(first, [10, 1, 1, 1]), (second, [10, 1, 2, 1])]);
    let mut apart = Patients::measured().with(&elsewhere);
    apart.is_not_examined("cluster.rails", "are in no network together");
    apart.measurements.truncate(1);
    apart.is_not_examined("cluster.rails", "needs a rail from spark-1 to spark-2");
    let mut three = Patients::measured();
    three.trees.extend(
        Patients::twins()
            .with("== /proc/sys/kernel/hostname\nspark-3\n")
            .trees
            .pop(),
    );
    three.is_not_examined("cluster.bandwidth", "between spark-1 and spark-3");
    three.is_not_examined("cluster.clocks", "between spark-1 and spark-3");
    three.is_not_examined("cluster.mpi", "a rank on spark-3");
}

#[test]
fn a_label_alone_limits_nothing() {
    for devices in [None, Some(BOTH), Some("enP7s7"), Some("unheard-of")] {
        let mut labelled = Patients::measured();
        labelled.measurements[1].1 = measurement(Some("rocep1s0f0"), devices, 95.0);
        by_ucx(&mut labelled.measurements[1].1);
        labelled.is_not_examined("cluster.rails", "needs MPI limited to rocep1s0f0");
    }
    let mut other = Patients::measured();
    other.measurements[1].1 = measurement(Some("rocep9s9"), Some("rocep9s9:1"), 95.0);
    other.is_not_examined(
        "cluster.rails",
        "`rocep9s9` of rocep1s0f0.json is none of spark-1 or spark-2",
    );
    // By TCP a rail is named by its interface or its network.
    for include in ["enp1s0f0np0", "192.168.100.0/24"] {
        let mut by_network = Patients::measured();
        by_network.measurements[1].1 =
            by_tcp(measurement(Some("enp1s0f0np0"), None, 95.0), Some(include));
        by_network.passes("cluster.rails");
    }
}

#[test]
fn more_than_a_cable_carries_is_something_else() {
    at(Some(BOTH), 400.0).is_not_examined("cluster.bandwidth", "more than one carries");
    let mut both = Patients::measured();
    both.measurements[1].1 = measurement(Some("rocep1s0f0"), Some("rocep1s0f0:1"), 180.0);
    both.is_not_examined("cluster.rails", "more than one carries");
}

#[test]
fn builds_of_mpi_that_differ_are_named() {
    Patients::measured()
        .change(|measured| {
            measured.ranks[1].build = "Open MPI v4.1.6, package: built by hand".to_owned()
        })
        .has(
            "cluster.mpi",
            Severity::Warning,
            "spark-2: MPI_Get_library_version",
        );
}

#[test]
fn clocks_that_are_apart_are_named_by_more_than_the_error() {
    let by = |ahead_us: f64, within_us: f64| {
        Patients::measured().change(move |measured| {
            measured.pairs[0].clock.ahead_us = ahead_us;
            measured.pairs[0].clock.within_us = within_us;
        })
    };
    by(-3.2e6, 5.0).has(
        "cluster.clocks",
        Severity::Note,
        "-3.200000 s, within 0.000005 s",
    );
    by(99_000.0, 500.0).passes("cluster.clocks");
    by(99_000.0, 5000.0).is_not_examined("cluster.clocks", "quicker messages");
    by(101_000.0, 5000.0).is_not_examined("cluster.clocks", "quicker messages");
}

#[test]
fn machines_are_told_apart_by_their_whole_names() {
    let named = |names: [&'static str; 2]| {
        Patients::measured().change(move |measured| {
            for (rank, name) in measured.ranks.iter_mut().zip(names) {
                rank.host = name.to_owned();
            }
        })
    };
    named(["SPARK-1", "spark-2.lan"]).passes("cluster.bandwidth");
    // The same first name in other domains is another machine, and an address is no name with a domain.
    named(["spark.a", "spark.b"])
        .is_not_examined("cluster.bandwidth", "record each of spark.a, spark.b");
    named(["10.0.0.1", "10.0.0.2"])
        .is_not_examined("cluster.bandwidth", "record each of 10.0.0.1, 10.0.0.2");
}

#[test]
fn reports_stay_short_whatever_was_measured() {
    let many = |measured: &mut Measurement| {
        let mut slow = measured.pairs[0];
        slow.from_a_gbps = spread(1.0);
        measured.pairs = vec![slow; 20_000];
    };
    let text = Patients::measured().change(many).examine().to_text();
    assert!(
        text.contains("and more like these") && text.len() < 20_000,
        "{}",
        text.len()
    );
}

/// The second port of both machines, as NVIDIA's playbook has it.
#[test]
fn remedies_name_the_devices_of_the_records() {
    let mut moved = Patients::measured();
    moved.measurements.truncate(1);
    for (tree, last) in moved.trees.iter().zip([10, 11]) {
        let mut all = Vec::new();
        for (half, name) in ["enp1s0f", "enP2p1s0f"].iter().enumerate() {
            tree.add(&format!(
                "== /sys/class/net/{name}0np0/carrier\n0\n== /sys/class/net/{name}1np1/carrier\n1\n== /sys/class/net/{name}1np1/speed\n200000\n"
            ));
            all.push((format!("{name}1np1"), [192, 168, 100 + half as u8, last]));
        }
        let all: Vec<(&str, [u8; 4])> = all.iter().map(|(name, of)| (name.as_str(), *of)).collect();
        tree.add(&addresses(&all));
    }
    moved.is_not_examined(
        "cluster.rails",
        "--mca pml ucx -x UCX_NET_DEVICES=rocep1s0f1:1 sparkpilot-mpi measure --rail rocep1s0f1",
    );
    let devices = "UCX_NET_DEVICES=rocep1s0f1:1,roceP2p1s0f1:1 ";
    for (devices_told, gbps) in [(None, 9.4), (None, 20.0), (Some("rocep1s0f1:1"), 95.0)] {
        let other = measurement(None, devices_told, gbps);
        moved.measurements[0].1 = other;
        moved.has("cluster.bandwidth", Severity::Warning, devices);
    }
    // Names of strangers are pasted into shells.
    moved.trees[1].add("== /proc/sys/kernel/hostname\nx;reboot\n");
    moved.measurements[0].1.ranks[1].host = "x;reboot".to_owned();
    moved.has(
        "cluster.bandwidth",
        Severity::Warning,
        "--host spark-1,SPARK_2 ",
    );
}

#[test]
fn every_slow_pair_has_its_own_cause() {
    let mut three = Patients::measured();
    three.measurements.clear();
    let third = Patients::twins()
        .with("== /proc/sys/kernel/hostname\nspark-3\n")
        .trees
        .pop();
    three.trees.extend(third);
    for (pair, devices, gbps) in [
        (["spark-1", "spark-2"], Some(BOTH), 100.0),
        (["spark-1", "spark-3"], None, 9.4),
        (["spark-2", "spark-3"], Some(BOTH), 26.2),
    ] {
        let mut measured = measurement(None, devices, gbps);
        for (rank, name) in measured.ranks.iter_mut().zip(pair) {
            rank.host = name.to_owned();
        }
        three.measurements.push((format!("{gbps}.json"), measured));
    }
    for words in [
        "spark-1 and spark-2 move 100.0 of 190 Gb/s: no cause is known",
        "spark-1 and spark-3 move 9.4 of 190 Gb/s: that is the speed of another link",
        "spark-2 and spark-3 move 26.2 of 190 Gb/s: links and PCIe say that all is well",
    ] {
        three.has("cluster.bandwidth", Severity::Error, words);
    }
}

/// Three machines, each joined to the two others by a cable of its own.
#[test]
fn a_ring_of_three_is_a_cluster() {
    let mut ring = Patients::measured();
    let third = Patients::twins()
        .with("== /proc/sys/kernel/hostname\nspark-3\n")
        .trees
        .pop();
    ring.trees.extend(third);
    // Cables 1 to 3, each of two networks; ports 0 and 1 of each machine.
    for (number, (tree, cables)) in ring.trees.iter().zip([[1, 3], [1, 2], [3, 2]]).enumerate() {
        let mut all = Vec::new();
        for (port, cable) in cables.into_iter().enumerate() {
            for (half, name) in ["enp1s0f", "enP2p1s0f"].iter().enumerate() {
                let interface = format!("{name}{port}np{port}");
                tree.add(&format!(
                    "== /sys/class/net/{interface}/carrier\n1\n== /sys/class/net/{interface}/speed\n200000\n"
                ));
                all.push((interface, [10, cable, half as u8, number as u8 + 1]));
            }
        }
        let all: Vec<(&str, [u8; 4])> = all.iter().map(|(name, of)| (name.as_str(), *of)).collect();
        tree.add(&addresses(&all));
    }
    for id in [
        "cluster.links",
        "cluster.speed",
        "cluster.addresses",
        "cluster.networks",
    ] {
        ring.passes(id);
    }
    ring.is_not_examined("cluster.bandwidth", "between spark-1 and spark-3");
    let names = ["spark-1", "spark-2", "spark-3"];
    for (a, b) in [(0, 2), (1, 2)] {
        let mut measured = measurement(None, Some(BOTH), 189.0);
        measured.ranks[0].host = names[a].to_owned();
        measured.ranks[1].host = names[b].to_owned();
        ring.measurements.push((format!("{a}{b}.json"), measured));
    }
    ring.passes("cluster.bandwidth");
    // The same cable has another device at each of its ends, and the command one for each host.
    ring.is_not_examined(
        "cluster.rails",
        "rocep1s0f1 alone between spark-1 and spark-3: mpirun -np 1 --host spark-1 --mca pml ucx -x UCX_NET_DEVICES=rocep1s0f1:1 \
         sparkpilot-mpi measure --rail rocep1s0f1 --output FILE : -np 1 --host spark-3 --mca pml ucx -x UCX_NET_DEVICES=rocep1s0f0:1",
    );
    let mut by_other = measurement(Some("rocep1s0f1"), Some("rocep1s0f1:1"), 95.0);
    by_other.ranks[1].host = "spark-3".to_owned();
    ring.measurements.push(("third.json".to_owned(), by_other));
    ring.is_not_examined("cluster.rails", "are in no network together");
    let (_, third) = ring.measurements.last_mut().unwrap();
    let set = &mut third.ranks[1].environment;
    set.insert("UCX_NET_DEVICES".to_owned(), "rocep1s0f0:1".to_owned());
    ring.is_not_examined("cluster.rails", "roceP2p1s0f1 alone between spark-1");
    ring.measurements.pop();
    // Packets are compared where they go: those of the cable between the second and third are shorter.
    for (tree, port) in [(&ring.trees[1], 1), (&ring.trees[2], 1)] {
        for name in ["enp1s0f", "enP2p1s0f"] {
            tree.add(&format!(
                "== /sys/class/net/{name}{port}np{port}/mtu\n1500\n"
            ));
        }
    }
    for (tree, port) in [
        (&ring.trees[0], 0),
        (&ring.trees[0], 1),
        (&ring.trees[1], 0),
        (&ring.trees[2], 0),
    ] {
        for name in ["enp1s0f", "enP2p1s0f"] {
            tree.add(&format!(
                "== /sys/class/net/{name}{port}np{port}/mtu\n9000\n"
            ));
        }
    }
    ring.has(
        "cluster.mtu",
        Severity::Note,
        "spark-3: /sys/class/net/enP2p1s0f1np1/mtu",
    );
    // Nor does that cable's packets, nor the speed of another one, say anything of the first and second.
    ring.trees[0].add("== /sys/class/net/enp1s0f1np1/speed\n100000\n");
    ring.measurements[0].1 = measurement(None, Some(BOTH), 160.0);
    ring.has("cluster.bandwidth", Severity::Warning, "no cause is known");
    ring.measurements[0].1 = measurement(None, Some(BOTH), 26.2);
    ring.has("cluster.bandwidth", Severity::Error, "began wrong");
    ring.measurements[0].1 = measurement(None, Some(BOTH), 189.0);
    ring.measurements.last_mut().unwrap().1.pairs[0].from_a_gbps = spread(90.0);
    ring.has(
        "cluster.bandwidth",
        Severity::Warning,
        "spark-2 and spark-3 move 90.0 of 190",
    );
}
