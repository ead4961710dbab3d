//! Loops whose blocks lie in any order: which one a compiler takes decides nothing.

use spark_ptx::FindingKind;

use crate::support::{kernel, launch};

/// A loop of four rounds, `%r2` counts them: the blocks, of which the first begins.
type Blocks = &'static [(&'static str, &'static str)];

/// `TOGETHER` stands for an instruction that all lanes of a warp execute together.
const SOUND: [Blocks; 8] = [
    // One side of an `if`.
    &[
        ("TOP", "TOGETHER @%p1 bra ODD; bra EVEN;"),
        ("EVEN", "add.u32 %r3, %r3, 1; bra LATCH;"),
        ("LATCH", "NEXT @%p2 bra TOP; bra OUT;"),
        ("OUT", "st.global.u32 [%d1], %r3; ret;"),
        ("ODD", "add.u32 %r3, %r3, 2; bra LATCH;"),
    ],
    // `continue` before the instruction and behind it, each with a way back of its own.
    &[
        ("TOP", "@%p1 bra ODD; bra EVEN;"),
        ("EVEN", "add.u32 %r3, %r3, 1; bra MEET;"),
        ("ODD", "add.u32 %r3, %r3, 2; bra MEET;"),
        ("MEET", "TOGETHER @%p1 bra FIRST; bra SECOND;"),
        ("FIRST", "NEXT @%p2 bra TOP; bra OUT;"),
        (
            "SECOND",
            "NEXT add.u32 %r3, %r3, 1; @%p2 bra TOP; add.u32 %r3, %r3, %r2; bra OUT;",
        ),
        ("OUT", "st.global.u32 [%d1], %r3; ret;"),
    ],
    // A switch, of which one case goes on with the next round at once.
    &[
        (
            "TOP",
            "TOGETHER add.u32 %r4, %r30, %r2; and.b32 %r4, %r4, 3; brx.idx %r4, CASES;",
        ),
        ("NONE", "NEXT @%p2 bra TOP; bra OUT;"),
        ("ONE", "add.u32 %r3, %r3, 1; bra LATCH;"),
        ("TWO", "add.u32 %r3, %r3, %r2; bra ONE;"),
        ("THREE", "mul.lo.u32 %r3, %r3, 3; bra LATCH;"),
        ("LATCH", "NEXT @%p2 bra TOP; bra OUT;"),
        ("OUT", "st.global.u32 [%d1], %r3; ret;"),
    ],
    // A way out of the loop that is there and that nobody takes.
    &[
        ("TOP", "TOGETHER @%p1 bra ODD; bra LATCH;"),
        ("LATCH", "NEXT @%p2 bra TOP; bra OUT;"),
        ("OUT", "st.global.u32 [%d1], %r3; ret;"),
        ("ODD", "setp.gt.u32 %p3, %r2, 99; @%p3 bra OUT; bra LATCH;"),
    ],
    // The same by `ret`, before the instruction.
    &[
        ("TOP", "@%p1 bra ODD; bra MEET;"),
        ("MEET", "TOGETHER bra LATCH;"),
        ("LATCH", "NEXT @%p2 bra TOP; bra OUT;"),
        ("OUT", "st.global.u32 [%d1], %r3; ret;"),
        ("ODD", "setp.gt.u32 %p3, %r2, 99; @%p3 ret; bra MEET;"),
    ],
    // All lanes break in one round.
    &[
        ("TOP", "TOGETHER @%p1 bra ODD; bra EVEN;"),
        ("EVEN", "setp.eq.u32 %p3, %r2, 2; @%p3 bra OUT; bra LATCH;"),
        (
            "ODD",
            "setp.eq.u32 %p3, %r2, 2; @%p3 bra AFTER; add.u32 %r3, %r3, 1; bra LATCH;",
        ),
        ("LATCH", "NEXT @%p2 bra TOP; bra OUT;"),
        ("AFTER", "add.u32 %r3, %r3, 7; bra OUT;"),
        ("OUT", "st.global.u32 [%d1], %r3; ret;"),
    ],
    // A loop inside whose rounds are not alike, one of whose lanes goes on with the outer loop.
    &[
        ("TOP", "TOGETHER mov.u32 %r4, %r30; bra INNER;"),
        (
            "INNER",
            "setp.eq.u32 %p3, %r4, 9; @%p3 bra FIRST; shr.u32 %r4, %r4, 1; add.u32 %r3, %r3, 1;
             setp.ne.u32 %p3, %r4, 0; @%p3 bra INNER; bra SECOND;",
        ),
        ("FIRST", "NEXT @%p2 bra TOP; bra OUT;"),
        ("SECOND", "NEXT @%p2 bra TOP; bra OUT;"),
        ("OUT", "st.global.u32 [%d1], %r3; ret;"),
    ],
    // Lanes that end, and do nothing else.
    &[
        (
            "TOP",
            "setp.eq.u32 %p3, %r30, 40; @%p3 bra END; TOGETHER @%p1 bra ODD; bra LATCH;",
        ),
        ("END", "ret;"),
        ("ODD", "add.u32 %r3, %r3, 1; bra LATCH;"),
        ("LATCH", "NEXT @%p2 bra TOP; bra OUT;"),
        ("OUT", "st.global.u32 [%d1], %r3; ret;"),
    ],
];

const FAULTY: [Blocks; 6] = [
    // Half of the lanes pass it by.
    &[
        ("TOP", "@%p1 bra LATCH; bra MEET;"),
        ("MEET", "TOGETHER bra LATCH;"),
        ("LATCH", "NEXT @%p2 bra TOP; bra OUT;"),
        ("OUT", "st.global.u32 [%d1], %r3; ret;"),
    ],
    // In each round other lanes pass it by, all of them equally often.
    &[
        (
            "TOP",
            "add.u32 %r4, %r30, %r2; and.b32 %r4, %r4, 1; setp.eq.u32 %p3, %r4, 0; @%p3 bra LATCH; bra MEET;",
        ),
        ("MEET", "TOGETHER bra LATCH;"),
        ("LATCH", "NEXT @%p2 bra TOP; bra OUT;"),
        ("OUT", "st.global.u32 [%d1], %r3; ret;"),
    ],
    // The same in a loop that only `exit` ends, by `continue`.
    &[
        (
            "TOP",
            "NEXT @!%p2 exit; add.u32 %r4, %r30, %r2; and.b32 %r4, %r4, 1; setp.eq.u32 %p3, %r4, 0;
             @%p3 bra TOP; bra MEET;",
        ),
        ("MEET", "TOGETHER bra TOP;"),
    ],
    // Odd lanes leave sooner, and do something afterwards.
    &[
        ("TOP", "TOGETHER @%p1 bra ODD; bra LATCH;"),
        ("LATCH", "NEXT @%p2 bra TOP; bra OUT;"),
        ("OUT", "st.global.u32 [%d1], %r3; ret;"),
        ("ODD", "setp.gt.u32 %p3, %r2, 1; @%p3 bra OUT; bra LATCH;"),
    ],
    // The rounds of the loop inside are not alike.
    &[
        ("TOP", "mov.u32 %r4, %r30; bra INNER;"),
        (
            "INNER",
            "TOGETHER shr.u32 %r4, %r4, 1; setp.ne.u32 %p3, %r4, 0; @%p3 bra INNER; bra LATCH;",
        ),
        ("LATCH", "NEXT @%p2 bra TOP; bra OUT;"),
        ("OUT", "st.global.u32 [%d1], %r3; ret;"),
    ],
    // On one side of an `if`.
    &[
        ("TOP", "@%p1 bra ODD; bra EVEN;"),
        ("EVEN", "TOGETHER add.u32 %r3, %r3, 1; bra LATCH;"),
        ("LATCH", "NEXT @%p2 bra TOP; bra OUT;"),
        ("OUT", "st.global.u32 [%d1], %r3; ret;"),
        ("ODD", "add.u32 %r3, %r3, 2; bra LATCH;"),
    ],
];

const BARRIER: &str = "bar.sync 0;";
const MATRICES: &str = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r10, %r11, %r12, %r13}, {%r30, %r30}, {%r30}, {%r30, %r30, %r30, %r30};";

/// The blocks in an order, as a kernel whose `%r2` counts rounds and whose `%p1` holds in odd lanes.
fn text(blocks: Blocks, order: &[usize], together: &str) -> String {
    let mut body = format!(
        "CASES: .branchtargets {};
         add.u64 %d1, %d30, %d29; mov.u32 %r2, 0; mov.u32 %r3, 0; and.b32 %r4, %r30, 1;
         setp.eq.u32 %p1, %r4, 1; bra {};\n",
        match blocks.len() {
            7 => blocks[1..5]
                .iter()
                .map(|it| it.0)
                .collect::<Vec<_>>()
                .join(", "),
            _ => blocks[0].0.to_owned(),
        },
        blocks[0].0
    );
    for &block in order {
        body += &format!("{}: {}\n", blocks[block].0, blocks[block].1);
    }
    let next = "add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 4;";
    kernel(
        "",
        &body.replace("NEXT", next).replace("TOGETHER", together),
    )
}

/// Orders of so many blocks: a few hundred at most.
fn orders(n: usize) -> Vec<Vec<usize>> {
    let mut orders = vec![vec![]];
    for next in 0..n {
        let longer = |order: &Vec<usize>| {
            let order = order.clone();
            (0..=order.len()).map(move |at| {
                let mut order = order.clone();
                order.insert(at, next);
                order
            })
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    let step = orders.len().div_ceil(200);
    orders.into_iter().step_by(step).collect()
}

#[test]
fn the_order_of_a_loops_blocks_accuses_nobody() {
    for blocks in SOUND {
        let mut first = None;
        for order in orders(blocks.len()) {
            for together in [BARRIER, MATRICES] {
                let ptx = text(blocks, &order, together);
                let (out, report) = launch(&ptx, (1, 64), 0, &[0], 64);
                // Lane 40 has ended in the last of them, which is fine for barriers only.
                let is_ended =
                    |it: &FindingKind| matches!(it, FindingKind::ExitedLanes { lanes: 0x100 });
                let mut found = report.findings.iter().map(|it| &it.kind);
                assert!(found.all(is_ended), "{:?}\n{ptx}", report.findings);
                assert_eq!(first.get_or_insert_with(|| out.clone()), &out, "{ptx}");
            }
        }
    }
}

#[test]
fn the_order_of_a_loops_blocks_hides_nothing() {
    for blocks in FAULTY {
        for order in orders(blocks.len()) {
            for together in [BARRIER, MATRICES] {
                let ptx = text(blocks, &order, together);
                let (_, report) = launch(&ptx, (1, 64), 0, &[0], 64);
                let is_found =
                    |it: &FindingKind| matches!(it, FindingKind::DivergentAligned { .. });
                let mut found = report.findings.iter().map(|it| &it.kind);
                assert!(found.any(is_found), "{:?}\n{ptx}", report.findings);
            }
        }
    }
}

/// A stream of numbers from a seed.
fn random(state: &mut u32) -> u32 {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    *state >> 8
}

/// Blocks that go anywhere, by branches of each kind and by going on: each lane ends as it does alone.
#[test]
fn every_lane_takes_its_own_way_through_any_graph() {
    for seed in 0..150 {
        let mut state = seed;
        let n = 2 + random(&mut state) % 12;
        let ways: Vec<[u32; 4]> = (0..n)
            .map(|_| {
                let mut block = || random(&mut state) % n;
                [block(), block(), block(), block()]
            })
            .collect();
        let mut body = String::from(
            "add.u64 %d1, %d30, %d29; mov.u32 %r2, 0; mad.lo.u32 %r3, %r30, 2654435761, 12345;\n",
        );
        for (block, [a, b, c, kind]) in ways.iter().enumerate() {
            body += &format!(
                "T{block}: .branchtargets B{a}, B{b}, B{c};
                 B{block}: mad.lo.u32 %r3, %r3, 1664525, {block}; add.u32 %r2, %r2, 1;
                 setp.gt.u32 %p1, %r2, 30; @%p1 bra OUT;
                 shr.u32 %r4, %r3, 20; and.b32 %r4, %r4, 3; setp.eq.u32 %p2, %r4, 3; setp.lt.u32 %p3, %r4, 2;\n"
            );
            body += &match kind % 3 {
                0 => format!("@%p3 bra B{a}; bra B{b};\n"),
                1 => format!("@!%p2 brx.idx %r4, T{block}; bra B{a};\n"),
                _ => format!("@%p3 bra B{c};\n"),
            };
        }
        body += "OUT: st.global.u32 [%d1], %r3;";
        let way = |block: usize, r4: u32| -> Option<usize> {
            let [a, b, c, kind] = ways[block];
            let to = match kind % 3 {
                0 if r4 < 2 => a,
                0 => b,
                1 => [a, b, c, a][r4 as usize],
                _ if r4 < 2 => c,
                _ => return (block + 1 < ways.len()).then_some(block + 1),
            };
            Some(to as usize)
        };
        let alone = |lane: u32| {
            let mut value = lane.wrapping_mul(2_654_435_761).wrapping_add(12_345);
            let mut at = Some(0);
            for _ in 0..31 {
                let Some(block) = at else { break };
                value = value.wrapping_mul(1_664_525).wrapping_add(block as u32);
                at = way(block, value >> 20 & 3);
            }
            value
        };
        let ptx = kernel("", &body);
        let (out, report) = launch(&ptx, (1, 64), 0, &[0], 64);
        assert_eq!(report.findings, [], "{ptx}");
        assert_eq!(out, (0..64).map(alone).collect::<Vec<_>>(), "{ptx}");
    }
}
