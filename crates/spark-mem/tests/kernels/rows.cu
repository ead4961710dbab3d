// Rows worked on by a block each: barriers, shuffles, shared memory.
//
//   out[row][i] = exp(in[row][i] - max) / sum(exp(in[row][j] - max))     softmax_rows_f32
//
//   for a row, with the block's 128 threads:
//     partial maximum per thread -> per warp (shuffles) -> per block (shared memory)
//     the same for the sum
//
// Dynamic shared memory keeps the row, so that it is read from global memory once.

#include "spark_warp.cuh"

constexpr unsigned THREADS = 128;
constexpr unsigned WARPS = THREADS / 32;

extern "C" __global__ void __launch_bounds__(128)
softmax_rows_f32(float* out, const float* in, unsigned n_columns) {
  SPARK_DYNAMIC_SHARED(float, row);
  __shared__ float of_warp[WARPS];
  const float* row_ptr = in + static_cast<size_t>(blockIdx.x) * n_columns;
  float* out_ptr = out + static_cast<size_t>(blockIdx.x) * n_columns;
  unsigned warp = threadIdx.x / 32;

  float largest = -SPARK_INFINITY;
  for (unsigned i = threadIdx.x; i < n_columns; i += THREADS) {
    row[i] = row_ptr[i];
    largest = row[i] > largest ? row[i] : largest;
  }
  largest = warp_max(largest);
  if (threadIdx.x % 32 == 0) of_warp[warp] = largest;
  __syncthreads();
  for (unsigned other = 0; other < WARPS; ++other) largest = of_warp[other] > largest ? of_warp[other] : largest;
  __syncthreads();

  float sum = 0.0f;
  for (unsigned i = threadIdx.x; i < n_columns; i += THREADS) {
    row[i] = expf(row[i] - largest);
    sum += row[i];
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) of_warp[warp] = sum;
  __syncthreads();
  sum = 0.0f;
  for (unsigned other = 0; other < WARPS; ++other) sum += of_warp[other];
  for (unsigned i = threadIdx.x; i < n_columns; i += THREADS) out_ptr[i] = row[i] / sum;
}
