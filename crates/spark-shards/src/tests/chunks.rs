//! Which items are whose, and that only what was written is read.

use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::run;
use crate::{Chunk, Damage, Fingerprint, Identity, Plan, Run, Shard, decode, encode};

proptest! {
    #[test]
    fn every_item_has_one_chunk_and_every_chunk_one_shard(
        n_items in 0_u64..500, chunk_len in 1_u64..40, of in 1_u64..70,
    ) {
        let plan = Plan::new(n_items, chunk_len).unwrap();
        let mut items = Vec::new();
        for number in 1..=of {
            for chunk in plan.chunks_of(Shard::new(number, of).unwrap()) {
                items.extend(plan.items(chunk));
            }
        }
        items.sort_unstable();
        prop_assert_eq!(&items, &(0..n_items).collect::<Vec<_>>());
        // Shared out as neighbours they are in order already.
        let neighbours = (1..=of).flat_map(|k| plan.neighbours_of(Shard::new(k, of).unwrap()));
        let neighbours: Vec<u64> = neighbours.flat_map(|chunk| plan.items(chunk)).collect();
        prop_assert_eq!(neighbours, items);
    }

    #[test]
    fn shares_differ_by_one_chunk_at_most(n_items in 0_u64..5000, of in 1_u64..70) {
        let plan = Plan::new(n_items, 7).unwrap();
        let shares = (1..=of).map(|k| plan.chunks_of(Shard::new(k, of).unwrap()).count());
        let shares: Vec<usize> = shares.collect();
        prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        let shares = (1..=of).map(|k| plan.neighbours_of(Shard::new(k, of).unwrap()).count());
        let shares: Vec<usize> = shares.collect();
        prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
    }

    #[test]
    fn what_is_written_is_read(
        work in ".{0,20}", lines in prop::collection::vec((".{0,9}", ".{0,30}"), 0..5),
        payload in prop::collection::vec(any::<u8>(), 0..300),
        n_items in 1_u64..=u64::MAX, chunk_len in 1_u64..=u64::MAX, at in any::<u64>(),
    ) {
        let identity = lines.into_iter().fold(Identity::new(work), |it, (a, b)| it.with(a, b));
        let run = Run { identity, plan: Plan::new(n_items, chunk_len).unwrap() };
        let number = at % run.plan.n_chunks();
        let bytes = encode(&run, number, &payload).unwrap();
        prop_assert_eq!(decode(&bytes).unwrap(), Chunk { run, number, payload });
    }

    #[test]
    fn any_bytes_under_a_right_checksum_are_read_or_refused(
        mut rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = b"SPKSHARD\x01\0\0\0".to_vec();
        bytes.append(&mut rest);
        let _ = decode(&sealed(bytes));
    }
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&checksum);
    bytes
}

#[test]
fn a_chunk_cut_short_or_with_a_bit_flipped_is_refused() {
    let bytes = encode(&run(), 1, b"16 25 36 49").unwrap();
    assert!(decode(&bytes).is_ok());
    for n in 0..bytes.len() {
        assert!(decode(&bytes[..n]).is_err(), "{n} bytes");
    }
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&flipped).is_err(), "bit {bit}");
    }
    let mut longer = bytes;
    longer.push(0);
    assert_eq!(decode(&longer), Err(Damage::Checksum));
}

#[test]
fn parts_that_do_not_fit_are_refused_under_a_right_checksum() {
    let good = encode(&run(), 1, b"results").unwrap();
    let body = &good[..good.len() - 32];
    let at = |from_end: usize| body.len() - b"results".len() - from_end;
    // Payload's length, end, first item, number, items a chunk, items; then a line's length and the lines' number.
    for (place, what) in [
        (at(8), "payload's length"),
        (at(16), "range of items"),
        (at(24), "range of items"),
        (at(32), "range of items"),
        (at(40), "range of items"),
        (12, "number of lines"),
        (16, "line"),
    ] {
        let mut bytes = body.to_vec();
        bytes[place + 3] = 0xff;
        let refused = decode(&sealed(bytes)).unwrap_err();
        assert_eq!(refused, Damage::Misfit { what }, "byte {place}");
    }
    let mut no_length = body.to_vec();
    no_length[at(40)..at(32)].fill(0);
    let what = "chunk's length";
    assert_eq!(decode(&sealed(no_length)), Err(Damage::Misfit { what }));
    let mut longer = body.to_vec();
    longer.push(0);
    let what = "payload's length";
    assert_eq!(decode(&sealed(longer)), Err(Damage::Misfit { what }));
}

/// Lines are compared with one another, so that millions of them would take hours.
#[test]
fn more_lines_than_are_written_are_not_read() {
    let mut bytes = b"SPKSHARD".to_vec();
    for number in [1_u32, 500_000] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.resize(bytes.len() + 8 * 500_000, 0);
    let what = "number of lines";
    assert_eq!(decode(&sealed(bytes)), Err(Damage::Misfit { what }));
}

#[test]
fn what_is_no_chunk_of_the_run_is_not_written() {
    assert!(encode(&run(), 3, b"").is_err(), "there are chunks 0 to 2");
    let mut long = run();
    long.identity = long.identity.with("long", "x".repeat(2 << 20));
    assert!(encode(&long, 0, b"").is_err());
    let mut many = run();
    for i in 0..1100 {
        many.identity = many.identity.with(i.to_string(), "");
    }
    assert!(encode(&many, 0, b"").is_err());
    assert!(Plan::new(1, 0).is_err());
    let none = Plan::new(0, 5).unwrap();
    assert_eq!(none.n_chunks(), 0);
    assert_eq!(none.items(0), 0..0);
}

#[test]
fn neighbours_of_more_chunks_than_products_hold_are_shared_out() {
    let plan = Plan::new(u64::MAX, 1).unwrap();
    let of = |k| plan.neighbours_of(Shard::new(k, u64::MAX).unwrap());
    assert_eq!(of(1), 0..1);
    assert_eq!(of(u64::MAX), u64::MAX - 1..u64::MAX);
    let half = plan.neighbours_of(Shard::new(2, 2).unwrap());
    assert_eq!(half, u64::MAX / 2..u64::MAX);
}

#[test]
fn shards_are_counted_from_one() {
    let shard: Shard = "2/3".parse().unwrap();
    assert_eq!((shard.number(), shard.of()), (2, 3));
    assert_eq!(shard.to_string(), "2/3");
    for wrong in [
        "",
        "/",
        "1",
        "0/3",
        "4/3",
        "1/0",
        "+1/3",
        "1/3/4",
        "-1/3",
        " 1/3",
        "1/99999999999999999999",
    ] {
        let refused = wrong.parse::<Shard>().unwrap_err().to_string();
        assert!(
            refused.contains(wrong) && refused.contains("K/N"),
            "{refused}"
        );
    }
}

#[test]
fn runs_say_how_they_differ() {
    let (here, mut there) = (run(), run());
    assert!(here.differences(&there).is_empty());
    there.identity = Identity::new("squares")
        .with("program", "1.1")
        .with("model", "m");
    there.plan = Plan::new(11, 4).unwrap();
    assert_eq!(
        here.differences(&there).to_string(),
        "program: 1.0 here, 1.1 there; of: naturals here, nothing there; items: 10 here, 11 there; \
         model: nothing here, m there"
    );
    let mut turned = run();
    turned.identity.lines.reverse();
    assert!(!here.differences(&turned).is_empty());
    assert_eq!(here.identity.value("of"), Some("naturals"));
}

#[test]
fn a_fingerprint_tells_where_things_end() {
    let of = |things: &[&str]| {
        let mut print = Fingerprint::new();
        things.iter().for_each(|thing| print.add(thing));
        print.hex()
    };
    assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
    assert_ne!(of(&["", "a"]), of(&["a", ""]));
    assert_eq!(of(&["a"]).len(), 64);
    let program = crate::hash_of_this_program().unwrap();
    assert_eq!(program, crate::hash_of_this_program().unwrap());
    assert_eq!(program.len(), 64);
}
