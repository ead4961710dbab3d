//! Every crate answers under its name in the facade, and they fit together.

use sparkpilot::hal::{Machine, Root, Sources};
use sparkpilot::onnx::{DType, ModelRunner, RunOptions, Tensor};
use sparkpilot::quant::scalar::MiniFormat;
use sparkpilot::sim::integrate::VehicleBatch;
use sparkpilot::sim::vehicle::VehicleModel;
use sparkpilot::zoo::{self, ZooModel};

#[test]
fn a_machine_without_files_is_no_spark_and_no_panic() {
    let empty = Root::at("a-folder-that-does-not-exist");
    let machine = Machine::read(&Sources::files(empty));
    assert!(!machine.is_dgx_spark());
    assert!(machine.best_gpu().is_none());
}

#[test]
fn detection_of_this_machine_gives_the_same_answer_twice() {
    let machine = sparkpilot::hal::machine();
    assert!(std::ptr::eq(machine, sparkpilot::hal::machine()));
    assert_eq!(machine.is_dgx_spark(), sparkpilot::hal::is_dgx_spark());
    assert!(!machine.summary().is_empty());
}

#[test]
fn zoo_models_say_that_their_weights_are_random() {
    for model in ZooModel::ALL {
        assert!(zoo::has_random_weights(&model.build(0)), "{}", model.name());
    }
}

#[test]
fn the_largest_e4m3_is_448() {
    assert_eq!(MiniFormat::E4m3.spec().max(), 448.0);
}

#[test]
fn a_policy_runs_to_finite_outputs_of_its_shape() {
    let options = RunOptions::new().with_threads(1);
    let mut runner = ModelRunner::from_graph(zoo::driving_policy(0), &options).unwrap();
    let desire = Tensor::zeros(DType::F32, [1, 25, 8]).unwrap();
    let traffic = Tensor::from_f32([1, 2], vec![1.0, 0.0]).unwrap();
    let features = Tensor::zeros(DType::F32, [1, 25, 512]).unwrap();
    let inputs = [
        ("desire_pulse", &desire),
        ("traffic_convention", &traffic),
        ("features_buffer", &features),
    ];
    let outputs = runner.run(&inputs).unwrap();
    assert_eq!(outputs[0].1.shape(), [1, 1000]);
    assert!(outputs[0].1.to_f32().iter().all(|value| value.is_finite()));
}

#[test]
fn a_batch_holds_as_many_vehicles_as_asked_for() {
    let batch = VehicleBatch::<f32>::new(VehicleModel::Kinematic, 3);
    assert_eq!(batch.n_lanes(), 3);
}
