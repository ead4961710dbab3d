//! The device and the log itself.
//!
//! Places and names are those of openpilot's schema (`log.capnp`, `car.capnp`) of February 2026; `@` is a field's ordinal there.

use super::enums::{DeviceType, SentinelType};
use super::map::Map;
use super::view::log_struct;
use crate::wire::{Numbers, StructList, StructReader, Texts, WireError};

log_struct! {
    /// The first message: version, device, parameters.
    InitData;
    /// `kernelArgs` @0.
    kernel_args: Result<Texts<'a>, WireError> = texts(0);
    /// `dongleId` @2.
    dongle_id: Result<&'a str, WireError> = text(2);
    /// `deviceType` @3.
    device_type: DeviceType = enumerant(0);
    /// `version` @4.
    version: Result<&'a str, WireError> = text(3);
    /// `androidBuildInfo` @5, AndroidBuildInfo, whose fields have no names here.
    android_build_info: Result<StructReader<'a>, WireError> = structure(4);
    /// `pandaInfo` @8, PandaInfo, whose fields have no names here.
    panda_info: Result<StructReader<'a>, WireError> = structure(7);
    /// `dirty` @9.
    dirty: bool = bool(16);
    /// `gitCommit` @10.
    git_commit: Result<&'a str, WireError> = text(8);
    /// `gitBranch` @11.
    git_branch: Result<&'a str, WireError> = text(9);
    /// `passive` @12.
    passive: bool = bool(17);
    /// `gitRemote` @13.
    git_remote: Result<&'a str, WireError> = text(10);
    /// `kernelVersion` @15.
    kernel_version: Result<&'a str, WireError> = text(12);
    /// `androidProperties` @16.
    android_properties: Result<Map<'a>, WireError> = structure(13);
    /// `params` @17.
    params: Result<Map<'a>, WireError> = structure(14);
    /// `osVersion` @18.
    os_version: Result<&'a str, WireError> = text(15);
    /// `commands` @19.
    commands: Result<Map<'a>, WireError> = structure(16);
    /// `wallTimeNanos` @20.
    wall_time_nanos: u64 = u64(64);
    /// `gitCommitDate` @21.
    git_commit_date: Result<&'a str, WireError> = text(17);
    /// `bootlogId` @22.
    bootlog_id: Result<&'a str, WireError> = text(18);
    /// `gitSrcCommit` @23.
    git_src_commit: Result<&'a str, WireError> = text(19);
    /// `gitSrcCommitDate` @24.
    git_src_commit_date: Result<&'a str, WireError> = text(20);
    /// `gctx` @1, retired.
    gctx: Result<&'a str, WireError> = text(1);
    /// `androidSensors` @6, List(AndroidSensor), whose fields have no names here, retired.
    android_sensors: Result<StructList<'a, StructReader<'a>>, WireError> = structs(5);
    /// `chffrAndroidExtra` @7, ChffrAndroidExtra, whose fields have no names here, retired.
    chffr_android_extra: Result<StructReader<'a>, WireError> = structure(6);
    /// `iosBuildInfo` @14, IosBuildInfo, whose fields have no names here, retired.
    ios_build_info: Result<StructReader<'a>, WireError> = structure(11);
}

log_struct! {
    /// A mark at the start or end of a route or segment.
    Sentinel;
    /// `type` @0.
    kind: SentinelType = enumerant(0);
    /// `signal` @1.
    signal: i32 = i32(32);
}

log_struct! {
    /// The device's temperatures, memory and network.
    DeviceState;
    /// `freeSpacePercent` @7.
    free_space_percent: f32 = f32(128);
    /// `started` @11.
    started: bool = bool(192);
    /// `startedMonoTime` @13.
    started_mono_time: u64 = u64(256);
    /// `thermalStatus` @14, ThermalStatus by number.
    thermal_status: u16 = u16(208);
    /// `memoryUsagePercent` @19.
    memory_usage_percent: i8 = i8(200);
    /// `gpuUsagePercent` @33.
    gpu_usage_percent: i8 = i8(360);
    /// `cpuUsagePercent` @34.
    cpu_usage_percent: Result<Numbers<'a, i8>, WireError> = numbers(4);
    /// `powerDrawW` @40.
    power_draw_w: f32 = f32(672);
    /// `maxTempC` @44.
    max_temp_c: f32 = f32(736);
    /// `deviceType` @45.
    device_type: DeviceType = enumerant(656);
}

log_struct! {
    /// The wall clock.
    Clocks;
    /// `monotonicRawNanosDEPRECATD` @2.
    monotonic_raw_nanos_deprecatd: u64 = u64(128);
    /// `wallTimeNanos` @3.
    wall_time_nanos: u64 = u64(192);
    /// `bootTimeNanos` @0, retired.
    boot_time_nanos: u64 = u64(0);
    /// `monotonicNanos` @1, retired.
    monotonic_nanos: u64 = u64(64);
    /// `modemUptimeMillis` @4, retired.
    modem_uptime_millis: u64 = u64(256);
}

log_struct! {
    /// A reading of a sensor.
    SensorEventData;
    /// `version` @0.
    version: i32 = i32(0);
    /// `sensor` @1.
    sensor: i32 = i32(32);
    /// `type` @2.
    kind: i32 = i32(64);
    /// `timestamp` @3.
    timestamp: i64 = i64(128);
    /// `acceleration` @4: there if the union's tag is 0.
    acceleration: Option<Result<SensorEventDataSensorVec<'a>, WireError>> = structure(0) if 96 is 0;
    /// `magnetic` @5: there if the union's tag is 1.
    magnetic: Option<Result<SensorEventDataSensorVec<'a>, WireError>> = structure(0) if 96 is 1;
    /// `orientation` @6: there if the union's tag is 2.
    orientation: Option<Result<SensorEventDataSensorVec<'a>, WireError>> = structure(0) if 96 is 2;
    /// `gyro` @7: there if the union's tag is 3.
    gyro: Option<Result<SensorEventDataSensorVec<'a>, WireError>> = structure(0) if 96 is 3;
    /// `source` @8, SensorSource by number.
    source: u16 = u16(112);
    /// `pressure` @9: there if the union's tag is 4.
    pressure: Option<Result<SensorEventDataSensorVec<'a>, WireError>> = structure(0) if 96 is 4;
    /// `magneticUncalibrated` @11: there if the union's tag is 5.
    magnetic_uncalibrated: Option<Result<SensorEventDataSensorVec<'a>, WireError>> = structure(0) if 96 is 5;
    /// `gyroUncalibrated` @12: there if the union's tag is 6.
    gyro_uncalibrated: Option<Result<SensorEventDataSensorVec<'a>, WireError>> = structure(0) if 96 is 6;
    /// `proximity` @13: there if the union's tag is 7.
    proximity: Option<f32> = f32(224) if 96 is 7;
    /// `light` @14: there if the union's tag is 8.
    light: Option<f32> = f32(224) if 96 is 8;
    /// `temperature` @15: there if the union's tag is 9.
    temperature: Option<f32> = f32(224) if 96 is 9;
    /// `uncalibrated` @10, retired.
    uncalibrated: bool = bool(192);
}

log_struct! {
    /// Numbers of a sensor.
    SensorEventDataSensorVec;
    /// `v` @0.
    v: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `status` @1.
    status: i8 = i8(0);
}
