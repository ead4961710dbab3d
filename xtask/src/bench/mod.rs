//! `cargo xtask bench`: run every benchmark, keep what it said, compare, plot.
//!
//! ```text
//! cargo bench, every target ─┐
//! bench_supercombo --json  ──┴─> cases ─> benches/records/<machine>/<date>.csv .txt .svg
//!                                 └──> table: ratio to the last full record of this machine
//! ```
//!
//! A full run makes a record that git keeps. `--quick` (few samples) and `--filter` (some
//! cases) make a partial one, `<date>.partial.csv`, which git ignores and which never
//! replaces a full record. Deliberately absent: records of several machines in one run.

mod compare;
mod criterion;
mod machine;
mod options;
mod plot;
mod record;
pub(crate) mod supercombo;
mod table;
mod targets;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::Error;
use crate::workspace::Workspace;

use machine::Machine;
use record::Record;

pub(crate) use options::Options;
pub(crate) use table::records_table;

/// Runs the benchmarks and writes the record.
///
/// # Errors
///
/// Any benchmark that fails, and a run without a single case.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Error> {
    let machine = Machine::read(Path::new("/"));
    let folder = workspace.root.join("benches/records").join(machine.slug());
    let previous = record::newest_full(&folder)?;
    if let Some(warning) = machine.warning() {
        println!("warning: {warning}");
    }

    let mut cases = targets::run(workspace, options)?;
    cases.extend(supercombo::run(workspace, options)?);
    cases.retain(|case| options.wants(case));
    if cases.is_empty() {
        return Err(Error::Usage(
            "no benchmark case ran; check --filter".to_owned(),
        ));
    }

    let record = Record {
        date: today()?,
        cases,
    };
    let stem = record::free_stem(&folder, &record.date, options.is_full());
    std::fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    let changes = compare::changes(&record, previous.as_ref().map(|(_, record)| record));
    let conditions = machine.conditions(workspace, options)?;

    let csv = folder.join(format!("{stem}.csv"));
    write_whole(&csv, &record.to_csv())?;
    write_whole(&folder.join(format!("{stem}.txt")), &conditions)?;
    write_whole(
        &folder.join(format!("{stem}.svg")),
        &plot::draw(&record, &changes, &machine.title()),
    )?;
    if let Some(path) = &options.json {
        write_whole(path, &record.to_json(&machine.title()))?;
    }

    println!("\n{}", compare::table(&record, &changes));
    match &previous {
        Some((name, _)) => println!("compared with {name}.csv"),
        None => println!("first full record of this machine: nothing to compare with"),
    }
    println!(
        "wrote {}",
        csv.strip_prefix(&workspace.root).unwrap_or(&csv).display()
    );
    Ok(())
}

/// Today in UTC, `YYYY-MM-DD`, by the system's own program: a crate of dates would be compiled for one line.
fn today() -> Result<String, Error> {
    let date = command::output_of(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    Ok(date.trim().to_owned())
}

/// Writes to a temporary name and renames, so that a reader never sees half a file.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Error> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    std::fs::write(&temporary, text).map_err(Error::io("write", &temporary))?;
    std::fs::rename(&temporary, path).map_err(Error::io("rename to", path))
}
