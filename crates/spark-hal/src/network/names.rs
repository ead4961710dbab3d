//! Lists of names as NCCL takes them: which devices or interfaces a variable lets it use.
//!
//! ```text
//! mlx5            every one that begins so
//! mlx5_0:1,mlx5_1 of the first its port 1
//! =mlx5_0,mlx5_1  these, by their whole names
//! ^mlx5_0         all but those that begin so
//! ^=mlx5_0        all but this one
//! ```
//!
//! Both signs stand before the whole list. What stands between two commas is taken as it is, so that a blank, a quotation mark or a
//! sign in front of a later name makes a name that nothing has: NCCL says nothing and does without the device.
//!
//! Sources: NCCL, "Environment Variables", `NCCL_IB_HCA` and `NCCL_SOCKET_IFNAME` (read 2026-11-30); its `parseStringList` and
//! `matchIfList` (`src/misc/utils.cc`), for what the page leaves open: an empty list is no limit, and a port that is no number is 0.

/// What is wrong with such a list. NCCL itself says none of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameListError {
    /// A blank, quotation mark or other character that no name has.
    #[error("`{character}` in `{name}` counts as part of the name")]
    Character {
        /// What stands between two commas.
        name: String,
        /// The first such character.
        character: char,
    },
    /// `^` or `=` elsewhere than at the beginning, or the wrong way round.
    #[error("`{name}`: `^` and `=` are signs before the whole list, `^` first")]
    Sign {
        /// What stands between two commas.
        name: String,
    },
    /// What stands behind the colon is no port.
    #[error("`{name}` has no port: they are numbers from 1")]
    Port {
        /// What stands between two commas.
        name: String,
    },
    /// A sign without names.
    #[error("a sign and no name")]
    NoName,
    /// More than NCCL has room for.
    #[error("a name has {length} characters, and NCCL keeps {LONGEST_NAME}")]
    TooLong {
        /// How many it has.
        length: usize,
    },
}

/// NCCL's room for one name.
const LONGEST_NAME: usize = 63;
/// Characters that neither interfaces nor devices have, and that people write by mistake.
const FOREIGN: &str = "\"'`;*?[](){}|&<>$/\\";

/// A list of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameList {
    is_exclusion: bool,
    is_exact: bool,
    names: Vec<(String, Option<u32>)>,
}

impl NameList {
    /// Takes a value apart.
    ///
    /// # Errors
    ///
    /// [`NameListError`], where NCCL would take it for something that nobody means.
    pub fn parse(value: &str) -> Result<Self, NameListError> {
        let (rest, is_exclusion) = without(value, '^');
        let (rest, is_exact) = without(rest, '=');
        let words = rest.split(',').filter(|word| !word.is_empty());
        let names = words.map(name).collect::<Result<Vec<_>, _>>()?;
        if names.is_empty() && (is_exclusion || is_exact) {
            return Err(NameListError::NoName);
        }
        Ok(Self {
            is_exclusion,
            is_exact,
            names,
        })
    }

    /// Whether it lets NCCL use this port of a device, or an interface, which has no port.
    #[must_use]
    pub fn allows(&self, name: &str, port: Option<u32>) -> bool {
        let is_port = |wanted: &Option<u32>| match (wanted, port) {
            (Some(wanted), Some(port)) => *wanted == port,
            _ => true,
        };
        let is_named = |(wanted, of_port): &(String, Option<u32>)| {
            let is_it = match self.is_exact {
                true => name == wanted,
                false => name.starts_with(wanted.as_str()),
            };
            is_it && is_port(of_port)
        };
        self.names.is_empty() || self.names.iter().any(is_named) != self.is_exclusion
    }
}

fn without(text: &str, sign: char) -> (&str, bool) {
    match text.strip_prefix(sign) {
        Some(rest) => (rest, true),
        None => (text, false),
    }
}

fn name(word: &str) -> Result<(String, Option<u32>), NameListError> {
    let shown = || crate::reading::quote(word);
    if word.contains(['^', '=']) {
        return Err(NameListError::Sign { name: shown() });
    }
    let is_foreign = |c: &char| c.is_whitespace() || c.is_control() || FOREIGN.contains(*c);
    if let Some(character) = word.chars().find(is_foreign) {
        return Err(NameListError::Character {
            name: shown(),
            // It may be one that moves a terminal's cursor.
            character: if character.is_control() {
                '?'
            } else {
                character
            },
        });
    }
    let (name, port) = match word.split_once(':') {
        None => (word, None),
        Some((name, port)) => match port.parse() {
            Ok(number) if number > 0 && !name.is_empty() => (name, Some(number)),
            _ => return Err(NameListError::Port { name: shown() }),
        },
    };
    if name.len() > LONGEST_NAME {
        return Err(NameListError::TooLong { length: name.len() });
    }
    Ok((name.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, allowed: &[&str], others: &[&str]) {
        let list = NameList::parse(value).expect(value);
        let allows = |device: &str| {
            let (name, port) = device.split_once(':').unwrap_or((device, "1"));
            list.allows(name, port.parse().ok())
        };
        for device in allowed {
            assert!(allows(device), "{value}: {device}");
        }
        for device in others {
            assert!(!allows(device), "{value}: {device}");
        }
    }

    #[test]
    fn lists_mean_what_nccl_documents() {
        check("mlx5", &["mlx5_0", "mlx5_1"], &["rocep1s0f0"]);
        check("mlx5_1", &["mlx5_1", "mlx5_10"], &["mlx5_0"]);
        check("=mlx5_1", &["mlx5_1"], &["mlx5_10"]);
        check(
            "=mlx5_0:1,mlx5_1:2",
            &["mlx5_0:1", "mlx5_1:2"],
            &["mlx5_0:2", "mlx5_1:1"],
        );
        check("^mlx5_1", &["mlx5_0"], &["mlx5_1", "mlx5_10"]);
        check(
            "^=mlx5_3,mlx5_4",
            &["mlx5_0", "mlx5_33"],
            &["mlx5_3", "mlx5_4"],
        );
        check("a,,b,", &["a1", "b"], &["c"]);
        check("", &["anything"], &[]);
    }

    #[test]
    fn what_nccl_takes_otherwise_than_meant_is_an_error() {
        let refused = |value: &str| NameList::parse(value).expect_err(value);
        for value in [
            "a, b",
            " a",
            "\"a,b\"",
            "'a'",
            "a;b",
            "mlx5_*",
            "a\nb",
            "a\u{1b}[2Jb",
        ] {
            assert!(
                matches!(refused(value), NameListError::Character { .. }),
                "{value}"
            );
        }
        for value in ["a,=b", "a,^b", "=^a", "==a", "^^a"] {
            assert!(
                matches!(refused(value), NameListError::Sign { .. }),
                "{value}"
            );
        }
        for value in ["a:", "a:x", "a:0", "a:1:2", ":1", "a:-1", "a:99999999999"] {
            assert!(
                matches!(refused(value), NameListError::Port { .. }),
                "{value}"
            );
        }
        for value in ["^", "=", "^=", "^,"] {
            assert_eq!(refused(value), NameListError::NoName, "{value}");
        }
        let long = "x".repeat(1 << 20);
        assert_eq!(refused(&long), NameListError::TooLong { length: 1 << 20 });
        let shown = refused(&format!("{long} ")).to_string();
        assert!(shown.len() < 300, "{shown}");
    }
}
