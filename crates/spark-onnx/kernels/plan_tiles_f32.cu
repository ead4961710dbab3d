// Products of f32 without tensor cores, a block 64 x 64 of the result: convolution as an implicit GEMM, and linear layers.
//
//   y[m, n] = f(sum over k of a[m, k] * w[k, n] + bias[n] [+ residual[m, n]])      a as in plan_positions.cuh, by element
//
//   for each 16 of K, by 128 threads:
//     64 x 16 of a and 16 x 64 of w -> registers, while the 16 before are multiplied -> shared memory
//     for each k:  4 values of a and 8 of w -> 32 products of a thread
//   f(sums) -> y
//
// 1. A value that was loaded serves 32 threads' products, one from shared memory 4 or 8 of them.
// 2. a lies in shared memory as [k][m], so that a thread's 4 rows are one load.
// 3. Where rows of y lie in x is worked out once and kept in shared memory.
//
// Sums are f32 and fused, k in order: bits are those of `plan_conv` and `plan_matmul`, but for the sign of a zero. w is f32 or
// f16, in the order of those kernels; weights that are not finite are theirs. Not yet run on real hardware.

#include "plan_positions.cuh"

namespace {

constexpr unsigned THREADS = 128;
constexpr unsigned M = 64, N = 64, K = 16;
constexpr unsigned ROWS = 4, COLUMNS = 8;  // of a thread
constexpr unsigned A_ROW = M + 4;          // floats between k of a, so that what lanes store lies in different banks
constexpr unsigned A_EACH = M * K / THREADS, W_EACH = K * N / THREADS;

constexpr unsigned A_STAGE = K * A_ROW, W_STAGE = K * N, STAGES = 2;

struct Memory {
  float values[STAGES * (A_STAGE + W_STAGE)];  // stages of a, then of w; in the end the sums
  Row rows[M];
};
static_assert(STAGES * (A_STAGE + W_STAGE) >= M * N, "sums lie where the stages were");

__device__ __forceinline__ float weight_at(const float* w, unsigned long long index) { return w[index]; }
__device__ __forceinline__ float weight_at(const unsigned short* w, unsigned long long index) {
  return plan_float_of_half(w[index]);
}

template <class W>
__device__ __forceinline__ void compute(const PlanBlocks& blocks, const PlanTiles& tiles, Memory& memory) {
  unsigned tiles_n = (tiles.n + N - 1) / N, tiles_m = (tiles.m + M - 1) / M;
  unsigned first_n = blockIdx.x % tiles_n * N, rest = blockIdx.x / tiles_n;
  unsigned first_m = rest % tiles_m * M, group = rest / tiles_m;
  if (threadIdx.x < M) {
    long long from = group * tiles.x.strides[TILES_GROUP];
    memory.rows[threadIdx.x] = row_of(tiles, first_m + threadIdx.x, from);
  }
  __syncthreads();

  const float* x = reinterpret_cast<const float*>(plan_read(blocks, tiles.x.place));
  const PlanPiece* pieces = reinterpret_cast<const PlanPiece*>(blocks.constants + tiles.pieces);
  const W* w = reinterpret_cast<const W*>(plan_read(blocks, tiles.weights) + group * tiles.weights_stride);
  // Neighbouring threads bring neighbouring channels of x, and neighbouring columns of w.
  unsigned a_k = threadIdx.x % K, a_row = threadIdx.x / K;
  unsigned w_column = threadIdx.x % N, w_k = threadIdx.x / N;
  float a_next[A_EACH], w_next[W_EACH];
  auto load = [&](unsigned stage) {
    PlanPiece piece = piece_at(pieces, stage * K + a_k, tiles.k);
#pragma unroll
    for (unsigned i = 0; i < A_EACH; ++i) {
      const Row& row = memory.rows[a_row + i * (THREADS / K)];
      bool is_there = piece.bytes != 0 && is_inside(tiles, row, piece);
      a_next[i] = is_there ? x[row.first + piece.offset] : 0.0f;
    }
#pragma unroll
    for (unsigned i = 0; i < W_EACH; ++i) {
      unsigned k = stage * K + w_k + i * (THREADS / N), n = first_n + w_column;
      bool is_there = k < tiles.k && n < tiles.n;
      w_next[i] = is_there ? weight_at(w, static_cast<unsigned long long>(k) * tiles.n + n) : 0.0f;
    }
  };
  auto a_stage = [&](unsigned stage) { return memory.values + stage % STAGES * A_STAGE; };
  auto w_stage = [&](unsigned stage) { return memory.values + STAGES * A_STAGE + stage % STAGES * W_STAGE; };
  auto store = [&](unsigned stage) {
    float *a_to = a_stage(stage) + a_k * A_ROW + a_row, *w_to = w_stage(stage) + w_k * N + w_column;
#pragma unroll
    for (unsigned i = 0; i < A_EACH; ++i) a_to[i * (THREADS / K)] = a_next[i];
#pragma unroll
    for (unsigned i = 0; i < W_EACH; ++i) w_to[i * (THREADS / N) * N] = w_next[i];
  };

  unsigned row = threadIdx.x / (N / COLUMNS) * ROWS, column = threadIdx.x % (N / COLUMNS) * COLUMNS;
  float sums[ROWS][COLUMNS] = {};
  unsigned n_stages = (tiles.k + K - 1) / K;
  load(0);
  store(0);
  __syncthreads();
  for (unsigned stage = 0; stage < n_stages; ++stage) {
    if (stage + 1 < n_stages) load(stage + 1);
    const float *a_from = a_stage(stage) + row, *w_from = w_stage(stage) + column;
#pragma unroll 4
    for (unsigned k = 0; k < K; ++k) {
      float4 a = *reinterpret_cast<const float4*>(a_from + k * A_ROW);
      float4 low = *reinterpret_cast<const float4*>(w_from + k * N);
      float4 high = *reinterpret_cast<const float4*>(w_from + k * N + 4);
      float a_values[ROWS] = {a.x, a.y, a.z, a.w};
      float w_values[COLUMNS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (unsigned i = 0; i < ROWS; ++i) {
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; ++j) sums[i][j] += a_values[i] * w_values[j];
      }
    }
    // The other half was read before the barrier of the round before.
    if (stage + 1 < n_stages) store(stage + 1);
    __syncthreads();
  }

  // Through shared memory, so that the epilogue stands in the code once. The last barrier has ended what was read there.
#pragma unroll
  for (unsigned i = 0; i < ROWS; ++i) {
#pragma unroll
    for (unsigned j = 0; j < COLUMNS; ++j) memory.values[(row + i) * N + column + j] = sums[i][j];
  }
  __syncthreads();
  unsigned char* y = plan_write(blocks, tiles.y.place);
#pragma unroll 1
  for (unsigned idx = threadIdx.x; idx < M * N; idx += THREADS) {
    unsigned m = first_m + idx / N, n = first_n + idx % N;
    if (m >= tiles.m || n >= tiles.n) continue;
    // Before the epilogue, whose functions call others: what lives through a call costs registers.
    long long to = position_of(tiles, tiles.y.strides, m, group) + n;
    long long residual = position_of(tiles, tiles.epilogue.residual.strides, m, group) + n;
    float value = plan_epilogue(blocks, tiles.epilogue, memory.values[idx], group * tiles.n + n, residual);
    plan_store(y, tiles.y.place.storage, to, value);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128, 4) plan_tiles_f32(PLAN_BLOCKS, PlanTiles tiles) {
  __shared__ __align__(16) Memory memory;
  PlanBlocks blocks{arena, outputs, inputs, constants};
  compute<float>(blocks, tiles, memory);
}

extern "C" __global__ void __launch_bounds__(128, 4) plan_tiles_f32_f16(PLAN_BLOCKS, PlanTiles tiles) {
  __shared__ __align__(16) Memory memory;
  PlanBlocks blocks{arena, outputs, inputs, constants};
  compute<unsigned short>(blocks, tiles, memory);
}
