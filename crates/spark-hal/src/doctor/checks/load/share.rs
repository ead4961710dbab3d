//! What arithmetic in registers reached of what a GPU's lanes allow at the clock that it tells.

use crate::capability::ComputeCapability;
use crate::doctor::load::{GpuLoad, Work, in_digits};
use crate::doctor::verdict::{Seen, Verdict, not_examined, seen};

use super::looks::{MEASURE, median_mhz};

/// Share of a rate under which a GPU counts as slow at its clock; the slow state that was seen has 0.3.
pub(super) const SLOW_SHARE: f64 = 0.5;
/// Below this share of a healthy rate no GPU computes: an interpreter, or a program under a debugger.
pub(super) const EMULATED_SHARE: f64 = 0.01;
/// More than lanes and clock allow, with a tenth for a clock that rose between two looks.
const MOST_SHARE: f64 = 1.1;

/// What arithmetic reached of what lanes and clock allow.
pub(super) struct Share {
    pub(super) of_expected: f64,
    pub(super) tflops: f64,
    pub(super) expected: f64,
    pub(super) seen: Seen,
}

/// Additions with multiplication that a multiprocessor does per clock.
fn lanes(compute: ComputeCapability) -> Option<u32> {
    match compute.sm() {
        50..60 | 61 | 62 | 86..=90 | 100..=121 => Some(128),
        60 | 70..=80 => Some(64),
        _ => None,
    }
}

pub(super) fn share_of_clock(gpu: &GpuLoad) -> Result<Share, Verdict> {
    let Some(phase) = gpu.phase(Work::Arithmetic) else {
        return Err(not_examined(format!("needs a run to its end: {MEASURE}")));
    };
    let tflops = phase.rate.median;
    let measured = in_digits(tflops, 2);
    let Some(lanes) = gpu.compute.and_then(lanes) else {
        return Err(not_examined(format!(
            "needs to know how many lanes a multiprocessor of {} has: {measured} TFLOPS were measured",
            gpu.name
        )));
    };
    let Some(clock) = median_mhz(&phase.samples) else {
        return Err(not_examined(format!(
            "needs the clock of the multiprocessors from NVML under load: {measured} TFLOPS were measured"
        )));
    };
    let per_clock = f64::from(gpu.n_multiprocessors) * f64::from(lanes) * 2.0;
    let expected = per_clock * f64::from(clock) / 1e6;
    if expected <= 0.0 || tflops < EMULATED_SHARE * expected {
        return Err(emulated(&format!("{} TFLOPS", in_digits(tflops, 6))));
    }
    let allowed = format!(
        "{} multiprocessors of {lanes} lanes at {clock} MHz reach {expected:.2} at most",
        gpu.n_multiprocessors
    );
    let of_expected = tflops / expected;
    // What is no number is no rate either.
    if !(EMULATED_SHARE..=MOST_SHARE).contains(&of_expected) {
        return Err(not_examined(format!(
            "needs a measurement of arithmetic: {measured} TFLOPS are no rate of a GPU of which {allowed}"
        )));
    }
    Ok(Share {
        of_expected,
        tflops,
        expected,
        seen: seen(
            "arithmetic of f32 in registers",
            format!("{measured} TFLOPS; {allowed}"),
        ),
    })
}

pub(super) fn emulated(rate: &str) -> Verdict {
    not_examined(format!(
        "needs a GPU that computes by itself: {rate} are those of an emulated one, or of a program under a debugger"
    ))
}
