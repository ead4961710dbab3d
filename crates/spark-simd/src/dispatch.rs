//! From a token to the kernel that is compiled for it.

/// `dispatch!(isa, kernel::<EXTRA>(arg: Type, ..) => (value, ..))` calls `kernel::<S, EXTRA>(value, ..)` for the instruction set `isa`, compiled with its features.
///
/// `kernel` must be an `#[inline(always)] unsafe fn` generic over `S: Simd`. The caller
/// shows by holding `isa` that the processor has it. The function that is compiled for each set stands where
/// the macro is used, so that the step to it costs no more than a call.
///
/// ```
/// use spark_simd::{Isa, Simd, dispatch};
///
/// /// Doubles the first vector's worth of `values`.
/// #[inline(always)]
/// unsafe fn double<S: Simd>(values: &mut [f32; 16]) {
///     // SAFETY: no vector has more than 16 lanes; the caller's processor has the instruction set.
///     unsafe {
///         let v = S::load(values.as_ptr());
///         S::store(values.as_mut_ptr(), S::add(v, v));
///     }
/// }
///
/// let mut values = [1.0; 16];
/// let isa = Isa::detect();
/// // SAFETY: `isa` is what this processor has.
/// unsafe { dispatch!(isa, double(values: &mut [f32; 16]) => (&mut values)) };
/// assert!(values[..isa.lanes()].iter().all(|&v| v == 2.0));
/// ```
#[macro_export]
macro_rules! dispatch {
    ($isa:expr, $kernel:ident $(::<$($extra:tt),*>)? ($($arg:ident : $ty:ty),* $(,)?) => ($($value:expr),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        $crate::features! { compile Avx512
            #[allow(clippy::too_many_arguments, reason = "mirrors the kernel")]
            unsafe fn avx512($($arg: $ty),*) {
                // SAFETY: same contract as the kernel; this function has the features.
                unsafe { $kernel::<$crate::Avx512 $($(, $extra)*)?>($($arg),*) }
            }
        }
        #[cfg(target_arch = "x86_64")]
        $crate::features! { compile Avx2
            #[allow(clippy::too_many_arguments, reason = "mirrors the kernel")]
            unsafe fn avx2($($arg: $ty),*) {
                // SAFETY: same contract as the kernel; this function has the features.
                unsafe { $kernel::<$crate::Avx2 $($(, $extra)*)?>($($arg),*) }
            }
        }
        #[cfg(target_arch = "aarch64")]
        $crate::features! { compile Neon
            #[allow(clippy::too_many_arguments, reason = "mirrors the kernel")]
            unsafe fn neon($($arg: $ty),*) {
                // SAFETY: same contract as the kernel; this function has the features.
                unsafe { $kernel::<$crate::Neon $($(, $extra)*)?>($($arg),*) }
            }
        }
        // A token of one set proves that the processor has the features of its function.
        match $isa.proof() {
            #[cfg(target_arch = "x86_64")]
            $crate::Proof::Avx512(_) => avx512($($value),*),
            #[cfg(target_arch = "x86_64")]
            $crate::Proof::Avx2(_) => avx2($($value),*),
            #[cfg(target_arch = "aarch64")]
            $crate::Proof::Neon(_) => neon($($value),*),
            $crate::Proof::Scalar => {
                $kernel::<$crate::Scalar $($(, $extra)*)?>($($value),*)
            }
        }
    }};
}

#[cfg(test)]
mod tests {
    #![allow(unsafe_code, reason = "what the macro calls is unsafe")]

    use crate::{Isa, Simd};

    #[test]
    fn vectors_have_the_lanes_and_registers_that_their_token_says() {
        unsafe fn check<S: Simd>(isa: Isa) {
            assert_eq!(S::LANES, isa.lanes(), "{isa}");
            assert_eq!(S::REGISTERS, isa.registers(), "{isa}");
        }
        for isa in Isa::available() {
            // SAFETY: nothing here runs an instruction.
            unsafe { crate::dispatch!(isa, check(isa: Isa) => (isa)) }
        }
    }
}
