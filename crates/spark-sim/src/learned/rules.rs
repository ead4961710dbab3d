//! The numbers of the controls challenge that models, segments and costs share.
//!
//! Source: commaai/controls_challenge be8edfa.

/// Steps of history that the model sees.
pub const CONTEXT: usize = 20;
/// Numbers per step of history: steering, roll acceleration, speed, acceleration.
pub const STATE_SIZE: usize = 4;
/// First step at which the controller's answer is used.
pub const CONTROL_START: usize = 100;
/// First step after those that count.
pub const COST_END: usize = 500;
/// Time step of the challenge, s.
pub const DT: f64 = 0.1;
