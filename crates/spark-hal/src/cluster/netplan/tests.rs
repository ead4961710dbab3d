//! Ways of writing netplan: each is read, or refused where it matters with its line and without its content.

use std::net::Ipv4Addr;

use super::{Declared, Netplan};

const PLAYBOOK: &str = "network:\n  version: 2\n  ethernets:\n    enp1s0f1np1:\n      addresses:\n        - 192.168.100.10/24\n      dhcp4: no\n    \
    enP2p1s0f1np1: # the other half\n      addresses: [\"192.168.101.10/24\", fe80::1/64]\n      mtu: 9000\n  wifis:\n    wlan0:\n      access-points:\n        \
    \"a # b\": {password: \"MUST-NOT-APPEAR\"}\n";

const FIRST: Ipv4Addr = Ipv4Addr::new(192, 168, 100, 10);

#[track_caller]
fn of(text: &str, interface: &str) -> Declared {
    Netplan::parse(text).unwrap().of(interface).unwrap()
}

#[test]
fn nvidias_playbook_is_read_and_nothing_else_is_kept() {
    let netplan = Netplan::parse(PLAYBOOK).unwrap();
    let first = netplan.of("enp1s0f1np1").unwrap();
    assert!(first.keeps(FIRST) && !first.takes_dhcp);
    let second = netplan.of("enP2p1s0f1np1").unwrap();
    assert_eq!(second.addresses.len(), 1);
    assert_eq!(second.mtu, Some(9000));
    assert_eq!(netplan.of("other"), Ok(Declared::default()));
    let rails = ["enp1s0f1np1", "enP2p1s0f1np1", "other"];
    let text = netplan.text_of(&rails);
    let again = Netplan::parse(&text).unwrap();
    for rail in rails {
        assert_eq!(again.of(rail), netplan.of(rail));
    }
    assert!(!format!("{text}{netplan:?}").contains("MUST-NOT-APPEAR"));
    // Lists may stand as far left as their key.
    let flat = PLAYBOOK.replace("        - 192", "      - 192");
    assert_eq!(of(&flat, "enp1s0f1np1"), first);
    for between in ["", "---\n"] {
        let twice = format!("{PLAYBOOK}{between}{PLAYBOOK}");
        assert_eq!(of(&twice, "enP2p1s0f1np1").mtu, Some(9000));
    }
}

#[test]
fn every_style_is_read() {
    for text in [
        "network: {version: 2, ethernets: {e0: {addresses: [192.168.100.10/24], mtu: 9000}}}\n",
        "{\"network\": {\"version\":2,\"ethernets\":{\"e0\":{\"addresses\":[\"192.168.100.10/24\"],\"mtu\":9000}}}}\n",
        "{\n  \"network\": {\n    \"ethernets\": {\n      \"e0\": {\"addresses\": [\n\"192.168.100.10/24\"\n], \"mtu\": 9000}\n    }\n  }\n}\n",
        "network:\n  ethernets: {e0: {addresses: [192.168.100.10/24], mtu: \"9000\"}}\n",
        "network:\n  ethernets:\n    e0: {addresses: [192.168.100.10/24], mtu: 9000}\n",
        "network:\n  ethernets:\n    e0: &x\n      mtu: 9000\n      addresses: [\n        192.168.100.10/24,\n        fe80::1/64\n      ]\n",
        "network:\n  ethernets:\n    e0:\n      addresses:\n        - 192.168.100.10/24:\n            label: a\n      mtu: 9000\n      routes:\n      - to: default\n        via: 10.0.0.1\n",
        "network:\n  ethernets:\n    any:\n      match: {name: \"e?*\"}\n      addresses: [192.168.100.10/24]\n      mtu: 9000\n",
        "network:\n  ethernets:\n    NM-1:\n      match: {}\n      addresses: [192.168.100.10/24]\n      mtu: 9000\n",
    ] {
        let declared = of(text, "e0");
        assert!(declared.keeps(FIRST), "{text}");
        assert_eq!(declared.mtu, Some(9000), "{text}");
    }
    let empty = "network:\n  ethernets:\n    e0: {}\n    e1:\n";
    assert_eq!(of(empty, "e0"), Declared::default());
}

#[test]
fn link_local_addresses_are_told_apart() {
    let text = "network:\n  ethernets:\n    e0:\n      link-local: [ ipv4 ]\n    e1:\n      link-local: []\n      dhcp4: true\n";
    assert!(of(text, "e0").takes_link_local);
    assert!(!of(text, "e1").takes_link_local && of(text, "e1").takes_dhcp);
}

#[test]
fn what_is_not_understood_is_refused_with_its_line_and_for_its_interface_alone() {
    let below = "network:\n  ethernets:\n    e9:\n      mtu: 9000\n";
    for (text, line) in [
        (
            "    e0:\n      match: {macaddress: \"MUST-NOT-APPEAR\"}\n",
            6,
        ),
        (
            "    e0:\n      match: {driver: \"mlx5*\", path: MUST-NOT-APPEAR}\n",
            6,
        ),
        ("    e0:\n      dhcp4: MUST-NOT-APPEAR\n", 6),
        ("    e0:\n      mtu: MUST-NOT-APPEAR\n", 6),
        ("    e0:\n      addresses: 10.0.0.1/24\n", 6),
        (
            "    e0:\n      addresses:\n        - 10.0.0.1/24MUST-NOT-APPEAR\n",
            7,
        ),
        ("    e0:\n      addresses: [10.0.0.1]\n", 6),
        ("    e0:\n      addresses: *all\n", 6),
        ("    e0:\n      <<: *defaults\n", 6),
        ("    e0:\n      mtu: 1\n      MUST-NOT-APPEAR\n", 7),
        ("    e0:\n\t  password: MUST-NOT-APPEAR\n", 6),
        ("    e0:\n      auth: {password: MUST-NOT-APPEAR\n", 6),
        ("    e0: MUST-NOT-APPEAR\n", 5),
    ] {
        let text = format!("{below}{text}");
        let netplan = Netplan::parse(&text);
        let netplan = match netplan {
            Ok(netplan) => netplan,
            // A tab is furthest left, and nobody's.
            Err(why) => {
                assert!(text.contains('\t') && why.line == line, "{text}: {why}");
                continue;
            }
        };
        let refused = netplan.of("e0").unwrap_err();
        assert!(line.abs_diff(refused.line) <= 1, "{text}: {refused}");
        assert!(
            !format!("{netplan:?}{refused}").contains("MUST-NOT-APPEAR"),
            "{text}: {netplan:?}"
        );
        if !text.contains("match") {
            assert_eq!(netplan.of("e9").unwrap().mtu, Some(9000), "{text}");
        }
        // A record says so too.
        let again = Netplan::parse(&netplan.text_of(&["e0"])).unwrap();
        assert_eq!(again.of("e0").unwrap_err().line, refused.line);
    }
    for text in [
        "network: MUST-NOT-APPEAR\n",
        "network:\n  ethernets: [MUST-NOT-APPEAR]\n",
        "{\"network\": MUST-NOT-APPEAR",
    ] {
        let refused = Netplan::parse(text).unwrap_err();
        assert!(
            !format!("{refused:?}{refused}").contains("MUST-NOT-APPEAR"),
            "{text}: {refused}"
        );
    }
}

#[test]
fn stanzas_of_other_interfaces_end_nothing() {
    for stanza in [
        "    lan:\n      match: {macaddress: \"aa:bb:cc:dd:ee:ff\"}\n      set-name: enP7s7\n      dhcp4: true\n",
        "    NM-3:\n      match:\n        name: \"enP7s7\"\n      dhcp4: perhaps\n",
        "    lan:\n      match: {driver: [r8127, \"r81*\"]}\n      dhcp4: true\n",
        "    enP7s7:\n      mtu: large\n",
        "    enP7s7:\n      nonsense\n",
    ] {
        let text = format!("{PLAYBOOK}network:\n  ethernets:\n{stanza}");
        let first = of(&text, "enp1s0f1np1");
        assert!(first.keeps(FIRST) && !first.takes_dhcp, "{text}");
    }
}

#[test]
fn a_stanza_that_cannot_be_read_may_be_of_a_rail_where_it_matches() {
    let text =
        "network:\n  ethernets:\n    fast:\n      match: {name: enp1s0f1np1}\n      nonsense\n";
    let netplan = Netplan::parse(text).unwrap();
    assert_eq!(netplan.of("enp1s0f1np1").unwrap_err().line, 5);
}

/// Two files of which the first lacks the end of its last line, without and with `awk 1`.
#[test]
fn files_that_run_into_each_other_are_refused_with_the_line() {
    let first = PLAYBOOK.split("      dhcp4").next().unwrap().trim_end();
    let refused = Netplan::parse(&format!("{first}{PLAYBOOK}"));
    let refused = refused.and_then(|netplan| match netplan.of("enp1s0f1np1") {
        Ok(_) => Ok(()),
        Err(why) => Err(why.clone()),
    });
    assert_eq!(refused.unwrap_err().line, 6);
    assert!(of(&format!("{first}\n{PLAYBOOK}"), "enp1s0f1np1").keeps(FIRST));
}
