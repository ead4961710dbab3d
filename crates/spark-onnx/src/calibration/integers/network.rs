//! A network of integers, and what integers do to each of its products on inputs that it has not seen.
//!
//! ```text
//! inputs   |x|^2 / |x - its round trip|^2       x of the f32 network
//! outputs  |y|^2 / |y - y^|^2                   y^ of the network of integers, with all errors before it
//! ```

use spark_quant::calibration::StaticScale;

use super::probe::Probe;
use crate::graph::{Graph, ValueId};
use crate::options::RunOptions;
use crate::precision::decibels;
use crate::{ModelError, Tensor};

/// A network whose products are of integers, and what it came from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IntegerNetwork {
    /// The network: inputs and outputs as before.
    pub graph: Graph,
    /// Products that stay as they were.
    pub kept: Vec<KeptProduct>,
    pub(super) original: Graph,
    pub(super) products: Vec<Ports>,
}

/// A product that stays in f32.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptProduct {
    /// Name of the node.
    pub name: String,
    /// Why it stays.
    pub reason: &'static str,
}

/// What enters and leaves a product.
#[derive(Debug, Clone)]
pub(super) struct Ports {
    pub(super) name: String,
    pub(super) x: ValueId,
    pub(super) x_scale: StaticScale,
    pub(super) y: ValueId,
    /// `y` of the network of integers, after its round trip.
    pub(super) rounded_y: ValueId,
}

/// What integers do to one product.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProductError {
    /// Name of the node.
    pub name: String,
    /// Signal to error of its inputs in decibels: what rounding them loses; errors of products before are not in it. NaN
    /// where there are no values, or some that are not finite.
    pub input_db: f64,
    /// Signal to error of its outputs in decibels, rounded, after the function that follows: against the f32 network,
    /// with the errors of all products before.
    pub output_db: f64,
}

/// Squares of a value and of its error.
#[derive(Clone, Copy, Default)]
struct Squares {
    n_values: usize,
    signal: f64,
    noise: f64,
}

impl Squares {
    fn add(&mut self, exact: f32, rounded: f32) {
        let (exact, rounded) = (f64::from(exact), f64::from(rounded));
        self.n_values += 1;
        self.signal += exact * exact;
        self.noise += (exact - rounded) * (exact - rounded);
    }

    /// NaN where there was nothing, or something that is not finite.
    fn db(self) -> f64 {
        match self.noise == 0.0 && self.n_values > 0 {
            true => f64::INFINITY,
            false => decibels(self.noise / self.signal),
        }
    }
}

impl IntegerNetwork {
    /// Names of the products that are of integers, in the order in which they run.
    pub fn products(&self) -> impl ExactSizeIterator<Item = &str> {
        self.products.iter().map(|product| product.name.as_str())
    }

    /// Measures the products on `batches`, in the order in which they run. `options` are as for
    /// [`quantise`](super::quantise).
    ///
    /// # Errors
    ///
    /// [`ModelError::InputMissing`] and [`ModelError::InputUnknown`] for a batch; those of planning and running the
    /// networks.
    pub fn errors(
        &self,
        batches: &[Vec<(&str, &Tensor)>],
        options: &RunOptions,
    ) -> Result<Vec<ProductError>, ModelError> {
        let list = |of: fn(&Ports) -> ValueId| self.products.iter().map(of).collect::<Vec<_>>();
        let (x, y) = (list(|ports| ports.x), list(|ports| ports.y));
        let mut exact = Probe::new(&self.original, &[x, y].concat(), options)?;
        let mut rounded = Probe::new(&self.graph, &list(|ports| ports.rounded_y), options)?;
        let mut squares = vec![[Squares::default(); 2]; self.products.len()];
        for batch in batches {
            let exact = exact.values(batch)?;
            let (x, y) = exact.split_at(self.products.len());
            let rounded = rounded.values(batch)?;
            let measured = squares.iter_mut().zip(&self.products);
            for ((([inputs, outputs], ports), x), (y, rounded)) in
                measured.zip(x).zip(y.iter().zip(&rounded))
            {
                for x in x.to_f32() {
                    inputs.add(x, ports.x_scale.round_trip(x));
                }
                for (y, rounded) in y.to_f32().into_iter().zip(rounded.to_f32()) {
                    outputs.add(y, rounded);
                }
            }
        }
        let errors = self.products.iter().zip(squares);
        let errors = errors.map(|(ports, [inputs, outputs])| ProductError {
            name: ports.name.clone(),
            input_db: inputs.db(),
            output_db: outputs.db(),
        });
        Ok(errors.collect())
    }
}
