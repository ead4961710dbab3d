//! The table of this program, versions that fall under rows, and tables that are refused.

use super::*;

fn of(version: &str) -> Seen<'_> {
    Seen {
        version,
        ..Seen::default()
    }
}

#[test]
fn the_table_of_this_program_is_in_order() {
    let table = Table::parse(BUILT_IN, false).expect("valid");
    assert!(table.has(Part::Kernel) && table.has(Part::Bios));
    for row in &table.rows {
        assert!(row.date.starts_with("202"), "{row:?}");
    }
}

#[test]
fn versions_fall_under_rows_by_their_numbers() {
    let table = Table::parse(BUILT_IN, false).expect("valid");
    let is_bad = |part, seen| table.worst(part, seen).is_some();
    assert!(is_bad(Part::Kernel, of("6.17.0-1008-nvidia")));
    assert!(!is_bad(Part::Kernel, of("6.17.0-1009-nvidia")));
    assert!(is_bad(Part::Kernel, of("7.0.0-1019-nvidia")));
    assert!(!is_bad(Part::Kernel, of("7.0.0-10190-nvidia")));
    let mut without = of("7.0.0-1019-nvidia");
    without.cmdline = "quiet kho=off";
    assert!(!is_bad(Part::Kernel, without));
    without.cmdline = "quiet kho=offer";
    assert!(is_bad(Part::Kernel, without));
    for (version, bad) in [
        ("28.39.2701", true),
        ("28.9.9999", true),
        ("28.39.2702", false),
        ("28.45.4028", false),
        ("22.1.1", false),
        ("", false),
        ("unknown", false),
    ] {
        assert_eq!(is_bad(Part::ConnectX, of(version)), bad, "{version}");
    }
    let asus = |dated| Seen {
        version: "GX10DGX.0101",
        vendor: "ASUSTeK COMPUTER INC.",
        dated,
        cmdline: "",
    };
    assert!(is_bad(Part::Bios, asus(Some("2026-03-31"))));
    assert!(!is_bad(Part::Bios, asus(Some("2026-04-01"))));
    assert!(!is_bad(Part::Bios, asus(None)));
}

#[test]
fn rows_speak_of_versions_that_are_named_alike() {
    let table = Table::parse(BUILT_IN, false).expect("valid");
    for (version, spoken) in [
        ("6.17.0-1008-nvidia", true),
        ("6.17.0-1014-nvidia", true),
        ("6.17.0-1014-nvidia-64k", true),
        ("6.17.0-14-generic", false),
        ("6.17.1-1014-nvidia", false),
        ("7.0.0-1020-nvidia", true),
        ("7.0.0-14-generic", true),
        ("6.14.0-1013-nvidia", false),
        ("7.0.0", false),
        ("6.18.3", false),
        ("", false),
        ("nvidia", false),
    ] {
        let is_spoken = table.speaks_of(Part::Kernel, of(version));
        assert_eq!(is_spoken, spoken, "{version}");
    }
    let firmware = |version, vendor| Seen {
        version,
        vendor,
        ..Seen::default()
    };
    // The row is of NVIDIA's own machines, and of all that are named like it; numbers count, not letters.
    for (version, spoken, bad) in [
        ("5.36_0ACUM018", true, true),
        ("5.36_0ACUM9", true, true),
        ("5.35_0ACUM027", true, true),
        ("5.36_0ACUM023", true, false),
        ("5.36_0ACUM099999999999999999999", true, false),
        ("5.37_1ACUM001", true, false),
        ("5.36_1.1.1", false, false),
        ("S0QKTOAA", false, false),
        ("", false, false),
    ] {
        let seen = firmware(version, "NVIDIA");
        let is_spoken = table.speaks_of(Part::Bios, seen);
        assert_eq!(is_spoken, spoken, "{version}");
        assert_eq!(table.worst(Part::Bios, seen).is_some(), bad, "{version}");
        assert!(!table.speaks_of(Part::Bios, firmware(version, "GIGABYTE")));
    }
    assert!(table.needs_date(Part::Bios, firmware("x", "ASUSTeK COMPUTER INC.")));
    assert!(!table.needs_date(Part::Bios, firmware("x", "NVIDIA")));
}

#[test]
fn tables_that_say_too_little_or_nonsense_are_refused() {
    let with = |row: &str| {
        let text = format!(
            "{{\"schema\": \"spark-known-bad/1\", \"updated\": \"2026-01-01\", \"rows\": [{row}]}}"
        );
        Table::parse(&text, true)
    };
    let rest = "\"severity\": \"note\", \"does\": \"x\", \"fix\": \"x\", \"source\": \"x\", \"date\": \"x\"";
    assert!(
        with(&format!(
            "{{\"part\": \"driver\", \"from\": \"580\", {rest}}}"
        ))
        .is_ok()
    );
    for (row, member) in [
        (format!("{{\"part\": \"driver\", {rest}}}"), "begins"),
        (
            format!("{{\"part\": \"fan\", \"from\": \"1\", {rest}}}"),
            "part",
        ),
        (
            format!("{{\"part\": \"ec\", \"from\": \"x\", {rest}}}"),
            "from",
        ),
        (format!("{{\"part\": \"ec\", \"from\": 1, {rest}}}"), "from"),
        (
            format!("{{\"part\": \"bios\", \"dated_before\": \"May\", {rest}}}"),
            "dated_before",
        ),
        (
            format!("{{\"part\": \"ec\", \"begins\": \"a\\nb\", {rest}}}"),
            "begins",
        ),
        (
            format!(
                "{{\"part\": \"ec\", \"begins\": \"{}\", {rest}}}",
                "x".repeat(401)
            ),
            "begins",
        ),
        (
            "{\"part\": \"ec\", \"begins\": \"1\"}".to_owned(),
            "severity",
        ),
        ("7".to_owned(), "part"),
        (
            format!("{{\"part\": \"ec\", \"begins\": \"1\", \"befor\": \"2\", {rest}}}"),
            "no member `befor`",
        ),
    ] {
        let error = with(&row).expect_err(&row).to_string();
        assert!(error.contains("row 1") && error.contains(member), "{error}");
    }
    for text in [
        "",
        "{",
        "[]",
        "{}",
        "{\"schema\": \"spark-known-bad/2\"}",
        &"[".repeat(100_000),
    ] {
        assert!(Table::parse(text, true).is_err());
    }
}
