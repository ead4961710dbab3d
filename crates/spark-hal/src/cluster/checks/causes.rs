//! Why a link is slow: what owners of two Sparks have found behind figures like these, and what in the records speaks for it.
//!
//! ```text
//! MPI was told to use it, or 0.5 to 1 of its speed      the management network          nixos-dgx-spark README: about 1 GB/s
//! 8 to 25 Gb/s, link and PCIe as they should be         a ConnectX-7 that began wrong   dgx-spark-playbooks PR #108: 12.9, 13.2 Gb/s
//! PCIe with fewer than four lanes                       old firmware                    tonyd2wild PR #35
//! 80 to 110 Gb/s of both rails                          one interface alone             tonyd2wild PR #35: 98; 161 with both
//! 140 to 175 Gb/s with small packets                    MTU 1500                        dgx-spark-playbooks issue #25: 18.9, 20.9 GB/s
//! ```
//!
//! A figure alone proves nothing: where no record speaks for a cause, it is said that none is known.

use crate::doctor::{Seen, Severity, seen};
use crate::reading::Reading;

use super::super::facts::{Link, of_rail};
use super::super::host::{Host, Rail};
use super::way::Way;

/// Lanes of a function's PCIe link.
const PCIE_LANES: u8 = 4;

const NAME_RAILS: &str = "name the rails and measure again: -x UCX_NET_DEVICES=rocep1s0f0:1,roceP2p1s0f0:1, or for TCP their networks with --mca pml ob1 --mca btl_tcp_if_include";

/// A cause, and what speaks for it.
pub(super) struct Cause {
    pub(super) severity: Severity,
    pub(super) what: String,
    pub(super) evidence: Vec<Seen>,
    pub(super) fix: String,
}

/// A link that is slower than it should be.
pub(super) struct Slow<'a, 'b> {
    pub(super) link: &'b Link<'a>,
    pub(super) ways: [Way; 2],
    /// The rail that was measured alone.
    pub(super) rail: Option<&'a str>,
    /// Rate of the slower direction.
    pub(super) gbps: f64,
}

impl Slow<'_, '_> {
    /// The rails that were measured, on both hosts.
    fn rails(&self) -> Vec<(&Host, &Rail)> {
        let of = |host| {
            let used = Host::used_rails(host).into_iter();
            let is_measured = |rail: &&Rail| self.rail.is_none_or(|name| rail.is_called(name));
            used.filter(is_measured).map(move |rail| (host, rail))
        };
        self.link.ends.iter().flat_map(|host| of(*host)).collect()
    }

    /// The likeliest cause.
    pub(super) fn cause(&self) -> Cause {
        let causes = [
            Self::told_to_use_management,
            Self::as_slow_as_management,
            Self::began_wrong,
            Self::few_lanes,
            Self::one_interface,
            Self::small_packets,
        ];
        let known = causes.iter().find_map(|cause| cause(self));
        let mut cause = known.unwrap_or_else(|| self.unknown());
        let limits = std::iter::zip(self.link.ends, &self.ways);
        cause.evidence.extend(limits.filter_map(|(host, way)| {
            let variable = way.variable.as_ref()?;
            Some(seen(format!("{}: {}", self.link.file, host.name), variable))
        }));
        cause
    }

    fn told_to_use_management(&self) -> Option<Cause> {
        let mut others = self.ways.iter().flat_map(|way| &way.others);
        let (interface, speed) = others.next()?;
        Some(Cause {
            severity: Severity::Warning,
            what: format!(
                "MPI was told to use {interface} of {speed} Mb/s, which is not the cable between the ports"
            ),
            evidence: Vec::new(),
            fix: NAME_RAILS.to_owned(),
        })
    }

    /// Nothing limited MPI, and each machine has a link that is just so fast.
    fn as_slow_as_management(&self) -> Option<Cause> {
        if self.ways.iter().any(|way| way.variable.is_some()) {
            return None;
        }
        let fits = |host: &Host| {
            let mut links = host.other_links.iter();
            let link = links.find(|link| {
                let gbps = link.speed_mbps as f64 / 1e3;
                (0.5 * gbps..=gbps).contains(&self.gbps)
            })?;
            let place = format!("{}: /sys/class/net/{}/speed", host.name, link.interface);
            Some(seen(place, format!("{} Mb/s", link.speed_mbps)))
        };
        let [a, b] = self.link.ends;
        Some(Cause {
            severity: Severity::Warning,
            what: "that is the speed of another link that both machines have: it went over the management network".to_owned(),
            evidence: vec![fits(a)?, fits(b)?],
            fix: NAME_RAILS.to_owned(),
        })
    }

    /// The card says that all is well, and moves an eighth.
    fn began_wrong(&self) -> Option<Cause> {
        const FULL_SPEED_MBPS: u64 = 200_000;
        if !(8.0..=25.0).contains(&self.gbps) || self.ways.iter().any(Way::is_untold) {
            return None;
        }
        let mut evidence = Vec::new();
        for (host, rail) in self.rails() {
            let (Reading::Value(speed), Reading::Value(lanes)) =
                (&rail.function.speed_mbps, &rail.function.pci.link_width)
            else {
                return None;
            };
            if *speed < FULL_SPEED_MBPS || *lanes < PCIE_LANES {
                return None;
            }
            evidence.push(seen(
                of_rail(host, rail, "speed"),
                format!("{speed} Mb/s, PCIe of {lanes} lanes"),
            ));
        }
        if evidence.is_empty() {
            return None;
        }
        Some(Cause {
            severity: Severity::Error,
            what: "links and PCIe say that all is well, so a ConnectX-7 began wrong (about 13 Gb/s were seen)".to_owned(),
            evidence,
            fix: "shut both machines down and take their power plugs out before they are started again (a full power drain)".to_owned(),
        })
    }

    fn few_lanes(&self) -> Option<Cause> {
        let rails = self.rails();
        let narrow = rails.iter().filter_map(|(host, rail)| {
            let lanes = rail.function.pci.link_width.as_value()?;
            let place = format!(
                "{}: {}/current_link_width",
                host.name,
                rail.function.pci.path()
            );
            (*lanes < PCIE_LANES).then(|| seen(place, lanes))
        });
        let evidence: Vec<Seen> = narrow.collect();
        (!evidence.is_empty()).then(|| Cause {
            severity: Severity::Warning,
            what: "a ConnectX function has fewer than four PCIe lanes".to_owned(),
            evidence,
            fix: "update the firmware: sudo fwupdmgr update".to_owned(),
        })
    }

    fn one_interface(&self) -> Option<Cause> {
        if self.rail.is_some() || !(80.0..=110.0).contains(&self.gbps) {
            return None;
        }
        let rails = self.rails();
        let bare = rails
            .iter()
            .filter(|(host, rail)| host.machine.network.tells_addresses && rail.ipv4().is_empty());
        let evidence = bare.map(|(host, rail)| {
            seen(
                format!("{}: /proc/net: {}", host.name, rail.name()),
                "no IPv4 address",
            )
        });
        Some(Cause {
            severity: Severity::Warning,
            what: "that is what one interface of a port carries: the other half was not used".to_owned(),
            evidence: evidence.collect(),
            fix: "give both halves an address (cluster.addresses) and name both: -x UCX_NET_DEVICES=rocep1s0f0:1,roceP2p1s0f0:1; NCCL: \
                  NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0 NCCL_IB_MERGE_NICS=1"
                .to_owned(),
        })
    }

    fn small_packets(&self) -> Option<Cause> {
        const LARGE_MTU: u32 = 9000;
        if self.rail.is_some() || self.gbps < 140.0 {
            return None;
        }
        let rails = self.rails();
        let small = rails.iter().filter_map(|(host, rail)| {
            let mtu = rail.function.mtu.as_value()?;
            (*mtu < LARGE_MTU).then(|| seen(of_rail(host, rail, "mtu"), mtu))
        });
        let evidence: Vec<Seen> = small.collect();
        (!evidence.is_empty()).then(|| Cause {
            severity: Severity::Warning,
            what: "packets are small".to_owned(),
            evidence,
            fix: format!("mtu: {LARGE_MTU} for both halves in netplan, on all machines"),
        })
    }

    fn unknown(&self) -> Cause {
        let by_tcp = self.ways.iter().any(|way| way.is_without_rdma);
        let is_untold = self.ways.iter().any(Way::is_untold);
        let (what, fix) = match by_tcp {
            _ if is_untold => (
                "no cause is known, as MPI was not told whether to go by UCX or by TCP",
                "measure again with --mca pml ucx, or for TCP with --mca pml ob1",
            ),
            true => (
                "messages went by TCP, and 190 Gb/s were measured by RDMA",
                "measure by RDMA: mpirun --mca pml ucx -x UCX_NET_DEVICES=rocep1s0f0:1,roceP2p1s0f0:1",
            ),
            false => (
                "no cause is known that fits",
                "stop what else runs on these machines and measure again, and run sparkpilot doctor on each",
            ),
        };
        Cause {
            severity: Severity::Warning,
            what: what.to_owned(),
            evidence: Vec::new(),
            fix: fix.to_owned(),
        }
    }
}
