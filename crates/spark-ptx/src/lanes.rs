//! What a warp holds in one register.

/// One 32-bit register of the 32 lanes of a warp.
pub type Lanes = [u32; 32];
