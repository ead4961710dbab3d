//! Values by ranges of bytes: which of them meet a range, without looking at those that do not.
//!
//! ```text
//! class 4   lengths 16 to 31    [0,16) [32,60) ...   by where they begin
//! class 9   lengths 512 to 1023 [0,600) ...
//! ```
//!
//! What meets `[a, b)` begins in front of `b`, and behind `a` less the longest of its class. So a
//! question costs a search in each class that is in use, and what it finds: at most as much again
//! in each lies close by and does not meet.

use std::collections::BTreeMap;
use std::ops::Range;

/// Where a range begins, and which one it was: several may begin in one place.
type Place = (usize, u64);

/// Values, each of a range that holds something.
#[derive(Debug)]
pub(crate) struct ByRange<T> {
    /// By the logarithm of their length, rounded down.
    classes: BTreeMap<u32, BTreeMap<Place, (usize, T)>>,
    n_inserted: u64,
}

impl<T> Default for ByRange<T> {
    fn default() -> Self {
        Self {
            classes: BTreeMap::new(),
            n_inserted: 0,
        }
    }
}

impl<T> ByRange<T> {
    /// Adds a value; one of an empty range meets nothing and is not kept.
    pub(crate) fn insert(&mut self, range: Range<usize>, value: T) {
        let Some(class) = range.len().checked_ilog2() else {
            return;
        };
        self.n_inserted += 1;
        let place = (range.start, self.n_inserted);
        let class = self.classes.entry(class).or_default();
        class.insert(place, (range.end, value));
    }

    /// Values whose ranges have a byte in common with this one.
    pub(crate) fn meeting(&self, range: &Range<usize>) -> impl Iterator<Item = &T> {
        let Range { start, end } = *range;
        self.classes.iter().flat_map(move |(class, values)| {
            let longest = (1_usize << class).saturating_mul(2) - 1;
            let begins = (start.saturating_sub(longest), 0)..(end.max(start), 0);
            let near = values.range(begins);
            near.filter(move |(_, (its_end, _))| *its_end > start && end > start)
                .map(|(_, (_, value))| value)
        })
    }

    /// Takes out the values of ranges within this one for which `is_gone` says so.
    pub(crate) fn remove_within(&mut self, range: &Range<usize>, is_gone: impl Fn(&T) -> bool) {
        let Range { start, end } = *range;
        for values in self.classes.values_mut() {
            let inside = values.range((start, 0)..(end.max(start), 0));
            let gone = inside.filter(|(_, (its_end, value))| *its_end <= end && is_gone(value));
            let gone: Vec<Place> = gone.map(|(place, _)| *place).collect();
            for place in gone {
                values.remove(&place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of ranges says the same, whatever their lengths.
    #[test]
    fn what_meets_is_found_and_what_lies_within_removed() {
        let mut state = 0x9E37_79B9_u64;
        let mut draw = |n: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % n
        };
        let mut ranges = ByRange::default();
        let mut list: Vec<(Range<usize>, u64)> = Vec::new();
        for number in 0..3000 {
            let longest = [3, 40, 1000][draw(3) as usize];
            let begin = draw(1000) as usize;
            let range = begin..begin + draw(longest) as usize;
            let mut found: Vec<u64> = ranges.meeting(&range).copied().collect();
            found.sort_unstable();
            let meets =
                |other: &Range<usize>| other.start.max(range.start) < other.end.min(range.end);
            let wanted = list.iter().filter(|(other, _)| meets(other));
            assert_eq!(found, wanted.map(|(_, number)| *number).collect::<Vec<_>>());
            if number % 3 == 0 {
                ranges.remove_within(&range, |number| number % 2 == 0);
                list.retain(|(other, number)| {
                    let is_within = range.start <= other.start && other.end <= range.end;
                    !(is_within && number % 2 == 0 && !other.is_empty())
                });
            }
            ranges.insert(range.clone(), number);
            list.push((range, number));
        }
        ranges.insert(usize::MAX - 1..usize::MAX, 3001);
        assert!(ranges.meeting(&(0..usize::MAX)).any(|n| *n == 3001));
        assert!(!ranges.meeting(&(0..usize::MAX - 1)).any(|n| *n == 3001));
    }
}
