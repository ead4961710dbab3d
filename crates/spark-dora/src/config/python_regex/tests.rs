//! What Python's own `re` answers, and what is refused.

use super::*;

/// Names the table below is about.
const NAMES: [&str; 20] = [
    "fc",
    "a.fc",
    "a.fc2",
    "layers.1.fc",
    "layers.11.fc",
    "layers.1.fc.proj",
    "out_proj",
    "a.out_proj",
    "proj",
    "q-proj",
    "a.b.c",
    "x[0].fc",
    "fc{2}",
    "A.FC",
    "a_1.b",
    "fc\u{e9}",
    "",
    "a.fc+1",
    "aa",
    "aaa",
];

/// Patterns with the answers of CPython 3.11 for each name, as digits: of
/// `re.match(rf"(.*\.)?({pattern})$", name)` and of `re.fullmatch(pattern, name)`.
const ANSWERS: &[(&str, &str, &str)] = &[
    (r"fc", "11011000000100000000", "10000000000000000000"),
    (
        r"layers.1.fc",
        "00010000000000000000",
        "00010000000000000000",
    ),
    (
        r"layers\.1\.fc",
        "00010000000000000000",
        "00010000000000000000",
    ),
    (
        r"layers\.\d+\.fc",
        "00011000000000000000",
        "00011000000000000000",
    ),
    (
        r"layers\.(1|11)\.fc",
        "00011000000000000000",
        "00011000000000000000",
    ),
    (r".*proj", "00000111110000000000", "00000111110000000000"),
    (
        r"(q|out)[-_]proj",
        "00000011010000000000",
        "00000010010000000000",
    ),
    (r"^fc", "10000000000000000000", "10000000000000000000"),
    (r"^a\.fc", "01000000000000000000", "01000000000000000000"),
    (r"fc|proj", "11011100100100000000", "10000000100000000000"),
    (r"fc\d?", "11111000000100000000", "10000000000000000000"),
    (r"[^.]+", "11111111111111110111", "10000010110010010011"),
    (
        r"a\.[a-z]+\d*",
        "01100000000000000000",
        "01100000000000000000",
    ),
    (
        r"x\[0\]\.fc",
        "00000000000100000000",
        "00000000000100000000",
    ),
    (
        r"[x][[]0[]]\.fc",
        "00000000000100000000",
        "00000000000100000000",
    ),
    (r"fc{2}", "00000000000000000000", "00000000000000000000"),
    (r"fc\{2\}", "00000000000010000000", "00000000000010000000"),
    (r"fc{,1}", "11011000000100000000", "10000000000000000000"),
    (
        r"f{1}c{1,2}?",
        "11011000000100000000",
        "10000000000000000000",
    ),
    (
        r"(?:a\.)?fc",
        "11011000000100000000",
        "11000000000000000000",
    ),
    (
        r"(?P<l>layers)\.1.*",
        "00011100000000000000",
        "00011100000000000000",
    ),
    (r"\w+\.fc", "01011000000000000000", "01000000000000000000"),
    (r"[\w.]+", "11111111101101110011", "11111111101001110011"),
    (
        r"[a-c&&]b?\.?.*",
        "01100001001000100111",
        "01100001001000100111",
    ),
    (r"a{2,3}", "00000000000000000011", "00000000000000000011"),
    (r"a*?", "00000000000000001011", "00000000000000001011"),
    (r"\x66c", "11011000000100000000", "10000000000000000000"),
    (r"\u0066c", "11011000000100000000", "10000000000000000000"),
    (r"fc\b", "11011000000100000000", "10000000000000000000"),
    (r"\Bc", "00000000000000000000", "00000000000000000000"),
    (r"a.fc\Z", "01000000000000000000", "01000000000000000000"),
    (r"[]a]+", "00000000000000000011", "00000000000000000011"),
    (r"[a-]+", "00000000000000000011", "00000000000000000011"),
    (r"[\]a]+", "00000000000000000011", "00000000000000000011"),
    (r"a)|(b", "01100001001000100111", "error"),
    (r"fc$", "11011000000100000000", "10000000000000000000"),
    (r"a\.fc\+1", "00000000000000000100", "00000000000000000100"),
    (r"", "00000000000000001000", "00000000000000001000"),
    (r"fc\.", "00000000000000000000", "00000000000000000000"),
    (r"[A-Z]\.FC", "00000000000001000000", "00000000000001000000"),
    (r"}", "00000000000000000000", "00000000000000000000"),
    (r"a_[0-9].b", "00000000000000100000", "00000000000000100000"),
    (r"{", "00000000000000000000", "00000000000000000000"),
    (r"fc{2,1,}", "00000000000000000000", "00000000000000000000"),
];

#[track_caller]
fn check(pattern: &str, regex: Result<PythonRegex, Reason>, want: &str) {
    if want == "error" {
        assert!(regex.is_err(), "{pattern}");
        return;
    }
    let regex = regex.unwrap_or_else(|reason| panic!("{pattern}: {reason}"));
    for (name, want) in NAMES.iter().zip(want.chars()) {
        match regex.is_match(name) {
            Ok(got) => assert_eq!(got, want == '1', "{pattern} on {name}"),
            Err(reason) => assert!(
                reason == NOT_ASCII && !name.is_ascii(),
                "{pattern} on {name}"
            ),
        }
    }
}

#[test]
fn patterns_match_what_python_matches() {
    for (pattern, at_end, whole) in ANSWERS {
        check(
            pattern,
            PythonRegex::at_start(&format!("(.*\\.)?({pattern})$")),
            at_end,
        );
        check(pattern, PythonRegex::whole(pattern), whole);
    }
}

#[test]
fn what_needs_backtracking_or_is_no_pattern_is_refused_with_the_reason() {
    for (pattern, want) in [
        ("(?=fc)fc", LOOK_AROUND),
        ("(?!fc).*", LOOK_AROUND),
        ("(?<=a)fc", LOOK_AROUND),
        ("(?<!a)fc", LOOK_AROUND),
        (r"(a)\1", BACK_REFERENCE),
        ("(?P<x>a)(?P=x)", BACK_REFERENCE),
        ("(?i)fc", GROUP),
        ("(?>a)", GROUP),
        ("(a)?(?(1)b|c)", GROUP),
        ("a++", "it repeats possessively, which is not supported"),
        ("a**", NESTED),
        ("*a", NESTED),
        ("^*a", NESTED),
        (r"\b{2}", NESTED),
        (r"\qa", ESCAPE),
        (r"\0", ESCAPE),
        (r"[\b]", ESCAPE),
        ("[a", UNENDED),
        ("a\\", UNENDED),
        ("[z-a]", RANGE),
        (r"[\w-a]", RANGE),
        ("(a", MALFORMED),
        ("a{9999999999}", MALFORMED),
    ] {
        assert_eq!(PythonRegex::whole(pattern).err(), Some(want), "{pattern}");
    }
}

#[test]
fn an_escaped_name_matches_itself_alone() {
    for name in [
        "a.b",
        "fc{2}",
        "x[0].(y)|z",
        "a+b*c?",
        r"back\slash",
        "^$",
        "a-b &~#",
    ] {
        let regex = PythonRegex::whole(&escape(name)).unwrap();
        assert_eq!(regex.is_match(name), Ok(true), "{name}");
        assert_eq!(
            regex.is_match(&name.replace('.', "x")),
            Ok(!name.contains('.')),
            "{name}"
        );
    }
}
