//! A record: one line per case, as CSV and as JSON, and where records lie.
//!
//! ```text
//! benches/records/<machine>/2026-11-20.csv       first full record of a day
//!                           2026-11-20-2.csv     second one
//!                           2026-11-20.partial.csv   quick or filtered
//! ```
//!
//! Times are milliseconds of wall clock for one run of the case. Empty fields do not apply.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::error::Error;

/// One measured case.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Case {
    /// Parts joined by `/`, the benchmark first.
    pub(crate) name: String,
    /// Timed runs (or criterion samples) behind the figures.
    pub(crate) n_runs: u64,
    pub(crate) min_ms: f64,
    pub(crate) median_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) max_ms: f64,
    /// Model read, checked, lowered and packed.
    pub(crate) load_ms: Option<f64>,
    pub(crate) weight_bytes: Option<u64>,
    pub(crate) arena_bytes: Option<u64>,
    /// Largest error against the golden, relative to the output's largest value.
    pub(crate) golden_max_rel: Option<f64>,
}

/// All cases of one run of `cargo xtask bench`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Record {
    /// `YYYY-MM-DD`.
    pub(crate) date: String,
    pub(crate) cases: Vec<Case>,
}

const HEADER: &str =
    "case,runs,min_ms,median_ms,p95_ms,max_ms,load_ms,weight_bytes,arena_bytes,golden_max_rel";

impl Record {
    pub(crate) fn case(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == name)
    }

    pub(crate) fn to_csv(&self) -> String {
        let mut csv = format!("{HEADER}\n");
        for case in &self.cases {
            let name = case.name.replace([',', '"', '\n'], "_");
            let _ = write!(
                csv,
                "{name},{},{:.4},{:.4},{:.4},{:.4},",
                case.n_runs, case.min_ms, case.median_ms, case.p95_ms, case.max_ms
            );
            let load_ms = case
                .load_ms
                .map(|ms| format!("{ms:.2}"))
                .unwrap_or_default();
            let bytes =
                |bytes: Option<u64>| bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
            let max_rel = case
                .golden_max_rel
                .map(|rel| format!("{rel:.3e}"))
                .unwrap_or_default();
            let _ = writeln!(
                csv,
                "{load_ms},{},{},{max_rel}",
                bytes(case.weight_bytes),
                bytes(case.arena_bytes)
            );
        }
        csv
    }

    /// Reads what `to_csv` wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] naming the column that cannot be read.
    pub(crate) fn from_csv(date: &str, csv: &str) -> Result<Self, Error> {
        let broken = |field: &str| Error::Shape {
            what: format!("record {date}"),
            field: field.to_owned(),
        };
        let mut lines = csv.lines();
        if lines.next() != Some(HEADER) {
            return Err(broken("header"));
        }
        let mut cases = Vec::new();
        for line in lines {
            let fields: Vec<&str> = line.split(',').collect();
            let field = |name: &str| {
                let idx = HEADER.split(',').position(|column| column == name);
                idx.and_then(|idx| fields.get(idx))
                    .copied()
                    .ok_or_else(|| broken(name))
            };
            let number = |name: &str| -> Result<f64, Error> {
                let value: f64 = field(name)?.parse().map_err(|_| broken(name))?;
                if value.is_finite() {
                    Ok(value)
                } else {
                    Err(broken(name))
                }
            };
            let optional = |name: &str| -> Result<Option<f64>, Error> {
                if field(name)?.is_empty() {
                    Ok(None)
                } else {
                    number(name).map(Some)
                }
            };
            let bytes = |name: &str| -> Result<Option<u64>, Error> {
                match field(name)? {
                    "" => Ok(None),
                    text => text.parse().map(Some).map_err(|_| broken(name)),
                }
            };
            cases.push(Case {
                name: field("case")?.to_owned(),
                n_runs: field("runs")?.parse().map_err(|_| broken("runs"))?,
                min_ms: number("min_ms")?,
                median_ms: number("median_ms")?,
                p95_ms: number("p95_ms")?,
                max_ms: number("max_ms")?,
                load_ms: optional("load_ms")?,
                weight_bytes: bytes("weight_bytes")?,
                arena_bytes: bytes("arena_bytes")?,
                golden_max_rel: optional("golden_max_rel")?,
            });
        }
        Ok(Self {
            date: date.to_owned(),
            cases,
        })
    }

    /// The record for other programs.
    pub(crate) fn to_json(&self, machine: &str) -> String {
        let cases: Vec<Value> = self
            .cases
            .iter()
            .map(|case| {
                json!({
                    "case": case.name, "runs": case.n_runs,
                    "min_ms": case.min_ms, "median_ms": case.median_ms,
                    "p95_ms": case.p95_ms, "max_ms": case.max_ms,
                    "load_ms": case.load_ms, "weight_bytes": case.weight_bytes,
                    "arena_bytes": case.arena_bytes, "golden_max_rel": case.golden_max_rel,
                })
            })
            .collect();
        let document = json!({
            "schema": "spark-records/1", "date": self.date, "machine": machine, "cases": cases,
        });
        format!("{document:#}\n")
    }
}

/// The newest full record in a machine's folder, with its file stem.
pub(crate) fn newest_full(folder: &Path) -> Result<Option<(String, Record)>, Error> {
    if !folder.is_dir() {
        return Ok(None);
    }
    let mut stems = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let entry = entry.map_err(Error::io("list", folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(order) = name.strip_suffix(".csv").and_then(full_order) {
            stems.push((order, name.trim_end_matches(".csv").to_owned()));
        }
    }
    let Some((_, stem)) = stems.into_iter().max() else {
        return Ok(None);
    };
    let path = folder.join(format!("{stem}.csv"));
    let csv = std::fs::read_to_string(&path).map_err(Error::io("read", &path))?;
    let record = Record::from_csv(&stem[..10], &csv)?;
    Ok(Some((stem, record)))
}

/// Date and count of a full record's stem; `None` for anything else.
fn full_order(stem: &str) -> Option<(String, u32)> {
    let date = stem.get(..10)?;
    let is_date = date.char_indices().all(|(idx, c)| match idx {
        4 | 7 => c == '-',
        _ => c.is_ascii_digit(),
    });
    let count = match stem.get(10..)? {
        "" => 1,
        rest => rest.strip_prefix('-')?.parse().ok()?,
    };
    is_date.then(|| (date.to_owned(), count))
}

/// The stem a new record takes: a full one never replaces another, a partial one may.
pub(crate) fn free_stem(folder: &Path, date: &str, is_full: bool) -> String {
    if !is_full {
        return format!("{date}.partial");
    }
    let mut stem = date.to_owned();
    let mut count = 1;
    while folder.join(format!("{stem}.csv")).exists() {
        count += 1;
        stem = format!("{date}-{count}");
    }
    stem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            date: "2026-11-20".to_owned(),
            cases: vec![
                Case {
                    name: "supercombo/a/fp32/cpu/t2".to_owned(),
                    n_runs: 100,
                    min_ms: 1.5,
                    median_ms: 2.0,
                    p95_ms: 2.5,
                    max_ms: 9.0,
                    load_ms: Some(12.25),
                    weight_bytes: Some(1000),
                    arena_bytes: Some(64),
                    golden_max_rel: Some(1.25e-6),
                },
                Case {
                    name: "gemm/8".to_owned(),
                    n_runs: 3,
                    median_ms: 0.5,
                    ..Case::default()
                },
            ],
        }
    }

    #[test]
    fn csv_comes_back_as_it_went() {
        let csv = record().to_csv();
        assert_eq!(Record::from_csv("2026-11-20", &csv).unwrap(), record());
    }

    #[test]
    fn broken_csv_is_an_error() {
        let csv = record().to_csv();
        assert!(Record::from_csv("d", "other,header\n").is_err());
        assert!(Record::from_csv("d", &csv.replace("2.0000", "NaN")).is_err());
        assert!(Record::from_csv("d", &csv.replace(",100,", ",,")).is_err());
        assert!(Record::from_csv("d", &format!("{csv}short,line\n")).is_err());
    }

    #[test]
    fn a_comma_in_a_name_cannot_shift_columns() {
        let mut record = record();
        record.cases[0].name = "a,b".to_owned();
        assert_eq!(
            Record::from_csv("d", &record.to_csv()).unwrap().cases[0].name,
            "a_b"
        );
    }

    #[test]
    fn later_counts_of_a_day_are_newer_and_partial_records_are_not_full() {
        let newest = ["2026-11-19", "2026-11-20", "2026-11-20-2", "2026-11-20-10"];
        let orders: Vec<_> = newest
            .iter()
            .map(|stem| full_order(stem).unwrap())
            .collect();
        assert!(orders.is_sorted());
        assert_eq!(full_order("2026-11-20.partial"), None);
        assert_eq!(full_order("notes"), None);
    }

    #[test]
    fn a_full_record_is_never_replaced() {
        let folder = std::env::temp_dir().join(format!("spark-xtask-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(free_stem(&folder, "2026-11-20", true), "2026-11-20");
        std::fs::write(folder.join("2026-11-20.csv"), record().to_csv()).unwrap();
        std::fs::write(folder.join("2026-11-21.partial.csv"), "not read").unwrap();
        assert_eq!(free_stem(&folder, "2026-11-20", true), "2026-11-20-2");
        assert_eq!(
            free_stem(&folder, "2026-11-20", false),
            "2026-11-20.partial"
        );
        let (stem, newest) = newest_full(&folder).unwrap().unwrap();
        assert_eq!((stem.as_str(), newest), ("2026-11-20", record()));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
