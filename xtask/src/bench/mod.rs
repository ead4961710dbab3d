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
mod date;
mod machine;
mod plot;
mod record;
pub(crate) mod supercombo;
mod table;
mod targets;

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::workspace::Workspace;

use machine::Machine;
use record::{Case, Record};

pub(crate) use table::readme_table;

/// What to run and where to put it.
pub(crate) struct Options {
    /// Only cases whose name holds this text.
    pub(crate) filter: Option<String>,
    /// Few samples.
    pub(crate) quick: bool,
    /// Where to put the cases as JSON too.
    pub(crate) json: Option<PathBuf>,
}

impl Options {
    fn is_full(&self) -> bool {
        self.filter.is_none() && !self.quick
    }

    fn wants(&self, case: &Case) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| case.name.contains(filter.as_str()))
    }
}

/// What a filter chooses from one benchmark.
#[derive(Debug, PartialEq, Eq)]
enum Choice<'a> {
    Nothing,
    All,
    /// Cases whose name without the benchmark's holds this text.
    Cases(&'a str),
}

impl Options {
    /// What to run of `benchmark`, one of the targets or the main example.
    ///
    /// A filter `name`, or `name/text`, where `name` is a benchmark, chooses that benchmark
    /// alone; any other text is looked for in the cases of all.
    fn choice(&self, benchmark: &str, targets: &[String]) -> Choice<'_> {
        let Some(filter) = self.filter.as_deref() else {
            return Choice::All;
        };
        let (first, rest) = filter.split_once('/').unwrap_or((filter, ""));
        let names_one = first == supercombo::FAMILY || targets.iter().any(|name| name == first);
        match (names_one, first == benchmark) {
            (true, false) => Choice::Nothing,
            (true, true) if rest.is_empty() => Choice::All,
            (true, true) => Choice::Cases(rest),
            (false, _) => Choice::Cases(filter),
        }
    }
}

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
        date: date::today(),
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

/// Writes to a temporary name and renames, so that a reader never sees half a file.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Error> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    std::fs::write(&temporary, text).map_err(Error::io("write", &temporary))?;
    std::fs::rename(&temporary, path).map_err(Error::io("rename to", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn chooses(filter: Option<&str>, benchmark: &str, want: Choice<'_>) {
        let options = Options {
            filter: filter.map(str::to_owned),
            quick: false,
            json: None,
        };
        let targets = ["quant".to_owned(), "sim".to_owned()];
        assert_eq!(options.choice(benchmark, &targets), want);
    }

    #[test]
    fn without_a_filter_everything_runs() {
        chooses(None, "sim", Choice::All);
    }

    #[test]
    fn a_filter_that_names_a_benchmark_runs_it_alone() {
        chooses(Some("sim"), "sim", Choice::All);
        chooses(Some("sim/kinematic"), "sim", Choice::Cases("kinematic"));
        chooses(Some("sim/kinematic"), "quant", Choice::Nothing);
        chooses(Some("sim"), "supercombo", Choice::Nothing);
        chooses(
            Some("supercombo/driving"),
            "supercombo",
            Choice::Cases("driving"),
        );
    }

    #[test]
    fn any_other_filter_is_looked_for_everywhere() {
        chooses(Some("nvfp4"), "quant", Choice::Cases("nvfp4"));
        chooses(Some("simple"), "sim", Choice::Cases("simple"));
    }
}
