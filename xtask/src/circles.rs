//! Circles in a graph of arrows: its strongly connected components of two points and more.
//!
//! ```text
//! walk each point's arrows, depth first; a point's low mark is the earliest point on the
//! stack that its walk comes back to
//! a point whose low mark is its own number closes a component: pop the stack down to it
//! ```
//!
//! Tarjan, "Depth-first search and linear graph algorithms" (1972), with a stack of its own
//! instead of recursion. Deliberately absent: arrows from a point to itself; they are no circle here.

/// Every circle among points `0..arrows.len()`, where point `i` has arrows to `arrows[i]`.
///
/// Points ascend within a circle, circles by their first point. A point is in one circle at most.
pub(crate) fn circles(arrows: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let n_points = arrows.len();
    let mut number = vec![UNSEEN; n_points];
    let mut low = vec![UNSEEN; n_points];
    let mut is_open = vec![false; n_points];
    let mut open = Vec::new();
    let mut n_seen = 0;
    let mut found = Vec::new();
    for start in 0..n_points {
        if number[start] != UNSEEN {
            continue;
        }
        let mut walk = vec![(start, 0)];
        while let Some((point, next)) = walk.pop() {
            if next == 0 {
                number[point] = n_seen;
                low[point] = n_seen;
                n_seen += 1;
                open.push(point);
                is_open[point] = true;
            }
            if let Some(&target) = arrows[point].get(next) {
                walk.push((point, next + 1));
                if number[target] == UNSEEN {
                    walk.push((target, 0));
                } else if is_open[target] {
                    low[point] = low[point].min(number[target]);
                }
                continue;
            }
            if let Some(&(parent, _)) = walk.last() {
                low[parent] = low[parent].min(low[point]);
            }
            if low[point] == number[point] {
                let mut circle = Vec::new();
                while let Some(member) = open.pop() {
                    is_open[member] = false;
                    circle.push(member);
                    if member == point {
                        break;
                    }
                }
                if circle.len() > 1 {
                    circle.sort_unstable();
                    found.push(circle);
                }
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(n_points: usize, pairs: &[(usize, usize)], want: &[&[usize]]) {
        let mut arrows = vec![Vec::new(); n_points];
        for (from, to) in pairs {
            arrows[*from].push(*to);
        }
        assert_eq!(circles(&arrows), want);
    }

    #[test]
    fn arrows_that_only_run_down_make_no_circle() {
        finds(0, &[], &[]);
        finds(4, &[(3, 2), (3, 1), (2, 0), (1, 0), (3, 0)], &[]);
    }

    #[test]
    fn a_point_that_names_itself_is_no_circle() {
        finds(2, &[(0, 0), (0, 1)], &[]);
    }

    #[test]
    fn circles_are_found_apart_and_whole() {
        finds(
            7,
            &[
                (0, 1),
                (1, 0),
                (1, 2),
                (2, 3),
                (3, 4),
                (4, 2),
                (4, 5),
                (6, 0),
            ],
            &[&[0, 1], &[2, 3, 4]],
        );
    }

    #[test]
    fn two_loops_through_one_point_are_one_circle() {
        finds(4, &[(1, 0), (0, 1), (1, 3), (3, 1), (2, 1)], &[&[0, 1, 3]]);
    }

    #[test]
    fn a_long_circle_does_not_exhaust_the_stack() {
        let n_points = 200_000;
        let arrows: Vec<Vec<usize>> = (0..n_points).map(|i| vec![(i + 1) % n_points]).collect();
        assert_eq!(circles(&arrows)[0].len(), n_points);
    }

    #[test]
    fn components_agree_with_reachability() {
        // Every graph of four points without loops to itself: 2^12 of them.
        for bits in 0_u32..1 << 12 {
            let mut arrows = vec![Vec::new(); 4];
            let mut reaches = [[false; 4]; 4];
            for pair in 0..12 {
                let (from, to) = (pair / 3, (pair / 3 + pair % 3 + 1) % 4);
                if bits & (1 << pair) != 0 {
                    arrows[from].push(to);
                    reaches[from][to] = true;
                }
            }
            for via in 0..4 {
                for from in 0..4 {
                    for to in 0..4 {
                        reaches[from][to] |= reaches[from][via] && reaches[via][to];
                    }
                }
            }
            let found = circles(&arrows);
            let pairs = (0..4).flat_map(|a| (0..4).map(move |b| (a, b)));
            for (a, b) in pairs.filter(|(a, b)| a != b) {
                let together = found.iter().any(|c| c.contains(&a) && c.contains(&b));
                let both_ways = reaches[a][b] && reaches[b][a];
                assert_eq!(together, both_ways, "{bits:b}: {a} {b}");
            }
        }
    }
}
