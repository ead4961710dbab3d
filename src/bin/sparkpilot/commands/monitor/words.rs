//! Numbers as people read them, on the screen and in lines.

use std::fmt::Display;

use sparkpilot::hal::Reading;

/// What was told, or a word for what was not.
pub(super) fn or_unknown<T: Display>(reading: &Reading<T>) -> String {
    match reading {
        Reading::Value(value) => value.to_string(),
        Reading::NotSupported => "n/a".to_owned(),
        Reading::Failed(_) => "?".to_owned(),
    }
}

/// Binary gigabytes with a digit, without a unit.
pub(super) fn gibibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 30))
}

/// Bytes in four or five characters: `12M`, `1.5G`.
pub(super) fn size(bytes: u64) -> String {
    let steps = [
        (1_u64 << 40, "T"),
        (1 << 30, "G"),
        (1 << 20, "M"),
        (1 << 10, "K"),
    ];
    for (step, unit) in steps {
        if bytes >= step {
            let number = bytes as f64 / step as f64;
            let digits = usize::from(number < 9.95);
            return format!("{number:.digits$}{unit}");
        }
    }
    format!("{bytes}B")
}

/// Bytes per second with a unit that keeps three digits or so.
pub(super) fn speed(bytes_per_s: f64) -> String {
    let steps = [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")];
    for (size, unit) in steps {
        if bytes_per_s >= size {
            return format!("{:.1} {unit}", bytes_per_s / size);
        }
    }
    format!("{bytes_per_s:.0} B/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_keep_their_first_digits() {
        for (bytes, wanted) in [
            (0, "0B"),
            (1023, "1023B"),
            (1 << 20, "1.0M"),
            (12 << 20, "12M"),
            (1536 << 20, "1.5G"),
            (128 << 30, "128G"),
            (u64::MAX, "16777216T"),
        ] {
            assert_eq!(size(bytes), wanted);
        }
        assert_eq!(speed(23.4e9), "23.4 GB/s");
        assert_eq!(speed(0.0), "0 B/s");
    }
}
