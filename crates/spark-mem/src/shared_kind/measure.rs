//! How long a round trip through each kind of memory takes.
//!
//! ```text
//! round     host: every byte = b | kernel: every byte + 1, launched and waited for | host: all b + 1?
//! size      from 16 KiB fourfold until the fastest kind takes half a millisecond, 4 MiB at most
//! rounds    the kinds take turns; three, and up to nine while 25 ms are not over
//! ```
//!
//! A round is what shared buffers are for, and it defeats the caches: each side reads what the other
//! has just written. A kernel and no copy of the driver's measures, because copies from plain memory
//! go through a staging buffer of the driver, which kernels do not need (4 GB/s on a GB10: NVIDIA
//! forum 354506). The host's part is `memset` and `memcmp`, so that a program that is not optimised
//! measures the same. The turns keep a clock that rises meanwhile from favouring one kind.
//!
//! Memory: 4 MiB of each kind, under the budget, given back at the end.

#![allow(unsafe_code, reason = "lets host and device use raw memory in turns")]

use std::any::TypeId;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::code::{Bytes, ImageSource, KernelCode, Precompiled, Text};
use crate::backend::launch::{Arguments, LaunchOptions, LaunchShape};
use crate::backend::place::RawMemory;
use crate::backend::{Backend, Handle, wait_before_giving_back};
use crate::budget::Budget;
use crate::error::{DriverError, MemError};
use crate::kind::BufferKind;

use super::choice::{KindMeasurement, KindSpeed};

/// Bytes of a round, from and to.
const SMALLEST_BYTES: usize = 16 << 10;
const LARGEST_BYTES: usize = 4 << 20;
/// A round that takes as long is long enough for the clock.
const ENOUGH: Duration = Duration::from_micros(500);
/// No round begins later than this, but for the first three.
const LIMIT: Duration = Duration::from_millis(25);
const FEWEST_ROUNDS: usize = 3;
const MOST_ROUNDS: usize = 9;

/// Bytes that a thread of the kernel changes.
const BYTES_PER_THREAD: usize = 16;
const THREADS_PER_BLOCK: u32 = 256;

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub(super) enum MeasureError {
    /// The budget, the driver, or a missing part of it.
    #[error(transparent)]
    Refused(#[from] MemError),
    /// What the device wrote is not what the host read.
    #[error("{0:?} memory gave other values than the device wrote")]
    WrongValues(BufferKind),
}

impl From<DriverError> for MeasureError {
    fn from(error: DriverError) -> Self {
        Self::Refused(error.into())
    }
}

/// Measures these kinds, all of which the device has and the host sees.
pub(super) fn measure(
    backend: &dyn Backend,
    budget: &Budget,
    kinds: &[BufferKind],
) -> Result<KindMeasurement, MeasureError> {
    let started = Instant::now();
    let _reserved = budget.reserve((kinds.len() * LARGEST_BYTES) as u64)?;
    let kernel = backend.load(&code())?;
    let mut bench = Bench {
        backend,
        kernel,
        stream: backend.new_stream()?,
        pieces: Vec::new(),
        is_busy: false,
        n_rounds: 0,
    };
    let measured = bench
        .prepare(kinds)
        .and_then(|len_bytes| bench.take_turns(len_bytes, started));
    // In any case; the first error is the one to report.
    let given_back = bench.give_back();
    let measured = measured?;
    given_back?;
    Ok(measured)
}

/// The kernel: PTX alone, which the driver compiles.
fn code() -> KernelCode {
    let image = ImageSource {
        file: Text::Static("increment.cu"),
        source: Text::Static(""),
        headers: Vec::new(),
        options: Vec::new(),
        precompiled: vec![Precompiled {
            target: Text::Static("compute_80"),
            bytes: Bytes::Static(include_bytes!("../../kernels/increment.ptx")),
        }],
    };
    KernelCode {
        image: Arc::new(image),
        entry: Text::Static("increment_u32"),
        parameters: TypeId::of::<(*mut u32, u32)>(),
        argument_bytes: vec![size_of::<u64>(), size_of::<u32>()],
        host: None,
        host_address: None,
    }
}

/// How long the parts of a round took.
#[derive(Debug, Clone, Copy)]
struct Round {
    host_writes: Duration,
    device_updates: Duration,
    host_reads: Duration,
}

impl Round {
    fn whole(&self) -> Duration {
        self.host_writes + self.device_updates + self.host_reads
    }
}

/// What the measurement holds of a device.
struct Bench<'a> {
    backend: &'a dyn Backend,
    kernel: Handle,
    stream: Handle,
    /// `LARGEST_BYTES` of each kind.
    pieces: Vec<RawMemory>,
    /// Whether the device may still use them.
    is_busy: bool,
    n_rounds: usize,
}

impl Bench<'_> {
    /// Takes the memory, and finds how many bytes a round needs. Every kind has been used before the
    /// clock counts: pages are there, code is loaded.
    fn prepare(&mut self, kinds: &[BufferKind]) -> Result<usize, MeasureError> {
        for kind in kinds {
            self.pieces
                .push(self.backend.allocate(*kind, LARGEST_BYTES, &mut |_| {})?);
        }
        for piece in &self.pieces {
            // SAFETY: new host-visible memory of this many bytes that nobody else knows.
            unsafe { std::ptr::write_bytes(piece.host, 1, LARGEST_BYTES) };
        }
        let mut len_bytes = SMALLEST_BYTES;
        loop {
            let mut shortest = Duration::MAX;
            for idx in 0..self.pieces.len() {
                self.round(idx, len_bytes)?;
                shortest = shortest.min(self.round(idx, len_bytes)?.whole());
            }
            if shortest >= ENOUGH || len_bytes >= LARGEST_BYTES {
                return Ok(len_bytes);
            }
            len_bytes *= 4;
        }
    }

    fn take_turns(
        &mut self,
        len_bytes: usize,
        started: Instant,
    ) -> Result<KindMeasurement, MeasureError> {
        let mut rounds = vec![Vec::with_capacity(MOST_ROUNDS); self.pieces.len()];
        let mut n_rounds = 0;
        while n_rounds < FEWEST_ROUNDS || (n_rounds < MOST_ROUNDS && started.elapsed() < LIMIT) {
            for (idx, rounds) in rounds.iter_mut().enumerate() {
                rounds.push(self.round(idx, len_bytes)?);
            }
            n_rounds += 1;
        }
        let speeds = self.pieces.iter().zip(&rounds);
        Ok(KindMeasurement {
            len_bytes,
            n_rounds,
            speeds: speeds
                .map(|(piece, rounds)| speed_of(piece.kind, rounds))
                .collect(),
        })
    }

    /// One round trip of the first bytes of a piece.
    fn round(&mut self, idx: usize, len_bytes: usize) -> Result<Round, MeasureError> {
        let piece = self.pieces[idx];
        self.n_rounds += 1;
        // Never the byte of the round before, and one more is a byte too.
        let byte = u8::try_from(self.n_rounds % 200).unwrap_or(0);
        let start = Instant::now();
        // SAFETY: the piece has at least this many bytes; the stream has passed all work on it.
        unsafe { std::ptr::write_bytes(piece.host, byte, len_bytes) };
        let written = Instant::now();
        self.update(piece, len_bytes)?;
        let updated = Instant::now();
        // SAFETY: as above; the device has written them and is done.
        let bytes = unsafe { std::slice::from_raw_parts(piece.host, len_bytes) };
        // All are equal to their neighbour: one pass of `memcmp` over the piece.
        let is_right = bytes[0] == byte + 1 && bytes[1..] == bytes[..len_bytes - 1];
        let read = Instant::now();
        if !is_right {
            return Err(MeasureError::WrongValues(piece.kind));
        }
        Ok(Round {
            host_writes: written - start,
            device_updates: updated - written,
            host_reads: read - updated,
        })
    }

    /// The kernel on the first bytes of a piece, and the wait for it.
    fn update(&mut self, piece: RawMemory, len_bytes: usize) -> Result<(), MeasureError> {
        let n_vectors = len_bytes / BYTES_PER_THREAD;
        let shape = LaunchShape::for_elements(n_vectors, THREADS_PER_BLOCK)?;
        let mut arguments = Arguments::default();
        arguments.push_memory(piece.device, len_bytes);
        let n = u32::try_from(n_vectors).unwrap_or(0);
        arguments.push_value(&n.to_ne_bytes());
        let (backend, stream) = (self.backend, self.stream);
        self.is_busy = true;
        // SAFETY: the kernel changes `n_vectors` groups of 16 bytes, which the piece has; it stays
        // until the stream has passed this point, or for good; the host waits.
        let launched =
            unsafe { backend.launch(stream, self.kernel, shape, LaunchOptions::new(), &arguments) };
        // Waited for in any case: memory goes back after it.
        let (is_over, refused) = wait_before_giving_back(|| backend.synchronize(stream));
        self.is_busy = !is_over;
        launched.and(refused.map_or(Ok(()), Err))?;
        Ok(())
    }

    /// Gives everything back; the first error. What the device may still use stays for good.
    fn give_back(&mut self) -> Result<(), DriverError> {
        let mut result = Ok(());
        for piece in self.pieces.drain(..) {
            if !self.is_busy {
                // SAFETY: allocated by this backend, given back once, and no work is left on it.
                result = result.and(unsafe { self.backend.free(piece) });
            }
        }
        result.and(self.backend.drop_stream(self.stream))
    }
}

fn speed_of(kind: BufferKind, rounds: &[Round]) -> KindSpeed {
    let median = |part: fn(&Round) -> Duration| {
        let mut times: Vec<Duration> = rounds.iter().map(part).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    KindSpeed {
        kind,
        host_writes: median(|round| round.host_writes),
        device_updates: median(|round| round.device_updates),
        host_reads: median(|round| round.host_reads),
        round: median(Round::whole),
        fastest_round: rounds.iter().map(Round::whole).min().unwrap_or_default(),
    }
}
