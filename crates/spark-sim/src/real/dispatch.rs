//! Choosing the widest vector unit of this CPU at run time.
//!
//! ```text
//! kernel.run::<L>()   L = Pair<Vector<Avx512>> | Vector<S> | f32, inlined into a function
//!                     compiled for that instruction set
//! ```

use super::number::Lanes;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::vector::Vector;
#[cfg(target_arch = "x86_64")]
use spark_simd::{Avx2, Avx512};
use spark_simd::{Isa, Proof};

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
        dispatch_at(Isa::detect(), kernel)
    }
    #[inline]
    fn dispatch_pairs<K: Kernel<Elem = f32>>(n_lanes: usize, kernel: K) -> K::Output {
        let isa = Isa::detect();
        #[cfg(target_arch = "x86_64")]
        if n_lanes > Vector::<Avx512>::N
            && let Proof::Avx512(avx512) = isa.proof()
        {
            return run_avx512_pairs(avx512, kernel);
        }
        let _ = n_lanes;
        dispatch_at(isa, kernel)
    }
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

/// Runs a kernel with the lanes of this instruction set.
pub(crate) fn dispatch_at<K: Kernel<Elem = f32>>(isa: Isa, kernel: K) -> K::Output {
    match isa.proof() {
        #[cfg(target_arch = "x86_64")]
        Proof::Avx512(_) => {
            // SAFETY: the token proves that this CPU has the features of `Avx512`.
            unsafe { run_avx512(kernel) }
        }
        #[cfg(target_arch = "x86_64")]
        Proof::Avx2(_) => {
            // SAFETY: the token proves that this CPU has the features of `Avx2`.
            unsafe { run_avx2(kernel) }
        }
        #[cfg(target_arch = "aarch64")]
        Proof::Neon(_) => kernel.run::<Vector<spark_simd::Neon>>(),
        Proof::Scalar => kernel.run::<f32>(),
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
spark_simd::features! { compile Avx512
    fn run_avx512<K: Kernel<Elem = f32>>(kernel: K) -> K::Output {
        AlignedFrame(std::mem::MaybeUninit::uninit()).hold();
        kernel.run::<Vector<Avx512>>()
    }
}

#[cfg(target_arch = "x86_64")]
spark_simd::features! { compile Avx2
    fn run_avx2<K: Kernel<Elem = f32>>(kernel: K) -> K::Output {
        AlignedFrame(std::mem::MaybeUninit::uninit()).hold();
        kernel.run::<Vector<Avx2>>()
    }
}

/// Runs a kernel with two registers at a time.
#[cfg(target_arch = "x86_64")]
pub(super) fn run_avx512_pairs<K: Kernel<Elem = f32>>(_proof: Avx512, kernel: K) -> K::Output {
    spark_simd::features! { compile Avx512
        fn inner<K: Kernel<Elem = f32>>(kernel: K) -> K::Output {
            AlignedFrame(std::mem::MaybeUninit::uninit()).hold();
            kernel.run::<super::pair::Pair<Vector<Avx512>>>()
        }
    }
    // SAFETY: the token proves that this CPU has the features of `Avx512`.
    unsafe { inner(kernel) }
}
