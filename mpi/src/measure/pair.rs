//! Two ranks: round trips, how far their clocks are apart, and rates in both directions. The one with the lower number takes all times.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mpi::point_to_point::{Destination as _, Source as _};
use mpi::request::{Request, Scope, scope};
use mpi::topology::{Communicator as _, Process, SimpleCommunicator};
use sparkpilot::hal::cluster::{Clock, Pair, Spread};

use crate::ending::Ending;
use crate::library::end_if_asked;

/// How much is sent, and for how long.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) message_bytes: usize,
    pub(super) in_flight: usize,
    /// For each direction.
    pub(super) time: Duration,
}

/// Round trips that are counted, and those before, in which connections are made.
const TRIPS: usize = 200;
const TRIPS_BEFORE: usize = 20;
/// Bursts of messages: at least so many for one direction, and at most.
const LEAST_BURSTS: usize = 5;
const MOST_BURSTS: usize = 10_000;
/// Looks at the library between two looks at whether all are to end.
const LOOKS: usize = 256;

const GO_ON: u8 = 1;
const STOP: u8 = 0;

/// Measures with the other one; what was found, for who takes the times.
pub(super) fn measure_pair(
    world: &SimpleCommunicator,
    ending: &Ending,
    sizes: Sizes,
    other: usize,
    takes_times: bool,
) -> Option<Pair> {
    let two = Two {
        ending,
        world,
        other: world.process_at_rank(other as i32),
    };
    let mut buffers = Buffers {
        own: vec![0x5A; sizes.message_bytes],
        others: vec![vec![0; sizes.message_bytes]; sizes.in_flight],
    };
    if !takes_times {
        two.answer_trips();
        two.answer_bursts(&mut buffers, Direction::From);
        two.answer_bursts(&mut buffers, Direction::To);
        return None;
    }
    let (trips, clock) = two.trips();
    let bytes = (sizes.message_bytes * sizes.in_flight) as f64;
    let mut rates = |direction| {
        let times = two.bursts(&mut buffers, direction, sizes.time);
        let rates: Vec<f64> = times.iter().map(|time| bytes * 8e-9 / time).collect();
        Spread::of(&rates)
    };
    Some(Pair {
        a: world.rank() as usize,
        b: other,
        round_trip_us: Spread::of(&trips)?,
        clock,
        from_a_gbps: rates(Direction::From)?,
        from_b_gbps: rates(Direction::To)?,
    })
}

/// Messages from who takes the times, or to it.
#[derive(Clone, Copy)]
enum Direction {
    From,
    To,
}

struct Buffers {
    own: Vec<u8>,
    others: Vec<Vec<u8>>,
}

struct Two<'a> {
    ending: &'a Ending,
    world: &'a SimpleCommunicator,
    other: Process<'a>,
}

impl Two<'_> {
    /// Round trips in microseconds, and the difference of the clocks by the middle of the shortest.
    fn trips(&self) -> (Vec<f64>, Clock) {
        let mut trips = Vec::with_capacity(TRIPS);
        let mut best: Option<Clock> = None;
        for number in 0..TRIPS_BEFORE + TRIPS {
            let (before, began) = (now_ns(), Instant::now());
            self.send(&[0; 8]);
            let mut theirs = [0; 8];
            self.receive(&mut theirs);
            let (trip, after) = (began.elapsed(), now_ns());
            if number < TRIPS_BEFORE {
                continue;
            }
            trips.push(trip.as_secs_f64() * 1e6);
            // By the clock itself, which may be set meanwhile: what it says of both ends is what the bound is about.
            let (took, theirs) = (after - before, i64::from_le_bytes(theirs));
            let clock = Clock {
                ahead_us: (theirs - before) as f64 / 1e3 - took as f64 / 2e3,
                within_us: took as f64 / 2e3,
            };
            if took >= 0 && best.is_none_or(|best| clock.within_us < best.within_us) {
                best = Some(clock);
            }
        }
        // The clock was set back in every trip: nothing is known.
        let unknown = Clock {
            ahead_us: 0.0,
            within_us: f64::from(u32::MAX),
        };
        (trips, best.unwrap_or(unknown))
    }

    fn answer_trips(&self) {
        for _ in 0..TRIPS_BEFORE + TRIPS {
            self.receive(&mut [0; 8]);
            self.send(&now_ns().to_le_bytes());
        }
    }

    /// Seconds of each burst, the first left out: in it memory is registered.
    fn bursts(&self, buffers: &mut Buffers, direction: Direction, time: Duration) -> Vec<f64> {
        let began = Instant::now();
        let mut times = Vec::new();
        while times.len() <= LEAST_BURSTS || (began.elapsed() < time && times.len() < MOST_BURSTS) {
            let began = Instant::now();
            self.send(&[GO_ON]);
            match direction {
                Direction::From => {
                    self.send_all(buffers);
                    self.receive(&mut [0]);
                }
                Direction::To => self.receive_all(buffers),
            }
            times.push(began.elapsed().as_secs_f64());
        }
        self.send(&[STOP]);
        times.split_off(1)
    }

    fn answer_bursts(&self, buffers: &mut Buffers, direction: Direction) {
        loop {
            let mut what = [STOP];
            self.receive(&mut what);
            if what != [GO_ON] {
                return;
            }
            match direction {
                Direction::From => {
                    self.receive_all(buffers);
                    self.send(&[0]);
                }
                Direction::To => self.send_all(buffers),
            }
        }
    }

    fn send(&self, bytes: &[u8]) {
        scope(|scope| self.wait(self.other.immediate_send(scope, bytes)));
    }

    fn receive(&self, bytes: &mut [u8]) {
        scope(|scope| self.wait(self.other.immediate_receive_into(scope, bytes)));
    }

    /// The same bytes as often as there are messages on their way.
    fn send_all(&self, buffers: &Buffers) {
        scope(|scope| {
            let begin = |_| self.other.immediate_send(scope, &buffers.own[..]);
            let requests: Vec<_> = (0..buffers.others.len()).map(begin).collect();
            requests.into_iter().for_each(|request| self.wait(request));
        });
    }

    fn receive_all(&self, buffers: &mut Buffers) {
        scope(|scope| {
            let begin = |buffer| self.other.immediate_receive_into(scope, buffer);
            let buffers = buffers.others.iter_mut().map(|buffer| &mut buffer[..]);
            let requests: Vec<_> = buffers.map(begin).collect();
            requests.into_iter().for_each(|request| self.wait(request));
        });
    }

    /// Looks at the library until the request is done, and keeps the core.
    fn wait<'a, D: ?Sized, S: Scope<'a>>(&self, mut request: Request<'a, D, S>) {
        self.ending.waiting(|| {
            loop {
                for _ in 0..LOOKS {
                    match request.test() {
                        Ok(_) => return,
                        Err(unfinished) => request = unfinished,
                    }
                    // More ranks than cores: the other one may wait for this core.
                    std::thread::yield_now();
                }
                end_if_asked(self.ending, self.world);
            }
        });
    }
}

/// The time of day in nanoseconds.
fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as i64) // until the year 2262
}
