//! Command line words: one subcommand, then flags and `--name value` pairs in any order.
//!
//! Every accepted word is taken out of the list; what is left at `finish` is an error.
//! Deliberately absent: short flags and `--name=value`.

use crate::error::Error;

/// What `cargo xtask help` prints; the commands named in it are the ones that exist.
pub(crate) const HELP: &str = "\
cargo xtask <command>

  build [--release]     build every crate, example and test
  test [ARGS…]          cargo test ARGS…, with the number of tests at the end
  bench [--filter TEXT] [--quick] [--json FILE]
                        run all benchmarks and write a record under benches/records;
                        --filter and --quick make a partial record, which git ignores
  ci [--skip STEP]…     every check: fmt, test, tidy, onnx-suite, test-optimised, example, dist,
                        book in order, and beside those after test: clippy, doc, mpi, sanitize,
                        fuzz, kernels, aarch64, units; with CI set, what the machine
                        cannot run is an error
  kernels               every .cu file for four architectures: spills, registers, shared
                        memory, claimed instructions; NVIDIA's compiler comes from PyPI
  onnx-suite            the ONNX project's own tests and random models run by onnxruntime,
                        against the listed outcomes; both come from PyPI
  gpu [--target TRIPLE]…
                        target/gpu/<triple>.tar.xz: tests and benchmarks for a machine
                        with a GPU and without cargo, at most 60 MB; its `run` runs all
                        suites, whatever fails, and writes logs and report.json
  sanitize              memory, kernels and threads under the address and thread sanitisers
  fuzz [--only NAME] [--seconds N]
                        every fuzz target, or one, for 60 s each, guided by coverage
  book [--check | --write] [--only TEXT] [--programs DIR]
                        the pages of docs/ as a book in target/book/html, its links checked;
                        --check runs every command on them and compares what is generated,
                        --write brings that up to date; mdBook comes from crates.io
  mpi                   the program of mpi/ with this machine's Open MPI, which has to be
                        installed with libclang, and its tests on 1 to 8 real ranks
  dist [--target TRIPLE]… [--check]
                        target/dist/release: the program for x86-64 and Arm, linked to glibc
                        2.28, as .tar.gz and .deb, with SHA256SUMS; --check runs what was
                        packed, under qemu and in a clean Debian; the linker comes from PyPI
  dist --quick [--check]
                        the same packages of what `cargo build --release` left, twice, and
                        whether every crate is as deny.toml allows: seconds, and no release
  aarch64               tests of Arm's vector code under qemu, which has to be installed
  tidy [--write]        layer edges, headers, generated pages and the other rules of
                        xtask/src/tidy; --write brings generated pages up to date
  help                  this text";

/// The words not yet understood.
pub(crate) struct Args {
    words: Vec<String>,
}

impl Args {
    pub(crate) fn new(words: Vec<String>) -> Self {
        Self { words }
    }

    /// The first word, or `None` when there is none or it asks for help.
    pub(crate) fn subcommand(&mut self) -> Result<Option<String>, Error> {
        if self.words.is_empty() {
            return Ok(None);
        }
        let first = self.words.remove(0);
        match first.as_str() {
            "--help" | "-h" => Ok(None),
            flag if flag.starts_with('-') => Err(Error::Usage(format!(
                "expected a command before `{flag}`\n\n{HELP}"
            ))),
            _ => Ok(Some(first)),
        }
    }

    /// Whether help is asked for among what is left.
    pub(crate) fn wants_help(&self) -> bool {
        self.words
            .iter()
            .any(|word| word == "--help" || word == "-h")
    }

    /// Whether `name` is given; takes it out.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let position = self.words.iter().position(|word| word == name);
        if let Some(idx) = position {
            self.words.remove(idx);
        }
        position.is_some()
    }

    /// The word after `name`; takes both out.
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<String>, Error> {
        let Some(idx) = self.words.iter().position(|word| word == name) else {
            return Ok(None);
        };
        if idx + 1 >= self.words.len() {
            return Err(Error::Usage(format!("`{name}` needs a value")));
        }
        self.words.remove(idx);
        Ok(Some(self.words.remove(idx)))
    }

    /// All words that are left, to be handed on unread.
    pub(crate) fn rest(self) -> Vec<String> {
        self.words
    }

    /// Refuses words that nothing has taken.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(Error::Usage(format!("unknown argument `{word}`\n\n{HELP}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Args {
        Args::new(words.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn flags_and_values_are_taken_in_any_order() {
        let mut args = args(&["bench", "--json", "out.json", "--quick"]);
        assert_eq!(args.subcommand().unwrap().as_deref(), Some("bench"));
        assert!(args.flag("--quick"));
        assert!(!args.flag("--quick"));
        assert_eq!(args.value("--json").unwrap().as_deref(), Some("out.json"));
        assert_eq!(args.value("--filter").unwrap(), None);
        args.finish().unwrap();
    }

    #[test]
    fn a_missing_value_is_refused() {
        assert!(args(&["--json"]).value("--json").is_err());
    }

    #[test]
    fn leftover_words_are_refused() {
        assert!(args(&["--frist"]).finish().is_err());
    }

    #[test]
    fn a_flag_is_no_command() {
        assert!(args(&["--quick"]).subcommand().is_err());
        assert_eq!(args(&["--help"]).subcommand().unwrap(), None);
        assert!(args(&["--quick", "--help"]).wants_help());
        assert!(!args(&["--quick"]).wants_help());
    }
}
