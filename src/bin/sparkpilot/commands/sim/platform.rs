//! Which elementary functions this machine has: a hash of their values.
//!
//! Scenarios and roads are made with the platform's sine and its like, whose last bits differ between C libraries, and
//! within one between processors with and without fused multiply-add. 4,096 arguments each show
//! a difference in one result of a few hundred, and not one that is rarer by far.

use sparkpilot::shards::Fingerprint;

const N_ARGUMENTS: u32 = 4096;

/// A hash of what the functions answer here.
pub(super) fn hash_of_functions() -> String {
    let functions: [fn(f64) -> f64; 9] = [
        f64::sin,
        f64::cos,
        f64::tan,
        f64::atan,
        f64::exp,
        |x| (x.abs() + 1e-3).ln(),
        |x| (x.abs() + 1e-3).powf(0.3),
        |x| x.atan2(1.7 - x),
        |x| x.hypot(0.3),
    ];
    let mut hash = Fingerprint::new();
    for function in functions {
        for idx in 0..N_ARGUMENTS {
            // From -20 to 20, no two alike in their last bits. The compiler must not know them.
            let x = std::hint::black_box((f64::from(idx) * 0.618_033_988_75).fract() * 40.0 - 20.0);
            hash.add(function(x).to_le_bytes());
        }
    }
    hash.hex()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_of_one_machine_are_the_same() {
        assert_eq!(hash_of_functions(), hash_of_functions());
    }
}
