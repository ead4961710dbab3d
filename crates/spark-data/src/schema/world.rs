//! What is around the car, and where it is.
//!
//! Places and names are those of openpilot's schema (`log.capnp`, `car.capnp`) of February 2026; `@` is a field's ordinal there.

use super::view::log_struct;
use crate::wire::{Numbers, StructList, StructReader, WireError};

log_struct! {
    /// Cars ahead.
    RadarState;
    /// `leadOne` @3.
    lead_one: Result<RadarStateLeadData<'a>, WireError> = structure(1);
    /// `leadTwo` @4.
    lead_two: Result<RadarStateLeadData<'a>, WireError> = structure(2);
    /// `mdMonoTime` @6.
    md_mono_time: u64 = u64(128);
    /// `carStateMonoTime` @11.
    car_state_mono_time: u64 = u64(256);
    /// `radarErrors` @13, Error, whose fields have no names here.
    radar_errors: Result<StructReader<'a>, WireError> = structure(5);
    /// `warpMatrix` @0, retired.
    warp_matrix: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `angleOffset` @1, retired.
    angle_offset: f32 = f32(0);
    /// `calStatus` @2, retired.
    cal_status: i8 = i8(32);
    /// `cumLagMs` @5, retired.
    cum_lag_ms: f32 = f32(64);
    /// `ftMonoTime` @7, retired.
    ft_mono_time: u64 = u64(192);
    /// `calCycle` @8, retired.
    cal_cycle: i32 = i32(96);
    /// `calPerc` @9, retired.
    cal_perc: i8 = i8(40);
    /// `canMonoTimes` @10, retired.
    can_mono_times: Result<Numbers<'a, u64>, WireError> = numbers(3);
    /// `radarErrors` @12, retired.
    radar_errors_old: Result<Numbers<'a, u16>, WireError> = numbers(4);
}

log_struct! {
    /// A car ahead; yRel is positive to the left.
    RadarStateLeadData;
    /// `dRel` @0.
    d_rel: f32 = f32(0);
    /// `yRel` @1.
    y_rel: f32 = f32(32);
    /// `vRel` @2.
    v_rel: f32 = f32(64);
    /// `aRel` @3.
    a_rel: f32 = f32(96);
    /// `vLead` @4.
    v_lead: f32 = f32(128);
    /// `dPath` @6.
    d_path: f32 = f32(192);
    /// `vLat` @7.
    v_lat: f32 = f32(224);
    /// `vLeadK` @8.
    v_lead_k: f32 = f32(256);
    /// `aLeadK` @9.
    a_lead_k: f32 = f32(288);
    /// `fcw` @10.
    fcw: bool = bool(320);
    /// `status` @11.
    status: bool = bool(321);
    /// `aLeadTau` @12.
    a_lead_tau: f32 = f32(352);
    /// `modelProb` @13.
    model_prob: f32 = f32(384);
    /// `radar` @14.
    radar: bool = bool(322);
    /// `radarTrackId` @15; -1 unless it is said.
    radar_track_id: i32 = i32(416) else -1;
    /// `aLead` @5, retired.
    a_lead: f32 = f32(160);
}

log_struct! {
    /// Tracks of the radar.
    RadarData;
    /// `points` @1.
    points: Result<StructList<'a, RadarDataRadarPoint<'a>>, WireError> = structs(1);
    /// `errors` @3, Error, whose fields have no names here.
    errors: Result<StructReader<'a>, WireError> = structure(3);
    /// `errors` @0, retired.
    errors_old: Result<Numbers<'a, u16>, WireError> = numbers(0);
    /// `canMonoTimes` @2, retired.
    can_mono_times: Result<Numbers<'a, u64>, WireError> = numbers(2);
}

log_struct! {
    /// One track; yRel is positive to the left.
    RadarDataRadarPoint;
    /// `trackId` @0.
    track_id: u64 = u64(0);
    /// `dRel` @1.
    d_rel: f32 = f32(64);
    /// `yRel` @2.
    y_rel: f32 = f32(96);
    /// `vRel` @3.
    v_rel: f32 = f32(128);
    /// `aRel` @4, retired.
    a_rel: f32 = f32(160);
    /// `yvRel` @5, retired.
    yv_rel: f32 = f32(192);
    /// `measured` @6, retired.
    measured: bool = bool(224);
}

log_struct! {
    /// One frame of a bus.
    CanData;
    /// `address` @0.
    address: u32 = u32(0);
    /// `dat` @2.
    dat: Result<&'a [u8], WireError> = data(0);
    /// `src` @3.
    src: u8 = u8(48);
    /// `busTime` @1, retired.
    bus_time: u16 = u16(32);
}

log_struct! {
    /// Where the car is.
    GpsLocationData;
    /// `flags` @0.
    flags: u16 = u16(0);
    /// `latitude` @1.
    latitude: f64 = f64(64);
    /// `longitude` @2.
    longitude: f64 = f64(128);
    /// `altitude` @3.
    altitude: f64 = f64(192);
    /// `speed` @4.
    speed: f32 = f32(32);
    /// `bearingDeg` @5.
    bearing_deg: f32 = f32(256);
    /// `horizontalAccuracy` @6.
    horizontal_accuracy: f32 = f32(288);
    /// `unixTimestampMillis` @7.
    unix_timestamp_millis: i64 = i64(320);
    /// `source` @8, SensorSource by number.
    source: u16 = u16(16);
    /// `vNED` @9.
    v_ned: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `verticalAccuracy` @10.
    vertical_accuracy: f32 = f32(384);
    /// `bearingAccuracyDeg` @11.
    bearing_accuracy_deg: f32 = f32(416);
    /// `speedAccuracy` @12.
    speed_accuracy: f32 = f32(448);
    /// `hasFix` @13.
    has_fix: bool = bool(480);
    /// `satelliteCount` @14.
    satellite_count: i8 = i8(488);
}

log_struct! {
    /// Learned parameters of the vehicle.
    LiveParametersData;
    /// `valid` @0.
    valid: bool = bool(0);
    /// `gyroBias` @1.
    gyro_bias: f32 = f32(32);
    /// `angleOffsetDeg` @2.
    angle_offset_deg: f32 = f32(64);
    /// `angleOffsetAverageDeg` @3.
    angle_offset_average_deg: f32 = f32(96);
    /// `stiffnessFactor` @4.
    stiffness_factor: f32 = f32(128);
    /// `steerRatio` @5.
    steer_ratio: f32 = f32(160);
    /// `sensorValid` @6.
    sensor_valid: bool = bool(1);
    /// `posenetSpeed` @8.
    posenet_speed: f32 = f32(224);
    /// `posenetValid` @9.
    posenet_valid: bool = bool(2);
    /// `angleOffsetFastStd` @10.
    angle_offset_fast_std: f32 = f32(256);
    /// `angleOffsetAverageStd` @11.
    angle_offset_average_std: f32 = f32(288);
    /// `stiffnessFactorStd` @12.
    stiffness_factor_std: f32 = f32(320);
    /// `steerRatioStd` @13.
    steer_ratio_std: f32 = f32(352);
    /// `roll` @14.
    roll: f32 = f32(384);
    /// `debugFilterState` @16, FilterState, whose fields have no names here.
    debug_filter_state: Result<StructReader<'a>, WireError> = structure(1);
    /// `angleOffsetValid` @17; true unless it is said.
    angle_offset_valid: bool = bool(3) else true;
    /// `angleOffsetAverageValid` @18; true unless it is said.
    angle_offset_average_valid: bool = bool(4) else true;
    /// `steerRatioValid` @19; true unless it is said.
    steer_ratio_valid: bool = bool(5) else true;
    /// `stiffnessFactorValid` @20; true unless it is said.
    stiffness_factor_valid: bool = bool(6) else true;
    /// `yawRate` @7, retired.
    yaw_rate: f32 = f32(192);
    /// `filterState` @15, Measurement, whose fields have no names here, retired.
    filter_state: Result<StructReader<'a>, WireError> = structure(0);
}

log_struct! {
    /// Learned parameters of torque control.
    LiveTorqueParametersData;
    /// `liveValid` @0.
    live_valid: bool = bool(0);
    /// `latAccelFactorRaw` @1.
    lat_accel_factor_raw: f32 = f32(32);
    /// `latAccelOffsetRaw` @2.
    lat_accel_offset_raw: f32 = f32(64);
    /// `frictionCoefficientRaw` @3.
    friction_coefficient_raw: f32 = f32(96);
    /// `latAccelFactorFiltered` @4.
    lat_accel_factor_filtered: f32 = f32(128);
    /// `latAccelOffsetFiltered` @5.
    lat_accel_offset_filtered: f32 = f32(160);
    /// `frictionCoefficientFiltered` @6.
    friction_coefficient_filtered: f32 = f32(192);
    /// `totalBucketPoints` @7.
    total_bucket_points: f32 = f32(224);
    /// `decay` @8.
    decay: f32 = f32(256);
    /// `maxResets` @9.
    max_resets: f32 = f32(288);
    /// `version` @11.
    version: i32 = i32(320);
    /// `useParams` @12.
    use_params: bool = bool(1);
    /// `calPerc` @13.
    cal_perc: i8 = i8(8);
}

log_struct! {
    /// Learned delay of steering.
    LiveDelayData;
    /// `lateralDelay` @0.
    lateral_delay: f32 = f32(0);
    /// `validBlocks` @1.
    valid_blocks: i32 = i32(32);
    /// `status` @2, Status by number.
    status: u16 = u16(64);
    /// `lateralDelayEstimate` @3.
    lateral_delay_estimate: f32 = f32(96);
    /// `points` @4.
    points: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `lateralDelayEstimateStd` @5.
    lateral_delay_estimate_std: f32 = f32(128);
    /// `calPerc` @6.
    cal_perc: i8 = i8(80);
}

log_struct! {
    /// Motion of the device.
    LivePose;
    /// `orientationNED` @0.
    orientation_ned: Result<LivePoseXYZMeasurement<'a>, WireError> = structure(0);
    /// `velocityDevice` @1.
    velocity_device: Result<LivePoseXYZMeasurement<'a>, WireError> = structure(1);
    /// `accelerationDevice` @2.
    acceleration_device: Result<LivePoseXYZMeasurement<'a>, WireError> = structure(2);
    /// `angularVelocityDevice` @3.
    angular_velocity_device: Result<LivePoseXYZMeasurement<'a>, WireError> = structure(3);
    /// `inputsOK` @4.
    inputs_ok: bool = bool(0);
    /// `posenetOK` @5.
    posenet_ok: bool = bool(1);
    /// `sensorsOK` @6.
    sensors_ok: bool = bool(2);
    /// `debugFilterState` @7, FilterState, whose fields have no names here.
    debug_filter_state: Result<StructReader<'a>, WireError> = structure(4);
}

log_struct! {
    /// Three numbers and how sure they are.
    LivePoseXYZMeasurement;
    /// `x` @0.
    x: f32 = f32(0);
    /// `y` @1.
    y: f32 = f32(32);
    /// `z` @2.
    z: f32 = f32(64);
    /// `xStd` @3.
    x_std: f32 = f32(96);
    /// `yStd` @4.
    y_std: f32 = f32(128);
    /// `zStd` @5.
    z_std: f32 = f32(160);
    /// `valid` @6.
    valid: bool = bool(192);
}

log_struct! {
    /// Pose of 0.9 and older.
    LiveLocationKalman;
    /// `positionECEF` @0.
    position_ecef: Result<LiveLocationKalmanMeasurement<'a>, WireError> = structure(0);
    /// `positionGeodetic` @1.
    position_geodetic: Result<LiveLocationKalmanMeasurement<'a>, WireError> = structure(1);
    /// `velocityECEF` @2.
    velocity_ecef: Result<LiveLocationKalmanMeasurement<'a>, WireError> = structure(2);
    /// `velocityNED` @3.
    velocity_ned: Result<LiveLocationKalmanMeasurement<'a>, WireError> = structure(3);
    /// `velocityDevice` @4.
    velocity_device: Result<LiveLocationKalmanMeasurement<'a>, WireError> = structure(4);
    /// `accelerationDevice` @5.
    acceleration_device: Result<LiveLocationKalmanMeasurement<'a>, WireError> = structure(5);
    /// `orientationECEF` @6.
    orientation_ecef: Result<LiveLocationKalmanMeasurement<'a>, WireError> = structure(6);
    /// `orientationNED` @7.
    orientation_ned: Result<LiveLocationKalmanMeasurement<'a>, WireError> = structure(7);
    /// `angularVelocityDevice` @8.
    angular_velocity_device: Result<LiveLocationKalmanMeasurement<'a>, WireError> = structure(8);
    /// `calibratedOrientationNED` @9.
    calibrated_orientation_ned: Result<LiveLocationKalmanMeasurement<'a>, WireError> = structure(9);
    /// `velocityCalibrated` @10.
    velocity_calibrated: Result<LiveLocationKalmanMeasurement<'a>, WireError> = structure(10);
    /// `accelerationCalibrated` @11.
    acceleration_calibrated: Result<LiveLocationKalmanMeasurement<'a>, WireError> = structure(11);
    /// `angularVelocityCalibrated` @12.
    angular_velocity_calibrated: Result<LiveLocationKalmanMeasurement<'a>, WireError> = structure(12);
    /// `gpsWeek` @13.
    gps_week: i32 = i32(0);
    /// `gpsTimeOfWeek` @14.
    gps_time_of_week: f64 = f64(64);
    /// `status` @15, Status by number.
    status: u16 = u16(32);
    /// `unixTimestampMillis` @16.
    unix_timestamp_millis: i64 = i64(128);
    /// `inputsOK` @17; true unless it is said.
    inputs_ok: bool = bool(48) else true;
    /// `posenetOK` @18; true unless it is said.
    posenet_ok: bool = bool(49) else true;
    /// `gpsOK` @19; true unless it is said.
    gps_ok: bool = bool(50) else true;
    /// `calibratedOrientationECEF` @20.
    calibrated_orientation_ecef: Result<LiveLocationKalmanMeasurement<'a>, WireError> = structure(13);
    /// `sensorsOK` @21; true unless it is said.
    sensors_ok: bool = bool(51) else true;
    /// `deviceStable` @22; true unless it is said.
    device_stable: bool = bool(52) else true;
    /// `timeSinceReset` @23.
    time_since_reset: f64 = f64(192);
    /// `excessiveResets` @24.
    excessive_resets: bool = bool(53);
    /// `timeToFirstFix` @25.
    time_to_first_fix: f32 = f32(256);
    /// `filterState` @26.
    filter_state: Result<LiveLocationKalmanMeasurement<'a>, WireError> = structure(14);
}

log_struct! {
    /// Numbers and how sure they are.
    LiveLocationKalmanMeasurement;
    /// `value` @0.
    value: Result<Numbers<'a, f64>, WireError> = numbers(0);
    /// `std` @1.
    std: Result<Numbers<'a, f64>, WireError> = numbers(1);
    /// `valid` @2.
    valid: bool = bool(0);
}
