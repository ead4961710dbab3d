//! The Mersenne Twister as numpy's legacy generator uses it.
//!
//! Source: Matsumoto, Nishimura (1998), `init_genrand` and `genrand_res53`.

const N: usize = 624;
const M: usize = 397;

/// MT19937 seeded with one integer, as `numpy.random.seed(n)` does.
#[derive(Debug, Clone)]
pub(super) struct Mersenne {
    state: Vec<u32>,
    next: usize,
}

impl Mersenne {
    pub(super) fn new(seed: u32) -> Self {
        let mut state = vec![seed; N];
        for i in 1..N {
            let last = state[i - 1];
            state[i] = 1_812_433_253_u32
                .wrapping_mul(last ^ (last >> 30))
                .wrapping_add(i as u32);
        }
        Self { state, next: N }
    }

    fn word(&mut self) -> u32 {
        if self.next == N {
            self.refill();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9D2C_5680;
        y ^= (y << 15) & 0xEFC6_0000;
        y ^ (y >> 18)
    }

    fn refill(&mut self) {
        for i in 0..N {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7FFF_FFFF);
            let odd = if y & 1 == 1 { 0x9908_B0DF } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ (y >> 1) ^ odd;
        }
        self.next = 0;
    }

    /// Uniform in [0, 1) with 53 bits, as `numpy.random.random_sample`.
    pub(super) fn uniform(&mut self) -> f64 {
        let (a, b) = (self.word() >> 5, self.word() >> 6);
        (f64::from(a) * 67_108_864.0 + f64::from(b)) / 9_007_199_254_740_992.0
    }
}
