//! `sparkpilot sim list`: suites and controllers.

use std::error::Error;
use std::process::ExitCode;

use clap::ValueEnum as _;
use serde_json::{Value, json};

use super::controllers::Controller;
use super::suites::Suite;
use super::words::{name_of, sentence_of};
use crate::tables;

/// List suites of scenarios and controllers
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot sim list\n  \
    sparkpilot sim list --json")]
pub(crate) struct Arguments {
    /// Print them as JSON (schema sparkpilot-sim-list/1)
    #[arg(long)]
    json: bool,
}

/// Prints both lists.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    // Of random scenarios there are as many as one asks for.
    let n_scenarios = |suite: Suite| match suite {
        Suite::Random => None,
        suite => Some(suite.scenarios(0, 1).len()),
    };
    let suites: Vec<(Suite, Option<usize>)> = Suite::value_variants()
        .iter()
        .map(|suite| (*suite, n_scenarios(*suite)))
        .collect();
    if arguments.json {
        let suite = |(suite, n): &(Suite, Option<usize>)| -> Value {
            json!({ "name": name_of(*suite), "scenarios": n, "what": sentence_of(*suite) })
        };
        let controller =
            |it: &Controller| json!({ "name": name_of(*it), "what": sentence_of(*it) });
        let told = json!({
            "schema": "sparkpilot-sim-list/1",
            "suites": suites.iter().map(suite).collect::<Vec<_>>(),
            "controllers": Controller::value_variants().iter().map(controller).collect::<Vec<_>>(),
        });
        println!("{told:#}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![["suite", "scenarios", "what"].map(str::to_owned)];
    rows.extend(suites.iter().map(|(suite, n)| {
        let n = n.map_or_else(|| "any".to_owned(), |n| n.to_string());
        [name_of(*suite), n, sentence_of(*suite)]
    }));
    println!("{}", tables::columns(&rows));
    let mut rows = vec![["controller", "what"].map(str::to_owned)];
    rows.extend(
        Controller::value_variants()
            .iter()
            .map(|it| [name_of(*it), sentence_of(*it)]),
    );
    print!("{}", tables::columns(&rows));
    Ok(ExitCode::SUCCESS)
}
