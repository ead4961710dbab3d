// One step of a wave along a string: every point is pulled towards its neighbours.
//
//   next[i] = 2 now[i] - before[i] + c2 * (now[i-1] - 2 now[i] + now[i+1])
//
// The ends are held at 0.

extern "C" __global__ void wave_step_f32(float* next, const float* now, const float* before, float c2, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  bool is_end = i == 0 || i == n - 1;
  float pull = is_end ? 0.0f : now[i - 1] - 2.0f * now[i] + now[i + 1];
  next[i] = is_end ? 0.0f : 2.0f * now[i] - before[i] + c2 * pull;
}
