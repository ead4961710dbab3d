//! `sparkpilot-mpi measure`: how quick the way between machines is, pair by pair.
//!
//! ```text
//! every two ranks, one pair after the other; the others wait
//!   a ── 8 bytes ──> b ── its clock ──> a      200 times: round trips; the shortest tells how far clocks are apart
//!   a ═ 16 messages at once ═> b ── 1 byte ─>  again and again: rate from a to b, then from b to a
//! rank 0 gathers all of it ──> FILE, for `sparkpilot cluster doctor`
//! ```
//!
//! Which way messages go is up to MPI and the variables that it is given; they are kept in the file. Whoever waits in a measurement keeps its core,
//! as latencies are below what a sleep takes; ranks that only wait for their turn sleep. Buffers take less than 600 MB on a rank: tests with 16 GB have
//! frozen Sparks (dgx-spark-playbooks issue #102).
//!
//! Deliberately absent: several pairs at once, and messages out of GPUs' memory, which GB10 shares with its CPU anyway.

mod pair;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use mpi::topology::{Communicator as _, SimpleCommunicator};
use serde::{Deserialize, Serialize};
use spark_program::{count, output, place, printable};
use sparkpilot::hal::cluster::{Clock, ENVIRONMENT, Measurement, Pair, Rank, Spread};

use crate::ending::Ending;
use crate::launcher::check_launcher;
use crate::library::{gather, library_told, meet, open};
use pair::{Sizes, measure_pair};

/// Measure round trips, clocks and rates between every two of the processes, for `sparkpilot cluster doctor`
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    mpirun -np 2 --host spark-1,spark-2 --map-by node --mca pml ucx -x UCX_NET_DEVICES=rocep1s0f0:1,roceP2p1s0f0:1 sparkpilot-mpi measure --output both.json\n  \
    mpirun -np 2 --host spark-1,spark-2 --map-by node --mca pml ucx -x UCX_NET_DEVICES=rocep1s0f0:1 sparkpilot-mpi measure --rail rocep1s0f0 --output rail-1.json\n\n\
    --rail names what mpirun limited MPI to; it limits nothing by itself.")]
pub(crate) struct Measure {
    /// Where rank 0 writes what was measured (JSON, schema spark-cluster-measurement/1); a file, as mpirun mixes what is on stdout
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(file_name))]
    output: PathBuf,
    /// Which rail MPI was limited to, by its RDMA device or interface; none for all together
    #[arg(long, value_name = "NAME", value_parser = rail_name)]
    rail: Option<String>,
    /// Bytes of a message, 4096 to 33554432; 16 of them are on their way at once
    #[arg(long, value_name = "N", default_value_t = 4 << 20, value_parser = count(4096, 32 << 20))]
    message_bytes: usize,
    /// Seconds for each direction of each pair, 1 to 600
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = count(1, 600))]
    seconds: usize,
    /// Seconds without a message after which a process ends all, 1 to 1000000
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = count(1, 1_000_000))]
    stall_timeout: usize,
}

fn rail_name(text: &str) -> Result<String, &'static str> {
    match text.trim().is_empty() {
        true => Err("the name of an RDMA device or interface; without --rail for all together"),
        false => Ok(text.to_owned()),
    }
}

fn file_name(path: PathBuf) -> Result<PathBuf, &'static str> {
    match path.as_os_str() == "-" {
        true => Err("a file: mpirun mixes what its processes write to stdout"),
        false => Ok(path),
    }
}

/// Messages on their way at once.
const IN_FLIGHT: usize = 16;
/// Longest text that a rank gives: one line for each pair.
const MOST_TEXT: usize = 64 << 10;
/// More ranks than that are no cluster that is measured pair by pair.
const MOST_RANKS: usize = 64;
/// Of a variable's value.
const MOST_CHARACTERS: usize = 100;

/// What a rank tells rank 0 of itself and of the pairs whose times it took.
#[derive(Serialize, Deserialize)]
struct Told {
    host: String,
    mpi: String,
    build: String,
    environment: Vec<(String, String)>,
    pairs: Vec<[f64; 16]>,
}

/// Measures, as one of the ranks.
pub(crate) fn run(arguments: &Measure, ending: &Ending) -> Result<ExitCode, Box<dyn Error>> {
    let universe = open()?;
    let world = universe.world();
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    ending.join(size);
    let limit = Duration::from_secs(arguments.stall_timeout as u64);
    let of_watchdog = ending.clone();
    let watchdog = std::thread::Builder::new().name("watchdog".to_owned());
    watchdog.spawn(move || of_watchdog.watch(rank, [limit, limit]))?;
    let result = measured(arguments, &world, ending);
    // All have measured, or have been told that nothing is measured.
    meet(ending, &world);
    ending.leave();
    drop(universe);
    let Some(measurement) = result? else {
        return Ok(ExitCode::SUCCESS);
    };
    output::write(&arguments.output, measurement.to_json() + "\n")?;
    print!("{}", table(&measurement));
    println!(
        "written to `{}`",
        printable(&arguments.output.to_string_lossy())
    );
    Ok(ExitCode::SUCCESS)
}

/// What was measured, for rank 0; whatever is wrong is wrong for all ranks alike, or said to all.
fn measured(
    arguments: &Measure,
    world: &SimpleCommunicator,
    ending: &Ending,
) -> Result<Option<Measurement>, Box<dyn Error>> {
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    let ready = ready(arguments, size, rank);
    let all_ready = gather(ending, world, &[u8::from(ready.is_ok())]);
    ready?;
    if all_ready.iter().any(|is_ready| *is_ready != [1]) {
        return Err("another rank cannot measure".into());
    }
    // Options of rank 0 are those of all.
    let own = [arguments.message_bytes, arguments.seconds].map(|n| (n as u64).to_le_bytes());
    let of_first = gather(ending, world, &own.concat()).swap_remove(0);
    let number = |bytes: &[u8]| -> Result<usize, Box<dyn Error>> {
        Ok(usize::try_from(u64::from_le_bytes(bytes.try_into()?))?)
    };
    let (message_bytes, seconds) = of_first.split_at(8);
    let sizes = Sizes {
        message_bytes: number(message_bytes)?,
        in_flight: IN_FLIGHT,
        time: Duration::from_secs(number(seconds)? as u64),
    };
    let mut pairs = Vec::new();
    for a in 0..size {
        for b in a + 1..size {
            if rank == a || rank == b {
                let other = if rank == a { b } else { a };
                let measured = measure_pair(world, ending, sizes, other, rank == a);
                pairs.extend(measured.map(|pair| numbers(a, b, &pair)));
            }
            meet(ending, world);
        }
    }
    let all = exchange(world, ending, &told(pairs))?;
    if rank != 0 {
        return Ok(None);
    }
    let pairs: Vec<Pair> = all
        .iter()
        .flat_map(|told| &told.pairs)
        .map(of_numbers)
        .collect();
    if pairs.len() != size * (size - 1) / 2 {
        return Err("times of a pair are no numbers".into());
    }
    Ok(Some(Measurement {
        program: format!("sparkpilot-mpi {}", env!("CARGO_PKG_VERSION")),
        rail: arguments.rail.clone(),
        message_bytes: sizes.message_bytes as u64,
        in_flight: IN_FLIGHT as u64,
        pairs,
        ranks: all.into_iter().map(Told::into_rank).collect(),
    }))
}

/// Whether this rank can measure.
fn ready(arguments: &Measure, size: usize, rank: usize) -> Result<(), Box<dyn Error>> {
    check_launcher(size)?;
    if !(2..=MOST_RANKS).contains(&size) {
        let wrong = format!(
            "{size} ranks; 2 to {MOST_RANKS} measure the ways between them, one on each machine: mpirun -np 2 --map-by node …"
        );
        return Err(Box::new(spark_program::Usage(wrong)));
    }
    if rank == 0 {
        place::file(&arguments.output)?;
    }
    Ok(())
}

fn told(pairs: Vec<[f64; 16]>) -> Told {
    let set = ENVIRONMENT.iter().filter_map(|name| {
        let value = std::env::var_os(name)?;
        let value = shortened(&value.to_string_lossy());
        (!value.is_empty()).then(|| ((*name).to_owned(), value))
    });
    let (mpi, build) = library_told();
    Told {
        host: mpi::environment::processor_name()
            .map_or_else(|_| "unnamed".to_owned(), |name| shortened(&name)),
        mpi: shortened(&mpi),
        build: shortened(&build),
        environment: set.collect(),
        pairs,
    }
}

fn shortened(text: &str) -> String {
    let plain = text.trim().chars().filter(|c| !c.is_control());
    plain.take(MOST_CHARACTERS).collect()
}

/// Everybody's word, at everybody's.
fn exchange(
    world: &SimpleCommunicator,
    ending: &Ending,
    own: &Told,
) -> Result<Vec<Told>, Box<dyn Error>> {
    let mut text = serde_json::to_vec(own)?;
    if text.len() > MOST_TEXT {
        return Err(format!("{} bytes are more than a rank tells", text.len()).into());
    }
    // JSON may end in blanks.
    text.resize(MOST_TEXT, b' ');
    let all = gather(ending, world, &text);
    let all = all.iter().map(|text| Ok(serde_json::from_slice(text)?));
    all.collect()
}

impl Told {
    fn into_rank(self) -> Rank {
        Rank {
            host: self.host,
            mpi: self.mpi,
            build: self.build,
            environment: self.environment.into_iter().collect(),
        }
    }
}

/// The numbers of a pair, as they travel.
fn numbers(a: usize, b: usize, pair: &Pair) -> [f64; 16] {
    let mut all = [0.0; 16];
    all[..4].copy_from_slice(&[
        a as f64,
        b as f64,
        pair.clock.ahead_us,
        pair.clock.within_us,
    ]);
    let spreads = [pair.round_trip_us, pair.from_a_gbps, pair.from_b_gbps];
    for (four, spread) in all[4..].chunks_exact_mut(4).zip(spreads) {
        four.copy_from_slice(&[spread.n as f64, spread.min, spread.median, spread.max]);
    }
    all
}

fn of_numbers(all: &[f64; 16]) -> Pair {
    let spread = |at: usize| Spread {
        n: all[at] as u64,
        min: all[at + 1],
        median: all[at + 2],
        max: all[at + 3],
    };
    Pair {
        a: all[0] as usize,
        b: all[1] as usize,
        clock: Clock {
            ahead_us: all[2],
            within_us: all[3],
        },
        round_trip_us: spread(4),
        from_a_gbps: spread(8),
        from_b_gbps: spread(12),
    }
}

/// What was measured, for people.
fn table(measurement: &Measurement) -> String {
    let mut text = String::new();
    for pair in &measurement.pairs {
        let [a, b] = [pair.a, pair.b].map(|rank| {
            let host = printable(&measurement.ranks[rank].host);
            format!("{host} (rank {rank})")
        });
        let Pair {
            round_trip_us: trip,
            clock,
            ..
        } = pair;
        text += &format!(
            "{a} and {b}\n  round trip {:.2} us (shortest {:.2}, {} times)\n  clock of the second ahead by {:.2} us, within {:.2} us\n",
            trip.median, trip.min, trip.n, clock.ahead_us, clock.within_us
        );
        for (to, rate) in [("there", &pair.from_a_gbps), ("back ", &pair.from_b_gbps)] {
            text += &format!(
                "  {to}      {:.2} Gb/s ({:.2} to {:.2}, {} times)\n",
                rate.median, rate.min, rate.max, rate.n
            );
        }
    }
    text
}
