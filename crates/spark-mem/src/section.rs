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
//! A stream that waits for an event of a recording joins it, once nobody is inside that stream
//! either; the thread that records is then inside none. When the recording ends all its streams
//! leave it.
//!
//! CUDA's capture mode is "relaxed": it forbids no thread anything on other streams. What it
//! leaves to the caller, namely that nobody else touches the captured stream, is done here.
//!
//! # Order in which things are waited for
//!
//! ```text
//! 1  mirror of a buffer      held while its guard is opened; the staging ring, during a copy
//! 2  section of a stream     entered; never waited for by somebody inside another section
//! 3  memory in use by work   taken in the order of addresses, until the work is handed over
//! 4  state of a section, then the notes of its recording; state of an allocation, a pool, the
//!    backend's tables:       mutexes, for a few instructions or one call of the driver
//! ```
//!
//! None of the mutexes is held while code of the program runs. On devices without a driver,
//! the host version of a kernel runs while its thread is inside (2) and uses memory (3): other
//! work on that memory waits for it as it must. There streams and guards are refused with
//! [`MemError::InsideKernel`], as a GPU refuses its callbacks; dropping buffers is possible.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::backend::software::is_inside_kernel;
use crate::error::MemError;
use crate::lock::{lock, wait};
use crate::memory::block::{Block, Queue};
use crate::recording::{Mark, Recorded, Recording};
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
    /// What this stream records, and its number there.
    recording: Option<(Arc<Recording>, usize)>,
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
        let recording = match (&state.recording, rule) {
            (None, _) => None,
            (Some((recording, member)), InRecording::Allowed) if recording.is_of_this_thread() => {
                Some((Arc::clone(recording), *member))
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
            recording,
        })
    }

    /// Begins a recording of this thread by this stream, once nobody is inside.
    ///
    /// # Errors
    ///
    /// [`MemError::Capturing`] if there is one already; those of `begin`.
    pub(crate) fn begin(
        &self,
        queue: Arc<dyn Queue>,
        begin: impl FnOnce() -> Result<(), MemError>,
    ) -> Result<(), MemError> {
        self.take_part(|| {
            begin()?;
            Ok((Arc::new(Recording::new(queue)), 0))
        })
    }

    /// Joins a recording of this thread behind a mark of it, once nobody is inside.
    ///
    /// # Errors
    ///
    /// [`MemError::Capturing`] if this stream records something else, or another thread does; those
    /// of `join`.
    pub(crate) fn join(
        &self,
        queue: Arc<dyn Queue>,
        mark: &Mark,
        recording: &Arc<Recording>,
        join: impl FnOnce() -> Result<(), MemError>,
    ) -> Result<(), MemError> {
        if !recording.is_of_this_thread() {
            return Err(MemError::Capturing {
                what: "joining the recording of another thread",
            });
        }
        // Only this thread ends it, so it stays as it is from here on.
        if recording.is_over() {
            return Err(MemError::EventOfRecording {
                what: "waiting for it after the recording's end",
            });
        }
        self.take_part(|| {
            join()?;
            let member = recording.join(queue, mark);
            Ok((Arc::clone(recording), member))
        })
    }

    fn take_part(
        &self,
        begin: impl FnOnce() -> Result<(Arc<Recording>, usize), MemError>,
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
            None => begin().map(|recording| state.recording = Some(recording)),
        };
        drop(state);
        self.changed.notify_all();
        begun
    }

    /// What this thread records by this stream, and the stream's number there.
    pub(crate) fn recording_here(&self) -> Option<(Arc<Recording>, usize)> {
        let state = lock(&self.state);
        let recording = state.recording.as_ref();
        recording
            .filter(|(recording, _)| recording.is_of_this_thread())
            .cloned()
    }

    /// Ends the recording that this stream began. What it kept is handed out, to be given back
    /// without any lock.
    pub(crate) fn end<T>(&self, end: impl FnOnce() -> T) -> (T, Recorded) {
        let mut state = lock(&self.state);
        let ended = end();
        let Some((recording, _)) = state.recording.take() else {
            return (ended, Recorded::default());
        };
        let (recorded, members) = recording.end();
        drop(state);
        for member in members {
            member.leave_recording(recording.id());
        }
        (ended, recorded)
    }

    /// A recording has ended that this stream took part in. It may take part in another by now, of
    /// another thread, which goes on.
    pub(crate) fn leave_recording(&self, ended: u64) {
        let mut state = lock(&self.state);
        if matches!(&state.recording, Some((recording, _)) if recording.id() == ended) {
            state.recording = None;
        }
    }

    /// Whether this thread is recording: what it has just queued did not run.
    pub(crate) fn is_recording_here(&self) -> bool {
        self.recording_here().is_some()
    }

    /// Notes a copy that this thread has queued within its recording. False if there is none:
    /// the copy was queued to run.
    pub(crate) fn record_copy(&self, direction: Direction, n_bytes: usize) -> bool {
        match self.recording_here() {
            Some((recording, _)) => {
                recording.note_copy(direction, n_bytes);
                true
            }
            None => false,
        }
    }

    /// Waits for work that may still use a block, or, during a recording, when nothing can be
    /// waited for, takes the block until it ends. Gives back the block that nothing uses; one whose
    /// work is not over after the wait stays for good.
    pub(crate) fn wait_or_keep(
        &self,
        mut block: Block,
        is_over: impl FnOnce() -> bool,
    ) -> Option<Block> {
        let mut state = lock(&self.state);
        if let Some((recording, _)) = &state.recording {
            block = recording.keep(block)?;
        }
        state.n_inside += 1;
        drop(state);
        let inside = Inside {
            section: self,
            recording: None,
        };
        let is_free = is_over();
        drop(inside);
        if !is_free {
            block.stay();
            return None;
        }
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
    recording: Option<(Arc<Recording>, usize)>,
}

impl Inside<'_> {
    /// What is recorded now and does not run, and the number of this stream there.
    pub(crate) fn recording(&self) -> Option<&(Arc<Recording>, usize)> {
        self.recording.as_ref()
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

#[cfg(test)]
mod tests {
    use crate::{Device, MemError};

    /// Between the end of a recording and what its streams are told of it another thread may begin
    /// the next.
    #[test]
    fn the_end_of_one_recording_leaves_the_next_alone() {
        let device = Device::host();
        let stream = device.new_stream().unwrap();
        let section = stream.section();
        section.begin(stream.queue(), || Ok(())).unwrap();
        let (recording, _) = section.recording_here().unwrap();
        section.leave_recording(recording.id() - 1);
        assert!(section.is_recording_here());
        section.leave_recording(recording.id());
        assert!(!section.is_recording_here());
    }

    /// Somebody else may hold a recording by one of its marks when it is over.
    #[test]
    fn what_has_ended_is_not_joined() {
        let device = Device::host();
        let (stream, late) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        let section = stream.section();
        section.begin(stream.queue(), || Ok(())).unwrap();
        let (recording, member) = section.recording_here().unwrap();
        let mark = recording.mark(member);
        section.end(|| ());
        let joined = late
            .section()
            .join(late.queue(), &mark, &recording, || Ok(()));
        assert!(matches!(joined, Err(MemError::EventOfRecording { .. })));
        assert!(late.synchronize().is_ok());
    }
}
