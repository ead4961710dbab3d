//! Elements copied, gathered, scattered and resampled.

pub(crate) mod copy;
pub(crate) mod gather;
pub(crate) mod resample;
pub(crate) mod roi_align;
