// Built-in controllers, as in src/control. A controller of one's own looks the same:
//
//   struct Control {
//     struct Memory { float integral; };                     zero at the start
//     __device__ static void update(const sim::State& state, const sim::Car& car,
//                                   const float* parameters, Memory& memory, sim::Action& action);
//   };
//
// One whose memory is told where things are before the first step has besides
//
//     __device__ static void start(Memory& memory, const sim::Tables& tables, unsigned lane);
//
// A table of gains over speed lies in the parameters as: number of stretches, first value, then
// start, width and slope of each.
#pragma once

#include "rollout.cuh"

namespace sim {

__device__ inline float table_at(const float*& table, float speed) {
  int n_stretches = static_cast<int>(table[0]);
  float value = table[1];
  table += 2;
  for (int i = 0; i < n_stretches; ++i, table += 3)
    value = value + table[2] * clamp(speed - table[0], 0.0f, table[1]);
  return value;
}

// The planner's curvature and acceleration, unchanged.
struct PerfectTracking {
  struct Memory {};
  __device__ static inline void update(const State& state, const Car&, const float*, Memory&, Action& action) {
    action.steer = state.desired_curvature;
    action.accel = state.a_target;
  }
};

// Parameters: timer (s), angle offset (deg), kf, table kp, table ki.
struct LateralPid {
  struct Memory { float integral, saturated_s; };

  __device__ static inline const float* update(const State& s, const Car& car, const float* parameters, Memory& memory, Action& action) {
    float timer = parameters[0], angle_offset = parameters[1], kf = parameters[2];
    const float* tables = parameters + 3;
    float kp = table_at(tables, s.v_ego);
    float ki = table_at(tables, s.v_ego);
    float v = s.v_ego;
    float straightened = s.desired_curvature * (1.0f - car.slip_factor * v * v) - GRAVITY * s.roll * car.slip_factor;
    float wanted = straightened * car.degrees_per_curvature + angle_offset;
    float error = wanted - s.steering_angle_deg;
    float direct = kp * error + kf * wanted * v * v;
    float step = ki * error * s.dt;
    float grown = clamp(memory.integral + step, -1.0f, 1.0f);
    float total = direct + grown;
    bool pushes_out = (total > 1.0f && step > 0.0f) || (total < -1.0f && step < 0.0f);
    bool limited = s.steer_limited_by_safety > 0.5f, pressed = s.steering_pressed > 0.5f, active = s.active > 0.5f;
    bool frozen = limited || pressed || v < 5.0f || pushes_out;
    float integral = frozen ? memory.integral : grown;
    float torque = clamp(direct + integral, -1.0f, 1.0f);
    bool at_limit = absolute(torque) > static_cast<float>(1.0 - 1e-3) && v > 10.0f && !limited && !pressed;
    float counted = clamp(memory.saturated_s + (at_limit ? s.dt : -s.dt), 0.0f, timer);
    memory.integral = active ? integral : 0.0f;
    memory.saturated_s = active ? counted : 0.0f;
    action.steer = active ? torque : 0.0f;
    action.saturated = counted > timer - static_cast<float>(1e-3) && active ? 1.0f : 0.0f;
    return tables;
  }
};

// Parameters: v_ego_starting, stopping_decel_rate, stop_accel, start_accel, kp, ki.
struct Longitudinal {
  enum Mode { OFF, STOPPING, STARTING, PID };
  struct Memory { int mode; float accel, integral; };

  __device__ static inline void update(const State& s, const Car&, const float* parameters, Memory& memory, Action& action) {
    float v_ego_starting = parameters[0], stopping_decel_rate = parameters[1], stop_accel = parameters[2];
    float start_accel = parameters[3], kp = parameters[4], ki = parameters[5];
    float error = s.a_target - s.a_ego;
    bool stop = s.should_stop > 0.5f;
    bool may_go = !stop && !(s.cruise_standstill > 0.5f) && !(s.brake_pressed > 0.5f);
    bool waiting = memory.mode == OFF || memory.mode == STOPPING;
    int driving = s.v_ego > v_ego_starting ? PID : memory.mode;
    int mode = waiting ? (may_go ? STARTING : STOPPING) : (stop ? STOPPING : driving);
    mode = s.active > 0.5f ? mode : OFF;

    float brake_harder = minimum(memory.accel, 0.0f) - stopping_decel_rate * s.dt;
    float while_stopping = memory.accel > stop_accel ? maximum(brake_harder, stop_accel) : memory.accel;
    float step = ki * error * s.dt;
    float direct = kp * error + s.a_target;
    float total = direct + memory.integral + step;
    bool pushes_out = (total > s.accel_max && step > 0.0f) || (total < s.accel_min && step < 0.0f);
    float integral = pushes_out ? memory.integral : memory.integral + step;
    float while_pid = direct + integral;
    float accel = mode == PID ? while_pid : start_accel;
    accel = mode == STOPPING ? while_stopping : accel;
    accel = clamp(mode == OFF ? 0.0f : accel, s.accel_min, s.accel_max);
    memory.mode = mode;
    memory.accel = accel;
    memory.integral = mode == PID ? integral : 0.0f;
    action.accel = accel;
    action.saturated = mode == PID && (while_pid > s.accel_max || while_pid < s.accel_min) ? 1.0f : 0.0f;
  }
};

// Parameters: curvature per metre of offset, and per rad of heading error.
struct Lqr {
  struct Memory {};
  __device__ static inline void update(const State& s, const Car&, const float* gains, Memory&, Action& action) {
    float correction = gains[0] * s.lateral_offset + gains[1] * s.heading_error;
    action.steer = s.road_curvature - correction;
  }
};

// Parameters: shortest look ahead (m), time of look ahead (s).
struct PurePursuit {
  struct Memory {};
  __device__ static inline void update(const State& s, const Car&, const float* parameters, Memory&, Action& action) {
    SinCos heading = sin_cos(s.heading_error);
    float ahead = maximum(s.v_ego * parameters[1], parameters[0]);
    float across = 0.5f * s.road_curvature * ahead * ahead - s.lateral_offset;
    float y = across * heading.cos - ahead * heading.sin;
    action.steer = 2.0f * y / (ahead * ahead + across * across);
  }
};

// Per car: full torque, friction made up for, rad per degree, wheelbase, understeer, share of the jerk's
// low-pass, 1 / (s between the two requests of the jerk); then how many steps ago the setpoint and those two lie.
// Parameters: timer (s), ki, weight of the jerk (s), table kp. The requests of the last second lie in the ring.
struct LateralTorque {
  enum Figure { FULL_TORQUE, FRICTION, PER_DEGREE, WHEELBASE, UNDERSTEER, JERK_SHARE, PER_WINDOW, SETPOINT, LATER, EARLIER };
  struct Memory {
    const float* figures;
    float* requests;
    unsigned n, n_rows, step;
    float integral, jerk, saturated_s;

    __device__ __forceinline__ float figure(Figure which) const { return figures[static_cast<size_t>(which) * n]; }
    // A car that has only just started remembers a straight.
    __device__ inline float request(Figure age_of) const {
      unsigned age = static_cast<unsigned>(figure(age_of));
      return age > step ? 0.0f : requests[static_cast<size_t>((step - age) % n_rows) * n];
    }
  };

  __device__ static inline void start(Memory& memory, const Tables& t, unsigned lane) {
    memory.figures = t.cars + static_cast<size_t>(N_CAR + N_START) * t.n + lane;
    memory.requests = t.ring + static_cast<size_t>(2) * t.n_rows * t.n + lane;
    memory.n = t.n;
    memory.n_rows = t.n_rows;
  }

  __device__ static inline const float* update(const State& s, const Car&, const float* parameters, Memory& memory, Action& action) {
    float timer = parameters[0], ki = parameters[1], jerk_gain = parameters[2];
    const float* tables = parameters + 3;
    float kp = table_at(tables, s.v_ego);
    float v = s.v_ego;
    float request = s.desired_curvature * v * v;
    memory.requests[static_cast<size_t>(memory.step % memory.n_rows) * memory.n] = request;
    float setpoint = memory.request(SETPOINT), later = memory.request(LATER), earlier = memory.request(EARLIER);
    memory.step = memory.step + 1;

    float gravity_share = GRAVITY * s.roll;
    float square = v * v;
    float understeer = memory.figure(UNDERSTEER);
    float straightened = s.steering_angle_deg * memory.figure(PER_DEGREE) - understeer * gravity_share;
    float measured = square * straightened / (memory.figure(WHEELBASE) + understeer * square);
    float error = setpoint - measured;
    float raw_jerk = (later - earlier) * memory.figure(PER_WINDOW);
    float jerk = settled(memory.jerk + (raw_jerk - memory.jerk) * memory.figure(JERK_SHARE));
    float share = clamp((error + jerk_gain * jerk) / static_cast<float>(0.2), -1.0f, 1.0f);
    float feed_forward = request + gravity_share + memory.figure(FRICTION) * share;

    float full = maximum(memory.figure(FULL_TORQUE), static_cast<float>(0.1));
    float direct = kp * error + feed_forward;
    float step = ki * error * s.dt;
    float grown = clamp(memory.integral + step, -full, full);
    float total = direct + grown;
    bool pushes_out = (total > full && step > 0.0f) || (total < -full && step < 0.0f);
    bool limited = s.steer_limited_by_safety > 0.5f, pressed = s.steering_pressed > 0.5f, active = s.active > 0.5f;
    bool frozen = limited || pressed || v < 5.0f || pushes_out;
    float integral = frozen ? memory.integral : grown;
    float torque = clamp((direct + integral) / full, -1.0f, 1.0f);
    bool at_limit = absolute(torque) > static_cast<float>(1.0 - 1e-3) && v > 10.0f && !limited && !pressed;
    float counted = clamp(memory.saturated_s + (at_limit ? s.dt : -s.dt), 0.0f, timer);
    memory.integral = active ? integral : 0.0f;
    memory.jerk = active ? jerk : 0.0f;
    memory.saturated_s = active ? counted : 0.0f;
    action.steer = active ? torque : 0.0f;
    action.saturated = counted > timer - static_cast<float>(1e-3) && active ? 1.0f : 0.0f;
    return tables;
  }
};

// Steering of the one, speed of LongControl; the parameters follow each other.
template <class Lateral>
struct AndLongitudinal {
  struct Memory { typename Lateral::Memory lateral; Longitudinal::Memory longitudinal; };

  __device__ static inline void start(Memory& memory, const Tables& t, unsigned lane) {
    begin<Lateral>(memory.lateral, t, lane, 0);
  }

  __device__ static inline void update(const State& s, const Car& car, const float* parameters, Memory& memory, Action& action) {
    Action speed = action;
    const float* rest = Lateral::update(s, car, parameters, memory.lateral, action);
    Longitudinal::update(s, car, rest, memory.longitudinal, speed);
    action.accel = speed.accel;
    action.saturated = maximum(action.saturated, speed.saturated);
  }
};

}  // namespace sim
