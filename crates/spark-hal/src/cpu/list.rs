//! The kernel's way to write sets of CPUs: `0-4,10-14`.

use std::fmt::Write as _;

/// Highest CPU number that is believed (`CONFIG_NR_CPUS` of Linux ends at 8192).
pub(super) const HIGHEST_CPU: u32 = 8191;

/// Reads `0-4,10-14`; `None` for anything else, including absurdly large numbers.
#[must_use]
pub fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut ids = Vec::new();
    for (first, last) in parse_cpu_ranges(text)? {
        ids.extend(first..=last);
        if ids.len() > HIGHEST_CPU as usize + 1 {
            return None;
        }
    }
    ids.sort_unstable();
    ids.dedup();
    Some(ids)
}

/// The first and last CPU of every part, as written: as long as the text, however many
/// CPUs it names.
pub(super) fn parse_cpu_ranges(text: &str) -> Option<Vec<(u32, u32)>> {
    let parts = text.trim().split(',').filter(|part| !part.is_empty());
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().ok()?;
        let last: u32 = last.trim().parse().ok()?;
        (first <= last && last <= HIGHEST_CPU).then_some((first, last))
    };
    parts.map(range).collect()
}

/// Writes a sorted set of CPUs as `0-4,10-14`.
#[must_use]
pub fn format_cpu_list(ids: &[u32]) -> String {
    let mut text = String::new();
    for run in ids.chunk_by(|before, after| before.checked_add(1) == Some(*after)) {
        let separator = if text.is_empty() { "" } else { "," };
        let result = match run {
            [only] => write!(text, "{separator}{only}"),
            [first, .., last] => write!(text, "{separator}{first}-{last}"),
            [] => Ok(()),
        };
        result.expect("writing to a String cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_survive_the_round_trip() {
        for text in ["0", "0-4,10-14", "1,3,5-6", ""] {
            assert_eq!(format_cpu_list(&parse_cpu_list(text).unwrap()), text);
        }
    }

    #[test]
    fn absurd_lists_are_refused() {
        for text in ["a", "5-1", "0-4294967295", "-1", "0-", "99999"] {
            assert_eq!(parse_cpu_list(text), None, "{text}");
        }
        let repeated = "0-8191,".repeat(1000);
        assert_eq!(parse_cpu_list(&repeated), None);
    }
}
