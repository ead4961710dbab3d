//! Whole-crate tests, in one binary.

mod calibration;
mod clipped_sizes;
mod conformance;
mod constants_of_programs;
mod control_flow;
mod custom_operator_failures;
mod custom_operators;
mod custom_operators_of_values;
mod deciding_inputs;
mod double_range;
mod dropout;
mod goldens;
mod gradients;
mod hostile_integers;
mod hostile_sizes;
mod hostile_volumes;
mod input_shapes;
mod int8_precision;
mod integer_division;
mod integer_networks;
mod integers_in_bodies;
mod lengths_of_values;
mod masked_attention;
mod memory_budget;
mod one_operation;
mod regions;
mod rounded_activations;
mod scatter_integers;
mod sessions;
mod small_floats;
mod special_values;
mod suppression;
mod tails;
mod tensor_views;
mod transposed_weights;
mod wide_integers;

/// What tests of memory watch.
#[global_allocator]
static ALLOCATOR: spark_testing::Measuring = spark_testing::Measuring;
