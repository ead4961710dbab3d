//! Which way messages of a measurement went, as far as MPI was told.
//!
//! ```text
//! UCX_NET_DEVICES=rocep1s0f0:1                      names of RDMA devices or interfaces
//! OMPI_MCA_btl_tcp_if_include=192.168.100.0/24      interfaces, or networks
//! ```
//!
//! The second is for messages by TCP alone, the first for those by UCX. Open MPI takes UCX where it was built with it, unless it is told otherwise.

use std::collections::BTreeSet;

use crate::network::Ipv4Network;

use super::super::facts::Link;
use super::super::host::Host;
use super::super::measurement::Rank;

/// What MPI was limited to on one host.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Way {
    /// The variable that limited it, with its value.
    pub(super) variable: Option<String>,
    /// Interfaces of the rails among it.
    pub(super) rails: BTreeSet<String>,
    /// Other links among it, with their speeds in Mb/s.
    pub(super) others: BTreeSet<(String, u64)>,
    /// What is neither.
    pub(super) unknown: BTreeSet<String>,
}

impl Way {
    /// Of both ends of a link.
    pub(super) fn of(link: &Link<'_>) -> [Self; 2] {
        let ranks = [link.pair.a, link.pair.b].map(|rank| &link.measurement.ranks[rank]);
        let [a, b] = link.ends;
        [Self::on(a, ranks[0]), Self::on(b, ranks[1])]
    }

    fn on(host: &Host, rank: &Rank) -> Self {
        let value = |name: &str| {
            rank.environment
                .get(name)
                .map(|value| (name.to_owned(), value))
        };
        let (ucx, tcp) = (
            value("UCX_NET_DEVICES"),
            value("OMPI_MCA_btl_tcp_if_include"),
        );
        let limit = match is_tcp(rank) {
            true => tcp,
            false => ucx.or(tcp),
        };
        // `all` is what UCX takes unless it is told otherwise.
        let limit = limit.filter(|(_, value)| value.as_str() != "all");
        let Some((name, value)) = limit else {
            let excluded = value("OMPI_MCA_btl_tcp_if_exclude");
            return Self {
                variable: excluded.map(|(name, value)| format!("{name}={value}")),
                ..Self::default()
            };
        };
        let mut way = Self {
            variable: Some(format!("{name}={value}")),
            ..Self::default()
        };
        for word in value
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            // A port of an RDMA device follows it: `rocep1s0f0:1`.
            let name = word.split(':').next().unwrap_or_default();
            let network = network(word);
            let rail = host.rails.iter().find(|rail| {
                rail.is_called(name)
                    || network.is_some_and(|network| rail.function.networks.contains(&network))
            });
            let other = host.other_links.iter().find(|link| link.interface == name);
            match (rail, other) {
                (Some(rail), _) => {
                    way.rails.insert(rail.name());
                }
                (None, Some(link)) => {
                    way.others.insert((link.interface.clone(), link.speed_mbps));
                }
                (None, None) => {
                    way.unknown.insert(word.to_owned());
                }
            }
        }
        way
    }

    /// Whether rails are all that it was limited to.
    pub(super) fn is_of_rails(&self) -> bool {
        !self.rails.is_empty() && self.others.is_empty() && self.unknown.is_empty()
    }
}

/// Whether messages go by Open MPI's own TCP, and not by UCX.
fn is_tcp(rank: &Rank) -> bool {
    let value = |name: &str| rank.environment.get(name).map_or("", String::as_str);
    let (pml, btl) = (value("OMPI_MCA_pml"), value("OMPI_MCA_btl"));
    pml == "ob1" || (pml.is_empty() && btl.split(',').any(|word| word == "tcp"))
}

/// Whether messages between machines cannot go by RDMA.
pub(super) fn is_without_rdma(rank: &Rank) -> bool {
    let transports = rank.environment.get("UCX_TLS");
    let is_local =
        |word: &str| ["tcp", "self", "sm", "shm", "posix", "sysv", "cma"].contains(&word);
    is_tcp(rank) || transports.is_some_and(|all| all.split(',').all(|word| is_local(word.trim())))
}

fn network(word: &str) -> Option<Ipv4Network> {
    let (address, prefix) = word.split_once('/')?;
    Ipv4Network::of(address.parse().ok()?, prefix.parse().ok()?)
}
