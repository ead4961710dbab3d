//! The table of docs/measured.md: the models of the newest full record of every machine.
//!
//! Only cases named `supercombo/<model>/<precision>/<device>/<threads>` are rows; the rest
//! of a record is for its readers under `benches/records`.

use std::fmt::Write as _;
use std::path::Path;

use spark_drawing::markdown::cell;

use super::record::{self, Record};
use crate::error::Error;
use crate::workspace::Workspace;

/// Markdown, ending in a newline.
pub(crate) fn records_table(workspace: &Workspace) -> Result<String, Error> {
    let records = workspace.root.join("benches/records");
    let mut newest = Vec::new();
    for slug in folders(&records)? {
        if let Some((stem, record)) = record::newest_full(&records.join(&slug))? {
            newest.push((slug, stem, record));
        }
    }
    Ok(render(&newest))
}

fn folders(records: &Path) -> Result<Vec<String>, Error> {
    if !records.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(records).map_err(Error::io("list", records))? {
        let entry = entry.map_err(Error::io("list", records))?;
        if entry.path().is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn render(newest: &[(String, String, Record)]) -> String {
    if newest.is_empty() {
        return "No record yet; `cargo xtask bench` makes one.\n".to_owned();
    }
    let mut table = String::from(
        "| model | precision | device | threads | median ms | p95 ms | load ms | weights MB | record |\n\
         |---|---|---|---:|---:|---:|---:|---:|---|\n",
    );
    for (idx, (_, _, record)) in newest.iter().enumerate() {
        for case in &record.cases {
            let parts: Vec<&str> = case.name.split('/').collect();
            let ["supercombo", model, precision, device, threads] = parts[..] else {
                continue;
            };
            let number = |value: Option<f64>| {
                value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"))
            };
            let [model, precision, device, threads] = [model, precision, device, threads].map(cell);
            let megabytes = case.weight_bytes.map(|bytes| bytes as f64 / 1e6);
            let _ = writeln!(
                table,
                "| {model} | {precision} | {device} | {} | {:.2} | {} | {} | {} | [{}] |",
                threads.trim_start_matches('t'),
                case.median,
                number(case.p95),
                number(case.load_ms),
                number(megabytes),
                idx + 1
            );
        }
    }
    // Machine, commit and compiler stand in the text file each row leads to.
    table.push('\n');
    for (idx, (slug, stem, _)) in newest.iter().enumerate() {
        let _ = writeln!(table, "- [{}] `benches/records/{slug}/{stem}.txt`", idx + 1);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::Case;

    fn case(name: &str) -> Case {
        Case {
            name: name.to_owned(),
            unit: "ms".to_owned(),
            median: 12.25,
            p95: Some(13.0),
            load_ms: Some(40.0),
            weight_bytes: Some(3_900_000),
            ..Case::default()
        }
    }

    #[test]
    fn only_models_are_rows() {
        let cases = vec![case("supercombo/dmonitoring/fp32/cpu/t2"), case("gemm/64")];
        let record = Record {
            date: "2026-11-20".to_owned(),
            cases,
        };
        let table = render(&[("pc-2c".to_owned(), "2026-11-20".to_owned(), record)]);
        let row = "| dmonitoring | fp32 | cpu | 2 | 12.25 | 13.00 | 40.00 | 3.90 | [1] |";
        assert!(table.contains(row), "{table}");
        assert!(!table.contains("gemm"));
        assert!(table.contains("- [1] `benches/records/pc-2c/2026-11-20.txt`"));
    }

    #[test]
    fn names_cannot_break_the_table() {
        let name = "supercombo/a|b `c`/fp32/cpu/t2";
        let record = Record {
            date: "2026-11-20".to_owned(),
            cases: vec![case(name)],
        };
        let table = render(&[("pc-2c".to_owned(), "2026-11-20".to_owned(), record)]);
        let row = "| a\\|b \\`c\\` | fp32 | cpu | 2 | 12.25 |";
        assert!(table.contains(row), "{table}");
    }

    #[test]
    fn without_records_it_says_so() {
        assert!(render(&[]).contains("No record yet"));
    }
}
