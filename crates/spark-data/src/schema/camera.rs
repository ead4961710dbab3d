//! Frames, where they are, and the camera's angles.
//!
//! Places and names are those of openpilot's schema (`log.capnp`, `car.capnp`) of February 2026; `@` is a field's ordinal there.

use super::enums::{CalibrationStatus, EncodeType, ImageSensor};
use super::view::log_struct;
use crate::wire::{Numbers, StructReader, WireError};

log_struct! {
    /// Motion of the camera: m/s and rad/s; x forward, y right, z down.
    CameraOdometry;
    /// `trans` @0.
    trans: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `rot` @1.
    rot: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `transStd` @2.
    trans_std: Result<Numbers<'a, f32>, WireError> = numbers(2);
    /// `rotStd` @3.
    rot_std: Result<Numbers<'a, f32>, WireError> = numbers(3);
    /// `frameId` @4.
    frame_id: u32 = u32(0);
    /// `timestampEof` @5.
    timestamp_eof: u64 = u64(64);
    /// `wideFromDeviceEuler` @6.
    wide_from_device_euler: Result<Numbers<'a, f32>, WireError> = numbers(4);
    /// `wideFromDeviceEulerStd` @7.
    wide_from_device_euler_std: Result<Numbers<'a, f32>, WireError> = numbers(5);
    /// `roadTransformTrans` @8.
    road_transform_trans: Result<Numbers<'a, f32>, WireError> = numbers(6);
    /// `roadTransformTransStd` @9.
    road_transform_trans_std: Result<Numbers<'a, f32>, WireError> = numbers(7);
}

log_struct! {
    /// How a frame was taken; times are of the monotonic clock, ns.
    FrameData;
    /// `frameId` @0.
    frame_id: u32 = u32(0);
    /// `encodeId` @1.
    encode_id: u32 = u32(32);
    /// `timestampEof` @2.
    timestamp_eof: u64 = u64(64);
    /// `integLines` @4.
    integ_lines: i32 = i32(160);
    /// `image` @6.
    image: Result<&'a [u8], WireError> = data(0);
    /// `timestampSof` @8.
    timestamp_sof: u64 = u64(256);
    /// `transform` @10.
    transform: Result<Numbers<'a, f32>, WireError> = numbers(2);
    /// `gain` @15.
    gain: f32 = f32(448);
    /// `highConversionGain` @20.
    high_conversion_gain: bool = bool(240);
    /// `measuredGreyFraction` @21.
    measured_grey_fraction: f32 = f32(512);
    /// `targetGreyFraction` @22.
    target_grey_fraction: f32 = f32(544);
    /// `processingTime` @23.
    processing_time: f32 = f32(576);
    /// `temperaturesC` @24.
    temperatures_c: Result<Numbers<'a, f32>, WireError> = numbers(6);
    /// `frameIdSensor` @25.
    frame_id_sensor: u32 = u32(608);
    /// `sensor` @26.
    sensor: ImageSensor = enumerant(640);
    /// `exposureValPercent` @27.
    exposure_val_percent: f32 = f32(672);
    /// `requestId` @28.
    request_id: u32 = u32(704);
    /// `frameLength` @3, retired.
    frame_length: i32 = i32(128);
    /// `globalGain` @5, retired.
    global_gain: i32 = i32(192);
    /// `frameType` @7, FrameTypeDEPRECATED by number, retired.
    frame_type: u16 = u16(224);
    /// `androidCaptureResult` @9, AndroidCaptureResult, whose fields have no names here, retired.
    android_capture_result: Result<StructReader<'a>, WireError> = structure(1);
    /// `lensPos` @11, retired.
    lens_pos: i32 = i32(320);
    /// `lensSag` @12, retired.
    lens_sag: f32 = f32(352);
    /// `lensErr` @13, retired.
    lens_err: f32 = f32(384);
    /// `lensTruePos` @14, retired.
    lens_true_pos: f32 = f32(416);
    /// `focusVal` @16, retired.
    focus_val: Result<Numbers<'a, i16>, WireError> = numbers(3);
    /// `focusConf` @17, retired.
    focus_conf: Result<Numbers<'a, u8>, WireError> = numbers(4);
    /// `sharpnessScore` @18, retired.
    sharpness_score: Result<Numbers<'a, u16>, WireError> = numbers(5);
    /// `recoverState` @19, retired.
    recover_state: i32 = i32(480);
}

log_struct! {
    /// Where a frame is in its video file.
    EncodeIndex;
    /// `frameId` @0.
    frame_id: u32 = u32(0);
    /// `type` @1.
    kind: EncodeType = enumerant(32);
    /// `encodeId` @2.
    encode_id: u32 = u32(64);
    /// `segmentNum` @3.
    segment_num: i32 = i32(96);
    /// `segmentId` @4.
    segment_id: u32 = u32(128);
    /// `segmentIdEncode` @5.
    segment_id_encode: u32 = u32(160);
    /// `timestampSof` @6.
    timestamp_sof: u64 = u64(192);
    /// `timestampEof` @7.
    timestamp_eof: u64 = u64(256);
    /// `flags` @8.
    flags: u32 = u32(320);
    /// `len` @9.
    n_bytes: u32 = u32(352);
}

log_struct! {
    /// An encoded frame between processes; no log has it.
    EncodeData;
    /// `idx` @0.
    idx: Result<EncodeIndex<'a>, WireError> = structure(0);
    /// `data` @1.
    data: Result<&'a [u8], WireError> = data(1);
    /// `header` @2.
    header: Result<&'a [u8], WireError> = data(2);
    /// `unixTimestampNanos` @3.
    unix_timestamp_nanos: u64 = u64(0);
    /// `width` @4.
    width: u32 = u32(64);
    /// `height` @5.
    height: u32 = u32(96);
}

log_struct! {
    /// The camera's angles: roll, pitch, yaw, rad.
    LiveCalibrationData;
    /// `calCycle` @2.
    cal_cycle: i32 = i32(32);
    /// `calPerc` @3.
    cal_perc: i8 = i8(8);
    /// `extrinsicMatrix` @4.
    extrinsic_matrix: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `rpyCalib` @7.
    rpy_calib: Result<Numbers<'a, f32>, WireError> = numbers(4);
    /// `rpyCalibSpread` @8.
    rpy_calib_spread: Result<Numbers<'a, f32>, WireError> = numbers(5);
    /// `validBlocks` @9.
    valid_blocks: i32 = i32(64);
    /// `wideFromDeviceEuler` @10.
    wide_from_device_euler: Result<Numbers<'a, f32>, WireError> = numbers(6);
    /// `calStatus` @11.
    cal_status: CalibrationStatus = enumerant(16);
    /// `height` @12.
    height: Result<Numbers<'a, f32>, WireError> = numbers(7);
    /// `warpMatrix` @0, retired.
    warp_matrix: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `calStatus` @1, retired.
    cal_status_old: i8 = i8(0);
    /// `warpMatrix2` @5, retired.
    warp_matrix2: Result<Numbers<'a, f32>, WireError> = numbers(2);
    /// `warpMatrixBig` @6, retired.
    warp_matrix_big: Result<Numbers<'a, f32>, WireError> = numbers(3);
}

log_struct! {
    /// A small picture, JPEG.
    Thumbnail;
    /// `frameId` @0.
    frame_id: u32 = u32(0);
    /// `timestampEof` @1.
    timestamp_eof: u64 = u64(64);
    /// `thumbnail` @2.
    thumbnail: Result<&'a [u8], WireError> = data(0);
    /// `encoding` @3, Encoding by number.
    encoding: u16 = u16(32);
}
