//! Spans of time as people write them: `500ms`, `2s`, `5m`, `1h`, or a number of seconds.

use std::time::Duration;

/// Reads a span from `least` to `most`, both allowed.
pub(super) fn span(
    least: Duration,
    most: Duration,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| match parse(text) {
        Some(span) if (least..=most).contains(&span) => Ok(span),
        _ => Err(format!(
            "expected a time from {} to {}, in ms, s, m or h, as in 90s",
            words(least),
            words(most)
        )),
    }
}

fn parse(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let milliseconds: u64 = match &text[digits.len()..] {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let number: u64 = digits.parse().ok()?;
    Some(Duration::from_millis(number.checked_mul(milliseconds)?))
}

/// As `span` reads it, in the largest unit that leaves a whole number.
pub(super) fn words(span: Duration) -> String {
    let milliseconds = span.as_millis();
    let units = [(3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let unit = units
        .into_iter()
        .find(|(size, _)| milliseconds >= *size && milliseconds.is_multiple_of(*size));
    let (size, name) = unit.unwrap_or((1, "ms"));
    format!("{}{name}", milliseconds / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_within_bounds_and_nothing_else_is() {
        let read = span(Duration::from_millis(10), Duration::from_secs(3600));
        for (text, milliseconds) in [
            ("10ms", 10),
            ("500ms", 500),
            ("2", 2000),
            ("2s", 2000),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ] {
            let span = Duration::from_millis(milliseconds);
            assert_eq!(read(text), Ok(span), "{text}");
            assert_eq!(read(&words(span)), Ok(span), "{text}");
        }
        for text in [
            "",
            "s",
            "0",
            "9ms",
            "61m",
            "2h",
            "-1s",
            "1.5s",
            "1 s",
            "1d",
            "é",
            "1é",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            let told = read(text).unwrap_err();
            assert!(told.contains("from 10ms to 1h"), "{text}: {told}");
        }
    }
}
