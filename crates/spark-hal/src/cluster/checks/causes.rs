//! Why a link is slow: what owners of two Sparks have found behind figures like these, and what in the records speaks for it.
//!
//! ```text
//! MPI was told to use it, or 0.5 to 1 of its speed      the management network          nixos-dgx-spark README: about 1 GB/s
//! 8 to 25 Gb/s of one rail, twice that of two, by RDMA,
//!   link and PCIe as they should be                     a ConnectX-7 that began wrong   dgx-spark-playbooks PR #108: 12.9, 13.2 Gb/s of a rail
//! PCIe with fewer than four lanes                       old firmware                    tonyd2wild PR #35
//! 80 to 110 Gb/s, one half without link or address,
//!   or one alone named                                  one interface alone             tonyd2wild PR #35: 98; 161 with both
//! 140 to 175 Gb/s with small packets                    maybe the MTU of 1500           dgx-spark-playbooks issue #25: 18.9, 20.9 GB/s
//! ```
//!
//! A figure alone proves nothing: where no record speaks for a cause, it is said that none is known, and how to measure so that one may be.

use crate::doctor::{Seen, Severity, seen};
use crate::reading::Reading;

use super::super::facts::{Link, leading, of_rail};
use super::super::host::{Host, Rail};
use super::command::{Ends, hca, measure};
use super::way::Way;

/// Lanes of a function's PCIe link.
const PCIE_LANES: u8 = 4;
/// Messages from which on a rate is one of the link and not of what a message costs.
const LARGE_MESSAGE: u64 = 1 << 20;

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

impl<'a> Slow<'a, '_> {
    /// The rails that lead from each end to the other.
    fn leading(&self) -> Ends<'a> {
        let [a, b] = self.link.ends;
        [(a, leading(a, b)), (b, leading(b, a))]
    }

    /// The rails that were measured, on both hosts: those that MPI was limited to, or all that lead to the other end.
    fn rails(&self) -> Vec<(&'a Host, &'a Rail)> {
        let of = std::iter::zip(self.leading(), &self.ways);
        let of = of.flat_map(|((host, leading), way)| {
            let rails = match way.is_of_rails() {
                true => {
                    let named = |rail: &&Rail| way.rails.contains(&rail.name());
                    host.rails.iter().filter(named).collect()
                }
                false => leading,
            };
            rails.into_iter().map(move |rail| (host, rail))
        });
        of.collect()
    }

    /// How to measure this link so that the figure says something.
    fn command(&self) -> String {
        let mut ends = self.leading();
        if let Some(label) = self.rail {
            for ((_, rails), way) in std::iter::zip(&mut ends, &self.ways) {
                rails.retain(|rail| rail.is_called(label) || way.rails.contains(&rail.name()));
            }
        }
        measure(&ends, self.rail)
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
        // What is quicker than that link did not go by it.
        let mut others = self.ways.iter().flat_map(|way| &way.others);
        let (interface, speed) =
            others.find(|(_, speed_mbps)| self.gbps <= *speed_mbps as f64 / 1e3)?;
        Some(Cause {
            severity: Severity::Warning,
            what: format!(
                "MPI was told to use {interface} of {speed} Mb/s, which is not the cable between the ports"
            ),
            evidence: Vec::new(),
            fix: format!("name the rails and measure again: {}", self.command()),
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
            fix: format!("name the rails and measure again: {}", self.command()),
        })
    }

    /// Whether the figure is one of rails that went by RDMA, in messages that are large enough.
    fn is_of_rails_by_rdma(&self) -> bool {
        let ways = &self.ways;
        let is_large = self.link.measurement.message_bytes >= LARGE_MESSAGE;
        let by_rdma = !ways
            .iter()
            .any(|way| way.is_without_rdma || way.is_untold());
        let named = ways.iter().all(Way::is_of_rails) || ways.iter().all(|way| way.is_rdma_alone);
        is_large && by_rdma && named
    }

    /// The card says that all is well, and moves an eighth.
    fn began_wrong(&self) -> Option<Cause> {
        const FULL_SPEED_MBPS: u64 = 200_000;
        if !self.is_of_rails_by_rdma() {
            return None;
        }
        // What is seen of one rail, of two together, and where it is not known how many carried it.
        let is_named = self.ways.iter().all(Way::is_of_rails);
        let n_rails = self.ways.iter().map(|way| way.rails.len()).min();
        let range = match n_rails {
            Some(1) if is_named => 8.0..=25.0,
            _ if is_named => 16.0..=50.0,
            _ => 16.0..=25.0,
        };
        if !range.contains(&self.gbps) {
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
            what: "links and PCIe say that all is well, so a ConnectX-7 began wrong (about 13 Gb/s of a rail were seen)".to_owned(),
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
        let ends = self.leading();
        let mut evidence = Vec::new();
        for ((host, rails), way) in std::iter::zip(&ends, &self.ways) {
            if way.is_of_rails() && way.rails.len() == 1 && rails.len() > 1 {
                let place = format!("{}: {}", self.link.file, host.name);
                evidence.push(seen(place, "one of several rails was named"));
            }
            for rail in rails {
                let is_bare = rail.ipv4().is_empty() && rail.possible_ipv4().is_empty();
                if rail.function.has_carrier == Reading::Value(false) {
                    evidence.push(seen(of_rail(host, rail, "carrier"), "no link"));
                } else if host.machine.network.tells_addresses && is_bare {
                    let place = format!("{}: /proc/net: {}", host.name, rail.name());
                    evidence.push(seen(place, "no IPv4 address"));
                }
            }
        }
        (!evidence.is_empty()).then(|| Cause {
            severity: Severity::Warning,
            what: "that is what one interface of a port carries: the other half was not used".to_owned(),
            evidence,
            fix: format!(
                "give both halves a link and an address (cluster.links, cluster.addresses) and name both: {}; NCCL: NCCL_IB_HCA={} NCCL_IB_MERGE_NICS=1",
                self.command(),
                hca(&ends[0].1)
            ),
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
            what: "packets are small, which may be why".to_owned(),
            evidence,
            fix: format!("mtu: {LARGE_MTU} for both halves in netplan, on all machines"),
        })
    }

    fn unknown(&self) -> Cause {
        let any = |of: fn(&Way) -> bool| self.ways.iter().any(of);
        let what = if any(Way::is_untold) {
            "no cause is known, as MPI was not told whether to go by UCX or by TCP"
        } else if any(|way| way.is_without_rdma) {
            "messages went by TCP, and 190 Gb/s were measured by RDMA"
        } else {
            "no cause is known that fits"
        };
        let fix = match self.is_of_rails_by_rdma() {
            true => "stop what else runs on these machines and measure again, and run sparkpilot doctor on each".to_owned(),
            false => format!("measure so first: {}", self.command()),
        };
        Cause {
            severity: Severity::Warning,
            what: what.to_owned(),
            evidence: Vec::new(),
            fix,
        }
    }
}
