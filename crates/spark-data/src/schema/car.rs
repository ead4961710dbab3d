//! The car: what it says, what it is asked, what it is.
//!
//! Places and names are those of openpilot's schema (`log.capnp`, `car.capnp`) of February 2026; `@` is a field's ordinal there.

use super::enums::{
    ButtonType, GearShifter, LongControlState, SteerControlType, TransmissionType, VisualAlert,
};
use super::view::log_struct;
use crate::wire::{Numbers, StructList, StructReader, WireError};

log_struct! {
    /// What the car says: speed, steering, pedals, buttons.
    CarState;
    /// `vEgo` @1.
    v_ego: f32 = f32(0);
    /// `wheelSpeeds` @2.
    wheel_speeds: Result<CarStateWheelSpeeds<'a>, WireError> = structure(1);
    /// `gasPressed` @4.
    gas_pressed: bool = bool(64);
    /// `brakePressed` @6.
    brake_pressed: bool = bool(65);
    /// `steeringAngleDeg` @7.
    steering_angle_deg: f32 = f32(128);
    /// `steeringTorque` @8.
    steering_torque: f32 = f32(160);
    /// `steeringPressed` @9.
    steering_pressed: bool = bool(66);
    /// `cruiseState` @10.
    cruise_state: Result<CarStateCruiseState<'a>, WireError> = structure(2);
    /// `buttonEvents` @11.
    button_events: Result<StructList<'a, CarStateButtonEvent<'a>>, WireError> = structs(3);
    /// `gearShifter` @14.
    gear_shifter: GearShifter = enumerant(80);
    /// `steeringRateDeg` @15.
    steering_rate_deg: f32 = f32(192);
    /// `aEgo` @16.
    a_ego: f32 = f32(224);
    /// `vEgoRaw` @17.
    v_ego_raw: f32 = f32(256);
    /// `standstill` @18.
    standstill: bool = bool(67);
    /// `leftBlinker` @20.
    left_blinker: bool = bool(69);
    /// `rightBlinker` @21.
    right_blinker: bool = bool(70);
    /// `yawRate` @22.
    yaw_rate: f32 = f32(288);
    /// `genericToggle` @23.
    generic_toggle: bool = bool(71);
    /// `doorOpen` @24.
    door_open: bool = bool(72);
    /// `seatbeltUnlatched` @25.
    seatbelt_unlatched: bool = bool(73);
    /// `canValid` @26.
    can_valid: bool = bool(74);
    /// `steeringTorqueEps` @27.
    steering_torque_eps: f32 = f32(320);
    /// `stockAeb` @30.
    stock_aeb: bool = bool(77);
    /// `stockFcw` @31.
    stock_fcw: bool = bool(78);
    /// `espDisabled` @32.
    esp_disabled: bool = bool(79);
    /// `leftBlindspot` @33.
    left_blindspot: bool = bool(352);
    /// `rightBlindspot` @34.
    right_blindspot: bool = bool(353);
    /// `steerFaultTemporary` @35.
    steer_fault_temporary: bool = bool(354);
    /// `steerFaultPermanent` @36.
    steer_fault_permanent: bool = bool(355);
    /// `steeringAngleOffsetDeg` @37.
    steering_angle_offset_deg: f32 = f32(384);
    /// `brakeHoldActive` @38.
    brake_hold_active: bool = bool(356);
    /// `parkingBrake` @39.
    parking_brake: bool = bool(357);
    /// `canTimeout` @40.
    can_timeout: bool = bool(358);
    /// `fuelGauge` @41.
    fuel_gauge: f32 = f32(416);
    /// `accFaulted` @42.
    acc_faulted: bool = bool(359);
    /// `charging` @43.
    charging: bool = bool(360);
    /// `vEgoCluster` @44.
    v_ego_cluster: f32 = f32(448);
    /// `regenBraking` @45.
    regen_braking: bool = bool(361);
    /// `carFaultedNonCritical` @47.
    car_faulted_non_critical: bool = bool(362);
    /// `canErrorCounter` @48.
    can_error_counter: u32 = u32(512);
    /// `cumLagMs` @50.
    cum_lag_ms: f32 = f32(544);
    /// `espActive` @51.
    esp_active: bool = bool(364);
    /// `vehicleSensorsInvalid` @52.
    vehicle_sensors_invalid: bool = bool(365);
    /// `vCruise` @53.
    v_cruise: f32 = f32(576);
    /// `vCruiseCluster` @54.
    v_cruise_cluster: f32 = f32(608);
    /// `invalidLkasSetting` @55.
    invalid_lkas_setting: bool = bool(366);
    /// `lowSpeedAlert` @56.
    low_speed_alert: bool = bool(367);
    /// `buttonEnable` @57.
    button_enable: bool = bool(368);
    /// `steeringDisengage` @58.
    steering_disengage: bool = bool(369);
    /// `stockLkas` @59.
    stock_lkas: bool = bool(370);
    /// `blockPcmEnable` @60.
    block_pcm_enable: bool = bool(371);
    /// `carNotReady` @61.
    car_not_ready: bool = bool(372);
    /// `errors` @0, retired.
    errors: Result<Numbers<'a, u16>, WireError> = numbers(0);
    /// `gas` @3, retired.
    gas: f32 = f32(32);
    /// `brake` @5, retired.
    brake: f32 = f32(96);
    /// `canMonoTimes` @12, retired.
    can_mono_times: Result<Numbers<'a, u64>, WireError> = numbers(4);
    /// `events` @13, List(OnroadEventDEPRECATED), whose fields have no names here, retired.
    events: Result<StructList<'a, StructReader<'a>>, WireError> = structs(5);
    /// `brakeLights` @19, retired.
    brake_lights: bool = bool(68);
    /// `clutchPressed` @28, retired.
    clutch_pressed: bool = bool(75);
    /// `steeringRateLimited` @29, retired.
    steering_rate_limited: bool = bool(76);
    /// `engineRpm` @46, retired.
    engine_rpm: f32 = f32(480);
    /// `canRcvTimeout` @49, retired.
    can_rcv_timeout: bool = bool(363);
}

log_struct! {
    /// Speeds of the wheels, m/s.
    CarStateWheelSpeeds;
    /// `fl` @0.
    fl: f32 = f32(0);
    /// `fr` @1.
    fr: f32 = f32(32);
    /// `rl` @2.
    rl: f32 = f32(64);
    /// `rr` @3.
    rr: f32 = f32(96);
}

log_struct! {
    /// The car's cruise control.
    CarStateCruiseState;
    /// `enabled` @0.
    enabled: bool = bool(0);
    /// `speed` @1.
    speed: f32 = f32(32);
    /// `available` @2.
    available: bool = bool(1);
    /// `standstill` @4.
    standstill: bool = bool(2);
    /// `nonAdaptive` @5.
    non_adaptive: bool = bool(3);
    /// `speedCluster` @6.
    speed_cluster: f32 = f32(96);
    /// `speedOffset` @3, retired.
    speed_offset: f32 = f32(64);
}

log_struct! {
    /// A button pressed or let go.
    CarStateButtonEvent;
    /// `pressed` @0.
    pressed: bool = bool(0);
    /// `type` @1.
    kind: ButtonType = enumerant(16);
}

log_struct! {
    /// What openpilot asks of the car.
    CarControl;
    /// `enabled` @0.
    enabled: bool = bool(0);
    /// `cruiseControl` @4.
    cruise_control: Result<CarControlCruiseControl<'a>, WireError> = structure(0);
    /// `hudControl` @5.
    hud_control: Result<CarControlHUDControl<'a>, WireError> = structure(1);
    /// `actuators` @6.
    actuators: Result<CarControlActuators<'a>, WireError> = structure(2);
    /// `latActive` @11.
    lat_active: bool = bool(2);
    /// `longActive` @12.
    long_active: bool = bool(3);
    /// `orientationNED` @13.
    orientation_ned: Result<Numbers<'a, f32>, WireError> = numbers(4);
    /// `angularVelocity` @14.
    angular_velocity: Result<Numbers<'a, f32>, WireError> = numbers(5);
    /// `leftBlinker` @15.
    left_blinker: bool = bool(4);
    /// `rightBlinker` @16.
    right_blinker: bool = bool(5);
    /// `currentCurvature` @17.
    current_curvature: f32 = f32(192);
    /// `driverMonitoringEscalation` @18.
    driver_monitoring_escalation: bool = bool(6);
    /// `gas` @1, retired.
    gas: f32 = f32(32);
    /// `brake` @2, retired.
    brake: f32 = f32(64);
    /// `steeringTorque` @3, retired.
    steering_torque: f32 = f32(96);
    /// `active` @7, retired.
    active: bool = bool(1);
    /// `roll` @8, retired.
    roll: f32 = f32(128);
    /// `pitch` @9, retired.
    pitch: f32 = f32(160);
    /// `actuatorsOutput` @10, retired.
    actuators_output: Result<CarControlActuators<'a>, WireError> = structure(3);
}

log_struct! {
    /// Torque, angle, curvature (positive to the right) and acceleration, as asked for.
    CarControlActuators;
    /// `gas` @0.
    gas: f32 = f32(0);
    /// `brake` @1.
    brake: f32 = f32(32);
    /// `torque` @2.
    torque: f32 = f32(64);
    /// `steeringAngleDeg` @3.
    steering_angle_deg: f32 = f32(96);
    /// `accel` @4.
    accel: f32 = f32(128);
    /// `longControlState` @5.
    long_control_state: LongControlState = enumerant(160);
    /// `speed` @6.
    speed: f32 = f32(192);
    /// `curvature` @7.
    curvature: f32 = f32(224);
    /// `torqueOutputCan` @8.
    torque_output_can: f32 = f32(256);
}

log_struct! {
    /// Buttons of the car's cruise control.
    CarControlCruiseControl;
    /// `cancel` @0.
    cancel: bool = bool(0);
    /// `resume` @1.
    resume: bool = bool(1);
    /// `override` @4.
    is_override: bool = bool(2);
    /// `speedOverride` @2, retired.
    speed_override: f32 = f32(32);
    /// `accelOverride` @3, retired.
    accel_override: f32 = f32(64);
}

log_struct! {
    /// What the car is to show.
    CarControlHUDControl;
    /// `speedVisible` @0.
    speed_visible: bool = bool(0);
    /// `setSpeed` @1.
    set_speed: f32 = f32(32);
    /// `lanesVisible` @2.
    lanes_visible: bool = bool(1);
    /// `leadVisible` @3.
    lead_visible: bool = bool(2);
    /// `visualAlert` @4.
    visual_alert: VisualAlert = enumerant(16);
    /// `audibleAlert` @5, AudibleAlert by number.
    audible_alert: u16 = u16(64);
    /// `rightLaneVisible` @6.
    right_lane_visible: bool = bool(3);
    /// `leftLaneVisible` @7.
    left_lane_visible: bool = bool(4);
    /// `rightLaneDepart` @8.
    right_lane_depart: bool = bool(5);
    /// `leftLaneDepart` @9.
    left_lane_depart: bool = bool(6);
    /// `leadDistanceBars` @10.
    lead_distance_bars: i8 = i8(8);
}

log_struct! {
    /// What was really applied.
    CarOutput;
    /// `actuatorsOutput` @0, Actuators, whose fields have no names here.
    actuators_output: Result<StructReader<'a>, WireError> = structure(0);
}

log_struct! {
    /// The vehicle.
    CarParams;
    /// `brand` @0.
    brand: Result<&'a str, WireError> = text(0);
    /// `carFingerprint` @1.
    car_fingerprint: Result<&'a str, WireError> = text(1);
    /// `pcmCruise` @3.
    pcm_cruise: bool = bool(1);
    /// `minEnableSpeed` @7.
    min_enable_speed: f32 = f32(32);
    /// `minSteerSpeed` @8.
    min_steer_speed: f32 = f32(64);
    /// `mass` @17.
    mass: f32 = f32(128);
    /// `wheelbase` @18.
    wheelbase: f32 = f32(160);
    /// `centerToFront` @19.
    center_to_front: f32 = f32(192);
    /// `steerRatio` @20.
    steer_ratio: f32 = f32(224);
    /// `steerRatioRear` @21.
    steer_ratio_rear: f32 = f32(256);
    /// `rotationalInertia` @22.
    rotational_inertia: f32 = f32(288);
    /// `tireStiffnessFront` @23.
    tire_stiffness_front: f32 = f32(320);
    /// `tireStiffnessRear` @24.
    tire_stiffness_rear: f32 = f32(352);
    /// `longitudinalTuning` @25.
    longitudinal_tuning: Result<CarParamsLongitudinalPIDTuning<'a>, WireError> = structure(8);
    /// Which member of the union `lateralTuning` there is.
    lateral_tuning_tag: u16 = u16(112);
    /// `lateralTuning.pid` @26: there if the union's tag is 0.
    lateral_tuning_pid: Option<Result<CarParamsLateralPIDTuning<'a>, WireError>> = structure(9) if 112 is 0;
    /// `lateralTuning.torque` @67: there if the union's tag is 3.
    lateral_tuning_torque: Option<Result<CarParamsLateralTorqueTuning<'a>, WireError>> = structure(9) if 112 is 3;
    /// `steerControlType` @34.
    steer_control_type: SteerControlType = enumerant(480);
    /// `radarUnavailable` @35.
    radar_unavailable: bool = bool(8);
    /// `steerActuatorDelay` @36.
    steer_actuator_delay: f32 = f32(512);
    /// `openpilotLongitudinalControl` @37.
    openpilot_longitudinal_control: bool = bool(9);
    /// `carVin` @38.
    car_vin: Result<&'a str, WireError> = text(10);
    /// `dashcamOnly` @41.
    dashcam_only: bool = bool(11);
    /// `transmissionType` @43.
    transmission_type: TransmissionType = enumerant(544);
    /// `carFw` @44, List(CarFw), whose fields have no names here.
    car_fw: Result<StructList<'a, StructReader<'a>>, WireError> = structs(11);
    /// `steerLimitTimer` @47.
    steer_limit_timer: f32 = f32(608);
    /// `lateralParams` @48, LateralParams, whose fields have no names here.
    lateral_params: Result<StructReader<'a>, WireError> = structure(12);
    /// `fingerprintSource` @49, FingerprintSource by number.
    fingerprint_source: u16 = u16(560);
    /// `networkLocation` @50, NetworkLocation by number.
    network_location: u16 = u16(640);
    /// `fuzzyFingerprint` @55.
    fuzzy_fingerprint: bool = bool(13);
    /// `enableBsm` @56.
    enable_bsm: bool = bool(14);
    /// `longitudinalActuatorDelay` @58.
    longitudinal_actuator_delay: f32 = f32(800);
    /// `stopAccel` @60.
    stop_accel: f32 = f32(864);
    /// `safetyConfigs` @62.
    safety_configs: Result<StructList<'a, CarParamsSafetyConfig<'a>>, WireError> = structs(13);
    /// `wheelSpeedFactor` @63.
    wheel_speed_factor: f32 = f32(928);
    /// `flags` @64.
    flags: u32 = u32(960);
    /// `alternativeExperience` @65.
    alternative_experience: i16 = i16(656);
    /// `notCar` @66.
    not_car: bool = bool(992);
    /// `maxLateralAccel` @68.
    max_lateral_accel: f32 = f32(1024);
    /// `autoResumeSng` @69.
    auto_resume_sng: bool = bool(993);
    /// `alphaLongitudinalAvailable` @71.
    alpha_longitudinal_available: bool = bool(995);
    /// `tireStiffnessFactor` @72.
    tire_stiffness_factor: f32 = f32(1056);
    /// `passive` @73.
    passive: bool = bool(996);
    /// `radarDelay` @74.
    radar_delay: f32 = f32(1088);
    /// `secOcRequired` @75.
    sec_oc_required: bool = bool(997);
    /// `secOcKeyAvailable` @76.
    sec_oc_key_available: bool = bool(998);
    /// `steerAtStandstill` @77.
    steer_at_standstill: bool = bool(999);
    /// `enableGasInterceptor` @2, retired.
    enable_gas_interceptor: bool = bool(0);
    /// `enableCamera` @4, retired.
    enable_camera: bool = bool(2);
    /// `enableDsu` @5, retired.
    enable_dsu: bool = bool(3);
    /// `enableApgs` @6, retired.
    enable_apgs: bool = bool(4);
    /// `safetyModel` @9, SafetyModel by number, retired.
    safety_model: u16 = u16(16);
    /// `safetyParam` @10, retired.
    safety_param: i16 = i16(96);
    /// `steerMaxBP` @11, retired.
    steer_max_bp: Result<Numbers<'a, f32>, WireError> = numbers(2);
    /// `steerMaxV` @12, retired.
    steer_max_v: Result<Numbers<'a, f32>, WireError> = numbers(3);
    /// `gasMaxBP` @13, retired.
    gas_max_bp: Result<Numbers<'a, f32>, WireError> = numbers(4);
    /// `gasMaxV` @14, retired.
    gas_max_v: Result<Numbers<'a, f32>, WireError> = numbers(5);
    /// `brakeMaxBP` @15, retired.
    brake_max_bp: Result<Numbers<'a, f32>, WireError> = numbers(6);
    /// `brakeMaxV` @16, retired.
    brake_max_v: Result<Numbers<'a, f32>, WireError> = numbers(7);
    /// `steerLimitAlert` @28, retired.
    steer_limit_alert: bool = bool(5);
    /// `vEgoStopping` @29, retired.
    v_ego_stopping: f32 = f32(384);
    /// `directAccelControl` @30, retired.
    direct_accel_control: bool = bool(6);
    /// `stoppingControl` @31, retired.
    stopping_control: bool = bool(7);
    /// `startAccel` @32, retired.
    start_accel: f32 = f32(416);
    /// `steerRateCost` @33, retired.
    steer_rate_cost: f32 = f32(448);
    /// `isPandaBlack` @39, retired.
    is_panda_black: bool = bool(10);
    /// `safetyModelPassive` @42, SafetyModel by number, retired.
    safety_model_passive: u16 = u16(496);
    /// `radarTimeStep` @45, retired.
    radar_time_step: f32 = f32(576);
    /// `communityFeature` @46, retired.
    community_feature: bool = bool(12);
    /// `minSpeedCan` @51, retired.
    min_speed_can: f32 = f32(672);
    /// `stoppingDecelRate` @52, retired.
    stopping_decel_rate: f32 = f32(704);
    /// `startingAccelRate` @53, retired.
    starting_accel_rate: f32 = f32(736);
    /// `maxSteeringAngleDeg` @54, retired.
    max_steering_angle_deg: f32 = f32(768);
    /// `hasStockCamera` @57, retired.
    has_stock_camera: bool = bool(15);
    /// `vEgoStarting` @59, retired.
    v_ego_starting: f32 = f32(832);
    /// `longitudinalActuatorDelayLowerBound` @61, retired.
    longitudinal_actuator_delay_lower_bound: f32 = f32(896);
    /// `startingState` @70, retired.
    starting_state: bool = bool(994);
    /// `indi` @27, LateralINDITuningDEPRECATED, whose fields have no names here, retired.
    indi: Result<StructReader<'a>, WireError> = structure(9);
    /// `lqr` @40, LateralLQRTuningDEPRECATED, whose fields have no names here, retired.
    lqr: Result<StructReader<'a>, WireError> = structure(9);
}

log_struct! {
    /// Settings of torque control.
    CarParamsLateralTorqueTuning;
    /// `friction` @3.
    friction: f32 = f32(96);
    /// `steeringAngleDeadzoneDeg` @5.
    steering_angle_deadzone_deg: f32 = f32(160);
    /// `latAccelFactor` @6.
    lat_accel_factor: f32 = f32(192);
    /// `latAccelOffset` @7.
    lat_accel_offset: f32 = f32(224);
    /// `useSteeringAngle` @0, retired.
    use_steering_angle: bool = bool(0);
    /// `kp` @1, retired.
    kp: f32 = f32(32);
    /// `ki` @2, retired.
    ki: f32 = f32(64);
    /// `kf` @4, retired.
    kf: f32 = f32(128);
    /// `kd` @8, retired.
    kd: f32 = f32(256);
}

log_struct! {
    /// Settings of PID control.
    CarParamsLateralPIDTuning;
    /// `kpBP` @0.
    kp_bp: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `kpV` @1.
    kp_v: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `kiBP` @2.
    ki_bp: Result<Numbers<'a, f32>, WireError> = numbers(2);
    /// `kiV` @3.
    ki_v: Result<Numbers<'a, f32>, WireError> = numbers(3);
    /// `kf` @4.
    kf: f32 = f32(0);
}

log_struct! {
    /// Settings of speed control.
    CarParamsLongitudinalPIDTuning;
    /// `kiBP` @2.
    ki_bp: Result<Numbers<'a, f32>, WireError> = numbers(2);
    /// `kiV` @3.
    ki_v: Result<Numbers<'a, f32>, WireError> = numbers(3);
    /// `kpBP` @0, retired.
    kp_bp: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `kpV` @1, retired.
    kp_v: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `deadzoneBP` @4, retired.
    deadzone_bp: Result<Numbers<'a, f32>, WireError> = numbers(4);
    /// `deadzoneV` @5, retired.
    deadzone_v: Result<Numbers<'a, f32>, WireError> = numbers(5);
    /// `kf` @6, retired.
    kf: f32 = f32(0);
}

log_struct! {
    /// Which safety model the interface to the car runs.
    CarParamsSafetyConfig;
    /// `safetyModel` @0, SafetyModel by number.
    safety_model: u16 = u16(0);
    /// `safetyParam` @3.
    safety_param: u16 = u16(64);
    /// `safetyParam` @1, retired.
    safety_param_old: i16 = i16(16);
    /// `safetyParam2` @2, retired.
    safety_param2: u32 = u32(32);
}
