//! Comparing what a command prints with what a page says that it prints.
//!
//! ```text
//! page   …                          any lines
//!        linux … cores              any characters
//!        took 3.1 s                 where numbers vary: `took # s`, and any blanks
//! ```

/// Whether `printed` is what `page` says, line by line.
pub(super) fn matches(page: &str, printed: &str, numbers_vary: bool) -> bool {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.trim_end().lines().map(str::trim_end);
        match numbers_vary {
            true => lines.map(without_numbers).collect(),
            false => lines.map(str::to_owned).collect(),
        }
    };
    lines_match(&lines(page), &lines(printed))
}

/// Numbers as `#`, but for those in names (`p95`, `fp16`, `x86_64`); blanks, which numbers push about, as one.
fn without_numbers(line: &str) -> String {
    let mut plain = String::new();
    let mut is_name = false;
    let mut before = ' ';
    for c in line.chars() {
        let joins = |c: char| c.is_alphanumeric() || c == '_';
        if !joins(before) {
            is_name = c.is_alphabetic();
        }
        before = c;
        let previous = plain.chars().next_back().unwrap_or(' ');
        let shown = match c {
            '0'..='9' if !is_name => '#',
            '.' | ',' if previous == '#' => '#',
            c if c.is_whitespace() => ' ',
            c => c,
        };
        if !(shown == previous && (shown == '#' || shown == ' ')) {
            plain.push(shown);
        }
    }
    plain.trim_end().to_owned()
}

fn lines_match(page: &[String], printed: &[String]) -> bool {
    match page.split_first() {
        None => printed.is_empty(),
        Some((any, rest)) if any.trim() == "…" => {
            (0..=printed.len()).any(|n_skipped| lines_match(rest, &printed[n_skipped..]))
        }
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| line_matches(line, first) && lines_match(rest, others)),
    }
}

/// `…` in `page` stands for any characters.
fn line_matches(page: &str, printed: &str) -> bool {
    let mut parts = page.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in between {
        match rest.find(part) {
            Some(start) => rest = &rest[start + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_matches_and_another_does_not() {
        assert!(matches("a 1\nb\n", "a 1\nb\n", false));
        assert!(!matches("a 1\nb\n", "a 2\nb\n", false));
        assert!(!matches("a\n", "a\nb\n", false));
        assert!(!matches("a\nb\n", "a\n", false));
    }

    #[test]
    fn numbers_may_vary_and_words_may_not() {
        let page = "p50   3.18 ms,  20 runs\n";
        assert!(matches(page, "p50  12.4 ms, 200 runs\n", true));
        assert!(!matches(page, "p95  12.4 ms, 200 runs \n", true));
        assert!(!matches(page, "p50  12.4 us, 200 runs\n", true));
        assert!(!matches(page, "p50  n/a ms, 200 runs\n", true));
    }

    #[test]
    fn an_ellipsis_stands_for_lines_or_characters() {
        assert!(matches("a\n…\nz\n", "a\nb\nc\nz\n", false));
        assert!(matches("a\n…\nz\n", "a\nz\n", false));
        assert!(!matches("a\n…\nz\n", "a\nb\n", false));
        assert!(matches("linux … cores\n", "linux x86_64, 2 cores\n", false));
        assert!(!matches("linux … cores\n", "linux x86_64, 2 core\n", false));
        assert!(matches("a … b … c", "a 1 b 2 c", false));
    }
}
