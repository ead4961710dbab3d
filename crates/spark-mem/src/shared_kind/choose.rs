//! The choice itself: whose word counts, and where figures come from.

use std::path::Path;
use std::sync::Mutex;

use spark_hal::Root;
use spark_hal::config::{MEMORY_KIND, MemoryKindChoice};

use crate::backend::Backend;
use crate::budget::Budget;
use crate::error::{DriverError, MemError};
use crate::kind::BufferKind;
use crate::lock::lock;

use super::choice::{KindChoice, KindEvidence, KindMeasurement, NotMeasured};
use super::kept::Machine;
use super::measure::{MeasureError, measure};
use super::rule::decide;

/// One at a time: two measurements would disturb each other, and the second finds what the first kept.
static TURN: Mutex<()> = Mutex::new(());

/// What is asked for, and what figures belong to.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    /// The program's word.
    pub(crate) by_caller: Option<BufferKind>,
    /// The user's word.
    pub(crate) by_environment: MemoryKindChoice,
    /// Whether something may be measured.
    pub(crate) measures: bool,
    /// Where figures are kept.
    pub(crate) cache_dir: Option<&'a Path>,
    /// The driver's words for the GPU: with what tells it from others of its model, and without.
    pub(crate) gpu: (&'a str, &'a str),
}

/// The kind that shared buffers get on a GPU.
///
/// # Errors
///
/// [`MemError::KindUnsupported`] and [`MemError::NotOnDevice`] for a kind that the program asks for
/// and that cannot be had; [`MemError::DeviceLost`] if the measurement ended the context.
pub(crate) fn choose(
    backend: &dyn Backend,
    budget: &Budget,
    wanted: &Wanted<'_>,
) -> Result<KindChoice, MemError> {
    let by_attributes = |why| KindChoice::by_attributes(backend.info(), why);
    let usual = by_attributes(NotMeasured::NothingToChoose);
    let given = |kind, evidence| KindChoice {
        kind,
        evidence,
        ..usual.clone()
    };
    if let Some(kind) = wanted.by_caller {
        check(backend, kind)?;
        return Ok(given(kind, KindEvidence::Caller));
    }
    if let Some(kind) = named(wanted.by_environment) {
        return Ok(match check(backend, kind) {
            Ok(()) => given(kind, KindEvidence::Environment),
            Err(why) => {
                let (name, instead) = (MEMORY_KIND.name, usual.kind);
                tracing::warn!("{name} is not followed: {why}; using {instead:?} memory instead");
                by_attributes(NotMeasured::Unavailable(kind))
            }
        });
    }
    let kinds = candidates(backend, usual.kind);
    let cache_dir = match wanted.cache_dir {
        _ if kinds.len() < 2 => return Ok(usual),
        _ if !wanted.measures => return Ok(by_attributes(NotMeasured::NotAsked)),
        None => return Ok(by_attributes(NotMeasured::NoCacheFolder)),
        Some(cache_dir) => cache_dir,
    };
    let (gpu, about) = wanted.gpu;
    let machine = Machine::new(&Root::host(), gpu, about);
    let _turn = lock(&TURN);
    let found = match kept(&machine, cache_dir, &kinds) {
        Some(measurement) => Ok((measurement, KindEvidence::Kept)),
        None => measure(backend, budget, &kinds).map(|measurement| {
            keep(&machine, cache_dir, &measurement);
            (measurement, KindEvidence::Measured)
        }),
    };
    match found {
        Ok((measurement, evidence)) => Ok(by_figures(&usual, measurement, evidence)),
        Err(why) => unmeasured(usual, why),
    }
}

/// The choice where a measurement gave no figures.
fn unmeasured(usual: KindChoice, why: MeasureError) -> Result<KindChoice, MemError> {
    match why {
        MeasureError::Refused(MemError::Driver(error)) if error.is_sticky() => {
            Err(lost(error, usual.kind))
        }
        // Whichever kind it was: a machine on which the two sides read different values shares nothing.
        MeasureError::WrongValues(kind) => {
            tracing::error!(
                "{kind:?} memory gave the CPU other values than the GPU wrote; buffers that both use lie in the GPU's own \
                 memory instead and are copied ({} names a kind all the same)",
                MEMORY_KIND.name
            );
            Ok(KindChoice {
                kind: BufferKind::Device,
                evidence: KindEvidence::Attributes(NotMeasured::WrongValues(kind)),
                ..usual
            })
        }
        MeasureError::Refused(why) => {
            let why = why.to_string();
            tracing::warn!(
                "which memory is fastest for buffers that CPU and GPU use was not measured: {why}; \
                 using {:?} memory, as the hardware's attributes say",
                usual.kind
            );
            Ok(KindChoice {
                evidence: KindEvidence::Attributes(NotMeasured::Failed(why)),
                ..usual
            })
        }
    }
}

fn named(choice: MemoryKindChoice) -> Option<BufferKind> {
    match choice {
        MemoryKindChoice::Auto => None,
        MemoryKindChoice::System => Some(BufferKind::System),
        MemoryKindChoice::Unified => Some(BufferKind::Unified),
        MemoryKindChoice::Pinned => Some(BufferKind::Pinned),
    }
}

/// Whether a GPU has this kind and reaches it.
fn check(backend: &dyn Backend, kind: BufferKind) -> Result<(), MemError> {
    if kind == BufferKind::Host {
        return Err(MemError::NotOnDevice { kind });
    }
    backend
        .supports(kind)
        .map_err(|why| MemError::KindUnsupported {
            kind,
            device: backend.info().name.clone(),
            why,
        })
}

/// The kinds that both sides reach in place, the usual one first; none where nothing is shared.
fn candidates(backend: &dyn Backend, usual: BufferKind) -> Vec<BufferKind> {
    if !backend.info().is_unified {
        return Vec::new();
    }
    let shared = [BufferKind::System, BufferKind::Unified, BufferKind::Pinned];
    let others = shared
        .into_iter()
        .filter(|kind| *kind != usual && backend.supports(*kind).is_ok());
    std::iter::once(usual).chain(others).collect()
}

fn kept(machine: &Machine, cache_dir: &Path, kinds: &[BufferKind]) -> Option<KindMeasurement> {
    machine.read(cache_dir, kinds).unwrap_or_else(|why| {
        tracing::warn!(
            "kept figures of memory `{}` are not used: {why}; measuring again",
            machine.path(cache_dir).display()
        );
        None
    })
}

/// A failure is logged: the figures serve this device all the same.
fn keep(machine: &Machine, cache_dir: &Path, measurement: &KindMeasurement) {
    if let Err(error) = machine.write(cache_dir, measurement) {
        tracing::warn!(
            "figures of memory cannot be kept in `{}`: {error}; they are measured whenever a device is opened",
            machine.path(cache_dir).display()
        );
    }
}

/// What the rule says, told in the log.
fn by_figures(
    usual: &KindChoice,
    measurement: KindMeasurement,
    evidence: KindEvidence,
) -> KindChoice {
    let choice = KindChoice {
        kind: decide(usual.kind, &measurement.speeds),
        by_attributes: usual.kind,
        evidence,
        measurement: Some(measurement),
    };
    if choice.kind == usual.kind {
        tracing::debug!("buffers that CPU and GPU use: {choice}");
    } else {
        tracing::info!(
            "buffers that CPU and GPU use: {choice}; by attributes it would be {:?}",
            usual.kind
        );
    }
    choice
}

/// An error after which the context is of no use. A user can open the device without measuring.
fn lost(error: DriverError, usual: BufferKind) -> MemError {
    let word = format!("{usual:?}").to_lowercase();
    tracing::error!(
        "the device failed while memory was measured; {}={word} opens it without",
        MEMORY_KIND.name
    );
    MemError::DeviceLost(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    #[test]
    fn memory_that_gave_wrong_values_is_not_shared() {
        let usual = Device::emulated(1 << 20).shared_kind_choice().clone();
        let usual = KindChoice {
            kind: BufferKind::System,
            ..usual
        };
        for kind in [BufferKind::System, BufferKind::Pinned] {
            let choice = unmeasured(usual.clone(), MeasureError::WrongValues(kind)).unwrap();
            assert_eq!(choice.kind, BufferKind::Device);
            let evidence = KindEvidence::Attributes(NotMeasured::WrongValues(kind));
            assert_eq!(choice.evidence, evidence);
        }
    }
}
