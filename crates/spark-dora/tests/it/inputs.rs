//! Bad settings, bad shapes and bad numbers are errors.

use candle_core::{DType, Device, Tensor};
use candle_nn::{Conv2d, Conv2dConfig, Linear, Module, VarBuilder, VarMap};
use spark_dora::{DoraConfig, DoraConv2d, DoraError, DoraLinear, LayerConfig};

fn store(variables: &VarMap) -> VarBuilder<'static> {
    VarBuilder::from_varmap(variables, DType::F32, &Device::Cpu)
}

fn linear(outputs: usize, inputs: usize) -> Linear {
    let weight = Tensor::ones((outputs, inputs), DType::F32, &Device::Cpu).unwrap();
    Linear::new(weight, None)
}

fn adapted(config: &LayerConfig) -> Result<DoraLinear, DoraError> {
    DoraLinear::from_linear(&linear(6, 4), config, store(&VarMap::new()).pp("fc"))
}

#[test]
fn rank_zero_is_refused() {
    let error = adapted(&LayerConfig::dora(0)).unwrap_err();
    assert!(matches!(error, DoraError::RankZero { layer } if layer == "fc"));
    assert!(matches!(
        DoraConfig::builder(0).build(),
        Err(DoraError::RankZero { .. })
    ));
}

#[test]
fn a_rank_above_both_sides_is_refused() {
    let error = adapted(&LayerConfig::dora(5)).unwrap_err();
    assert!(matches!(
        error,
        DoraError::RankTooLarge {
            rank: 5,
            limit: 4,
            ..
        }
    ));
    assert!(adapted(&LayerConfig::dora(4)).is_ok());
}

#[test]
fn settings_outside_their_range_are_refused() {
    for (alpha, dropout) in [
        (f64::NAN, 0.0),
        (f64::INFINITY, 0.0),
        (1.0, 1.0),
        (1.0, -0.1),
        (1.0, f64::NAN),
    ] {
        let config = LayerConfig {
            alpha,
            dropout,
            ..LayerConfig::dora(2)
        };
        assert!(
            matches!(adapted(&config), Err(DoraError::Setting { .. })),
            "{alpha} {dropout}"
        );
    }
}

#[test]
fn tensors_of_other_shapes_are_named() {
    let t = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
    let make = |a: &[usize], b: &[usize], m: &[usize]| {
        DoraLinear::from_tensors(&linear(6, 4), Some((t(a), t(b))), Some(t(m)), 1.0)
    };
    for (a, b, m, wrong) in [
        ([2, 5], [6, 2], [6], "lora_A.weight"),
        ([2, 4], [6, 3], [6], "lora_B.weight"),
        ([2, 4], [6, 2], [5], "lora_magnitude_vector"),
    ] {
        match make(&a, &b, &m).unwrap_err() {
            DoraError::Shape { name, .. } => assert_eq!(name, wrong),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn inputs_that_do_not_fit_are_errors() {
    let layer = adapted(&LayerConfig::dora(2)).unwrap();
    let t = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
    assert!(layer.forward(&t(&[3, 5])).is_err());
    assert!(layer.forward(&t(&[])).is_err());
    assert_eq!(layer.forward(&t(&[0, 4])).unwrap().dims(), [0, 6]);

    let conv = Conv2d::new(t(&[6, 4, 3, 3]), None, Conv2dConfig::default());
    let conv =
        DoraConv2d::from_conv2d(&conv, &LayerConfig::dora(2), store(&VarMap::new())).unwrap();
    assert!(conv.forward(&t(&[1, 5, 8, 8])).is_err());
    assert!(
        conv.forward(&t(&[1, 4, 2, 8])).is_err(),
        "smaller than the kernel"
    );
    assert!(conv.forward(&t(&[4, 8, 8])).is_err());
    assert_eq!(
        conv.forward(&t(&[0, 4, 8, 8])).unwrap().dims(),
        [0, 6, 6, 6]
    );
}

#[test]
fn convolutions_with_a_zero_setting_are_refused() {
    let weight = Tensor::zeros((6, 4, 3, 3), DType::F32, &Device::Cpu).unwrap();
    let good = Conv2dConfig::default();
    let bad = [
        Conv2dConfig { stride: 0, ..good },
        Conv2dConfig {
            dilation: 0,
            ..good
        },
        Conv2dConfig { groups: 0, ..good },
        Conv2dConfig { groups: 4, ..good },
    ];
    for config in bad {
        let conv = Conv2d::new(weight.clone(), None, config);
        let made = DoraConv2d::from_conv2d(&conv, &LayerConfig::dora(2), store(&VarMap::new()));
        assert!(matches!(made, Err(DoraError::Setting { .. })), "{config:?}");
    }
}

#[test]
fn merging_a_layer_with_a_number_that_is_none_is_refused() {
    for bad in [f32::NAN, f32::INFINITY] {
        let a = Tensor::new(&[[1f32, bad, 0.0, 0.0]], &Device::Cpu).unwrap();
        let b = Tensor::ones((6, 1), DType::F32, &Device::Cpu).unwrap();
        let layer = DoraLinear::from_tensors(&linear(6, 4), Some((a, b)), None, 1.0).unwrap();
        assert!(matches!(layer.merge(), Err(DoraError::NotFinite { .. })));
    }
}

#[test]
fn the_norm_is_computed_once_per_change() {
    let variables = VarMap::new();
    let layer =
        DoraLinear::from_linear(&linear(6, 4), &LayerConfig::dora(2), store(&variables)).unwrap();
    let x = Tensor::ones((3, 4), DType::F32, &Device::Cpu).unwrap();
    let before = layer.factors().norm_computations();
    for _ in 0..4 {
        layer
            .forward(&x)
            .unwrap()
            .sum_all()
            .unwrap()
            .backward()
            .unwrap();
    }
    assert_eq!(
        layer.factors().norm_computations(),
        before,
        "A and B as at the start"
    );
    let b = layer.factors().b().unwrap();
    let b = candle_core::Var::from_tensor(b).unwrap();
    b.set(&Tensor::ones((6, 2), DType::F32, &Device::Cpu).unwrap())
        .unwrap();
    layer.forward(&x).unwrap();
    layer.forward(&x).unwrap();
    assert_eq!(
        layer.factors().norm_computations(),
        before + 1,
        "B changed once"
    );
}
