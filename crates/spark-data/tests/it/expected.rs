//! Every figure of two recorded logs, against those that two other programs read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use spark_data::log::{Body, Compression, Event, LogReader};
use spark_data::schema::*;
use spark_testing::test_data;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// First, mean, last, least and greatest of a field.
#[derive(Default)]
struct Figures(Vec<f64>);

impl Figures {
    fn add(&mut self, value: f32) {
        self.0.push(f64::from(value));
    }

    fn json(&self) -> Value {
        let all = &self.0;
        json!({
            "first": all[0],
            "mean": all.iter().sum::<f64>() / all.len() as f64,
            "last": all[all.len() - 1],
            "min": all.iter().copied().fold(f64::INFINITY, f64::min),
            "max": all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// Figures by field, and what is said of the first and last of them.
#[derive(Default)]
struct Kind {
    count: u64,
    figures: BTreeMap<&'static str, Figures>,
    counts: BTreeMap<&'static str, u64>,
    said: Map<String, Value>,
}

impl Kind {
    fn figure(&mut self, name: &'static str, value: f32) {
        self.figures.entry(name).or_default().add(value);
    }

    fn count_if(&mut self, name: &'static str, holds: bool) {
        *self.counts.entry(name).or_default() += u64::from(holds);
    }

    fn first(&mut self, name: &str, value: impl Into<Value>) {
        self.said.entry(name).or_insert_with(|| value.into());
    }

    fn last(&mut self, name: &str, value: impl Into<Value>) {
        self.said.insert(name.to_owned(), value.into());
    }

    fn both(&mut self, value: Value) {
        self.first("first", value.clone());
        self.last("last", value);
    }

    fn json(self) -> Value {
        let mut all = self.said;
        all.insert("count".to_owned(), self.count.into());
        for (name, figures) in self.figures {
            all.insert(name.to_owned(), figures.json());
        }
        for (name, count) in self.counts {
            all.insert(name.to_owned(), count.into());
        }
        Value::Object(all)
    }
}

fn floats<T>(
    numbers: Result<spark_data::wire::Numbers<'_, T>, spark_data::wire::WireError>,
) -> Value
where
    T: spark_data::wire::Number + Into<f64>,
{
    numbers
        .unwrap()
        .iter()
        .map(Into::into)
        .collect::<Vec<f64>>()
        .into()
}

fn encode_index(kind: &mut Kind, index: EncodeIndex<'_>) {
    let value = json!({
        "frameId": index.frame_id(),
        "type": index.kind().to_string(),
        "encodeId": index.encode_id(),
        "segmentNum": index.segment_num(),
        "segmentId": index.segment_id(),
        "segmentIdEncode": index.segment_id_encode(),
        "timestampSof": index.timestamp_sof(),
        "timestampEof": index.timestamp_eof(),
        "flags": index.flags(),
        "len": index.n_bytes(),
    });
    let nth = kind.count - 1;
    let holds = |kind: &Kind, name: &str| kind.said.get(name).is_none_or(|it| it == true);
    let is_nth = holds(kind, "segmentId_is_0_to_n") && u64::from(index.segment_id()) == nth;
    kind.last("segmentId_is_0_to_n", is_nth);
    let before = kind.said.get("last").map(|last| last["frameId"].clone());
    let steps = before.is_none_or(|it| it.as_u64() == Some(u64::from(index.frame_id()) - 1));
    let steps = holds(kind, "frameId_step_1") && steps;
    kind.last("frameId_step_1", steps);
    kind.count_if("keyframes_flag_8", index.flags() & 8 != 0);
    if nth == 100 {
        kind.last("frame_100", value.clone());
    }
    kind.both(value);
}

fn model(kind: &mut Kind, model: ModelDataV2<'_>) {
    let lanes = model.lane_lines().unwrap();
    let leads = model.leads_v3().unwrap();
    let (position, lead) = (model.position().unwrap(), leads.get(0).unwrap());
    let meta = model.meta().unwrap();
    let ids = kind.said.entry("frameIds").or_insert_with(|| json!([]));
    ids.as_array_mut().unwrap().push(model.frame_id().into());
    kind.both(json!({
        "frameId": model.frame_id(),
        "timestampEof": model.timestamp_eof(),
        "position_x": floats(position.x()),
        "position_y": floats(position.y()),
        "velocity_x_0": floats(model.velocity().unwrap().x())[0],
        "laneLineProbs": floats(model.lane_line_probs()),
        "laneLines_len": lanes.len(),
        "laneLines_1_y": floats(lanes.get(1).unwrap().y()),
        "roadEdges_len": model.road_edges().unwrap().len(),
        "roadEdgeStds": floats(model.road_edge_stds()),
        "leadsV3_len": leads.len(),
        "leadsV3_0_prob": lead.prob(),
        "leadsV3_0_x": floats(lead.x()),
        "meta_engagedProb": meta.engaged_prob(),
        "meta_desireState": floats(meta.desire_state()),
        "frameDropPerc": model.frame_drop_perc(),
        "modelExecutionTime": model.model_execution_time(),
    }));
}

fn legacy_model(kind: &mut Kind, model: ModelData<'_>) {
    let (path, lead) = (model.path().unwrap(), model.lead().unwrap());
    kind.both(json!({
        "frameId": model.frame_id(),
        "timestampEof": model.timestamp_eof(),
        "path_poly": floats(path.poly()),
        "path_std": path.std(),
        "leftLane_prob": model.left_lane().unwrap().prob(),
        "rightLane_prob": model.right_lane().unwrap().prob(),
        "lead_dist": lead.dist(),
        "lead_prob": lead.prob(),
        "speed": floats(model.speed()),
    }));
}

fn init_data(kind: &mut Kind, init: InitData<'_>) {
    let args = init.kernel_args().unwrap();
    let entries = |map: Result<spark_data::schema::Map<'_>, _>| -> Vec<(String, Vec<u8>)> {
        let entries = map.unwrap().entries().unwrap();
        let entry = |it: MapEntry<'_>| (it.key().unwrap().to_owned(), it.value().unwrap().to_vec());
        entries.iter().map(entry).collect()
    };
    let params = entries(init.params());
    let version = params.iter().find(|(key, _)| key == "Version").unwrap();
    let keys: Vec<&str> = params.iter().take(3).map(|(key, _)| key.as_str()).collect();
    let said = json!({
        "version": init.version().unwrap(),
        "gitCommit": init.git_commit().unwrap(),
        "gitBranch": init.git_branch().unwrap(),
        "gitRemote": init.git_remote().unwrap(),
        "dongleId": init.dongle_id().unwrap(),
        "deviceType": init.device_type().to_string(),
        "kernelVersion": init.kernel_version().unwrap(),
        "osVersion": init.os_version().unwrap(),
        "dirty": init.dirty(),
        "passive": init.passive(),
        "kernelArgs_len": args.len(),
        "kernelArgs_first": args.iter().next().unwrap().unwrap(),
        "params_len": params.len(),
        "commands_len": entries(init.commands()).len(),
        "androidProperties_len": entries(init.android_properties()).len(),
        "params_keys_first3": keys,
        "param_Version": String::from_utf8(version.1.clone()).unwrap(),
    });
    kind.said.extend(said.as_object().unwrap().clone());
}

fn calibration(kind: &mut Kind, it: LiveCalibrationData<'_>) {
    kind.first("first_rpyCalib", floats(it.rpy_calib()));
    kind.first("first_calStatusDEPRECATED", it.cal_status_old());
    kind.first("first_calPerc", it.cal_perc());
    kind.first("first_extrinsicMatrix", floats(it.extrinsic_matrix()));
    kind.last("last_rpyCalib", floats(it.rpy_calib()));
    kind.last("last_calStatus", it.cal_status().to_string());
    kind.last("last_calPerc", it.cal_perc());
    kind.last("last_validBlocks", it.valid_blocks());
    kind.last(
        "last_wideFromDeviceEuler",
        floats(it.wide_from_device_euler()),
    );
    kind.last("last_height", floats(it.height()));
}

fn car_params(kind: &mut Kind, it: CarParams<'_>) {
    let torque = it.lateral_tuning_torque().unwrap().unwrap();
    let speed = it.longitudinal_tuning().unwrap();
    let said = json!({
        "brand": it.brand().unwrap(),
        "carFingerprint": it.car_fingerprint().unwrap(),
        "mass": it.mass(),
        "wheelbase": it.wheelbase(),
        "centerToFront": it.center_to_front(),
        "steerRatio": it.steer_ratio(),
        "rotationalInertia": it.rotational_inertia(),
        "tireStiffnessFront": it.tire_stiffness_front(),
        "tireStiffnessRear": it.tire_stiffness_rear(),
        "steerActuatorDelay": it.steer_actuator_delay(),
        "openpilotLongitudinalControl": it.openpilot_longitudinal_control(),
        "lateralTuning_which": if it.lateral_tuning_tag() == 3 { "torque" } else { "other" },
        "lateralTuning_torque": {
            "friction": torque.friction(),
            "latAccelFactor": torque.lat_accel_factor(),
            "latAccelOffset": torque.lat_accel_offset(),
        },
        "longitudinalTuning_kiBP": floats(speed.ki_bp()),
        "longitudinalTuning_kiV": floats(speed.ki_v()),
        "carFw_len": it.car_fw().unwrap().len(),
        "carVin": it.car_vin().unwrap(),
    });
    kind.said.extend(said.as_object().unwrap().clone());
}

/// Adds an event to what is known of its kind.
fn add(kind: &mut Kind, event: &Event<'_>) {
    kind.count += 1;
    match event.body().unwrap() {
        Body::InitData(it) => init_data(kind, it),
        Body::CarState(it) => {
            kind.figure("vEgo", it.v_ego());
            kind.figure("steeringAngleDeg", it.steering_angle_deg());
            kind.figure("aEgo", it.a_ego());
            kind.figure("yawRate", it.yaw_rate());
            kind.count_if("steeringPressed_true", it.steering_pressed());
            kind.count_if(
                "cruiseState_enabled_true",
                it.cruise_state().unwrap().enabled(),
            );
            kind.first("gearShifter_first", it.gear_shifter().to_string());
            let wheels = it.wheel_speeds().unwrap();
            kind.first(
                "wheelSpeeds_first",
                json!([wheels.fl(), wheels.fr(), wheels.rl(), wheels.rr()]),
            );
            kind.first("first_logMonoTime", event.log_mono_time());
            kind.last("last_logMonoTime", event.log_mono_time());
        }
        Body::CarControl(it) => {
            let actuators = it.actuators().unwrap();
            kind.count_if("latActive_true", it.lat_active());
            kind.count_if("longActive_true", it.long_active());
            kind.count_if("enabled_true", it.enabled());
            kind.figure("actuators_torque", actuators.torque());
            kind.figure("actuators_accel", actuators.accel());
        }
        Body::ControlsState(it) => {
            kind.figure("curvature", it.curvature());
            kind.figure("desiredCurvature", it.desired_curvature());
            let torque = it.lateral_control_state_torque_state().unwrap().unwrap();
            let n = kind
                .said
                .get("lateralControlState_which")
                .map_or(0, |it| it["torqueState"].as_u64().unwrap());
            kind.last("lateralControlState_which", json!({ "torqueState": n + 1 }));
            kind.last("torqueState_output_last", torque.output());
            kind.count_if("enabledDEPRECATED_true", it.enabled());
            kind.last("vCruiseDEPRECATED_last", it.v_cruise());
        }
        Body::ModelV2(it) => model(kind, it),
        Body::Model(it) => legacy_model(kind, it),
        Body::LiveCalibration(it) => calibration(kind, it),
        Body::CarParams(it) => car_params(kind, it),
        Body::RoadCameraState(it) => {
            let value = json!({
                "frameId": it.frame_id(),
                "timestampSof": it.timestamp_sof(),
                "timestampEof": it.timestamp_eof(),
                "sensor": it.sensor().to_string(),
                "integLines": it.integ_lines(),
            });
            kind.first("first", value);
            kind.last("last_frameId", it.frame_id());
        }
        Body::RoadEncodeIdx(it)
        | Body::WideRoadEncodeIdx(it)
        | Body::DriverEncodeIdx(it)
        | Body::QRoadEncodeIdx(it) => encode_index(kind, it),
        Body::Can(frames) => {
            let all = kind
                .said
                .entry("frames_per_event")
                .or_insert_with(|| json!([]));
            all.as_array_mut().unwrap().push(frames.len().into());
            let frame = |it: CanData<'_>| json!({ "address": it.address(), "src": it.src(), "dat_hex": hex(it.dat().unwrap()) });
            let first: Vec<Value> = frames.iter().take(3).map(frame).collect();
            kind.first("first_event_first_3", first);
        }
        Body::LongitudinalPlan(it) => {
            let speeds = it.speeds().unwrap();
            kind.figure("accels_0", it.accels().unwrap().get(0).unwrap());
            kind.first("speeds_len", speeds.len());
            kind.first("speeds_first", floats(it.speeds()));
            kind.count_if("hasLead_true", it.has_lead());
        }
        Body::RadarState(it) => {
            let lead = it.lead_one().unwrap();
            kind.count_if("leadOne_status_true", lead.status());
            kind.figure("leadOne_dRel", lead.d_rel());
        }
        Body::GpsLocationExternal(it) => {
            kind.figure("speed", it.speed());
            kind.first("first_unixTimestampMillis", it.unix_timestamp_millis());
            kind.first("first_latitude", it.latitude());
            kind.first("first_vNED", floats(it.v_ned()));
        }
        Body::CameraOdometry(it) => {
            kind.first("first_trans", floats(it.trans()));
            kind.first("first_rot", floats(it.rot()));
            kind.last("last_trans", floats(it.trans()));
        }
        Body::DriverMonitoringState(it) => {
            kind.count_if("isRHD_true", it.is_rhd());
            kind.count_if("faceDetected_true", it.face_detected());
        }
        Body::DriverState(it) => {
            kind.first("first_frameId", it.frame_id());
            kind.first("first_faceProb", it.face_prob());
            kind.first("first_faceOrientation", floats(it.face_orientation()));
        }
        Body::DeviceState(it) => kind.first("deviceType_first", it.device_type().to_string()),
        Body::Clocks(it) => kind.first("first_wallTimeNanos", it.wall_time_nanos()),
        Body::Thumbnail(it) => {
            let picture = it.thumbnail().unwrap();
            kind.first("first_frameId", it.frame_id());
            kind.first("first_bytes", picture.len());
            kind.first("first_sha256", sha256(picture));
        }
        Body::Sentinel(it) => {
            let all = kind.said.entry("all").or_insert_with(|| json!([]));
            all.as_array_mut()
                .unwrap()
                .push(it.kind().to_string().into());
        }
        _ => {}
    }
}

/// What a log says, in the words of the expected figures.
fn read(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap();
    let (_, mut whole) = Compression::reader(&bytes[..]).unwrap();
    let mut decompressed = Vec::new();
    std::io::Read::read_to_end(&mut whole, &mut decompressed).unwrap();
    let mut log = LogReader::open(path).unwrap();
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    let (mut by_tag, mut by_segments) = (
        BTreeMap::<String, u64>::new(),
        BTreeMap::<String, u64>::new(),
    );
    let mut times = Vec::new();
    let (mut n_invalid, mut first, mut last) = (0, Value::Null, Value::Null);
    while let Some(event) = log.next_event() {
        let event = event.unwrap();
        let name = event.name().unwrap();
        *by_tag.entry(event.tag().to_string()).or_default() += 1;
        *by_segments
            .entry(event.message().segments().to_string())
            .or_default() += 1;
        times.push(event.log_mono_time());
        n_invalid += u64::from(!event.is_valid());
        last = json!({ "which": name, "logMonoTime": event.log_mono_time() });
        if first.is_null() {
            first = last.clone();
        }
        add(kinds.entry(name.to_owned()).or_default(), &event);
    }
    let counts: Map<String, Value> = kinds
        .iter()
        .map(|(name, kind)| (name.clone(), kind.count.into()))
        .collect();
    let mut all = json!({
        "bytes": bytes.len(),
        "sha256": sha256(&bytes),
        "decompressed_bytes": decompressed.len(),
        "decompressed_sha256": sha256(&decompressed),
        "events": times.len(),
        "events_by_type": counts,
        "events_by_discriminant": by_tag,
        "first_in_file_order": first,
        "last_in_file_order": last,
        "min_logMonoTime": times.iter().min(),
        "max_logMonoTime": times.iter().max(),
        "sum_logMonoTime_mod_2_64": times.iter().fold(0u64, |sum, it| sum.wrapping_add(*it)),
        "is_sorted_by_logMonoTime": times.is_sorted(),
        "invalid_events": n_invalid,
        "messages_by_segment_count": by_segments,
    });
    for (name, kind) in kinds {
        let value = kind.json();
        let name = if name == "model" {
            "model_legacy".to_owned()
        } else {
            name
        };
        let value = if name == "sentinel" {
            value["all"].clone()
        } else {
            value
        };
        all[name] = value;
    }
    all
}

/// Counts the figures that are as expected; panics at the first that is not.
fn compare(at: &str, want: &Value, got: &Value) -> usize {
    match (want, got) {
        (Value::Object(want), _) => {
            let each = want
                .iter()
                .map(|(key, want)| compare(&format!("{at}.{key}"), want, &got[key]));
            each.sum()
        }
        (Value::Array(want), Value::Array(got)) => {
            assert_eq!(want.len(), got.len(), "{at}");
            let each = want.iter().zip(got).enumerate();
            each.map(|(i, (want, got))| compare(&format!("{at}[{i}]"), want, got))
                .sum()
        }
        (Value::Number(want), Value::Number(got)) if want.is_f64() => {
            let (want, got) = (want.as_f64().unwrap(), got.as_f64().unwrap());
            // Means are sums in another order; other numbers may be parsed one step of f64 off.
            let most = if at.ends_with(".mean") {
                1e-12
            } else {
                f64::EPSILON * want.abs()
            };
            assert!((want - got).abs() <= most, "{at}: {got}, not {want}");
            1
        }
        _ => {
            assert_eq!(want, got, "{at}");
            1
        }
    }
}

fn check(key: &str, left_out: &[&str], at_least: usize) {
    let Some(drives) = test_data("data/drive") else {
        return;
    };
    let expected = std::fs::read(drives.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let mut want = expected[key].clone();
    let got = read(&drives.join(want["file"].as_str().unwrap()));
    for name in left_out {
        want.as_object_mut().unwrap().remove(*name).unwrap();
    }
    let n_figures = compare(key, &want, &got);
    assert!(n_figures >= at_least, "only {n_figures} figures");
}

#[test]
fn the_demo_log_reads_as_it_does_elsewhere() {
    check("demo_qlog", &["file"], 600);
}

#[test]
fn the_partial_log_of_2019_reads_as_it_does_elsewhere() {
    check("partial_rlog", &["file", "note"], 80);
}
