// Memory bandwidth as a kernel sees it: one load or store of 16 bytes per thread and turn.
//
//   read_f32    out[0] = 1 if the sum of a thread's values is a value it cannot be
//   write_f32   out[i] = value
//   copy_f32    out[i] = in[i]
//
// n counts groups of four floats. Threads of a warp touch neighbouring groups, and the grid
// strides over the rest, so that any grid covers any n.

extern "C" __global__ void __launch_bounds__(256) read_f32(float* out, const float4* in, unsigned n) {
  float sum = 0.0f;
  unsigned stride = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    float4 four = in[i];
    sum += four.x + four.y + four.z + four.w;
  }
  // Inputs are not negative; the store keeps the loads from being left out.
  if (sum < 0.0f) out[0] = 1.0f;
}

extern "C" __global__ void __launch_bounds__(256) write_f32(float4* out, float value, unsigned n) {
  unsigned stride = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    out[i] = make_float4(value, value, value, value);
  }
}

extern "C" __global__ void __launch_bounds__(256) copy_f32(float4* out, const float4* in, unsigned n) {
  unsigned stride = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) out[i] = in[i];
}
