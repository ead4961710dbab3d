//! A record: one line per case, as CSV and as JSON, and where records lie.
//!
//! ```text
//! benches/records/<machine>/2026-11-20.csv           first full record of a day
//!                           2026-11-20-2.csv         second one
//!                           2026-11-20.partial.csv   quick or filtered
//! ```
//!
//! A figure is a time per run (`ns` to `s`, smaller is better) or a rate per second or ratio (any
//! other unit, larger is better). Empty fields do not apply.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::error::Error;

/// One measured case with the spread of its runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Case {
    /// Parts joined by `/`, the benchmark first.
    pub(crate) name: String,
    /// `ms`, or something per second.
    pub(crate) unit: String,
    /// Timed runs behind the figures.
    pub(crate) n_runs: u64,
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
    pub(crate) p95: Option<f64>,
    /// Model read, checked, lowered and packed.
    pub(crate) load_ms: Option<f64>,
    pub(crate) weight_bytes: Option<u64>,
    pub(crate) arena_bytes: Option<u64>,
    /// Largest error against the golden, relative to the output's largest value.
    pub(crate) golden_max_rel: Option<f64>,
}

impl Case {
    /// Whether larger figures are better: of everything but times.
    pub(crate) fn is_rate(&self) -> bool {
        !matches!(self.unit.as_str(), "ns" | "us" | "ms" | "s")
    }

    /// Cost of the usual run: the median, or its inverse for a rate.
    pub(crate) fn usual_cost(&self) -> f64 {
        if self.is_rate() {
            1.0 / self.median
        } else {
            self.median
        }
    }

    /// Cost of the best run.
    pub(crate) fn best_cost(&self) -> f64 {
        if self.is_rate() {
            1.0 / self.max
        } else {
            self.min
        }
    }
}

/// All cases of one run of `cargo xtask bench`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Record {
    /// Day of the run, as `YYYY-MM-DD`.
    pub(crate) date: String,
    pub(crate) cases: Vec<Case>,
}

const HEADER: &str =
    "case,unit,runs,min,median,max,p95,load_ms,weight_bytes,arena_bytes,golden_max_rel";

impl Record {
    /// The case of the same name and unit.
    pub(crate) fn counterpart(&self, case: &Case) -> Option<&Case> {
        self.cases
            .iter()
            .find(|other| other.name == case.name && other.unit == case.unit)
    }

    pub(crate) fn to_csv(&self) -> String {
        let mut csv = format!("{HEADER}\n");
        for case in &self.cases {
            let plain = |text: &str| text.replace([',', '"', '\n'], "_");
            let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes.to_string());
            let rounded = |value: Option<f64>| value.map(significant);
            let max_rel = case.golden_max_rel.map(|rel| format!("{rel:.3e}"));
            let optional = [
                rounded(case.p95),
                rounded(case.load_ms),
                bytes(case.weight_bytes),
                bytes(case.arena_bytes),
                max_rel,
            ];
            let optional: Vec<String> = optional
                .into_iter()
                .map(Option::unwrap_or_default)
                .collect();
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{},{}",
                plain(&case.name),
                plain(&case.unit),
                case.n_runs,
                significant(case.min),
                significant(case.median),
                significant(case.max),
                optional.join(",")
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
                unit: field("unit")?.to_owned(),
                n_runs: field("runs")?.parse().map_err(|_| broken("runs"))?,
                min: number("min")?,
                median: number("median")?,
                max: number("max")?,
                p95: optional("p95")?,
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
                    "name": case.name, "unit": case.unit, "runs": case.n_runs,
                    "min": case.min, "median": case.median, "max": case.max, "p95": case.p95,
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

/// Five significant digits: more than any of these measurements holds.
pub(crate) fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if (-4..7).contains(&magnitude) {
        let decimals = (4 - magnitude).max(0) as usize;
        format!("{value:.decimals$}")
    } else {
        format!("{value:.4e}")
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
        if let Some(stem) = name.strip_suffix(".csv")
            && let Some(order) = full_order(stem)
        {
            stems.push((order, stem.to_owned()));
        }
    }
    let Some(((date, _), stem)) = stems.into_iter().max() else {
        return Ok(None);
    };
    let path = folder.join(format!("{stem}.csv"));
    let csv = std::fs::read_to_string(&path).map_err(Error::io("read", &path))?;
    Ok(Some((stem, Record::from_csv(&date, &csv)?)))
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
                    unit: "ms".to_owned(),
                    n_runs: 100,
                    min: 1.5,
                    median: 2.0,
                    max: 9.0,
                    p95: Some(2.5),
                    load_ms: Some(12.25),
                    weight_bytes: Some(1000),
                    arena_bytes: Some(64),
                    golden_max_rel: Some(1.25e-6),
                },
                Case {
                    name: "sim/step".to_owned(),
                    unit: "steps/s".to_owned(),
                    n_runs: 21,
                    min: 1.25e8,
                    median: 2.5e8,
                    max: 3e8,
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
    fn five_digits_are_kept() {
        for (value, text) in [
            (0.0, "0"),
            (12.3456789, "12.346"),
            (0.000_123_456, "0.00012346"),
            (123_456.7, "123457"),
            (2.5e8, "2.5000e8"),
            (1.25e-9, "1.2500e-9"),
        ] {
            assert_eq!(significant(value), text);
        }
    }

    #[test]
    fn the_best_of_a_rate_is_its_largest() {
        let rate = &record().cases[1];
        assert!(rate.is_rate() && (rate.best_cost() - 1.0 / 3e8).abs() < 1e-20);
        assert!(!record().cases[0].is_rate());
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
