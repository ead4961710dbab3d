//! Pages of the manual and completions of shells, as the program itself writes them.
//!
//! They hang on the program's commands and not on its target, so one program of a release that this machine can run
//! writes them for all.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::stage::SHELLS;
use super::targets::Target;
use crate::command;
use crate::error::Error;

/// What is put beside the program.
#[derive(Debug)]
pub(super) struct Pages {
    /// File names and pages, in the order of names.
    pub(super) manual: Vec<(String, Vec<u8>)>,
    /// Of the shells of [`SHELLS`].
    pub(super) completions: [Vec<u8>; 3],
}

/// Asks the first program that can be run here, this machine's own before others.
///
/// # Errors
///
/// [`Error::Usage`] if none can be; a program that fails or writes nothing.
pub(super) fn of_first_that_runs(
    programs: &[(Target, PathBuf)],
    host: &str,
) -> Result<Pages, Error> {
    let mut sorted: Vec<&(Target, PathBuf)> = programs.iter().collect();
    sorted.sort_by_key(|(target, _)| target.triple != host);
    let mut missing = String::from("there is no program");
    for (target, program) in sorted {
        match target.runs(program, host) {
            Ok(_) => {
                let start = || {
                    let command = target.runs(program, host);
                    command.map_err(Error::Usage)
                };
                return written_by(&start);
            }
            Err(what) => missing = what,
        }
    }
    Err(Error::Usage(missing))
}

fn written_by(start: &dyn Fn() -> Result<Command, Error>) -> Result<Pages, Error> {
    let folder = std::env::temp_dir().join(format!("xtask-dist-manual-{}", std::process::id()));
    let mut program = start()?;
    program.args(["man", "--folder"]).arg(&folder);
    command::run(&mut program)?;
    let mut manual = Vec::new();
    for entry in fs::read_dir(&folder).map_err(Error::io("list", &folder))? {
        let path = entry.map_err(Error::io("list", &folder))?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let page = fs::read(&path).map_err(Error::io("read", &path))?;
        manual.push((name, page));
    }
    manual.sort();
    fs::remove_dir_all(&folder).map_err(Error::io("remove", &folder))?;
    let mut completions = [const { Vec::new() }; 3];
    for (script, shell) in completions.iter_mut().zip(SHELLS) {
        let mut program = start()?;
        *script = command::output_of(program.args(["completions", shell]))?.into_bytes();
    }
    let empty = completions.iter().any(Vec::is_empty);
    if empty || !manual.iter().any(|(name, _)| name == "sparkpilot.1") {
        let field = "manual page or completions".to_owned();
        let what = "what the program writes".to_owned();
        return Err(Error::Shape { what, field });
    }
    Ok(Pages {
        manual,
        completions,
    })
}

#[cfg(test)]
mod tests {
    use super::super::stage::put;
    use super::super::stage::tests::scratch;
    use super::super::targets::TARGETS;
    use super::*;

    #[test]
    fn a_program_that_writes_its_pages_is_asked_and_one_that_does_not_is_refused() {
        let folder = scratch("pages");
        let program = folder.join("program");
        let [here, _] = TARGETS;
        let of = |text: &str| {
            put(&program, format!("#!/bin/sh\n{text}\n").as_bytes(), 0o755).unwrap();
            of_first_that_runs(&[(here, program.clone())], here.triple)
        };
        let good = "if [ $1 = man ]; then mkdir -p $3; echo a > $3/sparkpilot.1; else echo $2; fi";
        let pages = of(good).unwrap();
        assert_eq!(pages.manual, [("sparkpilot.1".to_owned(), b"a\n".to_vec())]);
        assert_eq!(pages.completions[2], b"fish\n");
        assert!(of("if [ $1 = man ]; then mkdir -p $3; echo a > $3/sparkpilot.1; fi").is_err());
        assert!(of("[ $1 = completions ] && echo $2").is_err());
        assert!(of_first_that_runs(&[], here.triple).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
