//! Initial values taken from the weight: PiSSA and OLoRA.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use candle_nn::{Conv1d, Embedding, Linear, Module};
use spark_dora::adapter::{CONFIG_FILE, TENSOR_FILE};
use spark_dora::{
    Adapter, AdapterSet, DoraConfig, DoraConfigBuilder, DoraError, DoraLinear, Init, Offered,
};
use spark_quant::Recipe;

use crate::adapter::{Folder, linear, open};
use crate::data::{assert_close, noise, relative, values};
use crate::packed::packed;

const INITS: [Init; 3] = [Init::Pissa, Init::PissaNiter(4), Init::Olora];

fn tensor(shape: &[usize], seed: u64) -> Tensor {
    let data = noise(shape.iter().product(), seed);
    let tensor = Tensor::from_vec(data, shape, &Device::Cpu).unwrap();
    tensor.to_dtype(DType::F32).unwrap()
}

fn adapter(config: DoraConfigBuilder) -> Adapter {
    Adapter::new(config.build().unwrap(), DType::F32, &Device::Cpu).unwrap()
}

fn adapted(adapter: &mut Adapter, name: &str, base: &Linear) -> DoraLinear {
    match adapter.linear(name, base).unwrap() {
        Offered::Adapted(layer) => layer,
        _ => panic!("every layer is meant"),
    }
}

/// Moves every variable, so that the layer is no longer its base.
fn train(adapter: &Adapter) {
    for (seed, var) in (40..).zip(adapter.variables().all()) {
        let step = (tensor(var.dims(), seed) * 0.1).unwrap();
        let moved = (var.as_tensor().detach() + step).unwrap();
        var.set(&moved).unwrap();
    }
}

/// `s B A` of a layer.
fn update(layer: &DoraLinear) -> Tensor {
    let factors = layer.factors();
    let product = factors.b().unwrap().matmul(factors.a().unwrap()).unwrap();
    (product * factors.scaling()).unwrap().detach()
}

#[test]
fn layers_begin_as_their_base_with_its_norms_and_with_a_and_b_of_its_weight() {
    for (rows, columns) in [(12, 9), (9, 12)] {
        let base = linear(rows, columns, 1);
        let x = tensor(&[4, columns], 2);
        for init in INITS {
            for config in [
                DoraConfig::builder(3).init(init),
                DoraConfig::builder(3).init(init).rslora().alpha(2.0),
                DoraConfig::builder(3).init(init).lora(),
            ] {
                let layer = adapted(&mut adapter(config), "fc", &base);
                let want = values(&base.forward(&x).unwrap());
                assert_close("y", &values(&layer.forward(&x).unwrap()), &want, 1e-6);
                assert_eq!(
                    values(layer.base().unwrap().weight()),
                    values(base.weight()),
                    "the base as it was offered"
                );
                let size = update(&layer).sqr().unwrap().sum_all().unwrap();
                assert!(size.to_scalar::<f32>().unwrap() > 0.1, "not B = 0");
                if let Some(m) = layer.factors().magnitude() {
                    let norms = base.weight().sqr().unwrap().sum(1).unwrap();
                    let norms = values(&norms.sqrt().unwrap());
                    assert_close("m", &values(m), &norms, 1e-6);
                }
            }
        }
    }
}

#[test]
fn pissa_takes_the_largest_singular_values_half_into_each_factor() {
    // A weight of rank 3 is all in A and B; what is left is 0.
    let low = tensor(&[11, 3], 1).matmul(&tensor(&[3, 8], 2)).unwrap();
    for init in [Init::Pissa, Init::PissaNiter(3)] {
        let config = DoraConfig::builder(3).init(init);
        let layer = adapted(&mut adapter(config), "fc", &Linear::new(low.clone(), None));
        assert_close("s B A", &values(&update(&layer)), &values(&low), 1e-6);
    }
    // A A^T and B^T B are the same diagonal matrix: S / s, falling.
    let config = DoraConfig::builder(4).alpha(6.0).init(Init::Pissa);
    let layer = adapted(&mut adapter(config), "fc", &linear(11, 8, 3));
    let (a, b) = (layer.factors().a().unwrap(), layer.factors().b().unwrap());
    let of_a = values(&a.matmul(&a.t().unwrap()).unwrap());
    let of_b = values(&b.t().unwrap().matmul(b).unwrap());
    assert_close("A A^T, B^T B", &of_a, &of_b, 1e-6);
    let diagonal: Vec<f64> = of_a.iter().step_by(5).copied().collect();
    assert!(diagonal.is_sorted_by(|x, y| x > y) && diagonal[3] > 0.1);
    let off = of_a.iter().enumerate().filter(|(at, _)| at % 5 != 0);
    assert!(off.map(|(_, v)| v.abs()).all(|v| v < 1e-6));
    // The largest: no direction of what is left is longer than the last one taken. Power iteration finds it.
    let left = (linear(11, 8, 3).weight() - update(&layer)).unwrap();
    let mut v = tensor(&[8, 1], 5);
    let mut longest = 0.0;
    for _ in 0..200 {
        let next = left.t().unwrap().matmul(&left.matmul(&v).unwrap()).unwrap();
        let length = next.sqr().unwrap().sum_all().unwrap();
        longest = f64::from(length.to_scalar::<f32>().unwrap()).sqrt().sqrt();
        v = (&next / (longest * longest)).unwrap();
    }
    let last = diagonal[3] * layer.factors().scaling();
    assert!(
        longest < last && longest > 0.1 * last,
        "{longest} and {last}"
    );
}

#[test]
fn olora_takes_the_first_rows_and_columns_of_the_qr_decomposition() {
    let base = linear(11, 8, 3);
    let config = DoraConfig::builder(4).alpha(4.0).init(Init::Olora);
    let layer = adapted(&mut adapter(config), "fc", &base);
    let (a, b) = (layer.factors().a().unwrap(), layer.factors().b().unwrap());
    let of_b = values(&b.t().unwrap().matmul(b).unwrap());
    for (at, value) in of_b.iter().enumerate() {
        let want = if at % 5 == 0 { 1.0 } else { 0.0 };
        assert!((value - want).abs() < 1e-6, "B is orthonormal");
    }
    for (l, row) in values(a).chunks(8).enumerate() {
        assert!(row[..l].iter().all(|v| *v == 0.0), "A is triangular");
    }
    // At a scale of 1 the first columns of the weight are all in A and B.
    let first = |t: &Tensor| values(&t.narrow(1, 0, 4).unwrap().contiguous().unwrap());
    assert_close(
        "s B A",
        &first(&update(&layer)),
        &first(base.weight()),
        1e-6,
    );
    // The sign is LAPACK's, as in torch.
    let column = first(base.weight());
    assert!(values(a)[0] * column[0] < 0.0);
}

#[test]
fn files_are_plain_adapters_of_twice_the_rank_and_training_goes_on_from_them() {
    let base = linear(12, 9, 1);
    let x = tensor(&[4, 9], 2);
    for init in INITS {
        for config in [
            DoraConfig::builder(2).alpha(3.0).init(init),
            DoraConfig::builder(2).init(init).rslora().rank("b.fc", 3),
            DoraConfig::builder(2).init(init).lora(),
        ] {
            let mut first = adapter(config);
            let a = adapted(&mut first, "a.fc", &base);
            let b = adapted(&mut first, "b.fc", &base);
            let rank = b.factors().rank();
            train(&first);
            let run = |layers: [&DoraLinear; 2]| {
                let y = layers.map(|layer| values(&layer.forward(&x).unwrap()));
                y.concat()
            };
            let want = run([&a, &b]);
            let plain = values(&base.forward(&x).unwrap());
            assert!(relative(&want, &[plain.clone(), plain].concat()) > 0.01);
            let folder = Folder::new("initial");
            first.save(&folder.0).unwrap();
            let json = std::fs::read_to_string(folder.0.join(CONFIG_FILE)).unwrap();
            assert!(json.contains("\"init_lora_weights\": true"));

            // Opened here: the same ranks to train, the same bits.
            let mut again = open(&folder.0).unwrap();
            let a = adapted(&mut again, "a.fc", &base);
            let b = adapted(&mut again, "b.fc", &base);
            again.finish().unwrap();
            assert_eq!(b.factors().rank(), rank);
            assert_close("opened", &run([&a, &b]), &want, 1e-7);
            let other = Folder::new("initial-again");
            again.save(&other.0).unwrap();
            let read = |folder: &Folder| {
                let path = folder.0.join(TENSOR_FILE);
                let tensors = candle_core::safetensors::load(path, &Device::Cpu).unwrap();
                let tensors: BTreeMap<_, _> = tensors.into_iter().collect();
                tensors
            };
            let (tensors, twice) = (read(&folder), read(&other));
            for (name, tensor) in &tensors {
                assert_eq!(values(tensor), values(&twice[name]), "{name}");
            }
            let a_name = "base_model.model.b.fc.lora_A.weight";
            assert_eq!(tensors[a_name].dims(), [2 * rank, 9]);

            // As PEFT reads it, without this crate's metadata: a plain adapter over the weight itself.
            let tensors: std::collections::HashMap<_, _> = tensors.into_iter().collect();
            candle_core::safetensors::save(&tensors, folder.0.join(TENSOR_FILE)).unwrap();
            let mut peft = open(&folder.0).unwrap();
            let a = adapted(&mut peft, "a.fc", &base);
            let b = adapted(&mut peft, "b.fc", &base);
            peft.finish().unwrap();
            assert_eq!(b.factors().rank(), 2 * rank);
            assert_close("as PEFT", &run([&a, &b]), &want, 2e-6);
        }
    }
}

#[test]
fn networks_are_merged_from_the_weight_that_was_offered() {
    let base = linear(12, 9, 1);
    let x = tensor(&[4, 9], 2);
    for init in INITS {
        let mut trained = adapter(DoraConfig::builder(2).init(init));
        let layer = adapted(&mut trained, "fc", &base);
        train(&trained);
        let want = values(&layer.forward(&x).unwrap());
        let weights = BTreeMap::from([("fc.weight".to_owned(), base.weight().clone())]);
        let (merged, report) = trained.merge(weights).unwrap();
        let merged = Linear::new(merged["fc.weight"].clone(), None);
        assert_close("y", &values(&merged.forward(&x).unwrap()), &want, 1e-6);
        let one = layer.merge().unwrap();
        assert_eq!(values(one.layer.weight()), values(merged.weight()));
        // Against the weight, not against what was left of it.
        let change = (merged.weight() - base.weight()).unwrap();
        let largest = values(&change).iter().fold(0.0f64, |a, b| a.max(b.abs()));
        assert!((report.layers["fc"].max_change - largest).abs() < 1e-6);
        // Of the residual alone it is refused.
        let left = (base.weight() - update(&layer)).unwrap();
        let weights = BTreeMap::from([("fc.weight".to_owned(), left)]);
        assert!(matches!(
            trained.merge(weights),
            Err(DoraError::Base { .. })
        ));
    }
}

#[test]
fn switched_off_the_layer_is_the_weight_that_was_offered() {
    let base = linear(12, 9, 1);
    let x = tensor(&[4, 9], 2);
    let mut set = AdapterSet::new();
    let fc = set.linear("fc", &base).unwrap();
    set.add("pissa", adapter(DoraConfig::builder(2).init(Init::Pissa)))
        .unwrap();
    set.activate("pissa").unwrap();
    train(set.adapter("pissa").unwrap());
    let plain = values(&base.forward(&x).unwrap());
    assert!(relative(&values(&fc.forward(&x).unwrap()), &plain) > 0.01);
    set.disable();
    assert_eq!(values(&fc.forward(&x).unwrap()), plain);
}

#[test]
fn random_decompositions_follow_the_seed() {
    let base = linear(30, 20, 1);
    let begun = |seed, init| {
        let config = DoraConfig::builder(2).init(init).seed(seed);
        let layer = adapted(&mut adapter(config), "fc", &base);
        values(layer.factors().a().unwrap())
    };
    let few = Init::PissaNiter(0);
    assert_eq!(begun(1, few), begun(1, few));
    assert_ne!(begun(1, few), begun(2, few));
    assert_ne!(begun(1, few), begun(1, Init::PissaNiter(2)));
    assert_eq!(begun(1, Init::Pissa), begun(2, Init::Pissa));
}

#[test]
fn what_has_no_such_initial_values_is_refused() {
    for init in INITS {
        let new = || adapter(DoraConfig::builder(2).init(init));
        let conv = Conv1d::new(tensor(&[4, 3, 3], 1), None, Default::default());
        let embedding = Embedding::new(tensor(&[9, 4], 1), 4);
        let packed = packed(Recipe::NVFP4, &[6, 32], 1);
        for error in [
            new().conv1d("x", &conv).err(),
            new().embedding("x", &embedding).err(),
            new().packed_linear("x", &packed, None).err(),
        ] {
            let error = error.expect("refused");
            assert!(
                matches!(&error, DoraError::Unsupported { name: "init", .. }),
                "{error}"
            );
        }
        for alpha in [0.0, -1.0] {
            let config = DoraConfig::builder(2).init(init).alpha(alpha);
            let error = adapter(config).linear("x", &linear(5, 4, 1)).unwrap_err();
            assert!(matches!(error, DoraError::Setting { .. }), "{error}");
        }
        let error = adapter(DoraConfig::builder(9).init(init)).linear("x", &linear(5, 4, 1));
        assert!(matches!(error, Err(DoraError::RankTooLarge { .. })));
    }
    // Only the magnitude is trained: there is nothing to begin.
    let config = DoraConfig::builder(2)
        .targets([""; 0])
        .magnitude_only(["x"])
        .init(Init::Pissa);
    adapter(config).linear("x", &linear(5, 4, 1)).unwrap();
    // A weight of zeros has no directions: everything stays a number.
    let zero = Linear::new(
        Tensor::zeros((5, 4), DType::F32, &Device::Cpu).unwrap(),
        None,
    );
    for init in INITS {
        let layer = adapted(&mut adapter(DoraConfig::builder(2).init(init)), "x", &zero);
        let y = layer.forward(&tensor(&[2, 4], 1)).unwrap();
        assert!(values(&y).iter().all(|y| *y == 0.0));
    }
}
