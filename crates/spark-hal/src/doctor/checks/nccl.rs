//! What NCCL is told by its variables: which devices and interfaces, and which identifier of RoCE.
//!
//! ```text
//! environment      NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0       wins
//! $NCCL_CONF_FILE, or ~/.nccl.conf                           then
//! /etc/nccl.conf                                             last
//! ```
//!
//! The environment is this program's own: a launcher or a container may give another to the program that runs NCCL. No record of a
//! machine holds one, and then nothing is examined.
//!
//! Sources: NCCL, "Environment Variables" (read 2026-11-30), and its `src/misc/param.cc` for the order of the files.

use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Seen, Severity, Verdict, found, not_applicable, not_examined, seen};
use crate::network::{Function, Gid, NameList};
use crate::reading::{Reading, quote};

use super::network::{connected, has_carrier, no_port};

pub(super) const CHECKS: &[Examination<Facts>] = &[
    Examination {
        check: Check {
            id: "network.nccl",
            title: "NCCL is told both halves of a port, in its own spelling",
            source: "NVIDIA/dgx-spark-playbooks, nvidia/connect-two-sparks; issue #102, PR #103; the spelling: NCCL, Environment \
                 Variables, NCCL_IB_HCA (read 2026-11-30)",
        },
        run: devices,
    },
    Examination {
        check: Check {
            id: "network.nccl-sockets",
            title: "NCCL_SOCKET_IFNAME names an interface of this machine",
            source: "NCCL, Environment Variables, NCCL_SOCKET_IFNAME (read 2026-11-30)",
        },
        run: sockets,
    },
    Examination {
        check: Check {
            id: "network.gid",
            title: "no index of a RoCE identifier is pinned that does not fit, or that moves",
            source: "tonyd2wild DeepSeek-v4-Flash-Vision-Exp issue #38 (2026-08-21), PR #40: index 3 became 4 within 30 minutes; \
                 MiaAI-Lab DeepSeek-v4-Flash PR #125 (2026-08-23)",
        },
        run: identifier,
    },
];

const DEVICES: &str = "NCCL_IB_HCA";
const SOCKETS: &str = "NCCL_SOCKET_IFNAME";
const INDEX: &str = "NCCL_IB_GID_INDEX";

/// What a variable of NCCL is set to.
struct Setting {
    /// The variable, or the file.
    place: String,
    value: String,
}

impl Setting {
    /// Of this name, if it is set; or why nobody knows.
    fn read(facts: &Facts, name: &str) -> Result<Option<Self>, Verdict> {
        if let Some(value) = facts.environment.get(name) {
            return Ok(Some(Self {
                place: name.to_owned(),
                value: value.clone(),
            }));
        }
        if !facts.knows_environment() {
            return Err(not_examined(format!(
                "needs the environment that NCCL runs in ({name}), which no record holds"
            )));
        }
        let own = match (facts.variable("NCCL_CONF_FILE"), facts.variable("HOME")) {
            (Some(path), _) => Some(path.to_owned()),
            (None, Some(home)) => Some(format!("{home}/.nccl.conf")),
            (None, None) => None,
        };
        for path in own.into_iter().chain(["/etc/nccl.conf".to_owned()]) {
            let text = match facts.root.text(&path) {
                Reading::Value(text) => text,
                Reading::NotSupported => continue,
                Reading::Failed(_) => {
                    // The path may name the user.
                    return Err(not_examined(
                        "needs the settings of NCCL: ~/.nccl.conf or /etc/nccl.conf cannot be read",
                    ));
                }
            };
            let lines = text.lines().filter_map(|line| line.split_once('='));
            let mut values = lines.filter(|(key, _)| *key == name);
            if let Some((_, value)) = values.next() {
                return Ok(Some(Self {
                    place: path,
                    value: value.to_owned(),
                }));
            }
        }
        Ok(None)
    }

    fn seen(&self) -> Seen {
        let said = match self.value.as_str() {
            "" => "set to nothing",
            value => value,
        };
        seen(self.place.clone(), said)
    }

    /// Its names; or a finding that they are misspelt.
    fn names(&self, name: &str) -> Result<NameList, Verdict> {
        NameList::parse(&self.value).map_err(|why| {
            found(
                Severity::Warning,
                format!("{name} is misspelt: {why}; NCCL does without the device and does not say so"),
                vec![self.seen()],
                format!(
                    "write names with commas between them and nothing else, `=` or `^` before the first: {name}==a,b"
                ),
            )
        })
    }
}

fn devices(facts: &Facts) -> Verdict {
    let setting = Setting::read(facts, DEVICES);
    // A misspelt list is one whatever is connected.
    let names = match &setting {
        Ok(Some(setting)) if !setting.value.is_empty() => match setting.names(DEVICES) {
            Ok(names) => Some(names),
            Err(verdict) => return verdict,
        },
        _ => None,
    };
    let ports = connected(facts);
    if ports.is_empty() {
        return no_port(facts);
    }
    let setting = match setting {
        Ok(setting) => setting,
        Err(verdict) => return verdict,
    };
    let mut is_any_whole = false;
    let mut half_named = None;
    let mut unnamed = None;
    for port in &ports {
        let devices = port
            .iter()
            .map(|half| half.rdma_device.as_value().map(String::as_str));
        let Some(devices) = devices.collect::<Option<Vec<&str>>>() else {
            return not_examined("needs the RDMA devices of both halves: /sys/class/infiniband");
        };
        let allowed = |device: &&&str| {
            names
                .as_ref()
                .is_some_and(|names| names.allows(device, Some(1)))
        };
        match devices.iter().filter(allowed).count() {
            0 => unnamed = unnamed.or(Some(devices)),
            n if n == devices.len() => is_any_whole = true,
            _ => half_named = half_named.or(Some(devices)),
        }
    }
    let is_none_named = names.is_some() && !is_any_whole && half_named.is_none();
    let Some(devices) = half_named.or(unnamed.filter(|_| !is_any_whole)) else {
        return Verdict::Passed;
    };
    let (severity, message) = match is_none_named {
        true => (
            Severity::Warning,
            "NCCL is told devices of which none is that of a connected port: it sends over sockets, slowly",
        ),
        false => (
            Severity::Note,
            "NCCL is not told both halves of the port: without it about 3 instead of 23 GB/s were seen",
        ),
    };
    found(
        severity,
        message,
        vec![match &setting {
            Some(setting) => setting.seen(),
            None => seen(DEVICES, "not set"),
        }],
        format!(
            "export {DEVICES}={} NCCL_IB_MERGE_NICS=1",
            devices.join(",")
        ),
    )
}

fn sockets(facts: &Facts) -> Verdict {
    const INTERFACES: &str = "/sys/class/net";
    let setting = match Setting::read(facts, SOCKETS) {
        Ok(Some(setting)) if !setting.value.is_empty() => setting,
        Ok(_) => return not_applicable("NCCL_SOCKET_IFNAME is not set: NCCL chooses"),
        Err(verdict) => return verdict,
    };
    let names = match setting.names(SOCKETS) {
        Ok(names) => names,
        Err(verdict) => return verdict,
    };
    let interfaces = match facts.root.entries(INTERFACES) {
        Reading::Value(interfaces) => interfaces,
        other => return not_examined(format!("needs {INTERFACES}: {}", other.map(|_| ""))),
    };
    if interfaces
        .iter()
        .any(|interface| names.allows(interface, None))
    {
        return Verdict::Passed;
    }
    let there: Vec<&str> = interfaces.iter().map(String::as_str).collect();
    found(
        Severity::Error,
        "NCCL is told interfaces of which this machine has none: it does not start",
        vec![setting.seen(), seen(INTERFACES, quote(&there.join(", ")))],
        format!(
            "export {SOCKETS}=enP7s7   # or another of {INTERFACES} that reaches the other machine"
        ),
    )
}

/// What a pinned index leads to on one half of a port.
fn of_half(gids: &[Gid], index: i64) -> Result<&Gid, String> {
    let Some(gid) = gids.iter().find(|gid| i64::from(gid.index) == index) else {
        return Err("empty: ibv_modify_qp fails".to_owned());
    };
    match gid.roce_v2_ipv4() {
        Some(_) => Ok(gid),
        None => Err(match gid.ipv4() {
            Some(_) => "RoCE v1".to_owned(),
            None => "no IPv4 address's".to_owned(),
        }),
    }
}

fn identifier(facts: &Facts) -> Verdict {
    let setting = Setting::read(facts, INDEX);
    let ports = connected(facts);
    if ports.is_empty() {
        return no_port(facts);
    }
    const LEAVE: &str =
        "leave NCCL_IB_GID_INDEX unset: NCCL from 2.21 on finds the identifier of each half itself";
    let setting = match setting {
        Ok(Some(setting)) => setting,
        Ok(None) => return Verdict::Passed,
        Err(verdict) => return verdict,
    };
    let index = match leading_number(&setting.value) {
        Some(index) if index < 0 => return Verdict::Passed,
        Some(index) => index,
        None if setting.value.is_empty() => {
            return found(
                Severity::Note,
                "the index of the RoCE identifier is set to nothing: by NCCL's source that is unset, owners report that it was 0, \
                 which is a link-local one",
                vec![setting.seen()],
                LEAVE,
            );
        }
        None => {
            return found(
                Severity::Warning,
                "the index of the RoCE identifier is no number: NCCL reads 0, which is a link-local one",
                vec![setting.seen()],
                LEAVE,
            );
        }
    };
    let (mut fitting, mut wrong, mut unseen) = (Vec::new(), Vec::new(), None);
    for half in ports.iter().flatten().filter(|half| has_carrier(half)) {
        let place = format!("/sys/class/infiniband/{}/ports/1/gids", name_of(half));
        match half.gids(&facts.root) {
            Reading::Value(gids) => match of_half(&gids, index) {
                Ok(_) => fitting.push(seen(format!("{place}/{index}"), "RoCE v2 and IPv4")),
                Err(why) => wrong.push(seen(format!("{place}/{index}"), why)),
            },
            _ => unseen = Some(place),
        }
    }
    if !wrong.is_empty() {
        wrong.insert(0, setting.seen());
        return found(
            Severity::Warning,
            "the index of the RoCE identifier that NCCL is told does not fit a connected port: it hangs or fails when it connects",
            wrong,
            LEAVE,
        );
    }
    if let Some(place) = unseen {
        return not_examined(format!("needs {place}"));
    }
    fitting.insert(0, setting.seen());
    found(
        Severity::Note,
        "the index of the RoCE identifier is pinned: it fits now, and numbers move when addresses come and go",
        fitting,
        LEAVE,
    )
}

/// The number at the beginning, as C's `strtoll` reads it, of ten digits at most; what follows it does not count.
fn leading_number(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let (text, sign) = match text.strip_prefix('-') {
        Some(rest) => (rest, -1),
        None => (text.strip_prefix('+').unwrap_or(text), 1),
    };
    let (digits, base) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(base));
    let digits = &digits[..end.unwrap_or(digits.len()).min(10)];
    Some(sign * i64::from_str_radix(digits, base).ok()?)
}

fn name_of(half: &Function) -> String {
    half.rdma_device
        .as_value()
        .cloned()
        .unwrap_or_else(|| half.name())
}
