//! Text of strangers as it may stand on a terminal.

/// `text` with control characters, line breaks and tabs apart, in the form `\u{1b}`: the name of a
/// tensor or a file may hold sequences that a terminal obeys.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && !matches!(character, '\n' | '\t') {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_and_all_else_is_kept() {
        assert_eq!(
            printable("\u{1b}[31mred\r\u{9b}0m"),
            "\\u{1b}[31mred\\u{d}\\u{9b}0m"
        );
        let plain = "a\tb\nßµ 12 \\ {}";
        assert_eq!(printable(plain), plain);
    }
}
