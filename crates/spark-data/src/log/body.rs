//! What an event carries, by the tag of its union.

use crate::schema::*;
use crate::wire::{StructList, StructReader, WireError};

/// Declares the bodies: `Variant(type) = tag how;`.
macro_rules! event_bodies {
    ($($(#[$doc:meta])* $variant:ident($type:ty) = $tag:literal $how:ident;)*) => {
        /// What an event carries.
        #[derive(Debug, Clone, Copy)]
        #[non_exhaustive]
        pub enum Body<'a> {
            $($(#[$doc])* $variant($type),)*
            /// Something else; [`Event::name`](super::Event::name) says what.
            Other,
        }

        impl<'a> Body<'a> {
            /// The body of an event with this tag.
            pub(super) fn read(tag: u16, event: StructReader<'a>) -> Result<Self, WireError> {
                match tag {
                    $($tag => Ok(Self::$variant(event.$how(0)?)),)*
                    _ => Ok(Self::Other),
                }
            }
        }
    };
}

event_bodies! {
    /// `initData`.
    InitData(InitData<'a>) = 0 structure;
    /// `roadCameraState`.
    RoadCameraState(FrameData<'a>) = 1 structure;
    /// `can`.
    Can(StructList<'a, CanData<'a>>) = 4 structs;
    /// `deviceState`.
    DeviceState(DeviceState<'a>) = 5 structure;
    /// `controlsState`.
    ControlsState(ControlsState<'a>) = 6 structure;
    /// `model`.
    Model(ModelData<'a>) = 8 structure;
    /// `radarState`.
    RadarState(RadarState<'a>) = 12 structure;
    /// `roadEncodeIdx`.
    RoadEncodeIdx(EncodeIndex<'a>) = 14 structure;
    /// `sendcan`.
    Sendcan(StructList<'a, CanData<'a>>) = 16 structs;
    /// `liveCalibration`.
    LiveCalibration(LiveCalibrationData<'a>) = 18 structure;
    /// `gpsLocation`.
    GpsLocation(GpsLocationData<'a>) = 20 structure;
    /// `carState`.
    CarState(CarState<'a>) = 21 structure;
    /// `carControl`.
    CarControl(CarControl<'a>) = 22 structure;
    /// `longitudinalPlan`.
    LongitudinalPlan(LongitudinalPlan<'a>) = 23 structure;
    /// `clocks`.
    Clocks(Clocks<'a>) = 34 structure;
    /// `gpsLocationExternal`.
    GpsLocationExternal(GpsLocationData<'a>) = 47 structure;
    /// `liveParameters`.
    LiveParameters(LiveParametersData<'a>) = 60 structure;
    /// `cameraOdometry`.
    CameraOdometry(CameraOdometry<'a>) = 62 structure;
    /// `lateralPlanDEPRECATED`.
    LateralPlan(LateralPlan<'a>) = 63 structure;
    /// `thumbnail`.
    Thumbnail(Thumbnail<'a>) = 65 structure;
    /// `carParams`.
    CarParams(CarParams<'a>) = 67 structure;
    /// `driverCameraState`.
    DriverCameraState(FrameData<'a>) = 68 structure;
    /// `driverMonitoringState`.
    DriverMonitoringState(DriverMonitoringState<'a>) = 69 structure;
    /// `liveLocationKalmanDEPRECATED`.
    LiveLocationKalman(LiveLocationKalman<'a>) = 70 structure;
    /// `sentinel`.
    Sentinel(Sentinel<'a>) = 71 structure;
    /// `wideRoadCameraState`.
    WideRoadCameraState(FrameData<'a>) = 72 structure;
    /// `modelV2`.
    ModelV2(ModelDataV2<'a>) = 73 structure;
    /// `driverEncodeIdx`.
    DriverEncodeIdx(EncodeIndex<'a>) = 74 structure;
    /// `wideRoadEncodeIdx`.
    WideRoadEncodeIdx(EncodeIndex<'a>) = 75 structure;
    /// `roadEncodeData`.
    RoadEncodeData(EncodeData<'a>) = 84 structure;
    /// `driverEncodeData`.
    DriverEncodeData(EncodeData<'a>) = 85 structure;
    /// `wideRoadEncodeData`.
    WideRoadEncodeData(EncodeData<'a>) = 86 structure;
    /// `qRoadEncodeData`.
    QRoadEncodeData(EncodeData<'a>) = 87 structure;
    /// `qRoadEncodeIdx`.
    QRoadEncodeIdx(EncodeIndex<'a>) = 88 structure;
    /// `driverStateV2`.
    DriverStateV2(DriverStateV2<'a>) = 90 structure;
    /// `liveTorqueParameters`.
    LiveTorqueParameters(LiveTorqueParametersData<'a>) = 92 structure;
    /// `accelerometer`.
    Accelerometer(SensorEventData<'a>) = 96 structure;
    /// `gyroscope`.
    Gyroscope(SensorEventData<'a>) = 97 structure;
    /// `carOutput`.
    CarOutput(CarOutput<'a>) = 125 structure;
    /// `drivingModelData`.
    DrivingModelData(DrivingModelData<'a>) = 126 structure;
    /// `livePose`.
    LivePose(LivePose<'a>) = 127 structure;
    /// `selfdriveState`.
    SelfdriveState(SelfdriveState<'a>) = 128 structure;
    /// `liveTracks`.
    LiveTracks(RadarData<'a>) = 129 structure;
    /// `onroadEvents`.
    OnroadEvents(StructList<'a, OnroadEvent<'a>>) = 132 structs;
    /// `liveDelay`.
    LiveDelay(LiveDelayData<'a>) = 144 structure;
    /// `driverStateDEPRECATED`.
    DriverState(LegacyDriverState<'a>) = 58 structure;
}
