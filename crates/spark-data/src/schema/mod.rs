//! The structs of openpilot's logs, as views of a message.
//!
//! ```text
//! log_struct! { CarState; v_ego: f32 = f32(0); ... }     a number at bit 0
//!                         wheel_speeds: ... = structure(1)   the second pointer
//! ```
//!
//! A view costs nothing to make; a field is read when it is asked for. One that the log's writer did not know reads as its
//! default: 0, false, an empty list or text, unless its description says otherwise.
//!
//! Deliberately absent: fields whose types openpilot's current schema no longer describes, beyond a plain
//! [`StructReader`](crate::wire::StructReader).

mod camera;
mod car;
mod controls;
mod device;
mod driver;
mod enums;
mod map;
mod model;
mod view;
mod world;

pub use camera::*;
pub use car::*;
pub use controls::*;
pub use device::*;
pub use driver::*;
pub use enums::*;
pub use map::*;
pub use model::*;
pub use world::*;
