//! Clock and power of a GPU at work, and what it says slows it down.
//!
//! ```text
//! heat, or an external brake, in a good part of the looks   a finding on every GPU
//! the power's limit in a good part of them                  a finding on a GB10; a card of a data centre is made to
//!                                                           work at its limit, and its rate says whether it does
//! the clock and the watts                                   held against the bands of a GB10 alone
//! ```
//!
//! What a hot GPU does follows from its heat: no advice about it speaks of power.

use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Severity, Verdict, found, not_examined};
use crate::limits::{BUSY_PERCENT, STUCK_MHZ};
use crate::nvml::ThrottleReason;

use super::looks::{Looks, loaded_any, loaded_spark};
use super::share::{SLOW_SHARE, share_of_clock};

/// Below every clock that anybody calls healthy, held ones included.
const SLOW_MHZ: u32 = 2000;
/// The lowest clock that owners publish of a healthy GB10 at work.
const HEALTHY_MHZ: u32 = 2184;
/// Between the caps of 30 W and the 45 W and more of healthy ones.
const CAPPED_MW: u32 = 40_000;

const UNPLUG: &str = "if clocks were set with nvidia-smi -lgc: sudo nvidia-smi -rgc; else shut down, unplug the \
     supply from wall and machine for a minute, use the original one of 240 W; then update the firmware; if it comes back, \
     the machine is a case for its warranty";
const COOL: &str = "free the air flow, clean vents and filters of dust, put it where the air is cooler; until then: \
     sudo nvidia-smi -lgc 0,2100";
const UNSET: &str = "if clocks were set with nvidia-smi -lgc: sudo nvidia-smi -rgc; else end what else works, give the machine \
     air and measure once more";

fn is_held(reason: ThrottleReason) -> bool {
    reason == ThrottleReason::ApplicationClocks
}

fn is_capped(reason: ThrottleReason) -> bool {
    reason == ThrottleReason::PowerCap
}

fn is_braked(reason: ThrottleReason) -> bool {
    reason == ThrottleReason::PowerBrake
}

/// `at 2093 MHz`, if the clock is told.
fn at_clock(looks: &Looks<'_>) -> String {
    let clock = looks.median_mhz();
    clock.map_or_else(String::new, |clock| format!(" at {clock} MHz"))
}

pub(super) fn clocks(facts: &Facts) -> Verdict {
    if let Some(verdict) = loaded_any(facts).ok().and_then(|gpu| {
        let looks = Looks::at_work(gpu);
        let often = looks.often(ThrottleReason::is_thermal)?;
        Some(found(
            Severity::Warning,
            format!(
                "under load the GPU gets too hot and slows down: in {often}{}",
                at_clock(&looks)
            ),
            looks.seen(),
            COOL,
        ))
    }) {
        return verdict;
    }
    let gpu = match loaded_spark(facts) {
        Ok(gpu) => gpu,
        Err(verdict) => return verdict,
    };
    let looks = Looks::at_work(gpu);
    let Some(clock) = looks.median_mhz() else {
        return not_examined("needs the clock of the multiprocessors from NVML under load");
    };
    if clock >= HEALTHY_MHZ {
        return Verdict::Passed;
    }
    if let Some(heat) = looks.heat() {
        return found(
            Severity::Warning,
            format!("under load the GPU gets too hot ({heat}) and falls to {clock} MHz"),
            looks.seen(),
            COOL,
        );
    }
    match (looks.often(is_held).is_some(), clock) {
        (true, SLOW_MHZ..) => Verdict::Passed,
        (true, _) => not_examined(format!(
            "needs clocks that nobody holds at {clock} MHz: sudo nvidia-smi -rgc"
        )),
        (false, SLOW_MHZ..) => found(
            Severity::Note,
            format!(
                "under load the GPU runs at {clock} MHz, a little below the {HEALTHY_MHZ} to 2418 MHz of healthy ones"
            ),
            looks.seen(),
            UNSET,
        ),
        (false, STUCK_MHZ..) => found(
            Severity::Warning,
            format!(
                "under load the GPU runs at {clock} MHz, healthy ones at {HEALTHY_MHZ} to 2418"
            ),
            looks.seen(),
            UNPLUG,
        ),
        (false, _) => found(
            Severity::Error,
            format!("under load the GPU stays at {clock} MHz, of about 2400"),
            looks.seen(),
            UNPLUG,
        ),
    }
}

pub(super) fn power(facts: &Facts) -> Verdict {
    if let Some(verdict) = loaded_any(facts).ok().and_then(|gpu| {
        let looks = Looks::at_work(gpu);
        let often = looks.often(is_braked)?;
        Some(found(
            Severity::Warning,
            format!(
                "under load the machine's power supply brakes the GPU: in {often}{}",
                at_clock(&looks)
            ),
            looks.seen(),
            "see that the supply is the original one (240 W for a DGX Spark), plugged in firmly, and that no other device draws \
             on it; then update the firmware",
        ))
    }) {
        return verdict;
    }
    let gpu = match loaded_spark(facts) {
        Ok(gpu) => gpu,
        Err(verdict) => return verdict,
    };
    let looks = Looks::at_work(gpu);
    let most = looks.most_mw();
    let capped = looks.often(is_capped);
    let watts = most.map_or_else(
        || "an unknown number of watts".to_owned(),
        |most| format!("{:.0} W", f64::from(most) / 1e3),
    );
    if most.is_none_or(|most| most >= CAPPED_MW) {
        return match (capped, most) {
            (Some(often), _) => held_back(&looks, Severity::Warning, &watts, Some(&often)),
            (None, Some(_)) => Verdict::Passed,
            (None, None) => not_examined("needs the power drawn from NVML under load"),
        };
    }
    if !looks.are_busier_than(BUSY_PERCENT) && capped.is_none() {
        return not_examined("needs a GPU that is busy under load, as NVML sees it");
    }
    let Some(clock) = looks.median_mhz() else {
        return match capped {
            Some(often) => held_back(&looks, Severity::Error, &watts, Some(&often)),
            None => not_examined(format!(
                "needs the clock of the multiprocessors from NVML: {watts} say too little alone"
            )),
        };
    };
    let is_slow = clock < SLOW_MHZ && looks.often(is_held).is_none();
    if is_slow || looks.is_said(is_capped) {
        return held_back(&looks, Severity::Error, &watts, capped.as_deref());
    }
    // Little power, full clock: the work done says whether it computes or waits.
    match share_of_clock(gpu) {
        Err(verdict) => verdict,
        Ok(share) if share.of_expected >= SLOW_SHARE => Verdict::Passed,
        Ok(share) => found(
            Severity::Warning,
            format!(
                "the GPU is busy at full clock, draws {watts} and gets little done: something spins"
            ),
            [looks.seen(), vec![share.seen]].concat(),
            "see with nvidia-smi what else runs on it, and end that; if it cannot be ended, reboot",
        ),
    }
}

/// A GB10 that gets less power than it could use: by its heat, if it is hot.
fn held_back(looks: &Looks<'_>, severity: Severity, watts: &str, capped: Option<&str>) -> Verdict {
    let does = format!(
        "under load the GPU draws {watts} at most{}",
        at_clock(looks)
    );
    if let Some(heat) = looks.heat() {
        return found(
            Severity::Warning,
            format!("{does}: it is hot ({heat}), healthy ones draw 45 to 93 W"),
            looks.seen(),
            COOL,
        );
    }
    let often = capped.map_or_else(String::new, |often| format!(" in {often}"));
    found(
        severity,
        format!("{does}: its power is capped{often}, healthy ones draw 45 to 93 W"),
        looks.seen(),
        UNPLUG,
    )
}
