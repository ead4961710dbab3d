//! Wall-clock time as text: RFC 3339, in UTC, to the millisecond, as in `2026-03-01T07:05:09.040Z`.
//!
//! ```text
//! days since 1970-01-01 ──> year, month, day    in eras of 400 years, which begin on a 1 March
//! ```
//!
//! Source of the calendar: Howard Hinnant, *chrono-Compatible Low-Level Date Algorithms*, `civil_from_days`.
//! Deliberately absent: time zones, and leap seconds, which the system's clock does not count.

use std::time::{SystemTime, UNIX_EPOCH};

/// `time` as RFC 3339 in UTC with milliseconds. A time before 1970 is told as 1970 began.
#[must_use]
pub fn utc(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
        since.subsec_millis()
    )
}

/// Year, month and day so many days after 1 January 1970.
fn date(days: u64) -> (u64, u64, u64) {
    /// Days from 1 March of the year 0 to 1 January 1970.
    const TO_1970: u64 = 719_468;
    /// Days of 400 years.
    const ERA: u64 = 146_097;
    let day = days.saturating_add(TO_1970);
    let of_era = day % ERA;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months counted from March: they have 153 days in every five.
    let month_idx = (5 * of_year + 2) / 153;
    let month = if month_idx < 10 {
        month_idx + 3
    } else {
        month_idx - 9
    };
    let year = day / ERA * 400 + year_of_era + u64::from(month <= 2);
    (year, month, of_year - (153 * month_idx + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_those_of_date_u() {
        for (seconds, wanted) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), wanted);
        }
        let odd = Duration::from_millis(1_772_348_709_040);
        assert_eq!(utc(UNIX_EPOCH + odd), "2026-03-01T07:05:09.040Z");
        assert_eq!(utc(UNIX_EPOCH - odd), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn every_day_of_800_years_follows_the_one_before() {
        let is_leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let length = |year, month| match month {
            2 => 28 + u64::from(is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..2 * 146_097 {
            assert_eq!(date(days), (year, month, day));
            day += 1;
            if day > length(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }
}
