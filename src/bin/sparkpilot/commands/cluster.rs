//! `sparkpilot cluster`: several machines and the links between them, by records that each has made of itself.
//!
//! ```text
//! on each machine   cluster record ──> spark-1.txt, spark-2.txt      mpirun … sparkpilot-mpi measure ──> both.json
//! on any            cluster doctor spark-1.txt spark-2.txt --measured both.json ──> findings
//! ```

use std::error::Error;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use spark_program::{about, input, output, place, tell};
use sparkpilot::hal::cluster::{self, Cluster, Host, Measurement, Netplan};
use sparkpilot::hal::doctor::Severity;
use sparkpilot::hal::{Reading, Root, machine};

use crate::commands::doctor::explain;
use crate::recorded_machine::RecordedMachine;

/// Longest measurement or netplan that is read.
const LONGEST_BYTES: u64 = 4 << 20;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Doctor(Doctor),
    Record(Record),
}

/// Say what is wrong between machines, and how to mend it
///
/// What a record or a measurement does not hold is not examined.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot cluster doctor spark-1.txt spark-2.txt\n  \
    sparkpilot cluster doctor this spark-2.txt --measured both.json --measured rail-1.json\n  \
    sparkpilot cluster doctor spark-1.txt spark-2.txt --strict --json > findings.json\n  \
    sparkpilot cluster doctor --explain all")]
struct Doctor {
    /// Records of the machines, each made by `sparkpilot cluster record`; `this` is the machine that this runs on
    #[arg(value_name = "RECORD", num_args = 2.., required_unless_present = "explain")]
    hosts: Vec<PathBuf>,
    /// What `sparkpilot-mpi measure` has measured between them; may be given more than once
    #[arg(long, value_name = "FILE")]
    measured: Vec<PathBuf>,
    /// Print the findings as JSON (schema spark-doctor/2)
    #[arg(long)]
    json: bool,
    /// End with 1 after a warning or an error
    #[arg(long)]
    strict: bool,
    /// Say what a check looks for and where its trap is described, or with `all` what checks there are
    #[arg(long, value_name = "ID", conflicts_with_all = ["hosts", "measured", "json", "strict"])]
    explain: Option<String>,
}

/// Write down this machine for `cluster doctor`
///
/// Besides what `info --record` writes, this holds its name, and the addresses and netplan of its ConnectX-7 interfaces: it is not for publication.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sparkpilot cluster record spark-1.txt\n  \
    sudo awk 1 /etc/netplan/*.yaml | sparkpilot cluster record --netplan - spark-1.txt\n\n\
    awk writes the files one after the other, each with the end of its last line. They hold passwords of Wi-Fi: through a pipe no copy of them lies about.")]
struct Record {
    /// Where to write, or with `-` to stdout
    #[arg(value_name = "FILE")]
    output: PathBuf,
    /// The files of /etc/netplan, one after the other, which root alone may read, or with `-` stdin; only what they say of ConnectX-7 interfaces is kept
    #[arg(long, value_name = "FILE")]
    netplan: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    match &arguments.command {
        Command::Doctor(doctor) => examine(doctor),
        Command::Record(record) => write(record),
    }
}

/// Examines the machines and prints the findings.
fn examine(arguments: &Doctor) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(id) = &arguments.explain {
        print!("{}", explain(id, &cluster::checks())?);
        return Ok(ExitCode::SUCCESS);
    }
    let hosts = arguments.hosts.iter().map(|path| host(path));
    let measurements = arguments.measured.iter().map(|path| measured(path));
    let report = cluster::examine(&Cluster {
        hosts: hosts.collect::<Result<_, _>>()?,
        measurements: measurements.collect::<Result<_, _>>()?,
    });
    if arguments.json {
        println!("{}", report.to_json());
    } else {
        print!("{}", report.to_text());
    }
    let is_wrong = matches!(report.worst(), Some(Severity::Warning | Severity::Error));
    Ok(ExitCode::from(u8::from(arguments.strict && is_wrong)))
}

fn host(path: &Path) -> Result<Host, Box<dyn Error>> {
    if path.as_os_str() == "this" {
        return Ok(Host::read("this", &Root::host(), machine().clone()));
    }
    let recorded = RecordedMachine::read(path)?;
    let name = path.file_stem().unwrap_or(path.as_os_str());
    let name = name.to_string_lossy();
    Ok(Host::read(&name, &recorded.root, recorded.machine.clone()))
}

fn measured(path: &Path) -> Result<(String, Measurement), Box<dyn Error>> {
    let text = text_of(path)?;
    let measurement = Measurement::parse(&text).map_err(about(path))?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    let name = spark_program::printable(&name.to_string_lossy());
    Ok((name, measurement))
}

fn text_of(path: &Path) -> Result<String, Box<dyn Error>> {
    let bytes = input::read_limited(path, LONGEST_BYTES, "a text", |_| true)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes the record.
fn write(arguments: &Record) -> Result<ExitCode, Box<dyn Error>> {
    let to_stdout = arguments.output.as_os_str() == "-";
    if !to_stdout {
        let netplan = arguments.netplan.as_deref();
        let netplan = netplan.filter(|path| path.as_os_str() != "-");
        output::keep_apart(netplan, [arguments.output.as_path()])?;
        place::file(&arguments.output)?;
    }
    let netplan = arguments
        .netplan
        .as_deref()
        .map(|path| -> Result<_, Box<dyn Error>> {
            let (text, name) = match path.as_os_str() == "-" {
                true => (stdin()?, Path::new("stdin")),
                false => (text_of(path)?, path),
            };
            if text.trim().is_empty() {
                // Whoever was to write it has failed, and nothing would be taken for what netplan says.
                let why = std::io::Error::new(ErrorKind::InvalidData, "it is empty");
                return Err(about(name)(why).into());
            }
            Ok(Netplan::parse(&text).map_err(about(name))?)
        });
    let netplan = netplan.transpose()?;
    match &netplan {
        None => say_if_netplan_is_missing(),
        Some(netplan) => say_if_netplan_is_refused(netplan),
    }
    let record = cluster::record(&Root::host(), netplan.as_ref());
    match to_stdout {
        true => print!("{record}"),
        false => output::write(&arguments.output, record)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What root's files say, as another program writes it.
fn stdin() -> Result<String, Box<dyn Error>> {
    let mut bytes = Vec::new();
    let stdin = std::io::stdin().lock();
    stdin.take(LONGEST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_BYTES {
        let why = format!("it has more than {LONGEST_BYTES} bytes");
        let why = std::io::Error::new(ErrorKind::InvalidData, why);
        return Err(about(Path::new("stdin"))(why).into());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What of a ConnectX-7 interface the record will not tell.
fn say_if_netplan_is_refused(netplan: &Netplan) {
    let functions = machine().network.functions.iter();
    let interfaces = functions.filter_map(|function| function.interface.as_value());
    let interfaces: Vec<&str> = interfaces.map(String::as_str).collect();
    if let Some(why) = netplan.refused(&interfaces) {
        tell(format!("the record does not tell all of netplan: {why}"));
    }
}

/// Why the record will not tell what outlives a restart.
fn say_if_netplan_is_missing() {
    if let Reading::Failed(why) = Netplan::read(&Root::host()) {
        tell(format!(
            "the record is without netplan: {why}; with it: sudo awk 1 /etc/netplan/*.yaml | sparkpilot cluster record --netplan - FILE"
        ));
    }
}
