//! What can be wrong with a recording's table.

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Whole numbers of 64 bits.
    Integer,
    /// Floating-point numbers of 64 bits.
    Number,
    /// Truth values: true or false.
    Flag,
}

/// What is wrong with a recording.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TableFault {
    /// It has no rows.
    #[error("there are no rows")]
    Empty,
    /// A required column is missing.
    #[error("the column is missing")]
    MissingColumn,
    /// A column has a type that cannot be read as the schema's.
    #[error("the column holds {got}, expected {want:?}")]
    WrongType {
        /// Type in the file.
        got: String,
        /// Type in the schema.
        want: ColumnKind,
    },
    /// A value is missing, NaN or infinite where a number must be.
    #[error("the value is {got}, expected a finite number")]
    NotFinite {
        /// The value that was read; NaN where it is missing.
        got: f64,
    },
    /// A value lies outside its range.
    #[error("the value is {got}, expected {want}")]
    OutOfRange {
        /// The value that was read.
        got: f64,
        /// The range it must lie in.
        want: &'static str,
    },
    /// Time stamps must increase.
    #[error("the time {got} ns does not come after {last} ns")]
    TimeNotIncreasing {
        /// Time of this row.
        got: i64,
        /// Time of the row before it.
        last: i64,
    },
    /// A ground-truth column is known for some rows only.
    #[error("known for {known} of {n_rows} rows; it must be all or none")]
    Incomplete {
        /// Rows with a value.
        known: usize,
        /// Rows of the table.
        n_rows: usize,
    },
}
