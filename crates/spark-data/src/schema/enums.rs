//! Values that have names. A number that is newer than this list stays a number.

use super::view::log_enum;

log_enum! {
    /// The device that drives.
    DeviceType;
    /// `unknown`.
    Unknown = 0 "unknown";
    /// `neo`.
    Neo = 1 "neo";
    /// `chffrAndroid`.
    ChffrAndroid = 2 "chffrAndroid";
    /// `chffrIos`.
    ChffrIos = 3 "chffrIos";
    /// `tici`.
    Tici = 4 "tici";
    /// `pc`.
    Pc = 5 "pc";
    /// `tizi`.
    Tizi = 6 "tizi";
    /// `mici`.
    Mici = 7 "mici";
}

log_enum! {
    /// What a mark in the log stands for.
    SentinelType;
    /// `endOfSegment`.
    EndOfSegment = 0 "endOfSegment";
    /// `endOfRoute`.
    EndOfRoute = 1 "endOfRoute";
    /// `startOfSegment`.
    StartOfSegment = 2 "startOfSegment";
    /// `startOfRoute`.
    StartOfRoute = 3 "startOfRoute";
}

log_enum! {
    /// Where the gear lever is.
    GearShifter;
    /// `unknown`.
    Unknown = 0 "unknown";
    /// `park`.
    Park = 1 "park";
    /// `drive`.
    Drive = 2 "drive";
    /// `neutral`.
    Neutral = 3 "neutral";
    /// `reverse`.
    Reverse = 4 "reverse";
    /// `sport`.
    Sport = 5 "sport";
    /// `low`.
    Low = 6 "low";
    /// `brake`.
    Brake = 7 "brake";
    /// `eco`.
    Eco = 8 "eco";
    /// `manumatic`.
    Manumatic = 9 "manumatic";
}

log_enum! {
    /// A button of the car.
    ButtonType;
    /// `unknown`.
    Unknown = 0 "unknown";
    /// `leftBlinker`.
    LeftBlinker = 1 "leftBlinker";
    /// `rightBlinker`.
    RightBlinker = 2 "rightBlinker";
    /// `accelCruise`.
    AccelCruise = 3 "accelCruise";
    /// `decelCruise`.
    DecelCruise = 4 "decelCruise";
    /// `cancel`.
    Cancel = 5 "cancel";
    /// `lkas`.
    Lkas = 6 "lkas";
    /// `altButton2`.
    AltButton2 = 7 "altButton2";
    /// `mainCruise`.
    MainCruise = 8 "mainCruise";
    /// `setCruise`.
    SetCruise = 9 "setCruise";
    /// `resumeCruise`.
    ResumeCruise = 10 "resumeCruise";
    /// `gapAdjustCruise`.
    GapAdjustCruise = 11 "gapAdjustCruise";
}

log_enum! {
    /// What longitudinal control does.
    LongControlState;
    /// `off`.
    Off = 0 "off";
    /// `pid`.
    Pid = 1 "pid";
    /// `stopping`.
    Stopping = 2 "stopping";
    /// `starting`.
    Starting = 3 "starting";
}

log_enum! {
    /// What the car shows the driver.
    VisualAlert;
    /// `none`.
    None = 0 "none";
    /// `fcw`.
    ForwardCollision = 1 "fcw";
    /// `steerRequired`.
    SteerRequired = 2 "steerRequired";
    /// `brakePressed`.
    BrakePressed = 3 "brakePressed";
    /// `wrongGear`.
    WrongGear = 4 "wrongGear";
    /// `seatbeltUnbuckled`.
    SeatbeltUnbuckled = 5 "seatbeltUnbuckled";
    /// `speedTooHigh`.
    SpeedTooHigh = 6 "speedTooHigh";
    /// `ldw`.
    LaneDeparture = 7 "ldw";
}

log_enum! {
    /// What the car is steered by.
    SteerControlType;
    /// `torque`.
    Torque = 0 "torque";
    /// `angle`.
    Angle = 1 "angle";
    /// `curvature`.
    Curvature = 2 "curvature";
}

log_enum! {
    /// The gearbox.
    TransmissionType;
    /// `unknown`.
    Unknown = 0 "unknown";
    /// `automatic`.
    Automatic = 1 "automatic";
    /// `manual`.
    Manual = 2 "manual";
    /// `direct`.
    Direct = 3 "direct";
    /// `cvt`.
    Cvt = 4 "cvt";
}

log_enum! {
    /// Whether openpilot drives.
    OpenpilotState;
    /// `disabled`.
    Disabled = 0 "disabled";
    /// `preEnabled`.
    PreEnabled = 1 "preEnabled";
    /// `enabled`.
    Enabled = 2 "enabled";
    /// `softDisabling`.
    SoftDisabling = 3 "softDisabling";
    /// `overriding`.
    Overriding = 4 "overriding";
}

log_enum! {
    /// How urgent an alert is.
    AlertStatus;
    /// `normal`.
    Normal = 0 "normal";
    /// `userPrompt`.
    UserPrompt = 1 "userPrompt";
    /// `critical`.
    Critical = 2 "critical";
}

log_enum! {
    /// How much of the screen an alert takes.
    AlertSize;
    /// `none`.
    None = 0 "none";
    /// `small`.
    Small = 1 "small";
    /// `mid`.
    Mid = 2 "mid";
    /// `full`.
    Full = 3 "full";
}

log_enum! {
    /// How close openpilot follows.
    LongitudinalPersonality;
    /// `aggressive`.
    Aggressive = 0 "aggressive";
    /// `standard`.
    Standard = 1 "standard";
    /// `relaxed`.
    Relaxed = 2 "relaxed";
}

log_enum! {
    /// How sure the model is.
    ConfidenceClass;
    /// `red`.
    Red = 0 "red";
    /// `yellow`.
    Yellow = 1 "yellow";
    /// `green`.
    Green = 2 "green";
}

log_enum! {
    /// What the driver wants, as the model is told.
    Desire;
    /// `none`.
    None = 0 "none";
    /// `turnLeft`.
    TurnLeft = 1 "turnLeft";
    /// `turnRight`.
    TurnRight = 2 "turnRight";
    /// `laneChangeLeft`.
    LaneChangeLeft = 3 "laneChangeLeft";
    /// `laneChangeRight`.
    LaneChangeRight = 4 "laneChangeRight";
    /// `keepLeft`.
    KeepLeft = 5 "keepLeft";
    /// `keepRight`.
    KeepRight = 6 "keepRight";
}

log_enum! {
    /// How far a lane change is.
    LaneChangeState;
    /// `off`.
    Off = 0 "off";
    /// `preLaneChange`.
    PreLaneChange = 1 "preLaneChange";
    /// `laneChangeStarting`.
    LaneChangeStarting = 2 "laneChangeStarting";
    /// `laneChangeFinishing`.
    LaneChangeFinishing = 3 "laneChangeFinishing";
}

log_enum! {
    /// Where a lane change goes.
    LaneChangeDirection;
    /// `none`.
    None = 0 "none";
    /// `left`.
    Left = 1 "left";
    /// `right`.
    Right = 2 "right";
}

log_enum! {
    /// The camera's sensor.
    ImageSensor;
    /// `unknown`.
    Unknown = 0 "unknown";
    /// `ar0231`.
    Ar0231 = 1 "ar0231";
    /// `ox03c10`.
    Ox03c10 = 2 "ox03c10";
    /// `os04c10`.
    Os04c10 = 3 "os04c10";
}

log_enum! {
    /// How a frame is encoded.
    EncodeType;
    /// `bigBoxLossless`.
    BigBoxLossless = 0 "bigBoxLossless";
    /// `fullHEVC`.
    FullHevc = 1 "fullHEVC";
    /// `bigBoxHEVCDEPRECATED`.
    BigBoxHevc = 2 "bigBoxHEVCDEPRECATED";
    /// `chffrAndroidH264DEPRECATED`.
    ChffrAndroidH264 = 3 "chffrAndroidH264DEPRECATED";
    /// `fullLosslessClipDEPRECATED`.
    FullLosslessClip = 4 "fullLosslessClipDEPRECATED";
    /// `frontDEPRECATED`.
    Front = 5 "frontDEPRECATED";
    /// `qcameraH264`.
    QcameraH264 = 6 "qcameraH264";
    /// `livestreamH264`.
    LivestreamH264 = 7 "livestreamH264";
}

log_enum! {
    /// Whether the camera's angles are known.
    CalibrationStatus;
    /// `uncalibrated`.
    Uncalibrated = 0 "uncalibrated";
    /// `calibrated`.
    Calibrated = 1 "calibrated";
    /// `invalid`.
    Invalid = 2 "invalid";
    /// `recalibrating`.
    Recalibrating = 3 "recalibrating";
}

log_enum! {
    /// What the speed follows.
    LongitudinalPlanSource;
    /// `cruise`.
    Cruise = 0 "cruise";
    /// `lead0`.
    Lead0 = 1 "lead0";
    /// `lead1`.
    Lead1 = 2 "lead1";
    /// `lead2`.
    Lead2 = 3 "lead2";
    /// `e2e`.
    EndToEnd = 4 "e2e";
}
