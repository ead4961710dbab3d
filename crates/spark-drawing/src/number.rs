//! Numbers for people.
//!
//! Deliberately absent: numbers for programs, which read all digits.

/// `value` with `digits` significant digits, in plain or, below 0.001 and from 100000 on, in
/// scientific notation; "n/a" unless it is finite.
///
/// ```
/// use spark_drawing::number::significant;
/// assert_eq!(significant(12.3456, 3), "12.3");
/// assert_eq!(significant(0.000_123, 2), "1.2e-4");
/// ```
pub fn significant(value: f64, digits: u8) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".to_owned()
    } else if !value.is_finite() {
        "n/a".to_owned()
    } else if (1e-3..1e5).contains(&size) {
        let behind_first = i32::from(digits.max(1)) - 1;
        let decimals = (behind_first - size.log10().floor() as i32).max(0) as usize;
        format!("{value:.decimals$}")
    } else {
        let decimals = usize::from(digits.max(1) - 1);
        format!("{value:.decimals$e}")
    }
}

/// `value` with four significant digits.
pub fn short(value: f64) -> String {
    significant(value, 4)
}

/// `value` with four significant digits and its sign.
pub fn signed(value: f64) -> String {
    let text = short(value);
    if value > 0.0 {
        format!("+{text}")
    } else {
        text
    }
}

/// A number with its unit behind it; "1" and "" are the unit of what has none.
///
/// ```
/// use spark_drawing::number::with_unit;
/// assert_eq!(with_unit("2.5", "m/s"), "2.5 m/s");
/// assert_eq!(with_unit("2.5", "1"), "2.5");
/// ```
pub fn with_unit(number: &str, unit: &str) -> String {
    match unit {
        "" | "1" => number.to_owned(),
        unit => format!("{number} {unit}"),
    }
}

/// The unit in which sizes up to `largest` bytes have few digits, and how many bytes it is.
///
/// ```
/// assert_eq!(spark_drawing::number::byte_unit(93e6), (1e6, "MB"));
/// ```
pub fn byte_unit(largest: f64) -> (f64, &'static str) {
    match largest {
        bytes if bytes >= 4e9 => (1e9, "GB"),
        bytes if bytes >= 4e6 => (1e6, "MB"),
        _ => (1e3, "kB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_whatever_the_size() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1.000"),
            (-12.3456, "-12.35"),
            (0.012_345_6, "0.01235"),
            (99_999.4, "99999"),
            (123_456.0, "1.235e5"),
            (0.000_12, "1.200e-4"),
            (f64::NAN, "n/a"),
            (f64::NEG_INFINITY, "n/a"),
        ] {
            assert_eq!(short(value), text);
        }
        assert_eq!(signed(2.0), "+2.000");
        assert_eq!(signed(-2.0), "-2.000");
        assert_eq!(significant(5.0, 0), "5");
        assert_eq!(significant(5.0, u8::MAX).len(), 256);
    }

    #[test]
    fn sizes_have_a_unit_that_fits() {
        let names = [0.0, 3.9e6, 4e6, 4e9, f64::NAN].map(|bytes| byte_unit(bytes).1);
        assert_eq!(names, ["kB", "kB", "MB", "GB", "kB"]);
    }
}
