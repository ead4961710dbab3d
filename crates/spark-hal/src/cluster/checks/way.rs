//! Which way messages of a measurement went, as far as MPI was told.
//!
//! ```text
//! OMPI_MCA_pml       what carries messages                          the limit that counts then
//!   ucx              UCX                                            UCX_NET_DEVICES=rocep1s0f0:1            RDMA devices or interfaces
//!   ob1, ^ucx        Open MPI's own, by TCP between machines        OMPI_MCA_btl_tcp_if_include=192.168.100.0/24   interfaces or networks
//!   unset, ^others   UCX where it was built in and finds a card     as for UCX
//!   others           unknown                                        none
//! ```
//!
//! `OMPI_MCA_btl` speaks of Open MPI's own way alone and does not choose it: `pml ucx` has a priority of 51 and `ob1` of 20, and `ucx` keeps the higher
//! one where it finds devices of `pml_ucx_devices`, which are RDMA devices (Open MPI, `pml_ucx_component.c` and `common_ucx.c`). So what was told `btl`, or
//! the networks of TCP, and no `pml`, went a way that nobody knows.

use std::collections::BTreeSet;

use crate::network::Ipv4Network;

use super::super::facts::Link;
use super::super::host::Host;
use super::super::measurement::Rank;

/// What carries messages between machines.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// UCX, by name.
    Ucx,
    /// UCX, unless MPI was built without it.
    #[default]
    LikelyUcx,
    /// Open MPI's own.
    Tcp,
    /// One or the other: what was told limits both or neither.
    Untold,
    /// None of them.
    Other,
}

/// What MPI was limited to on one host.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Way {
    layer: Layer,
    /// The variable that limited it, with its value.
    pub(super) variable: Option<String>,
    /// Interfaces of the rails among it.
    pub(super) rails: BTreeSet<String>,
    /// Other links among it, with their speeds in Mb/s.
    pub(super) others: BTreeSet<(String, u64)>,
    /// What is neither.
    unknown: BTreeSet<String>,
    /// Whether messages between machines cannot go by RDMA.
    pub(super) is_without_rdma: bool,
    /// Whether they can go by nothing else.
    pub(super) is_rdma_alone: bool,
}

impl Way {
    /// Of both ends of a link.
    pub(super) fn of(link: &Link<'_>) -> [Self; 2] {
        let ranks = [link.pair.a, link.pair.b].map(|rank| &link.measurement.ranks[rank]);
        let [a, b] = link.ends;
        [Self::on(a, ranks[0]), Self::on(b, ranks[1])]
    }

    fn on(host: &Host, rank: &Rank) -> Self {
        let layer = layer(host, rank);
        let set = |name: &str| set(rank, name).map(|value| format!("{name}={value}"));
        let mut way = Self {
            layer,
            is_without_rdma: layer == Layer::Tcp,
            ..Self::default()
        };
        match layer {
            Layer::Ucx | Layer::LikelyUcx => {
                let devices = devices(rank);
                way.variable = devices.and_then(|_| set(DEVICES));
                way.limit(host, devices);
                let transports = Transports::of(rank);
                let names_rdma = names_rdma(host, devices.unwrap_or_default());
                let is_named = devices.is_some();
                way.is_without_rdma =
                    transports == Transports::WithoutRdma || (is_named && !names_rdma);
                way.is_rdma_alone = layer == Layer::Ucx && transports == Transports::RdmaAlone;
            }
            Layer::Tcp => {
                way.variable = set(INCLUDE).or_else(|| set(EXCLUDE));
                way.limit(host, self::set(rank, INCLUDE));
            }
            Layer::Untold => {
                let told = ["OMPI_MCA_btl", INCLUDE, EXCLUDE, DEVICES].into_iter();
                way.variable = told.filter_map(set).next();
            }
            Layer::Other => way.variable = set("OMPI_MCA_pml"),
        }
        way
    }

    /// Takes what a limit names apart.
    fn limit(&mut self, host: &Host, value: Option<&str>) {
        let Some(value) = value else { return };
        if value.starts_with('^') {
            // Everything but these.
            self.unknown.insert(value.to_owned());
            return;
        }
        for word in words(value) {
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
                    self.rails.insert(rail.name());
                }
                (None, Some(link)) => {
                    self.others
                        .insert((link.interface.clone(), link.speed_mbps));
                }
                (None, None) => {
                    self.unknown.insert(word.to_owned());
                }
            }
        }
    }

    /// Whether rails are all that it was limited to.
    pub(super) fn is_of_rails(&self) -> bool {
        !self.rails.is_empty() && self.others.is_empty() && self.unknown.is_empty()
    }

    /// Whether what was told leaves open by what messages went.
    pub(super) fn is_untold(&self) -> bool {
        self.layer == Layer::Untold
    }
}

const DEVICES: &str = "UCX_NET_DEVICES";
const INCLUDE: &str = "OMPI_MCA_btl_tcp_if_include";
const EXCLUDE: &str = "OMPI_MCA_btl_tcp_if_exclude";

fn set<'a>(rank: &'a Rank, name: &str) -> Option<&'a str> {
    let value = rank.environment.get(name).map(|value| value.trim());
    value.filter(|value| !value.is_empty())
}

fn words(value: &str) -> impl Iterator<Item = &str> {
    let words = value.split(',').map(str::trim);
    words.filter(|word| !word.is_empty())
}

/// Devices of UCX, if it was limited to some: `all` is what it takes unless it is told otherwise.
fn devices(rank: &Rank) -> Option<&str> {
    set(rank, DEVICES).filter(|value| *value != "all")
}

/// Whether devices of UCX may be RDMA devices: those that are known as interfaces are for TCP.
fn names_rdma(host: &Host, devices: &str) -> bool {
    let is_interface = |word: &str| {
        let of_rail = host
            .rails
            .iter()
            .filter_map(|rail| rail.function.interface.as_value());
        let of_other = host.other_links.iter().map(|link| &link.interface);
        of_rail.chain(of_other).any(|name| name == word)
    };
    words(devices).any(|word| !is_interface(word))
}

fn layer(host: &Host, rank: &Rank) -> Layer {
    let pml = set(rank, "OMPI_MCA_pml").unwrap_or_default();
    let excluded = pml.strip_prefix('^');
    let without = |name: &str| excluded.is_some_and(|names| words(names).any(|word| word == name));
    match pml {
        "ucx" => return Layer::Ucx,
        "ob1" => return Layer::Tcp,
        _ if without("ucx") => return Layer::Tcp,
        _ if without("ob1") || pml.is_empty() || excluded.is_some() => {}
        _ if words(pml).any(|word| word == "ucx" || word == "ob1") => return Layer::Untold,
        _ => return Layer::Other,
    }
    let names_btl = set(rank, "OMPI_MCA_btl").is_some_and(|btl| !btl.starts_with('^'));
    let limits_tcp = set(rank, INCLUDE).or(set(rank, EXCLUDE)).is_some();
    // UCX that is limited to no RDMA device is not taken by itself.
    let limits_ucx = devices(rank).map(|devices| names_rdma(host, devices));
    match (names_btl, limits_ucx, limits_tcp) {
        (true, ..) | (_, Some(false), _) | (_, None, true) => Layer::Untold,
        _ => Layer::LikelyUcx,
    }
}

/// What UCX was told to send by.
#[derive(PartialEq, Eq)]
enum Transports {
    WithoutRdma,
    RdmaAlone,
    Any,
}

impl Transports {
    fn of(rank: &Rank) -> Self {
        let told = set(rank, "UCX_TLS").unwrap_or_default();
        let is_local =
            |word: &str| ["self", "sm", "shm", "posix", "sysv", "cma", "xpmem"].contains(&word);
        let is_rdma = |word: &str| {
            let begins = ["rc", "ud", "dc", "ib"];
            begins.iter().any(|begin| word.starts_with(begin))
        };
        let mut remote = words(told).filter(|word| !is_local(word)).peekable();
        match remote.peek() {
            None if told.is_empty() => Self::Any,
            None => Self::WithoutRdma,
            Some(_) => {
                let remote: Vec<&str> = remote.collect();
                match (
                    remote.iter().all(|word| *word == "tcp"),
                    remote.iter().all(|word| is_rdma(word)),
                ) {
                    (true, _) => Self::WithoutRdma,
                    (_, true) => Self::RdmaAlone,
                    _ => Self::Any,
                }
            }
        }
    }
}

fn network(word: &str) -> Option<Ipv4Network> {
    let (address, prefix) = word.split_once('/')?;
    Ipv4Network::of(address.parse().ok()?, prefix.parse().ok()?)
}
