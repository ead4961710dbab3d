//! NVML on a thread of its own, so that a call that hangs costs a time limit and not
//! the program.
//!
//! ```text
//! caller            thread
//!   | -- question --> |  runs it
//!   | <-- answer ---- |
//!   |   or: time over -> later questions fail at once until the thread is done with what it has
//! ```

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::reading::{Failure, Reading};
use crate::version::Version;

use super::api::{NvmlApi, NvmlDevice};
use super::sample::{GpuProcess, GpuSample};

type Question = Box<dyn FnOnce(&dyn NvmlApi) + Send>;

/// An [`NvmlApi`] whose every call ends within a time limit.
#[derive(Debug)]
pub struct Bounded {
    questions: Mutex<Sender<Question>>,
    limit: Duration,
    is_hung: AtomicBool,
    /// Questions that the thread has not done with.
    n_open: Arc<AtomicUsize>,
}

impl Bounded {
    /// Starts the thread and opens NVML on it.
    ///
    /// # Errors
    ///
    /// The failure of `open`, or [`Failure::TimedOut`].
    pub fn start(
        limit: Duration,
        open: impl FnOnce() -> Result<Box<dyn NvmlApi>, Failure> + Send + 'static,
    ) -> Result<Self, Failure> {
        let (questions, inbox) = mpsc::channel::<Question>();
        let (opened, is_open) = mpsc::channel();
        let serve = move || {
            let nvml = match open() {
                Ok(nvml) => nvml,
                Err(why) => {
                    // Nobody waits any more if this fails, and nothing is left to do.
                    let _ = opened.send(Err(why));
                    return;
                }
            };
            if opened.send(Ok(())).is_err() {
                return;
            }
            for question in inbox {
                question(nvml.as_ref());
            }
        };
        std::thread::Builder::new()
            .name("spark-hal-nvml".to_owned())
            .spawn(serve)
            .map_err(|error| Failure::Call {
                call: "thread",
                reason: error.to_string(),
            })?;
        receive("nvmlInit", limit, is_open.recv_timeout(limit))??;
        Ok(Self {
            questions: Mutex::new(questions),
            limit,
            is_hung: AtomicBool::new(false),
            n_open: Arc::default(),
        })
    }

    fn ask<T: Send + 'static>(
        &self,
        call: &'static str,
        question: impl FnOnce(&dyn NvmlApi) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        if self.is_hung.load(Ordering::Acquire) {
            if self.n_open.load(Ordering::Acquire) > 0 {
                // Nothing was asked: an earlier call still holds the thread.
                return Err(Failure::TimedOut {
                    call,
                    after: self.limit,
                });
            }
            // It was late, not lost.
            self.is_hung.store(false, Ordering::Release);
        }
        let (answer, answered) = mpsc::channel();
        let n_open = Arc::clone(&self.n_open);
        n_open.fetch_add(1, Ordering::AcqRel);
        let boxed: Question = Box::new(move |nvml| {
            let told = question(nvml);
            n_open.fetch_sub(1, Ordering::AcqRel);
            // The asker may have given up waiting.
            let _ = answer.send(told);
        });
        let sent = match self.questions.lock() {
            Ok(questions) => questions.send(boxed).is_ok(),
            Err(_) => false,
        };
        if !sent {
            return Err(Failure::Call {
                call,
                reason: "the NVML thread has ended".to_owned(),
            });
        }
        let answer = receive(call, self.limit, answered.recv_timeout(self.limit));
        if matches!(answer, Err(Failure::TimedOut { .. })) {
            self.is_hung.store(true, Ordering::Release);
        }
        answer
    }
}

fn receive<T>(
    call: &'static str,
    after: Duration,
    received: Result<T, RecvTimeoutError>,
) -> Result<T, Failure> {
    received.map_err(|error| match error {
        RecvTimeoutError::Timeout => Failure::TimedOut { call, after },
        RecvTimeoutError::Disconnected => Failure::Call {
            call,
            reason: "the NVML thread has ended".to_owned(),
        },
    })
}

fn flatten<T>(answer: Result<Reading<T>, Failure>) -> Reading<T> {
    answer.unwrap_or_else(Reading::Failed)
}

impl NvmlApi for Bounded {
    fn driver_version(&self) -> Reading<Version> {
        flatten(self.ask("nvmlSystemGetDriverVersion", |nvml| nvml.driver_version()))
    }

    fn cuda_version(&self) -> Reading<Version> {
        flatten(self.ask("nvmlSystemGetCudaDriverVersion", |nvml| nvml.cuda_version()))
    }

    fn device_count(&self) -> Result<u32, Failure> {
        self.ask("nvmlDeviceGetCount", |nvml| nvml.device_count())?
    }

    fn describe(&self, index: u32) -> Result<NvmlDevice, Failure> {
        self.ask("nvml description of a device", move |nvml| {
            nvml.describe(index)
        })?
    }

    fn sample(&self, index: u32) -> Result<GpuSample, Failure> {
        self.ask("nvml sample of a device", move |nvml| nvml.sample(index))?
    }

    fn processes(&self, index: u32) -> Reading<Vec<GpuProcess>> {
        flatten(self.ask("nvml processes of a device", move |nvml| {
            nvml.processes(index)
        }))
    }
}
