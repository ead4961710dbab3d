//! Other road users: car-following and lane-changing models, scripted actors, a highway.
//!
//! ```text
//! idm, krauss   how hard to accelerate behind the car in front
//! mobil         whether to change lane
//! actor         a scripted, following or replayed car in a scenario
//! highway       many cars on a ring of lanes, all following and changing lanes
//! ```

mod actor;
mod highway;
mod idm;
mod krauss;
mod mobil;
#[cfg(test)]
mod tests;

#[cfg(feature = "cuda")]
pub(crate) use actor::Way;
pub use actor::{Actor, Lateral, Longitudinal, ReplayPoint, Shape, Trigger};
pub(crate) use actor::{ActorState, Clock, Ego, advance, find_lead};
pub use highway::{Highway, HighwayConfig};
pub use idm::Idm;
pub use krauss::Krauss;
pub use mobil::{LaneChange, Mobil};
