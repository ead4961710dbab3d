// A kernel that keeps more values than its registers hold: `cargo xtask kernels` must find
// that it spills. It is part of no program.

extern "C" __global__ void __launch_bounds__(1024) spills_f32(float* out, const float* in) {
  float kept[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) kept[i] = in[threadIdx.x + 1024 * i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 96; ++i) out[threadIdx.x + 1024 * i] = kept[95 - i] * kept[(7 * i) % 96];
}
