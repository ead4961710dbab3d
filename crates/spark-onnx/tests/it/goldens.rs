//! The executor against outside truth: every case of every golden file.
//!
//! Bars are the largest difference from the float64 output over that output's largest
//! value: 1e-4 for f32 models, 1e-3 for the model with fp16 weights.

use std::path::Path;

use safetensors::SafeTensors;
use spark_onnx::cpu::Isa;
use spark_onnx::{DType, ModelRunner, RunOptions, Tensor};

use spark_testing::test_data;

/// A tensor of the file, F16 widened to f32.
fn tensor(file: &SafeTensors<'_>, name: &str) -> Tensor {
    let tensor = Tensor::try_from(&file.tensor(name).expect("in the file")).expect("a float");
    match tensor.dtype() {
        DType::F16 => Tensor::from_f32(tensor.shape(), tensor.to_f32()).expect("as many"),
        _ => tensor,
    }
}

/// Runs every case of `golden` and checks every output against its float64 truth.
#[track_caller]
fn check(model: &str, golden: &str, bar: f64, options: &RunOptions) {
    let (Some(model), Some(golden)) = (
        test_data(&format!("data/models/{model}")),
        test_data(&format!("data/models/goldens/{golden}")),
    ) else {
        return;
    };
    let mut runner = ModelRunner::load(Path::new(&model), options).expect("loads");
    let bytes = std::fs::read(golden).expect("readable");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let mut n_outputs = 0;
    for case in 0..3 {
        let inputs: Vec<(String, Tensor)> = file
            .names()
            .iter()
            .filter_map(|n| Some(((*n).to_owned(), n.strip_prefix(&format!("case{case}/in/"))?)))
            .map(|(full, name)| (name.to_owned(), tensor(&file, &full)))
            .collect();
        let borrowed: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
        for (name, got) in runner.run(&borrowed).expect("runs") {
            let want = tensor(&file, &format!("case{case}/out64/{name}")).to_f64();
            let scale = want.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            let got = got.to_f64();
            assert_eq!(got.len(), want.len());
            let worst = got.iter().zip(&want).fold(0.0f64, |m, (g, w)| {
                let d = (g - w).abs();
                if d.is_finite() {
                    m.max(d)
                } else {
                    f64::INFINITY
                }
            });
            assert!(
                worst <= bar * scale,
                "case {case}, {name}: {worst:e} of {scale:e}"
            );
            n_outputs += 1;
        }
    }
    assert!(n_outputs >= 3, "no output was compared");
}

#[test]
fn trained_monitoring_models_reproduce_their_goldens() {
    for isa in Isa::available() {
        let options = RunOptions::new().with_threads(1).with_isa(isa);
        check(
            "dmonitoring_0_8_9.onnx",
            "dmonitoring_0_8_9.safetensors",
            1e-4,
            &options,
        );
        check(
            "dmonitoring_0_8_5.onnx",
            "dmonitoring_0_8_5.safetensors",
            1e-4,
            &options,
        );
    }
}

#[test]
fn the_fp16_supercombo_reproduces_its_goldens() {
    let golden = "supercombo_0_7_4_random_fp16.safetensors";
    let options = RunOptions::new().with_threads(2);
    check("supercombo_0_7_4_random_fp16.onnx", golden, 1e-3, &options);
}
