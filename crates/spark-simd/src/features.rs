//! What each token stands for, once for all: to detect it, to compile for it, to name it.
//!
//! ```text
//! features!(compile Avx2 fn f() ..)  ->  #[target_feature(enable = "avx2", enable = "fma", ..)] fn f() ..
//! features!(detect Avx2)             ->  is_x86_feature_detected!("avx2") && ..
//! features!(names Avx2)              ->  &["avx2", "fma", ..]
//! ```

/// The features of a token: `compile` a function for them, `detect` them, or their `names`.
///
/// A function that is compiled for features is unsafe to call from where they are not enabled; the
/// caller shows by a token that the processor has them.
///
/// ```
/// # #[cfg(target_arch = "x86_64")] {
/// use spark_simd::{Isa, Proof};
///
/// spark_simd::features! { compile Avx2
///     fn sum(values: &[f32]) -> f32 {
///         values.iter().sum()
///     }
/// }
/// if let Proof::Avx2(_) = Isa::detect().proof() {
///     // SAFETY: the token proves that this processor has the features of `Avx2`.
///     assert_eq!(unsafe { sum(&[1.0, 2.0]) }, 3.0);
/// }
/// # }
/// ```
#[macro_export]
macro_rules! features {
    ($what:ident Avx2 $($item:tt)*) => {
        $crate::features! { @$what is_x86_feature_detected ["avx2" "fma" "f16c"] $($item)* }
    };
    ($what:ident AvxVnni $($item:tt)*) => {
        $crate::features! { @$what is_x86_feature_detected ["avx2" "fma" "f16c" "avxvnni"] $($item)* }
    };
    ($what:ident Avx512 $($item:tt)*) => {
        $crate::features! { @$what is_x86_feature_detected [
            "avx2" "fma" "f16c" "avx512f" "avx512bw" "avx512dq" "avx512vl"
        ] $($item)* }
    };
    ($what:ident Avx512Vnni $($item:tt)*) => {
        $crate::features! { @$what is_x86_feature_detected [
            "avx2" "fma" "f16c" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni"
        ] $($item)* }
    };
    ($what:ident Avx512Bytes $($item:tt)*) => {
        $crate::features! { @$what is_x86_feature_detected [
            "avx2" "fma" "f16c" "avx512f" "avx512bw" "avx512dq" "avx512vl"
            "avx512vbmi" "avx512vbmi2" "avx512vnni"
        ] $($item)* }
    };
    ($what:ident Avx512Bf16 $($item:tt)*) => {
        $crate::features! { @$what is_x86_feature_detected [
            "avx2" "fma" "f16c" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512bf16"
        ] $($item)* }
    };
    ($what:ident Neon $($item:tt)*) => {
        $crate::features! { @$what is_aarch64_feature_detected ["neon"] $($item)* }
    };
    ($what:ident NeonDot $($item:tt)*) => {
        $crate::features! { @$what is_aarch64_feature_detected ["neon" "dotprod"] $($item)* }
    };
    ($what:ident NeonI8mm $($item:tt)*) => {
        $crate::features! { @$what is_aarch64_feature_detected ["neon" "i8mm"] $($item)* }
    };
    ($what:ident NeonBf16 $($item:tt)*) => {
        $crate::features! { @$what is_aarch64_feature_detected ["neon" "bf16"] $($item)* }
    };
    ($what:ident NeonFhm $($item:tt)*) => {
        $crate::features! { @$what is_aarch64_feature_detected ["neon" "fp16" "fhm"] $($item)* }
    };
    (@compile $detected:ident [$($feature:tt)+] $($item:tt)*) => {
        #[target_feature($(enable = $feature),+)]
        $($item)*
    };
    (@detect $detected:ident [$($feature:tt)+]) => {
        $(::std::arch::$detected!($feature))&&+
    };
    (@names $detected:ident [$($feature:tt)+]) => {
        &[$($feature),+]
    };
}
