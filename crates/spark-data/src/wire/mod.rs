//! Reading Cap'n Proto messages: the part of its encoding that openpilot's logs use.
//!
//! ```text
//! message   u32 segments - 1 | u32 words of each | padding to 8 bytes | the segments, one after the other
//! word 0    pointer to the root ─┬─> struct   data words, then pointers
//!                                ├─> list     bits, numbers, pointers, or a tag word and structs
//!                                └─> far      where in another segment the pointer really is
//! ```
//!
//! Source: Cap'n Proto's public encoding specification. The crate `capnp` reads these files as well; it wants the code
//! that its compiler generates for each struct, which is an order of magnitude more text than the tables in
//! [`schema`](crate::schema), for readers and builders of which logs need the readers only.
//!
//! Every pointer is checked before it is followed: inside its segment, at most [`DEPTH_LIMIT`] deep, and all that is
//! read of one message counts against a budget, so that pointers in a circle end. Nothing is allocated by what a
//! file says: values are views of the message's bytes, and a field beyond what the writer knew reads as its default.
//!
//! Deliberately absent: writing, packed encoding, capabilities, and upgrades of a list of numbers to one of structs
//! other than the one that the specification calls for (a struct's first field).

mod list;
mod message;
mod structure;

pub use list::{Number, Numbers, StructList, Texts};
pub use message::{DEPTH_LIMIT, Message, WireError};
pub use structure::{FromStruct, StructReader};
