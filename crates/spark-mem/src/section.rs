//! The critical section of a stream: it keeps recordings apart from the work of other threads.
//!
//! ```text
//! work        enter ── order after other streams ── hand to the backend ── note ── leave
//! capture     wait until nobody is inside ── begin ── closure ── end
//!                                             └ meanwhile only its thread may enter
//! ```
//!
//! All clones of a stream share one section. Several threads may be inside at once, since
//! the driver's queue takes work of several threads; a recording begins when nobody is inside.
//! So whatever was checked before a recording is also queued and noted before it, and a graph
//! never holds work that it does not know. While a recording lasts, other threads are refused
//! with [`MemError::Capturing`] and do not wait: the capturing thread runs a closure of the
//! program, which may itself be waiting for them.
//!
//! CUDA's capture mode is "relaxed": it forbids no thread anything on other streams. What it
//! leaves to the caller, namely that nobody else touches the captured stream, is done here.
//!
//! # Order in which things are waited for
//!
//! ```text
//! 1  mirror of a buffer      held while its guard is opened
//! 2  section of a stream     entered; never waited for by somebody inside another section
//! 3  memory in use by work   taken in the order of addresses, until the work is handed over
//! 4  state of a section, state of an allocation, a pool, the backend's tables:
//!                            mutexes, for a few instructions or one call of the driver
//! ```
//!
//! None of the mutexes is held while code of the program runs. On devices without a driver,
//! the host version of a kernel runs while its thread is inside (2) and uses memory (3): other
//! work on that memory waits for it as it must. There streams and guards are refused with
//! [`MemError::InsideKernel`], as a GPU refuses its callbacks; dropping buffers is possible.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::ThreadId;

use crate::backend::software::is_inside_kernel;
use crate::error::MemError;
use crate::lock::{lock, wait};
use crate::memory::allocation::Allocation;
use crate::memory::block::Block;
use crate::stats::Direction;

/// The critical section of a stream. See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Section {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Pieces of work between check and note, and waits for the stream.
    n_inside: usize,
    /// Threads that wait for `n_inside` to become 0 to begin a recording.
    n_waiting: usize,
    recording: Option<Recording>,
}

/// What a graph being recorded will use.
#[derive(Debug)]
struct Recording {
    thread: ThreadId,
    uses: Vec<(Arc<Allocation>, bool)>,
    /// Direction and bytes of the copies, which every launch makes.
    copies: Vec<(Direction, usize)>,
    /// Memory dropped meanwhile whose earlier work on this stream cannot be waited for.
    kept: Vec<Block>,
}

/// What a recording leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// Memory that the graph uses, and whether it writes it.
    pub(crate) uses: Vec<(Arc<Allocation>, bool)>,
    /// Direction and bytes of the copies that every launch of the graph makes.
    pub(crate) copies: Vec<(Direction, usize)>,
    /// Memory that can be given back now.
    pub(crate) kept: Vec<Block>,
}

/// Whether an operation can be part of a recording.
#[derive(Debug, Clone, Copy)]
pub(crate) enum InRecording {
    /// The capturing thread may queue it.
    Allowed,
    /// Nobody may; this is what was tried.
    Refused(&'static str),
}

impl Section {
    /// Enters to queue work, to wait, or to ask. Lets a thread go first that waits to begin a
    /// recording, so that other threads cannot keep it waiting for ever.
    ///
    /// The caller must not be inside a section, or use memory.
    pub(crate) fn enter(&self, rule: InRecording) -> Result<Inside<'_>, MemError> {
        refuse_inside_kernel()?;
        let mut state = lock(&self.state);
        while state.n_waiting > 0 && state.recording.is_none() {
            state = wait(&self.changed, state);
        }
        self.enter_locked(state, rule)
    }

    /// Enters without waiting for anybody: for those who are inside another section, and for
    /// memory that is given back. Refused during any recording.
    pub(crate) fn enter_at_once(&self, what: &'static str) -> Result<Inside<'_>, MemError> {
        self.enter_locked(lock(&self.state), InRecording::Refused(what))
    }

    fn enter_locked(
        &self,
        mut state: MutexGuard<'_, State>,
        rule: InRecording,
    ) -> Result<Inside<'_>, MemError> {
        let is_recording = match (&state.recording, rule) {
            (None, _) => false,
            (Some(recording), InRecording::Allowed)
                if recording.thread == std::thread::current().id() =>
            {
                true
            }
            (Some(_), InRecording::Allowed) => {
                return Err(MemError::Capturing {
                    what: "queueing work from another thread",
                });
            }
            (Some(_), InRecording::Refused(what)) => return Err(MemError::Capturing { what }),
        };
        state.n_inside += 1;
        Ok(Inside {
            section: self,
            is_recording,
        })
    }

    /// Begins a recording of this thread, once nobody is inside.
    ///
    /// # Errors
    ///
    /// [`MemError::Capturing`] if there is one already; those of `begin`.
    pub(crate) fn begin(
        &self,
        begin: impl FnOnce() -> Result<(), MemError>,
    ) -> Result<(), MemError> {
        refuse_inside_kernel()?;
        let mut state = lock(&self.state);
        state.n_waiting += 1;
        while state.recording.is_none() && state.n_inside > 0 {
            state = wait(&self.changed, state);
        }
        state.n_waiting -= 1;
        let begun = match state.recording {
            Some(_) => Err(MemError::Capturing {
                what: "a second recording",
            }),
            None => begin(),
        };
        if begun.is_ok() {
            state.recording = Some(Recording {
                thread: std::thread::current().id(),
                uses: Vec::new(),
                copies: Vec::new(),
                kept: Vec::new(),
            });
        }
        drop(state);
        self.changed.notify_all();
        begun
    }

    /// Ends the recording. What it kept is handed out, to be given back without any lock.
    pub(crate) fn end<T>(&self, end: impl FnOnce() -> T) -> (T, Recorded) {
        let mut state = lock(&self.state);
        let ended = end();
        let Some(recording) = state.recording.take() else {
            return (ended, Recorded::default());
        };
        let recorded = Recorded {
            uses: recording.uses,
            copies: recording.copies,
            kept: recording.kept,
        };
        (ended, recorded)
    }

    /// Whether this thread is recording: what it has just queued did not run.
    pub(crate) fn is_recording_here(&self) -> bool {
        let state = lock(&self.state);
        let recording = state.recording.as_ref();
        recording.is_some_and(|recording| recording.thread == std::thread::current().id())
    }

    /// Notes a copy that this thread has queued within its recording. False if there is none:
    /// the copy was queued to run.
    pub(crate) fn record_copy(&self, direction: Direction, n_bytes: usize) -> bool {
        let mut state = lock(&self.state);
        match &mut state.recording {
            Some(recording) if recording.thread == std::thread::current().id() => {
                recording.copies.push((direction, n_bytes));
                true
            }
            _ => false,
        }
    }

    /// Waits for work that may still use a block, or, during a recording, when nothing can be
    /// waited for, takes the block until it ends. Gives back the block that nothing uses.
    pub(crate) fn wait_or_keep(&self, block: Block, wait_for_work: impl FnOnce()) -> Option<Block> {
        let mut state = lock(&self.state);
        if let Some(recording) = &mut state.recording {
            recording.kept.push(block);
            return None;
        }
        state.n_inside += 1;
        drop(state);
        let inside = Inside {
            section: self,
            is_recording: false,
        };
        wait_for_work();
        drop(inside);
        Some(block)
    }
}

/// A GPU's kernel cannot queue work, and waiting here could be waiting for oneself.
pub(crate) fn refuse_inside_kernel() -> Result<(), MemError> {
    if is_inside_kernel() {
        return Err(MemError::InsideKernel);
    }
    Ok(())
}

/// A thread inside a section; it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    section: &'a Section,
    is_recording: bool,
}

impl Inside<'_> {
    /// Whether what is queued now is recorded and does not run.
    pub(crate) fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// Notes memory that the graph being recorded uses, and keeps.
    pub(crate) fn record_use(&self, allocation: &Arc<Allocation>, writes: bool) {
        let mut state = lock(&self.section.state);
        let Some(recording) = &mut state.recording else {
            return;
        };
        let known = recording
            .uses
            .iter_mut()
            .find(|(known, _)| Arc::ptr_eq(known, allocation));
        match known {
            Some((_, known_writes)) => *known_writes |= writes,
            None => recording.uses.push((Arc::clone(allocation), writes)),
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.section.state);
        state.n_inside -= 1;
        let is_waited_for = state.n_inside == 0 && state.n_waiting > 0;
        drop(state);
        if is_waited_for {
            self.section.changed.notify_all();
        }
    }
}
