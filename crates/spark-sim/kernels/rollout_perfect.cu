// The closed loop with perfect tracking; see rollout.cuh.
#include "controllers.cuh"
// options: --fmad=false

extern "C" __global__ void __launch_bounds__(128, 2) rollout_perfect_kinematic_euler(const float* cars, const double* exact, const unsigned* whole, const double* pieces, const double* lines, const float* settings, float* ring, double* totals, float* extremes, unsigned* ends, unsigned n, unsigned n_rows) {
  sim::rollout<sim::Kinematic, sim::Euler, sim::PerfectTracking>({cars, exact, whole, pieces, lines, settings, ring, totals, extremes, ends, n, n_rows});
}

extern "C" __global__ void __launch_bounds__(128, 2) rollout_perfect_kinematic_rk4(const float* cars, const double* exact, const unsigned* whole, const double* pieces, const double* lines, const float* settings, float* ring, double* totals, float* extremes, unsigned* ends, unsigned n, unsigned n_rows) {
  sim::rollout<sim::Kinematic, sim::Rk4, sim::PerfectTracking>({cars, exact, whole, pieces, lines, settings, ring, totals, extremes, ends, n, n_rows});
}

extern "C" __global__ void __launch_bounds__(128, 2) rollout_perfect_single_track_euler(const float* cars, const double* exact, const unsigned* whole, const double* pieces, const double* lines, const float* settings, float* ring, double* totals, float* extremes, unsigned* ends, unsigned n, unsigned n_rows) {
  sim::rollout<sim::SingleTrack, sim::Euler, sim::PerfectTracking>({cars, exact, whole, pieces, lines, settings, ring, totals, extremes, ends, n, n_rows});
}

extern "C" __global__ void __launch_bounds__(128, 2) rollout_perfect_single_track_rk4(const float* cars, const double* exact, const unsigned* whole, const double* pieces, const double* lines, const float* settings, float* ring, double* totals, float* extremes, unsigned* ends, unsigned n, unsigned n_rows) {
  sim::rollout<sim::SingleTrack, sim::Rk4, sim::PerfectTracking>({cars, exact, whole, pieces, lines, settings, ring, totals, extremes, ends, n, n_rows});
}
