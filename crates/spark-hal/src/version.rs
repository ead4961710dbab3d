//! Version numbers of any length: `13.0`, `580.95.05`, `0.8.1.1`.

use std::fmt;
use std::str::FromStr;

use crate::reading::Failure;

/// A version, compared part by part; a missing part counts as 0.
#[derive(Debug, Clone)]
pub struct Version {
    parts: Vec<u32>,
    text: String,
}

impl Version {
    /// A version of these numbers, written with dots between them.
    #[must_use]
    pub fn new(parts: &[u32]) -> Self {
        let words: Vec<String> = parts.iter().map(u32::to_string).collect();
        Self {
            parts: parts.to_vec(),
            text: words.join("."),
        }
    }

    /// From CUDA's number: 13000 is 13.0, 12090 is 12.9.
    #[must_use]
    pub fn from_cuda_number(number: i32) -> Option<Self> {
        let number = u32::try_from(number)
            .ok()
            .filter(|number| *number >= 1000)?;
        Some(Self::new(&[number / 1000, number % 1000 / 10]))
    }

    /// The second number, or 0 if there is none.
    #[must_use]
    pub fn minor(&self) -> u32 {
        self.parts.get(1).copied().unwrap_or(0)
    }

    /// The first number, or 0 if there is none.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.parts.first().copied().unwrap_or(0)
    }

    /// Whether it is `wanted` or newer.
    #[must_use]
    pub fn is_at_least(&self, wanted: &[u32]) -> bool {
        self.significant() >= significant(wanted)
    }

    fn significant(&self) -> &[u32] {
        significant(&self.parts)
    }
}

/// Without trailing zeros, so that slices compare as versions.
fn significant(parts: &[u32]) -> &[u32] {
    let n_parts = parts
        .iter()
        .rposition(|part| *part != 0)
        .map_or(0, |idx| idx + 1);
    &parts[..n_parts]
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.significant() == other.significant()
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.significant().cmp(other.significant())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for Version {
    type Err = Failure;

    /// Dotted decimal numbers, at most six of them; written back as they were
    /// (`580.95.05` keeps its zero).
    fn from_str(text: &str) -> Result<Self, Failure> {
        const PARTS_LIMIT: usize = 6;
        let parse = |part: &str| {
            let plain = part.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| part.parse().ok())?
        };
        let parts: Option<Vec<u32>> = text.split('.').take(PARTS_LIMIT + 1).map(parse).collect();
        match parts {
            Some(parts) if parts.len() <= PARTS_LIMIT => Ok(Self {
                parts,
                text: text.to_owned(),
            }),
            _ => Err(Failure::malformed(
                "version",
                text,
                "numbers with dots between them",
            )),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(version("580.126.9") > version("580.95.05"));
        assert_eq!(version("13.0"), version("13"));
        assert!(version("12.9").is_at_least(&[12, 9]));
        assert!(!version("12.8.93").is_at_least(&[12, 9]));
        assert_eq!(version("580.95.05").to_string(), "580.95.05");
        assert_eq!(Version::from_cuda_number(12090), Some(version("12.9")));
        assert_eq!(Version::from_cuda_number(-1), None);
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "13.",
            "a.b",
            "+1.0",
            "-1",
            "99999999999",
            "1.2.3.4.5.6.7",
        ] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
        assert!("1.".repeat(1_000_000).parse::<Version>().is_err());
    }
}
