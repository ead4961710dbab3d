//! Which pattern decides, and what plain and compiled ones match.

use super::*;

fn of(patterns: &[(&str, usize)]) -> Patterns<usize> {
    let mut all = Patterns::default();
    for (pattern, value) in patterns {
        all.insert(*pattern, *value);
    }
    all
}

#[test]
fn the_first_pattern_of_the_file_decides_not_the_longest() {
    let text = r#"{"proj": 1, "a.proj": 2, "layers.1": 3, "layers.11": 4, "proj": 5}"#;
    let patterns: Patterns<usize> = serde_json::from_str(text).unwrap();
    for (name, want) in [
        ("a.proj", Some(5)),
        ("proj", Some(5)),
        ("out_proj", None),
        ("layers.1", Some(3)),
        ("x.layers.11", Some(4)),
        ("layersX1", Some(3)),
        ("layers.1.fc", None),
    ] {
        assert_eq!(patterns.find(name).unwrap().copied(), want, "{name}");
    }
    let again = serde_json::to_string(&patterns).unwrap();
    let want = r#"{"proj":5,"a.proj":2,"layers.1":3,"layers.11":4}"#;
    assert_eq!(
        again, want,
        "a key given twice keeps its place and has its last value, as in Python"
    );
}

#[test]
fn a_name_that_is_no_pattern_of_itself_is_found_as_a_key() {
    let patterns = of(&[("fc{2}", 3), (r"fc\{2\}x", 4)]);
    assert_eq!(patterns.find("fc{2}").unwrap(), Some(&3));
    assert_eq!(patterns.find("a.fc{2}").unwrap(), None);
    assert_eq!(patterns.find("a.fc{2}x").unwrap(), Some(&4));
}

#[test]
fn plain_and_compiled_patterns_agree() {
    for pattern in ["fc", "a.fc", ".", "a.", ".fc", "é.", "a-b", ""] {
        for name in [
            "fc", "a.fc", "xafc", "b.a.fc", "a", "é1", "x.é1", "a-b", "x.a-b", "", "b.",
        ] {
            let regex = PythonRegex::at_start(&format!("(.*\\.)?({pattern})$")).unwrap();
            let want = regex.is_match(name).unwrap();
            assert_eq!(ends_in(pattern, name).unwrap(), want, "{pattern} on {name}");
        }
    }
}
