//! `cargo xtask book`: the pages of docs/ as a book, its links and every command on them.
//!
//! ```text
//! docs/*.md, the root's pages ──> stage ──> target/book/source ──mdbook──> target/book/html ──> links
//! every block marked `sh`     ──> runs  ──> in a folder of its own, with what is built already
//! the block of output behind  ──> runs  ──> compared, or with --write rewritten
//! the program's help, checks, JSON ──> reference ──> docs/reference/*.md, compared or with --write rewritten
//! ```
//!
//! Programs are those of a folder that holds `sparkpilot` and `examples/`: what `--programs` names, else
//! `target/release`, where a person's `--check` and `--write` build them first; in `ci` those of its tests. Deliberately absent: links to other hosts
//! are not followed.

mod fields;
mod finding;
mod given;
mod html;
mod mdbook;
mod output;
mod pages;
mod programs;
mod reference;
mod runs;
mod stage;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::build_and_test;
use crate::error::{Error, LeftOut};
use crate::workspace::Workspace;

use finding::Finding;
use programs::Programs;

/// What a run is asked for.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Run every command, and compare what is generated.
    pub(crate) check: bool,
    /// The same, but what is generated is brought up to date.
    pub(crate) write: bool,
    /// Only pages whose path contains this.
    pub(crate) only: Option<String>,
    /// Where the programs lie.
    pub(crate) programs: Option<PathBuf>,
}

/// Runs commands where that is asked for, builds the book and checks its links.
///
/// # Errors
///
/// [`Error::Book`] after all findings were printed; programs that cannot be built or started.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<LeftOut, Error> {
    let mut findings = Vec::new();
    let mut left_out = LeftOut::new();
    if options.check || options.write {
        let programs = match &options.programs {
            Some(folder) => Programs::of(folder)?,
            None => Programs::build(workspace)?,
        };
        left_out = check(workspace, options, &programs, &mut findings)?;
    }
    build(workspace, &mut findings)?;
    judged(&findings).map(|()| left_out)
}

/// The step of `ci`: everything, with the programs that the optimised tests were run with.
///
/// # Errors
///
/// As [`run`].
pub(crate) fn run_after_optimised_tests(workspace: &Workspace) -> Result<LeftOut, Error> {
    let options = Options {
        check: true,
        programs: Some(workspace.target.join(build_and_test::OPTIMISED)),
        ..Options::default()
    };
    run(workspace, &options)
}

fn check(
    workspace: &Workspace,
    options: &Options,
    programs: &Programs,
    findings: &mut Vec<Finding>,
) -> Result<LeftOut, Error> {
    let folder = workspace.target.join("book");
    let given = given::Given::make(workspace, programs, &folder.join("given"))?;
    let wants = |path: &str| options.only.as_ref().is_none_or(|part| path.contains(part));
    if wants("docs/reference/") {
        reference::check(workspace, programs, &given, options.write, findings)?;
    }
    let started = Instant::now();
    let mut totals = runs::Totals::default();
    let paths = pages::paths(workspace)?.into_iter();
    let paths: Vec<String> = paths.filter(|path| wants(path)).collect();
    let check = |path: &str| -> Result<_, Error> {
        let (mut totals, mut findings) = (runs::Totals::default(), Vec::new());
        let page = runs::Page::read(workspace, path)?;
        page.check(
            programs,
            &given,
            &folder,
            options.write,
            &mut totals,
            &mut findings,
        )?;
        Ok((totals, findings))
    };
    // Times that a page is given are those of a machine with nothing else to do.
    let n_at_once = if options.write { 1 } else { 2 };
    for checked in together(&paths, n_at_once, check) {
        let (of_page, found) = checked?;
        totals.add(of_page);
        findings.extend(found);
    }
    println!("{totals} in {:.1} s", started.elapsed().as_secs_f64());
    Ok(totals.lacking())
}

/// Results of pages, in their order, up to the first error; so many pages at a time, as each has folders of its own and most
/// commands keep one processor busy.
fn together<T: Send>(
    paths: &[String],
    n_at_once: usize,
    check: impl Fn(&str) -> Result<T, Error> + Sync,
) -> Vec<Result<T, Error>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let position = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(position) else {
                return done;
            };
            let result = check(path);
            if result.is_err() {
                next.store(paths.len(), Ordering::Relaxed);
            }
            done.push((position, result));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..n_at_once).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            match other.join() {
                Ok(others) => done.extend(others),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(position, _)| *position);
    done.into_iter().map(|(_, result)| result).collect()
}

fn build(workspace: &Workspace, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let folder = workspace.target.join("book");
    let program = mdbook::get(&folder.join("tools"))?;
    stage::stage(workspace, &folder.join("source"))?;
    let warnings = mdbook::build(&program, &folder.join("source"), &folder.join("html"))?;
    findings.extend(warnings.into_iter().map(|message| Finding {
        page: "mdbook".to_owned(),
        line: 0,
        message,
    }));
    let n_pages = html::check(&folder.join("html"), findings)?;
    println!("book: {n_pages} pages in {}", folder.join("html").display());
    Ok(())
}

fn judged(findings: &[Finding]) -> Result<(), Error> {
    for finding in findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        n_findings => Err(Error::Book { n_findings }),
    }
}
