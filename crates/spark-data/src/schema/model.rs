//! The driving model's output.
//!
//! Places and names are those of openpilot's schema (`log.capnp`, `car.capnp`) of February 2026; `@` is a field's ordinal there.

use super::enums::{ConfidenceClass, LaneChangeDirection, LaneChangeState};
use super::view::log_struct;
use crate::wire::{Numbers, StructList, StructReader, WireError};

log_struct! {
    /// The driving model's output; x forward, y right, z down from the camera, m. Paths have 33 points at 10 (i/32)^2 s.
    ModelDataV2;
    /// `frameId` @0.
    frame_id: u32 = u32(0);
    /// `frameAge` @1.
    frame_age: u32 = u32(32);
    /// `frameDropPerc` @2.
    frame_drop_perc: f32 = f32(64);
    /// `timestampEof` @3.
    timestamp_eof: u64 = u64(128);
    /// `position` @4.
    position: Result<XYZTData<'a>, WireError> = structure(0);
    /// `orientation` @5.
    orientation: Result<XYZTData<'a>, WireError> = structure(1);
    /// `velocity` @6.
    velocity: Result<XYZTData<'a>, WireError> = structure(2);
    /// `orientationRate` @7.
    orientation_rate: Result<XYZTData<'a>, WireError> = structure(3);
    /// `laneLines` @8.
    lane_lines: Result<StructList<'a, XYZTData<'a>>, WireError> = structs(4);
    /// `laneLineProbs` @9.
    lane_line_probs: Result<Numbers<'a, f32>, WireError> = numbers(5);
    /// `roadEdges` @10.
    road_edges: Result<StructList<'a, XYZTData<'a>>, WireError> = structs(6);
    /// `leads` @11, List(LeadDataV2), whose fields have no names here.
    leads: Result<StructList<'a, StructReader<'a>>, WireError> = structs(7);
    /// `meta` @12.
    meta: Result<ModelDataV2MetaData<'a>, WireError> = structure(8);
    /// `laneLineStds` @13.
    lane_line_stds: Result<Numbers<'a, f32>, WireError> = numbers(9);
    /// `roadEdgeStds` @14.
    road_edge_stds: Result<Numbers<'a, f32>, WireError> = numbers(10);
    /// `modelExecutionTime` @15.
    model_execution_time: f32 = f32(96);
    /// `rawPredictions` @16.
    raw_predictions: Result<&'a [u8], WireError> = data(11);
    /// `leadsV3` @18.
    leads_v3: Result<StructList<'a, ModelDataV2LeadDataV3<'a>>, WireError> = structs(12);
    /// `acceleration` @19.
    acceleration: Result<XYZTData<'a>, WireError> = structure(13);
    /// `frameIdExtra` @20.
    frame_id_extra: u32 = u32(224);
    /// `confidence` @23.
    confidence: ConfidenceClass = enumerant(272);
    /// `action` @26.
    action: Result<ModelDataV2Action<'a>, WireError> = structure(16);
    /// `gpuExecutionTime` @17, retired.
    gpu_execution_time: f32 = f32(192);
    /// `temporalPose` @21, retired.
    temporal_pose: Result<ModelDataV2Pose<'a>, WireError> = structure(14);
    /// `navEnabled` @22, retired.
    nav_enabled: bool = bool(256);
    /// `locationMonoTime` @24, retired.
    location_mono_time: u64 = u64(320);
    /// `lateralPlannerSolution` @25, retired.
    lateral_planner_solution: Result<ModelDataV2LateralPlannerSolution<'a>, WireError> = structure(15);
}

log_struct! {
    /// Points of a path or line.
    XYZTData;
    /// `x` @0.
    x: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `y` @1.
    y: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `z` @2.
    z: Result<Numbers<'a, f32>, WireError> = numbers(2);
    /// `t` @3.
    t: Result<Numbers<'a, f32>, WireError> = numbers(3);
    /// `xStd` @4.
    x_std: Result<Numbers<'a, f32>, WireError> = numbers(4);
    /// `yStd` @5.
    y_std: Result<Numbers<'a, f32>, WireError> = numbers(5);
    /// `zStd` @6.
    z_std: Result<Numbers<'a, f32>, WireError> = numbers(6);
}

log_struct! {
    /// A car ahead, at 0, 2, 4, 6, 8, 10 s: x from the camera, y to the right, its own speed and acceleration.
    ModelDataV2LeadDataV3;
    /// `prob` @0.
    prob: f32 = f32(0);
    /// `probTime` @1.
    prob_time: f32 = f32(32);
    /// `t` @2.
    t: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `x` @3.
    x: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `xStd` @4.
    x_std: Result<Numbers<'a, f32>, WireError> = numbers(2);
    /// `y` @5.
    y: Result<Numbers<'a, f32>, WireError> = numbers(3);
    /// `yStd` @6.
    y_std: Result<Numbers<'a, f32>, WireError> = numbers(4);
    /// `v` @7.
    v: Result<Numbers<'a, f32>, WireError> = numbers(5);
    /// `vStd` @8.
    v_std: Result<Numbers<'a, f32>, WireError> = numbers(6);
    /// `a` @9.
    a: Result<Numbers<'a, f32>, WireError> = numbers(7);
    /// `aStd` @10.
    a_std: Result<Numbers<'a, f32>, WireError> = numbers(8);
}

log_struct! {
    /// What the driver will do.
    ModelDataV2MetaData;
    /// `engagedProb` @0.
    engaged_prob: f32 = f32(0);
    /// `desirePrediction` @1.
    desire_prediction: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `desireState` @5.
    desire_state: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `disengagePredictions` @6.
    disengage_predictions: Result<ModelDataV2DisengagePredictions<'a>, WireError> = structure(2);
    /// `hardBrakePredicted` @7.
    hard_brake_predicted: bool = bool(128);
    /// `laneChangeState` @8.
    lane_change_state: LaneChangeState = enumerant(144);
    /// `laneChangeDirection` @9.
    lane_change_direction: LaneChangeDirection = enumerant(160);
    /// `brakeDisengageProb` @2, retired.
    brake_disengage_prob: f32 = f32(32);
    /// `gasDisengageProb` @3, retired.
    gas_disengage_prob: f32 = f32(64);
    /// `steerOverrideProb` @4, retired.
    steer_override_prob: f32 = f32(96);
}

log_struct! {
    /// How likely the driver takes over.
    ModelDataV2DisengagePredictions;
    /// `t` @0.
    t: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `brakeDisengageProbs` @1.
    brake_disengage_probs: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `gasDisengageProbs` @2.
    gas_disengage_probs: Result<Numbers<'a, f32>, WireError> = numbers(2);
    /// `steerOverrideProbs` @3.
    steer_override_probs: Result<Numbers<'a, f32>, WireError> = numbers(3);
    /// `brake3MetersPerSecondSquaredProbs` @4.
    brake3_meters_per_second_squared_probs: Result<Numbers<'a, f32>, WireError> = numbers(4);
    /// `brake4MetersPerSecondSquaredProbs` @5.
    brake4_meters_per_second_squared_probs: Result<Numbers<'a, f32>, WireError> = numbers(5);
    /// `brake5MetersPerSecondSquaredProbs` @6.
    brake5_meters_per_second_squared_probs: Result<Numbers<'a, f32>, WireError> = numbers(6);
    /// `gasPressProbs` @7.
    gas_press_probs: Result<Numbers<'a, f32>, WireError> = numbers(7);
    /// `brakePressProbs` @8.
    brake_press_probs: Result<Numbers<'a, f32>, WireError> = numbers(8);
}

log_struct! {
    /// The camera's motion.
    ModelDataV2Pose;
    /// `trans` @0.
    trans: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `rot` @1.
    rot: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `transStd` @2.
    trans_std: Result<Numbers<'a, f32>, WireError> = numbers(2);
    /// `rotStd` @3.
    rot_std: Result<Numbers<'a, f32>, WireError> = numbers(3);
}

log_struct! {
    /// What the model asks for.
    ModelDataV2Action;
    /// `desiredCurvature` @0.
    desired_curvature: f32 = f32(0);
    /// `desiredAcceleration` @1.
    desired_acceleration: f32 = f32(32);
    /// `shouldStop` @2.
    should_stop: bool = bool(64);
}

log_struct! {
    /// A path that was planned.
    ModelDataV2LateralPlannerSolution;
    /// `x` @0.
    x: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `y` @1.
    y: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `yaw` @2.
    yaw: Result<Numbers<'a, f32>, WireError> = numbers(2);
    /// `yawRate` @3.
    yaw_rate: Result<Numbers<'a, f32>, WireError> = numbers(3);
    /// `xStd` @4.
    x_std: Result<Numbers<'a, f32>, WireError> = numbers(4);
    /// `yStd` @5.
    y_std: Result<Numbers<'a, f32>, WireError> = numbers(5);
    /// `yawStd` @6.
    yaw_std: Result<Numbers<'a, f32>, WireError> = numbers(6);
    /// `yawRateStd` @7.
    yaw_rate_std: Result<Numbers<'a, f32>, WireError> = numbers(7);
}

log_struct! {
    /// A small part of the model's output, for qlogs.
    DrivingModelData;
    /// `frameId` @0.
    frame_id: u32 = u32(0);
    /// `frameIdExtra` @1.
    frame_id_extra: u32 = u32(32);
    /// `action` @2.
    action: Result<ModelDataV2Action<'a>, WireError> = structure(0);
    /// `laneLineMeta` @3.
    lane_line_meta: Result<DrivingModelDataLaneLineMeta<'a>, WireError> = structure(1);
    /// `meta` @4.
    meta: Result<DrivingModelDataMetaData<'a>, WireError> = structure(2);
    /// `path` @5.
    path: Result<DrivingModelDataPolyPath<'a>, WireError> = structure(3);
    /// `frameDropPerc` @6.
    frame_drop_perc: f32 = f32(64);
    /// `modelExecutionTime` @7.
    model_execution_time: f32 = f32(96);
}

log_struct! {
    /// The path as polynomials of time, lowest power first.
    DrivingModelDataPolyPath;
    /// `xCoefficients` @0.
    x_coefficients: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `yCoefficients` @1.
    y_coefficients: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `zCoefficients` @2.
    z_coefficients: Result<Numbers<'a, f32>, WireError> = numbers(2);
}

log_struct! {
    /// The lane lines beside the car.
    DrivingModelDataLaneLineMeta;
    /// `leftY` @0.
    left_y: f32 = f32(0);
    /// `rightY` @1.
    right_y: f32 = f32(32);
    /// `leftProb` @2.
    left_prob: f32 = f32(64);
    /// `rightProb` @3.
    right_prob: f32 = f32(96);
}

log_struct! {
    /// Lane changes.
    DrivingModelDataMetaData;
    /// `laneChangeState` @0.
    lane_change_state: LaneChangeState = enumerant(0);
    /// `laneChangeDirection` @1.
    lane_change_direction: LaneChangeDirection = enumerant(16);
}

log_struct! {
    /// The model's output in 2019.
    ModelData;
    /// `frameId` @0.
    frame_id: u32 = u32(0);
    /// `path` @1.
    path: Result<ModelDataPathData<'a>, WireError> = structure(0);
    /// `leftLane` @2.
    left_lane: Result<ModelDataPathData<'a>, WireError> = structure(1);
    /// `rightLane` @3.
    right_lane: Result<ModelDataPathData<'a>, WireError> = structure(2);
    /// `lead` @4.
    lead: Result<ModelDataLeadData<'a>, WireError> = structure(3);
    /// `settings` @5, ModelSettings, whose fields have no names here.
    settings: Result<StructReader<'a>, WireError> = structure(4);
    /// `freePath` @6.
    free_path: Result<Numbers<'a, f32>, WireError> = numbers(5);
    /// `leadFuture` @7.
    lead_future: Result<ModelDataLeadData<'a>, WireError> = structure(6);
    /// `speed` @8.
    speed: Result<Numbers<'a, f32>, WireError> = numbers(7);
    /// `timestampEof` @9.
    timestamp_eof: u64 = u64(64);
    /// `meta` @10.
    meta: Result<ModelDataMetaData<'a>, WireError> = structure(8);
    /// `longitudinal` @11.
    longitudinal: Result<ModelDataLongitudinalData<'a>, WireError> = structure(9);
    /// `frameAge` @12.
    frame_age: u32 = u32(32);
    /// `frameDropPerc` @13.
    frame_drop_perc: f32 = f32(128);
    /// `modelExecutionTime` @14.
    model_execution_time: f32 = f32(160);
    /// `rawPred` @15.
    raw_pred: Result<&'a [u8], WireError> = data(10);
    /// `gpuExecutionTime` @16.
    gpu_execution_time: f32 = f32(192);
}

log_struct! {
    /// A path or line of 2019.
    ModelDataPathData;
    /// `points` @0.
    points: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `prob` @1.
    prob: f32 = f32(0);
    /// `std` @2.
    std: f32 = f32(32);
    /// `stds` @3.
    stds: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `poly` @4.
    poly: Result<Numbers<'a, f32>, WireError> = numbers(2);
    /// `validLen` @5.
    valid_len: f32 = f32(64);
}

log_struct! {
    /// A car ahead, of 2019.
    ModelDataLeadData;
    /// `dist` @0.
    dist: f32 = f32(0);
    /// `prob` @1.
    prob: f32 = f32(32);
    /// `std` @2.
    std: f32 = f32(64);
    /// `relVel` @3.
    rel_vel: f32 = f32(96);
    /// `relVelStd` @4.
    rel_vel_std: f32 = f32(128);
    /// `relY` @5.
    rel_y: f32 = f32(160);
    /// `relYStd` @6.
    rel_y_std: f32 = f32(192);
    /// `relA` @7.
    rel_a: f32 = f32(224);
    /// `relAStd` @8.
    rel_a_std: f32 = f32(256);
}

log_struct! {
    /// What the driver will do, of 2019.
    ModelDataMetaData;
    /// `engagedProb` @0.
    engaged_prob: f32 = f32(0);
    /// `desirePrediction` @1.
    desire_prediction: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `brakeDisengageProb` @2.
    brake_disengage_prob: f32 = f32(32);
    /// `gasDisengageProb` @3.
    gas_disengage_prob: f32 = f32(64);
    /// `steerOverrideProb` @4.
    steer_override_prob: f32 = f32(96);
    /// `desireState` @5.
    desire_state: Result<Numbers<'a, f32>, WireError> = numbers(1);
}

log_struct! {
    /// Speeds of 2019.
    ModelDataLongitudinalData;
    /// `speeds` @0.
    speeds: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `accelerations` @1.
    accelerations: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `distances` @2.
    distances: Result<Numbers<'a, f32>, WireError> = numbers(2);
}
