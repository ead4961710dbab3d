//! An operand of a GEMM or convolution as a tensor core of few bits is given it.
//!
//! ```text
//! copy     [pixel][channels], as they are               any pixels, on any thread; and their largest magnitude
//! scale    of the largest magnitude of all, unless it was chosen before
//! round    each pixel's channels to the format and back  any pixels, on any thread
//! ```
//!
//! The values are those of `spark_quant`'s round trip to the last bit, whatever the number of threads: the largest of all is the
//! largest of the parts'.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use spark_parallel::Pool;
use spark_quant::block::RoundTrip;
use spark_quant::{ExecutionPolicy, QuantError, Recipe};

use super::gemm::TASKS_PER_THREAD;

/// Activations quantised in one task, at least.
const LEAST_ACTIVATIONS: usize = 16 * 1024;

/// What an operand goes through.
pub(super) struct RoundedOperand {
    recipe: Recipe,
    /// With a scale that was chosen before.
    fixed: Option<RoundTrip>,
    /// Found at load, as finding it takes memory.
    cpu: ExecutionPolicy,
}

/// Where rounded values go.
struct Rows {
    start: *mut f32,
    channels: usize,
}

// SAFETY: the pointer goes into a buffer that outlives the run; tasks write pixels of their own.
unsafe impl Sync for Rows {}

impl Rows {
    /// # Safety
    ///
    /// The pixels must be there, and nobody else may use them meanwhile.
    #[allow(
        clippy::mut_from_ref,
        reason = "rows are a pointer; the caller vouches for exclusive use"
    )]
    unsafe fn of(&self, pixels: &Range<usize>) -> &mut [f32] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let start = self.start.add(pixels.start * self.channels);
            std::slice::from_raw_parts_mut(start, pixels.len() * self.channels)
        }
    }
}

impl RoundedOperand {
    /// By a recipe, with a scale that was chosen before or that of the largest magnitude of each run.
    ///
    /// # Errors
    ///
    /// As [`RoundTrip::with_scale`].
    pub(super) fn new(recipe: Recipe, scale: Option<f32>) -> Result<Self, QuantError> {
        let fixed = scale.map(|scale| RoundTrip::with_scale(recipe, scale));
        Ok(Self {
            recipe,
            fixed: fixed.transpose()?,
            cpu: ExecutionPolicy::one_thread(),
        })
    }

    /// Writes `extents` of pixels and channels, side by side; `pixel` says where the channels of one are.
    ///
    /// # Safety
    ///
    /// `to` must have room for all of them, which nobody else uses meanwhile; `pixel` must point at as many channels, elsewhere.
    ///
    /// # Errors
    ///
    /// [`QuantError::NotFinite`] if a value is not, with its place among those written.
    pub(super) unsafe fn round(
        &self,
        pool: &Pool,
        to: *mut f32,
        [pixels, channels]: [usize; 2],
        pixel: impl Fn(usize) -> *const f32 + Sync,
    ) -> Result<(), QuantError> {
        let parts = (pixels * channels / LEAST_ACTIVATIONS)
            .clamp(1, TASKS_PER_THREAD * pool.threads())
            .min(pixels.max(1));
        let range = |part: usize| pixels * part / parts..pixels * (part + 1) / parts;
        let cpu = self.cpu;
        let rows = &Rows {
            start: to,
            channels,
        };
        let largest = AtomicU32::new(0);
        let failure = Mutex::new(None);
        pool.run(parts, |part| {
            let part = range(part);
            // SAFETY: guaranteed by the caller; tasks have pixels of their own.
            let values = unsafe { rows.of(&part) };
            for (at, to) in part.clone().zip(values.chunks_exact_mut(channels.max(1))) {
                // SAFETY: guaranteed by the caller.
                let from = unsafe { std::slice::from_raw_parts(pixel(at), channels) };
                to.copy_from_slice(from);
            }
            match (RoundTrip::largest(cpu, values), self.fixed) {
                (Ok(_), Some(trip)) => {
                    if let Err(error) = trip.apply(cpu, values, channels) {
                        save_first(&failure, part.start * channels, error);
                    }
                }
                // Magnitudes are in the order of their bits.
                (Ok(value), None) => _ = largest.fetch_max(value.to_bits(), Ordering::Relaxed),
                (Err(error), _) => save_first(&failure, part.start * channels, error),
            }
        });
        if let Ok(Some((_, error))) = failure.into_inner() {
            return Err(error);
        }
        if self.fixed.is_some() {
            return Ok(());
        }
        let trip = RoundTrip::new(self.recipe, f32::from_bits(largest.into_inner()))?;
        let failure = Mutex::new(None);
        pool.run(parts, |part| {
            let part = range(part);
            // SAFETY: written above; tasks have pixels of their own.
            let values = unsafe { rows.of(&part) };
            if let Err(error) = trip.apply(cpu, values, channels) {
                save_first(&failure, part.start * channels, error);
            }
        });
        match failure.into_inner() {
            Ok(Some((_, error))) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Saves the error of the part that begins first, whichever thread comes first; `start` is the part's first value.
fn save_first(saved: &Mutex<Option<(usize, QuantError)>>, start: usize, error: QuantError) {
    if let Ok(mut saved) = saved.lock()
        && saved.as_ref().is_none_or(|(first, _)| start < *first)
    {
        *saved = Some((start, behind(error, start)));
    }
}

/// The error of values that lie behind so many others.
pub(super) fn behind(error: QuantError, others: usize) -> QuantError {
    match error {
        QuantError::NotFinite { index, value } => QuantError::NotFinite {
            index: index + others,
            value,
        },
        error => error,
    }
}
