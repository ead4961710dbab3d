//! Boxes and edges at their places.

use spark_drawing::colour::{AMBER, BLUE, GRID, INK, MUTED, SHADE, TEAL};
use spark_drawing::{Colour, Fill, Font, Stroke, Svg};

use super::blocks::{Block, Kind};
use super::layers::{Item, Layers};
use super::places::{LINE, PADDING, Places, size_of};

/// Size of the letters.
const LETTERS: f64 = 11.0;
/// How far an edge goes straight down from a box and into one.
const STRAIGHT: f64 = 7.0;

pub(super) fn picture(blocks: &[Block], layers: &Layers, places: &Places) -> Svg {
    let mut svg = Svg::on_paper(places.size[0], places.size[1]);
    // Edges first: boxes lie on them.
    for edge in &layers.edges {
        svg.polyline(way(edge, blocks, layers, places), Stroke::new(MUTED, 1.0));
    }
    for (item, it) in layers.items.iter().enumerate() {
        if let Item::Block(block) = *it {
            let top = places.top[layers.layer[item]];
            draw(&mut svg, &blocks[block], [places.x[item], top]);
        }
    }
    svg
}

/// The points of an edge: from the bottom of its first block past the layers between to the top of its last one.
fn way(edge: &[usize], blocks: &[Block], layers: &Layers, places: &Places) -> Vec<[f64; 2]> {
    let mut points = Vec::new();
    for &item in edge {
        let (x, layer) = (places.x[item], layers.layer[item]);
        let (top, bottom) = (places.top[layer], places.bottom[layer]);
        match layers.items[item] {
            Item::Passed => points.extend([[x, top - STRAIGHT], [x, bottom + STRAIGHT]]),
            Item::Block(block) if points.is_empty() => {
                points.extend([
                    [x, top + size_of(&blocks[block])[1]],
                    [x, bottom + STRAIGHT],
                ]);
            }
            Item::Block(_) => points.extend([[x, top - STRAIGHT], [x, top]]),
        }
    }
    points
}

fn draw(svg: &mut Svg, block: &Block, [x, top]: [f64; 2]) {
    let [width, height] = size_of(block);
    let left = x - width / 2.0;
    // The border is what an inner box leaves of an outer one.
    svg.rect(
        [left - 1.0, top - 1.0],
        [width + 2.0, height + 2.0],
        4.0,
        GRID.into(),
    );
    svg.rect([left, top], [width, height], 3.0, SHADE.into());
    for (idx, (kind, text)) in block.lines.iter().enumerate() {
        let y = top + PADDING / 2.0 + idx as f64 * LINE;
        svg.rect(
            [left, y],
            [3.0, LINE - 1.0],
            0.0,
            Fill::faded(colour_of(*kind), 0.9),
        );
        let font = Font::new(LETTERS, INK);
        let font = if *kind == Kind::Port {
            font.bold()
        } else {
            font
        };
        svg.text([left + PADDING + 1.0, y + 11.0], font, text);
    }
    if let Some(shape) = &block.shape {
        let y = top + PADDING / 2.0 + block.lines.len() as f64 * LINE;
        svg.text(
            [left + PADDING + 1.0, y + 11.0],
            Font::new(LETTERS, MUTED),
            shape,
        );
    }
}

fn colour_of(kind: Kind) -> Colour {
    match kind {
        Kind::Port => INK,
        Kind::Heavy => BLUE,
        Kind::Moving => AMBER,
        Kind::Other => TEAL,
    }
}
