//! A network of integers, and what integers do to each of its products on inputs that it has not seen.
//!
//! ```text
//! inputs   |x|^2 / |x - its round trip|^2       x of the f32 network
//! outputs  |y|^2 / |y - y^|^2                   y^ of the network of integers, with all errors before it
//! ```

use super::super::chosen::Calibration;
use super::application::{Applied, Ports, applied};
use super::probe::Probe;
use super::products::KeptProduct;
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

/// What integers do to one product.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProductError {
    /// Name of the node, or of its result where several nodes share a name.
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
    /// `graph` with the products that `calibration` chose for it.
    ///
    /// # Errors
    ///
    /// [`ModelError::Calibration`] for a calibration of another network.
    pub fn of(graph: &Graph, calibration: &Calibration) -> Result<Self, ModelError> {
        let Applied {
            prepared,
            graph,
            products,
            kept,
        } = applied(graph, calibration)?;
        Ok(Self {
            graph,
            kept,
            original: prepared,
            products,
        })
    }

    /// Names of the products that are of integers, in the order in which they run.
    pub fn products(&self) -> impl ExactSizeIterator<Item = &str> {
        self.products.iter().map(|product| product.name.as_str())
    }

    /// What was chosen for its products: with it the network in f32 that it came from runs with the same bits
    /// ([`RunOptions::with_calibration`]).
    pub fn calibration(&self) -> Calibration {
        let products = self.products.iter();
        Calibration::of_integers(products.map(|product| (&product.name, &product.layer)))
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
                    inputs.add(x, ports.layer.input.round_trip(x));
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
