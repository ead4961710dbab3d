//! Lists of keys and values.

use super::view::log_struct;
use crate::wire::{StructList, WireError};

log_struct! {
    /// Keys and values, as of `InitData.params`.
    ///
    /// Values of real drives hold keys, positions and serial numbers of people: they are not for printing.
    Map;
    /// What there is.
    entries: Result<StructList<'a, MapEntry<'a>>, WireError> = structs(0);
}

log_struct! {
    /// One key and its value.
    MapEntry;
    /// The key.
    key: Result<&'a str, WireError> = text(0);
    /// The value of `androidProperties`, with its zero byte, or that of `params` and `commands`.
    value: Result<&'a [u8], WireError> = data(1);
}
