//! Reductions along axes, and over windows of an image.

pub(crate) mod byte_mean;
pub(crate) mod byte_pool;
pub(crate) mod pool2d;
pub(crate) mod reduce;
