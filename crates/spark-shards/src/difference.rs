//! What two runs do not share, line by line, as words.
//!
//! ```text
//! controller: torque here, pid there; model: nothing here, policy.onnx there
//! controller: torque in the former, pid in the latter                          of two files that a sentence names
//! ```

use std::fmt;

/// A line that two runs do not share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its name.
    pub name: String,
    /// Its values in this run; none if it has no such line.
    pub here: Vec<String>,
    /// Its values in the other one.
    pub there: Vec<String>,
}

/// All that two runs do not share, as words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differences {
    /// Line by line, those of this run first.
    pub list: Vec<Difference>,
    /// The lines are the same, their order is not.
    pub is_reordered: bool,
}

impl Differences {
    /// Whether both are one run.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && !self.is_reordered
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, ["here", "there"])
    }
}

impl Differences {
    /// The same where a sentence has named both: this run's is the former.
    pub fn of_former_and_latter(&self) -> impl fmt::Display {
        struct Words<'a>(&'a Differences);
        impl fmt::Display for Words<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(f, ["in the former", "in the latter"])
            }
        }
        Words(self)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, [one, other]: [&str; 2]) -> fmt::Result {
        if self.is_reordered {
            return f.write_str("the same lines in another order");
        }
        let words = |values: &[String]| match values {
            [] => "nothing".to_owned(),
            values => values.join(" and "),
        };
        for (idx, it) in self.list.iter().enumerate() {
            let between = if idx == 0 { "" } else { "; " };
            let (here, there) = (words(&it.here), words(&it.there));
            write!(f, "{between}{}: {here} {one}, {there} {other}", it.name)?;
        }
        Ok(())
    }
}
