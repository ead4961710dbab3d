// What products on tensor cores share: tiles, their stages in shared memory, and the sums of mma.
//
//   for each stage (TILE_K of K):
//     bring the next stage to shared memory, in the background
//     for each 16 of K:  ldmatrix brings rows of a, `load_b` the other operand, mma adds their products to the sums
//   sums -> shared memory, a part for each warp along K
//
// 1. Two stages: while one is multiplied the next is under way.
// 2. The 16-byte pieces of a row are exchanged by the row, so that the eight rows that an ldmatrix reads lie in
//    different banks.
//
// Fragments are those of the PTX ISA, "Matrix Fragments for mma.m16n8k16".
#pragma once

#include "plan_math.cuh"

namespace {

constexpr unsigned THREADS = 128;
constexpr unsigned WARPS = 4;
constexpr unsigned STAGES = 2;
constexpr unsigned PIECE = 16;  // bytes: 8 values
constexpr unsigned STRIP = 16;  // columns of two mma
constexpr unsigned K_BLOCK = 16;
constexpr unsigned GAP = 8;  // floats between rows of sums, so that lanes write to different banks

// Where a piece of a row lies in a stage, of rows of so many pieces.
template <unsigned PIECES>
__device__ __forceinline__ unsigned place(unsigned row, unsigned piece) {
  unsigned turn = PIECES == 4 ? row / 2 % 4 : row % 8;
  return (row * PIECES + (piece ^ turn)) * PIECE;
}

template <unsigned TILE_M, unsigned TILE_N, unsigned TILE_K, unsigned ALONG_M, unsigned ALONG_N, unsigned ALONG_K>
struct Tile {
  static constexpr unsigned M = TILE_M, N = TILE_N, K = TILE_K;
  static constexpr unsigned WARPS_M = ALONG_M, WARPS_N = ALONG_N, WARPS_K = ALONG_K;
  static constexpr unsigned PIECES = K / 8;  // of a row of a
  static constexpr unsigned K_BLOCKS = K / K_BLOCK;
  static constexpr unsigned ROWS_APART = THREADS / PIECES;
  static constexpr unsigned ROWS = M / ROWS_APART;  // of a, that one thread brings
  static constexpr unsigned WARP_M = M / WARPS_M, WARP_N = N / WARPS_N;
  static constexpr unsigned ROW_TILES = WARP_M / 16, STRIPS = WARP_N / STRIP;
  static constexpr unsigned A_BYTES = M * K * 2, STAGE_BYTES = A_BYTES + N * K * 2;
  static constexpr unsigned SUM_ROW = N + GAP;
  static constexpr unsigned SUM_BYTES = WARPS_K * M * SUM_ROW * 4;
  static constexpr unsigned BYTES = STAGES * STAGE_BYTES > SUM_BYTES ? STAGES * STAGE_BYTES : SUM_BYTES;
  static_assert(WARPS_M * WARPS_N * WARPS_K == WARPS && K_BLOCKS % WARPS_K == 0, "warps share a stage evenly");

  // Row and column of a warp in the tile, and its part of each stage.
  static __device__ __forceinline__ unsigned warp_m() { return threadIdx.x / 32 / WARPS_K / WARPS_N; }
  static __device__ __forceinline__ unsigned warp_n() { return threadIdx.x / 32 / WARPS_K % WARPS_N; }
  static __device__ __forceinline__ unsigned warp_k() { return threadIdx.x / 32 % WARPS_K; }
};

// Multiplies `n_stages` stages in `memory` (T::BYTES of it) and leaves the sums there. `bring(stage, to)` begins to copy a
// stage to `to`: a first, then the other operand; `load_b(words, b, strip, block)` brings the fragments of two mma, those of
// 16 columns and 16 of K, from that operand.
template <class T, class Bring, class LoadB>
__device__ __forceinline__ void multiply(unsigned char* memory, unsigned n_stages, Bring bring, LoadB load_b) {
  unsigned lane = threadIdx.x % 32;
  float sums[T::ROW_TILES][2 * T::STRIPS][4] = {};
  if (n_stages > 0) bring(0, memory);
  commit_copies();
  for (unsigned stage = 0; stage < n_stages; ++stage) {
    if (stage + 1 < n_stages) bring(stage + 1, memory + (stage + 1) % STAGES * T::STAGE_BYTES);
    // Also where nothing was copied: waiting for all groups but one then means this stage.
    commit_copies();
    wait_copies_but_one();
    __syncthreads();
    const unsigned char* from = memory + stage % STAGES * T::STAGE_BYTES;
#pragma unroll
    for (unsigned step = 0; step < T::K_BLOCKS / T::WARPS_K; ++step) {
      unsigned block = T::warp_k() * (T::K_BLOCKS / T::WARPS_K) + step;
      unsigned a[T::ROW_TILES][4], b[T::STRIPS][4];
#pragma unroll
      for (unsigned tile = 0; tile < T::ROW_TILES; ++tile) {
        unsigned row = T::warp_m() * T::WARP_M + 16 * tile + lane % 16;
        load_matrix_x4(a[tile], from + place<T::PIECES>(row, 2 * block + lane / 16));
      }
#pragma unroll
      for (unsigned strip = 0; strip < T::STRIPS; ++strip) {
        load_b(b[strip], from + T::A_BYTES, T::warp_n() * T::STRIPS + strip, block);
      }
#pragma unroll
      for (unsigned tile = 0; tile < T::ROW_TILES; ++tile) {
#pragma unroll
        for (unsigned column = 0; column < 2 * T::STRIPS; ++column) {
          float* sum = sums[tile][column];
          mma_m16n8k16_f16(sum, a[tile], b[column / 2] + column % 2 * 2, sum);
        }
      }
    }
    // The next round, or the sums, overwrite what was just read.
    __syncthreads();
  }

  float* all_sums = reinterpret_cast<float*>(memory);
#pragma unroll
  for (unsigned tile = 0; tile < T::ROW_TILES; ++tile) {
#pragma unroll
    for (unsigned column = 0; column < 2 * T::STRIPS; ++column) {
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        unsigned row = T::warp_m() * T::WARP_M + 16 * tile + 8 * half + lane / 4;
        unsigned at = T::warp_n() * T::WARP_N + 8 * column + lane % 4 * 2;
        float* to = all_sums + (T::warp_k() * T::M + row) * T::SUM_ROW + at;
        *reinterpret_cast<float2*>(to) = make_float2(sums[tile][column][2 * half], sums[tile][column][2 * half + 1]);
      }
    }
  }
  __syncthreads();
}

// One sum of those that `multiply` left.
template <class T>
__device__ __forceinline__ float sum_at(const unsigned char* memory, unsigned row, unsigned column) {
  const float* all_sums = reinterpret_cast<const float*>(memory) + row * T::SUM_ROW + column;
  float sum = all_sums[0];
#pragma unroll
  for (unsigned part = 1; part < T::WARPS_K; ++part) sum += all_sums[part * T::M * T::SUM_ROW];
  return sum;
}

}  // namespace
