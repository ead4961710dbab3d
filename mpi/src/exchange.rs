//! The exchange of gradients over MPI, as the trainer calls it: what is begun goes to the thread of MPI, and the trainer computes on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sparkpilot::train::{ExchangeError, GradientExchange};

use crate::ending::Ending;
use crate::library::{Answer, Ask, World, serve};

/// A rank's way to the others.
pub(crate) struct Mpi {
    world: World,
    ending: Ending,
    asks: Sender<Ask>,
    answers: Receiver<Answer>,
    traffic: Traffic,
}

/// Most bytes of one call: counts of MPI are `int`.
const MOST: usize = i32::MAX as usize;

const GONE: &str = "the thread of MPI has ended";
const MIXED: &str = "an answer to another question";

impl Mpi {
    /// Opens the library on a thread of its own, and sets the watchdog. Says who this rank is.
    pub(crate) fn start(
        ending: &Ending,
        limits: [Duration; 2],
    ) -> Result<(Self, World), ExchangeError> {
        let (asks, asked) = channel();
        let (answering, answers) = channel();
        let (joining, joined) = channel();
        let of_library = ending.clone();
        let thread = std::thread::Builder::new().name("mpi".to_owned());
        thread.spawn(move || serve(&of_library, &joining, &asked, &answering))?;
        let world: World = joined.recv().map_err(|_| GONE)??;
        let (rank, of_watchdog) = (world.rank, ending.clone());
        let thread = std::thread::Builder::new().name("watchdog".to_owned());
        thread.spawn(move || of_watchdog.watch(rank, limits))?;
        let mpi = Self {
            world: world.clone(),
            ending: ending.clone(),
            asks,
            answers,
            traffic: Traffic::default(),
        };
        Ok((mpi, world))
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic.clone()
    }

    fn ask(&mut self, ask: Ask, n_bytes: usize) -> Result<(), ExchangeError> {
        if n_bytes > MOST {
            return Err(format!("{n_bytes} bytes are more than MPI takes at once, {MOST}").into());
        }
        self.ending.moved();
        self.traffic.given(n_bytes);
        Ok(self.asks.send(ask).map_err(|_| GONE)?)
    }

    fn answer(&mut self) -> Result<Answer, ExchangeError> {
        let began = Instant::now();
        let answer = self.ending.waiting(|| self.answers.recv());
        self.traffic.waited(began.elapsed());
        Ok(answer.map_err(|_| GONE)?)
    }
}

impl GradientExchange for Mpi {
    fn rank(&self) -> usize {
        self.world.rank
    }

    fn size(&self) -> usize {
        self.world.size
    }

    fn steps_begin(&mut self) {
        self.traffic.begin();
        self.ending.trains();
    }

    fn begin(&mut self, own: Vec<u8>) -> Result<(), ExchangeError> {
        let n_bytes = own.len();
        self.ask(Ask::Gather(own), n_bytes)
    }

    fn finish(&mut self) -> Result<Vec<Vec<u8>>, ExchangeError> {
        match self.answer()? {
            Answer::Gathered(all) => Ok(all),
            _ => Err(MIXED.into()),
        }
    }

    fn fast_sum(&mut self, own: Vec<f32>) -> Result<Vec<f32>, ExchangeError> {
        let n_bytes = size_of_val(&own[..]);
        self.ask(Ask::Sum(own), n_bytes)?;
        match self.answer()? {
            Answer::Summed(sum) => Ok(sum),
            _ => Err(MIXED.into()),
        }
    }

    fn leave(&mut self) -> Result<(), ExchangeError> {
        // What the library takes to close is no exchange of a step.
        self.traffic.end();
        self.ending.moved();
        self.asks.send(Ask::Leave).map_err(|_| GONE)?;
        match self
            .ending
            .waiting(|| self.answers.recv())
            .map_err(|_| GONE)?
        {
            Answer::Left => Ok(()),
            _ => Err(MIXED.into()),
        }
    }
}

/// What went between ranks while steps were made, and how long the trainer waited for it.
#[derive(Clone, Default)]
pub(crate) struct Traffic(Arc<Counts>);

#[derive(Default)]
struct Counts {
    n_given: AtomicU64,
    bytes_given: AtomicU64,
    waited_us: AtomicU64,
    span: Mutex<Option<(Instant, Option<Duration>)>>,
}

impl Traffic {
    /// Forgets what was said before training.
    fn begin(&self) {
        for count in [&self.0.n_given, &self.0.bytes_given, &self.0.waited_us] {
            count.store(0, Ordering::Relaxed);
        }
        *self.span() = Some((Instant::now(), None));
    }

    fn end(&self) {
        if let Some((began, took)) = self.span().as_mut() {
            *took = Some(began.elapsed());
        }
    }

    fn span(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Option<Duration>)>> {
        self.0.span.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn given(&self, n_bytes: usize) {
        self.0.n_given.fetch_add(1, Ordering::Relaxed);
        self.0
            .bytes_given
            .fetch_add(n_bytes as u64, Ordering::Relaxed);
    }

    fn waited(&self, time: Duration) {
        let time = time.as_micros() as u64;
        self.0.waited_us.fetch_add(time, Ordering::Relaxed);
    }

    /// In one line; nothing where no step has been made.
    pub(crate) fn told(&self) -> Option<String> {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        let (began, took) = (*self.span())?;
        // A run that a signal ends has not left.
        let took = took.unwrap_or_else(|| began.elapsed()).as_secs_f64();
        if of(&self.0.n_given) == 0.0 || took == 0.0 {
            return None;
        }
        let waited = of(&self.0.waited_us) / 1e6;
        Some(format!(
            "rank 0 gave {:.3} MB in {} exchanges and waited {waited:.3} s of {took:.3} s for the others, {:.1} %",
            of(&self.0.bytes_given) / 1e6,
            of(&self.0.n_given),
            100.0 * waited / took,
        ))
    }
}
