//! What to do with weights that are NaN or infinite.

/// Policy for NaN and infinity among the values to quantize.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NonFinite {
    /// Refuse, naming the first one.
    #[default]
    Error,
    /// Quantize as if they were zero, then make the scale of their block NaN, so that the whole
    /// block reads as NaN. (With one scale per tensor that is the whole tensor.)
    Pass,
    /// NaN becomes zero, infinity the largest finite magnitude of the tensor with its sign.
    Clamp,
}

pub(super) fn clamp(values: &mut [f32]) {
    let largest = values
        .iter()
        .filter(|x| x.is_finite())
        .fold(0f32, |largest, x| largest.max(x.abs()));
    for x in values {
        if x.is_nan() {
            *x = 0.0;
        } else if x.is_infinite() {
            *x = largest.copysign(*x);
        }
    }
}

pub(super) fn zero(values: &mut [f32], at: &[usize]) {
    for &i in at {
        values[i] = 0.0;
    }
}
