//! Which target an instruction needs, for those whose forms have no module of their own.
//!
//! Source: ptxas 13.0.88, asked for each line with each target; the paragraphs "Target ISA notes" of
//! PTX ISA 9.1. Forms of floats, conversions and matrices say it themselves (`check_target`).

/// The first target with this instruction, and its compute capability times ten; none if all have it.
pub(super) fn first_target(opcode: &str) -> Option<(&'static str, u32)> {
    let mut parts = opcode.split('.');
    let base = parts.next().unwrap_or_default();
    let parts: Vec<&str> = parts.collect();
    let has = |names: &[&str]| parts.iter().any(|part| names.contains(part));
    let from_90 = match base {
        "griddepcontrol" | "elect" => true,
        // Blocks that share their memory: barriers and the scope of an order.
        _ if has(&["cluster"]) => true,
        "atom" | "red" => has(&["bf16", "bf16x2", "v2", "v4", "v8"]),
        "add" | "min" | "max" => has(&["u16x2", "s16x2"]) || (has(&["relu"]) && has(&["s32"])),
        _ => false,
    };
    if from_90 {
        return Some(("sm_90", 90));
    }
    let is_wide = has(&["v8"]) || (has(&["v4"]) && has(&["b64", "u64", "s64", "f64"]));
    (matches!(base, "ld" | "st") && is_wide).then_some(("sm_100", 100))
}
