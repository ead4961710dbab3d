//! Text inside Markdown.
//!
//! Deliberately absent: links to `@names` and bare addresses, which no escape keeps a viewer from making.

/// `text` as it may stand in a cell of a table, in a heading or behind the mark of a list's item:
/// one line that shows these characters and has no other effect.
///
/// Whatever begins a construct inside a line has a backslash in front (pipes, backticks, stars,
/// brackets, `<`, `&`, `~`, `#`, backslashes; an underscore unless it is inside a word). So does a
/// mark at the beginning that would make the line a heading, a list or a rule. Line breaks and
/// other control characters become spaces.
///
/// ```
/// use spark_drawing::markdown::cell;
/// assert_eq!(cell("cut in | `fast`\n2"), "cut in \\| \\`fast\\` 2");
/// assert_eq!(cell("lateral_error_rmse"), "lateral_error_rmse");
/// assert_eq!(cell("-20.65 %"), "-20.65 %");
/// ```
///
/// # Source
///
/// GitHub Flavored Markdown 0.29: 2.4 (backslash escapes), 4.10 (tables: a backslash in front of a
/// backslash hides it from the pipe that follows, so both are escaped), 6.4 (underscores).
pub fn cell(text: &str) -> String {
    let line: String = text
        .chars()
        .map(|c| match c {
            '\u{2028}' | '\u{2029}' => ' ',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect();
    let line = line.trim();
    let mut safe = String::with_capacity(line.len());
    let mut before = ' ';
    let mut rest = line.chars().peekable();
    // Digits so far, if there is nothing else: with a dot or bracket they begin a list.
    let mut is_number = true;
    while let Some(c) = rest.next() {
        let is_escaped = match c {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '#' => true,
            '_' => !(before.is_alphanumeric() && rest.peek().is_some_and(|c| c.is_alphanumeric())),
            // The sign of a number begins no list.
            '-' | '+' | '=' => safe.is_empty() && rest.peek().is_none_or(|c| !c.is_ascii_digit()),
            '.' | ')' => {
                is_number && !safe.is_empty() && rest.peek().is_none_or(|c| c.is_whitespace())
            }
            _ => false,
        };
        if is_escaped {
            safe.push('\\');
        }
        is_number &= c.is_ascii_digit();
        safe.push(c);
        before = c;
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::cell;

    /// Cells of a row as GitHub's scanner cuts them: a backslash takes the character behind it along.
    fn cells(row: &str) -> Vec<String> {
        let mut cells = vec![String::new()];
        let mut characters = row.chars();
        while let Some(c) = characters.next() {
            match c {
                '\\' => cells.last_mut().expect("one").extend(characters.next()),
                '|' => cells.push(String::new()),
                c => cells.last_mut().expect("one").push(c),
            }
        }
        cells
    }

    #[test]
    fn a_name_stays_in_its_cell_and_reads_as_it_is() {
        for name in [
            "a|b",
            "a\\|b",
            "a\\\\|",
            "ends with \\",
            "`code` | ``",
            "one ` tick",
            "**bold** _slanted_ ~~gone~~",
            "<img src=x onerror=alert(1)>",
            "[text](http://example.org) ![picture](x)",
            "&lt; &amp;",
            "# 12",
            "- 1",
            "1. first",
            "2) second",
            "1.5",
            "12.",
            "==",
        ] {
            let row = format!("{} | {}", cell(name), cell(name));
            let got: Vec<String> = cells(&row).iter().map(|c| c.trim().to_owned()).collect();
            assert_eq!(got, [name, name], "{row}");
        }
    }

    #[test]
    fn a_name_is_one_line() {
        assert_eq!(cell("a\nb\r\nc\td\u{2028}e\0"), "a b  c d e");
    }

    #[test]
    fn marks_that_begin_something_are_escaped() {
        assert_eq!(cell("`a`"), "\\`a\\`");
        assert_eq!(cell("<b>"), "\\<b\\>");
        assert_eq!(cell("# a"), "\\# a");
        assert_eq!(cell("- a-b"), "\\- a-b");
        assert_eq!(cell("12. a. b"), "12\\. a. b");
        assert_eq!(cell("_a_ b_c __d"), "\\_a\\_ b_c \\_\\_d");
    }

    #[test]
    fn other_text_is_left_alone() {
        assert_eq!(cell("1.5 ms"), "1.5 ms");
        let plain = "fuzz 4 2: gap 3.5 m, (seed 7), +1 − ≤ 2 %";
        assert_eq!(cell(plain), plain);
    }
}
