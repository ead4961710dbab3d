//! Names of routes and segments.

use std::fmt;
use std::str::FromStr;

/// One drive of one device: `<dongle id>|<log id>`.
///
/// The dongle id is 16 hexadecimal digits. The log id is a time, `2023-07-27--13-01-19`, or a counter and ten characters,
/// `0000008c--5ae1a2ebd1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteName {
    dongle: String,
    log: String,
}

/// A minute of a route, counted from 0.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentName {
    /// The drive; without a dongle id where a device's own folders say none.
    pub log: String,
    /// The device, if it is known.
    pub dongle: Option<String>,
    /// Which minute.
    pub number: u32,
}

/// Text that is no name of a route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no route: expected `0123456789abcdef|2023-07-27--13-01-19` or `0123456789abcdef|0000008c--5ae1a2ebd1`"
)]
pub struct NoRoute(String);

impl RouteName {
    /// The device.
    pub fn dongle(&self) -> &str {
        &self.dongle
    }

    /// The drive.
    pub fn log(&self) -> &str {
        &self.log
    }
}

impl FromStr for RouteName {
    type Err = NoRoute;

    fn from_str(text: &str) -> Result<Self, NoRoute> {
        let no_route = || NoRoute(text.to_owned());
        let (dongle, log) = text.split_once(['|', '/', '_']).ok_or_else(no_route)?;
        if !is_dongle(dongle) || !is_log(log) {
            return Err(no_route());
        }
        Ok(Self {
            dongle: dongle.to_owned(),
            log: log.to_owned(),
        })
    }
}

impl fmt::Display for RouteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}|{}", self.dongle, self.log)
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(dongle) = &self.dongle {
            write!(f, "{dongle}|")?;
        }
        write!(f, "{}--{}", self.log, self.number)
    }
}

pub(super) fn is_dongle(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) fn is_log(text: &str) -> bool {
    let is = |text: &str, pattern: &str| {
        text.len() == pattern.len()
            && text
                .bytes()
                .zip(pattern.bytes())
                .all(|(byte, kind)| match kind {
                    b'd' => byte.is_ascii_digit(),
                    b'x' => byte.is_ascii_hexdigit(),
                    b'a' => byte.is_ascii_alphanumeric(),
                    other => byte == other,
                })
    };
    is(text, "dddd-dd-dd--dd-dd-dd") || is(text, "xxxxxxxx--aaaaaaaaaa")
}

/// Log id and number of `<log id>--<n>`, and what stands before the log id.
pub(super) fn split_segment(text: &str) -> Option<(&str, &str, u32)> {
    let (rest, number) = text.rsplit_once("--")?;
    let number = parse_number(number)?;
    // The two kinds of log ids have 20 characters.
    let at = rest.len().checked_sub(20)?;
    let (before, log) = rest.split_at_checked(at)?;
    is_log(log).then_some((before, log, number))
}

/// A number without sign or leading zeros.
pub(super) fn parse_number(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_padded = text.len() > 1 && text.starts_with('0');
    (is_plain && !is_padded)
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_every_spelling() {
        for text in [
            "a2a0ccea32023010|2023-07-27--13-01-19",
            "a2a0ccea32023010/2023-07-27--13-01-19",
            "a2a0ccea32023010_2023-07-27--13-01-19",
        ] {
            let route: RouteName = text.parse().unwrap();
            assert_eq!(route.to_string(), "a2a0ccea32023010|2023-07-27--13-01-19");
        }
        let newer: RouteName = "a2a0ccea32023010|0000008c--5ae1a2ebd1".parse().unwrap();
        assert_eq!(newer.log(), "0000008c--5ae1a2ebd1");
        for text in [
            "",
            "a2a0ccea32023010",
            "a2a0ccea3202301|2023-07-27--13-01-19",
            "a2a0ccea32023010|2023-07-27",
        ] {
            assert!(text.parse::<RouteName>().is_err(), "{text}");
        }
    }

    #[test]
    fn segments_are_split_off() {
        let demo = "demo_a2a0ccea32023010_2023-07-27--13-01-19--0";
        assert_eq!(
            split_segment(demo),
            Some(("demo_a2a0ccea32023010_", "2023-07-27--13-01-19", 0))
        );
        assert_eq!(
            split_segment("0000008c--5ae1a2ebd1--12"),
            Some(("", "0000008c--5ae1a2ebd1", 12))
        );
        for text in [
            "2023-07-27--13-01-19",
            "x--1",
            "é2023-07-27--13-01-1--4",
            "2023-07-27--13-01-19--01",
            "2023-07-27--13-01-19---1",
        ] {
            assert_eq!(split_segment(text), None, "{text}");
        }
    }
}
