//! Whole machines, recorded and hostile, through the public interface.

mod hostile;
mod machines;
mod recorded;
