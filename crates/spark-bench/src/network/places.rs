//! Where each item of the layers stands, in pixels.
//!
//! ```text
//! wanted x    the mean of the neighbours'
//! x           as near to what is wanted as the order and the widths allow: least squares, by pooling adjacent violators
//! ```

use super::blocks::Block;
use super::layers::{Item, Layers};

/// Height of a line of text.
pub(super) const LINE: f64 = 15.0;
/// Between a box's edge and its text.
pub(super) const PADDING: f64 = 5.0;
/// A character's width in letters of 11 pixels, somewhat wide.
const CHARACTER: f64 = 7.4;
const BETWEEN_ITEMS: f64 = 14.0;
const BETWEEN_LAYERS: f64 = 26.0;
const BORDER: f64 = 20.0;
/// Times that x follows the neighbours, downwards and upwards.
const N_SWEEPS: usize = 10;

/// Centres of items from left to right, tops of layers, and the picture's size.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) x: Vec<f64>,
    pub(super) top: Vec<f64>,
    /// The bottom of the highest box of each layer.
    pub(super) bottom: Vec<f64>,
    pub(super) size: [f64; 2],
}

/// Width and height of a box.
pub(super) fn size_of(block: &Block) -> [f64; 2] {
    let texts = block.lines.iter().map(|(_, text)| text).chain(&block.shape);
    let longest = texts.map(|text| text.chars().count()).max().unwrap_or(0);
    let n_lines = block.lines.len() + usize::from(block.shape.is_some());
    [
        longest as f64 * CHARACTER + 2.0 * PADDING,
        n_lines as f64 * LINE + PADDING,
    ]
}

/// Places for all items.
pub(super) fn of(blocks: &[Block], layers: &Layers) -> Places {
    let size = |item: usize| match layers.items[item] {
        Item::Block(block) => size_of(&blocks[block]),
        Item::Passed => [2.0, 0.0],
    };
    let mut y = BORDER;
    let (mut top, mut bottom) = (Vec::new(), Vec::new());
    for order in &layers.order {
        top.push(y);
        let highest = order.iter().map(|&item| size(item)[1]).fold(0.0, f64::max);
        bottom.push(y + highest);
        y += highest + BETWEEN_LAYERS;
    }
    let mut x = vec![0.0; layers.items.len()];
    for order in &layers.order {
        let mut at = 0.0;
        for &item in order {
            let [width, _] = size(item);
            x[item] = at + width / 2.0;
            at += width + BETWEEN_ITEMS;
        }
    }
    let n_layers = layers.order.len();
    for sweep in 0..N_SWEEPS {
        for step in 0..n_layers {
            let layer = if sweep % 2 == 0 {
                step
            } else {
                n_layers - 1 - step
            };
            let order = &layers.order[layer];
            let wanted = |item: usize| {
                let neighbours = || layers.above[item].iter().chain(&layers.below[item]);
                match neighbours().count() {
                    0 => x[item],
                    n => neighbours().map(|&it| x[it]).sum::<f64>() / n as f64,
                }
            };
            let wanted: Vec<f64> = order.iter().map(|&item| wanted(item)).collect();
            // From the first item's centre to each one's, at least.
            let mut offsets = vec![0.0; order.len()];
            for at in 1..order.len() {
                let widths = size(order[at - 1])[0] + size(order[at])[0];
                offsets[at] = offsets[at - 1] + widths / 2.0 + BETWEEN_ITEMS;
            }
            for (&item, place) in order.iter().zip(nearest(&wanted, &offsets)) {
                x[item] = place;
            }
        }
    }
    let half = |item: usize| size(item)[0] / 2.0;
    let items = || 0..layers.items.len();
    let left = items()
        .map(|item| x[item] - half(item))
        .fold(f64::INFINITY, f64::min);
    let left = if left.is_finite() { left } else { 0.0 };
    x.iter_mut().for_each(|x| *x += BORDER - left);
    let right = items().map(|item| x[item] + half(item)).fold(0.0, f64::max);
    Places {
        x,
        top,
        bottom,
        size: [right + BORDER, y - BETWEEN_LAYERS + BORDER],
    }
}

/// The places nearest to those wanted in which neighbours keep their distances.
fn nearest(wanted: &[f64], offsets: &[f64]) -> Vec<f64> {
    // Without distances: what is wanted must not fall. Runs that do are pooled at their mean.
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (wanted, offset) in wanted.iter().zip(offsets) {
        let mut pool = (wanted - offset, 1);
        while let Some(&(mean, n)) = pools.last()
            && mean > pool.0
        {
            let all = n + pool.1;
            pool = ((mean * n as f64 + pool.0 * pool.1 as f64) / all as f64, all);
            pools.pop();
        }
        pools.push(pool);
    }
    let means = pools
        .into_iter()
        .flat_map(|(mean, n)| std::iter::repeat_n(mean, n));
    means
        .zip(offsets)
        .map(|(mean, offset)| mean + offset)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_keep_their_distances_and_stay_near() {
        assert_eq!(nearest(&[0.0, 100.0], &[0.0, 10.0]), [0.0, 100.0]);
        assert_eq!(nearest(&[50.0, 50.0], &[0.0, 10.0]), [45.0, 55.0]);
        assert_eq!(nearest(&[9.0, 0.0, 0.0], &[0.0, 1.0, 2.0]), [2.0, 3.0, 4.0]);
        assert!(nearest(&[], &[]).is_empty());
    }
}
