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

/// Options of NVRTC after which it reads files of the machine, besides those with `include` in them.
const READING_OPTIONS: [&str; 4] = ["-I", "--use-pch", "--pch", "-pch"];

/// Why the code of this image hangs on files of the machine, if it does.
pub(super) fn from_elsewhere(image: &ImageSource) -> Option<&'static str> {
    let reads = |option: &str| {
        let begins = |reads: &&str| option.trim_start().starts_with(reads);
        // `--include-path`, `--pre-include`, and what looks for a file: `-DHAS=__has_include("a.h")`.
        let contains = |word: &&str| option.contains(word);
        ["include", "options-file", "optf"].iter().any(contains)
            || READING_OPTIONS.iter().any(begins)
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
        // Trigraphs of older C++ spell `#` and the end of a line otherwise.
        text.contains("??") || included(&whole_lines).any(|name| !name.is_some_and(is_given))
    };
    if texts.chain([&image.source]).any(|text| has_other(text)) {
        return Some(
            "it includes files that are not given with it, or may: only a preprocessor could say",
        );
    }
    None
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
