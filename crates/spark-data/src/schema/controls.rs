//! What openpilot decides.
//!
//! Places and names are those of openpilot's schema (`log.capnp`, `car.capnp`) of February 2026; `@` is a field's ordinal there.

use super::enums::{
    AlertSize, AlertStatus, Desire, LaneChangeDirection, LaneChangeState, LongControlState,
    LongitudinalPersonality, LongitudinalPlanSource, OpenpilotState, VisualAlert,
};
use super::view::log_struct;
use crate::wire::{Numbers, StructList, StructReader, WireError};

log_struct! {
    /// Curvature (positive to the right) and the state of lateral control.
    ControlsState;
    /// `upAccelCmd` @4.
    up_accel_cmd: f32 = f32(128);
    /// `uiAccelCmd` @5.
    ui_accel_cmd: f32 = f32(160);
    /// `longitudinalPlanMonoTime` @28.
    longitudinal_plan_mono_time: u64 = u64(832);
    /// `longControlState` @30.
    long_control_state: LongControlState = enumerant(720);
    /// `ufAccelCmd` @33.
    uf_accel_cmd: f32 = f32(992);
    /// `curvature` @37.
    curvature: f32 = f32(1088);
    /// `lateralPlanMonoTime` @50.
    lateral_plan_mono_time: u64 = u64(1280);
    /// `forceDecel` @51.
    force_decel: bool = bool(713);
    /// Which member of the union `lateralControlState` there is.
    lateral_control_state_tag: u16 = u16(1136);
    /// `lateralControlState.pidState` @53: there if the union's tag is 1.
    lateral_control_state_pid_state: Option<Result<ControlsStateLateralPIDState<'a>, WireError>> = structure(5) if 1136 is 1;
    /// `lateralControlState.angleState` @58: there if the union's tag is 3.
    lateral_control_state_angle_state: Option<Result<ControlsStateLateralAngleState<'a>, WireError>> = structure(5) if 1136 is 3;
    /// `lateralControlState.debugState` @59, LateralDebugState, whose fields have no names here: there if the union's tag is 4.
    lateral_control_state_debug_state: Option<Result<StructReader<'a>, WireError>> = structure(5) if 1136 is 4;
    /// `lateralControlState.torqueState` @60: there if the union's tag is 5.
    lateral_control_state_torque_state: Option<Result<ControlsStateLateralTorqueState<'a>, WireError>> = structure(5) if 1136 is 5;
    /// `desiredCurvature` @61.
    desired_curvature: f32 = f32(1408);
    /// `vEgo` @0, retired.
    v_ego: f32 = f32(0);
    /// `aEgo` @1, retired.
    a_ego: f32 = f32(32);
    /// `vPid` @2, retired.
    v_pid: f32 = f32(64);
    /// `vTargetLead` @3, retired.
    v_target_lead: f32 = f32(96);
    /// `yActual` @6, retired.
    y_actual: f32 = f32(192);
    /// `yDes` @7, retired.
    y_des: f32 = f32(224);
    /// `upSteer` @8, retired.
    up_steer: f32 = f32(256);
    /// `uiSteer` @9, retired.
    ui_steer: f32 = f32(288);
    /// `aTargetMin` @10, retired.
    a_target_min: f32 = f32(320);
    /// `aTargetMax` @11, retired.
    a_target_max: f32 = f32(352);
    /// `jerkFactor` @12, retired.
    jerk_factor: f32 = f32(384);
    /// `angleSteers` @13, retired.
    angle_steers: f32 = f32(416);
    /// `hudLead` @14, retired.
    hud_lead: i32 = i32(448);
    /// `cumLagMs` @15, retired.
    cum_lag_ms: f32 = f32(480);
    /// `canMonoTime` @16, retired.
    can_mono_time: u64 = u64(512);
    /// `radarStateMonoTime` @17, retired.
    radar_state_mono_time: u64 = u64(576);
    /// `mdMonoTime` @18, retired.
    md_mono_time: u64 = u64(640);
    /// `enabled` @19, retired.
    enabled: bool = bool(704);
    /// `steerOverride` @20, retired.
    steer_override: bool = bool(705);
    /// `canMonoTimes` @21, retired.
    can_mono_times: Result<Numbers<'a, u64>, WireError> = numbers(0);
    /// `vCruise` @22, retired.
    v_cruise: f32 = f32(736);
    /// `rearViewCam` @23, retired.
    rear_view_cam: bool = bool(706);
    /// `alertText1` @24, retired.
    alert_text1: Result<&'a str, WireError> = text(1);
    /// `alertText2` @25, retired.
    alert_text2: Result<&'a str, WireError> = text(2);
    /// `awarenessStatus` @26, retired.
    awareness_status: f32 = f32(768);
    /// `angleModelBias` @27, retired.
    angle_model_bias: f32 = f32(800);
    /// `steeringAngleDesiredDeg` @29, retired.
    steering_angle_desired_deg: f32 = f32(896);
    /// `state` @31, retired.
    state: OpenpilotState = enumerant(928);
    /// `vEgoRaw` @32, retired.
    v_ego_raw: f32 = f32(960);
    /// `ufSteer` @34, retired.
    uf_steer: f32 = f32(1024);
    /// `aTarget` @35, retired.
    a_target: f32 = f32(1056);
    /// `active` @36, retired.
    active: bool = bool(707);
    /// `alertStatus` @38, retired.
    alert_status: AlertStatus = enumerant(944);
    /// `alertSize` @39, retired.
    alert_size: AlertSize = enumerant(1120);
    /// `gpsPlannerActive` @40, retired.
    gps_planner_active: bool = bool(708);
    /// `engageable` @41, retired.
    engageable: bool = bool(709);
    /// `alertBlinkingRate` @42, retired.
    alert_blinking_rate: f32 = f32(1152);
    /// `driverMonitoringOn` @43, retired.
    driver_monitoring_on: bool = bool(710);
    /// `alertType` @44, retired.
    alert_type: Result<&'a str, WireError> = text(3);
    /// `alertSound` @45, retired.
    alert_sound: Result<&'a str, WireError> = text(4);
    /// `vCurvature` @46, retired.
    v_curvature: f32 = f32(1184);
    /// `decelForTurn` @47, retired.
    decel_for_turn: bool = bool(711);
    /// `startMonoTime` @48, retired.
    start_mono_time: u64 = u64(1216);
    /// `mapValid` @49, retired.
    map_valid: bool = bool(712);
    /// `indiState` @52, LateralINDIState, whose fields have no names here, retired.
    indi_state: Result<StructReader<'a>, WireError> = structure(5);
    /// `lqrState` @55, LateralLQRState, whose fields have no names here, retired.
    lqr_state: Result<StructReader<'a>, WireError> = structure(5);
    /// `curvatureState` @65, LateralCurvatureState, whose fields have no names here, retired.
    curvature_state: Result<StructReader<'a>, WireError> = structure(5);
    /// `decelForModel` @54, retired.
    decel_for_model: bool = bool(714);
    /// `alertSound2` @56, AudibleAlert by number, retired.
    alert_sound2: u16 = u16(1344);
    /// `canErrorCounter` @57, retired.
    can_error_counter: u32 = u32(1376);
    /// `desiredCurvatureRate` @62, retired.
    desired_curvature_rate: f32 = f32(1440);
    /// `vCruiseCluster` @63, retired.
    v_cruise_cluster: f32 = f32(1472);
    /// `experimentalMode` @64, retired.
    experimental_mode: bool = bool(715);
    /// `personality` @66, retired.
    personality: LongitudinalPersonality = enumerant(1360);
}

log_struct! {
    /// The state of PID control.
    ControlsStateLateralPIDState;
    /// `active` @0.
    active: bool = bool(0);
    /// `steeringAngleDeg` @1.
    steering_angle_deg: f32 = f32(32);
    /// `steeringRateDeg` @2.
    steering_rate_deg: f32 = f32(64);
    /// `angleError` @3.
    angle_error: f32 = f32(96);
    /// `p` @4.
    p: f32 = f32(128);
    /// `i` @5.
    i: f32 = f32(160);
    /// `f` @6.
    f: f32 = f32(192);
    /// `output` @7.
    output: f32 = f32(224);
    /// `saturated` @8.
    saturated: bool = bool(1);
    /// `steeringAngleDesiredDeg` @9.
    steering_angle_desired_deg: f32 = f32(256);
}

log_struct! {
    /// The state of torque control.
    ControlsStateLateralTorqueState;
    /// `active` @0.
    active: bool = bool(0);
    /// `error` @1.
    error: f32 = f32(32);
    /// `p` @2.
    p: f32 = f32(64);
    /// `i` @3.
    i: f32 = f32(96);
    /// `d` @4.
    d: f32 = f32(128);
    /// `f` @5.
    f: f32 = f32(160);
    /// `output` @6.
    output: f32 = f32(192);
    /// `saturated` @7.
    saturated: bool = bool(1);
    /// `errorRate` @8.
    error_rate: f32 = f32(224);
    /// `actualLateralAccel` @9.
    actual_lateral_accel: f32 = f32(256);
    /// `desiredLateralAccel` @10.
    desired_lateral_accel: f32 = f32(288);
    /// `desiredLateralJerk` @11.
    desired_lateral_jerk: f32 = f32(320);
    /// `version` @12.
    version: i32 = i32(352);
}

log_struct! {
    /// The state of angle control.
    ControlsStateLateralAngleState;
    /// `active` @0.
    active: bool = bool(0);
    /// `steeringAngleDeg` @1.
    steering_angle_deg: f32 = f32(32);
    /// `output` @2.
    output: f32 = f32(64);
    /// `saturated` @3.
    saturated: bool = bool(1);
    /// `steeringAngleDesiredDeg` @4.
    steering_angle_desired_deg: f32 = f32(96);
}

log_struct! {
    /// Whether openpilot drives, and what it says; older logs have it in ControlsState.
    SelfdriveState;
    /// `state` @0.
    state: OpenpilotState = enumerant(0);
    /// `enabled` @1.
    enabled: bool = bool(16);
    /// `active` @2.
    active: bool = bool(17);
    /// `alertText1` @3.
    alert_text1: Result<&'a str, WireError> = text(0);
    /// `alertText2` @4.
    alert_text2: Result<&'a str, WireError> = text(1);
    /// `alertStatus` @5.
    alert_status: AlertStatus = enumerant(32);
    /// `alertSize` @6.
    alert_size: AlertSize = enumerant(48);
    /// `alertType` @7.
    alert_type: Result<&'a str, WireError> = text(2);
    /// `alertSound` @8, AudibleAlert by number.
    alert_sound: u16 = u16(64);
    /// `engageable` @9.
    engageable: bool = bool(18);
    /// `experimentalMode` @10.
    experimental_mode: bool = bool(19);
    /// `personality` @11.
    personality: LongitudinalPersonality = enumerant(80);
    /// `alertHudVisual` @12.
    alert_hud_visual: VisualAlert = enumerant(96);
}

log_struct! {
    /// Something that happened on the road.
    OnroadEvent;
    /// `name` @0, EventName by number.
    name: u16 = u16(0);
    /// `enable` @1.
    enable: bool = bool(16);
    /// `noEntry` @2.
    no_entry: bool = bool(17);
    /// `warning` @3.
    warning: bool = bool(18);
    /// `userDisable` @4.
    user_disable: bool = bool(19);
    /// `softDisable` @5.
    soft_disable: bool = bool(20);
    /// `immediateDisable` @6.
    immediate_disable: bool = bool(21);
    /// `preEnable` @7.
    pre_enable: bool = bool(22);
    /// `permanent` @8.
    permanent: bool = bool(23);
    /// `overrideLongitudinal` @9.
    override_longitudinal: bool = bool(24);
    /// `overrideLateral` @10.
    override_lateral: bool = bool(25);
}

log_struct! {
    /// Speeds and accelerations to come.
    LongitudinalPlan;
    /// `hasLead` @7.
    has_lead: bool = bool(2);
    /// `fcw` @8.
    fcw: bool = bool(3);
    /// `modelMonoTime` @9.
    model_mono_time: u64 = u64(192);
    /// `longitudinalPlanSource` @15.
    longitudinal_plan_source: LongitudinalPlanSource = enumerant(16);
    /// `aTarget` @18.
    a_target: f32 = f32(416);
    /// `processingDelay` @29.
    processing_delay: f32 = f32(576);
    /// `accels` @32.
    accels: Result<Numbers<'a, f32>, WireError> = numbers(3);
    /// `speeds` @33.
    speeds: Result<Numbers<'a, f32>, WireError> = numbers(4);
    /// `jerks` @34.
    jerks: Result<Numbers<'a, f32>, WireError> = numbers(5);
    /// `solverExecutionTime` @35.
    solver_execution_time: f32 = f32(608);
    /// `shouldStop` @37.
    should_stop: bool = bool(12);
    /// `allowThrottle` @38.
    allow_throttle: bool = bool(13);
    /// `allowBrake` @39.
    allow_brake: bool = bool(14);
    /// `lateralValid` @0, retired.
    lateral_valid: bool = bool(0);
    /// `dPoly` @1, retired.
    d_poly: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `longitudinalValid` @2, retired.
    longitudinal_valid: bool = bool(1);
    /// `vTarget` @3, retired.
    v_target: f32 = f32(32);
    /// `aTargetMin` @4, retired.
    a_target_min: f32 = f32(64);
    /// `aTargetMax` @5, retired.
    a_target_max: f32 = f32(96);
    /// `jerkFactor` @6, retired.
    jerk_factor: f32 = f32(128);
    /// `radarStateMonoTime` @10, retired.
    radar_state_mono_time: u64 = u64(256);
    /// `laneWidth` @11, retired.
    lane_width: f32 = f32(160);
    /// `gpsTrajectory` @12, GpsTrajectory, whose fields have no names here, retired.
    gps_trajectory: Result<StructReader<'a>, WireError> = structure(1);
    /// `events` @13, List(OnroadEventDEPRECATED), whose fields have no names here, retired.
    events: Result<StructList<'a, StructReader<'a>>, WireError> = structs(2);
    /// `vTargetFuture` @14, retired.
    v_target_future: f32 = f32(320);
    /// `vCruise` @16, retired.
    v_cruise: f32 = f32(352);
    /// `aCruise` @17, retired.
    a_cruise: f32 = f32(384);
    /// `gpsPlannerActive` @19, retired.
    gps_planner_active: bool = bool(4);
    /// `vMax` @20, retired.
    v_max: f32 = f32(448);
    /// `vCurvature` @21, retired.
    v_curvature: f32 = f32(480);
    /// `decelForTurn` @22, retired.
    decel_for_turn: bool = bool(5);
    /// `hasLeftLane` @23, retired.
    has_left_lane: bool = bool(6);
    /// `hasRightLane` @24, retired.
    has_right_lane: bool = bool(7);
    /// `mapValid` @25, retired.
    map_valid: bool = bool(8);
    /// `vStart` @26, retired.
    v_start: f32 = f32(512);
    /// `aStart` @27, retired.
    a_start: f32 = f32(544);
    /// `radarValid` @28, retired.
    radar_valid: bool = bool(9);
    /// `radarCanError` @30, retired.
    radar_can_error: bool = bool(10);
    /// `commIssue` @31, retired.
    comm_issue: bool = bool(11);
    /// `personality` @36, retired.
    personality: LongitudinalPersonality = enumerant(640);
}

log_struct! {
    /// Paths of 0.9 and older.
    LateralPlan;
    /// `mpcSolutionValid` @9.
    mpc_solution_valid: bool = bool(160);
    /// `desire` @17.
    desire: Desire = enumerant(176);
    /// `laneChangeState` @18.
    lane_change_state: LaneChangeState = enumerant(256);
    /// `laneChangeDirection` @19.
    lane_change_direction: LaneChangeDirection = enumerant(272);
    /// `dPathPoints` @20.
    d_path_points: Result<Numbers<'a, f32>, WireError> = numbers(4);
    /// `psis` @26.
    psis: Result<Numbers<'a, f32>, WireError> = numbers(5);
    /// `curvatures` @27.
    curvatures: Result<Numbers<'a, f32>, WireError> = numbers(6);
    /// `curvatureRates` @28.
    curvature_rates: Result<Numbers<'a, f32>, WireError> = numbers(7);
    /// `useLaneLines` @29.
    use_lane_lines: bool = bool(166);
    /// `solverExecutionTime` @30.
    solver_execution_time: f32 = f32(448);
    /// `modelMonoTime` @31.
    model_mono_time: u64 = u64(512);
    /// `solverCost` @32.
    solver_cost: f32 = f32(480);
    /// `solverState` @33, SolverState, whose fields have no names here.
    solver_state: Result<StructReader<'a>, WireError> = structure(8);
    /// `laneWidth` @0, retired.
    lane_width: f32 = f32(0);
    /// `dPoly` @1, retired.
    d_poly: Result<Numbers<'a, f32>, WireError> = numbers(0);
    /// `cPoly` @2, retired.
    c_poly: Result<Numbers<'a, f32>, WireError> = numbers(1);
    /// `cProb` @3, retired.
    c_prob: f32 = f32(32);
    /// `lPoly` @4, retired.
    l_poly: Result<Numbers<'a, f32>, WireError> = numbers(2);
    /// `lProb` @5, retired.
    l_prob: f32 = f32(64);
    /// `rPoly` @6, retired.
    r_poly: Result<Numbers<'a, f32>, WireError> = numbers(3);
    /// `rProb` @7, retired.
    r_prob: f32 = f32(96);
    /// `steeringAngleDeg` @8, retired.
    steering_angle_deg: f32 = f32(128);
    /// `paramsValid` @10, retired.
    params_valid: bool = bool(161);
    /// `angleOffsetDeg` @11, retired.
    angle_offset_deg: f32 = f32(192);
    /// `modelValid` @12, retired.
    model_valid: bool = bool(162);
    /// `steeringRateDeg` @13, retired.
    steering_rate_deg: f32 = f32(224);
    /// `sensorValid` @14, retired.
    sensor_valid: bool = bool(163);
    /// `commIssue` @15, retired.
    comm_issue: bool = bool(164);
    /// `posenetValid` @16, retired.
    posenet_valid: bool = bool(165);
    /// `dProb` @21, retired.
    d_prob: f32 = f32(288);
    /// `curvature` @22, retired.
    curvature: f32 = f32(320);
    /// `curvatureRate` @23, retired.
    curvature_rate: f32 = f32(352);
    /// `rawCurvature` @24, retired.
    raw_curvature: f32 = f32(384);
    /// `rawCurvatureRate` @25, retired.
    raw_curvature_rate: f32 = f32(416);
}
