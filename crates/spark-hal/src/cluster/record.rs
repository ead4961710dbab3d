//! Records a machine of a cluster: what `record` writes down, and what tells one machine's links from another's.
//!
//! Besides that record it holds the host's name, IPv4 addresses and networks of ConnectX-7 interfaces, their global identifiers, what netplan
//! says of them, speeds of other links, and whether root made it. So it is for whoever runs the cluster, not for publication. Addresses of other
//! interfaces are left out (but that one is in a network of a ConnectX-7 interface too is said), and so are identifiers that are made of hardware addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::network::{Function, GidKind, Ipv4Network, Network};
use crate::pci;
use crate::reading::Reading;
use crate::record::{line, record_with, write_file};
use crate::root::Root;

use super::netplan::Netplan;

/// The machine as text. `netplan` is what netplan declares, where its files cannot be read by who records.
#[must_use]
pub fn record(root: &Root, netplan: Option<&Netplan>) -> String {
    let mut text = record_with(root, &["Cpus_allowed_list:", "Uid:"]);
    write_file(&mut text, root, "/proc/sys/kernel/hostname");
    let devices = pci::devices(root, &[pci::VENDOR_MELLANOX]);
    let network = Network::read(root, &devices.value().unwrap_or_default());
    let functions = &network.functions;
    if network.tells_addresses {
        write_addresses(&mut text, &network);
    }
    for function in functions {
        write_gids(&mut text, root, function);
    }
    let interfaces: Vec<&str> = functions
        .iter()
        .filter_map(|function| function.interface.as_value().map(String::as_str))
        .collect();
    write_other_links(&mut text, root, &interfaces);
    let own = Netplan::read(root).value();
    if let Some(netplan) = netplan.or(own.as_ref()) {
        line(&mut text, "== /etc/netplan/recorded.yaml");
        for said in netplan.text_of(&interfaces).lines() {
            line(&mut text, said);
        }
    }
    text
}

/// The two tables of the kernel, as far as these functions stand in them, and who else is in their networks.
fn write_addresses(text: &mut String, network: &Network) {
    line(text, "== /proc/net/route");
    line(
        text,
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask",
    );
    for function in &network.functions {
        if let Reading::Value(interface) = &function.interface {
            for network in &function.networks {
                line(text, &route(interface, *network));
            }
        }
    }
    for (interface, network) in &network.shared_networks {
        line(text, &route(interface, *network));
    }
    line(text, "== /proc/net/fib_trie");
    let mut written = BTreeSet::new();
    for function in &network.functions {
        let possible = function.possible_addresses.iter().copied();
        let own = function.addresses.iter().copied();
        for address in own.chain(possible.map(IpAddr::V4)) {
            if address.is_ipv4() && written.insert(address) {
                line(text, &format!("  |-- {address}"));
                line(text, "     /32 host LOCAL");
            }
        }
    }
}

fn route(interface: &str, network: Ipv4Network) -> String {
    let address = u32::from(network.address).swap_bytes();
    let mask = (u32::MAX << (32 - u32::from(network.prefix))).swap_bytes();
    format!("{interface}\t{address:08X}\t00000000\t0001\t0\t0\t0\t{mask:08X}")
}

fn write_gids(text: &mut String, root: &Root, function: &Function) {
    let (Reading::Value(gids), Reading::Value(folder)) =
        (function.gids(root), function.of_rdma_device())
    else {
        return;
    };
    let port = format!("{folder}/ports/1");
    for gid in gids {
        // The lower half of others is made of the hardware address.
        let [a, b, c, d, ..] = gid.address.segments();
        let shown = match gid.ipv4() {
            Some(_) => gid.address.segments(),
            None => [a, b, c, d, 0, 0, 0, 1],
        };
        let words = shown.map(|word| format!("{word:04x}"));
        line(text, &format!("== {port}/gids/{}", gid.index));
        line(text, &words.join(":"));
        line(text, &format!("== {port}/gid_attrs/types/{}", gid.index));
        line(
            text,
            match gid.kind {
                GidKind::V1 => "IB/RoCE v1",
                GidKind::V2 => "RoCE v2",
            },
        );
    }
}

fn write_other_links(text: &mut String, root: &Root, fast: &[&str]) {
    let names = root.entries("/sys/class/net").value().unwrap_or_default();
    for name in names.iter().filter(|name| !fast.contains(&name.as_str())) {
        if !root.exists(&format!("/sys/class/net/{name}/device/vendor")) {
            continue; // bridges and tunnels; the other end of a container's
        }
        for leaf in ["carrier", "device/vendor", "speed"] {
            write_file(text, root, &format!("/sys/class/net/{name}/{leaf}"));
        }
    }
}
