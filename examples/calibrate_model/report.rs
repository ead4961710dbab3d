//! What a calibration did, as a table, as JSON, and drawn.
//!
//! ```text
//!            error of rounding its inputs                  *
//! layer 1    error of outputs, with all layers before it   o
//! layer 2    ...                                      dB --->
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use spark_program::printable;
use sparkpilot::onnx::calibration::KeptProduct;
use sparkpilot::onnx::precision::OutputErrors;

use spark_drawing::colour::{BLUE, INK, MUTED, RED};
use spark_drawing::{Font, Rows, Scale, Svg};

/// One way to run the network, judged on what was held back.
pub(crate) struct Judged {
    pub(crate) errors: OutputErrors,
    pub(crate) weight_bytes: usize,
    /// Names of the steps in eight or four bits.
    pub(crate) narrow: Vec<String>,
}

pub(crate) struct Report {
    pub(crate) model: String,
    pub(crate) n_batches: usize,
    pub(crate) n_held_back: usize,
    pub(crate) exact: Judged,
    /// Integers have none.
    pub(crate) uncalibrated: Option<Judged>,
    pub(crate) calibrated: Judged,
    pub(crate) layers: Vec<Layer>,
    pub(crate) mix: Option<Mix>,
    /// Products that are not of integers.
    pub(crate) left: Vec<KeptProduct>,
}

/// What was chosen where formats were.
pub(crate) struct Mix {
    /// Layers by format.
    pub(crate) layers: BTreeMap<&'static str, usize>,
    /// Mean over parts on the batches that it was chosen by.
    pub(crate) sqnr_db: f64,
    /// Of all weights, as their formats store them.
    pub(crate) stored_bytes: usize,
}

/// What a format does to one layer.
pub(crate) struct Layer {
    pub(crate) name: String,
    pub(crate) format: &'static str,
    /// Signal to error of inputs and outputs.
    pub(crate) input_db: f64,
    pub(crate) output_db: f64,
}

impl Report {
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "{}: calibrated on {} batches, judged on {} held back",
            printable(&self.model),
            self.n_batches,
            self.n_held_back
        )?;
        if let Some(mix) = &self.mix {
            let layers: Vec<String> = mix
                .layers
                .iter()
                .map(|(name, n)| format!("{n} in {name}"))
                .collect();
            writeln!(
                text,
                "layers: {}; {:.1} dB where chosen; {:.3} MB as stored",
                layers.join(", "),
                mix.sqnr_db,
                mix.stored_bytes as f64 / 1e6
            )?;
        }
        writeln!(
            text,
            "{:24}  {:>10}  {:>10}  {:>10}",
            "", "weights MB", "total dB", "parts dB"
        )?;
        let runs = [
            ("fp32", Some(&self.exact)),
            ("without calibration", self.uncalibrated.as_ref()),
            ("calibrated", Some(&self.calibrated)),
        ];
        for (name, judged) in runs {
            let Some(judged) = judged else { continue };
            writeln!(
                text,
                "{name:24}  {:>10.3}  {:>10.2}  {:>10.2}",
                judged.weight_bytes as f64 / 1e6,
                judged.errors.total_db(),
                judged.errors.mean_db()
            )?;
        }
        let left = self.left_alone();
        if !left.is_empty() {
            writeln!(
                text,
                "in fp32 only where calibrated, for they share a name or weights, or control flow decides whether they run: {}",
                printable(&left.join(", "))
            )?;
        }
        for product in &self.left {
            let (name, why) = (printable(&product.name), product.reason);
            writeln!(text, "in fp32: {name}: {why}")?;
        }
        self.write_parts(text)?;
        writeln!(
            text,
            "\n{:40}  {:>6}  {:>10}  {:>10}",
            "layer", "format", "inputs dB", "outputs dB"
        )?;
        for layer in &self.layers {
            writeln!(
                text,
                "{:40.40}  {:>6}  {:>10.2}  {:>10.2}",
                printable(&layer.name),
                layer.format,
                layer.input_db,
                layer.output_db
            )?;
        }
        Ok(())
    }

    fn write_parts(&self, text: &mut String) -> std::fmt::Result {
        let before: Option<Vec<f64>> = self
            .uncalibrated
            .as_ref()
            .map(|judged| judged.errors.by_part().map(|(_, db)| db).collect());
        let without = before.as_ref().map_or("", |_| "without dB");
        writeln!(
            text,
            "\n{:40}  {without:>12}  {:>12}",
            "part of the outputs", "with dB"
        )?;
        for (part, (name, after)) in self.calibrated.errors.by_part().enumerate() {
            let before = before.as_ref().and_then(|before| before.get(part));
            let before = before.map_or_else(String::new, |before| format!("{before:.2}"));
            writeln!(
                text,
                "{:40.40}  {before:>12}  {after:>12.2}",
                printable(name)
            )?;
        }
        Ok(())
    }

    /// Steps that are narrow without calibration and not with it.
    fn left_alone(&self) -> Vec<&str> {
        let with = &self.calibrated.narrow;
        let without = self.uncalibrated.iter().flat_map(|judged| &judged.narrow);
        without
            .filter(|name| {
                !with.contains(name) || self.layers.iter().all(|layer| layer.name != **name)
            })
            .map(String::as_str)
            .collect()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let judged = |judged: &Judged| {
            let parts = judged.errors.by_part();
            let parts: Vec<_> = parts
                .map(|(name, db)| serde_json::json!({ "name": name, "sqnr_db": db }))
                .collect();
            serde_json::json!({
                "weight_bytes": judged.weight_bytes,
                "total_sqnr_db": judged.errors.total_db(),
                "mean_sqnr_db": judged.errors.mean_db(),
                "parts": parts,
            })
        };
        let layers = self.layers.iter().map(|layer| {
            serde_json::json!({
                "name": layer.name,
                "precision": layer.format,
                "input_sqnr_db": layer.input_db,
                "output_sqnr_db": layer.output_db,
            })
        });
        let left = self.left.iter().map(|product| product.name.as_str());
        let left_alone: Vec<&str> = self.left_alone().into_iter().chain(left).collect();
        let mix = self.mix.as_ref();
        let mix = mix.map(|mix| {
            serde_json::json!({
                "layers": mix.layers,
                "mean_sqnr_db": mix.sqnr_db,
                "stored_bytes": mix.stored_bytes,
            })
        });
        serde_json::json!({
            "schema": "spark-calibration/1",
            "model": self.model,
            "batches": self.n_batches,
            "held_back": self.n_held_back,
            "mix": mix,
            "left_alone": left_alone,
            "fp32": judged(&self.exact),
            "uncalibrated": self.uncalibrated.as_ref().map(judged),
            "calibrated": judged(&self.calibrated),
            "layers": layers.collect::<Vec<_>>(),
        })
    }

    pub(crate) fn drawing(&self) -> String {
        const WIDTH: f64 = 900.0;
        const TOP: f64 = 96.0;
        const NAMES: f64 = 330.0;
        let bottom = TOP + Rows::height(self.layers.len());
        let values = self
            .layers
            .iter()
            .flat_map(|layer| [layer.input_db, layer.output_db]);
        let values = values.filter(|db| db.is_finite());
        let scale = Scale::from_zero(values, [NAMES, WIDTH - 40.0]);
        let mut svg = Svg::on_paper(WIDTH, bottom + 20.0);
        svg.text(
            [20.0, 26.0],
            Font::new(15.0, INK),
            &format!("Signal to error by layer, {}", self.model),
        );
        svg.text(
            [20.0, 48.0],
            Font::new(12.0, BLUE),
            "dB of inputs, before and after rounding",
        );
        let after = "dB of outputs, with the errors of all layers before";
        svg.text([20.0, 66.0], Font::new(12.0, RED), after);
        let mut rows = Rows::new(&mut svg, scale, TOP, self.layers.len());
        for (row, layer) in self.layers.iter().enumerate() {
            let name = format!("{} {}", layer.name, layer.format);
            rows.named(row, &name, MUTED);
            if layer.input_db.is_finite() {
                rows.dot(row, layer.input_db, 0.0, 4.0, BLUE.into());
            }
            if layer.output_db.is_finite() {
                rows.dot(row, layer.output_db, 0.0, 4.0, RED.into());
            }
        }
        svg.finish() + "\n"
    }
}
