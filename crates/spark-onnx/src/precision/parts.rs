//! The named parts of an output vector, each of which counts by itself where errors are averaged.
//!
//! ```text
//! outputs [1, 1000]   plan 0:990 | desire_state 990:998 | pad 998:1000
//! ```
//!
//! A network that answers several questions in one vector says so nowhere: who knows what the
//! numbers mean makes this table.

use std::ops::Range;

use crate::ModelError;

/// Names and positions of the parts of one output, which lie inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputParts {
    output_len: usize,
    parts: Vec<(String, Range<usize>)>,
}

impl OutputParts {
    /// The parts of an output of `output_len` values. They may overlap and leave values out.
    ///
    /// # Errors
    ///
    /// [`ModelError::OutputPart`] if a part ends beyond `output_len` or before its start.
    ///
    /// # Examples
    ///
    /// ```
    /// use spark_onnx::precision::OutputParts;
    ///
    /// let parts = vec![("plan".to_owned(), 0..990), ("desire_state".to_owned(), 990..998)];
    /// let parts = OutputParts::new(1000, parts)?;
    /// assert_eq!(parts.parts()[1].1, 990..998);
    /// assert!(OutputParts::new(10, vec![("plan".to_owned(), 0..11)]).is_err());
    /// # Ok::<(), spark_onnx::ModelError>(())
    /// ```
    pub fn new(output_len: usize, parts: Vec<(String, Range<usize>)>) -> Result<Self, ModelError> {
        let is_outside = |range: &Range<usize>| range.start > range.end || range.end > output_len;
        match parts.iter().find(|(_, range)| is_outside(range)) {
            Some((name, range)) => Err(ModelError::OutputPart {
                name: name.clone(),
                start: range.start,
                end: range.end,
                len: output_len,
            }),
            None => Ok(Self { output_len, parts }),
        }
    }

    /// Values in the output that these are parts of.
    pub fn output_len(&self) -> usize {
        self.output_len
    }

    /// Names and positions, in the order in which they were given.
    pub fn parts(&self) -> &[(String, Range<usize>)] {
        &self.parts
    }
}
