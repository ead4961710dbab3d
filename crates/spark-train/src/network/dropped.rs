//! Adapted layers with dropout: what the adapter changes sees a thinned input, the layer itself the whole one.
//!
//! ```text
//! d = dropout(x)
//! linear, 3x3 ..   y = x W + b + (d W) * (g - 1) + ((d A) B) * g
//! formed           y = conv(x, W) + b + conv(d, W * (g - 1) + (B A) * g)
//! rounded          y = conv(x, Q(W)) + b + conv(d, Q(W') - Q(W))              W' = (W + B A) * g is the input
//! ```
//!
//! These are the sums of PEFT with `use_dora`, in another order: an adapter that changes nothing adds zeros, whatever is dropped.
//! Without magnitudes there is no second product with W. A normalisation in the formed weight is in both.
//!
//! The masks are made by steps of the plan ([`CountedDropout`]), forth and back: none is held, and none comes from the host.
//! They follow from the adapter's seed, the layer's name, how often the layer was used in the pass before, and the pass.

use spark_onnx_graph::Tensor;
use spark_onnx_graph::graph::{Binary, CountedDropout, Node, ValueId};

use super::deployment::Rounding;
use super::layer::Adapted;
use super::layers::Layer;
use super::normalized::Norm;
use super::rewrite::{Inputs, Site, Writer};
use crate::error::Result;

impl Writer {
    /// A layer by its adapter, for the `nth` time in a pass.
    pub(super) fn dropped(
        &mut self,
        mut node: Node,
        site: &Site<'_>,
        (adapted, inputs): (&Adapted, &Inputs),
        norm: Option<&Norm>,
        (pass, nth): (ValueId, usize),
    ) -> Result<()> {
        let name = node.name.clone();
        let (Some(x), Some(weight), Some(mut result)) =
            (node.inputs[0], node.inputs[1], node.outputs[0])
        else {
            self.graph.nodes.push(node);
            return Ok(());
        };
        let dropout = adapted.dropout();
        let op = CountedDropout {
            probability: dropout.probability(),
            key: dropout.key(nth),
        };
        let thinned = self.op(format!("{name}.dropped"), op, &[x, pass], None);
        let frozen = match &site.rounding {
            Some(rounding) => self.rounded(site.layer, adapted, rounding)?,
            None => inputs.frozen.unwrap_or(weight),
        };
        node.inputs[1] = Some(frozen);
        let product = node.op.clone();
        let of_change = match (inputs.weight, self.is_formed(site.layer)) {
            (Some(whole), _) => Some(self.op(
                format!("{name}.change"),
                Binary::Sub,
                &[whole, frozen],
                None,
            )),
            (None, true) => self.formed_change(&name, site, inputs, (frozen, norm))?,
            (None, false) => None,
        };
        if let Some(norm) = norm {
            let constant = self.graph.value(frozen).constant.clone();
            if let Some(constant) = constant {
                let normed = norm.weight(&constant)?;
                node.inputs[1] = Some(self.constant(format!("{name}.normalized"), normed));
            }
            self.normalize(&mut node, norm)?;
            result = norm.result;
        }
        let more = match of_change {
            Some(change) => {
                Some(self.op(format!("{name}.adapted"), product, &[thinned, change], None))
            }
            None => {
                let low = self.low(&name, site, inputs, thinned);
                match inputs.scale {
                    None => low,
                    Some(scale) => {
                        let again = format!("{name}.thinned");
                        let again = self.op(again, product, &[thinned, frozen], None);
                        Some(self.scaled(&name, (again, low), scale)?)
                    }
                }
            }
        };
        let Some(more) = more else {
            self.graph.nodes.push(node);
            return Ok(());
        };
        let own = self.frozen_result(node);
        let sum = format!("{name}.sum");
        self.op(sum, Binary::Add, &[own, more], Some(result));
        Ok(())
    }

    /// The weight under the adapter, as the engine rounds it.
    fn rounded(
        &mut self,
        layer: &Layer,
        adapted: &Adapted,
        rounding: &Rounding,
    ) -> Result<ValueId> {
        let dims = adapted.base_weight()?.dims().to_vec();
        let values = adapted.frozen_weight()?;
        let rounded = rounding.round(&layer.form, &dims, &values)?;
        let (shape, values) = layer.turned(&dims, rounded);
        let tensor = Tensor::from_f32(shape, values)?;
        Ok(self.constant(format!("{}.frozen", layer.name), tensor))
    }

    /// `W * (g - 1) + (B A) * g`, with the normalisation behind it.
    fn formed_change(
        &mut self,
        name: &str,
        site: &Site<'_>,
        inputs: &Inputs,
        (frozen, norm): (ValueId, Option<&Norm>),
    ) -> Result<Option<ValueId>> {
        let low = self.change(name, site, inputs)?;
        let mut change = match inputs.scale {
            Some(scale) => Some(self.scaled(name, (frozen, low), scale)?),
            None => low,
        };
        if let (Some(change), Some(norm)) = (&mut change, norm) {
            let scales = self.scales(name, norm, site.layer)?;
            let wish = format!("{name}.change.normalized");
            *change = self.op(wish, Binary::Mul, &[*change, scales], None);
        }
        Ok(change)
    }

    /// `of_frozen * (g - 1) + of_factors * g`.
    fn scaled(
        &mut self,
        name: &str,
        (of_frozen, of_factors): (ValueId, Option<ValueId>),
        scale: ValueId,
    ) -> Result<ValueId> {
        let one = Tensor::from_f32(Vec::new(), vec![1.0])?;
        let one = self.constant(format!("{name}.one"), one);
        let less = self.op(format!("{name}.scale"), Binary::Sub, &[scale, one], None);
        let turned = format!("{name}.turned");
        let turned = self.op(turned, Binary::Mul, &[of_frozen, less], None);
        let Some(of_factors) = of_factors else {
            return Ok(turned);
        };
        let moved = format!("{name}.scaled");
        let moved = self.op(moved, Binary::Mul, &[of_factors, scale], None);
        Ok(self.op(format!("{name}.both"), Binary::Add, &[turned, moved], None))
    }
}
