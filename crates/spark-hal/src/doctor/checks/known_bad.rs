//! Kernel, driver and firmware against the table of those that are known to be bad.
//!
//! Nothing is passed that no row speaks of: a part without a row, or a version that is of no row's naming and vendor, does not apply,
//! and says so.

use crate::doctor::check::{Check, Examination};
use crate::doctor::facts::Facts;
use crate::doctor::known_bad::{OWN_TABLE, Part, Row, Seen as Held, Table};
use crate::doctor::verdict::{Severity, Verdict, found, not_applicable, not_examined, seen};
use crate::reading::{Reading, quote};

use super::applies::other_than_spark;

const SOURCE: &str = "spark-hal's known-bad.json, or /etc/sparkpilot/known-bad.json; every row has its own source and \
     date, which a finding names";

pub(super) const CHECKS: &[Examination<Facts>] = &[
    Examination {
        check: Check {
            id: "platform.known-bad-table",
            title: "an administrator's table of known faults can be read",
            source: "spark_hal, doctor/known_bad",
        },
        run: table,
    },
    Examination {
        check: Check {
            id: "platform.kernel",
            title: "the kernel is not one with known faults",
            source: SOURCE,
        },
        run: kernel,
    },
    Examination {
        check: Check {
            id: "platform.firmware",
            title: "the firmware of board and controller (BIOS, EC) is not one with known faults",
            source: SOURCE,
        },
        run: firmware,
    },
    Examination {
        check: Check {
            id: "driver.known-bad",
            title: "the driver is not one with known faults",
            source: SOURCE,
        },
        run: driver,
    },
    Examination {
        check: Check {
            id: "network.firmware",
            title: "the firmware of the ConnectX adapters is not one with known faults",
            source: SOURCE,
        },
        run: adapters,
    },
];

fn table(facts: &Facts) -> Verdict {
    match Table::load(&facts.root) {
        Ok(table) if table.is_own => Verdict::Passed,
        Ok(table) => Verdict::NotApplicable(format!(
            "there is no {OWN_TABLE}; the table of this program is of {}",
            table.updated
        )),
        Err(error) => found(
            Severity::Error,
            format!("no kernel, driver or firmware is examined for known faults: {error}"),
            vec![seen(OWN_TABLE, &error)],
            format!("mend {OWN_TABLE}, or remove it: this program has a table of its own"),
        ),
    }
}

/// The table, if it speaks of one of these parts and the machine is a Spark; else why nothing is examined.
fn table_of(facts: &Facts, parts: &[Part]) -> Result<Table, Verdict> {
    if let Some(verdict) = other_than_spark(facts) {
        return Err(verdict);
    }
    let table = Table::load(&facts.root).map_err(|_| {
        not_examined(format!(
            "needs a {OWN_TABLE} that can be read; see platform.known-bad-table"
        ))
    })?;
    if parts.iter().any(|part| table.has(*part)) {
        return Ok(table);
    }
    Err(Verdict::NotApplicable(format!(
        "the table of known faults, of {}, has no row for it",
        table.updated
    )))
}

/// Nothing is known of this version.
fn unknown(table: &Table, version: &str) -> Verdict {
    Verdict::NotApplicable(format!(
        "no row of the table of known faults, of {}, speaks of {}",
        table.updated,
        quote(version)
    ))
}

/// What the table says of one version.
fn judged(table: &Table, part: Part, held: Held<'_>, source: &str) -> Verdict {
    match table.worst(part, held) {
        Some(row) => bad(row, source, held.version),
        None if table.speaks_of(part, held) => Verdict::Passed,
        None => unknown(table, held.version),
    }
}

/// A finding of a row, with what fell under it.
fn bad(row: &Row, source: impl Into<String>, said: &str) -> Verdict {
    let evidence = vec![
        seen(source, said),
        seen(format!("{}, {}", row.source, row.date), "describes it"),
    ];
    found(row.severity, row.does.clone(), evidence, row.fix.clone())
}

fn kernel(facts: &Facts) -> Verdict {
    const PATH: &str = "/proc/sys/kernel/osrelease";
    let table = match table_of(facts, &[Part::Kernel]) {
        Ok(table) => table,
        Err(verdict) => return verdict,
    };
    let Reading::Value(release) = &facts.machine.kernel else {
        return not_examined(format!("needs {PATH}"));
    };
    let cmdline = facts.root.line("/proc/cmdline").value().unwrap_or_default();
    let held = Held {
        version: release,
        cmdline: &cmdline,
        ..Held::default()
    };
    judged(&table, Part::Kernel, held, PATH)
}

fn firmware(facts: &Facts) -> Verdict {
    const EC: &str = "/sys/class/dmi/id/ec_firmware_release";
    const BIOS: &str = "/sys/class/dmi/id/bios_version";
    const DATE: &str = "/sys/class/dmi/id/bios_date";
    let table = match table_of(facts, &[Part::Bios, Part::EmbeddedController]) {
        Ok(table) => table,
        Err(verdict) => return verdict,
    };
    let dmi = &facts.machine.platform.dmi;
    let Reading::Value(version) = &dmi.bios_version else {
        return not_examined(format!("needs {BIOS}"));
    };
    let dated = facts.root.line(DATE).value();
    let dated = dated.as_deref().and_then(day_of);
    let vendor = dmi.sys_vendor.as_value().map_or("", String::as_str);
    let seen = Held {
        version,
        vendor,
        dated: dated.as_deref(),
        cmdline: "",
    };
    let bios = table.worst(Part::Bios, seen);
    let controller = facts.root.line(EC).value();
    let held = controller.as_deref().map(|version| Held {
        version,
        vendor,
        ..Held::default()
    });
    let controller_row = held.and_then(|held| table.worst(Part::EmbeddedController, held));
    match (bios, controller_row) {
        (bios, Some(row)) if bios.is_none_or(|bios| bios.severity <= row.severity) => {
            bad(row, EC, &controller.unwrap_or_default())
        }
        (Some(row), _) => {
            let dated = dated.map_or_else(String::new, |dated| format!(" of {dated}"));
            bad(row, BIOS, &format!("{version}{dated}"))
        }
        (None, _) if table.needs_date(Part::Bios, seen) => {
            not_examined(format!("needs {DATE}, as MM/DD/YYYY"))
        }
        (None, _) => {
            let of_controller =
                held.filter(|held| table.speaks_of(Part::EmbeddedController, *held));
            if of_controller.is_some() || table.speaks_of(Part::Bios, seen) {
                Verdict::Passed
            } else {
                unknown(&table, version)
            }
        }
    }
}

/// `MM/DD/YYYY`, as firmware writes it, as `YYYY-MM-DD`.
fn day_of(date: &str) -> Option<String> {
    let mut parts = date.split('/');
    let (month, day, year) = (parts.next()?, parts.next()?, parts.next()?);
    let is_number =
        |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = is_number(month, 2) && is_number(day, 2) && is_number(year, 4);
    (is_date && parts.next().is_none()).then(|| format!("{year}-{month}-{day}"))
}

fn driver(facts: &Facts) -> Verdict {
    let table = match table_of(facts, &[Part::Driver]) {
        Ok(table) => table,
        Err(verdict) => return verdict,
    };
    let Reading::Value(version) = &facts.machine.stack.driver else {
        return not_examined("needs a loaded driver that tells its version; see driver.loaded");
    };
    let text = version.to_string();
    let held = Held {
        version: &text,
        ..Held::default()
    };
    judged(
        &table,
        Part::Driver,
        held,
        "/proc/driver/nvidia/version, else NVML",
    )
}

fn adapters(facts: &Facts) -> Verdict {
    let table = match table_of(facts, &[Part::ConnectX]) {
        Ok(table) => table,
        Err(verdict) => return verdict,
    };
    let functions = &facts.machine.network.functions;
    if functions.is_empty() {
        return not_applicable("no ConnectX adapter");
    }
    let mut unread = None;
    let mut unspoken = None;
    for function in functions {
        let place = match function.of_rdma_device() {
            Reading::Value(folder) => format!("{folder}/fw_ver"),
            _ => format!("{}/infiniband/*/fw_ver", function.pci.path()),
        };
        let Reading::Value(version) = function.firmware(&facts.root) else {
            unread.get_or_insert(place);
            continue;
        };
        let held = Held {
            version: &version,
            ..Held::default()
        };
        if let Some(row) = table.worst(Part::ConnectX, held) {
            return bad(row, place, &version);
        }
        if !table.speaks_of(Part::ConnectX, held) {
            unspoken.get_or_insert_with(|| unknown(&table, &version));
        }
    }
    match (unread, unspoken) {
        (Some(place), _) => not_examined(format!("needs {place}")),
        (None, Some(verdict)) => verdict,
        (None, None) => Verdict::Passed,
    }
}

#[cfg(test)]
mod tests {
    use super::day_of;

    #[test]
    fn dates_of_firmware_are_turned_round() {
        assert_eq!(day_of("05/07/2026").as_deref(), Some("2026-05-07"));
        for text in ["", "5/7/2026", "2026-05-07", "05/07/2026/1", "ab/cd/efgh"] {
            assert_eq!(day_of(text), None, "{text}");
        }
    }
}
