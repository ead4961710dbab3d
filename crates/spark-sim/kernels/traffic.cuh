// Other road users of a scenario, as in src/traffic, src/run/traffic.rs and src/collision.rs.
//
//   actors   f64 [figure][place]   what does not change: size, and the figures of their rules
//   rules    u32 [part][place]     how they choose speed and offset, and where their points lie in `lines`
//   moving   f64 [value][place]    where they are and how they move: filled by the host, kept here
//   slots    u32 [slot]            actor i of a scenario has the place slots[i] + the scenario's rank
//   lines    f64 [line][4]         besides requests: speeds and offsets over time, and replays (time, s, d)
//
// Scenarios are ranked by their number of actors, most first, so that slots have no holes:
//
//   actors  3 2 1     places of slot 0  0 1 2     of slot 1  3 4     of slot 2  5
//
//   for each actor: leader -> speed, offset -> place        every one sees what those before it have just done
//   the car's lead; gap, headway, time to collision, collision
//
// The drive of the car takes most of a thread's registers. So what is kept from step to step lies in memory, and the
// longest parts are functions of their own, not inlined: otherwise single-track cars spill.
#pragma once

#include "doubles.cuh"
#include "rollout.cuh"

namespace sim {

// A rectangle seen from above.
struct Outline {
  double x, y, sin, cos, length, width;

  // Half the extent along a unit vector.
  __device__ inline double reach(double axis_x, double axis_y) const {
    double along = absolute(cos * axis_x + sin * axis_y);
    double across = absolute(-sin * axis_x + cos * axis_y);
    return 0.5 * (length * along + width * across);
  }
};

struct Contact {
  // Whether they touch within the horizon, when first, and whether they do now.
  bool comes, is_now;
  double time;
};

// Separating axes, while both go on at these velocities relative to each other.
__device__ inline Contact contact(const Outline& own, const Outline& other, double velocity_x, double velocity_y, double horizon) {
  double dx = other.x - own.x, dy = other.y - own.y;
  double enter = 0.0, leave = horizon;
  bool is_now = true;
#pragma unroll 1
  for (int i = 0; i < 4; ++i) {
    double sin = i < 2 ? own.sin : other.sin, cos = i < 2 ? own.cos : other.cos;
    double axis_x = i & 1 ? -sin : cos, axis_y = i & 1 ? cos : sin;
    double distance = dx * axis_x + dy * axis_y;
    double speed = velocity_x * axis_x + velocity_y * axis_y;
    double reach = own.reach(axis_x, axis_y) + other.reach(axis_x, axis_y);
    is_now = is_now && absolute(distance) <= reach;
    if (absolute(speed) < 1e-12) {
      if (absolute(distance) > reach) return {false, false, 0.0};
      continue;
    }
    double a = (-reach - distance) / speed, b = (reach - distance) / speed;
    enter = maximum(minimum(a, b), enter);
    leave = minimum(maximum(a, b), leave);
    if (enter > leave) return {false, false, 0.0};
  }
  return {true, is_now, enter};
}

// How many of these rows begin at `t` or before.
__device__ inline unsigned n_begun(const double* rows, unsigned n, double t) {
  unsigned low = 0, high = n;
  while (low < high) {
    unsigned middle = (low + high) / 2;
    if (rows[static_cast<size_t>(middle) * 4] <= t) low = middle + 1;
    else high = middle;
  }
  return low;
}

// A value over time; the first line holds since ever.
__device__ inline double value_at(const double* lines, unsigned n, double t) {
  const double* line = lines + static_cast<size_t>(n_begun(lines, n, t) - 1) * 4;
  return line[1] + line[2] * (t - line[3]);
}

// The car as others see it: the centre of its outline.
struct Ego { double s, d, speed, heading, sin, cos, length, width; };

// The other road users of one scenario, and what they mean for the car.
struct Traffic {
  static constexpr bool HAS_ACTORS = true;
  // Figures of an actor; those of a rule begin with the trigger, if it has one.
  enum Figure { LENGTH, WIDTH, START_OFFSET, OF_SPEED, OF_OFFSET = OF_SPEED + 6, N_FIGURES = OF_OFFSET + 5 };
  enum Part { SPEED_RULE, OFFSET_RULE, SPEED_LINE, N_SPEED_LINES, OFFSET_LINE, N_OFFSET_LINES, N_PARTS };
  enum SpeedRule { HOLD, SPEED_OVER_TIME, BRAKE_AT, BRAKE_BELOW_GAP, IDM, KRAUSS, REPLAY };
  enum OffsetRule { KEEP, CHANGE_AT, CHANGE_BELOW_GAP, OFFSET_OVER_TIME };
  enum Value { S, D, SPEED, ACCELERATION, LATERAL_SPEED, IS_BRAKING, CHANGES_SINCE, N_VALUES };
  // Rows that only scenarios with other road users have.
  enum OfCar { CAR_LENGTH = N_EXACT + 6, CAR_WIDTH, TO_CENTRE, LANE_WIDTH, N_EXACT_OF_CAR };
  enum Places { N_ACTORS = N_WHOLE, RANK, N_WHOLE_OF_CAR };

  // Stream of random numbers of drivers that dawdle.
  static constexpr unsigned long long DRIVER_STREAM = 0x64726976;
  static constexpr double HARDEST_BRAKING = 9.0, INTRUSION = 0.3, NEAR = 150.0, HORIZON_S = 10.0;

  // Kept from step to step, behind the car's extremes.
  enum Kept { TTC = N_EXTREMES, GAP, HEADWAY, LEAD_PRESENT, LEAD_GAP, LEAD_SPEED, LEAD_ACCELERATION, N_KEPT };

  // For the time of a step.
  unsigned n, rank;

  __device__ static __forceinline__ float& kept(const Tables& t, unsigned lane, Kept which) {
    return t.extremes[static_cast<size_t>(which) * t.n + lane];
  }
  __device__ static __forceinline__ void lower(const Tables& t, unsigned lane, Kept which, float value) {
    float& least = kept(t, lane, which);
    least = minimum(value, least);
  }
  __device__ static __forceinline__ Lead lead(const Tables& t, unsigned lane) {
    return {kept(t, lane, LEAD_PRESENT), kept(t, lane, LEAD_GAP), kept(t, lane, LEAD_SPEED), kept(t, lane, LEAD_ACCELERATION)};
  }

  __device__ __forceinline__ size_t place(const Tables& t, unsigned actor) const { return t.slots[actor] + rank; }
  __device__ static __forceinline__ double figure(const Tables& t, size_t place, int which) {
    return t.actors[static_cast<size_t>(which) * t.n_places + place];
  }
  __device__ static __forceinline__ unsigned part(const Tables& t, size_t place, Part which) {
    return t.rules[static_cast<size_t>(which) * t.n_places + place];
  }
  __device__ static __forceinline__ double& moving(const Tables& t, size_t place, Value which) {
    return t.moving[static_cast<size_t>(which) * t.n_places + place];
  }

  template <int N>
  __device__ inline Ego see_car(const Tables& t, unsigned lane, const Place& road, const float (&x)[N]) const {
    Ego ego;
    ego.heading = static_cast<double>(x[4]);
    SinCosDouble of = sin_cos(ego.heading);
    double to_centre = t.exact[static_cast<size_t>(TO_CENTRE) * t.n + lane];
    double piece = t.pieces[static_cast<size_t>(road.first_piece + road.piece) * 6];
    ego.s = piece + static_cast<double>(x[0]) + to_centre * of.cos;
    ego.d = static_cast<double>(x[1]) + to_centre * of.sin;
    ego.speed = static_cast<double>(x[3]);
    ego.sin = of.sin;
    ego.cos = of.cos;
    ego.length = t.exact[static_cast<size_t>(CAR_LENGTH) * t.n + lane];
    ego.width = t.exact[static_cast<size_t>(CAR_WIDTH) * t.n + lane];
    return ego;
  }

  __device__ inline void count(const Tables& t, unsigned lane) {
    n = t.whole[static_cast<size_t>(N_ACTORS) * t.n + lane];
    rank = t.whole[static_cast<size_t>(RANK) * t.n + lane];
  }

  // Before the first step nobody moves, but the car sees who is ahead.
  template <int N>
  __device__ inline void start(const Tables& t, unsigned lane, const Place& road, const float (&x)[N]) {
    count(t, lane);
    for (int i = TTC; i <= HEADWAY; ++i) kept(t, lane, static_cast<Kept>(i)) = __uint_as_float(0x7f800000u);
    find_lead(t, lane, see_car(t, lane, road, x));
  }

  // The nearest actor ahead whose side reaches into the car's lane.
  __device__ __noinline__ Lead find_lead(const Tables& t, unsigned lane, const Ego& ego) const {
    double lane_width = t.exact[static_cast<size_t>(LANE_WIDTH) * t.n + lane];
    Lead lead = {0.0f, 200.0f, static_cast<float>(ego.speed), 0.0f};
    double nearest = 0.0;
    bool found = false;
    for (unsigned i = 0; i < n; ++i) {
      size_t at = place(t, i);
      double s = moving(t, at, S);
      bool inside = absolute(moving(t, at, D)) - 0.5 * figure(t, at, WIDTH) < 0.5 * lane_width - INTRUSION;
      if (!inside || s <= ego.s) continue;
      double free = s - ego.s - 0.5 * (figure(t, at, LENGTH) + ego.length);
      if (found && !(free < nearest)) continue;
      found = true;
      nearest = free;
      lead = {1.0f, static_cast<float>(free), static_cast<float>(moving(t, at, SPEED)),
              static_cast<float>(moving(t, at, ACCELERATION))};
    }
    kept(t, lane, LEAD_PRESENT) = lead.present;
    kept(t, lane, LEAD_GAP) = lead.gap;
    kept(t, lane, LEAD_SPEED) = lead.speed;
    kept(t, lane, LEAD_ACCELERATION) = lead.acceleration;
    return lead;
  }

  struct Leader { bool exists; double speed, gap; };

  // The nearest car, the ego included, ahead of an actor and beside less than a car's width.
  __device__ inline Leader leader_of(const Tables& t, unsigned actor, const Ego& ego) const {
    size_t own = place(t, actor);
    double s = moving(t, own, S), d = moving(t, own, D);
    double length = figure(t, own, LENGTH), width = figure(t, own, WIDTH);
    Leader leader = {false, 0.0, 0.0};
    for (unsigned i = 0; i <= n; ++i) {
      if (i == actor) continue;
      bool is_ego = i == n;
      size_t at = is_ego ? 0 : place(t, i);
      double other_s = is_ego ? ego.s : moving(t, at, S);
      double other_d = is_ego ? ego.d : moving(t, at, D);
      double other_width = is_ego ? ego.width : figure(t, at, WIDTH);
      if (!(other_s > s && absolute(other_d - d) < 0.5 * (other_width + width))) continue;
      double other_length = is_ego ? ego.length : figure(t, at, LENGTH);
      double free = other_s - s - 0.5 * (other_length + length);
      if (leader.exists && !(free < leader.gap)) continue;
      leader = {true, is_ego ? ego.speed : moving(t, at, SPEED), free};
    }
    return leader;
  }

  __device__ static inline double idm_speed(const Tables& t, size_t at, double speed, const Leader& leader, double dt) {
    double lead_speed = leader.exists ? leader.speed : speed, gap = leader.exists ? leader.gap : 1e6;
    double inverse_desired = figure(t, at, OF_SPEED), time_gap = figure(t, at, OF_SPEED + 1);
    double standstill_gap = figure(t, at, OF_SPEED + 2), most = figure(t, at, OF_SPEED + 3);
    double ratio = speed * inverse_desired;
    ratio = ratio * ratio;
    double dynamic = speed * time_gap + speed * (speed - lead_speed) * figure(t, at, OF_SPEED + 4);
    double wanted_gap = standstill_gap + maximum(dynamic, 0.0);
    double interaction = wanted_gap / maximum(gap, 0.1);
    interaction = interaction * interaction;
    double wanted = most * (1.0 - ratio * ratio - interaction);
    return speed + maximum(wanted, -HARDEST_BRAKING) * dt;
  }

  __device__ static inline double krauss_speed(const Tables& t, size_t at, double speed, const Leader& leader, double dawdle, double dt) {
    double acceleration = figure(t, at, OF_SPEED), deceleration = figure(t, at, OF_SPEED + 1);
    double imperfection = figure(t, at, OF_SPEED + 2);
    double safe = minimum(speed + acceleration * dt, figure(t, at, OF_SPEED + 5));
    if (leader.exists) {
      double room = maximum(leader.gap - figure(t, at, OF_SPEED + 4), 0.0);
      double bt = deceleration * figure(t, at, OF_SPEED + 3);
      double by_gap = -bt + sqrt(bt * bt + leader.speed * leader.speed + 2.0 * deceleration * room);
      safe = minimum(by_gap, safe);
    }
    double wanted = maximum(safe, speed - deceleration * dt);
    return maximum(wanted - dt * imperfection * acceleration * dawdle, 0.0);
  }

  // Recorded places, straight lines between them.
  __device__ static inline void replay(const Tables& t, size_t at, double next_t, double dt) {
    const double* points = t.lines + static_cast<size_t>(part(t, at, SPEED_LINE)) * 4;
    unsigned n_points = part(t, at, N_SPEED_LINES);
    unsigned after = n_begun(points, n_points, next_t);
    const double* from = points + static_cast<size_t>(after > 0 ? after - 1 : 0) * 4;
    double s = from[1], d = from[2];
    if (after > 0 && after < n_points) {
      double share = (next_t - from[0]) / (from[4] - from[0]);
      s = from[1] + share * (from[5] - from[1]);
      d = from[2] + share * (from[6] - from[2]);
    }
    double speed = (s - moving(t, at, S)) / dt;
    moving(t, at, ACCELERATION) = (speed - moving(t, at, SPEED)) / dt;
    moving(t, at, LATERAL_SPEED) = (d - moving(t, at, D)) / dt;
    moving(t, at, S) = s;
    moving(t, at, D) = d;
    moving(t, at, SPEED) = speed;
  }

  // Moves one actor from `now` on by `dt`.
  __device__ __noinline__ void advance(const Tables& t, unsigned actor, const Ego& ego, double now, double dt, unsigned long long seed, unsigned step) {
    size_t at = place(t, actor);
    double next_t = now + dt;
    unsigned speed_rule = part(t, at, SPEED_RULE), offset_rule = part(t, at, OFFSET_RULE);
    if (speed_rule == REPLAY) {
      replay(t, at, next_t, dt);
      return;
    }
    double s = moving(t, at, S), d = moving(t, at, D), speed = moving(t, at, SPEED);
    double gap_to_ego = s - ego.s - 0.5 * (figure(t, at, LENGTH) + ego.length);
    double next_speed = speed;
    if (speed_rule == SPEED_OVER_TIME) {
      const double* lines = t.lines + static_cast<size_t>(part(t, at, SPEED_LINE)) * 4;
      next_speed = value_at(lines, part(t, at, N_SPEED_LINES), next_t);
    } else if (speed_rule == BRAKE_AT || speed_rule == BRAKE_BELOW_GAP) {
      double trigger = figure(t, at, OF_SPEED), final_speed = figure(t, at, OF_SPEED + 2);
      bool fires = speed_rule == BRAKE_AT ? now >= trigger : gap_to_ego < trigger;
      if (fires) moving(t, at, IS_BRAKING) = 1.0;
      if (moving(t, at, IS_BRAKING) > 0.5 && speed > final_speed)
        next_speed = maximum(speed - figure(t, at, OF_SPEED + 1) * dt, final_speed);
    } else if (speed_rule == IDM) {
      next_speed = idm_speed(t, at, speed, leader_of(t, actor, ego), dt);
    } else if (speed_rule == KRAUSS) {
      unsigned long long counter = static_cast<unsigned long long>(step) * n + actor;
      double dawdle = static_cast<double>(philox_bits(seed, DRIVER_STREAM, counter)) * (1.0 / 9007199254740992.0);
      next_speed = krauss_speed(t, at, speed, leader_of(t, actor, ego), dawdle, dt);
    }

    double offset = d;
    if (offset_rule == OFFSET_OVER_TIME) {
      const double* lines = t.lines + static_cast<size_t>(part(t, at, OFFSET_LINE)) * 4;
      offset = value_at(lines, part(t, at, N_OFFSET_LINES), next_t);
    } else if (offset_rule == CHANGE_AT || offset_rule == CHANGE_BELOW_GAP) {
      double trigger = figure(t, at, OF_OFFSET), since = moving(t, at, CHANGES_SINCE);
      bool fires = offset_rule == CHANGE_AT ? now >= trigger : gap_to_ego < trigger;
      if (since < 0.0 && fires) since = moving(t, at, CHANGES_SINCE) = now;
      offset = figure(t, at, START_OFFSET);
      if (since >= 0.0) {
        double way = figure(t, at, OF_OFFSET + 1), acceleration = figure(t, at, OF_OFFSET + 3);
        double speed_goal = figure(t, at, OF_OFFSET + 4);
        double done = minimum((next_t - since) / figure(t, at, OF_OFFSET + 2), 1.0);
        if (done < 1.0 && (speed_goal - next_speed) * acceleration > 0.0) {
          double changed = next_speed + acceleration * dt;
          next_speed = acceleration > 0.0 ? minimum(changed, speed_goal) : maximum(changed, speed_goal);
        }
        offset = offset + 0.5 * way * (1.0 - sin_cos(3.14159265358979323846 * done).cos);
      }
    }

    next_speed = maximum(next_speed, 0.0);
    moving(t, at, ACCELERATION) = (next_speed - speed) / dt;
    moving(t, at, LATERAL_SPEED) = (offset - d) / dt;
    moving(t, at, S) = s + 0.5 * (speed + next_speed) * dt;
    moving(t, at, D) = offset;
    moving(t, at, SPEED) = next_speed;
  }

  // Gap, headway and time to collision of this step; whether the car has hit somebody, which is written at once.
  __device__ __noinline__ bool judge(const Tables& t, unsigned lane, const Ego& ego, const Lead& lead, double now, double dt) const {
    bool hits = false;
    if (lead.present > 0.5f) {
      lower(t, lane, GAP, lead.gap);
      if (ego.speed > 0.5) lower(t, lane, HEADWAY, static_cast<float>(static_cast<double>(lead.gap) / ego.speed));
    }
    Outline own = {ego.s, ego.d, ego.sin, ego.cos, ego.length, ego.width};
    double velocity_x = ego.speed * ego.cos, velocity_y = ego.speed * ego.sin;
    for (unsigned i = 0; i < n; ++i) {
      size_t at = place(t, i);
      double s = moving(t, at, S);
      if (absolute(s - ego.s) > NEAR) continue;
      double speed = moving(t, at, SPEED), lateral_speed = moving(t, at, LATERAL_SPEED);
      SinCosDouble of = sin_cos(arc_tangent(lateral_speed / maximum(speed, 0.1)));
      Outline other = {s, moving(t, at, D), of.sin, of.cos, figure(t, at, LENGTH), figure(t, at, WIDTH)};
      Contact with = contact(own, other, speed - velocity_x, lateral_speed - velocity_y, HORIZON_S);
      if (!with.comes) continue;
      lower(t, lane, TTC, static_cast<float>(with.time));
      if (with.is_now && !hits) {
        hits = true;
        t.totals[static_cast<size_t>(N_SUMS + 1) * t.n + lane] = now + dt;
        t.totals[static_cast<size_t>(N_SUMS + 2) * t.n + lane] = velocity_x - speed;
        t.ends[static_cast<size_t>(3) * t.n + lane] = i;
      }
    }
    return hits;
  }

  // One step of everybody; whether the car has hit somebody.
  template <int N>
  __device__ inline bool step(const Tables& t, unsigned lane, const Place& road, const float (&x)[N], unsigned step_idx, double dt) {
    unsigned long long seed = seed_of(t, lane);
    double now = static_cast<double>(step_idx) * dt;
    count(t, lane);
    Ego ego = see_car(t, lane, road, x);
    for (unsigned i = 0; i < n; ++i) advance(t, i, ego, now, dt, seed, step_idx);
    return judge(t, lane, ego, find_lead(t, lane, ego), now, dt);
  }
};

}  // namespace sim
