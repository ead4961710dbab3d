//! How a matrix is cut into panels, and rows into tiles.
//!
//! ```text
//! N columns  ->  panels of 1 to max_panel vectors     as few as possible, as even as possible
//! M rows     ->  tiles of 8, 6, 4 or 1 rows           as many accumulators as registers allow
//! ```

use spark_simd::{Isa, Simd};

/// Most vectors a panel is wide; more rows would not fit the registers.
pub const fn max_panel(isa: Isa) -> usize {
    isa.registers() / 8
}

/// The same of a kernel's own instruction set.
pub const fn max_panel_of<S: Simd>() -> usize {
    S::REGISTERS / 8
}

/// One panel of packed columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panel {
    /// First column of the matrix that the panel holds.
    pub column: usize,
    /// Vectors, the last perhaps partly beyond the matrix (zero there).
    pub vectors: usize,
}

/// How `n` columns are cut into panels: as few as possible, as even as possible.
#[inline]
pub fn panels(isa: Isa, n: usize) -> impl Iterator<Item = Panel> + Clone {
    let lanes = isa.lanes();
    let vectors = n.div_ceil(lanes);
    let count = vectors.div_ceil(max_panel(isa)).max(1);
    (0..count).map(move |i| {
        let first = vectors * i / count;
        Panel {
            column: first * lanes,
            vectors: vectors * (i + 1) / count - first,
        }
    })
}

/// Part `part` of `parts` of the panels of `n` columns: neighbours, because each prefetches the next
/// one's weights.
///
/// # Panics
///
/// If `parts` is zero.
#[inline]
pub fn panels_of_part(
    isa: Isa,
    n: usize,
    (part, parts): (usize, usize),
) -> impl Iterator<Item = Panel> + Clone {
    let count = panels(isa, n).count();
    let (first, last) = (count * part / parts, count * (part + 1) / parts);
    panels(isa, n).skip(first).take(last - first)
}

/// Elements a packed `[depth, n]` matrix takes.
///
/// # Panics
///
/// If that is no `usize`.
#[inline]
pub fn packed_len(isa: Isa, depth: usize, n: usize) -> usize {
    let columns = n.checked_next_multiple_of(isa.lanes());
    let len = columns.and_then(|columns| depth.checked_mul(columns));
    len.expect("the size of a packed matrix")
}

/// Start of a panel in a packed matrix.
#[inline]
pub fn panel_offset(panel: Panel, depth: usize) -> usize {
    depth * panel.column
}

/// Most rows a tile has on any instruction set.
pub const MAX_ROWS: usize = 8;

/// Rows of a full tile that is `vectors` wide: as many accumulators as registers allow.
pub fn full_rows(vectors: usize) -> usize {
    match vectors {
        1 | 3 => 8,
        _ => 6,
    }
}

/// Rows of the next tile, of `left` rows that remain: few tiles, for each reads the whole panel.
#[inline]
pub fn next_rows(vectors: usize, left: usize) -> usize {
    match left {
        // Twice four rather than six and single rows.
        8 | 9 if full_rows(vectors) == 6 => 4,
        _ if left >= full_rows(vectors) => full_rows(vectors),
        4.. => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_cover_all_columns_once() {
        for isa in Isa::available() {
            for n in 1..400 {
                let mut column = 0;
                for panel in panels(isa, n) {
                    assert_eq!(panel.column, column);
                    assert!((1..=max_panel(isa)).contains(&panel.vectors));
                    column += panel.vectors * isa.lanes();
                }
                assert_eq!(column, n.next_multiple_of(isa.lanes()));
            }
        }
    }

    #[test]
    #[should_panic(expected = "the size of a packed matrix")]
    fn a_size_beyond_addresses_is_no_small_one() {
        packed_len(Isa::detect(), usize::MAX, usize::MAX);
    }

    #[test]
    #[should_panic(expected = "the size of a packed matrix")]
    fn columns_up_to_the_last_address_are_no_few() {
        packed_len(Isa::detect(), 1, usize::MAX);
    }
}
