//! The thread that has the MPI library: it alone calls it, and never blocks in it.
//!
//! ```text
//! asks, one after the other ──> Iallgather, Iallreduce ──test, sleep, test ..──> answers
//!                                                        └─ all are to end? MPI_Abort
//! ```
//!
//! Between two tests it sleeps for a sixteenth of what it has waited, 20 us at least and 1 ms at most: the cores are for computing, and a library that waits
//! takes one of them. The library makes headway only when it is called, which is why computing threads leave it to this one.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mpi::Threading;
use mpi::collective::{CommunicatorCollectives as _, SystemOperation};
use mpi::environment::{Universe, initialize_with_threading, library_version};
use mpi::request::{Request, Scope, scope};
use mpi::topology::{Communicator as _, SimpleCommunicator};

use crate::ending::Ending;

/// What the thread is asked for.
pub(crate) enum Ask {
    /// Everybody's bytes, as many from each.
    Gather(Vec<u8>),
    /// The sum of everybody's numbers.
    Sum(Vec<f32>),
    /// To leave the library, as soon as all others do.
    Leave,
}

/// What it answers, in the order in which it was asked.
pub(crate) enum Answer {
    Gathered(Vec<Vec<u8>>),
    Summed(Vec<f32>),
    Left,
}

/// Who this rank is.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    /// Name and version of the library.
    pub(crate) library: String,
}

/// How often it looks whether all are to end while nobody asks.
const IDLE: Duration = Duration::from_millis(10);

/// Opens the library, says who this is, and answers until it is to leave.
pub(crate) fn serve(
    ending: &Ending,
    joined: &Sender<Result<World, String>>,
    asks: &Receiver<Ask>,
    answers: &Sender<Answer>,
) {
    let universe = match open() {
        Ok(universe) => universe,
        Err(why) => {
            let _ = joined.send(Err(why)); // who asked has gone
            return;
        }
    };
    let world = universe.world();
    let who = World {
        rank: world.rank() as usize,
        size: world.size() as usize,
        library: library_told().0,
    };
    ending.join(who.size);
    let _ = joined.send(Ok(who)); // the same
    loop {
        let ask = match asks.recv_timeout(IDLE) {
            Ok(ask) => ask,
            Err(RecvTimeoutError::Timeout) => {
                end_if_asked(ending, &world);
                continue;
            }
            // The process ends without having left, and is to say how.
            Err(RecvTimeoutError::Disconnected) => {
                end_if_asked(ending, &world);
                sleep(IDLE);
                continue;
            }
        };
        let answer = match ask {
            Ask::Gather(own) => Answer::Gathered(gather(ending, &world, &own)),
            Ask::Sum(own) => Answer::Summed(sum(ending, &world, &own)),
            Ask::Leave => {
                gather(ending, &world, &[0]);
                ending.leave();
                drop(universe);
                let _ = answers.send(Answer::Left); // the same
                return;
            }
        };
        let _ = answers.send(answer); // the same
    }
}

/// Name and version of the library, and its whole word.
pub(crate) fn library_told() -> (String, String) {
    let version = library_version().unwrap_or_default();
    let whole = version.trim_end_matches('\0').trim();
    // The first words: `Open MPI v4.1.4`; what follows is who built it.
    let library = whole.split([',', '\n']).next().unwrap_or_default();
    (library.trim().to_owned(), whole.to_owned())
}

/// Opens the library on this thread, which alone may then call it.
pub(crate) fn open() -> Result<Universe, String> {
    let Some((universe, got)) = initialize_with_threading(Threading::Funneled) else {
        return Err("the MPI library is open already".to_owned());
    };
    match got >= Threading::Funneled {
        true => Ok(universe),
        false => Err(format!(
            "the MPI library serves no process of several threads ({got:?})"
        )),
    }
}

/// Everybody's bytes, as many from each.
pub(crate) fn gather(ending: &Ending, world: &SimpleCommunicator, own: &[u8]) -> Vec<Vec<u8>> {
    if own.is_empty() {
        return vec![Vec::new(); world.size() as usize];
    }
    let mut all = vec![0u8; own.len() * world.size() as usize];
    scope(|scope| {
        let request = world.immediate_all_gather_into(scope, own, &mut all[..]);
        wait(ending, world, request);
    });
    all.chunks(own.len()).map(<[u8]>::to_vec).collect()
}

/// Waits until all ranks are here, for as long as it takes: that something still moves is for those to watch whom all wait for.
pub(crate) fn meet(ending: &Ending, world: &SimpleCommunicator) {
    let mut request = world.immediate_barrier();
    while let Err(unfinished) = request.test() {
        request = unfinished;
        end_if_asked(ending, world);
        ending.moved();
        sleep(Duration::from_millis(1));
    }
}

fn sum(ending: &Ending, world: &SimpleCommunicator, own: &[f32]) -> Vec<f32> {
    let mut sum = vec![0f32; own.len()];
    let operation = SystemOperation::sum();
    scope(|scope| {
        let request = world.immediate_all_reduce_into(scope, own, &mut sum[..], operation);
        wait(ending, world, request);
    });
    sum
}

fn wait<'a, D: ?Sized, S: Scope<'a>>(
    ending: &Ending,
    world: &SimpleCommunicator,
    mut request: Request<'a, D, S>,
) {
    let began = Instant::now();
    loop {
        match request.test() {
            Ok(_) => return,
            Err(unfinished) => request = unfinished,
        }
        end_if_asked(ending, world);
        let pause = began.elapsed() / 16;
        sleep(pause.clamp(Duration::from_micros(20), Duration::from_millis(1)));
    }
}

/// Ends all ranks if that was asked for.
pub(crate) fn end_if_asked(ending: &Ending, world: &SimpleCommunicator) {
    if let Some(code) = ending.asked() {
        world.abort(code);
    }
}
