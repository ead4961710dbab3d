//! GPUs looked at on a thread of their own, so that a driver that hangs holds nobody up.
//!
//! ```text
//! caller                       thread
//!   |                            opens the library of NVIDIA's, which may take seconds or never end
//!   | -- look! --------------->  |  Sampler::look
//!   | <- samples --------------  |
//!   |    or: not yet             |  no second question is asked while one is open
//! ```
//!
//! Deliberately absent: giving up. A late answer is an answer, and how long it is awaited is told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use crate::gpu::Gpu;
use crate::machine::machine;
use crate::reading::Failure;

use super::sample::Sample;
use super::sampler::Sampler;

/// What is known of a machine's GPUs once they are opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownGpus {
    /// The machine in a few words.
    pub machine: String,
    /// Names of GPUs by NVML's numbers.
    pub names: BTreeMap<u32, String>,
}

/// What opens the GPUs: the sampler, or why there is none, and what is known of the machine.
pub type OpenGpus = Box<dyn FnOnce() -> (Result<Sampler, Failure>, KnownGpus) + Send>;

enum News {
    Opened(Arc<KnownGpus>, Result<(), String>),
    Samples(Vec<Sample>),
}

/// What the GPUs told when they were asked for it.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuAnswer {
    /// What is known of them; nothing before they are opened.
    pub known: Arc<KnownGpus>,
    /// A sample of each that came within this look, asked for in it or, where it was late, in the one before; or why
    /// there is none.
    pub samples: Result<Vec<Sample>, String>,
    /// For how long an answer has been awaited, where there is none yet.
    pub unanswered: Option<Duration>,
}

/// The thread, and what it was asked and said.
pub(super) struct GpuWorker {
    questions: Sender<()>,
    news: Receiver<News>,
    known: Arc<KnownGpus>,
    /// Why there is nothing to ask.
    refused: Option<String>,
    /// Since when an answer is awaited.
    asked: Option<Instant>,
}

impl GpuWorker {
    /// Starts the thread, which opens the GPUs first.
    pub(super) fn start(open: OpenGpus) -> Self {
        let (questions, inbox) = mpsc::channel();
        let (outbox, news) = mpsc::channel();
        let work = move || {
            let (sampler, known) = open();
            let outcome = sampler.as_ref().map(drop).map_err(ToString::to_string);
            if outbox.send(News::Opened(Arc::new(known), outcome)).is_err() {
                return;
            }
            let Ok(mut sampler) = sampler else {
                return;
            };
            for () in inbox {
                if outbox.send(News::Samples(sampler.look())).is_err() {
                    return;
                }
            }
        };
        let started = std::thread::Builder::new()
            .name("spark-hal-gpus".to_owned())
            .spawn(work);
        Self {
            questions,
            news,
            known: Arc::default(),
            refused: started
                .err()
                .map(|error| format!("the system refuses a thread: {error}")),
            asked: Some(Instant::now()),
        }
    }

    /// Asks for a look, unless an answer is still awaited.
    pub(super) fn ask(&mut self) {
        if self.refused.is_none() && self.asked.is_none() && self.questions.send(()).is_ok() {
            self.asked = Some(Instant::now());
        }
    }

    /// What is answered before `until`.
    pub(super) fn answer(&mut self, until: Instant) -> GpuAnswer {
        while self.refused.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            match self.news.recv_timeout(left) {
                Ok(News::Samples(samples)) => {
                    self.asked = None;
                    return self.told(Ok(samples), None);
                }
                Ok(News::Opened(known, outcome)) => {
                    (self.known, self.refused) = (known, outcome.err());
                    self.asked = None;
                    // The look that opened them is to have their first sample.
                    self.ask();
                }
                Err(mpsc::RecvTimeoutError::Timeout) => break,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    self.refused = Some("the thread that asks them has ended".to_owned());
                }
            }
        }
        if let Some(why) = &self.refused {
            return self.told(Err(why.clone()), None);
        }
        let waiting = self.asked.map(|asked| asked.elapsed());
        let waiting = waiting.unwrap_or_default();
        let why = format!("no answer for {:.1} s", waiting.as_secs_f64());
        self.told(Err(why), Some(waiting))
    }

    fn told(
        &self,
        samples: Result<Vec<Sample>, String>,
        unanswered: Option<Duration>,
    ) -> GpuAnswer {
        GpuAnswer {
            known: Arc::clone(&self.known),
            samples,
            unanswered,
        }
    }
}

/// Opens the GPUs of the running machine.
pub(super) fn of_this_machine() -> (Result<Sampler, Failure>, KnownGpus) {
    let machine = machine();
    let known = KnownGpus {
        machine: machine.summary(),
        names: names(&machine.gpus),
    };
    (Sampler::open(&[]), known)
}

/// Names of GPUs by NVML's numbers, without control characters.
pub(super) fn names(gpus: &[Gpu]) -> BTreeMap<u32, String> {
    let name = |gpu: &Gpu| {
        let name = gpu.name.as_value()?;
        let printable = name.chars().filter(|c| !c.is_control());
        Some((gpu.nvml_index?, printable.collect()))
    };
    gpus.iter().filter_map(name).collect()
}
