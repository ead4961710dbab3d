//! Records that are unpacked: the same machine again, and nothing outside the folder.

use std::fs;

use spark_hal::{Machine, RecordError, Root, Sources, record, unpack_record};

use crate::recorded::{Tree, machine_names};

#[test]
fn every_recorded_machine_is_the_same_when_unpacked() {
    let read = |root: Root| Machine::read(&Sources::files(root));
    for name in machine_names() {
        let (original, copy) = (Tree::of(&name), Tree::empty());
        let told = record(&original.root());
        let unpacked = unpack_record(&told, &copy.path("/")).unwrap();
        let (wanted, got) = (read(original.root()), read(unpacked));
        assert_eq!(got.platform, wanted.platform, "{name}");
        assert_eq!(got.cpu, wanted.cpu, "{name}");
        assert_eq!(got.network, wanted.network, "{name}");
        assert_eq!(got.stack, wanted.stack, "{name}");
        assert_eq!(record(&copy.root()), told, "{name}");
    }
}

#[test]
fn a_record_tells_that_buses_have_no_gpu() {
    let tree = Tree::of("plain-pc");
    let buses = "/sys/bus/pci/devices/";
    assert!(
        !record(&tree.root()).contains(buses),
        "nothing is known of them"
    );
    for number in 0..3 {
        tree.add(&format!("== {buses}0000:00:0{number}.0/vendor\n0x8086\n"));
    }
    let told = record(&tree.root());
    assert_eq!(
        told.matches(buses).count(),
        1,
        "one device is enough: {told}"
    );
}

#[test]
fn records_that_would_leave_their_folder_are_refused() {
    let refused = |text: &str| {
        let tree = Tree::empty();
        let inside = tree.path("/inside");
        fs::create_dir(&inside).unwrap();
        let refused = unpack_record(text, &inside).unwrap_err();
        let names: Vec<_> = fs::read_dir(tree.path("/")).unwrap().collect();
        assert_eq!(names.len(), 1, "{text}");
        refused
    };
    for text in [
        "== relative\n",
        "== /../out\n",
        "== /a/../../out\n",
        "== /\n",
        "== \n",
        "== /a\0b\n",
        "== /l -> /etc\n",
        "== /l -> ..\n",
        "== /l -> ../x\n",
        "== /a/l -> ../../x\n",
        "== /a/l -> b/../../../x\n",
        "== /l -> \n",
    ] {
        let error = refused(text);
        assert!(
            matches!(error, RecordError::Path { line: 1, .. }),
            "{text}: {error}"
        );
    }
    for text in [
        "== /a\nx\n== /a\ny\n",
        "== /a\nx\n== /a/b\ny\n",
        "== /d/f\nx\n== /l -> d\n== /l/g\ny\n",
        "== /l -> d\n== /l -> d\n",
        "== /l -> d\n== /l\nthrough the link\n",
    ] {
        let error = refused(text);
        assert!(
            matches!(error, RecordError::Clash { .. }),
            "{text}: {error}"
        );
    }
    for text in ["", "# only remarks\n", "anything else"] {
        assert!(matches!(refused(text), RecordError::NoFile), "{text}");
    }
}
