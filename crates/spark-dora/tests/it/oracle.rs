//! The definition of DoRA, in f64, dense, one loop per index: shares no code with the crate.

use crate::data::noise;

/// A convolution; linear layers are pointwise ones over pictures of one pixel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) batch: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Height and width of the input.
    pub(crate) extent: [usize; 2],
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) padding: [usize; 2],
    pub(crate) dilation: [usize; 2],
    pub(crate) groups: usize,
    pub(crate) rank: usize,
    pub(crate) scaling: f64,
}

/// Everything that goes into a layer.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    pub(crate) x: Vec<f64>,
    pub(crate) w: Vec<f64>,
    pub(crate) bias: Vec<f64>,
    pub(crate) a: Vec<f64>,
    pub(crate) b: Vec<f64>,
    pub(crate) m: Vec<f64>,
}

impl Case {
    /// A linear layer of `tokens` inputs.
    pub(crate) fn linear(tokens: usize, inputs: usize, outputs: usize, rank: usize) -> Self {
        Self {
            batch: tokens,
            inputs,
            outputs,
            extent: [1, 1],
            kernel: [1, 1],
            stride: [1, 1],
            padding: [0, 0],
            dilation: [1, 1],
            groups: 1,
            rank,
            scaling: 1.5,
        }
    }

    pub(crate) fn channels(&self) -> usize {
        self.inputs / self.groups
    }

    pub(crate) fn depth(&self) -> usize {
        self.channels() * self.kernel[0] * self.kernel[1]
    }

    pub(crate) fn out(&self) -> [usize; 2] {
        [0, 1].map(|a| {
            let reach = self.dilation[a] * (self.kernel[a] - 1) + 1;
            (self.extent[a] + 2 * self.padding[a] - reach) / self.stride[a] + 1
        })
    }

    pub(crate) fn results(&self) -> usize {
        self.batch * self.outputs * self.out()[0] * self.out()[1]
    }

    /// Values of all kinds; the magnitudes are not the norms.
    pub(crate) fn values(&self, seed: u64) -> Values {
        let depth = self.depth();
        let mut values = Values {
            x: noise(
                self.batch * self.inputs * self.extent[0] * self.extent[1],
                seed + 1,
            ),
            w: noise(self.outputs * depth, seed + 2),
            bias: noise(self.outputs, seed + 3),
            a: noise(self.rank * depth, seed + 4),
            b: noise(self.outputs * self.rank, seed + 5),
            m: Vec::new(),
        };
        let factor = noise(self.outputs, seed + 6);
        let norms = self.norms(&values);
        values.m = norms
            .iter()
            .zip(factor)
            .map(|(n, f)| n * (1.0 + 0.2 * f))
            .collect();
        values
    }

    /// `W + s B A`.
    fn updated(&self, v: &Values) -> Vec<f64> {
        let depth = self.depth();
        let mut updated = v.w.clone();
        for j in 0..self.outputs {
            for k in 0..depth {
                for l in 0..self.rank {
                    updated[j * depth + k] +=
                        self.scaling * v.b[j * self.rank + l] * v.a[l * depth + k];
                }
            }
        }
        updated
    }

    /// Row norms of `W + s B A`.
    pub(crate) fn norms(&self, v: &Values) -> Vec<f64> {
        let updated = self.updated(v);
        let rows = updated.chunks(self.depth());
        rows.map(|row| row.iter().map(|v| v * v).sum::<f64>().sqrt())
            .collect()
    }

    /// The merged weight, with the norm given.
    pub(crate) fn merged(&self, v: &Values, norms: &[f64]) -> Vec<f64> {
        let mut merged = self.updated(v);
        for (j, row) in merged.chunks_mut(self.depth()).enumerate() {
            let gain = if norms[j] == 0.0 {
                1.0
            } else {
                v.m[j] / norms[j]
            };
            row.iter_mut().for_each(|w| *w *= gain);
        }
        merged
    }

    /// `y`, with the norm given: it is a constant for gradients.
    pub(crate) fn forward(&self, v: &Values, norms: &[f64]) -> Vec<f64> {
        let w = self.merged(v, norms);
        let [out_h, out_w] = self.out();
        let [height, width] = self.extent;
        let (channels, depth) = (self.channels(), self.depth());
        let mut y = vec![0.0; self.results()];
        for (index, y) in y.iter_mut().enumerate() {
            let (ox, rest) = (index % out_w, index / out_w);
            let (oy, rest) = (rest % out_h, rest / out_h);
            let (o, n) = (rest % self.outputs, rest / self.outputs);
            let group = o / (self.outputs / self.groups);
            *y = v.bias[o];
            for c in 0..channels {
                for ky in 0..self.kernel[0] {
                    for kx in 0..self.kernel[1] {
                        let iy = (oy * self.stride[0] + ky * self.dilation[0]) as isize
                            - self.padding[0] as isize;
                        let ix = (ox * self.stride[1] + kx * self.dilation[1]) as isize
                            - self.padding[1] as isize;
                        if iy < 0 || ix < 0 || iy >= height as isize || ix >= width as isize {
                            continue;
                        }
                        let channel = group * channels + c;
                        let x = ((n * self.inputs + channel) * height + iy as usize) * width
                            + ix as usize;
                        let tap = (c * self.kernel[0] + ky) * self.kernel[1] + kx;
                        *y += w[o * depth + tap] * v.x[x];
                    }
                }
            }
        }
        y
    }

    /// Gradients of `sum(g y)` by central differences: exact up to rounding, since `y` is linear in
    /// each number when the norm is held.
    pub(crate) fn gradients(&self, v: &Values, g: &[f64], norms: &[f64]) -> Values {
        let loss = |v: &Values| -> f64 {
            self.forward(v, norms)
                .iter()
                .zip(g)
                .map(|(y, g)| y * g)
                .sum()
        };
        let differentiate = |pick: fn(&mut Values) -> &mut Vec<f64>| -> Vec<f64> {
            let mut changed = v.clone();
            (0..pick(&mut changed).len())
                .map(|i| {
                    let step = 1e-2;
                    let before = pick(&mut changed)[i];
                    pick(&mut changed)[i] = before + step;
                    let up = loss(&changed);
                    pick(&mut changed)[i] = before - step;
                    let down = loss(&changed);
                    pick(&mut changed)[i] = before;
                    (up - down) / (2.0 * step)
                })
                .collect()
        };
        Values {
            x: differentiate(|v| &mut v.x),
            w: Vec::new(),
            bias: differentiate(|v| &mut v.bias),
            a: differentiate(|v| &mut v.a),
            b: differentiate(|v| &mut v.b),
            m: differentiate(|v| &mut v.m),
        }
    }
}
