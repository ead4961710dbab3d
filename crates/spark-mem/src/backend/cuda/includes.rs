//! Whether a kernel's text is all of it: files that NVRTC would read from the machine are not.
//!
//! ```text
//! #include "known.cuh"     given with the kernel, so part of what tells its code from another
//! #include <cuda_fp16.h>   of the machine: may be another one tomorrow
//! #include NAME            whichever NAME is
//! #/* a comment            some directive: only a preprocessor could say which
//! -I folder, -include …    files of the machine, as is what an option that is not known may read
//! ```
//!
//! Code of such a kernel is compiled in every process and kept in no folder, where it would be found
//! after the file has changed.
//!
//! A directive is a `#` and its word with nothing but blanks and comments in between, and that is
//! looked for wherever it stands, in comments, literals and branches that are not compiled too. So where
//! those begin and end, which hangs on the C++ it is (raw strings, separators of digits, trigraphs), is
//! never asked. The ways to spell a `#` and to continue a line are read as such in any C++.

use crate::backend::code::{ImageSource, Text, WARP_HEADER_NAME};

/// Options of NVRTC, without their dashes and values, that read no file. Of any other one nobody knows.
const HARMLESS_OPTIONS: &str = "D define-macro U undefine-macro std w disable-warnings diag-error diag-suppress \
    diag-warn display-error-number err-no no-display-error-number no-err-no brief-diagnostics brief-diag \
    G device-debug lineinfo generate-line-info dopt Ofast-compile maxrregcount ftz prec-sqrt prec-div fmad \
    use_fast_math extra-device-vectorization restrict default-device device-as-default-execution-space \
    device-int128 builtin-move-forward builtin-initializer-list modify-stack-limit split-compile \
    optimization-info opt-info minimal";
/// Those whose values are options of the assembler.
const OF_ASSEMBLER: &str = "ptxas-options Xptxas";
/// Options of the assembler that read no file, as above.
const HARMLESS_TO_ASSEMBLER: &str = "v verbose w disable-warnings O0 O1 O2 O3 O opt-level dlcm def-load-cache dscm \
    def-store-cache fmad maxrregcount warn-spills warn-on-spills warn-lmem-usage \
    warn-on-local-memory-usage allow-expensive-optimizations";
/// What macros may not hold: what asks for a file, or may paste together what does.
const READING_WORDS: [&str; 7] = ["has_include", "has_embed", "#", "%:", "??", "\\", "\n"];

/// Why the code of this image hangs on files of the machine, if it does.
pub(super) fn from_elsewhere(image: &ImageSource) -> Option<&'static str> {
    if !are_harmless(&image.options) {
        return Some("an option may let the compiler read files of this machine");
    }
    let is_given = |name: &str| {
        let mut given = image.headers.iter().map(|(given, _)| &**given);
        name == WARP_HEADER_NAME || given.any(|given| given == name)
    };
    let mut texts = image.headers.iter().map(|(_, text)| text);
    let has_other = |text: &str| may_read_others(&in_plain_characters(text), is_given);
    if texts.any(|text| has_other(text)) || has_other(&image.source) {
        return Some(
            "it includes files that are not given with it, or may: only a preprocessor could say",
        );
    }
    None
}

/// Whether options let no file be read.
fn are_harmless(options: &[Text]) -> bool {
    let mut is_for_assembler = false;
    options.iter().all(|option| {
        let option = option.trim();
        if std::mem::take(&mut is_for_assembler) {
            return is_harmless_to_assembler(option);
        }
        is_for_assembler = name_and_value(option)
            .is_some_and(|(name, value)| is_one_of(OF_ASSEMBLER, name) && value.is_none());
        is_harmless(option)
    })
}

fn is_harmless(option: &str) -> bool {
    if READING_WORDS.iter().any(|word| option.contains(word)) {
        return false;
    }
    let Some((name, value)) = name_and_value(option) else {
        // The compiler takes it as the value of the option before it, which says that it wants one.
        return !option.starts_with('@');
    };
    if is_one_of(OF_ASSEMBLER, name) {
        return value.is_none_or(is_harmless_to_assembler);
    }
    // Their names follow the letter.
    let is_macro = option.starts_with("-D") || option.starts_with("-U");
    is_macro || is_one_of(HARMLESS_OPTIONS, name)
}

/// As above; what is no option is a file to the assembler.
fn is_harmless_to_assembler(option: &str) -> bool {
    name_and_value(option).is_some_and(|(name, _)| is_one_of(HARMLESS_TO_ASSEMBLER, name))
}

/// An option without its dashes; `None` for a value that stands alone.
fn name_and_value(option: &str) -> Option<(&str, Option<&str>)> {
    let bare = option.strip_prefix("--").or(option.strip_prefix('-'))?;
    Some(match bare.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (bare, None),
    })
}

fn is_one_of(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|known| known == name)
}

/// A text with `#` for all that spells it (`%:`, and `??=` of older C++), and every line whole that a
/// backslash (or `??/`) goes on in the next one. What C++ of the kernel's year does not read so has
/// one more `#`, and no fewer.
fn in_plain_characters(text: &str) -> String {
    let text = text.replace("??=", "#").replace("??/", "\\");
    let mut whole = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        // Some compilers go on behind blanks at the end of a line, too.
        match line.trim_end().strip_suffix('\\') {
            Some(continued) if line.ends_with('\n') => whole.push_str(continued),
            _ => whole.push_str(line),
        }
    }
    whole.replace("%:", "#")
}

/// Whether a text in plain characters may read a file that is not given.
fn may_read_others(text: &str, is_given: impl Fn(&str) -> bool) -> bool {
    let may_read = |(word, behind): (&str, &str)| match word {
        "include" => !included(behind).is_some_and(&is_given),
        "include_next" | "import" | "embed" => true,
        _ => false,
    };
    let asks_for_files = ["has_include", "has_embed"];
    directives(text).any(may_read)
        || has_hidden_directive(text)
        || asks_for_files.iter().any(|word| text.contains(word))
        || (may_paste(text) && directives(text).any(|(word, _)| matches!(word, "if" | "elif")))
}

/// What begins on the same line behind every `#`.
fn behind_hashes(text: &str) -> impl Iterator<Item = &str> {
    let is_blank = |character: char| character.is_whitespace() && character != '\n';
    let hashes = text.match_indices('#');
    hashes.map(move |(at, _)| text[at + 1..].trim_start_matches(is_blank))
}

/// The words of all that may be directives, each with the text behind it.
fn directives(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let goes_on = |character: char| character.is_ascii_alphanumeric() || character == '_';
    behind_hashes(text).map(move |rest| {
        let len = rest.find(|character| !goes_on(character));
        rest.split_at(len.unwrap_or(rest.len()))
    })
}

/// Whether a comment stands where the word of a directive may come behind it.
fn has_hidden_directive(text: &str) -> bool {
    behind_hashes(text).any(|rest| rest.starts_with("/*"))
}

/// The name behind `include`; `None` if only a preprocessor could say, or if it has characters that may
/// stand for others.
fn included(behind: &str) -> Option<&str> {
    let line = behind.lines().next()?.trim_start();
    let (end, rest) = match line.as_bytes() {
        [b'"', ..] => ('"', &line[1..]),
        [b'<', ..] => ('>', &line[1..]),
        _ => return None,
    };
    let (name, _) = rest.split_once(end)?;
    Some(name).filter(|name| !name.contains(['#', '\\']))
}

/// Whether a macro may paste a name together: `##` in a line that defines one, or in one where a comment
/// or a literal may end that began in such a line. Rules and headings of comments are none.
fn may_paste(text: &str) -> bool {
    text.lines().any(|line| {
        line.match_indices("##").any(|(at, _)| {
            let before = &line[..at];
            let beginnings = ["define", "*/", "\""];
            beginnings.iter().any(|word| before.contains(word))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "/* one */ #include \"given.cuh\" // #include <given.cuh>",
            "// what tiles include is one more\n#define N 2\n",
            "#define N 4 // tiles that include padding",
            "// 5 % of the tiles include padding",
            "// which half?? the first",
            "void f(int* o) { if (!o) printf(\"ERROR\"); else *o = 1'000'000; }",
            "const char* text = R\"(/*)\" \"#\";",
            "// ## Tiles ##\n/* #### */\n#if N > 2\n#endif\n",
            "#ifndef N\n#define N(a) a##1\n#endif\n",
            "#define PAIR(a, b) a##b\n__global__ void PAIR(f, g)() { int a = 'x' / 2; /* \" */ }",
            "#if N > 2\n#elif defined(M) // #if\n#endif\n",
        ] {
            let image = image(source, &["-DTILE=64", "--fmad=false"]);
            assert_eq!(from_elsewhere(&image), None, "{source}");
        }
        for options in [
            &[
                "-D",
                "TILE=64",
                "-UN",
                "--define-macro=A=unsigned int",
                "-w",
            ][..],
            &[
                "--ptxas-options=-v",
                "-Xptxas",
                "--opt-level=1",
                "-Xptxas=-dlcm=cg",
            ],
            &[
                "-std=c++20",
                "--maxrregcount",
                "64",
                "-use_fast_math",
                "-lineinfo",
            ],
            &["--diag-suppress=177", "--split-compile=2", "--restrict"],
        ] {
            let image = image("__global__ void f() {}", options);
            assert_eq!(from_elsewhere(&image), None, "{options:?}");
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
            "#define P(a,b) a%:%:b\n#if P(__has_inc,lude)(\"other.cuh\")\n#endif",
            "#define P(a,b) a /*\n*/ ??=??= b\n??=elif P(__has_inc,lude)(\"other.cuh\")",
            "#define P(a,b) R\"(\n)\" a##b\n#if P(__has_inc,lude)(\"other.cuh\")\n#endif",
            "int a = 1'0; const char* s = \"'/*\";\n#/*\n*/include \"other.cuh\"",
            "int a = 1'0; // '\n#include \"other.cuh\" // '",
            "const char* s = \"R\"; /* \" */\n%:/*\n*/ include \"other.cuh\"",
            "#\\ \ninclude \"other.cuh\"",
            "#\u{b}include\t\"other.cuh\"",
            "#include/**/\"given.cuh\"",
            "#include \"given.cuh",
            "#import \"other.cuh\"",
            "const char data[] = {\n#embed \"data\"\n};",
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
            "--ptxas-options=--apply-controls=F",
            "--ptxas-options=-v,--apply-controls=F",
            "-Xptxas=\"-v --apply-controls F\"",
            "--apply-controls=F",
            "-Xptxas=@F",
            "-Xptxas=F.ptx",
            "@F",
            "--time=F",
            "--an-option-of-tomorrow=F",
            "-DP(a,b)=a##b",
            "-DP(a,b)=a%:%:b",
            "-DP(a,b)=a#\\\n#b",
            "-DHAS=__has_include(\"other.cuh\")",
        ] {
            let image = image("__global__ void f() {}", &[option]);
            assert!(from_elsewhere(&image).is_some(), "{option}");
        }
        let behind = image("__global__ void f() {}", &["-Xptxas", "F.ptx"]);
        assert!(
            from_elsewhere(&behind).is_some(),
            "a file for the assembler"
        );
        let mut image = image("#include \"given.cuh\"", &[]);
        image.headers[0].1 = Text::Shared("#include <other.cuh>".into());
        assert!(from_elsewhere(&image).is_some(), "through a header");
    }
}
