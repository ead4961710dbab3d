//! What `sparkpilot-mpi measure` has measured between the machines of a cluster, as a file.
//!
//! ```text
//! {"schema":"spark-cluster-measurement/1","program":"…","rail":null,"message_bytes":4194304,"in_flight":16,
//!  "ranks":[{"host":"spark-1","mpi":"Open MPI v4.1.4","build":"…","environment":{"UCX_NET_DEVICES":"…"}},…],
//!  "pairs":[{"a":0,"b":1,"round_trip_us":{"n":200,"min":4.1,"median":4.4,"max":60},"clock":{"ahead_us":-31,"within_us":2.1},
//!            "from_a_gbps":{"n":40,"min":88,"median":92.6,"max":93},"from_b_gbps":{…}}]}
//! ```
//!
//! The format stands here alone: the program that measures writes it with [`Measurement::to_json`]. Files come from strangers: lengths and figures
//! are held against bounds, texts are shortened, and what is wrong is said with its place.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::json::{Object, array};
use crate::reading::quote;
use crate::spread::Spread;

const SCHEMA: &str = "spark-cluster-measurement/1";
/// Longest file that is read.
const MOST_BYTES: usize = 4 << 20;
/// Most ranks of a file.
const MOST_RANKS: usize = 256;
/// More than any figure of a file: times are below a day, rates below a petabit a second.
const MOST: f64 = 1e12;

/// Variables that say which networks MPI was limited to, as a measurement keeps them.
pub const ENVIRONMENT: [&str; 9] = [
    "OMPI_MCA_btl",
    "OMPI_MCA_btl_tcp_if_exclude",
    "OMPI_MCA_btl_tcp_if_include",
    "OMPI_MCA_btl_tcp_links",
    "OMPI_MCA_mtl",
    "OMPI_MCA_pml",
    "UCX_IB_GID_INDEX",
    "UCX_NET_DEVICES",
    "UCX_TLS",
];

/// What was measured in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// What measured: name and version.
    pub program: String,
    /// Which rail the run was for, in the words of whoever started it; `None` for all together.
    pub rail: Option<String>,
    /// Length of the messages by which rates were measured.
    pub message_bytes: u64,
    /// How many of them were on their way at once.
    pub in_flight: u64,
    /// Every rank, by its number.
    pub ranks: Vec<Rank>,
    /// What was measured between two ranks, one pair after the other.
    pub pairs: Vec<Pair>,
}

/// One process of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// Name of its machine.
    pub host: String,
    /// Name and version of its MPI library.
    pub mpi: String,
    /// The library's whole word about itself.
    pub build: String,
    /// Those of [`ENVIRONMENT`] that were set.
    pub environment: BTreeMap<String, String>,
}

/// What was measured between two ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The rank whose clock times were taken by.
    pub a: usize,
    /// The other one.
    pub b: usize,
    /// Time of a few bytes there and back, in microseconds.
    pub round_trip_us: Spread,
    /// How the clocks differ.
    pub clock: Clock,
    /// Rate from `a` to `b`, in Gb/s.
    pub from_a_gbps: Spread,
    /// Rate from `b` to `a`, in Gb/s.
    pub from_b_gbps: Spread,
}

/// How far one clock is ahead of another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    /// By how many microseconds the clock of `b` is ahead of that of `a`, by the middle of the shortest round trip.
    pub ahead_us: f64,
    /// Half of that round trip: the truth is not further away.
    pub within_us: f64,
}

/// Why a file is no measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasurementError {
    /// Longer than any measurement.
    #[error("it is longer than {MOST_BYTES} bytes")]
    TooLong,
    /// No JSON.
    #[error("it is no JSON: {source}")]
    NotJson {
        /// What the reader said, with the line.
        #[from]
        source: serde_json::Error,
    },
    /// Something is not what it should be.
    #[error("`{at}` is {got}, expected {wanted}")]
    Field {
        /// Where in the file, such as `pairs[0].clock`.
        at: String,
        /// What stands there, shortened.
        got: String,
        /// What should stand there.
        wanted: &'static str,
    },
}

impl Measurement {
    /// The file's text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let ranks = self.ranks.iter().map(|rank| {
            let set = rank.environment.iter();
            let set = set.fold(Object::new(), |all, (name, value)| all.text(name, value));
            Object::new()
                .text("host", &rank.host)
                .text("mpi", &rank.mpi)
                .text("build", &rank.build)
                .raw("environment", &set.finish())
                .finish()
        });
        let pairs = self.pairs.iter().map(|pair| {
            let clock = Object::new()
                .raw("ahead_us", &figure(pair.clock.ahead_us))
                .raw("within_us", &figure(pair.clock.within_us));
            Object::new()
                .number("a", pair.a as u64)
                .number("b", pair.b as u64)
                .raw("round_trip_us", &spread_text(&pair.round_trip_us))
                .raw("clock", &clock.finish())
                .raw("from_a_gbps", &spread_text(&pair.from_a_gbps))
                .raw("from_b_gbps", &spread_text(&pair.from_b_gbps))
                .finish()
        });
        let object = Object::new()
            .text("schema", SCHEMA)
            .text("program", &self.program);
        let object = match &self.rail {
            Some(rail) => object.text("rail", rail),
            None => object.raw("rail", "null"),
        };
        object
            .number("message_bytes", self.message_bytes)
            .number("in_flight", self.in_flight)
            .raw("ranks", &array(ranks))
            .raw("pairs", &array(pairs))
            .finish()
    }

    /// Reads a file's text.
    ///
    /// # Errors
    ///
    /// [`MeasurementError`], with the place.
    pub fn parse(text: &str) -> Result<Self, MeasurementError> {
        if text.len() > MOST_BYTES {
            return Err(MeasurementError::TooLong);
        }
        let value: Value = serde_json::from_str(text)?;
        let file = At {
            value: &value,
            place: "file".to_owned(),
        };
        let schema = file.of("schema")?;
        if schema.value.as_str() != Some(SCHEMA) {
            return Err(schema.refused("`spark-cluster-measurement/1`"));
        }
        let rail = file.of("rail")?;
        let ranks = file.of("ranks")?.items(MOST_RANKS)?;
        let ranks: Vec<Rank> = ranks.iter().map(rank).collect::<Result<_, _>>()?;
        let pairs = file.of("pairs")?.items(MOST_RANKS * MOST_RANKS)?;
        let pairs = pairs.iter().map(|at| pair(at, ranks.len()));
        Ok(Self {
            program: file.of("program")?.text()?,
            rail: match rail.value {
                Value::Null => None,
                _ => Some(rail.text()?),
            },
            message_bytes: file.of("message_bytes")?.count()?,
            in_flight: file.of("in_flight")?.count()?,
            pairs: pairs.collect::<Result<_, _>>()?,
            ranks,
        })
    }
}

/// Four digits behind the point: a tenth of a nanosecond, or of a megabit a second.
fn figure(value: f64) -> String {
    format!("{value:.4}")
}

fn spread_text(spread: &Spread) -> String {
    Object::new()
        .number("n", spread.n)
        .raw("min", &figure(spread.min))
        .raw("median", &figure(spread.median))
        .raw("max", &figure(spread.max))
        .finish()
}

fn rank(at: &At<'_>) -> Result<Rank, MeasurementError> {
    let set = at.of("environment")?;
    let set_object = set.object()?;
    let mut environment = BTreeMap::new();
    for name in ENVIRONMENT {
        if set_object.contains_key(name) {
            environment.insert(name.to_owned(), set.of(name)?.text()?);
        }
    }
    Ok(Rank {
        host: at.of("host")?.text()?,
        mpi: at.of("mpi")?.text()?,
        build: at.of("build")?.text()?,
        environment,
    })
}

fn pair(at: &At<'_>, n_ranks: usize) -> Result<Pair, MeasurementError> {
    let [a, b] = ["a", "b"].map(|name| -> Result<usize, MeasurementError> {
        let number = at.of(name)?;
        let rank = number.value.as_u64().and_then(|n| usize::try_from(n).ok());
        rank.filter(|rank| *rank < n_ranks)
            .ok_or_else(|| number.refused("the number of a rank"))
    });
    let (a, b) = (a?, b?);
    if a == b {
        return Err(at.of("b")?.refused("another rank than `a`"));
    }
    let clock = at.of("clock")?;
    Ok(Pair {
        a,
        b,
        round_trip_us: spread(&at.of("round_trip_us")?)?,
        clock: Clock {
            ahead_us: clock.of("ahead_us")?.number(-MOST)?,
            within_us: clock.of("within_us")?.number(0.0)?,
        },
        from_a_gbps: spread(&at.of("from_a_gbps")?)?,
        from_b_gbps: spread(&at.of("from_b_gbps")?)?,
    })
}

fn spread(at: &At<'_>) -> Result<Spread, MeasurementError> {
    let spread = Spread {
        n: at.of("n")?.count()?,
        min: at.of("min")?.number(0.0)?,
        median: at.of("median")?.number(0.0)?,
        max: at.of("max")?.number(0.0)?,
    };
    match spread.min <= spread.median && spread.median <= spread.max {
        true => Ok(spread),
        false => Err(at.refused("a median between min and max")),
    }
}

/// A value of the file, and where it stands.
struct At<'a> {
    value: &'a Value,
    place: String,
}

impl<'a> At<'a> {
    fn refused(&self, wanted: &'static str) -> MeasurementError {
        MeasurementError::Field {
            at: self.place.clone(),
            got: quote(&self.value.to_string()),
            wanted,
        }
    }

    fn object(&self) -> Result<&'a Map<String, Value>, MeasurementError> {
        self.value
            .as_object()
            .ok_or_else(|| self.refused("an object"))
    }

    fn of(&self, name: &str) -> Result<At<'a>, MeasurementError> {
        Ok(At {
            value: self.object()?.get(name).unwrap_or(&Value::Null),
            place: match self.place.as_str() {
                "file" => name.to_owned(),
                place => format!("{place}.{name}"),
            },
        })
    }

    fn items(&self, most: usize) -> Result<Vec<At<'a>>, MeasurementError> {
        let items = self.value.as_array().filter(|items| items.len() <= most);
        let items = items.ok_or_else(|| self.refused("a list that is not too long"))?;
        let at = |(idx, value)| At {
            value,
            place: format!("{}[{idx}]", self.place),
        };
        Ok(items.iter().enumerate().map(at).collect())
    }

    /// At most 100 characters of it.
    fn text(&self) -> Result<String, MeasurementError> {
        let text = self.value.as_str().filter(|text| !text.is_empty());
        text.map(quote).ok_or_else(|| self.refused("a text"))
    }

    fn count(&self) -> Result<u64, MeasurementError> {
        let count = self.value.as_u64().filter(|count| *count > 0);
        count.ok_or_else(|| self.refused("a number of at least 1"))
    }

    fn number(&self, least: f64) -> Result<f64, MeasurementError> {
        let number = self.value.as_f64();
        let number = number.filter(|number| (least..=MOST).contains(number));
        number.ok_or_else(|| self.refused("a number in range"))
    }
}
