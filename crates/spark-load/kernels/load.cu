// Work for a GPU whose results are known beforehand.
//
//   load_fill         out[i] = i * 2654435761                                   words
//   load_sum          sums[t] = the words that thread t reads, added, modulo 2^32
//   load_arithmetic   out[t] = eight chains x = x * a + b of `rounds` steps, added
//
// 1. Sums of words do not depend on their order, so whatever the grid, all words together have one sum.
// 2. Threads of a warp read neighbouring groups of four words, and the grid strides over the rest. A thread has four loads under way
//    before it adds.
// 3. Eight chains a thread wait for themselves alone: the lanes of a multiprocessor are never idle at six blocks of it, and
//    memory plays no part.
// 4. Every step is one fused multiplication and addition, rounded once: the host's `f32::mul_add` gives the same bits.
//
// Deliberately absent: whatever else would make a rate larger.
//
// instructions: FFMA LDG.E.128

#define SPARK_LOAD_CHAINS 8

extern "C" __global__ void __launch_bounds__(256) load_fill(unsigned* out, unsigned n) {
  unsigned stride = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) out[i] = i * 2654435761u;
}

// n counts groups of four words.
extern "C" __global__ void __launch_bounds__(256) load_sum(unsigned* sums, const uint4* in, unsigned n) {
  unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned stride = gridDim.x * blockDim.x;
  unsigned sum = 0;
  unsigned i = thread;
  // i + 3 * stride < n
  for (; i < n && n - i > 3u * stride; i += 4u * stride) {
    uint4 a = in[i];
    uint4 b = in[i + stride];
    uint4 c = in[i + 2u * stride];
    uint4 d = in[i + 3u * stride];
    sum += ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
    sum += ((c.x + c.y) + (c.z + c.w)) + ((d.x + d.y) + (d.z + d.w));
  }
  for (; i < n; i += stride) {
    uint4 a = in[i];
    sum += (a.x + a.y) + (a.z + a.w);
  }
  sums[thread] = sum;
}

extern "C" __global__ void __launch_bounds__(256) load_arithmetic(float* out, float a, float b, unsigned rounds) {
  unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  float x[SPARK_LOAD_CHAINS];
#pragma unroll
  for (unsigned k = 0; k < SPARK_LOAD_CHAINS; ++k) x[k] = (float)(thread % 1024u) * 0.001953125f + (float)k * 0.125f;
#pragma unroll 16
  for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
    for (unsigned k = 0; k < SPARK_LOAD_CHAINS; ++k) x[k] = fmaf(x[k], a, b);
  }
  out[thread] = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}
