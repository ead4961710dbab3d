//! Text inside HTML and SVG.
//!
//! Deliberately absent: other encodings of a document than UTF-8, and text inside scripts and styles.

/// `text` as it may stand between tags and inside a quoted attribute.
///
/// The five characters that mean something there become entities. What XML 1.0 cannot hold at all
/// (control characters, U+FFFE, U+FFFF) becomes a space, and so do line breaks and tabs: a label is
/// one line.
///
/// ```
/// assert_eq!(spark_drawing::markup::escape("a<b> & 'c'\n"), "a&lt;b&gt; &amp; &#39;c&#39; ");
/// ```
///
/// # Source
///
/// XML 1.0 (fifth edition), sections 2.2 (characters) and 2.4 (markup).
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => safe.push(' '),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn no_character_that_means_something_is_left() {
        let all: String = (0..=0x1_ffff).filter_map(char::from_u32).collect();
        let safe = escape(&all);
        assert!(!safe.contains(['<', '>', '"', '\'', '\n', '\0', '\u{85}', '\u{ffff}']));
        let entities = ["amp;", "lt;", "gt;", "quot;", "#39;"];
        for rest in safe.split('&').skip(1) {
            assert!(entities.iter().any(|entity| rest.starts_with(entity)));
        }
    }

    #[test]
    fn other_text_is_left_alone() {
        let plain = "curvature (1/km), m/s² · × “ü” 漢 😀";
        assert_eq!(escape(plain), plain);
    }
}
