//! The second row of `cargo xtask ci`: a process of its own, beside the first.
//!
//! ```text
//! cargo xtask ci ──> xtask ci --beside ──> cargo, tests   its own process group, no input, a file for its output
//!       |                  └── looks each second whether its parent lives; if not, ends its group
//!       └── at its end waits, and prints that file
//! ```
//!
//! A process and not a thread, so that what it prints can be kept apart, and so that nothing goes on where the first row
//! fails or somebody presses Ctrl-C.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt as _, parent_id};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crate::error::Error;
use crate::workspace::Workspace;

/// How often the second row looks for its parent.
const LOOK: Duration = Duration::from_secs(1);

/// The second row while it runs.
pub(super) struct Beside {
    child: Child,
    log: PathBuf,
}

impl Beside {
    /// Starts it, without the steps that are skipped; `steps` are those that it runs.
    pub(super) fn start(
        workspace: &Workspace,
        skipped: &[String],
        steps: &[&str],
    ) -> Result<Self, Error> {
        let log = workspace.target.join("ci-beside.log");
        let file = File::create(&log).map_err(Error::io("write", &log))?;
        let errors = file.try_clone().map_err(Error::io("write", &log))?;
        // Not by its path, where cargo may have put another one by now.
        let mut command = Command::new("/proc/self/exe");
        command.args(["ci", "--beside"]);
        for name in skipped {
            command.args(["--skip", name]);
        }
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        command.current_dir(&workspace.root).process_group(0);
        let started = command.spawn().map_err(|source| Error::Start {
            command: "xtask ci --beside".to_owned(),
            source,
        });
        let steps = steps.join(", ");
        println!("== beside what follows: {steps}; what they print comes last");
        Ok(Self {
            child: started?,
            log,
        })
    }

    /// An error, with its output printed, if it has failed by now.
    pub(super) fn failure(&mut self) -> Result<(), Error> {
        match self.child.try_wait() {
            Ok(Some(status)) if !status.success() => self.told(status),
            _ => Ok(()),
        }
    }

    /// Waits for its end and prints its output.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        let waited = self.child.wait();
        let status = waited.map_err(Error::io("wait for", "xtask ci --beside"))?;
        self.told(status)
    }

    fn told(&self, status: ExitStatus) -> Result<(), Error> {
        let bytes = fs::read(&self.log).map_err(Error::io("read", &self.log))?;
        println!("{}", String::from_utf8_lossy(&bytes));
        if status.success() {
            return Ok(());
        }
        Err(Error::Command {
            command: "xtask ci --beside".to_owned(),
            code: status.code(),
        })
    }
}

/// Ends this process and all that it started when its parent is gone.
pub(super) fn end_with_parent() {
    let parent = parent_id();
    thread::spawn(move || {
        while parent_id() == parent {
            thread::sleep(LOOK);
        }
        let end = format!("kill -s TERM -- -{}", std::process::id());
        let _ = Command::new("sh").args(["-c", &end]).status();
    });
}
