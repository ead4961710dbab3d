//! The bench targets of the workspace, whichever harness they use.
//!
//! ```text
//! prints a table      case,unit,runs,min,median,max[,…]              any unit
//!                     case,n,runs,min_ms,median_ms,max_ms[,…]        named case/n
//! or uses criterion   results below $CRITERION_HOME (module `criterion`)
//! case name           <bench target>/<case>, where the case does not begin so itself
//! ```
//!
//! Arguments handed to a bench are single words, as harnesses differ in which flags take a
//! value: `--quick`, `--noplot`, and a filter.

use std::path::Path;

use super::criterion;
use super::options::{Choice, Options};
use super::record::Case;
use crate::command;
use crate::error::Error;
use crate::workspace::Workspace;

/// Runs the bench targets that the options choose.
///
/// # Errors
///
/// A bench that fails, and without a filter one that reports nothing.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<Vec<Case>, Error> {
    let names = names(workspace);
    let mut cases = Vec::new();
    for package in &workspace.packages {
        for target in package
            .targets
            .iter()
            .filter(|target| target.kind == "bench")
        {
            let inner = match options.choice(&target.name, &names) {
                Choice::Nothing => continue,
                Choice::All => None,
                Choice::Cases(filter) => Some(filter),
            };
            let found = run_one(workspace, options, &package.name, &target.name, inner)?;
            if found.is_empty() && inner.is_none() {
                return Err(Error::Usage(format!(
                    "bench `{}` of {} reported no case",
                    target.name, package.name
                )));
            }
            cases.extend(found);
        }
    }
    Ok(cases)
}

/// Names of all bench targets.
pub(super) fn names(workspace: &Workspace) -> Vec<String> {
    let targets = workspace
        .packages
        .iter()
        .flat_map(|package| &package.targets);
    let benches = targets.filter(|target| target.kind == "bench");
    benches.map(|target| target.name.clone()).collect()
}

fn run_one(
    workspace: &Workspace,
    options: &Options,
    package: &str,
    target: &str,
    filter: Option<&str>,
) -> Result<Vec<Case>, Error> {
    let home = workspace.target.join("xtask-bench/criterion").join(target);
    empty(&home)?;
    let mut bench = command::cargo(&["bench", "-p", package, "--bench", target, "--", "--noplot"]);
    if options.quick {
        bench.arg("--quick");
    }
    // A filter that criterion would read as a pattern is applied to the results only.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-/ ".contains(c);
    bench.args(filter.filter(|text| text.chars().all(is_plain)));
    bench
        .current_dir(&workspace.root)
        .env("CRITERION_HOME", &home);
    println!("== cargo bench -p {package} --bench {target}");
    let mut table = Table::default();
    let mut broken = None;
    command::for_each_line(&mut bench, |line| {
        if let Err(error) = table.read(line) {
            broken.get_or_insert(error);
        }
    })?;
    if let Some(error) = broken {
        return Err(error);
    }
    let mut cases = table.cases;
    cases.extend(criterion::collect(&home)?);
    for case in &mut cases {
        case.name = full_name(target, &case.name);
    }
    Ok(cases)
}

/// Name of a case in a record.
fn full_name(target: &str, case: &str) -> String {
    let prefix = format!("{target}/");
    match case.starts_with(&prefix) {
        true => case.to_owned(),
        false => prefix + case,
    }
}

/// A folder of this program's own, so that no earlier run is taken for this one.
fn empty(folder: &Path) -> Result<(), Error> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(Error::io("empty", folder))?;
    }
    Ok(())
}

/// A table as it comes, line by line; lines before its header and after its end are not its.
#[derive(Default)]
struct Table {
    columns: Vec<String>,
    cases: Vec<Case>,
}

impl Table {
    /// Takes one line of output.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] for a line of the table whose figures cannot be read.
    fn read(&mut self, line: &str) -> Result<(), Error> {
        let fields: Vec<&str> = line.trim().split(',').collect();
        if fields[0] == "case" && fields.contains(&"runs") {
            self.columns = fields.iter().map(ToString::to_string).collect();
            return Ok(());
        }
        if self.columns.is_empty() || fields.len() != self.columns.len() {
            return Ok(());
        }
        let field = |names: &[&str]| {
            let idx = self
                .columns
                .iter()
                .position(|column| names.contains(&column.as_str()));
            idx.map(|idx| fields[idx])
        };
        let broken = |name: &str| Error::Shape {
            what: format!("benchmark line `{line}`"),
            field: name.to_owned(),
        };
        let number = |names: &[&str]| -> Result<f64, Error> {
            let value: Option<f64> = field(names).and_then(|text| text.parse().ok());
            value
                .filter(|value| value.is_finite())
                .ok_or_else(|| broken(names[0]))
        };
        let name = match field(&["n"]) {
            Some(n) => format!("{}/{n}", fields[0]),
            None => fields[0].to_owned(),
        };
        self.cases.push(Case {
            name,
            unit: field(&["unit"]).unwrap_or("ms").to_owned(),
            n_runs: number(&["runs"])? as u64,
            min: number(&["min", "min_ms"])?,
            median: number(&["median", "median_ms"])?,
            max: number(&["max", "max_ms"])?,
            ..Case::default()
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Result<Vec<Case>, Error> {
        let mut table = Table::default();
        for line in lines {
            table.read(line)?;
        }
        Ok(table.cases)
    }

    #[test]
    fn a_table_of_rates_is_read() {
        let cases = read(&[
            "checking 3 cases",
            "case,unit,runs,min,median,max,median_cpu",
            "kinematic,steps/s,21,1.0e8,2.0e8,3.0e8,n/a",
        ])
        .unwrap();
        assert_eq!(
            (cases[0].name.as_str(), cases[0].unit.as_str()),
            ("kinematic", "steps/s")
        );
        assert!((cases[0].median - 2e8).abs() < 1.0);
        assert!(cases[0].is_rate());
    }

    #[test]
    fn a_table_of_times_is_read() {
        let cases = read(&[
            "case,n,runs,min_ms,median_ms,max_ms,out_gb_per_s",
            "encode,4096,21,0.5,0.75,1.5,12",
        ])
        .unwrap();
        assert_eq!(
            (cases[0].name.as_str(), cases[0].unit.as_str()),
            ("encode/4096", "ms")
        );
        assert_eq!(
            (cases[0].n_runs, cases[0].min, cases[0].max),
            (21, 0.5, 1.5)
        );
    }

    #[test]
    fn a_case_is_named_after_its_bench_once() {
        assert_eq!(full_name("sim", "ks_euler/1t"), "sim/ks_euler/1t");
        assert_eq!(full_name("sim", "sim/ks_euler/1t"), "sim/ks_euler/1t");
    }

    /// Headers of tables in the sources below `folder`.
    fn headers(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                headers(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = std::fs::read_to_string(&path).unwrap();
                let after = source.split("\"case,").skip(1);
                let rest = after.filter_map(|text| text.split('"').next());
                found.extend(rest.map(|rest| format!("case,{rest}")));
            }
        }
    }

    #[test]
    fn the_table_of_every_bench_is_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = Vec::new();
        headers(&root.join("benches"), &mut found);
        for entry in std::fs::read_dir(root.join("crates")).unwrap() {
            headers(&entry.unwrap().path().join("benches"), &mut found);
        }
        assert!(found.len() >= 4, "{found:?}");
        for header in found {
            let fields = header.split(',').map(|column| match column {
                "case" | "unit" => column,
                _ => "1",
            });
            let line = fields.collect::<Vec<_>>().join(",");
            assert_eq!(read(&[&header, &line]).unwrap().len(), 1, "{header}");
        }
    }

    #[test]
    fn other_output_is_no_table() {
        assert_eq!(read(&["running 3 tests", "a,b,c", ""]).unwrap(), []);
    }

    #[test]
    fn a_broken_figure_is_an_error() {
        let header = "case,unit,runs,min,median,max";
        assert!(read(&[header, "a,ms,21,1,NaN,2"]).is_err());
        assert!(read(&[header, "a,ms,21,1,fast,2"]).is_err());
    }
}
