//! Pieces of memory of a device: who uses them, and what is waited for before they go.
//!
//! ```text
//! allocation   a piece, the guards and the work on it, its mirror; Device::allocate
//!     │ drop
//!     ▼
//! block        memory without users, and the queues that may still work on it;
//!     │        given back when they have passed, or kept by a pool or a recording
//!     ▼
//! backend, or the allocator of a `Vec` that was taken over (`adopted`)
//! ```
//!
//! The device's own queue (`housekeeping`) clears memory, and takes and gives it back in order
//! where the driver can. Streams, pools and buffers stand above. What this needs of a stream and of a pool are the
//! traits [`Queue`](block::Queue) and [`Home`](block::Home).

pub(crate) mod adopted;
pub(crate) mod allocation;
pub(crate) mod block;
mod housekeeping;
