// The closed loop of one scenario, one thread each: src/run on a GPU.
//
//   n        scenarios, one thread each; tables are [field][n], so that neighbours read neighbours
//   cars     f32  what does not change (Car), then state, motion and torque at the start, then what a
//                 controller knows of each car
//   exact    f64  step, bias and standard deviation of every sensor's noise
//   whole    u32  numbers of steps, delays, places in `pieces` and `lines`, which sensors are noisy, seed
//   pieces   f64  [piece][6]: start, length, curvature, its rate, sin(grade), bank
//   lines    f64  [line][4]: from when, value, slope, start
//   settings f32  planner, interface, then the controller's own parameters
//   ring     f32  [2 or 3][n_rows][n]: commands on their way, and requests that a controller remembers
//   others   where scenarios have other road users: traffic.cuh
//
//   for step in 0 .. n_steps:
//     sense      road, requests, car    -> State        what the controller sees
//     control    the algorithm          -> Action
//     actuate    delays                 -> commands that arrive now
//     drive      actuators, vehicle     -> the next state
//     score      metrics                -> sums in f32, every 64 steps into totals in f64
//     others     actors, lead, collision                            (kernels for traffic only)
//   totals, extremes, ends
//
// Tricks:
// 1. Everything lives in registers; memory is read where a road or request changes and for delays.
// 2. Operations and their order are those of the CPU path, so the results have the same bits.
#pragma once

#include "vehicles.cuh"

namespace sim {

// Channels of sensors that can be noisy; src/run/perception.rs has the same numbers.
enum Noisy {
  OFFSET_SEEN, HEADING_SEEN, CURVATURE_SEEN, SPEED_SEEN, YAW_RATE_SEEN, ANGLE_SEEN, ROLL_SEEN, N_NOISY,
  // Of the car ahead; their rows follow the others.
  LEAD_GAP_SEEN = N_NOISY, LEAD_SPEED_SEEN, LEAD_ACCELERATION_SEEN
};
enum Exact { DT, NOISE, N_EXACT = NOISE + 2 * N_NOISY };
enum Whole {
  N_STEPS, STEER_DELAY, ACCEL_DELAY, FIRST_PIECE, PIECE, N_PIECES,
  FIRST_LINE, N_LINES = FIRST_LINE + 4, NOISY = N_LINES + 4, SEED_LOW, SEED_HIGH, N_WHOLE
};
enum Setting {
  PATH_FREQUENCY, PATH_PER_METRE, PATH_DAMPING, APPROACH_ANGLE, PREVIEW_S, INTERFACE, STEERS, SETS_SPEED, TIME_GAP, N_SETTINGS
};
enum Interface { ANGLE, TORQUE, CURVATURE };
enum Profile { CRUISE, OFFSET, REQUESTED_CURVATURE, REQUESTED_ACCELERATION, N_PROFILES };
enum Ending { FINISHED, BAD_STEER, BAD_ACCEL, BAD_STATE, COLLIDED };
constexpr int N_CAR = sizeof(Car) / sizeof(float);
constexpr int N_STATES_MOST = 9;
// State, motion and torque at the start.
constexpr int N_START = N_STATES_MOST + 4;
constexpr int WINDOW_STEPS = 64;
constexpr int N_SUMS = 19;
constexpr int N_EXTREMES = 6;
// Stream of white noise of channel 0; the channel is in the bits from 51 on.
constexpr unsigned long long NOISE_STREAM = 0x006E6F697365ull | 2ull << 48;

// What a controller sees; names and units as in the Rust type of that name. Flags are 0 or 1.
struct State {
  float time, dt, v_ego, a_ego, yaw_rate, steering_angle_deg, steering_rate_deg, roll, lateral_offset, heading_error;
  float road_curvature, desired_curvature, curvature_limited, v_target, a_target, should_stop;
  float lead_present, lead_d_rel, lead_v_rel, lead_a_rel;
  float active, steering_pressed, brake_pressed, gas_pressed, steer_limited_by_safety, cruise_standstill;
  float accel_min, accel_max;
};

// What it answers.
struct Action { float steer, accel, saturated; };

struct Tables {
  const float* cars;
  const double* exact;
  const unsigned* whole;
  const double* pieces;
  const double* lines;
  const float* settings;
  float* ring;
  double* totals;
  float* extremes;
  unsigned* ends;
  // Apart: as one pair the compiler would load both where a function needs one.
  alignas(8) unsigned n;
  alignas(8) unsigned n_rows;
  // Other road users, of whom there are `n_places`.
  const double* actors;
  const unsigned* rules;
  const unsigned* slots;
  double* moving;
  unsigned n_places;
};

struct Piece { float ahead, length, curvature, curvature_rate, grade, bank; };

__device__ inline Piece piece_at(const double* pieces, unsigned idx, double car_start) {
  const double* at = pieces + static_cast<size_t>(idx) * 6;
  return {static_cast<float>(at[0] - car_start), static_cast<float>(at[1]), static_cast<float>(at[2]),
          static_cast<float>(at[3]), static_cast<float>(at[4]), static_cast<float>(at[5])};
}

struct Line {
  float value, slope, start, next;
  __device__ __forceinline__ float at(float t) const { return value + slope * (t - start); }
};

// Where the car is on its road and in its requests.
struct Place {
  unsigned first_piece, piece, preview_piece;
  Piece road, preview;
  unsigned line[N_PROFILES];
  Line lines[N_PROFILES];
  float next_line;

  __device__ inline void load_pieces(const Tables& t) {
    double car_start = t.pieces[static_cast<size_t>(first_piece + piece) * 6];
    road = piece_at(t.pieces, first_piece + piece, car_start);
    preview = piece_at(t.pieces, first_piece + preview_piece, car_start);
  }

  // Moves car and preview point to the pieces they are on now.
  __device__ inline void change_pieces(const Tables& t, float& place, float ahead) {
    const double* pieces = t.pieces + static_cast<size_t>(first_piece) * 6;
    unsigned before = piece, preview_before = preview_piece;
    float s = place;
    while (s >= static_cast<float>(pieces[piece * 6 + 1])) {
      s = s - static_cast<float>(pieces[piece * 6 + 1]);
      ++piece;
    }
    while (s < 0.0f && piece > 0) {
      --piece;
      s = s + static_cast<float>(pieces[piece * 6 + 1]);
    }
    double point = pieces[piece * 6] + static_cast<double>(s) + static_cast<double>(ahead);
    while (point >= pieces[preview_piece * 6] + pieces[preview_piece * 6 + 1]) ++preview_piece;
    while (preview_piece > 0 && point < pieces[preview_piece * 6]) --preview_piece;
    if (before != piece || preview_before != preview_piece) {
      place = s;
      load_pieces(t);
    }
  }

  // Takes the lines that hold at `at` seconds.
  __device__ inline void change_lines(const Tables& t, unsigned lane, double at) {
    next_line = __uint_as_float(0x7f800000u);
#pragma unroll
    for (int profile = 0; profile < N_PROFILES; ++profile) {
      unsigned n_lines = t.whole[(N_LINES + profile) * t.n + lane];
      const double* lines_of = t.lines + static_cast<size_t>(t.whole[(FIRST_LINE + profile) * t.n + lane]) * 4;
      while (line[profile] + 1 < n_lines && lines_of[(line[profile] + 1) * 4] <= at) ++line[profile];
      const double* from = lines_of + line[profile] * 4;
      bool is_last = line[profile] + 1 == n_lines;
      lines[profile].value = static_cast<float>(from[1]);
      lines[profile].slope = static_cast<float>(from[2]);
      lines[profile].start = static_cast<float>(from[3]);
      lines[profile].next = is_last ? __uint_as_float(0x7f800000u) : static_cast<float>(from[4]);
      next_line = minimum(next_line, lines[profile].next);
    }
  }
};

// What the car is doing beyond the state of its vehicle model.
struct Motion {
  float acceleration, applied, curvature, yaw_rate, lateral_acceleration, steer_rate, desired_curvature, offset_target;
  float steer_command, accel_command, has_last;
  // Curvature that is steered but not driven, for lack of grip; torque that safety code let through, and whether it cut it.
  float slip_curvature, torque, is_cut;
};

// Curvature that leads back to the lane's centre; src/control/planner.rs.
__device__ inline float path_curvature(const float* settings, float road_curvature, float offset, float sin_heading, float v) {
  float per_metre = minimum(settings[PATH_FREQUENCY] / maximum(v, 1.0f), settings[PATH_PER_METRE]);
  float turn = settings[PATH_DAMPING] * per_metre;
  float steepest = turn * settings[APPROACH_ANGLE];
  float back = clamp(per_metre * per_metre * offset, -steepest, steepest);
  return road_curvature - (back + turn * sin_heading);
}

// openpilot's limits on curvature; src/control/planner.rs.
__device__ inline float clip_curvature(float wanted, float last, float v, float gravity_share, float dt) {
  v = maximum(v, 1.0f);
  float per_v_squared = 1.0f / (v * v);
  float step = 5.0f * dt * per_v_squared;
  float jerk_limited = clamp(wanted, last - step, last + step);
  float limited = clamp(jerk_limited, (gravity_share - 3.0f) * per_v_squared, (gravity_share + 3.0f) * per_v_squared);
  return clamp(limited, static_cast<float>(-0.2), static_cast<float>(0.2));
}

__device__ inline float cruise(float v, float v_cruise) {
  float most = static_cast<float>(1.6) - static_cast<float>(0.04) * clamp(v, 0.0f, 10.0f) -
               static_cast<float>(0.4 / 15.0) * clamp(v - 10.0f, 0.0f, 15.0f) -
               static_cast<float>(0.2 / 15.0) * clamp(v - 25.0f, 0.0f, 15.0f);
  float wanted = clamp((v_cruise - v) / 2.0f, static_cast<float>(-1.2), most);
  return v_cruise <= v_cruise ? wanted : 0.0f;
}

// Fastest speed from which stopping comfortably behind a lead is possible; src/control/planner.rs.
__device__ inline float speed_for_gap(float gap, float v_lead, float time_gap) {
  float b = 2.5f;
  float room = maximum(gap - 6.0f + v_lead * v_lead / (b + b), 0.0f);
  float bt = b * time_gap;
  return sqrtf(bt * bt + (b + b) * room) - bt;
}

// Acceleration that keeps the wanted gap to a lead.
__device__ inline float follow(float v, float gap, float v_lead, float a_lead, float time_gap) {
  float b = 2.5f;
  float wanted = speed_for_gap(gap, v_lead, time_gap);
  float change = (v_lead - v + v_lead * a_lead / b) / (wanted / b + time_gap);
  return change + (wanted - v) / 1.0f;
}

__device__ inline unsigned long long seed_of(const Tables& t, unsigned lane) {
  return static_cast<unsigned long long>(t.whole[SEED_HIGH * t.n + lane]) << 32 | t.whole[SEED_LOW * t.n + lane];
}

// Noise of the sensors of one scenario: a constant error, and one drawn at every step.
struct Sensors {
  const Tables& t;
  unsigned lane, step, noisy;

  __device__ __noinline__ float error(int channel) const {
    unsigned long long seed = seed_of(t, lane);
    double sum = t.exact[(NOISE + 2 * channel) * t.n + lane];
    double deviation = t.exact[(NOISE + 2 * channel + 1) * t.n + lane];
    if (deviation > 0.0)
      sum = sum + deviation * normal(seed, NOISE_STREAM | static_cast<unsigned long long>(channel) << 51, step);
    return static_cast<float>(sum);
  }
  __device__ inline float read(int channel, float truth) const {
    return noisy >> channel & 1 ? truth + error(channel) : truth;
  }
};

// Nobody else is on the road. What a kernel for other road users has in its place is in traffic.cuh.
struct EmptyRoad {
  static constexpr bool HAS_ACTORS = false;
};

// The car ahead: whether it is there, how far, how fast, how it accelerates.
struct Lead { float present, gap, speed, acceleration; };
// The same as it is seen, with its speed relative to the car.
struct SeenLead { float gap, relative_speed, speed, acceleration; };

// A radar measures speeds relative to the car's, whose own speed `v` is known less exactly; src/run/sense.rs.
__device__ inline SeenLead see(const Lead& lead, const Sensors& sensors, float true_v, float v) {
  bool is_there = lead.present > 0.5f;
  float relative = lead.speed - true_v;
  float told = sensors.read(LEAD_SPEED_SEEN, relative);
  bool is_told = sensors.noisy >> SPEED_SEEN & 1 || (sensors.noisy >> LEAD_SPEED_SEEN & 1 && told <= told);
  told = told <= told ? told : relative;
  float gap = sensors.read(LEAD_GAP_SEEN, lead.gap), acceleration = sensors.read(LEAD_ACCELERATION_SEEN, lead.acceleration);
  gap = gap <= gap ? gap : lead.gap;
  acceleration = acceleration <= acceleration ? acceleration : lead.acceleration;
  return {is_there ? gap : 200.0f, is_there ? told : 0.0f, is_told ? v + told : lead.speed, is_there ? acceleration : 0.0f};
}

template <class Others, int N>
__device__ inline State sense(const Tables& t, const Car& car, const Place& place, Motion& motion, const Others& others, const float (&x)[N], float time, const Sensors& sensors) {
  float s = x[0];
  float preview_s = s + x[3] * t.settings[PREVIEW_S] - place.preview.ahead;
  float preview_curvature = place.preview.curvature + place.preview.curvature_rate * preview_s;
  float road_curvature = place.road.curvature + place.road.curvature_rate * s;
  if (sensors.noisy >> CURVATURE_SEEN & 1) {
    float error = sensors.error(CURVATURE_SEEN);
    preview_curvature = preview_curvature + error;
    road_curvature = road_curvature + error;
  }
  float v = sensors.read(SPEED_SEEN, x[3]), heading = sensors.read(HEADING_SEEN, x[4]);
  float roll = sensors.read(ROLL_SEEN, place.road.bank);
  float offset_target = place.lines[OFFSET].at(time);
  float v_target = place.lines[CRUISE].at(time);
  float offset = sensors.read(OFFSET_SEEN, x[1]) - offset_target;
  float by_path = path_curvature(t.settings, preview_curvature, offset, sin_cos(heading).sin, v);
  float wanted = car.has_curvature_request > 0.5f ? place.lines[REQUESTED_CURVATURE].at(time) : by_path;
  float desired = clip_curvature(wanted, motion.desired_curvature, v, -GRAVITY * roll, car.dt);
  bool limited = absolute(desired - wanted) > static_cast<float>(1e-6);

  float a_planned = cruise(v, v_target), v_planned = v_target;
  SeenLead lead = {200.0f, 0.0f, 0.0f, 0.0f};
  float lead_present = 0.0f;
  if constexpr (Others::HAS_ACTORS) {
    Lead truth = others.lead(t, sensors.lane);
    lead = see(truth, sensors, x[3], v);
    lead_present = truth.present;
    if (lead_present > 0.5f) {
      float time_gap = t.settings[TIME_GAP];
      a_planned = minimum(a_planned, follow(v, lead.gap, lead.speed, lead.acceleration, time_gap));
      v_planned = minimum(v_planned, speed_for_gap(lead.gap, lead.speed, time_gap));
    }
  }
  bool by_request = car.has_acceleration_request > 0.5f;
  float asked = place.lines[REQUESTED_ACCELERATION].at(time);
  float a_target = clamp(by_request ? asked : a_planned, car.accel_min, car.accel_max);
  float v_wanted = by_request ? (asked < 0.0f ? 0.0f : v) : v_planned;
  bool stop = v < static_cast<float>(0.3) && v_wanted < static_cast<float>(0.15);
  motion.desired_curvature = desired;
  motion.offset_target = offset_target;

  State state = {};
  state.time = time;
  state.dt = car.dt;
  state.v_ego = v;
  state.a_ego = motion.acceleration;
  state.yaw_rate = sensors.read(YAW_RATE_SEEN, motion.yaw_rate);
  state.steering_angle_deg = sensors.read(ANGLE_SEEN, x[2] * car.steer_ratio_deg);
  state.steering_rate_deg = motion.steer_rate * car.steer_ratio_deg;
  state.roll = roll;
  state.lateral_offset = offset;
  state.heading_error = heading;
  state.road_curvature = road_curvature;
  state.desired_curvature = desired;
  state.curvature_limited = limited ? 1.0f : 0.0f;
  state.v_target = v_target;
  state.a_target = a_target;
  state.should_stop = stop ? 1.0f : 0.0f;
  state.lead_present = lead_present;
  state.lead_d_rel = lead.gap;
  state.lead_v_rel = lead.relative_speed;
  state.lead_a_rel = lead.acceleration;
  state.active = 1.0f;
  state.steer_limited_by_safety = motion.is_cut;
  state.accel_min = car.accel_min;
  state.accel_max = car.accel_max;
  return state;
}

// The command of `delay` steps ago; the first one counts as given since ever.
__device__ inline float delayed(const Tables& t, unsigned lane, unsigned which, unsigned step, unsigned delay, float command, float& first) {
  if (step == 0) first = command;
  if (delay == 0) return command;
  float* ring = t.ring + static_cast<size_t>(which) * t.n_rows * t.n + lane;
  ring[static_cast<size_t>(step % t.n_rows) * t.n] = command;
  return step < delay ? first : ring[static_cast<size_t>((step - delay) % t.n_rows) * t.n];
}

// The share of full torque that safety code lets through; src/vehicle/actuator.rs.
__device__ inline float limited_torque(const Car& car, float command, float last) {
  bool is_left = last > 0.0f;
  float lowest = is_left ? maximum(last - car.torque_down, -car.torque_up) : last - car.torque_up;
  float highest = is_left ? last + car.torque_up : minimum(last + car.torque_down, car.torque_up);
  return clamp(clamp(command, -1.0f, 1.0f), lowest, highest);
}

// `sideways` is the acceleration with which bank and wind push to the right.
__device__ inline float rate_by_torque(const Car& car, float command, float steer, float speed, float sideways) {
  float torque = clamp(clamp(command, -1.0f, 1.0f) * car.full_torque, -car.torque_max, car.torque_max);
  float square = speed * speed;
  float length = car.wheelbase() + car.understeer * square;
  float real_length = car.wheelbase() + car.torque_understeer * square;
  float per_length = 1.0f / length;
  float per_real_length = 1.0f / real_length;
  float stiffness = square * per_length;
  float held = stiffness * steer + car.wheelbase() * per_length * sideways;
  float net = torque - held;
  float size = maximum(absolute(net) - car.torque_friction, 0.0f);
  float moving = net < 0.0f ? -size : size;
  float x = car.dt * car.inverse_damping * square * per_real_length;
  float near = minimum(x, 3.0f);
  float slower = 1.0f + near * (0.5f + near * static_cast<float>(1.0 / 12.0)) + (x - near);
  return moving * car.inverse_damping * length * per_real_length / slower;
}

__device__ inline float steering_rate(const Car& car, int interface, float command, float steer, float speed, float sideways) {
  if (interface == TORQUE) return rate_by_torque(car, command, steer, speed, sideways);
  float target = interface == ANGLE ? clamp(command, -1.0f, 1.0f) * car.steer_max
                                    : command * (car.wheelbase() + car.understeer * speed * speed);
  return (clamp(target, car.steer_min, car.steer_max) - steer) * car.steer_response;
}

template <class Model, class Rule>
__device__ inline void drive(const Car& car, const Place& place, int interface, const float (&x)[Model::N], float steer_command, const Motion& motion, float (&next)[Model::N]) {
  constexpr int N = Model::N;
  float air = x[3] + car.headwind;
  float airspeed = sqrtf(air * air + car.crosswind * car.crosswind);
  float wind = car.drag * (airspeed * air - x[3] * absolute(x[3]));
  float side_push = car.side_force * airspeed * car.crosswind;
  float sideways = GRAVITY * place.road.bank;
  if constexpr (N >= 7) sideways = sideways - side_push;
  float rate = steering_rate(car, interface, steer_command, x[2], x[3], sideways);
  float u[2] = {rate, motion.applied - (GRAVITY * place.road.grade + wind)};
  float from[N];
#pragma unroll
  for (int i = 0; i < N; ++i) from[i] = x[i];
  // At the limit of its grip a car turns as if its wheels were turned no further.
  bool slips = absolute(motion.slip_curvature) > 0.0f;
  if constexpr (N == 5) {
    if (slips) {
      from[2] = arc_tangent(motion.curvature * car.wheelbase());
      u[0] = 0.0f;
    }
  }
  Rule::template step<Model>({place.road.curvature, place.road.curvature_rate}, car, from, u, next);
  if constexpr (N == 5) {
    if (slips) next[2] = x[2] + car.dt * limited_steering_rate(car, x[2], rate);
  }
  next[3] = maximum(next[3], 0.0f);
  if constexpr (N >= 7) {
    // Bank and crosswind push sideways; a kinematic model has no tyres to give way.
    float push = side_push - GRAVITY * place.road.bank;
    float slip = next[6] + car.dt * push / maximum(next[3], 1.0f);
    next[6] = next[3] > 1.0f && next[3] >= car.kinematic_below ? slip : next[6];
  }
#pragma unroll
  for (int i = 0; i < N; ++i) next[i] = settled(next[i]);
}

struct Score {
  float sums[N_SUMS];
  float extremes[N_EXTREMES];

  template <int N>
  __device__ inline void add(const Car& car, int interface, const float (&next)[N], float v_target, float saturated, const Motion& last, const Motion& now) {
    float per_second = last.has_last * car.per_second;
    float steer_rate = (now.steer_command - last.steer_command) * per_second;
    float accel_rate = (now.accel_command - last.accel_command) * per_second;
    float lateral_jerk = (now.lateral_acceleration - last.lateral_acceleration) * per_second;
    float jerk = (now.acceleration - last.acceleration) * per_second;
    float offset = next[1] - now.offset_target;
    bool uncomfortable = absolute(now.lateral_acceleration) > 3.0f || absolute(lateral_jerk) > 5.0f ||
                         absolute(jerk) > 5.0f || now.acceleration > 2.0f || now.acceleration < -3.5f;
    bool off_lane = absolute(offset) + car.half_width > car.half_lane;
    bool off_road = next[1] > car.left_edge || next[1] < car.right_edge;
    bool at_grip_limit = now.lateral_acceleration * now.lateral_acceleration + now.acceleration * now.acceleration >=
                         static_cast<float>(0.999) * car.grip_squared;
    float speed_error = v_target - next[3];
    float curvature_error = now.desired_curvature - now.curvature;
    const float of_step[N_SUMS] = {
        1.0f, last.has_last, offset * offset, absolute(offset), next[4] * next[4], speed_error * speed_error,
        curvature_error * curvature_error, now.steer_command, now.steer_command * now.steer_command,
        steer_rate * steer_rate, accel_rate * accel_rate, lateral_jerk * lateral_jerk,
        now.acceleration * now.acceleration, jerk * jerk, uncomfortable ? 1.0f : 0.0f,
        saturated > 0.5f ? 1.0f : 0.0f, off_lane ? 1.0f : 0.0f, off_road ? 1.0f : 0.0f, at_grip_limit ? 1.0f : 0.0f};
#pragma unroll
    for (int i = 0; i < N_SUMS; ++i) sums[i] = sums[i] + of_step[i];
    const float sizes[5] = {absolute(offset), absolute(now.lateral_acceleration), absolute(lateral_jerk), -now.acceleration, absolute(jerk)};
#pragma unroll
    for (int i = 0; i < 5; ++i) extremes[i] = sizes[i] > extremes[i] ? sizes[i] : extremes[i];
    float margin = (interface == CURVATURE ? static_cast<float>(0.2) : 1.0f) - absolute(now.steer_command);
    extremes[5] = margin < extremes[5] ? margin : extremes[5];
  }

  __device__ inline void flush(const Tables& t, unsigned lane) {
#pragma unroll
    for (int i = 0; i < N_SUMS; ++i) {
      double* total = t.totals + static_cast<size_t>(i) * t.n + lane;
      *total = *total + static_cast<double>(sums[i]);
      sums[i] = 0.0f;
    }
  }
};

// Tells a controller's memory what it must know before the first step, if it asks for that.
template <class Control>
__device__ inline auto begin(typename Control::Memory& memory, const Tables& t, unsigned lane, int) -> decltype(Control::start(memory, t, lane)) {
  Control::start(memory, t, lane);
}
template <class Control>
__device__ inline void begin(typename Control::Memory&, const Tables&, unsigned, long) {}

// Control: `Memory`, zero at the start, and `update(state, car, parameters, memory, action)`.
// Others: who else is on the road.
template <class Model, class Rule, class Control, class Others = EmptyRoad>
__device__ inline void rollout(const Tables& t) {
  unsigned lane = blockIdx.x * blockDim.x + threadIdx.x;
  if (lane >= t.n) return;
  constexpr int N = Model::N;
  Car car;
  float* fields = reinterpret_cast<float*>(&car);
#pragma unroll
  for (int i = 0; i < N_CAR; ++i) fields[i] = t.cars[static_cast<size_t>(i) * t.n + lane];
  const float* start = t.cars + static_cast<size_t>(N_CAR) * t.n + lane;
  float x[N];
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = start[static_cast<size_t>(i) * t.n];

  Motion motion = {};
  motion.desired_curvature = start[static_cast<size_t>(N_STATES_MOST) * t.n];
  motion.yaw_rate = start[static_cast<size_t>(N_STATES_MOST + 1) * t.n];
  motion.lateral_acceleration = start[static_cast<size_t>(N_STATES_MOST + 2) * t.n];
  motion.torque = start[static_cast<size_t>(N_STATES_MOST + 3) * t.n];
  double dt = t.exact[DT * t.n + lane];
  Place place = {};
  place.first_piece = t.whole[FIRST_PIECE * t.n + lane];
  place.piece = place.preview_piece = t.whole[PIECE * t.n + lane];
  place.load_pieces(t);
  place.change_lines(t, lane, 0.25 * dt);
  int interface = static_cast<int>(t.settings[INTERFACE]);
  bool steers = t.settings[STEERS] > 0.5f, sets_speed = t.settings[SETS_SPEED] > 0.5f;
  unsigned n_steps = t.whole[N_STEPS * t.n + lane];
  unsigned steer_delay = t.whole[STEER_DELAY * t.n + lane], accel_delay = t.whole[ACCEL_DELAY * t.n + lane];
  unsigned noisy = t.whole[NOISY * t.n + lane];
  float first_steer = 0.0f, first_accel = 0.0f;
  Score score = {};
  score.extremes[5] = __uint_as_float(0x7f800000u);
  typename Control::Memory memory = {};
  begin<Control>(memory, t, lane, 0);
  Others others;
  if constexpr (Others::HAS_ACTORS) others.start(t, lane, place, x);
  Action action = {};
  unsigned ending = FINISHED, step = 0;
  float value = 0.0f;

  for (; step < n_steps; ++step) {
    State state = sense(t, car, place, motion, others, x, car.dt * static_cast<float>(step), {t, lane, step, noisy});
    float v_target = state.v_target;
    if (!steers) action.steer = state.desired_curvature;
    if (!sets_speed) action.accel = state.a_target;
    Control::update(state, car, t.settings + N_SETTINGS, memory, action);
    if (!is_finite(action.steer)) { ending = BAD_STEER; value = action.steer; break; }
    if (!is_finite(action.accel)) { ending = BAD_ACCEL; value = action.accel; break; }
    float given = action.steer;
    if (interface == TORQUE) {
      given = motion.torque = limited_torque(car, action.steer, motion.torque);
      motion.is_cut = absolute(given - action.steer) > static_cast<float>(1e-2) ? 1.0f : 0.0f;
    }
    float steer_now = delayed(t, lane, 0, step, steer_delay, given, first_steer);
    float accel_now = delayed(t, lane, 1, step, accel_delay, action.accel, first_accel);

    float wanted = clamp(accel_now, -car.deceleration_max, car.actuator_acceleration_max);
    motion.applied = settled(motion.applied + (wanted - motion.applied) * car.acceleration_share);
    float next[N];
    drive<Model, Rule>(car, place, interface, x, steer_now, motion, next);
    bool is_car = true;
#pragma unroll
    for (int i = 0; i < N; ++i) is_car = is_car && absolute(next[i]) < 1e7f;
    if (!is_car) { ending = BAD_STATE; break; }

    Motion last = motion;
    float v = next[3];
    motion.acceleration = (v - x[3]) * car.per_second;
    motion.steer_rate = (next[2] - x[2]) * car.per_second;
    if constexpr (N == 5) {
      motion.curvature = path_curvature(car, next[2]);
      motion.yaw_rate = v * motion.curvature;
    } else {
      motion.yaw_rate = next[5];
      motion.curvature = motion.yaw_rate / maximum(v, 1.0f);
    }
    motion.lateral_acceleration = settled(v * motion.yaw_rate);
    if constexpr (N == 5) {
      float longitudinal = motion.acceleration * motion.acceleration;
      motion.slip_curvature = 0.0f;
      // Beyond the friction circle the car turns less than its wheels.
      if (motion.lateral_acceleration * motion.lateral_acceleration + longitudinal > car.grip_squared) {
        float steered = motion.curvature;
        float most = sqrtf(maximum(car.grip_squared - longitudinal, 0.0f)) / maximum(v * v, static_cast<float>(1e-3));
        motion.curvature = clamp(steered, -most, most);
        motion.yaw_rate = v * motion.curvature;
        motion.lateral_acceleration = settled(v * motion.yaw_rate);
        motion.slip_curvature = steered - motion.curvature;
      }
    }
    motion.steer_command = settled(action.steer);
    motion.accel_command = settled(action.accel);
    motion.has_last = 1.0f;
    score.add(car, interface, next, v_target, action.saturated, last, motion);
    if ((step + 1) % WINDOW_STEPS == 0) score.flush(t, lane);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = next[i];

    float ahead = x[0] + v * t.settings[PREVIEW_S] - place.preview.ahead;
    if (x[0] >= place.road.length || x[0] < 0.0f || ahead >= place.preview.length || ahead < 0.0f)
      place.change_pieces(t, x[0], maximum(v, 0.0f) * t.settings[PREVIEW_S]);
    float time = car.dt * static_cast<float>(step + 1);
    if (time + 0.25f * car.dt >= place.next_line)
      place.change_lines(t, lane, static_cast<double>(step + 1) * dt + 0.25 * dt);
    if constexpr (Others::HAS_ACTORS) {
      if (others.step(t, lane, place, x, step, dt)) { ending = COLLIDED; break; }
    }
  }

  score.flush(t, lane);
  t.totals[static_cast<size_t>(N_SUMS) * t.n + lane] =
      t.pieces[static_cast<size_t>(place.first_piece + place.piece) * 6] + static_cast<double>(x[0]);
#pragma unroll
  for (int i = 0; i < N_EXTREMES; ++i) t.extremes[static_cast<size_t>(i) * t.n + lane] = score.extremes[i];
  t.ends[lane] = ending;
  t.ends[t.n + lane] = step;
  t.ends[2 * t.n + lane] = __float_as_uint(value);
}

}  // namespace sim
