// Vehicle models and rules for one step, as in src/vehicle and src/integrate.rs.
//
//   x    s, d, steer, speed, heading [, yaw rate, slip [, wheel front, wheel rear]]
//   u    steering rate (rad/s), acceleration (m/s^2)
//
//   Euler  x + dt f(x)
//   RK4    x + dt/6 (k1 + 2 k2 + 2 k3 + k4)
//
// `s` and heading are along the road: s' = x' / (1 - k d), heading' = psi' - k s'.
#pragma once

#include "numbers.cuh"

namespace sim {

// What does not change during a scenario; src/run/gpu/lanes.rs writes the same list.
struct Car {
  float mass, yaw_inertia, front_axle, rear_axle, cog_height, friction, grip, cornering_front, cornering_rear;
  float steer_min, steer_max, steer_rate_min, steer_rate_max, speed_min, speed_max, switch_speed, acceleration_max;
  float wheel_radius, wheel_inertia, brake_front, engine_front, trailer_wheelbase, kinematic_below;
  float steer_response, acceleration_share, actuator_acceleration_max, deceleration_max, full_torque, torque_friction;
  float understeer, torque_max, inverse_damping, torque_understeer, torque_up, torque_down;
  float dt, per_second, steer_ratio_deg, has_curvature_request, has_acceleration_request, drag, side_force, headwind, crosswind;
  float half_width, half_lane, left_edge, right_edge, grip_squared;
  float accel_min, accel_max, slip_factor, degrees_per_curvature;

  __device__ __forceinline__ float wheelbase() const { return front_axle + rear_axle; }
};

__device__ __forceinline__ float limited_steering_rate(const Car& p, float steer, float rate) {
  bool blocked = (steer <= p.steer_min && rate <= 0.0f) || (steer >= p.steer_max && rate >= 0.0f);
  return blocked ? 0.0f : clamp(rate, p.steer_rate_min, p.steer_rate_max);
}

__device__ __forceinline__ float limited_acceleration(const Car& p, float speed, float acceleration) {
  bool blocked = (speed <= p.speed_min && acceleration <= 0.0f) || (speed >= p.speed_max && acceleration >= 0.0f);
  float unlimited = blocked ? 0.0f : clamp(acceleration, -p.acceleration_max, p.acceleration_max);
  float power = p.acceleration_max * p.switch_speed;
  bool power_limited = speed > p.switch_speed && unlimited * speed > power;
  return power_limited ? power / speed : unlimited;
}

// Curvature of the path of a car without slip.
__device__ __forceinline__ float path_curvature(const Car& p, float steer) {
  SinCos of = sin_cos(steer);
  return of.sin / (of.cos * p.wheelbase());
}

struct Kinematic {
  static constexpr int N = 5;

  __device__ static __forceinline__ void derivative(const Car& p, const float (&x)[N], const float (&u)[2], float (&dx)[N]) {
    SinCos heading = sin_cos(x[4]);
    dx[0] = x[3] * heading.cos;
    dx[1] = x[3] * heading.sin;
    dx[2] = limited_steering_rate(p, x[2], u[0]);
    dx[3] = limited_acceleration(p, x[3], u[1]);
    dx[4] = x[3] * path_curvature(p, x[2]);
  }
};

// The kinematic model about the centre of gravity, near standstill.
struct LowSpeed { float slip, yaw_rate, yaw_acceleration, slip_rate; };

template <int N>
__device__ __forceinline__ LowSpeed kinematic_about_centre(const Car& p, const float (&x)[N], float steer_rate, float acceleration) {
  float speed = x[3], wheelbase = p.wheelbase();
  float rear_share = p.rear_axle / wheelbase;
  SinCos steer = sin_cos(x[2]);
  float tan_steer = steer.sin / steer.cos;
  float cos_squared = steer.cos * steer.cos;
  float kinematic_slip = arc_tangent(tan_steer * rear_share);
  float inner = tan_steer * tan_steer * rear_share;
  float slip_rate = p.rear_axle * steer_rate / (wheelbase * cos_squared * (1.0f + inner * inner));
  SinCos slip = sin_cos(x[6]);
  LowSpeed low;
  low.slip = kinematic_slip;
  low.yaw_rate = speed * sin_cos(kinematic_slip).cos * tan_steer / wheelbase;
  low.yaw_acceleration = (acceleration * slip.cos * tan_steer - speed * slip.sin * slip_rate * tan_steer +
                          speed * slip.cos * steer_rate / cos_squared) / wheelbase;
  low.slip_rate = slip_rate;
  return low;
}

struct SingleTrack {
  static constexpr int N = 7;

  __device__ static __forceinline__ void derivative(const Car& p, const float (&x)[N], const float (&u)[2], float (&dx)[N]) {
    float steer = x[2], speed = x[3], yaw_rate = x[5], slip = x[6];
    float steer_rate = limited_steering_rate(p, steer, u[0]);
    float acceleration = limited_acceleration(p, speed, u[1]);
    bool slow = absolute(speed) < p.kinematic_below;
    float course = slip + x[4];
    if (slow) {
      LowSpeed low = kinematic_about_centre(p, x, steer_rate, acceleration);
      dx[4] = low.yaw_rate;
      dx[5] = low.yaw_acceleration;
      dx[6] = low.slip_rate;
      course = low.slip + x[4];
    } else {
      float a = p.front_axle, b = p.rear_axle;
      float transfer = acceleration * p.cog_height;
      float front = p.cornering_front * (GRAVITY * b - transfer);
      float rear = p.cornering_rear * (GRAVITY * a + transfer);
      float imbalance = b * rear - a * front;
      float yaw_rate_over_speed = yaw_rate / speed;
      dx[4] = yaw_rate;
      dx[5] = p.friction * p.mass / (p.yaw_inertia * p.wheelbase()) *
              (a * front * steer + imbalance * slip - (a * a * front + b * b * rear) * yaw_rate_over_speed);
      dx[6] = p.friction / (speed * p.wheelbase()) *
              (front * steer - (rear + front) * slip + imbalance * yaw_rate_over_speed) - yaw_rate;
    }
    SinCos of = sin_cos(course);
    dx[0] = speed * of.cos;
    dx[1] = speed * of.sin;
    dx[2] = steer_rate;
    dx[3] = acceleration;
  }
};

// Along a road of curvature `curvature + curvature_rate s`.
struct Frame { float curvature, curvature_rate; };

template <class Model>
__device__ __forceinline__ void rate_along(const Frame& frame, const Car& p, const float (&x)[Model::N], const float (&u)[2], float (&dx)[Model::N]) {
  Model::derivative(p, x, u, dx);
  float k = frame.curvature + frame.curvature_rate * x[0];
  float along = dx[0] / (1.0f - k * x[1]);
  dx[0] = along;
  dx[4] = dx[4] - k * along;
}

struct Euler {
  template <class Model>
  __device__ static __forceinline__ void step(const Frame& frame, const Car& p, const float (&x)[Model::N], const float (&u)[2], float (&next)[Model::N]) {
    float rate[Model::N];
    rate_along<Model>(frame, p, x, u, rate);
    for (int i = 0; i < Model::N; ++i) next[i] = x[i] + p.dt * rate[i];
  }
};

struct Rk4 {
  template <class Model>
  __device__ static __forceinline__ void step(const Frame& frame, const Car& p, const float (&x)[Model::N], const float (&u)[2], float (&next)[Model::N]) {
    constexpr int N = Model::N;
    float at[N], sum[N], k[N];
    for (int i = 0; i < N; ++i) { at[i] = x[i]; sum[i] = 0.0f; }
    // A loop, so that a large right-hand side is compiled once.
#pragma unroll 1
    for (int stage = 0; stage < 4; ++stage) {
      rate_along<Model>(frame, p, at, u, k);
      float reach = p.dt * (stage < 2 ? 0.5f : (stage == 2 ? 1.0f : 0.0f));
      float weight = stage == 1 || stage == 2 ? 2.0f : 1.0f;
      for (int i = 0; i < N; ++i) {
        sum[i] = sum[i] + weight * k[i];
        at[i] = x[i] + reach * k[i];
      }
    }
    float sixth = p.dt / 6.0f;
    for (int i = 0; i < N; ++i) next[i] = x[i] + sixth * sum[i];
  }
};

}  // namespace sim
