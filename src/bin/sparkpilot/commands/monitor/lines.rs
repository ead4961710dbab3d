//! The machine line by line: for people, as rows of CSV, as lines of JSON.
//!
//! ```text
//! every interval:  Looker::look ── a line, or a row for each GPU, in one write ── the others who want the look
//! at the end:      GPUs in short, for people
//! ```
//!
//! Every line is written when it is known: a process that is killed leaves whole lines up to its last look.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use spark_program::{about, output, postponed, printable, tell};
use sparkpilot::hal::monitor::{Look, Looker, RateKind, Recording, Sample, utc};

use super::companions::Companions;
use super::words::{gibibytes, or_unknown, speed};

/// How to watch.
pub(super) struct Lines {
    /// For so long; until Ctrl-C where it is `None`.
    pub(super) duration: Option<Duration>,
    /// Time between two looks.
    pub(super) interval: Duration,
    /// One look alone.
    pub(super) is_single: bool,
    /// What looks are written as.
    pub(super) form: Form,
    /// Where to; stdout where it is `None`.
    pub(super) output: Option<PathBuf>,
}

/// What a look is written as.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum Form {
    Text,
    Csv,
    Json,
}

/// The summary is of the newest samples, this many or up to twice as many.
const KEPT: usize = 36_000;
/// Shares and rates of the first look are those of so long.
const BEFORE_THE_FIRST: Duration = Duration::from_millis(250);
/// How long the first look waits for GPUs, which sleep on some machines.
const FIRST_PATIENCE: Duration = Duration::from_secs(3);

impl Lines {
    /// Watches until the time is over or the program is told to end; the exit code if a signal ended it.
    ///
    /// # Errors
    ///
    /// Lines that cannot be written.
    pub(super) fn run(&self, companions: &Companions) -> Result<Option<u8>, Box<dyn Error>> {
        // Ctrl-C waits for the line under way; the watch ends where it sleeps.
        postponed(|| self.watch(companions))
    }

    fn watch(&self, companions: &Companions) -> Result<Option<u8>, Box<dyn Error>> {
        let mut out = match &self.output {
            Some(path) if !output::is_stdout(path) => Out::File {
                file: File::create(path).map_err(about(path))?,
                len: 0,
            },
            _ => Out::Stdout,
        };
        let file = self.output.clone().filter(|path| !output::is_stdout(path));
        let place = file.unwrap_or_else(|| "stdout".into());
        let mut looker = Looker::open();
        let mut write = |text: &str| out.write(text);
        if self.form == Form::Csv {
            write(&Look::csv_header()).map_err(about(&place))?;
        }
        let begin = Instant::now();
        let end = self.duration.map(|duration| begin + duration);
        let mut next = begin + BEFORE_THE_FIRST.min(self.interval);
        let mut patience = FIRST_PATIENCE;
        let mut recording = Recording::default();
        let mut exit_code = spark_program::sleep(next.saturating_duration_since(begin));
        while exit_code.is_none() && end.is_none_or(|end| Instant::now() < end) {
            let look = Arc::new(looker.look(patience));
            patience = self.interval / 2;
            write(&self.form.of(&look)).map_err(about(&place))?;
            if self.form == Form::Text {
                recording
                    .samples
                    .extend(look.gpus.samples.iter().flatten().cloned());
                if recording.samples.len() > 2 * KEPT {
                    recording.samples.drain(..KEPT);
                }
            }
            companions.take(&look);
            if let Some(news) = companions.news() {
                tell(news);
            }
            if self.is_single {
                return Ok(None);
            }
            // Late looks are left out, not caught up with.
            next = (next + self.interval).max(Instant::now());
            let until = end.map_or(next, |end| next.min(end));
            exit_code = spark_program::sleep(until.saturating_duration_since(Instant::now()));
        }
        let gpus: BTreeSet<u32> = recording.samples.iter().map(|sample| sample.gpu).collect();
        for gpu in gpus {
            let summary = format!("GPU {gpu} in short:\n{}", recording.summary(gpu));
            write(&summary).map_err(about(&place))?;
        }
        Ok(exit_code)
    }
}

/// Where lines go.
enum Out {
    Stdout,
    /// With the length of the whole lines in it.
    File {
        file: File,
        len: u64,
    },
}

impl Out {
    /// Whole lines, in one write; nothing of this program holds them back.
    fn write(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout();
                stdout.write_all(text.as_bytes())?;
                stdout.flush()
            }
            Self::File { file, len } => {
                if let Err(error) = file.write_all(text.as_bytes()) {
                    // A full disk has taken half of a line. What is no file has no end to be cut off.
                    let _ = file.set_len(*len);
                    return Err(error);
                }
                *len += text.len() as u64;
                Ok(())
            }
        }
    }
}

impl Form {
    /// What the ending of a file's name asks for.
    pub(super) fn of_name(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_ascii_lowercase();
        match ending.to_str()? {
            "csv" => Some(Self::Csv),
            "json" | "jsonl" | "ndjson" => Some(Self::Json),
            _ => None,
        }
    }

    fn of(self, look: &Look) -> String {
        match self {
            Self::Text => sentences(look),
            Self::Csv => look.to_csv(),
            Self::Json => look.to_json() + "\n",
        }
    }
}

/// A line for the machine and one for each GPU.
fn sentences(look: &Look) -> String {
    let host = &look.host;
    let busy = host
        .mean_busy_percent()
        .map(|percent| format!("{percent:.0}"));
    let memory = host.memory_used_of_total();
    let (used, total) = (
        or_unknown(&memory.as_ref().map(|it| gibibytes(it.0))),
        or_unknown(&memory.map(|it| gibibytes(it.1))),
    );
    let swap = host.swap_used_of_total().map(|(used, _)| gibibytes(used));
    let waiting = host.memory.pressure.as_ref();
    let waiting = waiting.map(|pressure| format!("{:.1}", pressure.full.avg10_percent));
    let mut text = format!(
        "{}  CPU {} %, memory {used} of {total} GiB, swap {} GiB, all waiting for memory {} %",
        utc(look.time),
        or_unknown(&busy),
        or_unknown(&swap),
        or_unknown(&waiting),
    );
    for (name, kind) in [
        ("network", RateKind::Interface),
        ("RDMA", RateKind::RdmaPort),
        ("disks", RateKind::Disk),
    ] {
        if let Some((into, out)) = host.sum_of(kind).value() {
            let _ = write!(text, ", {name} {} in {} out", speed(into), speed(out));
        }
    }
    if let Some(hottest) = host.hottest() {
        let _ = write!(
            text,
            ", {:.0} C {}",
            hottest.celsius,
            printable(&hottest.sensor)
        );
    }
    text.push('\n');
    match &look.gpus.samples {
        Ok(samples) => text.extend(samples.iter().map(|sample| gpu_sentence(sample) + "\n")),
        Err(why) => {
            let _ = writeln!(text, "GPUs: none to watch: {}", printable(why));
        }
    }
    text
}

fn gpu_sentence(sample: &Sample) -> String {
    let Sample { gpu, readings, .. } = sample;
    let now = match readings {
        Ok(now) => now,
        Err(why) => return format!("GPU {gpu}: {}", printable(why)),
    };
    let watts = now
        .power_mw
        .as_ref()
        .map(|mw| format!("{:.1}", f64::from(*mw) / 1e3));
    let mut text = format!(
        "GPU {gpu}: busy {} %, {} MHz, {} C, {} W, {} GiB in use",
        or_unknown(&now.utilization_percent),
        or_unknown(&now.sm_clock_mhz),
        or_unknown(&now.temperature_c),
        or_unknown(&watts),
        or_unknown(&sample.memory_used_bytes().map(gibibytes)),
    );
    let reasons: Vec<&str> = now.reasons_at_work().map(|reason| reason.name()).collect();
    if !reasons.is_empty() {
        let _ = write!(text, ", held back: {}", reasons.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_a_name_says_the_form() {
        let of = |name: &str| Form::of_name(Path::new(name)).map(|form| form as u8);
        for (name, form) in [
            ("a.csv", Form::Csv),
            ("B.JSONL", Form::Json),
            ("a.json", Form::Json),
        ] {
            assert_eq!(of(name), Some(form as u8), "{name}");
        }
        for name in ["a.txt", "csv", ".csv", "-", "a.csv.gz"] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
