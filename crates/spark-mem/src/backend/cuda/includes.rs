//! Whether a kernel's text is all of it: files that NVRTC would read from the machine are not.
//!
//! ```text
//! #include "known.cuh"     given with the kernel, so part of what tells its code from another
//! #include <cuda_fp16.h>   of the machine: may be another one tomorrow
//! #include NAME            whichever NAME is
//! ??=include …             trigraphs of older C++, wherever they stand
//! -I folder, -include …    files of the machine
//! ```
//!
//! Code of such a kernel is compiled in every process and kept in no folder, where it would be found
//! after the file has changed. Comments and branches that are not compiled are not told from others:
//! what they include counts.

use crate::backend::code::{ImageSource, WARP_HEADER_NAME};

/// What options of NVRTC have in them after which it reads files of the machine, besides `-I`: folders and
/// files to include, precompiled headers, files of options; and macros that paste a name together.
const READING_WORDS: [&str; 5] = ["include", "pch", "options-file", "optf", "##"];

/// Why the code of this image hangs on files of the machine, if it does.
pub(super) fn from_elsewhere(image: &ImageSource) -> Option<&'static str> {
    let reads = |option: &str| {
        // Also what looks for a file: `-DHAS=__has_include("a.h")`.
        let contains = |word: &&str| option.contains(word);
        option.trim_start().starts_with("-I") || READING_WORDS.iter().any(contains)
    };
    if image.options.iter().any(|option| reads(option)) {
        return Some("an option lets the compiler read files of this machine");
    }
    let is_given = |name: &str| {
        let mut given = image.headers.iter().map(|(given, _)| &**given);
        name == WARP_HEADER_NAME || given.any(|given| given == name)
    };
    let texts = image.headers.iter().map(|(_, text)| text);
    let has_other = |text: &str| {
        let whole_lines = text.replace("\\\r\n", "").replace("\\\n", "");
        let names_others = |text: &str| included(text).any(|name| !name.is_some_and(is_given));
        // Trigraphs of older C++ spell `#` and the end of a line otherwise; raw strings may hold what
        // only looks like a comment; conditions may paste `__has_include` together.
        let bare = without_comments(&whole_lines);
        let (pastes, asks) = (["##", "%:%:"], ["#if", "#elif", "%:"]);
        let may_ask = pastes.iter().any(|word| bare.contains(word))
            && asks.iter().any(|word| spells(&bare, word));
        text.contains("??")
            || text.contains("R\"")
            || may_ask
            || names_others(&whole_lines)
            || names_others(&bare)
    };
    if texts.chain([&image.source]).any(|text| has_other(text)) {
        return Some(
            "it includes files that are not given with it, or may: only a preprocessor could say",
        );
    }
    None
}

/// Whether a word stands in a text, with or without blanks behind its first character.
fn spells(text: &str, word: &str) -> bool {
    let (first, rest) = word.split_at(1);
    text.match_indices(first).any(|(at, _)| {
        text[at + 1..]
            .trim_start_matches([' ', '\t'])
            .starts_with(rest)
    })
}

/// A text with a blank for every comment, as the preprocessor has it: a directive may lie around one
/// that goes over several lines. Texts in quotes stay.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"', '\'']) {
        let (before, here) = rest.split_at(at);
        out.push_str(before);
        let len = match here.as_bytes() {
            [b'/', b'*', ..] => {
                out.push(' ');
                here[2..].find("*/").map_or(here.len(), |end| end + 4)
            }
            [b'/', b'/', ..] => here.find('\n').unwrap_or(here.len()),
            [quote @ (b'"' | b'\''), ..] => {
                let len = quoted(here, char::from(*quote));
                out.push_str(&here[..len]);
                len
            }
            _ => {
                out.push('/');
                1
            }
        };
        rest = &here[len..];
    }
    out + rest
}

/// Bytes of the literal that a text begins with; it ends with its quote, or with the line.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            '\n' => return at,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if character == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// What a text includes, at every place that may be a directive; `None` for what only the preprocessor could say.
fn included(text: &str) -> impl Iterator<Item = Option<&str>> {
    text.lines().flat_map(|line| {
        line.match_indices("include").filter_map(move |(at, word)| {
            let (before, after) = (&line[..at], &line[at + word.len()..]);
            if !before.contains(['#', '%']) {
                return None;
            }
            let is_plain = before.trim_start().starts_with('#') && before.trim().len() == 1;
            let name = match after.trim_start().as_bytes() {
                [b'"', ..] => after.split('"').nth(1),
                [b'<', ..] => after.split(['<', '>']).nth(1),
                _ => None,
            };
            Some(name.filter(|_| is_plain))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::code::Text;

    fn image(source: &str, options: &[&str]) -> ImageSource {
        let text = |text: &str| Text::Shared(text.into());
        ImageSource {
            file: text("a.cu"),
            source: text(source),
            headers: vec![(text("given.cuh"), text("// nothing"))],
            options: options.iter().map(|option| text(option)).collect(),
            precompiled: Vec::new(),
        }
    }

    #[test]
    fn what_is_given_is_the_kernels_own() {
        for source in [
            "__global__ void f() {}",
            "#include \"given.cuh\"\n # include <spark_warp.cuh> // why\n",
            "// what tiles include is one more\n#define N 2\n",
            "#define PAIR(a, b) a##b\n__global__ void PAIR(f, g)() { int a = 'x' / 2; /* \" */ }",
            "#if N > 2\n#elif defined(M) // #if\n#endif\n",
        ] {
            let image = image(source, &["-DTILE=64", "--fmad=false"]);
            assert_eq!(from_elsewhere(&image), None, "{source}");
        }
    }

    #[test]
    fn what_is_read_from_the_machine_is_seen() {
        for source in [
            "#include <cuda_fp16.h>",
            "  #  include \"other.cuh\"",
            "#include \"given.cuh\"\n#include \"other.cuh\"",
            "#include NAME",
            "#inc\\\nlude <other.cuh>",
            "%:include <other.cuh>",
            "/* one */ #include \"given.cuh\"",
            "#if __has_include(<other.cuh>)",
            "#include_next \"given.cuh\"",
            "/* include the factor */ #include \"other.cuh\"",
            "/* what it\n includes */ #include \"other.cuh\"",
            "??=include \"other.cuh\"",
            "#inc??/\nlude \"other.cuh\"",
            "#/*\n*/include \"other.cuh\"",
            "# /* a */ /* b\n */ include /*\n*/ \"other.cuh\"",
            "char quote = '\"'; /* \" */\n#/*\n*/include \"other.cuh\"",
            "const char* text = R\"(/*)\";\n#/*\n*/include \"other.cuh\"",
            "#define P(a,b) a##b\n# if P(__has_inc,lude)(\"other.cuh\")\n#endif",
        ] {
            assert!(from_elsewhere(&image(source, &[])).is_some(), "{source}");
        }
        for option in [
            "-Ifolder",
            "-I",
            "--include-path=folder",
            "--pre-include=x.h",
            " -Ifolder",
            "--ptxas-options=--options-file=F",
            "-Xptxas=-optf=F",
            "-use-pch=F",
            "--create-pch=F",
            "-DP(a,b)=a##b",
            "-DHAS=__has_include(\"other.cuh\")",
        ] {
            let image = image("__global__ void f() {}", &[option]);
            assert!(from_elsewhere(&image).is_some(), "{option}");
        }
        let mut image = image("#include \"given.cuh\"", &[]);
        image.headers[0].1 = Text::Shared("#include <other.cuh>".into());
        assert!(from_elsewhere(&image).is_some(), "through a header");
    }
}
