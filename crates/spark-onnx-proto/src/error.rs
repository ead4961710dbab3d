//! Why bytes are not an ONNX file that can be read or changed.

use std::path::PathBuf;

/// Why bytes are not an ONNX file that can be read or changed. No variant means "try again".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtoError {
    /// The bytes are not the protocol-buffer message they should be.
    #[error("malformed file at byte {offset}: {problem}")]
    Wire {
        /// Position in the file.
        offset: usize,
        /// What is wrong there.
        problem: WireProblem,
    },
    /// Reading on would take more memory than any honest model of this size needs.
    #[error("{what} needs more than the {limit} bytes a model of this size may take")]
    Memory {
        /// What was being read.
        what: &'static str,
        /// The limit, which grows with the size of the file.
        limit: usize,
    },
    /// Something is larger than this crate accepts.
    #[error("{what} is {got}, the limit is {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size, in the unit of the limit.
        got: u64,
        /// The largest size accepted.
        limit: u64,
    },
    /// A pointer that Git LFS leaves where it did not fetch the file.
    #[error("this is a pointer of Git LFS and not the model: fetch the file with `git lfs pull`")]
    LfsPointer,
    /// The model has no graph: an empty file, or not a model at all.
    #[error("the model has no graph")]
    NoGraph,
    /// The version of the file format is unknown.
    #[error("IR version {got} is not between {min} and {max}")]
    IrVersion {
        /// Version in the file.
        got: i64,
        /// Oldest version that this crate reads.
        min: i64,
        /// Newest version that this crate reads.
        max: i64,
    },
    /// The version of an operator set is unknown.
    #[error("operator set {got} of domain `{domain}` is not between {min} and {max}")]
    OperatorSet {
        /// Domain, `ai.onnx` for the standard one.
        domain: String,
        /// Version in the file.
        got: i64,
        /// Oldest version that this crate reads.
        min: i64,
        /// Newest version that this crate reads.
        max: i64,
    },
    /// A node is of a domain whose operator-set version the model does not state.
    #[error("node `{node}` ({op}): the model imports no operator set for that domain")]
    OperatorSetMissing {
        /// Name of the node.
        node: String,
        /// Its operator, with the domain in front: `com.example::Scale`.
        op: String,
    },
    /// A name is given to two things.
    #[error("{what} `{name}` is defined twice")]
    Duplicate {
        /// Kind of the thing.
        what: &'static str,
        /// Name that both things have.
        name: String,
    },
    /// A name leads nowhere.
    #[error("{user} needs `{name}`, which is no input, constant or result of any node")]
    Dangling {
        /// Who uses the name.
        user: String,
        /// Name that nothing in the model has.
        name: String,
    },
    /// Nodes need each other's results.
    #[error("nodes form a cycle: {}", nodes.join(" -> "))]
    Cycle {
        /// Some nodes of it, each needing the result of the one before.
        nodes: Vec<String>,
    },
    /// A function calls itself, or calls are nested too deep.
    #[error("calls of function `{function}` are nested more than {limit} deep")]
    FunctionDepth {
        /// Name of the function.
        function: String,
        /// Levels of calls within calls that are accepted.
        limit: usize,
    },
    /// Graphs that nodes hold, such as the branches of an If, hold nodes that hold graphs, too deep.
    #[error("node `{node}`: graphs are nested more than {limit} deep")]
    GraphDepth {
        /// Name of the node that holds the first graph too deep.
        node: String,
        /// Levels of graphs within graphs that are accepted.
        limit: usize,
    },
    /// A constant is malformed.
    #[error("tensor `{name}`: {reason}")]
    Tensor {
        /// Name of the tensor.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file that holds a constant's elements cannot be used.
    #[error("tensor `{name}`: external data `{location}`: {reason}")]
    ExternalData {
        /// Name of the tensor.
        name: String,
        /// Path in the model.
        location: String,
        /// What is wrong with that file, or with what the model says of it.
        reason: String,
    },
    /// A file could not be read.
    #[error("cannot access `{path}`: {source}")]
    Io {
        /// Path of the model's file, as it was given.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
}

/// What is wrong with bytes that should be a protocol-buffer message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireProblem {
    /// A variable-length integer takes more than 64 bits.
    #[error("a variable-length integer overflows 64 bits")]
    VarintOverflow,
    /// The bytes end within a field.
    #[error("the file ends within a field")]
    Truncated,
    /// A length points beyond the end of what it is in.
    #[error("a field of {length} bytes does not fit the {left} bytes left")]
    Length {
        /// Length that stands in front of the field.
        length: u64,
        /// Bytes left in the message that the field is in.
        left: usize,
    },
    /// Groups, a form of nesting ONNX never uses, or a wire type that does not exist.
    #[error("wire type {0} is not used in ONNX")]
    WireType(u8),
    /// Field numbers are 1 to 2^29 - 1.
    #[error("field number {0} does not exist")]
    FieldNumber(u64),
    /// A known field in a form its type cannot have.
    #[error("field {0} has the wrong wire type")]
    FieldType(u32),
    /// Text that is not UTF-8.
    #[error("field {0} is not UTF-8 text")]
    Text(u32),
    /// Messages within messages within messages.
    #[error("messages are nested more than {0} deep")]
    Depth(usize),
}
