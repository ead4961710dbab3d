//! Scenario files: TOML or JSON, with a list of scenarios and a list of sweeps.
//!
//! ```toml
//! [[scenario]]
//! name = "bend"
//! duration_s = 20.0
//! start = { speed = 20.0 }
//! road = { segments = [{ length = 100.0 }, { length = 200.0, curvature_start = 0.005, curvature_end = 0.005 }] }
//!
//! [[sweep]]
//! axes = [{ parameter = "friction", values = [1.0, 0.5] }]
//! [sweep.base]
//! name = "slippery"
//! duration_s = 10.0
//! start = { speed = 15.0 }
//! ```
//!
//! Fields that a file leaves out have the defaults of [`Scenario`]; fields it invents are
//! errors. Every scenario is validated; a file that lies about one is refused whole, with
//! the scenario's number and the reason.

use super::{Scenario, Sweep};
use crate::{SimError, files};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What a scenario file holds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScenarioFile {
    /// Scenarios that the file lists one by one.
    #[serde(rename = "scenario")]
    pub scenarios: Vec<Scenario>,
    /// Sweeps, each of which stands for the product of its axes.
    #[serde(rename = "sweep")]
    pub sweeps: Vec<Sweep>,
}

/// Largest file read, bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The formats that scenarios are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Toml,
    Json,
}

fn format_of(path: &Path) -> Result<Format, SimError> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("toml") => Ok(Format::Toml),
        Some("json") => Ok(Format::Json),
        _ => Err(SimError::FileFormat {
            path: path.to_owned(),
        }),
    }
}

impl ScenarioFile {
    /// Reads and validates a `.toml` or `.json` file.
    ///
    /// # Errors
    ///
    /// [`SimError::FileFormat`] for another ending, [`SimError::Io`] if it cannot be read,
    /// [`SimError::FileTooLarge`] above 256 MiB, [`SimError::Parse`] with line and reason,
    /// [`SimError::InFile`] naming the scenario that is not valid.
    pub fn read(path: &Path) -> Result<Self, SimError> {
        let format = format_of(path)?;
        let text = files::read_text(path, MAX_BYTES)?;
        let parse = |reason: String| SimError::Parse {
            path: path.to_owned(),
            reason,
        };
        let file: Self = match format {
            Format::Toml => toml::from_str(&text).map_err(|e| parse(at_its_line(&text, &e)))?,
            Format::Json => {
                serde_json::from_str(&text).map_err(|e| parse(shortened(&e.to_string())))?
            }
        };
        let in_file = |number: usize, name: &str, source: SimError| SimError::InFile {
            path: path.to_owned(),
            number,
            name: name.to_owned(),
            source: Box::new(source),
        };
        for (i, scenario) in file.scenarios.iter().enumerate() {
            scenario
                .validate()
                .map_err(|e| in_file(i + 1, &scenario.name, e))?;
        }
        for (i, sweep) in file.sweeps.iter().enumerate() {
            let checked = sweep.n_scenarios().and(sweep.base.validate().map(|_| ()));
            checked.map_err(|e| in_file(i + 1, &sweep.base.name, e))?;
        }
        Ok(file)
    }

    /// Writes a `.toml` or `.json` file, through a temporary file beside it.
    ///
    /// # Errors
    ///
    /// [`SimError::FileFormat`], [`SimError::Parse`] if the scenarios cannot be expressed
    /// (a number that is not finite), or [`SimError::Io`].
    pub fn write(&self, path: &Path) -> Result<(), SimError> {
        let unwritable = |reason: String| SimError::Parse {
            path: path.to_owned(),
            reason,
        };
        let text = match format_of(path)? {
            Format::Toml => toml::to_string(self).map_err(|e| unwritable(e.to_string()))?,
            Format::Json => {
                serde_json::to_string_pretty(self).map_err(|e| unwritable(e.to_string()))?
            }
        };
        files::write(path, text.as_bytes())
    }

    /// Every scenario: those listed, then those of the sweeps, made as they are asked for.
    ///
    /// # Errors
    ///
    /// As [`Sweep::n_scenarios`].
    pub fn iter(&self) -> Result<impl Iterator<Item = Scenario> + '_, SimError> {
        let sweeps: Result<Vec<_>, SimError> = self.sweeps.iter().map(Sweep::iter).collect();
        let swept = sweeps?.into_iter().flatten();
        Ok(self.scenarios.iter().cloned().chain(swept))
    }
}

/// What is wrong with a TOML file and where, without the line itself, which may be as long as the file.
fn at_its_line(text: &str, error: &toml::de::Error) -> String {
    let message = shortened(error.message());
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
        return message;
    };
    let line = 1 + before.matches('\n').count();
    let column = 1 + before.chars().rev().take_while(|&c| c != '\n').count();
    format!("{message} at line {line} column {column}")
}

/// What parsers say repeats names and values of the file, of any length: its beginning and end.
fn shortened(message: &str) -> String {
    const MOST: usize = 200;
    let n = message.chars().count();
    if n <= 2 * MOST {
        return message.to_owned();
    }
    let begin: String = message.chars().take(MOST).collect();
    let end: String = message.chars().skip(n - MOST).collect();
    format!("{begin} … {end}")
}
