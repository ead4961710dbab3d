//! Commands that remedies name, with the machines' own names of hosts and devices.
//!
//! ```text
//! the same devices on both    mpirun -np 2 --host A,B --map-by node --mca pml ucx -x UCX_NET_DEVICES=D:1,E:1 sparkpilot-mpi measure …
//! others (a ring of three)    mpirun -np 1 --host A … -x UCX_NET_DEVICES=D:1 sparkpilot-mpi measure … : -np 1 --host B … -x UCX_NET_DEVICES=F:1 …
//! ```
//!
//! Names come from records of strangers and are pasted into shells: one that is more than letters, digits and `.-_` is not written into a command.

use super::super::host::{Host, Rail};

/// Two hosts and the rails of each that a command is about.
pub(super) type Ends<'a> = [(&'a Host, Vec<&'a Rail>); 2];

/// Measures by these rails, by RDMA; `label` for a rail that is measured alone.
pub(super) fn measure(ends: &Ends<'_>, label: Option<&str>) -> String {
    let [(a, of_a), (b, of_b)] = ends;
    let (a, b) = (word(&a.name, "SPARK_1"), word(&b.name, "SPARK_2"));
    let (of_a, of_b) = (devices(of_a), devices(of_b));
    let program = match label {
        Some(label) => format!(
            "sparkpilot-mpi measure --rail {} --output FILE",
            word(label, "RAIL")
        ),
        None => "sparkpilot-mpi measure --output FILE".to_owned(),
    };
    let told = |devices: &str| format!("--mca pml ucx -x UCX_NET_DEVICES={devices} {program}");
    match of_a == of_b {
        true => format!("mpirun -np 2 --host {a},{b} --map-by node {}", told(&of_a)),
        false => format!(
            "mpirun -np 1 --host {a} {} : -np 1 --host {b} {}",
            told(&of_a),
            told(&of_b)
        ),
    }
}

/// `rocep1s0f0:1,roceP2p1s0f0:1`, as UCX takes them.
fn devices(rails: &[&Rail]) -> String {
    let names = rails.iter().map(|rail| format!("{}:1", device(rail)));
    names.collect::<Vec<_>>().join(",")
}

/// `rocep1s0f0,roceP2p1s0f0`, as NCCL takes them.
pub(super) fn hca(rails: &[&Rail]) -> String {
    let names: Vec<String> = rails.iter().map(|rail| device(rail)).collect();
    names.join(",")
}

pub(super) fn device(rail: &Rail) -> String {
    let name = rail.function.rdma_device.as_value();
    word(name.map_or("", String::as_str), "DEVICE")
}

fn word(name: &str, otherwise: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let is_word = !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain);
    (if is_word { name } else { otherwise }).to_owned()
}
