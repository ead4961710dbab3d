//! Takes identifiers of this machine out of quoted text.

use crate::reading::quote;

/// A shortened quotation without anything that looks like an identifier of this machine.
pub(super) fn redacted(text: &str) -> String {
    let words: Vec<&str> = text
        .split_inclusive(|c: char| c.is_whitespace() || c == ',')
        .collect();
    let shown: String = words
        .into_iter()
        .map(|word| {
            let bare = word.trim_end_matches(|c: char| c.is_whitespace() || c == ',');
            let upper = bare.to_ascii_uppercase();
            let is_marked = ["GPU-", "MIG-", "UUID", "SERIAL"]
                .iter()
                .any(|mark| upper.contains(mark));
            if is_marked || is_uuid(bare) {
                "[removed] "
            } else {
                word
            }
        })
        .collect();
    quote(shown.trim())
}

/// Whether a word holds 8-4-4-4-12 hexadecimal digits.
pub(super) fn is_uuid(word: &str) -> bool {
    let plain = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let groups: Vec<&str> = plain.split('-').collect();
    let lengths = [8, 4, 4, 4, 12];
    groups.len() == 5
        && groups.iter().zip(lengths).all(|(group, length)| {
            group.len() == length && group.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
}
