//! A calibration's products of integers, written into the graph that they were chosen for.
//!
//! ```text
//! graph in f32  ──prepared──>  products by name  ──each with its layer──>  graph with Quantize and Dequantize
//! ```
//!
//! What comes out is what [`quantise`](super::quantise) gives, node by node, and so are its bits.
//!
//! Deliberately absent: choosing anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::chosen::{Calibration, refused};
use super::super::integer_layer::{ByteScale, IntegerLayer};
use super::insertion::Insertion;
use super::prepared::prepared;
use super::products::{self, KeptProduct, Product};
use crate::ModelError;
use crate::graph::{Graph, ValueId};

/// What enters and leaves a product, and what was chosen for it.
#[derive(Debug, Clone)]
pub(super) struct Ports {
    pub(super) name: String,
    pub(super) layer: Arc<IntegerLayer>,
    pub(super) x: ValueId,
    pub(super) y: ValueId,
    /// `y` of the network of integers, after its round trip.
    pub(super) rounded_y: ValueId,
}

/// A graph before and after.
pub(super) struct Applied {
    pub(super) prepared: Graph,
    pub(super) graph: Graph,
    pub(super) products: Vec<Ports>,
    pub(super) kept: Vec<KeptProduct>,
}

/// `graph` with the products of `calibration` on integers.
///
/// # Errors
///
/// [`ModelError::Calibration`] for a product that the graph has not, or with other extents, weights or bias, or where
/// two products want one tensor in different scales.
pub(crate) fn of_integers(graph: &Graph, calibration: &Calibration) -> Result<Graph, ModelError> {
    applied(graph, calibration).map(|applied| applied.graph)
}

/// The same with what it came from.
pub(super) fn applied(graph: &Graph, calibration: &Calibration) -> Result<Applied, ModelError> {
    let prepared = prepared(graph)?;
    let (all, mut kept) = products::of(&prepared, &BTreeSet::new())?;
    let mut insertion = Insertion::new(&prepared);
    let mut scales: BTreeMap<ValueId, (ByteScale, String)> = BTreeMap::new();
    let mut ports = Vec::new();
    for product in all {
        let Some(layer) = calibration.integers.get(&product.name) else {
            kept.push(KeptProduct {
                name: product.name,
                reason: "the calibration leaves it",
            });
            continue;
        };
        check(&product, layer)?;
        for (value, bytes) in [(product.x, layer.input), (product.y, layer.output)] {
            let (own, by) = scales
                .entry(value)
                .or_insert_with(|| (bytes, product.name.clone()));
            if *own != bytes {
                let reason = format!("another scale for a tensor than that of `{by}`");
                return Err(refused(&product.name, &reason));
            }
        }
        ports.push(Ports {
            rounded_y: insertion.replace(&product, layer)?,
            x: product.x,
            y: product.y,
            name: product.name,
            layer: Arc::clone(layer),
        });
    }
    let is_missing = |name: &&String| !ports.iter().any(|ports| ports.name == **name);
    if let Some(name) = calibration.integers.keys().find(is_missing) {
        let left = kept.iter().find(|product| product.name == *name);
        let why = left.map_or("the network has no product of this name", |p| p.reason);
        return Err(refused(name, why));
    }
    Ok(Applied {
        graph: insertion.finish(),
        prepared,
        products: ports,
        kept,
    })
}

/// Refuses what was chosen for another product.
fn check(product: &Product, layer: &IntegerLayer) -> Result<(), ModelError> {
    let refused = |reason: &str| Err(refused(&product.name, reason));
    let shape = [product.n_out(), product.depth()];
    if layer.weights.shape() != shape {
        let reason = format!(
            "weights of shape {:?}, where the product has {} outputs of {} inputs",
            layer.weights.shape(),
            shape[0],
            shape[1]
        );
        return refused(&reason);
    }
    if layer.chosen_for != product.digest() {
        return refused("it was made for other weights than the network has");
    }
    match (&layer.bias, &product.bias) {
        (Some(bias), _) if bias.len() != shape[0] => refused("not a bias per output channel"),
        (Some(_), _) if !product.takes_bias => refused("a bias, which the product cannot have"),
        (None, Some(_)) => refused("no bias, where the product has one"),
        _ => Ok(()),
    }
}
