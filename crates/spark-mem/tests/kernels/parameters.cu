// Kernels with many parameters, structures by value, constants and static shared memory.
//
//   out[i] = in[i] * scale.factor + scale.offset[i % 3] + sum of sixteen numbers    many_f32
//   out[i] = weights[i % 4] * in[i]                                                 weighted_f32
//   out[i] = in of the mirrored element of the block, through shared memory         mirror_f32

#include "spark_warp.cuh"

struct Scale {
  double factor;
  float offset[3];
  unsigned n;
};

extern "C" __global__ void many_f32(float* out, const float* in, Scale scale, unsigned char a0, signed char a1,
                                    unsigned short a2, short a3, unsigned a4, int a5, unsigned long long a6,
                                    long long a7, float a8, double a9, float a10, float a11, float a12, float a13,
                                    float a14, float a15, unsigned last) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= scale.n || i > last) return;
  double sum = (double)a0 + a1 + a2 + a3 + a4 + a5 + (double)a6 + (double)a7;
  sum += (double)a8 + a9 + a10 + a11 + a12 + a13 + a14 + a15;
  out[i] = (float)(in[i] * scale.factor + scale.offset[i % 3] + sum);
}

__constant__ float weights[4];

extern "C" __global__ void weighted_f32(float* out, const float* in, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = weights[i % 4] * in[i];
}

extern "C" __global__ void mirror_f32(float* out, const float* in, unsigned n_dynamic) {
  __shared__ float tile[8192];
  SPARK_DYNAMIC_SHARED(float, other);
  unsigned i = threadIdx.x;
  tile[i] = in[blockIdx.x * blockDim.x + i];
  other[n_dynamic - 1 - i] = tile[i];
  __syncthreads();
  out[blockIdx.x * blockDim.x + i] = other[n_dynamic - blockDim.x + i];
}
