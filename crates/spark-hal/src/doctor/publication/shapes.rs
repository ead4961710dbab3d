//! What identifiers look like: tokens of a line by their shape, and words by what stands before them.
//!
//! A token is a run of letters, digits and `. : - _ @ % +`; nothing here looks at more than a line, and everything takes time
//! in proportion to it.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::super::redact::is_uuid;

pub(super) fn is_of_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_' | '@' | '%' | '+')
}

/// A UUID, NVML's name of a GPU or of a part of one, or 32 or 64 hexadecimal digits: a machine, a boot, a container.
pub(super) fn is_identifier(token: &str) -> bool {
    let upper = token.to_ascii_uppercase();
    let marks = ["GPU-", "MIG-"].into_iter();
    let mut marked = marks.filter_map(|mark| upper.strip_prefix(mark));
    let is_hex = token.bytes().all(|byte| byte.is_ascii_hexdigit());
    marked.any(|rest| rest.contains('-'))
        || is_uuid(token)
        || (matches!(token.len(), 32 | 64) && is_hex)
}

/// `user@host`; `user@1000.service` is a unit of systemd.
pub(super) fn is_account(token: &str) -> bool {
    const UNITS: [&str; 4] = [".service", ".slice", ".scope", ".socket"];
    token.split_once('@').is_some_and(|(user, host)| {
        let is_unit = UNITS.iter().any(|end| host.ends_with(end));
        !user.is_empty() && !host.is_empty() && !is_unit
    })
}

/// The addresses in a token that lead to one place: those of IPv6 but `::` and `::1`, and public ones of IPv4. A label may stand
/// before them, an interface or a port behind.
pub(super) fn public_addresses(token: &str) -> Vec<&str> {
    let unlabelled = token.split_once(':').map(|(_, rest)| rest);
    for text in [Some(token), unlabelled].into_iter().flatten() {
        let text = text.split('%').next().unwrap_or_default();
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            let is_anybodys = address.is_loopback() || address.is_unspecified();
            return if is_anybodys { Vec::new() } else { vec![text] };
        }
    }
    let parts = token.split([':', '%', '_']);
    parts
        .filter(|part| part.parse::<Ipv4Addr>().is_ok_and(is_public))
        .collect()
}

/// `4c:bb:47:00:00:01`, also with hyphens or a label before it, or a GUID of RDMA, `4cbb:4703:0000:0001`.
pub(super) fn is_hardware_address(token: &str) -> bool {
    let has_run = |separator: char, digits: usize, n: usize| {
        let is_pair =
            |part: &&str| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let parts: Vec<&str> = token.split(separator).collect();
        parts.windows(n).any(|run| run.iter().all(is_pair))
    };
    has_run(':', 2, 5) || has_run('-', 2, 5) || (has_run(':', 4, 4) && !token.contains("::"))
}

pub(super) fn is_public(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    // Shared by carriers (RFC 6598), of this network, for more than one host, and reserved.
    let is_shared = first == 100 && (64..128).contains(&second);
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || is_shared
        || first == 0
        || first >= 224)
}

/// Every whole occurrence of a word replaced: no letter or digit stands before or behind it.
pub(super) fn replaced(text: &str, word: &str, shown: &str, in_any_case: bool) -> String {
    let is_part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let mut made = String::with_capacity(text.len());
    let mut done = 0;
    // Of the same length in bytes, so that places are those of the text.
    let (searched, wanted) = match in_any_case {
        true => (text.to_ascii_lowercase(), word.to_ascii_lowercase()),
        false => (text.to_owned(), word.to_owned()),
    };
    for (at, _) in searched.match_indices(&wanted) {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let begins_plain = word.starts_with(char::is_alphanumeric);
        if (begins_plain && is_part(before)) || is_part(after) {
            continue;
        }
        made.push_str(&text[done..at]);
        made.push_str(shown);
        done = at + word.len();
    }
    made.push_str(&text[done..]);
    made
}

/// What stands behind one of these folders, up to the next slash, is left out.
pub(super) fn without_words(line: &str, folders: &[&str], shown: &str) -> String {
    let mut line = line.to_owned();
    for folder in folders {
        let mut parts = line.split(folder);
        let mut made = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| !is_of_token(c)).unwrap_or(part.len());
            made.push_str(folder);
            made.push_str(if end > 0 { shown } else { "" });
            made.push_str(&part[end..]);
        }
        line = made;
    }
    line
}

/// Most characters between the word `serial` and its colon, and from there to what follows.
const LABEL_LIMIT: usize = 24;

/// `Serial Number: 1234` is `Serial Number: [serial]`; without a colon or an equals sign the word is one among others.
pub(super) fn without_serial(line: &str, shown: &str) -> String {
    // Of the same length in bytes, so that places are those of the line.
    let lower = line.to_ascii_lowercase();
    let first = |from: usize, is_wanted: &dyn Fn(char) -> bool| {
        let mut near = lower[from..].char_indices().take(LABEL_LIMIT);
        near.find(|(_, c)| is_wanted(*c))
            .map(|(at, c)| (from + at, c))
    };
    let is_quote = |c: char| matches!(c, '"' | '\'');
    let is_label =
        |c: char| c.is_ascii_alphabetic() || is_quote(c) || matches!(c, ' ' | '_' | '-' | '.');
    let is_gap = |c: char| c.is_whitespace() || is_quote(c) || matches!(c, ':' | '=');
    let is_end = |c: char| c.is_whitespace() || is_quote(c) || matches!(c, ',' | ';');
    let mut made = String::new();
    let mut done = 0;
    for (at, word) in lower.match_indices("serial") {
        if at < done {
            continue;
        }
        let sign = first(at + word.len(), &|c| !is_label(c));
        let Some((sign, ':' | '=')) = sign else {
            continue;
        };
        let Some((begin, _)) = first(sign, &|c| !is_gap(c)) else {
            continue;
        };
        let end = lower[begin..]
            .find(is_end)
            .map_or(line.len(), |end| begin + end);
        made.push_str(&line[done..begin]);
        made.push_str(shown);
        done = end;
    }
    made.push_str(&line[done..]);
    made
}
