//! Inputs of probes: bits of all kinds, and numbers that sum exactly.

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: &str) -> Self {
        // FNV-1a, so that a probe's inputs do not hang on its neighbours'.
        let hash = seed.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        Self(hash)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// f32 bits: special values, neighbours of powers of two, and anything.
pub(crate) fn floats(random: &mut Random, n: usize) -> Vec<u32> {
    const SPECIAL: [u32; 20] = [
        0,
        0x8000_0000,
        1,
        0x8000_0001,
        0x007F_FFFF,
        0x0080_0000,
        0x8080_0000,
        0x3F80_0000,
        0xBF80_0000,
        0x3F00_0000,
        0x4000_0000,
        0x7F7F_FFFF,
        0xFF7F_FFFF,
        0x7F80_0000,
        0xFF80_0000,
        0x7FC0_0000,
        0x7F80_0001,
        0xFFC1_2345,
        0x4B80_0000,
        0x4F00_0000,
    ];
    let mut value = |at: usize| match at % 4 {
        0 if at / 4 < SPECIAL.len() => SPECIAL[at / 4],
        0 | 1 => {
            // Near 1, where most arithmetic happens.
            let exponent = 127 - 12 + random.below(24) as u32;
            (random.next() as u32 & 0x807F_FFFF) | exponent << 23
        }
        2 => {
            (random.next() as u32 & 0x8000_0000)
                | (random.below(256) as u32) << 23
                | match random.below(4) {
                    0 => 0,
                    1 => 0x7F_FFFF,
                    2 => 1 << random.below(23),
                    _ => random.next() as u32 & 0x7F_FFFF,
                }
        }
        _ => random.next() as u32,
    };
    (0..n).map(&mut value).collect()
}

/// Any words.
pub(crate) fn words(random: &mut Random, n: usize) -> Vec<u32> {
    (0..n)
        .map(|at| match at % 8 {
            0 => [0, 1, 0xFFFF_FFFF, 0x8000_0000, 0x7FFF_FFFF, 31, 32, 33][at / 8 % 8],
            1 => random.below(64) as u32,
            2 => 1 << random.below(32),
            _ => random.next() as u32,
        })
        .collect()
}

/// Element formats of matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    S8,
    U8,
    S4,
    U4,
}

impl Element {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::S8 => "s8",
            Self::U8 => "u8",
            Self::S4 => "s4",
            Self::U4 => "u4",
        }
    }

    fn bits(self) -> u32 {
        match self {
            Self::Tf32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::S4 | Self::U4 => 4,
            _ => 8,
        }
    }

    /// The code of a small integer.
    fn integer(self, random: &mut Random) -> u32 {
        let magnitude = random.below(8) as u32;
        let sign = random.below(2) as u32;
        // f32 bits of a small integer, cut to the format's widths, are exact.
        let bits = (magnitude as f32).to_bits() | sign << 31;
        let narrow = |exponent_bits: u32, mantissa_bits: u32| {
            if magnitude == 0 {
                return sign << (exponent_bits + mantissa_bits);
            }
            let bias = (1 << (exponent_bits - 1)) - 1;
            let exponent = (bits >> 23 & 0xFF) as i32 - 127 + bias;
            let mantissa = (bits & 0x7F_FFFF) >> (23 - mantissa_bits);
            sign << (exponent_bits + mantissa_bits) | (exponent as u32) << mantissa_bits | mantissa
        };
        match self {
            Self::F16 => narrow(5, 10),
            Self::Bf16 => bits >> 16,
            Self::Tf32 => bits,
            // Two bits of mantissa hold 0 to 4, 5 would need three.
            Self::E5m2 if magnitude == 5 || magnitude == 7 => narrow(5, 2) & 0x83,
            Self::E5m2 => narrow(5, 2),
            Self::E4m3 => narrow(4, 3),
            _ => random.next() as u32 & ((1 << self.bits()) - 1),
        }
    }

    /// A code of moderate size, sometimes subnormal or special.
    fn general(self, random: &mut Random, with_specials: bool) -> u32 {
        let any = random.next() as u32;
        let code = if self.bits() == 32 {
            any
        } else {
            any & ((1 << self.bits()) - 1)
        };
        let (exponent_bits, mantissa_bits) = match self {
            Self::F16 => (5, 10),
            Self::Bf16 => (8, 7),
            Self::Tf32 => (8, 23),
            Self::E4m3 => (4, 3),
            Self::E5m2 => (5, 2),
            _ => return code,
        };
        let mask = (1_u32 << exponent_bits) - 1;
        let exponent = code >> mantissa_bits & mask;
        let keep = code & !(mask << mantissa_bits);
        match random.below(16) {
            0 if with_specials => code,
            // Subnormal and zero.
            1 => keep,
            _ if exponent_bits == 8 => {
                let near = 127 - 10 + random.below(20) as u32;
                keep | near << mantissa_bits
            }
            _ => keep | exponent.min(mask - 1) << mantissa_bits,
        }
    }
}

/// Registers full of elements, small integers or anything.
pub(crate) fn packed(random: &mut Random, element: Element, n: usize, kind: Kind) -> Vec<u32> {
    let per_word = 32 / element.bits();
    let mut word = || {
        (0..per_word).fold(0_u32, |word, idx| {
            let code = match kind {
                Kind::Integers => element.integer(random),
                Kind::Numbers => element.general(random, false),
                Kind::Anything => element.general(random, true),
            };
            word | code.checked_shl(idx * element.bits()).unwrap_or(0)
        })
    };
    (0..n).map(|_| word()).collect()
}

/// What matrices hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sums are exact in any order.
    Integers,
    /// Finite numbers of many sizes.
    Numbers,
    /// Infinities and NaN among them.
    Anything,
}
