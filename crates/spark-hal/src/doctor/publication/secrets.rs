//! Words that are secret by what they begin with or by what stands before them: keys of services, hardware addresses in names
//! of interfaces, processes in lines of the kernel, numbers behind `S/N`.
//!
//! It looks at one line at a time. A key that a slash divides is seen only where a part of it is long enough.

use std::net::Ipv4Addr;

use super::shapes::is_public;

/// What keys of services begin with, and how many characters follow at least.
const KEYS: [(&str, usize); 11] = [
    ("hf_", 8),
    ("ghp_", 8),
    ("gho_", 8),
    ("ghu_", 8),
    ("ghs_", 8),
    ("ghr_", 8),
    ("github_pat_", 8),
    ("sk-", 16),
    ("nvapi-", 8),
    ("AKIA", 16),
    ("ASIA", 16),
];
/// Letters and digits in a row that are a key or a sum, not a word.
const LONG_RUN: usize = 32;
/// Hexadecimal digits of a commit, which a report is better with; keys of that length stay too.
const COMMIT_DIGITS: usize = 40;
/// Digits of a hardware address.
const ADDRESS_DIGITS: usize = 12;

/// A key of a service, a long run of hexadecimal digits or of base64, or the number of a disk (`eui.`).
pub(super) fn is_key(token: &str) -> bool {
    token.split([':', '@', '.', '%', '+']).any(is_marked) || is_disk(token) || has_long_run(token)
}

fn is_marked(part: &str) -> bool {
    let mixed = |rest: &str| {
        rest.bytes()
            .any(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
    };
    let begins = |(mark, least): &(&str, usize)| {
        let rest = part.strip_prefix(mark);
        rest.is_some_and(|rest| rest.len() >= *least && mixed(rest))
    };
    let of_slack = part.starts_with("xox") && part.as_bytes().get(4) == Some(&b'-');
    of_slack || KEYS.iter().any(begins)
}

fn is_disk(token: &str) -> bool {
    token.split_once("eui.").is_some_and(|(_, number)| {
        let digits = number.bytes().take_while(u8::is_ascii_hexdigit).count();
        digits >= 8
    })
}

fn has_long_run(token: &str) -> bool {
    token
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '+')
        .filter(|run| run.len() >= LONG_RUN)
        .any(|run| {
            let has = |is: fn(&u8) -> bool| run.as_bytes().iter().any(is);
            let is_mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
            let is_hex = run.bytes().all(|b| b.is_ascii_hexdigit()) && run.len() != COMMIT_DIGITS;
            has(u8::is_ascii_digit) && (is_mixed || is_hex)
        })
}

/// `ip-8-8-8-8`, as clouds name hosts, where the address is public.
pub(super) fn names_public_address(token: &str) -> bool {
    token
        .to_ascii_lowercase()
        .split_once("ip-")
        .is_some_and(|(_, rest)| {
            let text: Vec<&str> = rest.split(['-', '.']).take(4).collect();
            text.join(".").parse::<Ipv4Addr>().is_ok_and(is_public)
        })
}

/// `enx4cbb47030001`: the address in the name of an interface.
pub(super) fn without_interfaces(line: &str, shown: &str) -> String {
    let mut made = String::with_capacity(line.len());
    let mut done = 0;
    for (at, _) in line.match_indices('x') {
        let is_kind = ["en", "wl", "ww", "sl", "ib"]
            .iter()
            .any(|kind| line[..at].ends_with(kind) && at >= done + kind.len());
        let digits = line[at + 1..].bytes().take_while(u8::is_ascii_hexdigit);
        if is_kind && digits.count() == ADDRESS_DIGITS {
            made.push_str(&line[done..=at]);
            made.push_str(shown);
            done = at + 1 + ADDRESS_DIGITS;
        }
    }
    made.push_str(&line[done..]);
    made
}

/// Names of processes in lines about Xids and ended processes, and numbers of users.
pub(super) fn without_processes(line: &str, shown: &str, user: &str) -> String {
    let mut line = line.to_owned();
    if line.contains("Xid") {
        line = without_behind(&line, "name=", shown, |c| c == ',');
    }
    let lower = line.to_ascii_lowercase();
    if lower.contains("oom") {
        line = without_behind(&line, "task=", shown, |c| c == ',');
    }
    if lower.contains("killed process")
        && let Some((before, rest)) = line.split_once('(')
        && let Some((_, behind)) = rest.split_once(')')
    {
        line = format!("{before}({shown}){behind}");
    }
    for mark in ["UID:", "uid=", "UID="] {
        line = without_behind(&line, mark, user, |c| !c.is_ascii_digit());
    }
    line
}

/// What stands behind a mark, up to an end, is left out; root's number stays.
fn without_behind(line: &str, mark: &str, shown: &str, is_end: fn(char) -> bool) -> String {
    let mut parts = line.split(mark);
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(is_end).unwrap_or(part.len());
        made.push_str(mark);
        made.push_str(match &part[..end] {
            plain @ ("" | "0") => plain,
            _ => shown,
        });
        made.push_str(&part[end..]);
    }
    made
}

/// `S/N 123`, `SN: 123`, `Serial 123`, `serial number 123`: the word with a digit that follows.
pub(super) fn without_short_serial(line: &str, shown: &str) -> String {
    let mut made = String::with_capacity(line.len());
    let mut is_next = false;
    for word in line.split_inclusive(char::is_whitespace) {
        let bare = word.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ';'));
        let lower = bare.to_ascii_lowercase();
        let label = lower.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let marked = ["s/n:", "s/n=", "sn:", "sn="]
            .iter()
            .find(|mark| lower.starts_with(**mark) && lower.len() > mark.len());
        if let Some(mark) = marked {
            made.push_str(&bare[..mark.len()]);
            made.push_str(shown);
            made.push_str(&word[bare.len()..]);
            is_next = false;
        } else if matches!(label, "serial" | "s/n" | "sn")
            || (is_next && matches!(label, "number" | "no" | ""))
        {
            made.push_str(word);
            is_next = true;
        } else if is_next && bare.bytes().any(|b| b.is_ascii_digit()) {
            made.push_str(shown);
            made.push_str(&word[bare.len()..]);
            is_next = false;
        } else {
            made.push_str(word);
            is_next = false;
        }
    }
    made
}
