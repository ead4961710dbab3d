// The closed loop with LatControlPID and LongControl, other road users included; see rollout.cuh.
#include "controllers.cuh"
#include "traffic.cuh"
// options: --fmad=false

extern "C" __global__ void __launch_bounds__(128, 2) rollout_pid_long_traffic_kinematic_euler(const float* cars, const double* exact, const unsigned* whole, const double* pieces, const double* lines, const float* settings, float* ring, double* totals, float* extremes, unsigned* ends, unsigned n, unsigned n_rows, const double* actors, const unsigned* rules, const unsigned* slots, double* moving, unsigned n_places) {
  sim::rollout<sim::Kinematic, sim::Euler, sim::AndLongitudinal<sim::LateralPid>, sim::Traffic>({cars, exact, whole, pieces, lines, settings, ring, totals, extremes, ends, n, n_rows, actors, rules, slots, moving, n_places});
}

extern "C" __global__ void __launch_bounds__(128, 2) rollout_pid_long_traffic_kinematic_rk4(const float* cars, const double* exact, const unsigned* whole, const double* pieces, const double* lines, const float* settings, float* ring, double* totals, float* extremes, unsigned* ends, unsigned n, unsigned n_rows, const double* actors, const unsigned* rules, const unsigned* slots, double* moving, unsigned n_places) {
  sim::rollout<sim::Kinematic, sim::Rk4, sim::AndLongitudinal<sim::LateralPid>, sim::Traffic>({cars, exact, whole, pieces, lines, settings, ring, totals, extremes, ends, n, n_rows, actors, rules, slots, moving, n_places});
}

extern "C" __global__ void __launch_bounds__(128, 2) rollout_pid_long_traffic_single_track_euler(const float* cars, const double* exact, const unsigned* whole, const double* pieces, const double* lines, const float* settings, float* ring, double* totals, float* extremes, unsigned* ends, unsigned n, unsigned n_rows, const double* actors, const unsigned* rules, const unsigned* slots, double* moving, unsigned n_places) {
  sim::rollout<sim::SingleTrack, sim::Euler, sim::AndLongitudinal<sim::LateralPid>, sim::Traffic>({cars, exact, whole, pieces, lines, settings, ring, totals, extremes, ends, n, n_rows, actors, rules, slots, moving, n_places});
}

extern "C" __global__ void __launch_bounds__(128, 2) rollout_pid_long_traffic_single_track_rk4(const float* cars, const double* exact, const unsigned* whole, const double* pieces, const double* lines, const float* settings, float* ring, double* totals, float* extremes, unsigned* ends, unsigned n, unsigned n_rows, const double* actors, const unsigned* rules, const unsigned* slots, double* moving, unsigned n_places) {
  sim::rollout<sim::SingleTrack, sim::Rk4, sim::AndLongitudinal<sim::LateralPid>, sim::Traffic>({cars, exact, whole, pieces, lines, settings, ring, totals, extremes, ends, n, n_rows, actors, rules, slots, moving, n_places});
}
