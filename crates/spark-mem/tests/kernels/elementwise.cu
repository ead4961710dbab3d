// Element-wise kernels: one thread per element.
//
//   out[i] = factor * in[i]                       scale_f32
//   out[i] += in[i]                               accumulate_f32
//   out[i / 64] += 1 if in[i] is above threshold  count_above_f32   (atomics across blocks)

extern "C" __global__ void scale_f32(float* out, const float* in, float factor, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = factor * in[i];
}

extern "C" __global__ void accumulate_f32(float* out, const float* in, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += in[i];
}

extern "C" __global__ void count_above_f32(unsigned* out, const float* in, float threshold,
                                           unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && in[i] > threshold) atomicAdd(&out[i / 64], 1u);
}
