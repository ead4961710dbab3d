//! `sparkpilot sim report`: a run that was driven before, as people read it.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use spark_program::output::Words;
use spark_program::{output, place, printable};
use sparkpilot::sim::report::{run_html, run_json, run_markdown};

use super::saved;

/// Tell what a run came to that was driven before
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot sim report drives.json\n  \
    sparkpilot sim report drives.json --html drives.html --markdown drives.md\n  \
    sparkpilot sim run --suite alks-cut-in --controller pid --json - | sparkpilot sim report - --html drives.html\n\n\
    The exit code is 1 if a drive failed, as that of `sim run`.")]
pub(crate) struct Arguments {
    /// What `sim run --json` or `sim merge --json` wrote, or with `-` stdin
    #[arg(value_name = "RUN.json")]
    run: PathBuf,
    /// Write a page: metrics, their spreads, the worst drives, what failed
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
    /// Write what is printed otherwise, here or with `-` to stdout
    #[arg(long, value_name = "FILE.md")]
    markdown: Option<PathBuf>,
    /// Write the run once more as JSON (schema spark-sim-run/1), its summary made anew, here or with `-` to stdout
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Reads the run, writes what was asked for, and prints what it came to.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let written = [&arguments.html, &arguments.markdown, &arguments.json];
    let written = || written.into_iter().filter_map(Option::as_deref);
    let read = Some(&*arguments.run).filter(|path| !output::is_stdout(path));
    output::keep_apart(read, written())?;
    written().try_for_each(place::file)?;
    let report = saved::read(&arguments.run)?;
    let text = run_markdown(&report);
    let write = |path: &Option<PathBuf>, text: &dyn Fn() -> Result<String, Box<dyn Error>>| {
        let write =
            |path: &Path| -> Result<(), Box<dyn Error>> { Ok(output::write(path, text()?)?) };
        path.as_deref().map_or(Ok(()), write)
    };
    write(&arguments.html, &|| Ok(run_html(&report)))?;
    write(&arguments.markdown, &|| Ok(text.clone()))?;
    write(&arguments.json, &|| Ok(run_json(&report)?))?;
    Words::beside(written()).say(&printable(&text))?;
    let has_failed = report.results.iter().any(|it| it.outcome.is_err());
    Ok(ExitCode::from(u8::from(has_failed)))
}
