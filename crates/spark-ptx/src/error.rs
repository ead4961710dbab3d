//! Why a file is not loaded and why a launch does not start.

use crate::target::Target;

/// Why PTX text is refused. Nothing is run of a file that is refused.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The text is not PTX.
    #[error("line {line}: {what}")]
    Syntax {
        /// Line of the text, from 1.
        line: u32,
        /// What is wrong there.
        what: String,
    },
    /// The opcode, or a form of it, is none that the interpreter has.
    #[error("line {line}: instruction `{opcode}` is not known: {why}")]
    UnknownInstruction {
        /// Line of the text, from 1.
        line: u32,
        /// The opcode with its modifiers.
        opcode: String,
        /// Which part of it is not known.
        why: String,
    },
    /// The target lacks what a later one, or one with a suffix, has: ptxas refuses it too.
    #[error("line {line}: `{opcode}` needs {needs}, the target is {target}")]
    NotOnTarget {
        /// Line of the text, from 1.
        line: u32,
        /// The opcode with its modifiers.
        opcode: String,
        /// The first targets that have it.
        needs: &'static str,
        /// The target of the file.
        target: Target,
    },
    /// An operand does not fit its instruction.
    #[error("line {line}: `{opcode}`: {what}")]
    Operand {
        /// Line of the text, from 1.
        line: u32,
        /// The opcode with its modifiers.
        opcode: String,
        /// What does not fit.
        what: String,
    },
    /// `.target` names no GPU that the interpreter knows.
    #[error("target `{name}` is not known")]
    UnknownTarget {
        /// The name.
        name: String,
    },
    /// A name that nothing declares.
    #[error("line {line}: `{name}` is not declared")]
    UnknownName {
        /// Line of the text, from 1.
        line: u32,
        /// The name.
        name: String,
    },
    /// A kernel needs clusters of several blocks, or of as many as a launch says. Here every block is
    /// a cluster of its own.
    #[error("line {line}: `{directive}`: clusters of several blocks are not known")]
    Clusters {
        /// Line of the text, from 1.
        line: u32,
        /// The directive with its numbers.
        directive: String,
    },
    /// A number that is larger than any machine's.
    #[error("line {line}: {what} of {got} is more than {limit}")]
    TooLarge {
        /// Line of the text, from 1.
        line: u32,
        /// Which number.
        what: &'static str,
        /// The number that was found.
        got: u64,
        /// The largest that is taken.
        limit: u64,
    },
}

/// Why a kernel was not started.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaunchError {
    /// The module has no such kernel.
    #[error("the module has no kernel `{name}`")]
    UnknownEntry {
        /// The name asked for.
        name: String,
    },
    /// A number of the launch is outside of what the card takes.
    #[error("{what} is {got}, the card takes {limit}")]
    Limit {
        /// Which number.
        what: &'static str,
        /// The number of the launch.
        got: u64,
        /// What the card or the kernel takes.
        limit: u64,
    },
    /// The threads of a block need more local memory, parameters of calls included, than a launch takes.
    #[error(
        "{threads} threads of a block with {bytes_per_thread} bytes of local memory each: \
         the block takes {limit} bytes"
    )]
    LocalMemory {
        /// Local memory of a thread.
        bytes_per_thread: u64,
        /// Threads of a block.
        threads: u64,
        /// The most of all threads together.
        limit: u64,
    },
    /// Parameters do not have the size that the kernel declares.
    #[error("kernel `{name}` takes {want} bytes of parameters, not {got}")]
    Parameters {
        /// The kernel.
        name: String,
        /// Bytes of the launch.
        got: usize,
        /// Bytes that the kernel declares.
        want: usize,
    },
    /// The addresses of global variables are not as many as the variables.
    #[error("the module has {want} global variables, {got} addresses came")]
    Globals {
        /// Addresses of the launch.
        got: usize,
        /// Variables of the module.
        want: usize,
    },
}
