//! Pixels of a few colours: polygons, lines, small text.
//!
//! Its own code: GIF and small PNG want numbers of a palette. Libraries draw in millions of colours with soft edges, which
//! would have to be reduced again, and leave text to another library with fonts.

/// Red, green and blue of every colour.
pub(super) const PALETTE: [[u8; 3]; 10] = [
    [255, 255, 255],
    [236, 239, 242],
    [38, 45, 56],
    [140, 148, 160],
    [222, 226, 232],
    [31, 111, 235],
    [214, 124, 28],
    [200, 44, 56],
    [168, 200, 248],
    [214, 222, 206],
];

/// A place in [`PALETTE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Colour {
    White,
    Road,
    Ink,
    Muted,
    Grid,
    Ego,
    Other,
    Bad,
    Trail,
    Ground,
}

/// A picture; `y` grows downwards.
pub(super) struct Canvas {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) pixels: Vec<u8>,
}

impl Canvas {
    pub(super) fn new(width: usize, height: usize, colour: Colour) -> Self {
        Self {
            width,
            height,
            pixels: vec![colour as u8; width * height],
        }
    }

    /// Fills a polygon by the even-odd rule; a pixel belongs to it if its centre does.
    pub(super) fn polygon(&mut self, points: &[[f64; 2]], colour: Colour) {
        if points.iter().flatten().any(|x| !x.is_finite()) {
            return;
        }
        let rows = points.iter().map(|p| p[1]);
        let (top, bottom) = rows.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), y| {
            (a.min(y), b.max(y))
        });
        let first = (top - 0.5).ceil().max(0.0) as usize;
        let end = ((bottom - 0.5).ceil().max(0.0) as usize).min(self.height);
        let mut crossings = Vec::new();
        for row in first..end {
            let y = row as f64 + 0.5;
            crossings.clear();
            for (i, a) in points.iter().enumerate() {
                let b = points[(i + 1) % points.len()];
                if (a[1] <= y) != (b[1] <= y) {
                    crossings.push(a[0] + (y - a[1]) / (b[1] - a[1]) * (b[0] - a[0]));
                }
            }
            crossings.sort_by(f64::total_cmp);
            for pair in crossings.chunks_exact(2) {
                let column = |x: f64| ((x - 0.5).ceil().max(0.0) as usize).min(self.width);
                let (from, to) = (column(pair[0]), column(pair[1]));
                self.pixels[row * self.width + from..row * self.width + to.max(from)]
                    .fill(colour as u8);
            }
        }
    }

    pub(super) fn rectangle(&mut self, [x, y]: [f64; 2], [w, h]: [f64; 2], colour: Colour) {
        self.polygon(&[[x, y], [x + w, y], [x + w, y + h], [x, y + h]], colour);
    }

    pub(super) fn line(&mut self, a: [f64; 2], b: [f64; 2], width: f64, colour: Colour) {
        let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
        let length = dx.hypot(dy).max(1e-9);
        // Half a width to either side, and a little beyond the ends so that joints close.
        let (along, across) = (0.3 * width / length, 0.5 * width / length);
        let (ex, ey, nx, ny) = (dx * along, dy * along, -dy * across, dx * across);
        let corner = |p: [f64; 2], e: f64, n: f64| [p[0] + e * ex + n * nx, p[1] + e * ey + n * ny];
        let corners = [
            corner(a, -1.0, 1.0),
            corner(b, 1.0, 1.0),
            corner(b, 1.0, -1.0),
            corner(a, -1.0, -1.0),
        ];
        self.polygon(&corners, colour);
    }

    pub(super) fn polyline(&mut self, points: &[[f64; 2]], width: f64, colour: Colour) {
        for pair in points.windows(2) {
            self.line(pair[0], pair[1], width, colour);
        }
    }

    /// Text from `[x, y]` on, which is its upper left corner; unknown characters are left blank.
    pub(super) fn text(&mut self, [x, y]: [f64; 2], text: &str, colour: Colour) {
        const DOT: f64 = 2.0;
        for (place, character) in text.chars().enumerate() {
            let known = GLYPHS.iter().find(|glyph| glyph.0 == character);
            let rows = known.map_or([0; 7], |glyph| glyph.1);
            let left = x + place as f64 * 6.0 * DOT;
            for (row, bits) in rows.into_iter().enumerate() {
                for column in (0..5).filter(|column| bits >> (4 - column) & 1 == 1) {
                    let corner = [left + f64::from(column) * DOT, y + row as f64 * DOT];
                    self.rectangle(corner, [DOT, DOT], colour);
                }
            }
        }
    }
}

/// Five by seven dots, a row per byte.
const GLYPHS: [(char, [u8; 7]); 24] = [
    ('0', [0x0E, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0E]),
    ('1', [0x04, 0x0C, 0x04, 0x04, 0x04, 0x04, 0x0E]),
    ('2', [0x0E, 0x11, 0x01, 0x02, 0x04, 0x08, 0x1F]),
    ('3', [0x1F, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0E]),
    ('4', [0x02, 0x06, 0x0A, 0x12, 0x1F, 0x02, 0x02]),
    ('5', [0x1F, 0x10, 0x1E, 0x01, 0x01, 0x11, 0x0E]),
    ('6', [0x06, 0x08, 0x10, 0x1E, 0x11, 0x11, 0x0E]),
    ('7', [0x1F, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08]),
    ('8', [0x0E, 0x11, 0x11, 0x0E, 0x11, 0x11, 0x0E]),
    ('9', [0x0E, 0x11, 0x11, 0x0F, 0x01, 0x02, 0x0C]),
    ('.', [0x00, 0x00, 0x00, 0x00, 0x00, 0x0C, 0x0C]),
    ('-', [0x00, 0x00, 0x00, 0x1F, 0x00, 0x00, 0x00]),
    ('/', [0x00, 0x01, 0x02, 0x04, 0x08, 0x10, 0x00]),
    ('a', [0x00, 0x00, 0x0E, 0x01, 0x0F, 0x11, 0x0F]),
    ('d', [0x01, 0x01, 0x0D, 0x13, 0x11, 0x11, 0x0F]),
    ('e', [0x00, 0x00, 0x0E, 0x11, 0x1F, 0x10, 0x0E]),
    ('f', [0x06, 0x09, 0x08, 0x1C, 0x08, 0x08, 0x08]),
    ('g', [0x00, 0x0F, 0x11, 0x11, 0x0F, 0x01, 0x0E]),
    ('m', [0x00, 0x00, 0x1A, 0x15, 0x15, 0x11, 0x11]),
    ('o', [0x00, 0x00, 0x0E, 0x11, 0x11, 0x11, 0x0E]),
    ('p', [0x00, 0x00, 0x1E, 0x11, 0x1E, 0x10, 0x10]),
    ('s', [0x00, 0x00, 0x0E, 0x10, 0x0E, 0x01, 0x1E]),
    ('t', [0x08, 0x08, 0x1C, 0x08, 0x08, 0x09, 0x06]),
    ('v', [0x00, 0x00, 0x11, 0x11, 0x11, 0x0A, 0x04]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polygons_fill_the_pixels_whose_centres_they_hold() {
        let mut canvas = Canvas::new(6, 5, Colour::White);
        canvas.rectangle([1.0, 1.0], [3.0, 2.0], Colour::Ink);
        let inked = |canvas: &Canvas| canvas.pixels.iter().filter(|&&p| p != 0).count();
        assert_eq!(inked(&canvas), 6);
        assert_eq!(canvas.pixels[6 + 1], Colour::Ink as u8);
        // Beyond the edges, and not a number.
        canvas.rectangle([-100.0, 4.0], [1000.0, 1000.0], Colour::Ego);
        canvas.polygon(&[[f64::NAN, 0.0], [1.0, 1.0], [2.0, 0.0]], Colour::Ego);
        assert_eq!(inked(&canvas), 12);
    }
}
