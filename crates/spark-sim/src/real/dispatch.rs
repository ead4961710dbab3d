//! Choosing the widest vector unit of this CPU at run time.
//!
//! ```text
//! kernel.run::<L>()   L = Pair<F32x16> | F32x16 | F32x8 | F32x4 | f32, inlined into a function
//!                     compiled for that instruction set
//! ```

use super::Lanes;
use std::sync::OnceLock;

/// A vector unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SimdLevel {
    /// One lane at a time.
    Scalar,
    /// Four f32 lanes: aarch64.
    Neon,
    /// Eight f32 lanes: x86-64 with AVX2.
    Avx2,
    /// Sixteen f32 lanes: x86-64 with AVX-512F.
    Avx512,
}

impl SimdLevel {
    /// The widest unit this CPU has.
    pub fn detect() -> Self {
        static LEVEL: OnceLock<SimdLevel> = OnceLock::new();
        *LEVEL.get_or_init(|| {
            *Self::available()
                .last()
                .expect("the scalar level is always there")
        })
    }

    /// Every unit this CPU has, narrowest first.
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut, reason = "only some architectures add to the list")]
        let mut levels = vec![Self::Scalar];
        #[cfg(target_arch = "aarch64")]
        levels.push(Self::Neon);
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                levels.push(Self::Avx2);
            }
            if is_x86_feature_detected!("avx512f") {
                levels.push(Self::Avx512);
            }
        }
        levels
    }
}

/// Work written once for any number of lanes.
///
/// `run` must be `#[inline(always)]`, as must everything it calls per lane:
/// what is not inlined is compiled for the oldest CPU of the target.
pub trait Kernel {
    /// Element type of the arrays.
    type Elem: Element;
    /// What the work returns.
    type Output;
    /// Does the work with lanes of type `L`.
    fn run<L: Lanes<Elem = Self::Elem>>(self) -> Self::Output;
}

/// An array element that kernels run on: f32 (vectorised) or f64 (the oracle, one lane).
pub trait Element: Lanes<Elem = Self> + Default + Send + Sync {
    /// Runs a kernel with the widest lanes of this CPU.
    fn dispatch<K: Kernel<Elem = Self>>(kernel: K) -> K::Output;
    /// As [`Element::dispatch`], two registers at a time if one does not hold `n_lanes` lanes.
    ///
    /// For kernels that are chains of dependent operations on few values. Today only AVX-512
    /// takes pairs: AVX2 has half as many registers, and NEON has not been measured.
    fn dispatch_pairs<K: Kernel<Elem = Self>>(n_lanes: usize, kernel: K) -> K::Output;
    /// Rounds to nearest.
    fn from_f64(value: f64) -> Self;
    /// Exact.
    fn to_f64(self) -> f64;
}

impl Element for f64 {
    #[inline]
    fn dispatch<K: Kernel<Elem = f64>>(kernel: K) -> K::Output {
        kernel.run::<f64>()
    }
    #[inline]
    fn dispatch_pairs<K: Kernel<Elem = f64>>(_n_lanes: usize, kernel: K) -> K::Output {
        kernel.run::<f64>()
    }
    fn from_f64(value: f64) -> Self {
        value
    }
    fn to_f64(self) -> f64 {
        self
    }
}

impl Element for f32 {
    #[inline]
    fn dispatch<K: Kernel<Elem = f32>>(kernel: K) -> K::Output {
        dispatch_at(SimdLevel::detect(), kernel)
    }
    #[inline]
    fn dispatch_pairs<K: Kernel<Elem = f32>>(n_lanes: usize, kernel: K) -> K::Output {
        let level = SimdLevel::detect();
        #[cfg(target_arch = "x86_64")]
        if n_lanes > super::avx512::F32x16::N && level == SimdLevel::Avx512 {
            // SAFETY: this level is detected only on CPUs that have AVX-512F.
            return unsafe { run_avx512_pairs(kernel) };
        }
        let _ = n_lanes;
        dispatch_at(level, kernel)
    }
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

/// Runs a kernel at a given level; a level this CPU lacks falls back to scalar.
pub(crate) fn dispatch_at<K: Kernel<Elem = f32>>(level: SimdLevel, kernel: K) -> K::Output {
    match level {
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 if is_x86_feature_detected!("avx512f") => {
            // SAFETY: the guard has just checked that this CPU has AVX-512F.
            unsafe { run_avx512(kernel) }
        }
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2 if is_x86_feature_detected!("avx2") => {
            // SAFETY: the guard has just checked that this CPU has AVX2.
            unsafe { run_avx2(kernel) }
        }
        #[cfg(target_arch = "aarch64")]
        SimdLevel::Neon => kernel.run::<super::neon::F32x4>(),
        _ => kernel.run::<f32>(),
    }
}

/// A local of this type makes the compiler align the whole stack frame to cache lines.
///
/// A long kernel has more values than registers, and what is put aside lies on the stack. Stacks
/// are aligned to 16 bytes, and the compiler aligns a frame further for its locals, but not for
/// registers put aside: three times out of four each of these straddles two cache lines.
#[cfg(target_arch = "x86_64")]
#[repr(align(64))]
struct AlignedFrame(std::mem::MaybeUninit<u8>);

#[cfg(target_arch = "x86_64")]
impl AlignedFrame {
    /// Keeps `self` in memory: a local that nobody can see is no local.
    #[inline(always)]
    fn hold(&self) {
        std::hint::black_box(&self.0);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn run_avx512<K: Kernel<Elem = f32>>(kernel: K) -> K::Output {
    AlignedFrame(std::mem::MaybeUninit::uninit()).hold();
    kernel.run::<super::avx512::F32x16>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2<K: Kernel<Elem = f32>>(kernel: K) -> K::Output {
    AlignedFrame(std::mem::MaybeUninit::uninit()).hold();
    kernel.run::<super::avx2::F32x8>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
pub(super) fn run_avx512_pairs<K: Kernel<Elem = f32>>(kernel: K) -> K::Output {
    AlignedFrame(std::mem::MaybeUninit::uninit()).hold();
    kernel.run::<super::pair::Pair<super::avx512::F32x16>>()
}
