//! In which order an epoch takes its samples: a function of the seed and the epoch.

/// A permutation of `0..n`.
pub(crate) fn order(n: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut state = seed ^ epoch.wrapping_mul(0xD1B5_4A32_D192_ED03).rotate_left(17);
    let mut order: Vec<usize> = (0..n).collect();
    // Fisher and Yates.
    for last in (1..n).rev() {
        let below = last as u64 + 1;
        // The high half of the product is even to one part in 2^64 / n.
        let at = (u128::from(split_mix(&mut state)) * u128::from(below)) >> 64;
        order.swap(last, at as usize);
    }
    order
}

/// SplitMix64: G. Steele et al., "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_comes_once_and_epochs_differ() {
        let mut seen = Vec::new();
        for epoch in 0..20 {
            let taken = order(50, 7, epoch);
            let mut sorted = taken.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..50).collect::<Vec<_>>());
            assert_eq!(taken, order(50, 7, epoch));
            assert!(!seen.contains(&taken), "epoch {epoch} repeats one");
            seen.push(taken);
        }
        assert_ne!(order(50, 8, 0), order(50, 7, 0));
        assert!(order(0, 1, 1).is_empty());
    }

    /// Every sample is as likely first as any other.
    #[test]
    fn no_sample_is_preferred() {
        let mut first = [0u32; 5];
        for epoch in 0..5000 {
            first[order(5, 1, epoch)[0]] += 1;
        }
        // 1000 each, standard deviation 28.
        assert!(first.iter().all(|n| n.abs_diff(1000) < 150), "{first:?}");
    }
}
