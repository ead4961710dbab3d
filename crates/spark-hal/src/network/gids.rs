//! Global identifiers of an RDMA port: what packets of RoCE carry as their addresses.
//!
//! ```text
//! infiniband/rocep1s0f0/ports/1/gids/3              0000:0000:0000:0000:0000:ffff:c0a8:640a    192.168.100.10
//! infiniband/rocep1s0f0/ports/1/gid_attrs/types/3   RoCE v2
//! ```
//!
//! The table has an entry for every address of the interface and version of RoCE; an empty one is all zeros. Entries
//! move when addresses come and go (tonyd2wild DeepSeek-v4-Flash-Vision-Exp, issue #38), so a number alone says little.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::reading::Reading;
use crate::root::Root;

/// Longest table that is read: a ConnectX-7 has 256 entries or fewer.
const MOST_ENTRIES: u32 = 1024;

/// One entry of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gid {
    /// Its number, as `NCCL_IB_GID_INDEX` takes it.
    pub index: u32,
    /// Which version of RoCE it is for.
    pub kind: GidKind,
    /// The identifier.
    pub address: Ipv6Addr,
}

/// A version of RoCE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GidKind {
    /// Not routed: Ethernet frames of their own type.
    V1,
    /// Packets of UDP.
    V2,
}

impl Gid {
    /// The IPv4 address that it stands for.
    #[must_use]
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        self.address.to_ipv4_mapped()
    }

    /// The same, if packets of it go by RoCE v2: what NCCL and UCX look for.
    #[must_use]
    pub fn roce_v2_ipv4(&self) -> Option<Ipv4Addr> {
        self.ipv4().filter(|_| self.kind == GidKind::V2)
    }
}

/// Reads the table of port 1 of an RDMA device: each has one port.
pub(super) fn read(root: &Root, device: &str) -> Reading<Vec<Gid>> {
    let port = format!("{device}/ports/1");
    let is_number = |name: &str| name.parse().is_ok_and(|index: u32| index < MOST_ENTRIES);
    let names = root.entries_where(&format!("{port}/gids"), is_number);
    names.map(|names| {
        let entries = names.iter().filter_map(|name| {
            let address: Ipv6Addr = root
                .line(&format!("{port}/gids/{name}"))
                .value()?
                .parse()
                .ok()?;
            if address.is_unspecified() {
                return None;
            }
            let kind = root
                .line(&format!("{port}/gid_attrs/types/{name}"))
                .value()?;
            let kind = match kind.as_str() {
                "RoCE v2" => GidKind::V2,
                "IB/RoCE v1" => GidKind::V1,
                _ => return None,
            };
            Some(Gid {
                index: name.parse().ok()?,
                kind,
                address,
            })
        });
        let mut gids: Vec<Gid> = entries.collect();
        gids.sort_by_key(|gid| gid.index);
        gids
    })
}
