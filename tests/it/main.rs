//! The whole: the facade as a library, and the examples as people start them.

mod facade;
#[cfg(unix)]
mod programs;
mod warp;
