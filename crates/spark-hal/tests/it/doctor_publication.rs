//! Reports that may be published: secrets of every kind are planted and looked for, and what is none stays.

use spark_hal::doctor::Publication;

use crate::doctor::Patient;
use crate::recorded::machine_names;

/// What of the planted machine nobody may read.
const SECRETS: [&str; 22] = [
    "hidden-host-77",
    "example.org",
    "mallory",
    "S5XNNX0T123456",
    "PF0ABCDE",
    "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    "4c:bb:47:0a:0b:0c",
    "4C-BB-47-0A-0B-0D",
    "aa:bb:cc:dd:ee",
    "4cbb:4703:000a:0b0c",
    "6f3c1a2b-1111-2222-3333-444455556666",
    "123e4567-e89b-12d3-a456-426614174000",
    "203.0.113.77",
    "198.51.100.4",
    "2a01:4f8:c0c:1::2",
    "fe80::4ebb:47ff:fe0a:b0c",
    "fe80:0000:0000:0000:4ebb:47ff:fe00:0001",
    "alice",
    "bob",
    "carol@mail.example",
    "XK-99-SECRET",
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
];

fn patient() -> Patient {
    Patient::spark()
        .with("== /proc/sys/kernel/hostname\nhidden-host-77.example.org\n")
        .with("== /sys/class/dmi/id/product_serial\nPF0ABCDE\n== /etc/machine-id\n0f1e2d3c4b5a69788796a5b4c3d2e1f0\n")
        .with("== /sys/class/nvme/nvme0/serial\nS5XNNX0T123456\n== /sys/class/net/enP7s7/address\n4c:bb:47:0a:0b:0c\n")
        .variable("HOME", "/home/mallory")
        .variable("USER", "mallory")
}

#[test]
fn secrets_of_every_kind_are_taken_out() {
    let publication = Publication::of(&patient().facts());
    let text = [
        "host hidden-host-77, or hidden-host-77.example.org: up",
        "/home/mallory/venv/lib/x.so and mallory's files, /home/alice/x, /media/bob/disk, /var/home/alice",
        "nvme0 S5XNNX0T123456; board PF0ABCDE.",
        "machine 0f1e2d3c4b5a69788796a5b4c3d2e1f0",
        "link/ether 4c:bb:47:0a:0b:0c, 4C-BB-47-0A-0B-0D; mac:aa:bb:cc:dd:ee:ff guid 4cbb:4703:000a:0b0c",
        "GPU-6f3c1a2b-1111-2222-3333-444455556666 and 123e4567-e89b-12d3-a456-426614174000.",
        "from 203.0.113.77:443, addr:198.51.100.4; //198.51.100.4/x",
        "inet6 2a01:4f8:c0c:1::2/64 [fe80::4ebb:47ff:fe0a:b0c%eth0]:80 addr:2a01:4f8:c0c:1::2",
        "gid fe80:0000:0000:0000:4ebb:47ff:fe00:0001",
        "carol@mail.example wrote; ssh mallory@hidden-host-77",
        "Serial Number: XK-99-SECRET, serial=XK-99-SECRET \"serial_number\": \"XK-99-SECRET\"",
        "docker-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope \
         0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    ];
    for line in text {
        let redacted = publication.redacted(line);
        for secret in SECRETS {
            // A container's number in a name of a unit is found in another line.
            if line.starts_with("docker-") && secret.starts_with("0123") {
                continue;
            }
            assert!(!redacted.contains(secret), "{line}\n{redacted}");
        }
    }
    let redacted = publication.redacted(text[11]);
    assert!(redacted.ends_with(" [id]"), "{redacted}");
    assert_eq!(
        publication.redacted(text[0]),
        "host [host], or [host]: up",
        "one word in place of another"
    );
    assert!(
        publication
            .redacted(text[1])
            .starts_with("~/venv/lib/x.so and [user]'s files, /home/[user]/x")
    );
}

#[test]
fn what_names_nobody_stays() {
    let publication = Publication::of(&patient().facts());
    for line in [
        "DGX Spark (NVIDIA DGX Spark), driver 580.95.05, cuBLAS 13.1.0.3 in /usr/local/cuda/lib/libcublas.so.13.1.0.3",
        "000f:01:00.0 10de:2e12 at 2026-03-01T10:00:00, 10:15:30 up",
        "192.168.100.7/24 10.0.0.1 127.0.0.1 169.254.1.2 0.7.1.0 ::1 :: 255.255.255.0 224.0.0.1",
        "export NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0 NCCL_IB_MERGE_NICS=1",
        "user@1000.service spark_hal::cuda NVIDIA/xr-ai issue #525 https://docs.nvidia.com/dgx",
        "NVRM: Out of memory [NV_ERR_NO_MEMORY] (0x51) from _memdescAllocInternal @ mem_desc.c:1359",
        "a serial port, serial numbers are never kept; S/N none",
        "hidden-host-777 mallory2 is another",
        "commit 0450b81ae6af1922982222c6bb4ac1ca33f993a4",
        "/home/ and /home stay, MIG is off, GPU-less",
        "ünïcödé 日本 ✓ stays",
    ] {
        assert_eq!(publication.redacted(line), line);
    }
}

#[test]
fn common_names_are_no_secrets() {
    let patient = Patient::spark()
        .with("== /proc/sys/kernel/hostname\nspark\n== /sys/class/dmi/id/board_serial\nDefault string\n")
        .with("== /sys/class/dmi/id/product_serial\n0000\n== /sys/class/dmi/id/product_uuid\n\n")
        .variable("USER", "nvidia");
    let publication = Publication::of(&patient.facts());
    let text = "spark nvidia Default string 0000 DGX Spark";
    assert_eq!(publication.redacted(text), text);
}

/// Nothing in the findings of a recorded machine is taken for a secret by mistake.
#[test]
fn reports_of_recorded_machines_stay_as_they_are() {
    for name in machine_names() {
        let patient = Patient::of(&name);
        let text = patient.examine().to_text();
        assert_eq!(
            Publication::of(&patient.facts()).redacted(&text),
            text,
            "{name}"
        );
    }
}

/// What the checks quote goes through the same.
#[test]
fn secrets_in_quoted_settings_and_logs_are_taken_out() {
    let planted = "2026-03-01T10:00:00 hidden-host-77 kernel: NVRM: NV_ERR_NO_MEMORY mem_desc.c for mallory at 198.51.100.4 \
                   4c:bb:47:0a:0b:0c\n";
    let patient = patient()
        .with(&format!("== /var/log/kern.log\n{planted}"))
        .variable("NCCL_SOCKET_IFNAME", "=203.0.113.77 mallory");
    let text = patient.examine().to_text();
    assert!(text.contains("203.0.113.77 mallory"), "planted: {text}");
    let redacted = Publication::of(&patient.facts()).redacted(&text);
    for secret in SECRETS {
        assert!(!redacted.contains(secret), "{secret}: {redacted}");
    }
}

#[test]
fn long_and_odd_text_takes_no_long_time() {
    let publication = Publication::of(&patient().facts());
    let begin = std::time::Instant::now();
    for piece in [
        "a",
        ":",
        "serial",
        "serial: ",
        "/home/",
        "/home/a",
        "@",
        "日",
        "hidden-host-77 ",
        "a:b::",
    ] {
        let text = piece.repeat(200_000);
        let redacted = publication.redacted(&text);
        assert!(!redacted.contains("hidden-host-77"), "{piece}");
    }
    assert!(
        begin.elapsed() < std::time::Duration::from_secs(20),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn keys_processes_and_other_spellings_are_taken_out() {
    let patient = patient()
        .variable("HOME", "/root")
        .variable("USER", "root")
        .variable("SUDO_USER", "zelda");
    let publication = Publication::of(&patient.facts());
    for (text, shown) in [
        (
            "enx4cbb47030001: up, wlx4cbb47030002",
            "enx[mac]: up, wlx[mac]",
        ),
        ("/data/zelda/x, zelda", "/data/[user]/x, [user]"),
        ("HF_TOKEN=hf_AbCdEfGh12345678", "HF_TOKEN=[key]"),
        ("token ghp_abc123def456", "token [key]"),
        ("github_pat_11ABCDEFG0abc", "[key]"),
        ("sk-proj-abcd1234efgh5678", "[key]"),
        ("nvapi-Abcd1234efgh", "[key]"),
        ("xoxb-1234-abcd", "[key]"),
        ("AKIAIOSFODNN7EXAMPLE", "[key]"),
        ("c2VjcmV0IGtleSBvZiBub2JvZHkgYXQ5YWxs", "[key]"),
        ("HIDDEN-HOST-77 and Hidden-Host-77", "[host] and [host]"),
        (
            "S/N 123456, SN: 123456; Serial 123456",
            "S/N [serial], SN: [serial]; Serial [serial]",
        ),
        (
            "4c-bb-47-0a-0b-0c 4cbb.470a.0b0c 4CBB470A0B0C",
            "[mac] [mac] [mac]",
        ),
        (
            "NVRM: Xid (PCI:000f:01:00): 31, pid=7, name=secretd, Ch 1",
            "NVRM: Xid (PCI:000f:01:00): 31, pid=7, name=[process], Ch 1",
        ),
        (
            "Killed process 77 (secretd) UID:1000 x",
            "Killed process 77 ([process]) UID:[user] x",
        ),
        ("C:\\Users\\erin\\x", "C:\\Users\\[user]\\x"),
        ("host ip-8-8-8-8 up", "host [address] up"),
        ("nvme-eui.0025385b21404321", "[key]"),
    ] {
        assert_eq!(publication.redacted(text), shown);
    }
    for plain in [
        "hf_transfer sk-learn-1.5 enp1s0f0np0 enP7s7 index0123",
        "ip-10-0-0-1, interface name=eth0, UID:0",
        "serial console ttyS0, the SN of it",
        "nvidia-container-toolkit-base-1.17.8-1-and-more-of-it",
    ] {
        assert_eq!(publication.redacted(plain), plain);
    }
}
