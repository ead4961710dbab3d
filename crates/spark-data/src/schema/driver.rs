//! The driver.
//!
//! Places and names are those of openpilot's schema (`log.capnp`, `car.capnp`) of February 2026; `@` is a field's ordinal there.

use super::controls::OnroadEvent;
use super::view::log_struct;
use crate::wire::{Numbers, StructList, StructReader, WireError};

log_struct! {
    /// Whether the driver looks ahead.
    DriverMonitoringState;
    /// `faceDetected` @1.
    face_detected: bool = bool(0);
    /// `isDistracted` @2.
    is_distracted: bool = bool(1);
    /// `awarenessStatus` @3.
    awareness_status: f32 = f32(32);
    /// `isRHD` @4.
    is_rhd: bool = bool(2);
    /// `posePitchOffset` @6.
    pose_pitch_offset: f32 = f32(64);
    /// `posePitchValidCount` @7.
    pose_pitch_valid_count: u32 = u32(96);
    /// `poseYawOffset` @8.
    pose_yaw_offset: f32 = f32(128);
    /// `poseYawValidCount` @9.
    pose_yaw_valid_count: u32 = u32(160);
    /// `stepChange` @10.
    step_change: f32 = f32(192);
    /// `awarenessActive` @11.
    awareness_active: f32 = f32(224);
    /// `awarenessPassive` @12.
    awareness_passive: f32 = f32(256);
    /// `isLowStd` @13.
    is_low_std: bool = bool(4);
    /// `hiStdCount` @14.
    hi_std_count: u32 = u32(288);
    /// `isActiveMode` @16.
    is_active_mode: bool = bool(6);
    /// `distractedType` @17.
    distracted_type: u32 = u32(320);
    /// `events` @18.
    events: Result<StructList<'a, OnroadEvent<'a>>, WireError> = structs(1);
    /// `uncertainCount` @19.
    uncertain_count: u32 = u32(352);
    /// `events` @0, List(OnroadEventDEPRECATED), whose fields have no names here, retired.
    events_old: Result<StructList<'a, StructReader<'a>>, WireError> = structs(0);
    /// `rhdChecked` @5, retired.
    rhd_checked: bool = bool(3);
    /// `isPreview` @15, retired.
    is_preview: bool = bool(5);
    /// `phoneProbOffset` @20, retired.
    phone_prob_offset: f32 = f32(384);
    /// `phoneProbValidCount` @21, retired.
    phone_prob_valid_count: u32 = u32(416);
}

log_struct! {
    /// The driver monitoring model's output.
    DriverStateV2;
    /// `frameId` @0.
    frame_id: u32 = u32(0);
    /// `modelExecutionTime` @1.
    model_execution_time: f32 = f32(32);
    /// `rawPredictions` @3.
    raw_predictions: Result<&'a [u8], WireError> = data(0);
    /// `wheelOnRightProb` @5.
    wheel_on_right_prob: f32 = f32(128);
    /// `leftDriverData` @6.
    left_driver_data: Result<DriverStateV2DriverData<'a>, WireError> = structure(1);
    /// `rightDriverData` @7.
    right_driver_data: Result<DriverStateV2DriverData<'a>, WireError> = structure(2);
    /// `gpuExecutionTime` @8.
    gpu_execution_time: f32 = f32(160);
    /// `dspExecutionTime` @2, retired.
    dsp_execution_time: f32 = f32(64);
    /// `poorVisionProb` @4, retired.
    poor_vision_prob: f32 = f32(96);
}

log_struct! {
    /// A face.
    DriverStateV2DriverData;
    /// `faceOrientation` @0.
    face_orientation: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `faceOrientationStd` @1.
    face_orientation_std: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `facePosition` @2.
    face_position: Result<Numbers<'a, f32>, WireError> = numbers(2);
    /// `facePositionStd` @3.
    face_position_std: Result<Numbers<'a, f32>, WireError> = numbers(3);
    /// `faceProb` @4.
    face_prob: f32 = f32(0);
    /// `leftEyeProb` @5.
    left_eye_prob: f32 = f32(32);
    /// `rightEyeProb` @6.
    right_eye_prob: f32 = f32(64);
    /// `leftBlinkProb` @7.
    left_blink_prob: f32 = f32(96);
    /// `rightBlinkProb` @8.
    right_blink_prob: f32 = f32(128);
    /// `sunglassesProb` @9.
    sunglasses_prob: f32 = f32(160);
    /// `phoneProb` @13.
    phone_prob: f32 = f32(224);
    /// `occludedProb` @10, retired.
    occluded_prob: f32 = f32(192);
    /// `readyProb` @11, retired.
    ready_prob: Result<Numbers<'a, f32>, WireError> = numbers(4);
    /// `notReadyProb` @12, retired.
    not_ready_prob: Result<Numbers<'a, f32>, WireError> = numbers(5);
}

log_struct! {
    /// The driver monitoring model's output in 2019.
    LegacyDriverState;
    /// `frameId` @0.
    frame_id: u32 = u32(0);
    /// `faceOrientation` @3.
    face_orientation: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `facePosition` @4.
    face_position: Result<Numbers<'a, f32>, WireError> = numbers(2);
    /// `faceProb` @5.
    face_prob: f32 = f32(64);
    /// `leftEyeProb` @6.
    left_eye_prob: f32 = f32(96);
    /// `rightEyeProb` @7.
    right_eye_prob: f32 = f32(128);
    /// `leftBlinkProb` @8.
    left_blink_prob: f32 = f32(160);
    /// `rightBlinkProb` @9.
    right_blink_prob: f32 = f32(192);
    /// `faceOrientationStd` @11.
    face_orientation_std: Result<Numbers<'a, f32>, WireError> = numbers(3);
    /// `facePositionStd` @12.
    face_position_std: Result<Numbers<'a, f32>, WireError> = numbers(4);
    /// `sunglassesProb` @13.
    sunglasses_prob: f32 = f32(256);
    /// `modelExecutionTime` @14.
    model_execution_time: f32 = f32(288);
    /// `rawPredictions` @15.
    raw_predictions: Result<&'a [u8], WireError> = data(5);
    /// `dspExecutionTime` @16.
    dsp_execution_time: f32 = f32(320);
    /// `poorVision` @17.
    poor_vision: f32 = f32(352);
    /// `partialFace` @18.
    partial_face: f32 = f32(384);
    /// `distractedPose` @19.
    distracted_pose: f32 = f32(416);
    /// `distractedEyes` @20.
    distracted_eyes: f32 = f32(448);
    /// `eyesOnRoad` @21.
    eyes_on_road: f32 = f32(480);
    /// `phoneUse` @22.
    phone_use: f32 = f32(512);
    /// `occludedProb` @23.
    occluded_prob: f32 = f32(544);
    /// `readyProb` @24.
    ready_prob: Result<Numbers<'a, f32>, WireError> = numbers(6);
    /// `notReadyProb` @25.
    not_ready_prob: Result<Numbers<'a, f32>, WireError> = numbers(7);
    /// `descriptor` @1, retired.
    descriptor: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `std` @2, retired.
    std: f32 = f32(32);
    /// `irPwr` @10, retired.
    ir_pwr: f32 = f32(224);
}
